//! What two readings prove: the unchanged tree's and the changed tree's.
//!
//! `Repaired` is the one verdict that claims something, so everything must speak for it: each admitted
//! check passed, each test that ran before still runs and was not set aside, no finding is new, and the
//! patch did not touch what judges it. Whatever is still red is `NotRepaired`; what is green but not
//! believed is `Refused`; what cannot be known is `Inconclusive`.

use std::collections::{BTreeMap, BTreeSet};

use jobs::check::ToolKind;
use jobs::verdict::{CheckOutcome, CheckResult, Checked, Diagnostic, NamedTest, Report, TestState, Verdict};

use super::patch_facts::PatchFacts;

/// Reasons that one verdict lists; the rest is counted.
const REASONS: usize = 40;

/// Stands for a check that names none of its tests.
const WHOLE_CHECK: &str = "";

/// Compares the unchanged tree's checks with the changed tree's.
pub fn compare(baseline: &Checked, after: &Checked, patch: &PatchFacts) -> Verdict {
    compare_knowing(baseline, after, patch, &BTreeSet::new())
}

/// The same, with the tests that reruns of the unchanged tree have shown to be flaky: a repair of one of
/// them alone is never claimed.
pub fn compare_knowing(
    baseline: &Checked,
    after: &Checked,
    patch: &PatchFacts,
    flaky: &BTreeSet<NamedTest>,
) -> Verdict {
    if baseline.all_passed() {
        return Verdict::NothingToRepair;
    }
    let pairs = match pair(baseline, after) {
        Ok(pairs) => pairs,
        Err(missing) => return Verdict::Inconclusive(missing),
    };
    let mut red = Reasons::default();
    let mut unknown = Reasons::default();
    for (before, check) in &pairs {
        match &check.report.outcome {
            CheckOutcome::Passed => {}
            CheckOutcome::Failed => still_red(&mut red, before, check, flaky),
            CheckOutcome::Inconclusive(why) => unknown.push(format!("{}: {why}", check.name)),
            CheckOutcome::Unsupported(what) => {
                unknown.push(format!("{}: cannot be read: {what}", check.name))
            }
        }
    }
    for (before, check) in &pairs {
        new_findings(&mut red, before, check, patch);
    }
    if !red.0.is_empty() {
        red.0.extend(patch.reasons());
        return Verdict::NotRepaired(red.finish());
    }
    let mut disbelieved = Reasons::default();
    disbelieved.0.extend(patch.reasons());
    // What proved nothing has lost nothing either.
    for (before, check) in pairs.iter().filter(|(_, check)| check.report.outcome == CheckOutcome::Passed) {
        lost_tests(&mut disbelieved, before, check);
    }
    if !unknown.0.is_empty() {
        // It does not even look green.
        unknown.0.extend(disbelieved.0);
        return Verdict::Inconclusive(unknown.finish());
    }
    if !disbelieved.0.is_empty() {
        return Verdict::Refused(disbelieved.finish());
    }
    for (before, _) in &pairs {
        if let CheckOutcome::Inconclusive(why) | CheckOutcome::Unsupported(why) = &before.report.outcome {
            unknown.push(format!("{}: the unchanged tree proved nothing: {why}", before.name));
        }
    }
    if unknown.0.is_empty() && only_flaky(&pairs, flaky) {
        unknown.push(
            "everything that was red is flaky on the unchanged tree, so nothing shows a repair".to_owned(),
        );
    }
    if unknown.0.is_empty() { Verdict::Repaired } else { Verdict::Inconclusive(unknown.finish()) }
}

type Pairs<'a> = Vec<(&'a CheckResult, &'a CheckResult)>;

/// Every check of the baseline with its counterpart.
fn pair<'a>(baseline: &'a Checked, after: &'a Checked) -> Result<Pairs<'a>, Vec<String>> {
    let mut pairs = Vec::new();
    let mut missing = Vec::new();
    for before in &baseline.checks {
        match after.checks.iter().find(|check| check.name == before.name) {
            Some(check) if check.report.tool == before.report.tool => pairs.push((before, check)),
            Some(_) => missing.push(format!("{} was read by another tool's reader", before.name)),
            None => missing.push(format!("{} did not run on the changed tree", before.name)),
        }
    }
    for check in &after.checks {
        if !baseline.checks.iter().any(|before| before.name == check.name) {
            missing.push(format!("{} did not run on the unchanged tree", check.name));
        }
    }
    if baseline.checks.is_empty() {
        missing.push("no check ran".to_owned());
    }
    if missing.is_empty() { Ok(pairs) } else { Err(missing) }
}

