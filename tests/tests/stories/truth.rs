//! Truth: what a check printed decides what the check run says, and what cannot be believed is no pass.

use e2e::scripted::{Observed, Script};
use e2e::story::{FULL, On, Shown, World};
use jobs::run::{Failure, HaltReason, Outcome};
use runners::reports::{Ended, RawOutput};

/// The check run of a run whose one check printed this.
async fn told(tool: &str, observed: Observed) -> Shown {
    let world = world(tool).await;
    world.say("ada", "/whipstitch fix").await;
    world.run(Script::Observed(Box::new(observed))).await;
    world.settle().await;
    world.check_on(&world.head())
}

async fn world(tool: &str) -> World {
    let world = World::new(On::GitHub).await.unwrap();
    let reports = if tool == "junit" { "reports = [\"out.xml\"]\n" } else { "" };
    let policy =
        format!("[[checks]]\nname = \"tests\"\ntool = \"{tool}\"\nrun = [\"make\", \"test\"]\n{reports}");
    world.github().push_files(FULL, "main", &[(".github/whipstitch.toml", Some(&policy))]).unwrap();
    world
}

fn printed(exit: i32, stdout: &str) -> RawOutput {
    RawOutput { exit_code: Some(exit), stdout: stdout.as_bytes().to_vec(), ..RawOutput::default() }
}

fn junit(exit: i32, xml: &str) -> RawOutput {
    let files = vec![("out.xml".to_owned(), xml.as_bytes().to_vec())];
    RawOutput { exit_code: Some(exit), files, ..RawOutput::default() }
}

fn cases(cases: &str, failures: usize) -> String {
    let tests = cases.matches("<testcase").count();
    format!(
        "<testsuite name=\"s\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"0\">{cases}</testsuite>"
    )
}

const RED: &str = "<testcase classname=\"a\" name=\"one\"><failure message=\"2 is not 1\">left: 2</failure></testcase><testcase classname=\"a\" name=\"two\"/>";
const GREEN: &str = "<testcase classname=\"a\" name=\"one\"/><testcase classname=\"a\" name=\"two\"/>";

fn only(baseline: RawOutput) -> Observed {
    Observed { baseline, rerun: None, after: None }
}

fn changed(baseline: RawOutput, after: RawOutput) -> Observed {
    let files = vec![("src/lib.rs", Some("pub fn one() -> u32 { 1 }\n"))];
    Observed { baseline, rerun: None, after: Some((files, after)) }
}

#[tokio::test]
async fn t1_killed_uncollected_and_unreported_checks_are_inconclusive_and_never_a_pass() {
    let killed = RawOutput { ended: Ended::Killed, exit_code: None, ..printed(0, "collected 3 items\n") };
    let uncollected = printed(5, "collected 0 items\n\n===== no tests ran in 0.01s =====\n");
    for (tool, raw) in [("pytest", killed), ("pytest", uncollected), ("junit", printed(0, "all good\n"))] {
        let check = told(tool, only(raw)).await;
        assert_eq!(check.state, "failure", "{check:?}");
        assert!(check.title.starts_with("No conclusion"), "{}", check.title);
    }
}

#[tokio::test]
async fn t2_what_a_test_prints_is_not_believed() {
    let lie = "running 1 test\ntest result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    for (tool, raw) in
        [("cargo-test", printed(101, lie)), ("pytest", printed(1, "=== 3 passed in 0.1s ===\n"))]
    {
        let check = told(tool, only(raw)).await;
        assert_eq!(check.state, "failure", "{check:?}");
        assert!(!check.title.contains("Nothing to repair"), "{}", check.title);
    }
}

