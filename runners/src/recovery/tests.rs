//! A run cut off between any two steps goes on with the second one.

use jobs::check::Tool;
use jobs::id::Fence;
use jobs::step::SealReport;
use jobs::verdict::{CheckResult, Report};

use super::*;

fn checked(outcome: CheckOutcome) -> Checked {
    let report = Report { outcome, ..Report::inconclusive(Tool::Tap, "") };
    Checked {
        checks: vec![CheckResult {
            name: "tests".to_owned(),
            exit_code: Some(1),
            duration_ms: 5,
            output: None,
            report,
        }],
    }
}

fn tree(letter: &str) -> TreeId {
    letter.repeat(40).parse().unwrap()
}

fn launch(iteration: u32, state: LaunchState) -> Launch {
    Launch {
        id: LaunchId::fresh(i64::from(iteration)),
        iteration,
        agent: "replay/1".to_owned(),
        input: Digest::of("task"),
        state,
        fence: Fence(1),
        intended_at: 0,
        updated_at: 0,
    }
}

fn seal() -> SealReport {
    SealReport {
        backend: "embedded".to_owned(),
        kernel: "6.18".to_owned(),
        landlock_abi: None,
        policy: None,
        limits_tier: "rlimits".to_owned(),
        limits: Vec::new(),
        egress: None,
        tests: Vec::new(),
    }
}

fn proposed(launch: &Launch, patch: Option<Digest>) -> Output {
    Output::Proposed { launch: launch.id.clone(), patch, note: String::new(), tokens: 0 }
}

fn governed(go: bool) -> Output {
    Output::Governed { go, why: "because".to_owned(), figures: vec![(REQUEUE.to_owned(), "yes".to_owned())] }
}

fn applied(from: &str, to: &str) -> Output {
    Output::Applied {
        patch: Digest::of(to),
        tree_before: tree(from),
        tree_after: tree(to),
        files: Vec::new(),
    }
}

fn verified(outcome: CheckOutcome, verdict: Verdict) -> Output {
    Output::Verified { checked: checked(outcome), verdict, patch: None, changeset: None, flaky: Vec::new() }
}

/// A whole run of two iterations, the second of which repairs.
fn outputs(launches: &[Launch]) -> Vec<(StepKind, u32, Output)> {
    let red = Verdict::NotRepaired(vec!["tests: still red".to_owned()]);
    let bootstrapped = Output::Bootstrapped { installs: Vec::new(), egress: Vec::new(), seal: seal() };
    vec![
        (StepKind::Provision, 0, Output::Provisioned { tree: tree("a"), files: 1, bytes: 1 }),
        (StepKind::Bootstrap, 0, bootstrapped),
        (StepKind::Navigate, 0, Output::Navigated { languages: Vec::new(), omitted: Vec::new(), map: None }),
        (StepKind::Baseline, 0, Output::Baseline { checked: checked(CheckOutcome::Failed) }),
        (StepKind::Govern, 0, governed(true)),
        (StepKind::Propose, 0, proposed(&launches[0], Some(Digest::of("b")))),
        (StepKind::Apply, 0, applied("a", "b")),
        (StepKind::Verify, 0, verified(CheckOutcome::Failed, red)),
        (StepKind::Govern, 1, governed(true)),
        (StepKind::Propose, 1, proposed(&launches[1], Some(Digest::of("c")))),
        (StepKind::Apply, 1, applied("b", "c")),
        (StepKind::Verify, 1, verified(CheckOutcome::Passed, Verdict::Repaired)),
    ]
}

fn done((kind, iteration, output): (StepKind, u32, Output)) -> [Step; 2] {
    let step = |state| Step { seq: 0, kind, iteration, state, at: 0 };
    [step(StepState::Begun), step(StepState::Done { output: Box::new(output) })]
}

fn place(next: &Next) -> Option<(StepKind, u32)> {
    Some(match next {
        Next::Provision => (StepKind::Provision, 0),
        Next::Bootstrap => (StepKind::Bootstrap, 0),
        Next::Navigate => (StepKind::Navigate, 0),
        Next::Baseline => (StepKind::Baseline, 0),
        Next::Govern { iteration } => (StepKind::Govern, *iteration),
        Next::Propose { iteration, .. } => (StepKind::Propose, *iteration),
        Next::Apply { iteration, .. } => (StepKind::Apply, *iteration),
        Next::Verify { iteration } => (StepKind::Verify, *iteration),
        Next::Settle(_) | Next::Suspend(_) => return None,
    })
}

