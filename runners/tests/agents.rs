//! Agents on really broken code, with the real compilers and linters, sealed.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "common/trees.rs"]
mod trees;

mod common;

use std::time::Duration;

use common::sandbox;
use jobs::check::{Check, Tool};
use jobs::digest::Digest;
use jobs::id::{LaunchId, RunId};
use jobs::job::Limits;
use jobs::verdict::{CheckOutcome, CheckResult, Checked, Diagnostic, Report, Severity};
use runners::agents::{Agent, AgentError, Fixers, Proposal, Replay, Task, Workbench};
use runners::egress::Sealed;
use runners::navigate::retrieve::Workspace;
use runners::navigate::{Focus, Known, RepoView, Stop, gather};
use runners::sandbox::{Cause, Command, ContainerLimits, ContainerSpec, Embedded, Sandbox as _};
use runners::toolchains::Toolchains;
use runners::workspace::{Bounds, Tree, materialize};
use tokio_util::sync::CancellationToken;
use trees::{Folders, text, toolchains, tree};

const MANIFEST: (&str, &str) =
    ("Cargo.toml", "[package]\nname = \"broken\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
const LOCK: (&str, &str) =
    ("Cargo.lock", "version = 3\n\n[[package]]\nname = \"broken\"\nversion = \"0.1.0\"\n");

fn failed(check: &Check, files: &[&str]) -> CheckResult {
    let mut report = Report::inconclusive(check.tool, "");
    report.outcome = CheckOutcome::Failed;
    report.diagnostics = files
        .iter()
        .map(|&file| Diagnostic {
            file: file.to_owned(),
            line: Some(1),
            column: None,
            severity: Severity::Error,
            code: None,
            message: "a finding".to_owned(),
        })
        .collect();
    CheckResult { name: check.name.clone(), exit_code: Some(1), duration_ms: 1, output: None, report }
}

struct Bed<'a> {
    sandbox: &'a Embedded,
    toolchains: &'a Toolchains,
    folders: Folders,
    run: RunId,
}

impl<'a> Bed<'a> {
    fn new(sandbox: &'a Embedded, toolchains: &'a Toolchains) -> Self {
        let folders = Folders::new();
        std::fs::create_dir(folders.at("home")).unwrap();
        if let Some((user, group)) = sandbox.owner() {
            std::os::unix::fs::chown(folders.at("home"), Some(user), Some(group)).unwrap();
        }
        Self { sandbox, toolchains, folders, run: RunId::fresh(1) }
    }

    async fn propose(
        &self,
        agent: &dyn Agent,
        tree: &Tree,
        checks: &[Check],
        failing: Vec<CheckResult>,
    ) -> Result<Proposal, AgentError> {
        let workbench = Workbench {
            sandbox: self.sandbox,
            run: &self.run,
            folder: &self.folders.at("agent"),
            home: &self.folders.at("home"),
            binds: &self.toolchains.binds,
            environment: &self.toolchains.environment,
            limits: ContainerLimits::of(&Limits::default()),
            bounds: &Bounds::default(),
            sealed: &Sealed::never_opened(),
        };
        let failing = Checked { checks: failing };
        let gathered = gather(tree, &Known::default(), Stop::in_time(Duration::from_secs(60)));
        let workspace = Workspace::open(None);
        let view = RepoView::new(tree.clone(), gathered.tags, Focus::of(&failing), workspace);
        let task = Task {
            iteration: 0,
            launch: &LaunchId::fresh(1),
            intent: Digest::of("intent"),
            tree,
            checks,
            failing: &failing,
            view: &view,
            last: None,
            unapplied: None,
            limits: &Limits::default(),
            workbench: &workbench,
            run_check: &|_, _| Box::pin(async { Err("no check runs here".to_owned()) }),
            tokens_left: 1,
            time_left: std::time::Duration::from_secs(600),
            cancel: &CancellationToken::new(),
        };
        agent.propose(&task).await
    }