/// Names what is red in a check, so that it can be given back to whoever repairs. What failed on the
/// unchanged tree too, or fails there now and then, is told as such.
fn still_red(red: &mut Reasons, before: &CheckResult, check: &CheckResult, flaky: &BTreeSet<NamedTest>) {
    let told = red.0.len();
    for failure in &check.report.failures {
        let place = match (&failure.file, failure.line) {
            (Some(file), Some(line)) => format!(" at {file}:{line}"),
            (Some(file), None) => format!(" in {file}"),
            (None, _) => String::new(),
        };
        let is_flaky = flaky.iter().any(|test| test.check == check.name && is_named(&test.id, &failure.name));
        let known = if is_flaky {
            " (flaky on the unchanged tree)"
        } else if was_red(before, &failure.name) {
            " (red before the change too)"
        } else {
            ""
        };
        red.push(format!("{}: {}{place}: {}{known}", check.name, failure.name, failure.message));
    }
    for found in &check.report.diagnostics {
        if found.severity == jobs::verdict::Severity::Error {
            red.push(format!("{}: {}", check.name, place_of(found)));
        }
    }
    if red.0.len() == told {
        let why = check.report.notes.first().map(|note| format!(": {note}")).unwrap_or_default();
        red.push(format!("{} failed{why}", check.name));
    }
}

/// Whether a failure's human name is that of the test: some readers put the binary before it in the id.
fn is_named(id: &str, name: &str) -> bool {
    id == name || id.strip_suffix(name).is_some_and(|before| before.ends_with("::"))
}

fn was_red(before: &CheckResult, name: &str) -> bool {
    reds(&before.report).any(|id| is_named(id, name))
        || before.report.failures.iter().any(|failure| failure.name == name)
}

fn place_of(found: &Diagnostic) -> String {
    let line = found.line.map(|line| format!(":{line}")).unwrap_or_default();
    let code = found.code.as_deref().map(|code| format!(" [{code}]")).unwrap_or_default();
    format!("{}{line}:{code} {}", found.file, found.message)
}

/// Findings that were not there before.
///
/// A compiler that stopped at an error has not looked for the rest, so where the check was red before,
/// only what lies in a file that the patch touches is counted against it.
fn new_findings(red: &mut Reasons, before: &CheckResult, after: &CheckResult, patch: &PatchFacts) {
    let mut known: BTreeMap<(String, Option<String>, String), usize> = BTreeMap::new();
    for found in &before.report.diagnostics {
        *known.entry(fingerprint(found)).or_default() += 1;
    }
    let complete = before.report.outcome == CheckOutcome::Passed;
    for found in &after.report.diagnostics {
        match known.get_mut(&fingerprint(found)) {
            Some(left) if *left > 0 => *left -= 1,
            Some(_) | None => {
                if complete || patch.touches(&found.file) {
                    red.push(format!("{}: new: {}", after.name, place_of(found)));
                }
            }
        }
    }
}

/// The fingerprint, with the line numbers that some messages hold taken out.
fn fingerprint(found: &Diagnostic) -> (String, Option<String>, String) {
    let (file, code, message) = found.fingerprint();
    let mut stable = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find("line ") {
        let (head, tail) = rest.split_at(at + "line ".len());
        stable.push_str(head);
        rest = tail.trim_start_matches(|next: char| next.is_ascii_digit());
    }
    stable.push_str(rest);
    (file.to_owned(), code.map(str::to_owned), stable)
}

/// Tests that ran before and do not now, or were set aside.
fn lost_tests(lost: &mut Reasons, before: &CheckResult, after: &CheckResult) {
    let now: BTreeMap<&str, TestState> =
        after.report.tests.iter().map(|test| (test.id.as_str(), test.state)).collect();
    for test in &before.report.tests {
        let told = match (test.state, now.get(test.id.as_str())) {
            (TestState::Skipped, Some(_)) => continue,
            (TestState::ExpectedFailure, Some(TestState::ExpectedFailure | TestState::Passed)) => continue,
            (_, Some(TestState::Passed)) => continue,
            (TestState::Skipped, None) => "was skipped and is gone now",
            (_, None) => "ran before and is gone now",
            (_, Some(TestState::Skipped)) => "ran before and is skipped now",
            (_, Some(TestState::ExpectedFailure)) => "ran before and is expected to fail now",
            (_, Some(TestState::Failed | TestState::Errored)) => "ran before and fails now",
        };
        lost.push(format!("{}: {} {told}", before.name, test.id));
    }
    let fewer = executed(&before.report) > executed(&after.report);
    if fewer && before.report.tool.kind() == ToolKind::Tests && lost.0.is_empty() {
        lost.push(format!(
            "{}: {} tests ran before and {} now",
            before.name,
            executed(&before.report),
            executed(&after.report)
        ));
    }
}

