//! CTest: the console, which knows more, and the JUnit file, which cannot be printed by a test.
//!
//! The JUnit file calls a test that could not run "skipped", and the console's percentage counts what was
//! skipped as passed. A result on the console counts only for a test that was announced by number and name.

mod console;

use std::collections::BTreeMap;

use jobs::verdict::{Counts, Diagnostic, Severity, TestFailure, TestState};

use super::junit::{self, Case};
use super::reading::{Executed, Input, Reading};
use super::text;
use console::Console;

/// One test, by all witnesses.
#[derive(Clone)]
struct Test {
    name: String,
    state: TestState,
    status: String,
    output: String,
}

/// Reads one run of `ctest`.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let console = Console::read(input);
    let mut tests: Vec<Test> = console
        .tests
        .values()
        .filter_map(|test| {
            let (state, status) = test.result.clone()?;
            Some(Test { name: test.name.clone(), state, status, output: test.output.clone() })
        })
        .collect();
    let report = take_report(&mut reading, input, &mut tests);
    for test in &tests {
        reading.distinct_test(&test.name, test.state);
        if test.state == TestState::Failed {
            reading.failure(failure(input, test));
        }
    }
    conclude(&mut reading, input, &console, report);
    reading
}

/// The JUnit file as the second witness; tells whether there was one that is whole.
fn take_report(reading: &mut Reading, input: &Input<'_>, tests: &mut Vec<Test>) -> bool {
    let mut any = false;
    for (path, bytes) in input.files(|path| path.ends_with(".xml")) {
        let document = junit::parse(bytes);
        if !document.is_junit {
            continue;
        }
        if document.whole {
            any = true;
        } else {
            reading.open(format!("{path} is cut"));
        }
        let mut known: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let names: Vec<String> = tests.iter().map(|test| test.name.clone()).collect();
        for (at, name) in names.iter().enumerate() {
            known.entry(name).or_default().push(at);
        }
        for case in &document.cases {
            let told = from_case(case);
            match known.get(case.name.as_str()).map(Vec::as_slice) {
                Some([only]) => merge(reading, &mut tests[*only], told),
                // Which of several with one name it is, nothing tells: the console has them all.
                Some(_) => {}
                None => tests.push(told),
            }
        }
    }
    any
}

/// The worse of both stands; the file's output and reason are the better ones.
fn merge(reading: &mut Reading, test: &mut Test, told: Test) {
    if told.state != test.state {
        reading.note(format!("{}: the console says {}, the report {}", test.name, test.status, told.status));
        if told.state == TestState::Failed {
            test.state = TestState::Failed;
        }
    }
    if !told.output.trim().is_empty() {
        test.output = told.output;
    }
}

fn from_case(case: &Case) -> Test {
    let why = case.skipped.as_ref().map(|skipped| skipped.message.as_str()).unwrap_or_default();
    let wanted = why.starts_with("SKIP_");
    let (state, status) = match (case.status.as_deref(), case.state()) {
        (Some("disabled"), _) => (TestState::Skipped, "Disabled"),
        (_, TestState::Failed | TestState::Errored) | (Some("fail"), _) => (TestState::Failed, "Failed"),
        (_, TestState::Skipped) if wanted => (TestState::Skipped, "Skipped"),
        (Some("notrun"), _) | (_, TestState::Skipped) => (TestState::Failed, "Not Run"),
        (_, TestState::Passed | TestState::ExpectedFailure) => (TestState::Passed, "Passed"),
    };
    let reason = case.trouble().map(|trouble| trouble.message.trim()).filter(|reason| !reason.is_empty());
    let status = match reason {
        Some(reason) => format!("{status}: {reason}"),
        None => status.to_owned(),
    };
    Test { name: case.name.clone(), state, status, output: case.output.clone() }
}

fn conclude(reading: &mut Reading, input: &Input<'_>, console: &Console, report: bool) {
    let counted = Counts {
        passed: Some(reading.count_of(&[TestState::Passed])),
        failed: Some(reading.count_of(&[TestState::Failed])),
        skipped: Some(reading.count_of(&[TestState::Skipped])),
        errors: Some(0),
    };
    let told = report || console.summary.is_some() || console.nothing || !reading.tests.is_empty();
    reading.counts = if told { counted } else { Counts::default() };
    if let Some((failed, total)) = console.summary
        && failed > reading.counts.failed.unwrap_or_default()
    {
        reading.note(format!("the summary says {failed} of {total} failed, fewer are named"));
        reading.counts.failed = Some(failed);
    }
    for found in &console.build_errors {
        let (place, message) = found;
        reading.diagnostic(Diagnostic {
            file: input.path(&place.path),
            line: Some(place.line),
            column: place.column,
            severity: Severity::Error,
            code: None,
            message: message.clone(),
        });
    }
    if !console.build_errors.is_empty() || console.build_stopped {
        reading.broken("the build stopped with an error before any test");
    }
    for (number, test) in console.tests.iter().filter(|(_, test)| test.result.is_none()) {
        reading.open(format!("test {number} ({}) began and has no result", test.name));
    }
    let executed = reading.tests.values().any(|&state| state != TestState::Skipped);
    reading.executed = if executed {
        if !report && console.summary.is_none() {
            reading.open("CTest printed no summary");
        }
        Executed::Some
    } else if console.nothing || report || console.summary.is_some() {
        Executed::Nothing
    } else {
        Executed::Unknown
    };
}

fn failure(input: &Input<'_>, test: &Test) -> TestFailure {
    let place = junit::place_in(&test.output);
    let first = junit::first_line("", &test.output);
    TestFailure {
        name: test.name.clone(),
        file: place.map(|(file, _)| input.path(file)),
        line: place.map(|(_, line)| line),
        message: if first.is_empty() {
            test.status.clone()
        } else {
            format!("{}: {}", test.status, text::cut(&first, 500))
        },
        excerpt: test.output.clone(),
    }
}
