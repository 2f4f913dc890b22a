//! The tools themselves, run sealed by the loop that checks a tree, each on a project that passes and on one
//! that does not: what is read must be what is there. Each project lies in `tests/fixtures/projects/`.
//!
//! Gradle and `dotnet test` are packaged by no registry that `.ci/run` installs from; the corpus of recorded
//! outputs stands for them.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobs::check::{Check, Tool};
use jobs::clock::SystemClock;
use jobs::job::{Goal, Guard, Limits};
use jobs::run::{Outcome, RunState};
use jobs::verdict::{CheckOutcome, Report, Severity, TestState};
use receipts::Signer;
use runners::executor::EgressSettings;
use runners::local::{self, LocalAgent, LocalRequest};
use runners::sandbox::{Bind, Embedded};
use runners::toolchains::{Host, Toolchains, detect};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Where containers see the packages of npm that `.ci/run` installs.
const NODE_PACKAGES: &str = "/opt/whipstitch/node";

/// A sandbox and the tools that a test needs.
struct Bed {
    sandbox: Arc<Embedded>,
    toolchains: Toolchains,
}

impl Bed {
    /// `None`, with a word, where this machine lacks one of the programs; CI has them all.
    fn with(programs: &[&str]) -> Option<Self> {
        let sandbox = Arc::new(common::sandbox()?);
        let toolchains = detect(&Host::from_env());
        match programs.iter().find(|program| !toolchains.has(program)) {
            None => Some(Self { sandbox, toolchains }),
            Some(absent) => skip(absent),
        }
    }

    /// The same with a program of a package of npm.
    fn with_package(program: &str) -> Option<Self> {
        let mut bed = Self::with(&["node"])?;
        let packages = std::env::var_os("WHIPSTITCH_TEST_NODE").map_or_else(
            || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/whipstitch/node"),
            PathBuf::from,
        );
        if !packages.join("node_modules/.bin").join(program).exists() {
            return skip(program);
        }
        bed.toolchains.binds.push(Bind { host: packages, inside: NODE_PACKAGES.into() });
        let path = bed.toolchains.environment.entry("PATH".to_owned()).or_default();
        *path = format!("{NODE_PACKAGES}/node_modules/.bin:{path}");
        Some(bed)
    }

    /// What the check says of a project, through the whole loop, and whether the run ended as it must.
    async fn read(&self, project: &str, check: &Check) -> Report {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("project");
        copy(&fixtures().join(project), &path);
        let request = LocalRequest {
            path,
            goal: Goal::Verify,
            checks: vec![check.clone()],
            agent: LocalAgent::Fixers,
            limits: Limits::default(),
            guard: Guard::default(),
            sandbox: self.sandbox.clone(),
            toolchains: self.toolchains.clone(),
            egress: EgressSettings::default(),
            models: runners::agents::Models::new(),
            signer: Arc::new(Signer::from_seed(&[7; 32])),
            clock: Arc::new(SystemClock),
            data_dir: folder.path().join("data"),
            progress: broadcast::channel(64).0,
        };
        let done = local::repair(request, CancellationToken::new()).await.unwrap();
        let Some(checked) = done.baseline else { panic!("{project}: {:#?}", done.view.steps) };
        let report = checked.checks[0].report.clone();
        let succeeded = done.state == RunState::Finished { outcome: Outcome::Succeeded };
        assert_eq!(succeeded, report.outcome == CheckOutcome::Passed, "{project}: {report:#?}");
        report
    }

    /// Both projects of one tool, each held against what is there.
    async fn both(&self, folder: &str, check: &Check, passing: &[&str], failing: &[&str]) -> Report {
        let read = self.read(&format!("{folder}/passing"), check).await;
        assert_eq!(told(&read), passing, "{read:#?}");
        let read = self.read(&format!("{folder}/failing"), check).await;
        assert_eq!(told(&read), failing, "{read:#?}");
        read
    }
}

