//! What two readings prove, and above all what they do not.

use jobs::check::Tool;
use jobs::verdict::{Counts, Severity, TestCase, TestFailure};

use super::*;

fn report(outcome: CheckOutcome, tests: &[(&str, TestState)]) -> Report {
    let count = |wanted: TestState| Some(tests.iter().filter(|(_, state)| *state == wanted).count() as u64);
    Report {
        outcome,
        counts: Counts {
            passed: count(TestState::Passed),
            failed: count(TestState::Failed),
            skipped: count(TestState::Skipped),
            errors: count(TestState::Errored),
        },
        tests: tests.iter().map(|&(id, state)| TestCase { id: id.to_owned(), state }).collect(),
        failures: tests
            .iter()
            .filter(|(_, state)| *state == TestState::Failed)
            .map(|(id, _)| TestFailure {
                name: (*id).to_owned(),
                file: Some("tests/test_a.py".to_owned()),
                line: Some(3),
                message: "wrong".to_owned(),
                excerpt: String::new(),
            })
            .collect(),
        ..Report::inconclusive(Tool::Pytest, "")
    }
}

fn checked(reports: Vec<Report>) -> Checked {
    let check = |(number, report): (usize, Report)| CheckResult {
        name: format!("check {number}"),
        exit_code: Some(i32::from(report.outcome != CheckOutcome::Passed)),
        duration_ms: 1,
        output: None,
        report,
    };
    Checked { checks: reports.into_iter().enumerate().map(check).collect() }
}

fn red() -> Checked {
    checked(vec![report(CheckOutcome::Failed, &[("a", TestState::Failed), ("b", TestState::Passed)])])
}

fn green() -> Checked {
    checked(vec![report(CheckOutcome::Passed, &[("a", TestState::Passed), ("b", TestState::Passed)])])
}

fn nothing() -> PatchFacts {
    PatchFacts::default()
}

fn found(file: &str, message: &str, severity: Severity) -> Diagnostic {
    Diagnostic {
        file: file.to_owned(),
        line: Some(1),
        column: Some(1),
        severity,
        code: None,
        message: message.to_owned(),
    }
}

#[test]
fn red_before_and_green_after_is_a_repair() {
    assert_eq!(compare(&red(), &green(), &nothing()), Verdict::Repaired);
}

#[test]
fn a_green_baseline_leaves_nothing_to_repair() {
    assert_eq!(compare(&green(), &green(), &nothing()), Verdict::NothingToRepair);
}

#[test]
fn red_before_and_after_is_told_with_its_place() {
    let Verdict::NotRepaired(reasons) = compare(&red(), &red(), &nothing()) else { panic!("not repaired") };
    assert_eq!(reasons, ["check 0: a at tests/test_a.py:3: wrong (red before the change too)"]);
}

#[test]
fn a_test_that_is_gone_or_set_aside_is_no_repair() {
    for (state, told) in [
        (None, "ran before and is gone now"),
        (Some(TestState::Skipped), "ran before and is skipped now"),
        (Some(TestState::ExpectedFailure), "ran before and is expected to fail now"),
    ] {
        let mut tests = vec![("b", TestState::Passed)];
        tests.extend(state.map(|state| ("a", state)));
        let after = checked(vec![report(CheckOutcome::Passed, &tests)]);
        let Verdict::Refused(reasons) = compare(&red(), &after, &nothing()) else { panic!("{state:?}") };
        assert_eq!(reasons, [format!("check 0: a {told}")]);
    }
}

#[test]
fn fewer_executed_tests_without_names_are_no_repair() {
    let mut before = red();
    before.checks[0].report.tests.clear();
    let mut after = green();
    after.checks[0].report.tests.clear();
    after.checks[0].report.counts.passed = Some(1);
    assert!(matches!(compare(&before, &after, &nothing()), Verdict::Refused(_)));
}

#[test]
fn a_flagged_patch_is_refused_and_a_red_one_is_told_of_it_too() {
    let patch = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 1  # noqa\n";
    let facts = PatchFacts::of(patch);
    let Verdict::Refused(reasons) = compare(&red(), &green(), &facts) else { panic!("refused") };
    assert_eq!(reasons, ["the patch silences a finding: a.py:1: x = 1  # noqa"]);
    let Verdict::NotRepaired(reasons) = compare(&red(), &red(), &facts) else { panic!("not repaired") };
    assert_eq!(reasons.len(), 2);
}

#[test]
fn what_proves_nothing_is_inconclusive() {
    let killed =
        checked(vec![report(CheckOutcome::Inconclusive("it was killed at a limit".to_owned()), &[])]);
    let Verdict::Inconclusive(reasons) = compare(&red(), &killed, &nothing()) else { panic!("after") };
    assert!(reasons[0].contains("killed"), "{reasons:?}");
    assert!(matches!(compare(&killed, &green(), &nothing()), Verdict::Inconclusive(_)));
    assert!(matches!(compare(&red(), &checked(Vec::new()), &nothing()), Verdict::Inconclusive(_)));
    assert!(matches!(compare(&checked(Vec::new()), &green(), &nothing()), Verdict::Inconclusive(_)));
    let unread = checked(vec![report(CheckOutcome::Unsupported("x".to_owned()), &[])]);
    assert!(matches!(compare(&red(), &unread, &nothing()), Verdict::Inconclusive(_)));
}

