//! What a check said, and what two readings of it prove.
//!
//! These are plain values: readers in `runners` make them, rows keep them, pages show them.

use serde::{Deserialize, Serialize};

use crate::check::Tool;

/// What one run of one check means.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "why")]
pub enum CheckOutcome {
    /// Exit 0 and a positive witness.
    Passed,
    /// A test failed or a diagnostic of severity error was found.
    Failed,
    /// Nothing can be concluded: killed, truncated, nothing collected, no report, disagreement.
    Inconclusive(String),
    /// No reader for this.
    Unsupported(String),
}

/// State of one test.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestState {
    Passed,
    Failed,
    /// Set-up, tear-down or collection went wrong.
    Errored,
    Skipped,
    /// Failed as expected (`xfail`).
    ExpectedFailure,
}

/// One test as its framework names it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TestCase {
    /// Stable over two runs of the same tree; unique within the report.
    pub id: String,
    pub state: TestState,
}

/// One failing test.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TestFailure {
    /// The full human name.
    pub name: String,
    /// Relative to the repository where known.
    pub file: Option<String>,
    /// 1-based.
    pub line: Option<u32>,
    /// First line or so; at most 1,000 bytes.
    pub message: String,
    /// At most 4,000 bytes.
    pub excerpt: String,
}

/// How grave a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    Error,
    Warning,
    Note,
}

/// One finding of a compiler or linter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Relative to the repository where known; empty when the tool gives none.
    pub file: String,
    /// 1-based.
    pub line: Option<u32>,
    /// 1-based.
    pub column: Option<u32>,
    pub severity: Severity,
    pub code: Option<String>,
    /// At most 2,000 bytes.
    pub message: String,
}

impl Diagnostic {
    /// What names the same finding after lines have moved: file, code and message.
    pub fn fingerprint(&self) -> (&str, Option<&str>, &str) {
        (&self.file, self.code.as_deref(), &self.message)
    }
}

/// The tool's own counts; `None` where it gives none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    pub passed: Option<u64>,
    pub failed: Option<u64>,
    pub skipped: Option<u64>,
    pub errors: Option<u64>,
}

/// What one run of one check said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    pub tool: Tool,
    pub outcome: CheckOutcome,
    pub counts: Counts,
    /// Every test that the report names, sorted by id.
    pub tests: Vec<TestCase>,
    pub failures: Vec<TestFailure>,
    pub diagnostics: Vec<Diagnostic>,
    /// Plain sentences: disagreements, what was cut, what a reader should know.
    pub notes: Vec<String>,
}

impl Report {
    /// A report that proves nothing, with the reason.
    pub fn inconclusive(tool: Tool, why: impl Into<String>) -> Self {
        Self {
            tool,
            outcome: CheckOutcome::Inconclusive(why.into()),
            counts: Counts::default(),
            tests: Vec::new(),
            failures: Vec::new(),
            diagnostics: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// One check, its command's exit and its report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckResult {
    /// The admitted check's name.
    pub name: String,
    /// The exit code; `None` when it was killed.
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// Digest of the kept output, in the artifact folder.
    pub output: Option<crate::digest::Digest>,
    pub report: Report,
}

/// All checks on one tree.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    pub checks: Vec<CheckResult>,
}

impl Checked {
    /// Whether every check passed, and there is at least one.
    pub fn all_passed(&self) -> bool {
        !self.checks.is_empty()
            && self.checks.iter().all(|check| check.report.outcome == CheckOutcome::Passed)
    }
}

/// A test of a check; of a check that names none of its tests the id is empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct NamedTest {
    pub check: String,
    pub id: String,
}

/// What comparing the baseline with the changed tree proves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "why")]
pub enum Verdict {
    /// The baseline was green: nothing to repair.
    NothingToRepair,
    /// Red before, every check green now, no test lost, no new diagnostic, nothing suppressed.
    Repaired,
    /// Something is still red, or turned red.
    NotRepaired(Vec<String>),
    /// It looks green but is not believed: vanished tests, suppressions, changed checks.
    Refused(Vec<String>),
    /// Nothing can be concluded.
    Inconclusive(Vec<String>),
}
