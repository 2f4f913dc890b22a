//! Real installs by the real clients, through the window, sealed after it.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "common/trees.rs"]
mod trees;

mod common;

use std::collections::BTreeSet;

use common::sandbox;
use jobs::id::RunId;
use jobs::job::Limits;
use runners::bootstrap::{self, BootstrapError, Bootstrapped, Input, Plan};
use runners::egress::{EgressBounds, EgressPolicy, HostPort};
use runners::sandbox::{Cause, Command, ContainerLimits, ContainerSpec, Embedded, Exit, Sandbox as _};
use runners::toolchains::Toolchains;
use runners::workspace::{Tree, materialize};
use tokio_util::sync::CancellationToken;
use trees::{Folders, toolchains, tree};

const LOCKED_CRATE: [(&str, &str); 3] = [
    (
        "Cargo.toml",
        "[package]\nname = \"locked\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nitoa = \"=1.0.11\"\n",
    ),
    (
        "Cargo.lock",
        "version = 3\n\n[[package]]\nname = \"itoa\"\nversion = \"1.0.11\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"49f1f14873335454500d59611f1cf4a4b0f786f9ac11f4312a78e4cf2566695b\"\n\n[[package]]\nname = \"locked\"\nversion = \"0.1.0\"\ndependencies = [\n \"itoa\",\n]\n",
    ),
    ("src/main.rs", "fn main() {\n    println!(\"{}\", itoa::Buffer::new().format(7));\n}\n"),
];

struct Run<'a> {
    sandbox: &'a Embedded,
    toolchains: &'a Toolchains,
    tree: Tree,
    plan: Plan,
    folders: Folders,
    run: RunId,
}

impl<'a> Run<'a> {
    fn new(sandbox: &'a Embedded, toolchains: &'a Toolchains, tree: Tree) -> Self {
        let plan = bootstrap::plan(&tree, toolchains);
        Self { sandbox, toolchains, tree, plan, folders: Folders::new(), run: RunId::fresh(1) }
    }

    async fn bootstrap(&self, allowed: BTreeSet<HostPort>) -> Result<Bootstrapped, BootstrapError> {
        let limits = Limits::default();
        let input = Input {
            sandbox: self.sandbox,
            run: &self.run,
            tree: &self.tree,
            workspace: &self.folders.at("bootstrap"),
            home: &self.folders.at("home"),
            socket_folder: &self.folders.at("socket"),
            toolchains: self.toolchains,
            plan: &self.plan,
            policy: EgressPolicy {
                allowed,
                // Registries of a test network may lie behind a mirror with an address of documentation.
                trusted_networks: vec!["203.0.113.0/24".parse().unwrap(), "10.0.0.0/8".parse().unwrap()],
                ..EgressPolicy::of(EgressBounds::of(&limits))
            },
            limits: &limits,
            progress: &|_| {},
            cancel: &CancellationToken::new(),
        };
        bootstrap::run(input).await
    }

    /// What a later phase does: a fresh workspace, the same home, no way out.
    async fn later(&self, done: &Bootstrapped, argv: &[&str]) -> Exit {
        let workspace = self.folders.at("verify");
        materialize(&self.tree, &workspace, self.sandbox.owner()).unwrap();
        let mut read_only = self.toolchains.binds.clone();
        read_only.extend(done.binds.iter().cloned());
        let spec = ContainerSpec {
            run: self.run.clone(),
            workspace,
            home: self.folders.at("home"),
            read_only,
            environment: self.toolchains.environment.clone(),
            limits: ContainerLimits::of(&Limits::default()),
            egress: None,
        };
        let mut container = self.sandbox.create(spec).await.unwrap();
        container.exec(Command::new(argv)).await.unwrap()
    }
}

