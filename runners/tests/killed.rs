//! A worker that is killed at any named point: the next one takes the run up where the journal stands.
//! No launch is ever made twice, and every run has one right end.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;
#[allow(dead_code)]
mod running;

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::Arc;

use jobs::clock::{Clock, Millis, SystemClock};
use jobs::id::RunId;
use jobs::launch::LaunchState;
use jobs::run::{Outcome, RunState, Suspension};
use jobs::store::RunView;
use jobs::store::runs;
use receipts::Verdict;
use runners::executor::{Engine, FAULT_POINTS, Let};
use runners::sandbox::Embedded;
use tokio_util::sync::CancellationToken;

/// Names the data folder to the process that is to be killed.
const DATA: &str = "WHIPSTITCH_TEST_DATA";
/// The points at which a launch has an intent and no result.
const OPEN_LAUNCH: [&str; 3] = ["after-intent-commit", "after-launch-started", "before-launch-settled"];

/// A clock of a time at which every lease of a dead worker is over; a second one for those of the first's time.
enum Later {
    Once,
    Twice,
}

impl Clock for Later {
    fn now(&self) -> Millis {
        let leases = match self {
            Later::Once => 10,
            Later::Twice => 20,
        };
        SystemClock.now() + leases * runners::executor::LEASE_MS
    }
}

/// What the killed process does. Started by nobody else, this test has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn worker() {
    let Some(data) = std::env::var_os(DATA) else { return };
    let sandbox = Arc::new(common::sandbox().unwrap());
    let engine = running::engine_on(&sandbox, Path::new(&data), Arc::new(SystemClock)).await;
    engine.run_one(CancellationToken::new()).await;
}

/// Runs a worker that dies at `point`.
fn kill_at(point: &str, data: &Path) {
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worker", "--nocapture"])
        .env(DATA, data)
        .env(jobs::fault::VARIABLE, point)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(9), "{point} was not passed: {status}");
}

async fn view(engine: &Engine, run: &RunId) -> RunView {
    runs::view(&engine.db, run).await.unwrap().unwrap()
}

/// What has to hold of every run that ended.
async fn check_end(point: &str, engine: &Engine, run: &RunId, launches: usize) {
    let view = view(engine, run).await;
    assert_eq!(
        view.run.state,
        RunState::Finished { outcome: Outcome::Succeeded },
        "{point}: {:#?}",
        view.steps
    );
    assert_eq!(running::chain_in(engine, run), Verdict::ValidChain, "{point}");
    assert_eq!(view.launches.len(), launches, "{point}");
    let settled = view.launches.iter().filter(|launch| matches!(launch.state, LaunchState::Settled { .. }));
    assert_eq!(settled.count(), 1, "{point}");
    assert_eq!(view.receipts.len(), 3, "{point}: one receipt for the one applied change");
    let leavings = engine.data_dir.join("runs").join(run.as_str());
    assert!(!leavings.exists() || point == "after-settle-commit", "{point}");
}

async fn killed_and_taken_up(point: &str, sandbox: &Arc<Embedded>) {
    let (project, asked) = running::without_compiler("wrong");
    let (first, run) = running::queued(sandbox, &project, asked).await;
    first.db.close().await;
    kill_at(point, &project.data());
    let engine = running::engine_on(sandbox, &project.data(), Arc::new(Later::Once)).await;
    let letting = engine.run_one(CancellationToken::new()).await;
    if point == "after-settle-commit" {
        assert_eq!(letting, None, "a finished run is not claimed");
        return check_end(point, &engine, &run, 1).await;
    }
    if !OPEN_LAUNCH.contains(&point) {
        assert_eq!(letting, Some(Let::Finished(run.clone())), "{point}");
        return check_end(point, &engine, &run, 1).await;
    }
    // Whether the agent ran is not known: nothing happens until somebody says so by name.
    assert_eq!(letting, None, "{point}");
    let suspended = RunState::Suspended { why: Suspension::UncertainLaunch };
    assert_eq!(view(&engine, &run).await.run.state, suspended, "{point}");
    assert_eq!(engine.run_one(CancellationToken::new()).await, None, "{point}");
    runs::resume(&engine.db, &run, "operator ada", engine.clock.now()).await.unwrap();
    let letting = engine.run_one(CancellationToken::new()).await;
    assert_eq!(letting, Some(Let::Finished(run.clone())), "{point}");
    check_end(point, &engine, &run, 2).await;
    let launches = view(&engine, &run).await.launches;
    assert_eq!(launches[0].state, LaunchState::Abandoned { by: "operator ada".to_owned() }, "{point}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_survives_a_kill_at_every_named_point() {
    let Some(sandbox) = common::sandbox() else { return };
    let sandbox = Arc::new(sandbox);
    for point in FAULT_POINTS {
        killed_and_taken_up(point, &sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_left_to_the_key_that_it_was_begun_with() {
    let Some(sandbox) = common::sandbox() else { return };
    let sandbox = Arc::new(sandbox);
    let (project, asked) = running::without_compiler("wrong");
    let (first, run) = running::queued(&sandbox, &project, asked).await;
    first.db.close().await;
    kill_at("run-provisioned", &project.data());
    let mut other = running::engine_on(&sandbox, &project.data(), Arc::new(Later::Once)).await;
    other.signer = Arc::new(receipts::Signer::from_seed(&[99; 32]));
    let before = jobs::store::journal::list(&other.db, &run).await.unwrap();
    assert_eq!(runs::begun(&other.db).await.unwrap(), std::slice::from_ref(&run));
    assert_eq!(other.run_one(CancellationToken::new()).await, Some(Let::Dropped(run.clone())));
    assert_eq!(jobs::store::journal::list(&other.db, &run).await.unwrap(), before);
    other.db.close().await;
    let engine = running::engine_on(&sandbox, &project.data(), Arc::new(Later::Twice)).await;
    assert_eq!(engine.run_one(CancellationToken::new()).await, Some(Let::Finished(run.clone())));
    check_end("run-provisioned", &engine, &run, 1).await;
    assert_eq!(runs::begun(&engine.db).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_with_an_uncertain_launch_is_sealed_as_halted() {
    let Some(sandbox) = common::sandbox() else { return };
    let sandbox = Arc::new(sandbox);
    let (project, asked) = running::without_compiler("wrong");
    let (first, run) = running::queued(&sandbox, &project, asked).await;
    first.db.close().await;
    kill_at("after-launch-started", &project.data());
    let engine = running::engine_on(&sandbox, &project.data(), Arc::new(Later::Once)).await;
    assert_eq!(engine.run_one(CancellationToken::new()).await, None);
    let reason = jobs::run::HaltReason::Cancelled("cancelled by ada".to_owned());
    let request = runs::HaltRequest { by: "ada".to_owned(), reason };
    runs::cancel(&engine.db, &run, &request, engine.clock.now()).await.unwrap();
    assert_eq!(engine.run_one(CancellationToken::new()).await, Some(Let::Finished(run.clone())));
    assert_eq!(running::chain_in(&engine, &run), Verdict::ValidChain);
    let view = view(&engine, &run).await;
    assert!(matches!(view.run.state, RunState::Finished { outcome: Outcome::Halted { .. } }));
    assert_eq!(view.launches[0].state, LaunchState::Uncertain, "nobody has said what became of it");
}
