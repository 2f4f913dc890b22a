//! Jest: its JSON, in a file or on stdout, and what it prints for people.
//!
//! A suite that cannot run counts no test, so a green `Tests:` line proves nothing by itself: suites that
//! failed to run, thresholds and the exit code all have their say.

use jobs::verdict::{Counts, TestFailure, TestState};
use serde::Deserialize;

use super::junit;
use super::reading::{Executed, Input, Reading};
use super::text;

mod console;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    #[serde(default)]
    num_failed_tests: u64,
    num_passed_tests: u64,
    #[serde(default)]
    num_pending_tests: u64,
    #[serde(default)]
    num_todo_tests: u64,
    #[serde(default)]
    num_runtime_error_test_suites: u64,
    #[serde(default)]
    success: bool,
    #[serde(default)]
    was_interrupted: bool,
    #[serde(default)]
    test_results: Vec<Suite>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Suite {
    #[serde(default)]
    name: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    assertion_results: Vec<Assertion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Assertion {
    #[serde(default)]
    ancestor_titles: Vec<String>,
    #[serde(default)]
    title: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    failure_messages: Vec<String>,
    #[serde(default)]
    location: Option<Location>,
}

#[derive(Deserialize)]
struct Location {
    line: u32,
}

/// Reads one run of Jest.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let console = console::Console::read(input);
    let mut found = false;
    for (path, bytes) in input.files(|path| path.ends_with(".json")) {
        match parse(&String::from_utf8_lossy(bytes)) {
            Some(results) => {
                found = true;
                take_results(&mut reading, input, &results);
            }
            None => reading.open(format!("{path} is no whole Jest report")),
        }
    }
    if !found && let Some(results) = parse(&String::from_utf8_lossy(&input.raw.stdout)) {
        found = true;
        take_results(&mut reading, input, &results);
    }
    if found {
        second_witness(&mut reading, &console);
    } else {
        console.fill(&mut reading, input);
    }
    for gate in &console.thresholds {
        reading.broken(gate.clone());
    }
    for error in &console.validation {
        reading.broken(format!("Jest's configuration is not valid: {error}"));
    }
    reading
}

/// The report in a text that may have other lines around it.
fn parse(text: &str) -> Option<Results> {
    let mut from = 0;
    while let Some(at) = text[from..].find("{\"numFailedTestSuites\"") {
        let start = from + at;
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Results>();
        if let Some(Ok(results)) = stream.next() {
            return Some(results);
        }
        from = start + 1;
        // A cut report is tried once; text that repeats its beginning is no report.
        if from > 1 << 20 {
            return None;
        }
    }
    serde_json::from_str(text).ok()
}

fn take_results(reading: &mut Reading, input: &Input<'_>, results: &Results) {
    for suite in &results.test_results {
        let file = input.path(&suite.name);
        for assertion in &suite.assertion_results {
            take_assertion(reading, input, &file, assertion);
        }
        if suite.status == "failed" && suite.assertion_results.is_empty() {
            reading.failure(suite_failure(&file, &suite.message));
        }
    }
    let failed = reading.count_of(&[TestState::Failed]).max(results.num_failed_tests);
    reading.counts = Counts {
        passed: Some(results.num_passed_tests),
        failed: Some(failed),
        skipped: Some(results.num_pending_tests),
        errors: Some(results.num_runtime_error_test_suites),
    };
    if results.num_todo_tests > 0 {
        reading.extra.insert("todo", results.num_todo_tests);
    }
    if results.was_interrupted {
        reading.open("Jest was interrupted");
    }
    let clean = failed == 0 && results.num_runtime_error_test_suites == 0;
    let ran = results.num_passed_tests + failed;
    if !results.success && clean && ran > 0 {
        reading.broken("Jest says that the run was no success though no test failed: a threshold or a hook");
    }
    reading.executed = if ran > 0 { Executed::Some } else { Executed::Nothing };
}

fn take_assertion(reading: &mut Reading, input: &Input<'_>, file: &str, assertion: &Assertion) {
    let mut titles: Vec<&str> = assertion.ancestor_titles.iter().map(String::as_str).collect();
    titles.push(&assertion.title);
    let name = titles.join(" › ");
    let state = match assertion.status.as_str() {
        "passed" => TestState::Passed,
        "failed" => TestState::Failed,
        _ => TestState::Skipped,
    };
    reading.distinct_test(&format!("{file}::{name}"), state);
    if state != TestState::Failed {
        return;
    }
    let message = text::clean(assertion.failure_messages.join("\n").as_bytes());
    let line = frame_in(&message, file).or(assertion.location.as_ref().map(|location| location.line));
    let file = Some(input.path(file));
    reading.failure(TestFailure { name, file, line, message: headline(&message), excerpt: message });
}

/// The message before its stack.
fn headline(message: &str) -> String {
    let lines: Vec<&str> = message
        .lines()
        .take_while(|line| !line.trim_start().starts_with("at "))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(12)
        .collect();
    lines.join("\n")
}

/// The line of the first stack frame that lies in the file.
pub(super) fn frame_in(stack: &str, file: &str) -> Option<u32> {
    let base = text::base_name(file);
    stack.lines().map(str::trim_start).filter(|line| line.starts_with("at ")).find_map(|line| {
        let place = line.rsplit(['(', ' ']).next()?.trim_end_matches(')');
        let at = text::position(place)?;
        (text::base_name(at.path) == base).then_some(at.line)
    })
}

/// A file that could not be run at all.
fn suite_failure(file: &str, message: &str) -> TestFailure {
    let message = text::clean(message.as_bytes());
    let lines = || message.lines().map(str::trim).filter(|line| !line.is_empty());
    let syntax = lines().find(|line| line.contains("SyntaxError: "));
    let first = lines().find(|line| !line.contains("Test suite failed to run")).unwrap_or_default();
    // Babel says `(2:12)` behind its message.
    let babel = syntax.and_then(|line| {
        let place = line.rsplit_once('(')?.1.trim_end_matches(')');
        place.split_once(':')?.0.parse().ok()
    });
    TestFailure {
        name: file.to_owned(),
        file: Some(file.to_owned()),
        line: babel.or_else(|| frame_in(&message, file)),
        message: junit::first_line(syntax.unwrap_or(first), &message),
        excerpt: message,
    }
}

/// The console next to a JSON report: it can only make things worse.
fn second_witness(reading: &mut Reading, console: &console::Console) {
    let Some(summary) = &console.summary else { return };
    reading.second("the console", summary.counts());
    if summary.failed_suites > 0 && reading.counts.failed == Some(0) && reading.counts.errors == Some(0) {
        reading.broken("the console says that suites failed, the report names none");
    }
}