/// Whether an error means that this network has no registry to ask, rather than that the code is wrong.
fn no_registry(error: &BootstrapError) -> bool {
    let BootstrapError::Install(failed) = error else { return false };
    let unreachable = failed.egress.iter().any(|line| {
        line.refused
            .as_deref()
            .is_some_and(|why| ["resolve", "connect", "dial", "reach"].iter().any(|word| why.contains(word)))
    });
    if unreachable {
        eprintln!("skipped: no package registry is reachable: {error}");
    }
    unreachable
}

fn shown(exit: &Exit) -> String {
    format!(
        "{:?}\n{}{}",
        exit.cause,
        String::from_utf8_lossy(&exit.stdout),
        String::from_utf8_lossy(&exit.stderr)
    )
}

#[tokio::test]
async fn a_crate_is_fetched_through_the_window_and_built_without_it() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&["cargo", "cc"]) else { return };
    let run = Run::new(&sandbox, &toolchains, tree(&LOCKED_CRATE));
    assert_eq!(run.plan.steps.len(), 1);
    let done = match run.bootstrap(bootstrap::registries(&toolchains)).await {
        Ok(done) => done,
        Err(error) if no_registry(&error) => return,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(done.installs[0].argv, ["cargo", "fetch", "--locked"]);
    assert_eq!(done.installs[0].exit_code, Some(0));
    assert_eq!(done.installs[0].changed_lockfiles, Vec::<String>::new());
    assert!(done.egress.iter().all(|line| line.refused.is_none()), "{:?}", done.egress);
    assert!(done.egress.iter().any(|line| line.bytes_down > 1000), "{:?}", done.egress);
    assert!(done.egress.iter().all(|line| line.asked_by == "cargo fetch --locked"));
    assert!(done.seal.sealed());
    assert!(!run.folders.at("socket/egress.sock").exists());
    let exit = run.later(&done, &["cargo", "run", "-q", "--locked"]).await;
    assert_eq!((exit.cause, exit.stdout.as_slice()), (Cause::Exited(0), &b"7\n"[..]), "{}", shown(&exit));
}

#[tokio::test]
async fn a_package_is_installed_by_pip_and_imported_without_the_window() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&["python3"]) else { return };
    let files = [
        ("requirements.txt", "iniconfig==2.0.0\n"),
        ("pyproject.toml", "[project]\nname = \"own\"\nversion = \"1\"\ndependencies = []\n"),
        ("src/own/__init__.py", "NAME = 'own'\n"),
    ];
    let run = Run::new(&sandbox, &toolchains, tree(&files));
    let done = match run.bootstrap(bootstrap::registries(&toolchains)).await {
        Ok(done) => done,
        Err(error) if no_registry(&error) => return,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(done.installs.len(), 2);
    assert!(done.seal.sealed());
    let code = "import iniconfig, own; print(iniconfig.__name__, own.NAME)";
    let exit = run.later(&done, &["python3", "-c", code]).await;
    assert_eq!(exit.stdout, b"iniconfig own\n", "{}", shown(&exit));
}

#[tokio::test]
async fn nothing_to_fetch_opens_no_window_and_is_sealed_all_the_same() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&[]) else { return };
    let files = [
        ("Cargo.toml", "[package]\nname = \"alone\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", "pub fn one() -> u8 {\n    1\n}\n"),
        ("pyproject.toml", "[project]\nname = \"alone\"\nversion = \"1\"\n"),
    ];
    let run = Run::new(&sandbox, &toolchains, tree(&files));
    assert!(run.plan.is_empty(), "{:?}", run.plan);
    let done = run.bootstrap(BTreeSet::new()).await.unwrap();
    assert!(done.installs.is_empty() && done.egress.is_empty());
    assert!(done.seal.sealed() && done.seal.tests.len() > 3, "{:?}", done.seal);
    assert!(!run.folders.at("socket").exists());
}