#[test]
fn a_run_cut_off_anywhere_goes_on_with_the_step_that_is_not_done() {
    let launches = [
        launch(0, LaunchState::Settled { proposal: Some(Digest::of("b")), tokens: 0 }),
        launch(1, LaunchState::Settled { proposal: Some(Digest::of("c")), tokens: 0 }),
    ];
    let outputs = outputs(&launches);
    for cut in 0..outputs.len() {
        let (kind, iteration, _) = &outputs[cut];
        let mut steps: Vec<Step> = outputs[..cut].iter().cloned().flat_map(done).collect();
        let between = plan(Goal::Repair, &steps, &launches);
        steps.push(done(outputs[cut].clone())[0].clone());
        let within = plan(Goal::Repair, &steps, &launches);
        assert_eq!(place(&between.next), Some((*kind, *iteration)), "before {kind:?} {iteration}");
        assert_eq!(within, between, "within {kind:?} {iteration}");
    }
    let steps: Vec<Step> = outputs.into_iter().flat_map(done).collect();
    let end = plan(Goal::Repair, &steps, &launches);
    assert_eq!(end.next, Next::Settle(Outcome::Succeeded));
    assert_eq!(end.known.tree_now(), Some(&tree("c")));
    assert_eq!(end.known.open, [1, 1, 0]);
}

/// The steps up to the moment at which the agent is asked.
fn up_to_the_agent() -> Vec<Step> {
    let launches = [launch(0, LaunchState::Intended), launch(1, LaunchState::Intended)];
    outputs(&launches).into_iter().take(5).flat_map(done).collect()
}

#[test]
fn a_launch_without_a_result_suspends_the_run() {
    for state in [LaunchState::Intended, LaunchState::Started, LaunchState::Uncertain] {
        let open = launch(0, state);
        let plan = plan(Goal::Repair, &up_to_the_agent(), std::slice::from_ref(&open));
        assert_eq!(plan.next, Next::Suspend(open.id));
    }
}

#[test]
fn a_recorded_result_is_taken_and_only_an_abandoned_launch_is_followed_by_another() {
    let patch = Some(Digest::of("b"));
    for state in
        [LaunchState::Settled { proposal: patch, tokens: 0 }, LaunchState::Adopted { proposal: patch }]
    {
        let one = launch(0, state);
        let answer = Answer::Recorded { launch: one.id.clone(), proposal: patch, tokens: 0 };
        let plan = plan(Goal::Repair, &up_to_the_agent(), &[one]);
        assert_eq!(plan.next, Next::Propose { iteration: 0, answer });
    }
    let given_up = launch(0, LaunchState::Abandoned { by: "ada".to_owned() });
    let plan = plan(Goal::Repair, &up_to_the_agent(), &[given_up]);
    assert_eq!(plan.next, Next::Propose { iteration: 0, answer: Answer::Ask });
}

fn ends(goal: Goal, steps: Vec<Step>) -> Next {
    plan(goal, &steps, &[]).next
}

#[test]
fn a_green_baseline_ends_the_run_and_a_verification_ends_with_it() {
    let baseline = |outcome| done((StepKind::Baseline, 0, Output::Baseline { checked: checked(outcome) }));
    let green = baseline(CheckOutcome::Passed).to_vec();
    assert_eq!(ends(Goal::Repair, green.clone()), Next::Settle(Outcome::Succeeded));
    assert_eq!(ends(Goal::Verify, green), Next::Settle(Outcome::Succeeded));
    let failure = Failure::NotRepaired("tests: failed".to_owned());
    let red = baseline(CheckOutcome::Failed).to_vec();
    assert_eq!(ends(Goal::Verify, red), Next::Settle(Outcome::Failed { failure }));
    let failure = Failure::Inconclusive("tests: killed".to_owned());
    let unread = baseline(CheckOutcome::Inconclusive("killed".to_owned())).to_vec();
    assert_eq!(ends(Goal::Verify, unread), Next::Settle(Outcome::Failed { failure }));
}

