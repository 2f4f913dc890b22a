use jobs::authorization::{Authorization, PushResult};
use jobs::check::{Check, Tool};
use jobs::digest::Digest;
use jobs::forge::{Account, ForgeKind, PushTarget, Repository, Role, Subject};
use jobs::id::{AuthorizationId, Fence};
use jobs::job::{AgentSpec, Goal, Guard, JobSpec, Limits, Request};
use jobs::run::{Failure, HaltReason, Outcome, Phase, RunState, Suspension};
use jobs::step::{FileChange, Output, StepKind, StepState};
use jobs::store::authorizations::Recorded;
use jobs::store::receipts::{Receipt, ReceiptKind};
use jobs::store::runs::HaltRequest;
use jobs::store::steps::Step;
use jobs::store::{RunSummary, Signed};
use jobs::verdict::{
    CheckOutcome, CheckResult, Checked, Counts, Diagnostic, NamedTest, Report, Severity, TestCase,
    TestFailure, TestState, Verdict,
};

use super::*;
use crate::forge::{CheckRun, CheckStatus, Conclusion, MAX_TEXT_BYTES};

mod waits;

const START: Millis = 1_800_000_000_000;
const RUN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const KEY_ID: &str = "ed25519:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn spec(goal: Goal) -> JobSpec {
    JobSpec {
        repository: Repository {
            forge: ForgeKind::Local,
            owner: "acme".into(),
            name: "anvil".into(),
            installation: 0,
        },
        subject: Subject::PullRequest { number: 5 },
        goal,
        head: "a".repeat(40).parse().unwrap(),
        tree: "b".repeat(40).parse().unwrap(),
        base: "c".repeat(40).parse().unwrap(),
        fetch_ref: "refs/pull/5/head".into(),
        push_target: PushTarget::Branch { name: "topic".into() },
        base_branch: None,
        checks: vec![
            Check::new("clippy", Tool::Clippy, &["cargo", "clippy"]),
            Check::new("cargo test", Tool::CargoTest, &["cargo", "test"]),
        ],
        limits: Limits::default(),
        agent: AgentSpec::Fixers,
        guard: Guard::default(),
        request: Request {
            actor: Account { id: 42, login: "ada".into() },
            role: Role::Write,
            origin: "comment/7".into(),
            text: Digest::of("/whipstitch fix"),
        },
    }
}

fn view(state: RunState) -> RunView {
    let job = spec(Goal::Repair);
    let finished_at = matches!(state, RunState::Finished { .. }).then_some(START + 90_000);
    RunView {
        run: RunSummary {
            id: RUN.parse().unwrap(),
            job_id: job.id(),
            job,
            state,
            fence: Fence(1),
            node: None,
            halt: None,
            created_at: START,
            started_at: Some(START + 1_000),
            updated_at: START + 90_000,
            finished_at,
        },
        steps: Vec::new(),
        launches: Vec::new(),
        receipts: Vec::new(),
        authorizations: Vec::new(),
        outbox: Vec::new(),
    }
}

fn report(tool: Tool, outcome: CheckOutcome) -> Report {
    Report {
        tool,
        outcome,
        counts: Counts::default(),
        tests: Vec::new(),
        failures: Vec::new(),
        diagnostics: Vec::new(),
        notes: Vec::new(),
    }
}

fn result(name: &str, exit_code: i32, report: Report) -> CheckResult {
    CheckResult { name: name.into(), exit_code: Some(exit_code), duration_ms: 10, output: None, report }
}

fn tests(states: &[(&str, TestState)]) -> Vec<TestCase> {
    states.iter().map(|(id, state)| TestCase { id: (*id).into(), state: *state }).collect()
}

fn red() -> Checked {
    let mut clippy = report(Tool::Clippy, CheckOutcome::Failed);
    clippy.diagnostics.push(Diagnostic {
        file: "src/lib.rs".into(),
        line: Some(3),
        column: Some(5),
        severity: Severity::Error,
        code: Some("clippy::needless_return".into()),
        message: "unneeded `return` statement".into(),
    });
    let mut test = report(Tool::CargoTest, CheckOutcome::Failed);
    test.tests = tests(&[("adds", TestState::Failed), ("subtracts", TestState::Passed)]);
    test.failures.push(TestFailure {
        name: "adds".into(),
        file: Some("src/lib.rs".into()),
        line: Some(12),
        message: "assertion failed".into(),
        excerpt: "assertion `left == right` failed\n  left: 3\n right: 4".into(),
    });
    Checked { checks: vec![result("clippy", 101, clippy), result("cargo test", 101, test)] }
}