#[test]
fn a_new_finding_is_no_repair_and_a_moved_one_is_none() {
    let with = |diagnostics: Vec<Diagnostic>| {
        let mut report = report(CheckOutcome::Passed, &[]);
        report.tool = Tool::Ruff;
        report.diagnostics = diagnostics;
        report
    };
    let before = |found| checked(vec![red().checks[0].report.clone(), with(found)]);
    let after = |found| checked(vec![green().checks[0].report.clone(), with(found)]);
    let old = found("a.py", "unused import at line 4", Severity::Warning);
    let moved = Diagnostic { line: Some(9), message: "unused import at line 12".to_owned(), ..old.clone() };
    assert_eq!(
        compare(&before(vec![old.clone()]), &after(vec![moved.clone()]), &nothing()),
        Verdict::Repaired
    );
    let Verdict::NotRepaired(reasons) =
        compare(&before(vec![old.clone()]), &after(vec![moved.clone(), moved]), &nothing())
    else {
        panic!("a second one is new")
    };
    assert_eq!(reasons, ["check 1: new: a.py:9: unused import at line 12"]);
}

#[test]
fn a_check_that_turns_red_is_no_repair() {
    let before = checked(vec![red().checks[0].report.clone(), green().checks[0].report.clone()]);
    let after = checked(vec![green().checks[0].report.clone(), red().checks[0].report.clone()]);
    assert!(matches!(compare(&before, &after, &nothing()), Verdict::NotRepaired(_)));
}

#[test]
fn a_flaky_failure_is_never_claimed_as_repaired() {
    let named = NamedTest { check: "check 0".to_owned(), id: "a".to_owned() };
    assert_eq!(tests_to_rerun(&red(), &green()), std::slice::from_ref(&named));
    assert_eq!(tests_to_rerun(&red(), &red()), []);
    // The unchanged tree is green in one of two reruns.
    let known = flaky(&red(), &[red(), green()]);
    assert_eq!(known, BTreeSet::from([named]));
    assert!(matches!(compare_knowing(&red(), &green(), &nothing(), &known), Verdict::Inconclusive(_)));
    assert_eq!(
        compare_knowing(&red(), &green(), &nothing(), &flaky(&red(), &[red(), red()])),
        Verdict::Repaired
    );
    // Beside a failure that is real, the flaky one is told as such.
    let Verdict::NotRepaired(reasons) = compare_knowing(&red(), &red(), &nothing(), &known) else {
        panic!("red")
    };
    assert!(reasons[0].ends_with("(flaky on the unchanged tree)"), "{reasons:?}");
}

#[test]
fn what_turned_red_is_told_apart_from_what_was_red_and_from_what_is_flaky() {
    let turned =
        checked(vec![report(CheckOutcome::Failed, &[("a", TestState::Passed), ("b", TestState::Failed)])]);
    assert!(turned_red(&red(), &turned) && !turned_red(&red(), &red()) && !turned_red(&red(), &green()));
    let Verdict::NotRepaired(reasons) = compare(&red(), &turned, &nothing()) else { panic!("red") };
    assert_eq!(reasons, ["check 0: b at tests/test_a.py:3: wrong"]);
    // Readers may put the binary before the name in an id.
    let known =
        BTreeSet::from([NamedTest { check: "check 0".to_owned(), id: "crate (src/lib.rs)::b".to_owned() }]);
    let Verdict::NotRepaired(reasons) = compare_knowing(&red(), &turned, &nothing(), &known) else {
        panic!("red")
    };
    assert_eq!(reasons, ["check 0: b at tests/test_a.py:3: wrong (flaky on the unchanged tree)"]);
}

#[test]
fn a_check_that_names_no_test_is_rerun_as_a_whole() {
    let gate = |outcome| checked(vec![report(outcome, &[("a", TestState::Passed)])]);
    let (before, after) = (gate(CheckOutcome::Failed), gate(CheckOutcome::Passed));
    let whole = NamedTest { check: "check 0".to_owned(), id: String::new() };
    assert_eq!(tests_to_rerun(&before, &after), std::slice::from_ref(&whole));
    assert_eq!(flaky(&before, std::slice::from_ref(&before)), BTreeSet::new());
    let known = flaky(&before, std::slice::from_ref(&after));
    assert_eq!(known, BTreeSet::from([whole]));
    assert_eq!(compare(&before, &after, &nothing()), Verdict::Repaired);
    assert!(matches!(compare_knowing(&before, &after, &nothing(), &known), Verdict::Inconclusive(_)));
}

#[test]
fn a_repair_beside_a_flaky_test_is_still_one() {
    let before =
        checked(vec![report(CheckOutcome::Failed, &[("a", TestState::Failed), ("b", TestState::Failed)])]);
    let known = BTreeSet::from([NamedTest { check: "check 0".to_owned(), id: "b".to_owned() }]);
    assert_eq!(compare_knowing(&before, &green(), &nothing(), &known), Verdict::Repaired);
}

#[test]
fn reasons_are_bounded() {
    let ids: Vec<String> = (0..500).map(|number| format!("t{number}")).collect();
    let tests: Vec<(&str, TestState)> = ids.iter().map(|id| (id.as_str(), TestState::Failed)).collect();
    let many = checked(vec![report(CheckOutcome::Failed, &tests)]);
    let Verdict::NotRepaired(reasons) = compare(&many, &many, &nothing()) else { panic!("red") };
    assert_eq!(reasons.len(), REASONS + 1);
    assert_eq!(reasons[REASONS], format!("and {} more", 500 - REASONS));
}
