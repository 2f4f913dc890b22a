//! pytest: its JUnit XML first, its console as the second witness, its exit code as the third.
//!
//! The XML names every test, but calls `xfail` skipped and `xpass` passed, and has no place for what pytest
//! says of the session; the console has both, and can be written to by any test. So names, failures and
//! errors come from the XML where there is one, and the console only refines or worsens them.

use jobs::verdict::{Counts, TestFailure, TestState};

use super::junit::{self, Case, Document};
use super::reading::{Executed, Input, Reading};
use super::text;

mod console;
mod names;

use console::Console;

/// Reads one run of pytest.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let console = Console::read(input);
    let documents: Vec<Document> = input
        .files(|path| path.ends_with(".xml"))
        .into_iter()
        .map(|(_, bytes)| junit::parse(bytes))
        .filter(|document| document.is_junit)
        .collect();
    if documents.is_empty() {
        from_console(&mut reading, input, &console);
    } else {
        for document in &documents {
            from_document(&mut reading, input, document, &console);
        }
        let mut counts = document_counts(&documents);
        refine(&mut reading, &mut counts, &console);
        reading.counts = counts;
    }
    session(&mut reading, input, &console);
    reading
}

/// Names and failures of one XML document.
fn from_document(reading: &mut Reading, input: &Input<'_>, document: &Document, console: &Console) {
    if !document.whole {
        reading.open("the JUnit report is cut");
    }
    for case in &document.cases {
        if case.name.is_empty() {
            reading.open("a test was begun and never finished");
            continue;
        }
        let id = names::node_id(case, &console.files);
        let collection = case.class.is_empty() && !case.errors.is_empty();
        if !collection {
            reading.test(&id, case_state(case));
        }
        if case.trouble().is_some() {
            let mut failure = failure_of(input, &id, case);
            if failure.line.is_none() {
                failure.line = console.line_style_place(&id, &failure.message);
            }
            reading.failure(failure);
        }
    }
}

fn case_state(case: &Case) -> TestState {
    match (case.state(), &case.skipped) {
        (TestState::Skipped, Some(skip)) if skip.kind == "pytest.xfail" => TestState::ExpectedFailure,
        (state, _) => state,
    }
}

fn failure_of(input: &Input<'_>, id: &str, case: &Case) -> TestFailure {
    let trouble = case.trouble().cloned().unwrap_or_default();
    let file = id.split("::").next().unwrap_or(id);
    let place = if case.class.is_empty() && !case.errors.is_empty() {
        console::syntax_place(&trouble.text, file)
    } else {
        console::raised_at(&trouble.text)
    };
    let generic = trouble.message == "collection failure" || trouble.message.is_empty();
    let message = match console::error_lines(&trouble.text) {
        Some(lines) if generic => lines,
        Some(_) | None => junit::first_line(&trouble.message, &trouble.text),
    };
    let (file, line) = match place {
        Some((path, line)) => (input.path(&path), Some(line)),
        None => (input.path(file), None),
    };
    TestFailure { name: id.to_owned(), file: Some(file), line, message, excerpt: trouble.text }
}

/// pytest's own notion of the counts, as far as XML tells them.
fn document_counts(documents: &[Document]) -> Counts {
    let mut counts = Counts { passed: Some(0), failed: Some(0), skipped: Some(0), errors: Some(0) };
    let add = |count: &mut Option<u64>, more: usize| *count = count.map(|known| known + more as u64);
    for case in documents.iter().flat_map(|document| &document.cases) {
        add(&mut counts.failed, case.failures.len());
        add(&mut counts.errors, case.errors.len());
        // A test whose tear-down fails has passed before it.
        let torn = case.errors.iter().any(|error| error.message.starts_with("failed on teardown"));
        let passed = case.failures.is_empty() && case.skipped.is_none() && !case.name.is_empty();
        add(&mut counts.passed, usize::from(passed && (case.errors.is_empty() || torn)));
        let skipped = case.skipped.as_ref().is_some_and(|skip| skip.kind != "pytest.xfail");
        add(&mut counts.skipped, usize::from(skipped));
    }
    counts
}