fn green() -> Checked {
    let mut test = report(Tool::CargoTest, CheckOutcome::Passed);
    test.tests = tests(&[("adds", TestState::Passed), ("subtracts", TestState::Passed)]);
    let clippy = report(Tool::Clippy, CheckOutcome::Passed);
    Checked { checks: vec![result("clippy", 0, clippy), result("cargo test", 0, test)] }
}

fn with(mut view: RunView, outputs: Vec<(StepKind, Output)>) -> RunView {
    for (kind, output) in outputs {
        let seq = u32::try_from(view.steps.len()).unwrap();
        let state = StepState::Done { output: Box::new(output) };
        view.steps.push(Step { seq, kind, iteration: 0, state, at: START });
    }
    view
}

fn applied() -> (StepKind, Output) {
    let files = vec![FileChange { path: "src/lib.rs".into(), added_lines: 1, removed_lines: 1 }];
    let output = Output::Applied {
        patch: Digest::of("patch"),
        tree_before: "b".repeat(40).parse().unwrap(),
        tree_after: "d".repeat(40).parse().unwrap(),
        files,
    };
    (StepKind::Apply, output)
}

fn verified(checked: Checked, verdict: Verdict) -> (StepKind, Output) {
    let (patch, changeset) = (Some(Digest::of("patch")), Some(Digest::of("changeset")));
    (StepKind::Verify, Output::Verified { checked, verdict, patch, changeset, flaky: Vec::new() })
}

fn repaired() -> RunView {
    let view = view(RunState::Finished { outcome: Outcome::Succeeded });
    let mut view = with(
        view,
        vec![
            (StepKind::Baseline, Output::Baseline { checked: red() }),
            applied(),
            verified(green(), Verdict::Repaired),
        ],
    );
    for (seq, kind) in [ReceiptKind::Open, ReceiptKind::Apply, ReceiptKind::Seal].into_iter().enumerate() {
        let signed = Signed { bytes: format!("{{\"seq\":{seq}}}").into_bytes(), signature: [7; 64] };
        view.receipts.push(Receipt { seq: seq as u32, kind, signed, diff: None, at: START });
    }
    view
}

fn decided(result: Option<PushResult>) -> RunView {
    let mut view = repaired();
    view.authorizations.push(Recorded {
        authorization: Authorization {
            id: AuthorizationId::fresh(START),
            run: view.run.id.clone(),
            actor: Account { id: 43, login: "grace".into() },
            role: Role::Maintain,
            origin: "local/comment/9".into(),
            head: view.job().head.clone(),
            patch: Digest::of("patch"),
            created_at: START,
            expires_at: START + 86_400_000,
        },
        spent_at: None,
        result,
        settled_at: Some(START + 100_000),
    });
    view
}

fn failed(failure: Failure) -> RunView {
    let view = view(RunState::Finished { outcome: Outcome::Failed { failure } });
    let why = Verdict::NotRepaired(vec!["`adds` still fails".into()]);
    with(
        view,
        vec![(StepKind::Baseline, Output::Baseline { checked: red() }), applied(), verified(red(), why)],
    )
}

fn halted(reason: HaltReason, requeue_recommended: bool) -> RunView {
    view(RunState::Finished { outcome: Outcome::Halted { reason, requeue_recommended } })
}

