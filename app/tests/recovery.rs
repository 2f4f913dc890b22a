//! The service is killed at each named point, as a power cut would, and started again: every run comes
//! to a right state, no agent is launched twice for one launch, no check run is doubled, nothing is
//! pushed twice.
//!
//! Needs the feature `fault-injection`, with which a process ends at the point that its environment names.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jobs::artifacts::Artifacts;
use jobs::authorization::PushResult;
use jobs::forge::Role;
use jobs::launch::LaunchState;
use jobs::run::{Outcome, RunState, Suspension};
use jobs::store::{Db, RunView, runs};
use webhooks::forge::{CheckStatus, Conclusion};
use webhooks::local::{LocalForge, SeedFile, SeedRepository, Seeded, SignedDelivery};

const MAINTAINER: &str = "maintainer";
const BRANCH: &str = "more";
/// How long a state may take to come: a lease that must run out, and a repair on a busy machine.
const PATIENCE: Duration = Duration::from_secs(400);

/// A local forge with one broken pull request, and a service on it that can be killed.
struct World {
    folder: tempfile::TempDir,
    local: LocalForge,
    seeded: Seeded,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("hook"), "a secret for tests").unwrap();
        let config = "[server]\nlisten = \"127.0.0.1:0\"\ndata_folder = \"data\"\n[local]\nfolder = \"forge\"\nwebhook_secret_file = \"hook\"\n";
        std::fs::write(at("whipstitch.toml"), config).unwrap();
        let patch = include_str!("../demo/fares.patch");
        let patch = Artifacts::open(at("data/artifacts")).unwrap().put(patch.as_bytes()).unwrap();
        let policy = format!(
            "[[checks]]\nname = \"tests\"\ntool = \"cargo-test\"\nrun = [\"cargo\", \"test\"]\n[agent]\nname = \"replay\"\npatch = \"{patch}\"\n"
        );
        let local = LocalForge::open(at("forge"), "a secret for tests".to_owned().into()).unwrap();
        let seeded = local
            .seed(SeedRepository {
                owner: "demo".to_owned(),
                name: "fares".to_owned(),
                base: vec![
                    SeedFile::text("Cargo.toml", include_str!("../demo/fares/base/Cargo.toml")),
                    SeedFile::text("Cargo.lock", include_str!("../demo/fares/base/Cargo.lock")),
                    SeedFile::text("src/lib.rs", include_str!("../demo/fares/base/src/lib.rs")),
                    SeedFile::text("tests/fares.rs", include_str!("../demo/fares/base/tests/fares.rs")),
                    SeedFile::text(".github/whipstitch.toml", &policy),
                ],
                head: vec![
                    SeedFile::text("src/lib.rs", include_str!("../demo/fares/head/src/lib.rs")),
                    SeedFile::text("tests/fares.rs", include_str!("../demo/fares/head/tests/fares.rs")),
                ],
                head_branch: BRANCH.to_owned(),
                title: "Halve the fare".to_owned(),
                author: "contributor".to_owned(),
                roles: vec![(MAINTAINER.to_owned(), Role::Maintain)],
            })
            .unwrap();
        Self { folder, local, seeded }
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("whipstitch.toml")
    }

    fn start(&self, fault: Option<&str>) -> Service {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whipstitch"));
        command.args(["serve", "--config"]).arg(self.config()).env("WHIPSTITCH_LOG", "warn");
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(point) = fault {
            command.env(jobs::fault::VARIABLE, point);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        Service { child, url }
    }

    fn comment(&self, text: &str) -> SignedDelivery {
        self.local.comment_as(MAINTAINER, &self.seeded.repository, self.seeded.pull_request, text).unwrap()
    }

    async fn db(&self) -> Db {
        Db::open(&format!("sqlite://{}", self.folder.path().join("data/whipstitch.db").display()))
            .await
            .unwrap()
    }

    /// The one run, once `wanted` holds.
    async fn run_when(&self, db: &Db, what: &str, wanted: impl Fn(&RunView) -> bool) -> RunView {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = runs::list(db, 10).await.unwrap();
            assert!(found.len() <= 1, "one comment made {} runs", found.len());
            if let Some(run) = found.first() {
                let view = runs::view(db, &run.id).await.unwrap().unwrap();
                if wanted(&view) {
                    return view;
                }
                assert!(Instant::now() < deadline, "waited for {what} in vain: {:?}", view.run.state);
            }
            assert!(Instant::now() < deadline, "waited for {what} in vain: there is no run");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until the forge shows one completed check run on the commit, and gives its conclusion.
    async fn conclusion(&self) -> Conclusion {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.local.check_runs(&self.seeded.repository, &self.seeded.head).unwrap();
            assert!(found.len() <= 1, "{} check runs on one commit", found.len());
            if let Some(CheckStatus::Completed { conclusion, .. }) =
                found.first().map(|run| &run.check.status)
            {
                return *conclusion;
            }
            assert!(Instant::now() < deadline, "the check run was never completed");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn verify(&self, view: &RunView) -> String {
        let bundle = self.folder.path().join("data/bundles").join(view.run.id.as_str());
        let key = self.folder.path().join("data/key.pub");
        first_line(&["verify", text(&bundle), "--key", text(&key)])
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn first_line(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_whipstitch")).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

/// A service process; ended with the test.
struct Service {
    child: Child,
    url: String,
}

impl Service {
    /// Delivers as a forge does; `false` when there was no answer that the forge could rely on.
    async fn deliver(&self, delivery: &SignedDelivery) -> bool {
        let sent = reqwest::Client::new()
            .post(format!("{}/webhooks/local", self.url))
            .headers(delivery.headers.clone())
            .body(delivery.body.clone())
            .timeout(Duration::from_secs(20))
            .send()
            .await;
        sent.is_ok_and(|answer| answer.status().is_success())
    }

    /// Waits until the process is killed at its point.
    async fn killed(&mut self, point: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert_eq!(status.signal(), Some(9), "the service left by itself before {point}");
                return;
            }
            assert!(Instant::now() < deadline, "the service never came to {point}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn install_tls() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn can_seal() -> bool {
    match runners::sandbox::Sandbox::probe(&runners::sandbox::Embedded::unchecked(Path::new(env!(
        "CARGO_BIN_EXE_whipstitch"
    ))))
    .can_seal()
    {
        true => true,
        false if std::env::var_os("WHIPSTITCH_CI").is_none() => {
            eprintln!("skipped: no user namespaces");
            false
        }
        false => panic!("this machine cannot seal a container, and CI promised that it can"),
    }
}

fn each_launch_began_once(view: &RunView) {
    let mut ids: Vec<_> = view.launches.iter().map(|launch| launch.id.clone()).collect();
    ids.dedup();
    assert_eq!(ids.len(), view.launches.len());
    let settled =
        view.launches.iter().filter(|launch| matches!(launch.state, LaunchState::Settled { .. })).count();
    assert!(settled <= 1, "the agent was asked {settled} times for one iteration");
}

/// Kills the service at `point` of a repair, starts it again and holds the end to the rules.
async fn a_repair_survives(point: &str) {
    install_tls();
    if !can_seal() {
        return;
    }
    let world = World::new();
    let delivery = world.comment("/whipstitch fix");
    let mut first = world.start(Some(point));
    let answered = first.deliver(&delivery).await;
    first.killed(point).await;
    drop(first);
    let second = world.start(None);
    if !answered {
        assert!(second.deliver(&delivery).await, "the forge's second try must be taken");
    }
    let db = world.db().await;
    let ended =
        |view: &RunView| matches!(view.run.state, RunState::Finished { .. } | RunState::Suspended { .. });
    let mut view = world.run_when(&db, "an end or a suspension", ended).await;
    if let RunState::Suspended { why } = &view.run.state {
        assert_eq!(*why, Suspension::UncertainLaunch, "{point}");
        assert!(
            ["after-intent-commit", "after-launch-started", "before-launch-settled"].contains(&point),
            "{point}"
        );
        assert_eq!(world.conclusion().await, Conclusion::ActionRequired);
        assert!(view.launches.iter().any(|launch| launch.state == LaunchState::Uncertain));
        first_line(&["resume", view.run.id.as_str(), "--config", text(&world.config())]);
        view =
            world.run_when(&db, "the end", |view| matches!(view.run.state, RunState::Finished { .. })).await;
    }
    assert_eq!(view.run.state, RunState::Finished { outcome: Outcome::Succeeded }, "{point}");
    each_launch_began_once(&view);
    world.run_when(&db, "the report", |view| view.check_run().is_some()).await;
    assert_eq!(world.conclusion().await, Conclusion::ActionRequired);
    let verdict = world.verify(&view);
    assert!(verdict.starts_with("VALID_CHAIN "), "{verdict}");
    let head = world.local.branch_head(&world.seeded.repository, BRANCH).unwrap();
    assert_eq!(head, world.seeded.head, "nothing is pushed without a yes");
}

/// Kills the service at `point` of an authorized push and starts it again.
async fn a_push_survives(point: &str) {
    install_tls();
    if !can_seal() {
        return;
    }
    let world = World::new();
    let mut first = world.start(None);
    assert!(first.deliver(&world.comment("/whipstitch fix")).await);
    let db = world.db().await;
    world.run_when(&db, "the end", |view| matches!(view.run.state, RunState::Finished { .. })).await;
    world.conclusion().await;
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut second = world.start(Some(point));
    let yes = world.comment("/whipstitch apply");
    let answered = second.deliver(&yes).await;
    second.killed(point).await;
    drop(second);
    let third = world.start(None);
    if !answered {
        assert!(third.deliver(&yes).await);
    }
    let ended = |view: &RunView| match view.authorizations.last().and_then(|last| last.result.as_ref()) {
        Some(PushResult::Pushed { .. } | PushResult::Refused { .. }) => true,
        Some(PushResult::Declined { .. } | PushResult::Uncertain { .. }) | None => false,
    };
    let mut view = world.run_when(&db, "the push or its refusal", ended).await;
    if matches!(view.authorizations[0].result, Some(PushResult::Refused { .. })) {
        // It was not known whether the push was sent; it was looked up, did not arrive, and is not repeated.
        assert!(["after-spend", "before-push"].contains(&point), "{point}");
        assert_eq!(world.local.branch_head(&world.seeded.repository, BRANCH).unwrap(), world.seeded.head);
        assert!(third.deliver(&world.comment("/whipstitch apply")).await);
        let pushed = |view: &RunView| view.authorizations.len() == 2 && ended(view);
        view = world.run_when(&db, "the second yes's push", pushed).await;
    }
    let head = world.local.branch_head(&world.seeded.repository, BRANCH).unwrap();
    let pushed = view.authorizations.iter().find_map(|recorded| match &recorded.result {
        Some(PushResult::Pushed { commit }) => Some(commit.clone()),
        _ => None,
    });
    assert_eq!(Some(&head), pushed.as_ref());
    let commit = world.local.commit(&world.seeded.repository, &head).unwrap();
    assert_eq!(
        commit.parents.as_slice(),
        std::slice::from_ref(&world.seeded.head),
        "one commit, on top of the tested one"
    );
    assert_eq!(commit.tree, webhooks::offer::verified(&view).unwrap().tree);
}

macro_rules! survives {
    ($how:ident: $($name:ident = $point:literal),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            $how($point).await;
        }
    )+};
}

survives!(a_repair_survives:
    killed_before_the_delivery_is_durable = "before-delivery-commit",
    killed_after_the_delivery_is_durable = "after-delivery-commit",
    killed_before_the_job_is_accepted = "before-accept-commit",
    killed_after_the_job_is_accepted = "after-accept-commit",
    killed_after_the_claim = "after-claim",
    killed_after_the_run_opened = "run-opened",
    killed_after_provision = "run-provisioned",
    killed_after_bootstrap = "run-bootstrapped",
    killed_after_navigation = "run-navigated",
    killed_after_the_baselines_checks = "run-baseline-checked",
    killed_after_the_baseline = "run-baseline",
    killed_after_the_governor = "run-governed",
    killed_before_the_intent = "before-intent-commit",
    killed_after_the_intent = "after-intent-commit",
    killed_after_the_launch_started = "after-launch-started",
    killed_before_the_launch_settled = "before-launch-settled",
    killed_after_the_launch_settled = "after-launch-settled",
    killed_after_the_proposal = "run-proposed",
    killed_after_the_change = "run-applied",
    killed_after_the_verifying_checks = "run-verify-checked",
    killed_after_verification = "run-verified",
    killed_after_the_bundle = "run-bundled",
    killed_before_the_end_is_durable = "before-settle-commit",
    killed_after_the_end_is_durable = "after-settle-commit",
    killed_before_the_report = "after-message-claim",
    killed_after_the_report = "before-message-sent",
);

survives!(a_push_survives:
    killed_after_the_yes = "after-authorization",
    killed_after_the_yes_is_spent = "after-spend",
    killed_before_the_push = "before-push",
    killed_after_the_push = "after-push",
    killed_after_the_push_is_recorded = "after-push-settled",
);