fn skip<T>(absent: &str) -> Option<T> {
    assert!(std::env::var_os("WHIPSTITCH_CI").is_none(), "CI must have {absent}");
    eprintln!("skipped: this machine has no {absent}");
    None
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/projects")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A report as lines: the outcome with the counts, each test, the place of each failure and finding.
fn told(report: &Report) -> Vec<String> {
    let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    let counts = report.counts;
    let mut lines = vec![match &report.outcome {
        CheckOutcome::Passed => "passed".to_owned(),
        CheckOutcome::Failed => "failed".to_owned(),
        CheckOutcome::Inconclusive(why) => format!("inconclusive: {why}"),
        CheckOutcome::Unsupported(what) => format!("unsupported: {what}"),
    }];
    if report.tool.kind() == jobs::check::ToolKind::Tests {
        let (passed, failed, skipped) = (count(counts.passed), count(counts.failed), count(counts.skipped));
        lines[0].push_str(&format!(" ({passed} passed, {failed} failed, {skipped} skipped)"));
    }
    lines.extend(report.tests.iter().map(|test| {
        let state = match test.state {
            TestState::Passed => "passed",
            TestState::Failed => "failed",
            TestState::Errored => "errored",
            TestState::Skipped => "skipped",
            TestState::ExpectedFailure => "expected to fail",
        };
        format!("{}: {state}", test.id)
    }));
    let line = |line: Option<u32>| line.map_or("-".to_owned(), |line| line.to_string());
    lines.extend(report.failures.iter().map(|failure| {
        let file = failure.file.as_deref().unwrap_or("-");
        format!("{} at {file}:{}", failure.name, line(failure.line))
    }));
    lines.extend(report.diagnostics.iter().map(|found| {
        let severity = match found.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let code = found.code.as_deref().unwrap_or("-");
        format!("{}:{}:{}: {severity} {code}", found.file, line(found.line), line(found.column))
    }));
    lines
}

fn message(report: &Report) -> &str {
    match (report.failures.first(), report.diagnostics.first()) {
        (Some(failure), _) => &failure.message,
        (None, Some(found)) => &found.message,
        (None, None) => panic!("nothing failed: {report:#?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pytest_is_read_as_it_ran() {
    let Some(bed) = Bed::with(&["python3", "pytest"]) else { return };
    let check = Check::new("unit tests", Tool::Pytest, &["python3", "-m", "pytest"]);
    let passing = [
        "passed (3 passed, 0 failed, 1 skipped)",
        "tests/test_sums.py::test_adds: passed",
        "tests/test_sums.py::test_halves: skipped",
        "tests/test_sums.py::test_zero_adds_nothing[0]: passed",
        "tests/test_sums.py::test_zero_adds_nothing[7]: passed",
    ];
    let failing = [
        "failed (2 passed, 1 failed, 1 skipped)",
        "tests/test_sums.py::test_adds: failed",
        "tests/test_sums.py::test_halves: skipped",
        "tests/test_sums.py::test_zero_adds_nothing[0]: passed",
        "tests/test_sums.py::test_zero_adds_nothing[7]: passed",
        "tests/test_sums.py::test_adds at tests/test_sums.py:7",
    ];
    let read = bed.both("pytest", &check, &passing, &failing).await;
    assert!(message(&read).contains("assert -1 == 5"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn cargo_test_is_read_as_it_ran() {
    let Some(bed) = Bed::with(&["cargo", "rustdoc", "cc"]) else { return };
    let check = Check::new("cargo test", Tool::CargoTest, &["cargo", "test"]);
    let passing = [
        "passed (3 passed, 0 failed, 1 skipped)",
        "sums (doc)::src/lib.rs - add (line 5): passed",
        "sums (tests/sums.rs)::adds: passed",
        "sums (tests/sums.rs)::halves: skipped",
        "sums (tests/sums.rs)::zero_adds_nothing: passed",
    ];
    let failing = [
        "failed (1 passed, 2 failed, 1 skipped)",
        "sums (doc)::src/lib.rs - add (line 5): failed",
        "sums (tests/sums.rs)::adds: failed",
        "sums (tests/sums.rs)::halves: skipped",
        "sums (tests/sums.rs)::zero_adds_nothing: passed",
        "adds at tests/sums.rs:5",
        "src/lib.rs - add (line 5) at src/lib.rs:5",
    ];
    let read = bed.both("cargo-test", &check, &passing, &failing).await;
    assert!(message(&read).contains("left: -1"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn nextest_is_read_as_it_ran() {
    let Some(bed) = Bed::with(&["cargo", "cargo-nextest", "cc"]) else { return };
    let check = Check::new("nextest", Tool::CargoNextest, &["cargo", "nextest", "run"]);
    let passing = [
        "passed (2 passed, 0 failed, 1 skipped)",
        "sums::sums$adds: passed",
        "sums::sums$halves: skipped",
        "sums::sums$zero_adds_nothing: passed",
    ];
    let failing = [
        "failed (1 passed, 1 failed, 1 skipped)",
        "sums::sums$adds: failed",
        "sums::sums$halves: skipped",
        "sums::sums$zero_adds_nothing: passed",
        "sums::sums$adds at tests/sums.rs:5",
    ];
    let read = bed.both("cargo-test", &check, &passing, &failing).await;
    assert!(message(&read).contains("left: -1"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn jest_is_read_as_it_ran() {
    let Some(bed) = Bed::with_package("jest") else { return };
    let check = Check::new("jest", Tool::Jest, &["jest"]);
    let passing = [
        "passed (2 passed, 0 failed, 1 skipped)",
        "sums.test.js::add › adds: passed",
        "sums.test.js::add › halves: skipped",
        "sums.test.js::add › zero adds nothing: passed",
    ];
    let failing = [
        "failed (1 passed, 1 failed, 1 skipped)",
        "sums.test.js::add › adds: failed",
        "sums.test.js::add › halves: skipped",
        "sums.test.js::add › zero adds nothing: passed",
        "add › adds at sums.test.js:5",
    ];
    let read = bed.both("jest", &check, &passing, &failing).await;
    assert!(message(&read).contains("Received: -1"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn go_test_is_read_as_it_ran() {
    let Some(bed) = Bed::with(&["go"]) else { return };
    let check = Check::new("go test", Tool::GoTest, &["go", "test", "./..."]);
    let passing = [
        "passed (3 passed, 0 failed, 1 skipped)",
        "sums.example::TestAdds: passed",
        "sums.example::TestHalves: skipped",
        "sums.example::TestZeroAddsNothing: passed",
        "sums.example::TestZeroAddsNothing/seven: passed",
    ];
    let failing = [
        "failed (2 passed, 1 failed, 1 skipped)",
        "sums.example::TestAdds: failed",
        "sums.example::TestHalves: skipped",
        "sums.example::TestZeroAddsNothing: passed",
        "sums.example::TestZeroAddsNothing/seven: passed",
        "sums.example::TestAdds at sums_test.go:7",
    ];
    let read = bed.both("go-test", &check, &passing, &failing).await;
    assert!(message(&read).contains("2 + 3 is -1"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn ctest_is_read_as_it_ran() {
    let Some(bed) = Bed::with(&["cmake", "c++", "make"]) else { return };
    let script = "cmake -S . -B build && cmake --build build && exec \"$@\"";
    let check = Check::new("ctest", Tool::Ctest, &["sh", "-c", script, "sh", "ctest", "--test-dir", "build"]);
    let passing = ["passed (2 passed, 0 failed, 0 skipped)", "adds: passed", "zero_adds_nothing: passed"];
    let failing = [
        "failed (1 passed, 1 failed, 0 skipped)",
        "adds: failed",
        "zero_adds_nothing: passed",
        "adds at -:-",
    ];
    let read = bed.both("ctest", &check, &passing, &failing).await;
    assert!(read.failures[0].excerpt.contains("the sum is -1"), "{read:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn surefire_is_read_as_it_ran() {
    let Some(bed) = Bed::with(&["java", "mvn"]) else { return };
    // Debian's packages of Maven's plugins and of JUnit are a repository that needs no network.
    let repository = "/usr/share/maven-repo";
    if !Path::new(repository).join("org/apache/maven/surefire/surefire-junit4").exists() {
        skip::<()>("package libsurefire-java");
        return;
    }
    let check = Check::new("maven", Tool::Surefire, &["mvn", "-B", "test"]);
    let passing = [
        "passed (2 passed, 0 failed, 1 skipped)",
        "sums.SumsTest.adds: passed",
        "sums.SumsTest.halves: skipped",
        "sums.SumsTest.zeroAddsNothing: passed",
    ];
    let failing = [
        "failed (1 passed, 1 failed, 1 skipped)",
        "sums.SumsTest.adds: failed",
        "sums.SumsTest.halves: skipped",
        "sums.SumsTest.zeroAddsNothing: passed",
        "sums.SumsTest.adds at SumsTest.java:11",
    ];
    let read = bed.both("surefire", &check, &passing, &failing).await;
    assert!(message(&read).contains("expected:<5> but was:<-1>"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn ruff_is_read_as_it_ran() {
    let Some(bed) = Bed::with(&["ruff"]) else { return };
    let check = Check::new("ruff", Tool::Ruff, &["ruff", "check", "."]);
    let read = bed.both("ruff", &check, &["passed"], &["failed", "sums.py:1:8: error F401"]).await;
    assert!(message(&read).contains("imported but unused"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn eslint_is_read_as_it_ran() {
    let Some(bed) = Bed::with_package("eslint") else { return };
    let check = Check::new("eslint", Tool::Eslint, &["eslint", "."]);
    let failing = ["failed", "sums.js:2:9: error no-unused-vars", "sums.js:3:12: warning eqeqeq"];
    let read = bed.both("eslint", &check, &["passed"], &failing).await;
    assert!(message(&read).contains("never used"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn tsc_is_read_as_it_ran() {
    let Some(bed) = Bed::with_package("tsc") else { return };
    let check = Check::new("tsc", Tool::Tsc, &["tsc", "-p", "."]);
    let read = bed.both("tsc", &check, &["passed"], &["failed", "src/sums.ts:2:3: error TS2322"]).await;
    assert!(message(&read).contains("'string' is not assignable"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn pyright_is_read_as_it_ran() {
    let Some(bed) = Bed::with_package("pyright") else { return };
    let check = Check::new("pyright", Tool::Pyright, &["pyright"]);
    let failing = ["failed", "sums.py:2:12: error reportReturnType"];
    let read = bed.both("pyright", &check, &["passed"], &failing).await;
    assert!(message(&read).contains("\"str\" is not assignable to return type"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn clippy_is_read_as_it_ran() {
    let Some(bed) = Bed::with(&["cargo", "cargo-clippy"]) else { return };
    let check = Check::new("clippy", Tool::Clippy, &["cargo", "clippy", "--", "-D", "warnings"]);
    let failing = ["failed", "src/lib.rs:2:5: error clippy::needless_return"];
    let read = bed.both("clippy", &check, &["passed"], &failing).await;
    assert!(message(&read).contains("unneeded `return`"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn cargo_check_is_read_as_it_ran() {
    let Some(bed) = Bed::with(&["cargo"]) else { return };
    let check = Check::new("cargo check", Tool::CargoCheck, &["cargo", "check"]);
    let failing = ["failed", "src/lib.rs:3:5: error E0308"];
    let read = bed.both("cargo-check", &check, &["passed"], &failing).await;
    assert!(message(&read).contains("mismatched types"), "{}", message(&read));
}

#[tokio::test(flavor = "multi_thread")]
async fn go_vet_is_read_as_it_ran() {
    let Some(bed) = Bed::with(&["go"]) else { return };
    let check = Check::new("go vet", Tool::GoVet, &["go", "vet", "./..."]);
    let read = bed.both("go-vet", &check, &["passed"], &["failed", "sums.go:8:9: warning printf"]).await;
    assert!(message(&read).contains("wrong type"), "{}", message(&read));
}