fn shown_with(view: &RunView, material: impl FnOnce(&mut Material<'_>)) -> CheckRun {
    let (mask, url) = (Mask::new(vec!["hunter22".into()]), "https://x.example".parse().unwrap());
    let patch = b"--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -3 +3 @@\n-    return a + a;\n+    a + b\n".to_vec();
    let mut given = Material {
        patch: Some(patch),
        key_id: Some(KEY_ID),
        public_url: Some(&url),
        head: None,
        mask: &mask,
        now: START,
    };
    material(&mut given);
    check_run(view, &given)
}

fn shown(view: &RunView) -> CheckRun {
    shown_with(view, |_| {})
}

fn line(view: &RunView) -> String {
    let check = shown(view);
    let status = match check.status {
        CheckStatus::Queued => "queued",
        CheckStatus::InProgress => "in_progress",
        CheckStatus::Completed { conclusion, .. } => conclusion.name(),
    };
    let buttons: Vec<String> = check.actions.into_iter().map(|action| action.identifier).collect();
    format!("{status} | {} | {}", check.title, buttons.join(" "))
}

#[test]
fn every_standing_has_its_conclusion_title_and_buttons() {
    let mut stopping = view(RunState::Running { phase: Phase::Edit });
    let reason = HaltReason::Cancelled("cancelled by ada".into());
    stopping.run.halt = Some(HaltRequest { by: "ada".into(), reason });
    let mut clean = view(RunState::Finished { outcome: Outcome::Succeeded });
    clean = with(clean, vec![(StepKind::Baseline, Output::Baseline { checked: green() })]);
    let mut rehearsal = repaired();
    rehearsal.run.job.push_target = PushTarget::Nowhere { why: "the fork was deleted".into() };
    let mut only_verify = failed(Failure::NotRepaired("clippy and cargo test are red".into()));
    only_verify.run.job.goal = Goal::Verify;
    let commit = "e".repeat(40).parse().unwrap();
    let views = [
        view(RunState::Queued),
        view(RunState::Running { phase: Phase::Verify }),
        stopping,
        view(RunState::Suspended { why: Suspension::UncertainLaunch }),
        view(RunState::Suspended { why: Suspension::Requested }),
        clean,
        view(RunState::Finished { outcome: Outcome::Succeeded }),
        repaired(),
        rehearsal,
        decided(None),
        decided(Some(PushResult::Pushed { commit })),
        decided(Some(PushResult::Refused { why: "the branch moved".into() })),
        decided(Some(PushResult::Uncertain { why: "no answer".into() })),
        decided(Some(PushResult::Declined { by: "grace".into() })),
        failed(Failure::Provision("x".into())),
        failed(Failure::Bootstrap("x".into())),
        failed(Failure::NotRepaired("x".into())),
        only_verify,
        failed(Failure::Refused("x".into())),
        failed(Failure::Inconclusive("x".into())),
        failed(Failure::Agent("x".into())),
        failed(Failure::Internal("x".into())),
        halted(HaltReason::Governor("x".into()), false),
        halted(HaltReason::Cancelled("x".into()), false),
        halted(HaltReason::Superseded("x".into()), false),
        halted(HaltReason::OutOfTime("x".into()), true),
    ];
    let lines: Vec<String> = views.iter().map(line).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    queued | Waits for a free runner | cancel
    in_progress | Runs the checks (5 of 6) | cancel
    in_progress | Was asked to stop | 
    action_required | Waits for a decision: whether the agent ran is not known | cancel
    action_required | Suspended, waits to be resumed | cancel
    success | Nothing to repair: every check passes | rerun
    failure | Ended without proof that the checks pass | rerun
    action_required | Repaired: a verified patch of 1 file waits for a yes | apply reject rerun
    action_required | Repaired: the verified patch is to be taken by hand | rerun
    action_required | Authorized by grace; the push is on its way | 
    failure | Repaired by commit eeeeeeee | 
    action_required | Repaired: a verified patch of 1 file waits for a yes | apply reject rerun
    action_required | Whether the push arrived is not known | rerun
    failure | The verified patch was declined by grace | rerun
    failure | Failed: the repository could not be fetched | rerun
    failure | Failed: dependencies or the sealed container could not be set up | rerun
    failure | Not repaired: some checks are still red | rerun
    failure | Some checks are red | rerun
    failure | Not accepted: it looks green, but is not believed | rerun
    failure | No conclusion: a check could not be read | rerun
    failure | Failed: the agent made no usable proposal | rerun
    failure | Failed: something went wrong in this service | rerun
    failure | Halted: going on would not pay | rerun
    cancelled | Cancelled | rerun
    cancelled | Superseded: the pull request moved on | rerun
    timed_out | Halted: the time for this run is spent | rerun
    ");
}

#[test]
fn a_verified_patch_is_shown_with_its_proof_and_the_way_to_apply_it() {
    let check = shown(&repaired());
    insta::assert_snapshot!(check.summary, @r#"
    What was red on this commit is green with the patch below; it was verified in a sealed container.

    **Nothing was pushed.** To push exactly this patch, press Apply or comment `/whipstitch apply 5d5799fb7264`. The least role that may do so is `write`.

    | Check | Before | After |
    |---|---|---|
    | `clippy` | **red** (1 finding) | green |
    | `cargo test` | **red** (1 test failed) | green (2 tests) |

    **Red before, green now**

    - `adds`
    - `src/lib.rs clippy::needless_return: unneeded 'return' statement`

    ### Receipts

    | | |
    |---|---|
    | Seal | `sha256:5d5799fb7264dabb6fd150f58bb8bce13e51d23510bcc7206fcdceb4da2c364d` |
    | Receipts before the seal | 2 |
    | Head | `sha256:b41e95c43f388d561b146326d84e3a6b9e31c4ef32ab97c04774c31aada3246a` |
    | Key | `ed25519:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` |
    | Bundle | https://x.example/runs/01890a5d-ac96-774b-bcce-b302099a8057/bundle |

    <details><summary>The seal as it was signed</summary>

    `{"seq":2}`

    </details>

    Run [`01890a5d-ac96-774b-bcce-b302099a8057`](https://x.example/runs/01890a5d-ac96-774b-bcce-b302099a8057), asked for by `ada` (role `write`) with `comment/7`. Agent: `fixers`. Policy and checks come from the base branch's commit `cccccccc`.
    "#);
    insta::assert_snapshot!(check.text.unwrap(), @r"
    ### The patch

    ```diff
    --- a/src/lib.rs
    +++ b/src/lib.rs
    @@ -3 +3 @@
    -    return a + a;
    +    a + b
    ```
    ");
}

#[test]
fn what_is_still_red_is_shown_and_no_patch() {
    let check = shown(&failed(Failure::NotRepaired("no fixer has anything more to propose".into())));
    insta::assert_snapshot!(check.summary, @r"
    The agent had nothing more to propose while something was still red: `no fixer has anything more to propose`.

    No patch is offered. What is still red stands below.

    | Check | Before | After |
    |---|---|---|
    | `clippy` | **red** (1 finding) | **red** (1 finding) |
    | `cargo test` | **red** (1 test failed) | **red** (1 test failed) |

    **Red on the last look**

    - `adds`
    - `src/lib.rs clippy::needless_return: unneeded 'return' statement`

    **Why the last change does not count as a repair**

    - `'adds' still fails`

    Run [`01890a5d-ac96-774b-bcce-b302099a8057`](https://x.example/runs/01890a5d-ac96-774b-bcce-b302099a8057), asked for by `ada` (role `write`) with `comment/7`. Agent: `fixers`. Policy and checks come from the base branch's commit `cccccccc`.
    ");
    insta::assert_snapshot!(check.text.unwrap(), @r"
    ### What failed

    `adds`

    ```text
    assertion `left == right` failed
      left: 3
     right: 4
    ```
    ");
}

#[test]
fn tests_that_did_not_run_are_not_counted_as_failed() {
    let mut broken = red();
    let test = &mut broken.checks[1].report;
    (test.tests, test.failures) = (Vec::new(), Vec::new());
    test.diagnostics.push(Diagnostic {
        file: "src/lib.rs".into(),
        line: Some(3),
        column: Some(5),
        severity: Severity::Error,
        code: Some("E0308".into()),
        message: "mismatched types".into(),
    });
    let mut gate = red();
    let test = &mut gate.checks[1].report;
    (test.tests, test.failures) = (tests(&[("adds", TestState::Passed)]), Vec::new());
    test.notes = vec!["coverage of 40 % is under 80 %".into()];
    for (checked, told) in [
        (broken, "| `cargo test` | **red** (does not compile: 1 error) |"),
        (gate, "| `cargo test` | **red** (`coverage of 40 % is under 80 %`) |"),
    ] {
        let mut view = failed(Failure::NotRepaired("still red".into()));
        view.steps[0].state =
            StepState::Done { output: Box::new(Output::Baseline { checked: checked.clone() }) };
        let summary = shown(&view).summary;
        assert!(summary.contains(told), "{summary}");
    }
}

#[test]
fn what_is_gone_or_flaky_is_not_told_as_mended() {
    let mut before = red();
    before.checks[1].report.tests.push(TestCase { id: "divides".into(), state: TestState::Failed });
    before.checks[1].report.tests.push(TestCase { id: "halves".into(), state: TestState::Failed });
    let mut after = green();
    after.checks[1].report.tests.push(TestCase { id: "halves".into(), state: TestState::Passed });
    let flaky = vec![NamedTest { check: "cargo test".into(), id: "halves".into() }];
    let (patch, changeset) = (Some(Digest::of("patch")), Some(Digest::of("changeset")));
    let verdict = Verdict::Refused(vec!["`divides` is gone".into()]);
    let verified = Output::Verified { checked: after, verdict, patch, changeset, flaky };
    let view = view(RunState::Finished {
        outcome: Outcome::Failed { failure: Failure::Refused("`divides` is gone".into()) },
    });
    let outputs = vec![
        (StepKind::Baseline, Output::Baseline { checked: before }),
        applied(),
        (StepKind::Verify, verified),
    ];
    let summary = shown(&with(view, outputs)).summary;
    let (_, listed) = summary.split_once("**Red before, green now**").unwrap();
    let (mended, rest) = listed.split_once("**Red and green on the unchanged commit").unwrap();
    assert!(mended.contains("- `adds`"), "{summary}");
    assert!(!mended.contains("divides") && !mended.contains("halves"), "{summary}");
    assert!(rest.contains("- `halves`"), "{summary}");
}

#[test]
fn a_halt_is_named_with_advice() {
    let check = shown(&halted(HaltReason::OutOfTime("30 minutes are over".into()), true));
    insta::assert_snapshot!(check.summary, @r"
    The run was halted because its time is spent: `30 minutes are over`.

    Another run is recommended: it may well come further.

    Run [`01890a5d-ac96-774b-bcce-b302099a8057`](https://x.example/runs/01890a5d-ac96-774b-bcce-b302099a8057), asked for by `ada` (role `write`) with `comment/7`. Agent: `fixers`. Policy and checks come from the base branch's commit `cccccccc`.
    ");
    assert_eq!(check.text, None);
}

#[test]
fn a_pushed_commit_gets_a_check_run_of_its_own_with_the_same_receipts() {
    let commit = "e".repeat(40).parse().unwrap();
    let view = decided(Some(PushResult::Pushed { commit }));
    let (mask, url) = (Mask::default(), "https://x.example".parse().unwrap());
    let material = Material {
        patch: None,
        key_id: Some(KEY_ID),
        public_url: Some(&url),
        head: None,
        mask: &mask,
        now: START,
    };
    let check = pushed_check_run(&view, &material).unwrap();
    assert_eq!(check.head.as_str(), "e".repeat(40));
    assert_eq!(check.external_id, format!("{RUN}.pushed"));
    let done = CheckStatus::Completed { conclusion: Conclusion::Success, at: START + 100_000 };
    assert_eq!(check.status, done);
    insta::assert_snapshot!(check.summary, @r#"
    This commit is the verified repair of `aaaaaaaa`. `grace` authorized it. Its tree is `dddddddddddddddddddddddddddddddddddddddd`, the one on which the checks were seen to pass, in a sealed container, before it was pushed.

    | Check | Before | After |
    |---|---|---|
    | `clippy` | **red** (1 finding) | green |
    | `cargo test` | **red** (1 test failed) | green (2 tests) |

    ### Receipts

    | | |
    |---|---|
    | Seal | `sha256:5d5799fb7264dabb6fd150f58bb8bce13e51d23510bcc7206fcdceb4da2c364d` |
    | Receipts before the seal | 2 |
    | Head | `sha256:b41e95c43f388d561b146326d84e3a6b9e31c4ef32ab97c04774c31aada3246a` |
    | Key | `ed25519:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` |
    | Bundle | https://x.example/runs/01890a5d-ac96-774b-bcce-b302099a8057/bundle |

    <details><summary>The seal as it was signed</summary>

    `{"seq":2}`

    </details>

    Run [`01890a5d-ac96-774b-bcce-b302099a8057`](https://x.example/runs/01890a5d-ac96-774b-bcce-b302099a8057), asked for by `ada` (role `write`) with `comment/7`. Agent: `fixers`. Policy and checks come from the base branch's commit `cccccccc`.
    "#);
    assert_eq!(pushed_check_run(&decided(None), &material), None);
}

#[test]
fn h3_a_patch_for_a_head_of_the_past_is_superseded_and_cannot_be_applied() {
    let moved = "f".repeat(40).parse().unwrap();
    let check = shown_with(&repaired(), |material| material.head = Some(moved));
    assert!(matches!(check.status, CheckStatus::Completed { conclusion: Conclusion::Cancelled, .. }));
    assert_eq!(check.title, "Superseded: the pull request moved on to ffffffff");
    assert!(check.actions.is_empty());
    assert_eq!(check.head, repaired().job().head, "it stays on the tested commit");
}

#[test]
fn r1_a_huge_diff_is_cut_within_the_limit_after_secrets_were_masked() {
    let secret = format!("+PASSWORD=hunter22 {}\n", "ü".repeat(40));
    let patch = secret.repeat(2_000).into_bytes();
    let check = shown_with(&repaired(), |material| material.patch = Some(patch));
    let text = check.text.unwrap();
    assert!(text.len() <= MAX_TEXT_BYTES && text.len() > MAX_TEXT_BYTES - 400);
    assert!(!text.contains("hunter22") && text.contains("[masked]"));
    assert!(text.contains("\n```\n\n*Cut here. The whole is in the run's bundle: https://x.example/runs/"));
    let many = (0..9_000).map(|at| (format!("case {at} {}", "ü".repeat(120)), TestState::Failed));
    let mut view = failed(Failure::NotRepaired("x".into()));
    let StepState::Done { output } = &mut view.steps[0].state else { panic!() };
    let Output::Baseline { checked } = output.as_mut() else { panic!() };
    checked.checks[1].report.tests = many.map(|(id, state)| TestCase { id, state }).collect();
    assert!(shown(&view).summary.len() <= MAX_TEXT_BYTES);
}

#[test]
fn r2_only_findings_with_a_place_are_marked_and_the_rest_is_counted() {
    let mut view = failed(Failure::NotRepaired("x".into()));
    let StepState::Done { output } = &mut view.steps[0].state else { panic!() };
    let Output::Baseline { checked } = output.as_mut() else { panic!() };
    let diagnostics = &mut checked.checks[0].report.diagnostics;
    let found = diagnostics[0].clone();
    for (file, line) in [("../etc/passwd", Some(1)), ("/etc/passwd", Some(1)), ("", Some(1)), ("a", None)] {
        diagnostics.push(Diagnostic { file: file.into(), line, ..found.clone() });
    }
    diagnostics.push(Diagnostic { line: Some(u32::MAX), ..found.clone() });
    diagnostics.push(Diagnostic { line: Some(0), ..found });
    let check = shown(&view);
    let places: Vec<_> = check.annotations.iter().map(|mark| (mark.path.as_str(), mark.start_line)).collect();
    assert_eq!(places, [("src/lib.rs", 3), ("src/lib.rs", 12)]);
    assert!(check.summary.contains("6 findings without a place in a file"), "{}", check.summary);
}

#[test]
fn r2_remarks_are_told_only_when_the_list_is_final() {
    let running = with(
        view(RunState::Running { phase: Phase::Edit }),
        vec![(StepKind::Baseline, Output::Baseline { checked: red() })],
    );
    assert!(shown(&running).annotations.is_empty());
}

#[test]
fn r3_every_button_is_within_the_forges_limits() {
    for view in [repaired(), view(RunState::Queued), halted(HaltReason::Governor("x".into()), true)] {
        let actions = shown(&view).actions;
        assert!((1..=3).contains(&actions.len()));
        for action in actions {
            assert!(action.label.chars().count() <= 20, "{action:?}");
            assert!(action.description.chars().count() <= 40, "{action:?}");
            assert!(action.identifier.chars().count() <= 20, "{action:?}");
        }
    }
}

#[test]
fn words_of_others_stay_inert() {
    let hostile = "` | x\n\n# Approved ✅ <img src=x> [a](http://evil.example) @everyone\u{202e}";
    let mut view = failed(Failure::NotRepaired(hostile.into()));
    view.run.job.checks[0].name = hostile.into();
    view.run.job.request.actor.login = hostile.into();
    let check = shown(&view);
    assert!(!check.summary.contains("\n# Approved"), "{}", check.summary);
    assert!(!check.summary.contains('\u{202e}'));
    for event in pulldown_cmark::Parser::new_ext(&check.summary, pulldown_cmark::Options::ENABLE_TABLES) {
        match event {
            pulldown_cmark::Event::Text(text) => {
                assert!(!text.contains("evil") && !text.contains("everyone"))
            }
            pulldown_cmark::Event::Html(html) | pulldown_cmark::Event::InlineHtml(html) => {
                assert!(!html.contains("img"), "{html}");
            }
            _ => {}
        }
    }
}
