//! Small crates, and runs on them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobs::artifacts::Artifacts;
use jobs::check::{Check, Tool};
use jobs::clock::{Clock, SystemClock};
use jobs::digest::Digest;
use jobs::forge::{Account, ForgeKind, PushTarget, Repository, Role, Subject};
use jobs::id::RunId;
use jobs::job::{AgentSpec, Goal, Guard, JobSpec, Limits, Request};
use jobs::run::{Outcome, RunState};
use jobs::source::{Claim, CloneAccess, Source, SourceError};
use jobs::store::{Acceptance, Accepted, Db, Decision, accept};
use receipts::report::{self, Files};
use receipts::{Signer, Verdict};
use runners::agents::Models;
use runners::executor::{EgressSettings, Engine, bundle};
use runners::local::{self, LocalAgent, LocalReport, LocalRequest};
use runners::progress::{Happening, Progress};
use runners::sandbox::Embedded;
use runners::toolchains::{self, Host, Toolchains};
use runners::workspace::{Bounds, snapshot};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

pub const GREEN: &str = "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n";
pub const WRONG_SUM: &str = "pub fn add(a: u32, b: u32) -> u32 {\n    a - b\n}\n";
pub const UNUSED_MUT: &str = "pub fn add(a: u32, b: u32) -> u32 {\n    let mut sum = a + b;\n    sum\n}\n";
pub const SLOW_TEST: &str = "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n#[cfg(test)]\n#[test]\nfn slow() {\n    std::thread::sleep(std::time::Duration::from_secs(120));\n}\n";

const TESTS: &str = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn sums() { assert_eq!(super::add(2, 3), 5); }\n    #[test]\n    fn zero() { assert_eq!(super::add(0, 0), 0); }\n}\n";

/// A crate without dependencies in a folder of its own, with a data folder beside it.
pub struct Crate {
    folder: tempfile::TempDir,
}

impl Crate {
    pub fn new(code: &str) -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap() };
        let path = made.path();
        std::fs::create_dir_all(path.join("src")).unwrap();
        std::fs::write(
            path.join("Cargo.toml"),
            "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        )
        .unwrap();
        std::fs::write(
            path.join("Cargo.lock"),
            "version = 4\n\n[[package]]\nname = \"small\"\nversion = \"0.1.0\"\n",
        )
        .unwrap();
        std::fs::write(path.join("src/lib.rs"), format!("{code}\n{TESTS}")).unwrap();
        made
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("small")
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

/// A folder whose one test takes no compiler: it reads `value`, and `right` is right.
pub fn without_compiler(value: &str) -> (Crate, Asked) {
    let project = Crate { folder: tempfile::tempdir().unwrap() };
    let path = project.path();
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("value"), format!("{value}\n")).unwrap();
    let script = "echo 1..1\nif grep -q right value; then echo 'ok 1 - value'; else echo 'not ok 1 - value'; exit 1; fi\n";
    std::fs::write(path.join("check.sh"), script).unwrap();
    let mut asked = request_on(&project);
    asked.checks = vec![Check::new("value", Tool::Tap, &["sh", "check.sh"])];
    let patch = format!("--- a/value\n+++ b/value\n@@ -1 +1 @@\n-{value}\n+right\n");
    asked.agent = LocalAgent::Replay(patch.into_bytes());
    (project, asked)
}

/// A patch of the library that puts one text in place of another.
pub fn patch(project: &Crate, from: &str, to: &str) -> Vec<u8> {
    let old = std::fs::read_to_string(project.path().join("src/lib.rs")).unwrap();
    assert!(old.contains(from), "{old}");
    let new = old.replace(from, to);
    let diff = diffy::create_patch(&old, &new).to_string();
    let body = diff.split_once("@@").unwrap().1;
    format!("--- a/src/lib.rs\n+++ b/src/lib.rs\n@@{body}").into_bytes()
}