#[tokio::test]
async fn a_host_that_is_not_admitted_fails_the_step_by_name() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&["cargo"]) else { return };
    let mut closed = toolchains.clone();
    closed.clients.cargo_indexes.clear();
    let run = Run::new(&sandbox, &closed, tree(&LOCKED_CRATE));
    let admitted = BTreeSet::from(["registry.invalid:443".parse().unwrap()]);
    let error = run.bootstrap(admitted).await.unwrap_err();
    let BootstrapError::Install(failed) = &error else { panic!("{error}") };
    assert_eq!(failed.command, "cargo fetch --locked");
    assert!(!failed.refusals.is_empty(), "{failed:?}");
    let said = error.to_string();
    assert!(said.contains("egress refused ") && said.contains("to `cargo fetch --locked`"), "{said}");
    assert!(said.contains("admit the host"), "{said}");
}

#[tokio::test]
async fn a_lockfile_that_an_install_writes_is_told_and_stays_out_of_the_tree() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&["cargo", "cc"]) else { return };
    let unlocked: Vec<_> = LOCKED_CRATE.into_iter().filter(|(path, _)| *path != "Cargo.lock").collect();
    let run = Run::new(&sandbox, &toolchains, tree(&unlocked));
    let done = match run.bootstrap(bootstrap::registries(&toolchains)).await {
        Ok(done) => done,
        Err(error) if no_registry(&error) => return,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(done.installs[0].argv, ["cargo", "fetch"]);
    assert_eq!(done.installs[0].changed_lockfiles, ["Cargo.lock"]);
    assert!(done.notes.iter().any(|note| note.contains("Cargo.lock")), "{:?}", done.notes);
    let exit = run.later(&done, &["cargo", "check", "-q"]).await;
    assert_eq!(exit.cause, Cause::Exited(0), "{}", shown(&exit));
}

#[tokio::test]
async fn npm_installs_by_its_lockfile_and_later_containers_see_it_read_only() {
    let Some(sandbox) = sandbox() else { return };
    let Some(toolchains) = toolchains(&["node", "npm"]) else { return };
    let lock = "{\"name\": \"own\", \"lockfileVersion\": 3, \"packages\": {\
        \"\": {\"name\": \"own\", \"dependencies\": {\"ms\": \"2.1.3\"}}, \
        \"node_modules/ms\": {\"version\": \"2.1.3\", \"integrity\": \
        \"sha512-6FlzubTLZG3J2a/NVCAleEhjzq5oxgHyaCU9yYXvcLsvoVaHJq/s5xXI6/XXP6tz7R9xAOtHnSO/tXtF3WRTlA==\"}}}";
    let files = [
        ("package.json", "{\"name\": \"own\", \"dependencies\": {\"ms\": \"2.1.3\"}}"),
        ("package-lock.json", lock),
        ("main.js", "console.log(require('ms')('2 days'))\n"),
    ];
    let run = Run::new(&sandbox, &toolchains, tree(&files));
    let done = match run.bootstrap(bootstrap::registries(&toolchains)).await {
        Ok(done) => done,
        Err(error) if no_registry(&error) => return,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(done.installs[0].argv, ["npm", "ci", "--ignore-scripts"]);
    assert_eq!(done.binds.len(), 1);
    let script = "node main.js && ! touch node_modules/planted 2>/dev/null";
    let exit = run.later(&done, &["sh", "-c", script]).await;
    assert_eq!(
        (exit.cause, exit.stdout.as_slice()),
        (Cause::Exited(0), &b"172800000\n"[..]),
        "{}",
        shown(&exit)
    );
}

#[tokio::test]
async fn programs_are_asked_for_their_versions_inside() {
    let Some(sandbox) = sandbox() else { return };
    let Some(mut toolchains) = toolchains(&["cargo", "python3"]) else { return };
    let folders = Folders::new();
    runners::toolchains::versions(&mut toolchains, &sandbox, &RunId::fresh(1), &folders.at("versions"))
        .await
        .unwrap();
    for tool in &toolchains.found {
        eprintln!("{}: {:?} at {}", tool.name, tool.version, tool.path.display());
    }
    for name in ["cargo", "rustc", "python3"] {
        let tool = toolchains.found.iter().find(|tool| tool.name == name).unwrap();
        assert!(tool.version.is_some(), "{tool:?}");
    }
}
