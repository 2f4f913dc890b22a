//! cargo-nextest: its JUnit file, libtest-like JSON lines, or its lines on stderr; and its exit code.
//!
//! nextest runs each test in a process of its own and prints what libtest printed there, indented, so its
//! own words are those with a status in the first columns.

use jobs::verdict::{Counts, Severity, TestFailure, TestState};

use super::cargo_test;
use super::junit::{self, Case};
use super::reading::{Executed, Input, Reading};
use super::rust_console;
use super::text;

mod console;

/// Reads one run of `cargo nextest run`.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let compiled = rust_console::parse(input, input.lines());
    let console = console::Console::read(input);
    let files = input.files(|path| path.ends_with(".xml"));
    let json = cargo_test::libtest_blocks(&input.raw.stdout);
    if !files.is_empty() {
        for (path, bytes) in files {
            let document = junit::parse(bytes);
            if !document.whole || !document.is_junit {
                reading.open(format!("{path} is cut or no JUnit report"));
            }
            for case in &document.cases {
                take_case(&mut reading, input, case);
            }
        }
        junit::count_states(&mut reading);
        reading.counts.skipped = None;
    } else if !json.blocks.is_empty() {
        cargo_test::take_blocks(&mut reading, input, &json);
        junit::count_states(&mut reading);
    } else {
        console.fill(&mut reading, input);
    }
    match &console.summary {
        Some(summary) => {
            reading.second("the console", summary.counts());
            summary.notes(&mut reading);
        }
        None if reading.tests.is_empty() => {
            let errors = compiled.diagnostics.iter().any(|found| found.severity == Severity::Error);
            if errors || compiled.could_not_compile {
                reading.broken("the tests do not compile, so none ran");
                reading.counts = Counts { passed: Some(0), failed: Some(0), skipped: Some(0), errors: None };
            } else if let Some(error) = compiled.bare_errors.first() {
                reading.open(error.clone());
            }
        }
        None => {}
    }
    for diagnostic in compiled.diagnostics {
        reading.diagnostic(diagnostic);
    }
    let ran = reading.counts.passed.unwrap_or_default() + reading.counts.failed.unwrap_or_default();
    if ran > 0 {
        reading.executed = Executed::Some;
    } else if console.summary.is_some() || input.raw.exit_code == Some(4) {
        reading.executed = Executed::Nothing;
    }
    reading
}

/// One test of the JUnit file: its suite is the binary.
fn take_case(reading: &mut Reading, input: &Input<'_>, case: &Case) {
    let binary = if case.class.is_empty() { &case.suite } else { &case.class };
    let state = match case.state() {
        TestState::Errored => TestState::Failed,
        state @ (TestState::Passed | TestState::Failed | TestState::Skipped | TestState::ExpectedFailure) => {
            state
        }
    };
    reading.distinct_test(&format!("{binary}::{}", case.name), state);
    if let Some(trouble) = case.trouble() {
        let story: Vec<String> =
            trouble.text.lines().chain(case.output.lines()).take(400).map(str::to_owned).collect();
        let message = junit::first_line(&trouble.message, &trouble.text);
        reading.failure(failure(input, &case.name, &story, &message));
    }
}

/// A failing test with what its output says of the panic.
fn failure(input: &Input<'_>, name: &str, story: &[String], fallback: &str) -> TestFailure {
    let frames = ["stdout ───", "stderr ───", "--- STDOUT:", "--- STDERR:", "running 1 test"];
    let story: Vec<String> = story
        .iter()
        .filter(|line| !frames.iter().any(|frame| line.trim_start().starts_with(frame)))
        .cloned()
        .collect();
    let told = cargo_test::tell(&story);
    let (file, line) = match told.place {
        Some((file, line)) => (Some(input.path(&file)), line),
        None => (None, None),
    };
    let said = told.message.trim();
    let message = if said.is_empty() { fallback } else { said };
    TestFailure {
        name: name.to_owned(),
        file,
        line,
        message: text::cut(message, 1_000),
        excerpt: story.join("\n"),
    }
}