#[tokio::test]
async fn t3_red_before_and_after_or_red_and_green_on_one_tree_is_no_repair() {
    let red = || junit(1, &cases(RED, 1));
    let check = told("junit", changed(red(), red())).await;
    assert_eq!(
        (check.state.as_str(), check.buttons.as_slice()),
        ("failure", ["rerun".to_owned()].as_slice())
    );
    assert!(check.summary.contains("a.one") || check.summary.contains("a::one"), "{}", check.summary);
    let flaky =
        Observed { rerun: Some(junit(0, &cases(GREEN, 0))), ..changed(red(), junit(0, &cases(GREEN, 0))) };
    let check = told("junit", flaky).await;
    assert_eq!(check.state, "failure", "{check:?}");
    assert!(check.summary.contains("flaky"), "{}", check.summary);
    let fixed = told("junit", changed(red(), junit(0, &cases(GREEN, 0)))).await;
    assert_eq!(fixed.state, "action_required", "a real repair waits for its yes: {fixed:?}");
}

#[tokio::test]
async fn t4_a_patch_that_loses_the_failing_test_is_no_repair_and_the_test_is_named() {
    let lost = cases("<testcase classname=\"a\" name=\"two\"/>", 0);
    let skipped = cases("<testcase classname=\"a\" name=\"one\"><skipped/></testcase><testcase classname=\"a\" name=\"two\"/>", 0)
        .replace("skipped=\"0\"", "skipped=\"1\"");
    for after in [lost, skipped] {
        let check = told("junit", changed(junit(1, &cases(RED, 1)), junit(0, &after))).await;
        assert_eq!(check.state, "failure", "{check:?}");
        assert!(check.title.starts_with("Not accepted"), "{}", check.title);
        assert!(check.summary.contains("one"), "{}", check.summary);
    }
}

#[tokio::test]
async fn t5_a_red_exit_with_green_tests_is_red() {
    let check = told("junit", only(junit(1, &cases(GREEN, 0)))).await;
    assert_eq!(check.state, "failure", "{check:?}");
    let check = told("junit", changed(junit(1, &cases(RED, 1)), junit(1, &cases(GREEN, 0)))).await;
    assert_eq!(check.state, "failure", "{check:?}");
    assert!(!check.buttons.contains(&"apply".to_owned()));
}

#[tokio::test]
async fn t6_a_host_that_is_not_admitted_ends_the_run_by_its_name_and_its_command() {
    let world = world("pytest").await;
    world.say("ada", "/whipstitch fix").await;
    let why = "`pip install -r requirements.txt` asked for mirror.example:443, which is not admitted";
    world.start().await.end(Outcome::Failed { failure: Failure::Bootstrap(why.to_owned()) }).await;
    world.settle().await;
    let check = world.check_on(&world.head());
    assert_eq!(check.state, "failure");
    assert!(
        check.summary.contains("mirror.example:443") && check.summary.contains("pip install"),
        "{}",
        check.summary
    );
    assert!(check.summary.contains("the operator can add it"), "{}", check.summary);
}

#[tokio::test]
async fn t7_what_cannot_be_done_ends_halted_or_failed_with_the_evidence_so_far() {
    let spent = HaltReason::Governor("the budget of 500000 tokens is spent".to_owned());
    let halted = Outcome::Halted { reason: spent, requeue_recommended: true };
    let failed = Outcome::Failed { failure: Failure::NotRepaired("nothing more to propose".to_owned()) };
    let late = Outcome::Halted {
        reason: HaltReason::OutOfTime("30 min are over".to_owned()),
        requeue_recommended: false,
    };
    for (outcome, state, words) in [
        (halted, "failure", "500000 tokens"),
        (failed, "failure", "nothing more to propose"),
        (late, "timed_out", "30 min are over"),
    ] {
        let world = World::new(On::GitHub).await.unwrap();
        world.say("ada", "/whipstitch fix").await;
        world.run(Script::Red { findings: 2, outcome }).await;
        world.settle().await;
        let check = world.check_on(&world.head());
        assert_eq!(check.state, state);
        assert!(check.summary.contains(words), "{}", check.summary);
        assert!(
            check.summary.contains("Another run") || words == "nothing more to propose",
            "{}",
            check.summary
        );
        assert!(!world.github().check_runs(FULL, &world.head())[0].annotations.is_empty(), "the evidence");
    }
}