fn executed(report: &Report) -> u64 {
    report.counts.passed.unwrap_or_default() + report.counts.failed.unwrap_or_default()
}

/// Whether each red check of the unchanged tree is red for flaky tests alone.
fn only_flaky(pairs: &[(&CheckResult, &CheckResult)], flaky: &BTreeSet<NamedTest>) -> bool {
    let known = |check: &str, id: &str| flaky.iter().any(|test| test.check == check && test.id == id);
    !flaky.is_empty()
        && pairs.iter().filter(|(before, _)| before.report.outcome == CheckOutcome::Failed).all(
            |(before, _)| {
                let mut red = reds(&before.report).peekable();
                match red.peek() {
                    Some(_) => before.report.diagnostics.is_empty() && red.all(|id| known(&before.name, id)),
                    None => known(&before.name, WHOLE_CHECK),
                }
            },
        )
}

fn reds(report: &Report) -> impl Iterator<Item = &str> {
    report.tests.iter().filter(|test| is_red(test.state)).map(|test| test.id.as_str())
}

/// Whether a check is red without naming a test or a finding: a gate, a count without names.
fn red_without_names(check: &CheckResult) -> bool {
    let report = &check.report;
    report.tool.kind() == ToolKind::Tests
        && report.outcome == CheckOutcome::Failed
        && report.diagnostics.is_empty()
        && reds(report).next().is_none()
}

/// The tests whose state changed, so whose check must be run again on the unchanged tree before anything
/// is claimed of them.
pub fn tests_to_rerun(baseline: &Checked, after: &Checked) -> Vec<NamedTest> {
    let mut changed = Vec::new();
    for before in &baseline.checks {
        let Some(check) = after.checks.iter().find(|check| check.name == before.name) else { continue };
        let now: BTreeMap<&str, TestState> =
            check.report.tests.iter().map(|test| (test.id.as_str(), test.state)).collect();
        for test in &before.report.tests {
            if now.get(test.id.as_str()).is_some_and(|&state| is_red(state) != is_red(test.state)) {
                changed.push(NamedTest { check: before.name.clone(), id: test.id.clone() });
            }
        }
        if red_without_names(before) && check.report.outcome == CheckOutcome::Passed {
            changed.push(NamedTest { check: before.name.clone(), id: WHOLE_CHECK.to_owned() });
        }
    }
    changed
}

/// Whether a test that was green is red now: it may be one that is so now and then.
pub fn turned_red(baseline: &Checked, after: &Checked) -> bool {
    baseline.checks.iter().any(|before| {
        let Some(check) = after.checks.iter().find(|check| check.name == before.name) else { return false };
        let red: BTreeSet<&str> = reds(&check.report).collect();
        before.report.tests.iter().any(|test| !is_red(test.state) && red.contains(test.id.as_str()))
    })
}

fn is_red(state: TestState) -> bool {
    matches!(state, TestState::Failed | TestState::Errored)
}

/// The tests whose state differs over runs of the same unchanged tree.
pub fn flaky(baseline: &Checked, reruns: &[Checked]) -> BTreeSet<NamedTest> {
    let mut found = BTreeSet::new();
    for before in &baseline.checks {
        for rerun in reruns.iter().flat_map(|run| &run.checks).filter(|check| check.name == before.name) {
            let again: BTreeMap<&str, TestState> =
                rerun.report.tests.iter().map(|test| (test.id.as_str(), test.state)).collect();
            for test in &before.report.tests {
                if again.get(test.id.as_str()).is_some_and(|&state| is_red(state) != is_red(test.state)) {
                    found.insert(NamedTest { check: before.name.clone(), id: test.id.clone() });
                }
            }
            if red_without_names(before) && rerun.report.outcome == CheckOutcome::Passed {
                found.insert(NamedTest { check: before.name.clone(), id: WHOLE_CHECK.to_owned() });
            }
        }
    }
    found
}

#[derive(Default)]
struct Reasons(Vec<String>);

impl Reasons {
    fn push(&mut self, reason: String) {
        self.0.push(super::text::cut(&reason, 1_500));
    }

    fn finish(mut self) -> Vec<String> {
        let left = self.0.len().saturating_sub(REASONS);
        self.0.truncate(REASONS);
        if left > 0 {
            self.0.push(format!("and {left} more"));
        }
        self.0
    }
}

#[cfg(test)]
mod tests;