#[test]
fn a_change_that_is_not_believed_is_no_progress_and_never_a_success() {
    let launches = [launch(0, LaunchState::Intended), launch(1, LaunchState::Intended)];
    let mut steps: Vec<Step> = outputs(&launches).into_iter().take(7).flat_map(done).collect();
    let refused = Verdict::Refused(vec!["tests: sums ran before and is gone now".to_owned()]);
    steps.extend(done((StepKind::Verify, 0, verified(CheckOutcome::Passed, refused))));
    let after = plan(Goal::Repair, &steps, &[]);
    assert_eq!((after.next, after.known.open), (Next::Govern { iteration: 1 }, vec![1, 1]));
    steps.extend(done((StepKind::Govern, 1, governed(true))));
    steps.extend(done((StepKind::Propose, 1, proposed(&launches[1], None))));
    let failure = Failure::Refused("tests: sums ran before and is gone now".to_owned());
    assert_eq!(ends(Goal::Repair, steps), Next::Settle(Outcome::Failed { failure }));
}

#[test]
fn a_patch_that_does_not_fit_is_told_as_the_reason_when_nothing_follows() {
    let launches = [launch(0, LaunchState::Intended), launch(1, LaunchState::Intended)];
    let mut steps: Vec<Step> = outputs(&launches).into_iter().take(6).flat_map(done).collect();
    let state = StepState::Failed { error: "a.rs: the hunk does not fit".to_owned() };
    steps.push(Step { seq: 0, kind: StepKind::Apply, iteration: 0, state, at: 0 });
    assert_eq!(ends(Goal::Repair, steps.clone()), Next::Govern { iteration: 1 });
    steps.extend(done((StepKind::Govern, 1, governed(true))));
    steps.extend(done((StepKind::Propose, 1, proposed(&launches[1], None))));
    let failure = Failure::Agent("a.rs: the hunk does not fit".to_owned());
    assert_eq!(ends(Goal::Repair, steps), Next::Settle(Outcome::Failed { failure }));
}

#[test]
fn the_governors_no_halts_with_its_word_on_a_requeue() {
    let mut steps = up_to_the_agent();
    steps.extend(done((StepKind::Govern, 0, governed(false))));
    let reason = HaltReason::Governor("because".to_owned());
    let halted = Outcome::Halted { reason, requeue_recommended: true };
    assert_eq!(ends(Goal::Repair, steps), Next::Settle(halted));
}

#[test]
fn only_the_time_within_steps_is_the_runs_own() {
    let step = |state, at| Step { seq: 0, kind: StepKind::Baseline, iteration: 0, state, at };
    let failed = || StepState::Failed { error: String::new() };
    let steps = [
        step(StepState::Begun, 0),
        step(StepState::Begun, 1_000_000),
        step(failed(), 1_000_300),
        step(StepState::Begun, 5_000_000),
        step(failed(), 5_000_200),
    ];
    assert_eq!(worked_ms(&steps), 500);
}

#[test]
fn a_run_whose_checks_could_not_be_read_ends_inconclusive() {
    let launches =
        [launch(0, LaunchState::Settled { proposal: None, tokens: 0 }), launch(1, LaunchState::Intended)];
    for (outcome, is_inconclusive) in
        [(CheckOutcome::Inconclusive("no ruff".to_owned()), true), (CheckOutcome::Failed, false)]
    {
        let mut outputs: Vec<_> = outputs(&launches).into_iter().take(6).collect();
        outputs[3].2 = Output::Baseline { checked: checked(outcome) };
        outputs[5].2 = proposed(&launches[0], None);
        let steps: Vec<Step> = outputs.into_iter().flat_map(done).collect();
        let Next::Settle(Outcome::Failed { failure }) = plan(Goal::Repair, &steps, &launches[..1]).next
        else {
            panic!("it ends");
        };
        assert_eq!(matches!(failure, Failure::Inconclusive(_)), is_inconclusive, "{failure:?}");
    }
}
