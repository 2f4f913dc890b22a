//! What the checks said before and after the repair, and what of it changed.

use std::collections::BTreeSet;

use jobs::check::ToolKind;
use jobs::step::{Output, StepState};
use jobs::store::RunView;
use jobs::verdict::{CheckOutcome, CheckResult, Checked, Report, Severity, TestState, Verdict};

use crate::offer;
use crate::text::one_line;

/// The checks on the tree as it was admitted.
pub fn baseline(view: &RunView) -> Option<&Checked> {
    view.steps.iter().find_map(|step| match &step.state {
        StepState::Done { output } => match output.as_ref() {
            Output::Baseline { checked } => Some(checked),
            Output::Provisioned { .. }
            | Output::Bootstrapped { .. }
            | Output::Navigated { .. }
            | Output::Proposed { .. }
            | Output::Applied { .. }
            | Output::Verified { .. }
            | Output::Governed { .. } => None,
        },
        StepState::Begun | StepState::Failed { .. } => None,
    })
}

/// The last reading of the checks, whatever tree it was of.
pub(super) fn last(view: &RunView) -> Option<&Checked> {
    offer::last_verified(view).map(|last| last.checked).or_else(|| baseline(view))
}

/// One check, as a line of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub name: String,
    pub before: String,
    pub after: String,
}

/// Each admitted check with what it said before and after.
pub(super) fn lines(view: &RunView) -> Vec<Line> {
    let (before, after) = (baseline(view), offer::last_verified(view).map(|last| last.checked));
    let said = |checked: Option<&Checked>, name: &str| {
        let result = checked.and_then(|checked| checked.checks.iter().find(|result| result.name == name));
        result.map_or_else(|| "not run".to_owned(), said)
    };
    let line = |name: &String| Line {
        name: cell(name),
        before: said(before, name),
        after: if after.is_some() { said(after, name) } else { "-".to_owned() },
    };
    view.job().checks.iter().map(|check| line(&check.name)).collect()
}

fn said(result: &CheckResult) -> String {
    let report = &result.report;
    match &report.outcome {
        CheckOutcome::Passed => match report.tool.kind() {
            ToolKind::Tests => format!("green ({})", count(passed(report), "test")),
            ToolKind::Diagnostics => "green".to_owned(),
        },
        CheckOutcome::Failed => match report.tool.kind() {
            ToolKind::Tests => format!("**red** ({})", red_words(report)),
            ToolKind::Diagnostics => format!("**red** ({})", count(errors(report), "finding")),
        },
        CheckOutcome::Inconclusive(why) => format!("inconclusive: {}", cell(why)),
        CheckOutcome::Unsupported(why) => format!("cannot be read: {}", cell(why)),
    }
}

/// Why a check of tests is red. No test need have failed: it may not compile, not be collected, or miss a
/// threshold, and then no number of tests is the truth of it.
fn red_words(report: &Report) -> String {
    let red = failed(report);
    let found = report.diagnostics.iter().filter(|found| found.severity == Severity::Error).count();
    match (red, found) {
        (0, 0) => match report.notes.first() {
            Some(why) => cell(why),
            None => "no test named as failed".to_owned(),
        },
        (0, found) => format!("does not compile: {}", count(found, "error")),
        (red, _) => format!("{} failed", count(red, "test")),
    }
}

fn passed(report: &Report) -> usize {
    report.tests.iter().filter(|test| test.state == TestState::Passed).count()
}

fn failed(report: &Report) -> usize {
    let red = report.tests.iter().filter(|test| is_red(test.state)).count();
    red.max(report.failures.len())
}

fn errors(report: &Report) -> usize {
    let errors = report.diagnostics.iter().filter(|found| found.severity == Severity::Error).count();
    if errors == 0 { report.diagnostics.len() } else { errors }
}

const fn is_red(state: TestState) -> bool {
    match state {
        TestState::Failed | TestState::Errored => true,
        TestState::Passed | TestState::Skipped | TestState::ExpectedFailure => false,
    }
}

/// `1 test`, `2 tests`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// What was red before and is green now, what is red now, and of what neither is claimed; each entry fit for
/// a code span.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Change {
    pub green_again: Vec<String>,
    pub red_now: Vec<String>,
    pub flaky: Vec<String>,
}

/// The change of single tests and findings.
///
/// A test that is gone is not green, and one that is red and green on the unchanged tree was not mended.
pub(super) fn change(view: &RunView) -> Change {
    let red_before = baseline(view).map(red).unwrap_or_default();
    let Some(last) = offer::last_verified(view) else {
        return Change { red_now: red_before.into_iter().collect(), ..Change::default() };
    };
    let flaky: BTreeSet<String> = last
        .flaky
        .iter()
        .map(|test| if test.id.is_empty() { &test.check } else { &test.id })
        .map(|name| one_line(name, 160))
        .collect();
    let (red_now, gone) = (red(last.checked), gone(view, last.checked));
    let is_green =
        |name: &&String| !red_now.contains(*name) && !gone.contains(*name) && !flaky.contains(*name);
    Change {
        green_again: red_before.iter().filter(is_green).cloned().collect(),
        red_now: red_now.into_iter().collect(),
        flaky: flaky.into_iter().collect(),
    }
}

/// The tests of the baseline that did not pass or fail in a later reading.
fn gone(view: &RunView, after: &Checked) -> BTreeSet<String> {
    let ran = |checked: &Checked| -> BTreeSet<String> {
        let tests = checked.checks.iter().flat_map(|result| &result.report.tests);
        tests
            .filter(|test| is_red(test.state) || test.state == TestState::Passed)
            .map(|test| one_line(&test.id, 160))
            .collect()
    };
    let now = ran(after);
    baseline(view).map(ran).unwrap_or_default().difference(&now).cloned().collect()
}

/// Everything red in a reading, by the name under which a person knows it.
fn red(checked: &Checked) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for result in &checked.checks {
        let report = &result.report;
        if report.outcome != CheckOutcome::Failed {
            continue;
        }
        for test in report.tests.iter().filter(|test| is_red(test.state)) {
            names.insert(one_line(&test.id, 160));
        }
        let graver = report.diagnostics.iter().any(|found| found.severity == Severity::Error);
        for found in &report.diagnostics {
            if graver && found.severity != Severity::Error {
                continue;
            }
            let code = found.code.as_deref().map(|code| format!(" {code}")).unwrap_or_default();
            names.insert(one_line(&format!("{}{code}: {}", found.file, found.message), 160));
        }
    }
    names
}

/// Why the last verification did not count as a repair.
pub(super) fn reasons(view: &RunView) -> Vec<String> {
    let reasons = match offer::last_verified(view).map(|last| last.verdict) {
        Some(Verdict::NotRepaired(why) | Verdict::Refused(why) | Verdict::Inconclusive(why)) => {
            why.as_slice()
        }
        Some(Verdict::NothingToRepair | Verdict::Repaired) | None => &[],
    };
    reasons.iter().take(20).map(|why| one_line(why, 300)).collect()
}

/// Text of others as a code span in a table: on one line, inert, and unable to end its cell.
pub(super) fn cell(text: &str) -> String {
    let line = one_line(text, 120).replace('|', "\\|");
    if line.trim().is_empty() { "`?`".to_owned() } else { format!("`{line}`") }
}