pub fn checks() -> Vec<Check> {
    vec![
        Check::new(
            "clippy",
            Tool::Clippy,
            &["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        ),
        Check::new("cargo test", Tool::CargoTest, &["cargo", "test", "--workspace"]),
    ]
}

pub fn toolchains() -> Toolchains {
    toolchains::detect(&Host::from_env())
}

pub struct Asked {
    pub agent: LocalAgent,
    pub checks: Vec<Check>,
    pub limits: Limits,
    pub models: Models,
    path: PathBuf,
}

pub fn request_on(project: &Crate) -> Asked {
    Asked {
        agent: LocalAgent::Fixers,
        checks: checks(),
        limits: Limits::default(),
        models: Models::new(),
        path: project.path(),
    }
}

pub fn signer() -> Arc<Signer> {
    Arc::new(Signer::from_seed(&[7; 32]))
}

pub async fn fix(sandbox: &Arc<Embedded>, project: &Crate, asked: Asked) -> LocalReport {
    let request = LocalRequest {
        path: asked.path,
        goal: Goal::Repair,
        checks: asked.checks,
        agent: asked.agent,
        limits: asked.limits,
        guard: Guard::default(),
        sandbox: sandbox.clone(),
        toolchains: toolchains(),
        egress: EgressSettings::default(),
        models: asked.models,
        signer: signer(),
        clock: Arc::new(SystemClock),
        data_dir: project.data(),
        progress: broadcast::channel(64).0,
    };
    local::repair(request, CancellationToken::new()).await.unwrap()
}

pub fn outcome(report: &LocalReport) -> Outcome {
    match &report.state {
        RunState::Finished { outcome } => outcome.clone(),
        other => panic!("{other:?}"),
    }
}

/// What the verifiers say of a bundle's receipts, once they agree that its journal is whole.
pub fn chain(report: &LocalReport) -> Verdict {
    verify(report.bundle.as_deref().unwrap())
}

pub fn chain_in(engine: &Engine, run: &RunId) -> Verdict {
    verify(&bundle::folder(&engine.data_dir, run))
}

fn verify(folder: &Path) -> Verdict {
    let key = signer().public_key();
    assert_eq!(std::fs::read(folder.join("key.pub")).unwrap(), key);
    let request = report::Request { journal: true, ..report::Request::default() };
    let report = report::verify(&Files::at(folder), &key, &request);
    assert!(report.lines[1].starts_with("journal VALID_CHAIN "), "{:?}", report.lines);
    report.chain.verdict
}

/// A folder's snapshot as a forge.
struct Snapshotted(PathBuf);

#[async_trait::async_trait]
impl Source for Snapshotted {
    async fn clone_access(&self, _: &Claim, _: &Repository) -> Result<CloneAccess, SourceError> {
        Ok(CloneAccess { url: format!("file://{}", self.0.display()), token: None })
    }
}

/// An engine with one queued run on the project.
pub async fn queued(sandbox: &Arc<Embedded>, project: &Crate, asked: Asked) -> (Arc<Engine>, RunId) {
    let data = project.data();
    std::fs::create_dir_all(&data).unwrap();
    let engine = engine_on(sandbox, &data, Arc::new(SystemClock)).await;
    let taken = snapshot(&asked.path, &data.join("origin.git"), &Bounds::default()).unwrap();
    let agent = match asked.agent {
        LocalAgent::Fixers => AgentSpec::Fixers,
        LocalAgent::Model(profile) => AgentSpec::Model { profile },
        LocalAgent::Replay(patch) => AgentSpec::Replay { patch: engine.artifacts.put(&patch).unwrap() },
    };
    let job = JobSpec {
        repository: Repository {
            forge: ForgeKind::Local,
            owner: "octo".to_owned(),
            name: "small".to_owned(),
            installation: 1,
        },
        subject: Subject::PullRequest { number: 1 },
        goal: Goal::Repair,
        head: taken.commit.clone(),
        tree: taken.tree.clone(),
        base: taken.commit.clone(),
        fetch_ref: "refs/pull/1/head".to_owned(),
        push_target: PushTarget::Branch { name: "topic".to_owned() },
        base_branch: None,
        checks: asked.checks,
        limits: asked.limits,
        agent,
        guard: Guard::default(),
        request: Request {
            actor: Account { id: 42, login: "ada".to_owned() },
            role: Role::Write,
            origin: "comment/1".to_owned(),
            text: Digest::of("/whipstitch fix"),
        },
    };
    let decision = Decision::Admit { spec: Box::new(job), semantic_key: "one".to_owned() };
    let now = SystemClock.now();
    let accepted = Accepted { delivery: None, decision, messages: Vec::new(), now };
    match accept(&engine.db, accepted).await.unwrap() {
        Acceptance::Queued { run, .. } => (Arc::new(engine), run),
        other => panic!("{other:?}"),
    }
}

/// An engine on a data folder, as a process that starts there has it.
pub async fn engine_on(sandbox: &Arc<Embedded>, data: &Path, clock: Arc<dyn Clock>) -> Engine {
    Engine {
        db: Db::open(&format!("sqlite://{}", data.join("run.db").display())).await.unwrap(),
        artifacts: Artifacts::open(data.join("artifacts")).unwrap(),
        source: Arc::new(Snapshotted(data.join("origin.git"))),
        sandbox: sandbox.clone(),
        toolchains: toolchains(),
        egress: EgressSettings::default(),
        models: Models::new(),
        signer: signer(),
        clock,
        data_dir: data.to_owned(),
        node: "test".to_owned(),
        progress: broadcast::channel(256).0,
        concurrency: 1,
        repository_concurrency: None,
        drain: std::time::Duration::ZERO,
    }
}

/// Returns once a check of this name has begun.
pub async fn wait_for_command(progress: &mut broadcast::Receiver<Progress>, wanted: &str) {
    loop {
        match progress.recv().await.unwrap().what {
            Happening::Command { name, .. } if name == wanted => return,
            Happening::Finished { outcome } => panic!("ended before {wanted}: {outcome:?}"),
            _ => {}
        }
    }
}