    /// Runs one command on a tree and tells how it ended, with what it said.
    async fn outcome(&self, tree: &Tree, argv: &[&str]) -> (Cause, String) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        materialize(tree, &workspace, self.sandbox.owner()).unwrap();
        let spec = ContainerSpec {
            run: self.run.clone(),
            workspace,
            home: self.folders.at("home"),
            read_only: self.toolchains.binds.clone(),
            environment: self.toolchains.environment.clone(),
            limits: ContainerLimits::of(&Limits::default()),
            egress: None,
        };
        let mut container = self.sandbox.create(spec).await.unwrap();
        let exit = container.exec(Command::new(argv)).await.unwrap();
        let said = [exit.stdout, exit.stderr].concat();
        (exit.cause, String::from_utf8_lossy(&said).into_owned())
    }
}

const CLIPPY: [&str; 6] = ["cargo", "clippy", "--all-targets", "--", "-D", "warnings"];

#[tokio::test]
async fn a_crate_with_errors_and_lints_is_mended_until_nothing_is_left() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&["cargo", "cargo-clippy", "cc"]) else { return };
    let source = "use std::collections::HashMap;\n\npub struct Point {\n    pub x: i32,\n}\n\n\
        pub fn point(x: i32) -> Point {\n    let total = 0;\n    total += x\n    let y = total;\n    \
        return Point { x: y };\n}\n\npub fn same(x: i32) -> Point {\n    Point { x: x }\n}\n\n\
        #[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn adds() {\n        \
        assert_eq!(point(2).x + same(1).x, 3);\n    }\n}\n";
    let broken = tree(&[MANIFEST, LOCK, ("src/lib.rs", source)]);
    let bed = Bed::new(&sandbox, &toolchains);
    let checks = [
        Check::new("cargo check", Tool::CargoCheck, &["cargo", "check", "--all-targets"]),
        Check::new("clippy", Tool::Clippy, &CLIPPY),
        Check::new("cargo test", Tool::CargoTest, &["cargo", "test"]),
    ];
    let failing = checks.iter().map(|check| failed(check, &["src/lib.rs"])).collect();
    let proposal = bed.propose(&Fixers, &broken, &checks, failing).await.unwrap();
    let after = proposal.after.unwrap_or_else(|| panic!("{}", proposal.note));
    let mended = text(&after, "src/lib.rs");
    assert!(mended.contains("let mut total = 0;"), "{mended}");
    assert!(mended.contains("total += x;\n"), "{mended}");
    assert!(!mended.contains("HashMap") && !mended.contains("return Point"), "{mended}");
    assert!(mended.contains("Point { x }"), "{mended}");
    assert!(proposal.note.contains("mended by machine: "), "{}", proposal.note);
    assert_eq!(after.entries().len(), broken.entries().len());
    let (cause, said) = bed.outcome(&after, &CLIPPY).await;
    assert_eq!(cause, Cause::Exited(0), "{said}");
}

#[tokio::test]
async fn warnings_that_no_check_asks_for_stay() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&["cargo", "cc"]) else { return };
    let source = "use std::fmt::Debug;\n\npub fn one() -> u8 {\n    let x = 0;\n    x = 1;\n    x\n}\n";
    let broken = tree(&[MANIFEST, LOCK, ("src/lib.rs", source)]);
    let bed = Bed::new(&sandbox, &toolchains);
    let checks = [Check::new("cargo check", Tool::CargoCheck, &["cargo", "check"])];
    let failing = vec![failed(&checks[0], &["src/lib.rs"])];
    let after = bed.propose(&Fixers, &broken, &checks, failing).await.unwrap().after.unwrap();
    assert_eq!(text(&after, "src/lib.rs"), source.replace("let x", "let mut x"));
}

#[tokio::test]
async fn what_needs_judgement_is_left_alone_and_said() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&["cargo", "cc"]) else { return };
    let source = "pub fn one() -> u8 {\n    \"one\"\n}\n";
    let broken = tree(&[MANIFEST, LOCK, ("src/lib.rs", source)]);
    let bed = Bed::new(&sandbox, &toolchains);
    let checks = [Check::new("cargo check", Tool::CargoCheck, &["cargo", "check"])];
    let failing = vec![failed(&checks[0], &["src/lib.rs"])];
    let proposal = bed.propose(&Fixers, &broken, &checks, failing).await.unwrap();
    assert!(proposal.after.is_none());
    assert_eq!(proposal.note, "the tools have no fix that needs no judgement");
}

