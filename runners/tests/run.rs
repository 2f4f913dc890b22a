//! Whole runs on a small crate, in the real sandbox: each ends as it must, with a chain that verifies.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;
#[allow(dead_code)]
mod running;

use jobs::run::{Failure, HaltReason, Outcome, RunState};
use jobs::step::{Output, StepState};
use jobs::verdict::Verdict;
use receipts::Verdict as Chain;
use runners::local;
use running::{Crate, chain, fix, outcome, request_on};
use tokio_util::sync::CancellationToken;

macro_rules! sandbox_or_skip {
    () => {
        match common::sandbox() {
            Some(sandbox) => std::sync::Arc::new(sandbox),
            None => return,
        }
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn fixers_mend_what_the_compiler_can_and_every_change_has_its_receipt() {
    let sandbox = sandbox_or_skip!();
    let project = Crate::new(running::UNUSED_MUT);
    let report = fix(&sandbox, &project, request_on(&project)).await;
    assert_eq!(outcome(&report), Outcome::Succeeded, "{:#?}", report.view.steps);
    assert_eq!(report.verdict, Some(Verdict::Repaired));
    assert_eq!(chain(&report), Chain::ValidChain);
    let mapped = report.view.steps.iter().find_map(|step| match &step.state {
        StepState::Done { output } => match output.as_ref() {
            Output::Navigated { map, .. } => map.clone(),
            _ => None,
        },
        StepState::Begun | StepState::Failed { .. } => None,
    });
    let mapped = mapped.unwrap();
    assert_eq!((mapped.files, mapped.read, mapped.kept, mapped.skipped), (1, 1, 0, 0));
    assert!(mapped.definitions >= 4 && mapped.versions[0].starts_with("Rust/"), "{mapped:?}");
    let before = std::fs::read_to_string(project.path().join("src/lib.rs")).unwrap();
    assert!(before.contains("let mut"), "the folder itself is not touched");
    local::apply(&project.path(), &report).unwrap();
    let after = std::fs::read_to_string(project.path().join("src/lib.rs")).unwrap();
    assert!(!after.contains("let mut"), "{after}");
    let again = local::apply(&project.path(), &report).unwrap_err();
    assert!(matches!(again, local::LocalError::Moved { .. }), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_patch_succeeds_and_a_wrong_one_fails_with_the_true_failure() {
    let sandbox = sandbox_or_skip!();
    let project = Crate::new(running::WRONG_SUM);
    let right = running::patch(&project, "a - b", "a + b");
    let mut request = request_on(&project);
    request.agent = local::LocalAgent::Replay(right);
    let report = fix(&sandbox, &project, request).await;
    assert_eq!(outcome(&report), Outcome::Succeeded, "{:#?}", report.view.steps);
    assert_eq!(chain(&report), Chain::ValidChain);

    let wrong = running::patch(&project, "a - b", "a * b");
    let mut request = request_on(&project);
    request.agent = local::LocalAgent::Replay(wrong);
    let report = fix(&sandbox, &project, request).await;
    let Outcome::Failed { failure: Failure::NotRepaired(why) } = outcome(&report) else {
        panic!("{:?}", outcome(&report));
    };
    assert!(why.contains("sums"), "{why}");
    assert_eq!(chain(&report), Chain::ValidChain);
    assert!(matches!(local::apply(&project.path(), &report), Err(local::LocalError::NothingToApply)));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_red_no_agent_is_launched() {
    let sandbox = sandbox_or_skip!();
    let project = Crate::new(running::GREEN);
    let report = fix(&sandbox, &project, request_on(&project)).await;
    assert_eq!(outcome(&report), Outcome::Succeeded, "{:#?}", report.view.steps);
    assert!(report.view.launches.is_empty() && report.changeset.is_none());
    assert_eq!(chain(&report), Chain::ValidChain);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_that_deletes_the_failing_test_is_no_success() {
    let sandbox = sandbox_or_skip!();
    let project = Crate::new(running::WRONG_SUM);
    let deleted =
        running::patch(&project, "    #[test]\n    fn sums() { assert_eq!(super::add(2, 3), 5); }\n", "");
    let mut request = request_on(&project);
    request.agent = local::LocalAgent::Replay(deleted);
    let report = fix(&sandbox, &project, request).await;
    let Outcome::Failed { failure: Failure::Refused(why) } = outcome(&report) else {
        panic!("{:?}", outcome(&report));
    };
    assert!(why.contains("sums"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_red_and_green_on_the_unchanged_tree_is_never_called_repaired() {
    let sandbox = sandbox_or_skip!();
    // Red the first time that it runs with a home, and green from then on, whatever the value is.
    let script = "echo 1..1\nif grep -q right value || [ -e $HOME/ran ]; then echo 'ok 1 - value'; else touch $HOME/ran; echo 'not ok 1 - value'; exit 1; fi\n";
    for reruns in [2, 0] {
        let (project, mut asked) = running::without_compiler("wrong");
        std::fs::write(project.path().join("check.sh"), script).unwrap();
        asked.limits.reruns = reruns;
        let report = fix(&sandbox, &project, asked).await;
        if reruns == 0 {
            assert_eq!(outcome(&report), Outcome::Succeeded, "nothing else stands in its way");
            continue;
        }
        let Outcome::Failed { failure: Failure::Inconclusive(why) } = outcome(&report) else {
            panic!("{:?}", outcome(&report));
        };
        assert!(why.contains("flaky on the unchanged tree"), "{why}");
        let flaky = report.view.steps.iter().find_map(|step| match &step.state {
            jobs::step::StepState::Done { output } => match output.as_ref() {
                jobs::step::Output::Verified { flaky, .. } => Some(flaky.clone()),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(flaky.unwrap()[0].check, "value");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_check_plants_in_the_home_does_not_steer_the_next_one() {
    let sandbox = sandbox_or_skip!();
    let project = Crate::new(running::WRONG_SUM);
    // A build script of the tree itself: whatever is tested next would be run by a program that says nothing.
    let plants = "fn main() {\n    let home = std::env::var(\"CARGO_HOME\").unwrap();\n    std::fs::create_dir_all(&home).unwrap();\n    let setting = \"[target.'cfg(all())']\\nrunner = ['sh', '-c', 'echo; echo running 2 tests; echo; echo \\\"test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\\\"']\\n\";\n    std::fs::write(format!(\"{home}/config.toml\"), setting).unwrap();\n}\n";
    std::fs::write(project.path().join("build.rs"), plants).unwrap();
    let mut asked = request_on(&project);
    asked.checks = vec![
        jobs::check::Check::new("cargo check", jobs::check::Tool::CargoCheck, &["cargo", "check"]),
        jobs::check::Check::new("cargo test", jobs::check::Tool::CargoTest, &["cargo", "test", "--lib"]),
    ];
    let report = fix(&sandbox, &project, asked).await;
    let baseline = report.baseline.as_ref().unwrap();
    assert_eq!(baseline.checks[0].report.outcome, jobs::verdict::CheckOutcome::Passed);
    assert_eq!(baseline.checks[1].report.outcome, jobs::verdict::CheckOutcome::Failed, "{baseline:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_is_halted_and_sealed() {
    let sandbox = sandbox_or_skip!();
    let project = Crate::new(running::SLOW_TEST);
    let request = request_on(&project);
    let (engine, run) = running::queued(&sandbox, &project, request).await;
    let mut progress = engine.progress.subscribe();
    let driven = {
        let engine = std::sync::Arc::clone(&engine);
        tokio::spawn(async move { engine.run_one(CancellationToken::new()).await })
    };
    running::wait_for_command(&mut progress, "cargo test").await;
    let request = jobs::store::runs::HaltRequest {
        by: "ada".to_owned(),
        reason: HaltReason::Cancelled("cancelled by ada".to_owned()),
    };
    jobs::store::runs::cancel(&engine.db, &run, &request, engine.clock.now()).await.unwrap();
    driven.await.unwrap();
    let view = jobs::store::runs::view(&engine.db, &run).await.unwrap().unwrap();
    let RunState::Finished { outcome: Outcome::Halted { reason, .. } } = view.run.state else {
        panic!("{:?}", view.run.state);
    };
    assert_eq!(reason, HaltReason::Cancelled("cancelled by ada".to_owned()));
    assert_eq!(running::chain_in(&engine, &run), Chain::ValidChain);
}