/// Takes the console's finer counts where they fit the XML, and tells where they do not.
fn refine(reading: &mut Reading, counts: &mut Counts, console: &Console) {
    let xfailed = reading.count_of(&[TestState::ExpectedFailure]);
    if xfailed > 0 {
        reading.extra.insert("xfailed", xfailed);
    }
    let Some(summary) = &console.summary else { return };
    let agrees = counts.failed == Some(summary.failed)
        && counts.errors == Some(summary.errors)
        && xfailed == summary.xfailed;
    if agrees {
        counts.passed = Some(summary.passed);
        counts.skipped = Some(summary.skipped);
        summary.extras(&mut reading.extra);
        return;
    }
    reading.note(format!(
        "the JUnit report says {} failed and {} errors, the console says {} and {}",
        counts.failed.unwrap_or_default(),
        counts.errors.unwrap_or_default(),
        summary.failed,
        summary.errors
    ));
    counts.failed = counts.failed.max(Some(summary.failed));
    counts.errors = counts.errors.max(Some(summary.errors));
}

/// Without XML: what the console names and counts.
fn from_console(reading: &mut Reading, input: &Input<'_>, console: &Console) {
    for (id, state) in &console.tests {
        reading.test(id, *state);
    }
    for failure in &console.failures {
        let mut failure = failure.clone();
        failure.file = failure.file.map(|file| input.path(&file));
        reading.failure(failure);
    }
    match &console.summary {
        Some(summary) => {
            reading.counts = summary.counts();
            summary.extras(&mut reading.extra);
        }
        None => {
            reading.counts = console.progress_counts();
        }
    }
}

/// What pytest says of the whole session, by console and exit code.
fn session(reading: &mut Reading, input: &Input<'_>, console: &Console) {
    if console.summary.is_none()
        && reading.count_of(&[TestState::Failed]) == 0
        && let Some(failure) = console.crash(input)
    {
        reading.broken(format!("the process ended while {} ran: {}", failure.name, failure.message));
        reading.test(&failure.name.clone(), TestState::Errored);
        reading.failure(failure);
        reading.counts.failed = None;
        reading.counts.errors = None;
    }
    for banner in &console.banners {
        if banner.contains("errors during collection") || banner.contains("error during collection") {
            reading.broken(format!("pytest was interrupted: {banner}"));
        } else if !banner.starts_with("stopping after")
            && !banner.starts_with("xdist.dsession.Interrupted: stopping")
        {
            reading.open(format!("pytest stopped early: {banner}"));
        }
    }
    let finished = reading.counts.passed.unwrap_or_default()
        + reading.counts.failed.unwrap_or_default()
        + reading.counts.skipped.unwrap_or_default()
        + reading.extra.get("xfailed").copied().unwrap_or_default()
        + reading.extra.get("xpassed").copied().unwrap_or_default();
    if let (Some(selected), true) = (console.selected, input.exit_is_zero())
        && finished < selected
    {
        reading.open(format!("{selected} tests were selected and {finished} have a result"));
    }
    match input.raw.exit_code {
        Some(2) => reading.open("pytest was interrupted (exit code 2)"),
        Some(3) => reading.open("pytest reports an internal error (exit code 3)"),
        Some(4) => conftest_or_usage(reading, input),
        Some(_) | None => {}
    }
    let ran = reading.counts.passed.unwrap_or_default() + reading.counts.failed.unwrap_or_default();
    let expected = reading.extra.get("xfailed").copied().unwrap_or_default()
        + reading.extra.get("xpassed").copied().unwrap_or_default();
    reading.executed = if ran + expected > 0 {
        Executed::Some
    } else if console.summary.is_some() || reading.counts.passed.is_some() {
        Executed::Nothing
    } else {
        Executed::Unknown
    };
    if let Some(gate) = console.coverage_gate.as_deref() {
        reading.broken(gate);
    }
}

/// Exit code 4 is a wrong call, or a `conftest.py` that cannot be imported: the second can be repaired.
fn conftest_or_usage(reading: &mut Reading, input: &Input<'_>) {
    let mut lines = input.stderr.lines();
    let Some(first) = lines.find(|line| line.starts_with("ImportError while loading conftest")) else {
        reading.open("pytest was called wrongly (exit code 4)");
        return;
    };
    let error = lines.find(|line| line.starts_with("E   ")).unwrap_or_default();
    reading.broken(format!("{first} {}", error.trim_start_matches('E').trim()));
    reading.counts = Counts { passed: Some(0), failed: Some(0), skipped: Some(0), errors: None };
    reading.note(text::cut(&input.stderr, 1_000));
}
