//! What a job is verified by: named commands, as argument arrays, each read by one tool's reader.

use serde::{Deserialize, Serialize};

/// A test framework or diagnostics tool whose output can be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    Pytest,
    CargoTest,
    CargoNextest,
    Jest,
    GoTest,
    Surefire,
    Gradle,
    DotnetTest,
    Ctest,
    Pyright,
    Tsc,
    CargoCheck,
    Clippy,
    GoVet,
    Eslint,
    Ruff,
    /// Any framework that writes JUnit XML.
    Junit,
    /// Any framework that prints TAP.
    Tap,
    /// Any linter that writes SARIF.
    Sarif,
}

/// Whether a tool runs tests or reports diagnostics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolKind {
    Tests,
    Diagnostics,
}

impl Tool {
    /// Every tool, in the order in which pages list them.
    pub const ALL: [Tool; 19] = [
        Tool::Pytest,
        Tool::CargoTest,
        Tool::CargoNextest,
        Tool::Jest,
        Tool::GoTest,
        Tool::Surefire,
        Tool::Gradle,
        Tool::DotnetTest,
        Tool::Ctest,
        Tool::Pyright,
        Tool::Tsc,
        Tool::CargoCheck,
        Tool::Clippy,
        Tool::GoVet,
        Tool::Eslint,
        Tool::Ruff,
        Tool::Junit,
        Tool::Tap,
        Tool::Sarif,
    ];

    /// The name in configuration, rows and pages.
    pub const fn name(self) -> &'static str {
        match self {
            Tool::Pytest => "pytest",
            Tool::CargoTest => "cargo-test",
            Tool::CargoNextest => "cargo-nextest",
            Tool::Jest => "jest",
            Tool::GoTest => "go-test",
            Tool::Surefire => "surefire",
            Tool::Gradle => "gradle",
            Tool::DotnetTest => "dotnet-test",
            Tool::Ctest => "ctest",
            Tool::Pyright => "pyright",
            Tool::Tsc => "tsc",
            Tool::CargoCheck => "cargo-check",
            Tool::Clippy => "clippy",
            Tool::GoVet => "go-vet",
            Tool::Eslint => "eslint",
            Tool::Ruff => "ruff",
            Tool::Junit => "junit",
            Tool::Tap => "tap",
            Tool::Sarif => "sarif",
        }
    }

    /// Whether it runs tests or reports diagnostics.
    pub const fn kind(self) -> ToolKind {
        match self {
            Tool::Pytest
            | Tool::CargoTest
            | Tool::CargoNextest
            | Tool::Jest
            | Tool::GoTest
            | Tool::Surefire
            | Tool::Gradle
            | Tool::DotnetTest
            | Tool::Ctest
            | Tool::Junit
            | Tool::Tap => ToolKind::Tests,
            Tool::Pyright
            | Tool::Tsc
            | Tool::CargoCheck
            | Tool::Clippy
            | Tool::GoVet
            | Tool::Eslint
            | Tool::Ruff
            | Tool::Sarif => ToolKind::Diagnostics,
        }
    }
}

/// A name that no tool has.
#[derive(Debug, thiserror::Error)]
#[error("unknown tool {0:?}; use one of the known names, or `junit`, `tap` or `sarif` with a report path")]
pub struct UnknownTool(pub String);

impl std::str::FromStr for Tool {
    type Err = UnknownTool;
    fn from_str(text: &str) -> Result<Self, UnknownTool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == text).ok_or_else(|| UnknownTool(text.to_owned()))
    }
}

/// One command that must pass, as it was admitted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Unique within the job.
    pub name: String,
    /// Which reader understands its output.
    pub tool: Tool,
    /// The command; never a shell string, never empty.
    pub argv: Vec<String>,
    /// Where it runs, relative to the root of the repository; empty for the root.
    #[serde(default)]
    pub directory: String,
    /// Report files that a generic reader takes (`junit`, `sarif`), relative to `directory`.
    #[serde(default)]
    pub reports: Vec<String>,
    /// The whole time it may take.
    pub timeout_ms: u64,
    /// Bytes of output that are kept; more is a truncated, so inconclusive, report.
    pub max_output_bytes: u64,
}

impl Check {
    /// A check with the default bounds: ten minutes and 16 MiB of output.
    pub fn new(name: &str, tool: Tool, argv: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            tool,
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            directory: String::new(),
            reports: Vec::new(),
            timeout_ms: 600_000,
            max_output_bytes: 16 << 20,
        }
    }
}

/// The checks that a repository asks for by what it is, where its policy names none.
///
/// `has` tells whether a path (file or folder) exists at the root of the base commit.
pub fn discover(has: impl Fn(&str) -> bool) -> Vec<Check> {
    let mut checks = Vec::new();
    if has("Cargo.toml") {
        checks.push(Check::new(
            "cargo check",
            Tool::CargoCheck,
            &["cargo", "check", "--workspace", "--all-targets"],
        ));
        checks.push(Check::new(
            "clippy",
            Tool::Clippy,
            &["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        ));
        checks.push(Check::new(
            "cargo test",
            Tool::CargoTest,
            &["cargo", "test", "--workspace", "--no-fail-fast"],
        ));
    }
    let python = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"].into_iter().any(&has);
    if python || (has("tests") && !has("Cargo.toml") && !has("package.json") && !has("go.mod")) {
        checks.push(Check::new("ruff", Tool::Ruff, &["ruff", "check", "."]));
        checks.push(Check::new("pytest", Tool::Pytest, &["python3", "-m", "pytest"]));
    }
    checks
}