#[tokio::test]
async fn a_member_of_a_workspace_is_mended_where_it_lies() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&["cargo", "cc"]) else { return };
    let source = "pub fn grüße() -> u8 {\n    let ä = 1\n    ä\n}\n";
    let broken = tree(&[
        ("rust/Cargo.toml", "[workspace]\nmembers = [\"a\"]\nresolver = \"2\"\n"),
        ("rust/a/Cargo.toml", MANIFEST.1),
        ("rust/Cargo.lock", LOCK.1),
        ("rust/a/src/lib.rs", source),
        ("a/src/lib.rs", source),
    ]);
    let bed = Bed::new(&sandbox, &toolchains);
    let mut check = Check::new("cargo check", Tool::CargoCheck, &["cargo", "check"]);
    check.directory = "rust/a".to_owned();
    let failing = vec![failed(&check, &["rust/a/src/lib.rs"])];
    let after = bed.propose(&Fixers, &broken, &[check], failing).await.unwrap().after.unwrap();
    assert_eq!(text(&after, "rust/a/src/lib.rs"), source.replace("= 1\n", "= 1;\n"));
    assert_eq!(text(&after, "a/src/lib.rs"), source);
}

#[tokio::test]
async fn ruff_applies_its_safe_fixes_and_only_where_a_finding_is() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&["ruff"]) else { return };
    let files = [
        // The repository asks for unsafe fixes, and does not get them.
        ("ruff.toml", "unsafe-fixes = true\n[lint]\nselect = [\"F\"]\n"),
        ("a.py", "import os\nimport sys\n\nprint(sys.path)\n\n\ndef f():\n    unused = 1\n"),
        ("b.py", "import os\n"),
    ];
    let broken = tree(&files);
    let bed = Bed::new(&sandbox, &toolchains);
    let checks = [Check::new("ruff", Tool::Ruff, &["ruff", "check", "."])];
    let failing = vec![failed(&checks[0], &["a.py"])];
    let proposal = bed.propose(&Fixers, &broken, &checks, failing).await.unwrap();
    let after = proposal.after.unwrap_or_else(|| panic!("{}", proposal.note));
    assert_eq!(text(&after, "a.py"), files[1].1.replace("import os\n", ""));
    assert_eq!(text(&after, "b.py"), files[2].1);
    assert_eq!(after.entries().len(), 3);
}

#[tokio::test]
async fn a_check_that_passed_or_runs_tests_is_not_listened_to() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&[]) else { return };
    let broken = tree(&[MANIFEST, LOCK, ("src/lib.rs", "use std::fmt;\n")]);
    let bed = Bed::new(&sandbox, &toolchains);
    let checks = [
        Check::new("cargo check", Tool::CargoCheck, &["cargo", "check"]),
        Check::new("cargo test", Tool::CargoTest, &["cargo", "test"]),
    ];
    let mut passed = failed(&checks[0], &[]);
    passed.report.outcome = CheckOutcome::Passed;
    let failing = vec![passed, failed(&checks[1], &["src/lib.rs"])];
    let proposal = bed.propose(&Fixers, &broken, &checks, failing).await.unwrap();
    assert!(proposal.after.is_none() && proposal.note.contains("no failing check"), "{}", proposal.note);
}

#[tokio::test]
async fn a_recorded_patch_is_proposed_as_it_is_or_refused() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&[]) else { return };
    let before = tree(&[("a.txt", "one\ntwo\n")]);
    let bed = Bed::new(&sandbox, &toolchains);
    let patch = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n";
    let replay = Replay::new(patch.as_bytes().to_vec());
    let after = bed.propose(&replay, &before, &[], Vec::new()).await.unwrap().after.unwrap();
    assert_eq!(text(&after, "a.txt"), "one\nthree\n");
    let refused = bed.propose(&replay, &after, &[], Vec::new()).await.unwrap_err();
    assert!(matches!(refused, AgentError::Refused { .. }), "{refused}");
}
