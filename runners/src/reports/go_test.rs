//! `go test`: the events of `-json`, or the console with and without `-v`.
//!
//! Both are told to the same account of each package. Two rules keep what tests print apart from what the
//! tool says: where tests announce themselves (`=== RUN`, a `run` event) a result counts only for a test
//! that was announced, and of several results for one test the worst stands. So a printed `--- FAIL` of a
//! test that does not exist is no failure, and a printed `--- PASS` hides none.

mod console;
mod package;

use std::collections::BTreeMap;

use jobs::verdict::{Counts, Diagnostic, Severity, TestState};
use serde::Deserialize;

use super::reading::{Executed, Input, Reading};
use super::text;
use console::Console;
use package::{End, Package};

/// One line of `go test -json`, of any version.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: Option<String>,
    #[serde(default)]
    test: Option<String>,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    failed_build: Option<String>,
}

/// What was found in one run.
#[derive(Default)]
struct Run {
    events: BTreeMap<String, Package>,
    console: Console,
    cut_event: bool,
}

/// Reads one run of `go test`.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut run = Run::default();
    for stream in [&input.raw.stdout, &input.raw.stderr] {
        run.stream(&stream[..stream.len().min(text::STREAM_BYTES)]);
    }
    let mut reading = Reading::new(input.check.tool);
    if run.cut_event {
        reading.open("a JSON event is cut");
    }
    for line in &run.console.complaints {
        reading.broken(line.clone());
    }
    for (place, message) in &run.console.build_errors {
        reading.diagnostic(Diagnostic {
            file: input.path(&place.path),
            line: Some(place.line),
            column: place.column,
            severity: Severity::Error,
            code: None,
            message: message.clone(),
        });
    }
    let left = run.console.finish();
    let mut totals = Totals::default();
    for package in run.console.done.into_iter().chain(left) {
        // What is told beside JSON events is told again by them, but for a build that failed before 1.24.
        let known =
            package.name.as_ref().is_some_and(|name| run.events.get(name).is_some_and(Package::ended));
        if !known {
            totals.take(&mut reading, input, package);
        }
    }
    for package in run.events.into_values() {
        totals.take(&mut reading, input, package);
    }
    totals.settle(&mut reading);
    reading
}

impl Run {
    fn stream(&mut self, bytes: &[u8]) {
        for line in bytes.split(|&byte| byte == b'\n') {
            match event_start(line) {
                Some(at) => {
                    if at > 0 {
                        self.console.line(&text::clean(&line[..at]));
                    }
                    match serde_json::from_str::<Event>(&String::from_utf8_lossy(&line[at..])) {
                        Ok(event) => self.event(event),
                        Err(_) if line[at..].starts_with(b"{\"Time\"") => self.cut_event = true,
                        Err(_) => self.console.line(&text::clean(line)),
                    }
                }
                None => {
                    for part in text::clean(line).lines() {
                        self.console.line(part);
                    }
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        if event.action == "build-output" {
            self.console.build_line(event.output.as_deref().unwrap_or_default().trim_end());
            return;
        }
        let Some(name) = event.package else { return };
        let package = self.events.entry(name.clone()).or_insert_with(|| Package::announced(&name));
        let state = match event.action.as_str() {
            "pass" => Some(TestState::Passed),
            "fail" => Some(TestState::Failed),
            "skip" => Some(TestState::Skipped),
            _ => None,
        };
        match (event.action.as_str(), event.test, state) {
            ("run", Some(test), _) => package.run(&test),
            ("output", test, _) => {
                package.event_output(test.as_deref(), event.output.as_deref().unwrap_or_default());
            }
            (_, Some(test), Some(state)) => package.result(&test, state),
            (_, None, Some(state)) => package.end(match state {
                TestState::Passed => End::Ok,
                TestState::Skipped => End::NoTests,
                _ if event.failed_build.is_some() || package.says_unbuilt() => End::Unbuilt,
                _ => End::Failed,
            }),
            _ => {}
        }
    }
}

/// Where an event begins in a line; text without a line end may stand before it.
fn event_start(line: &[u8]) -> Option<usize> {
    if line.first() == Some(&b'{') {
        return Some(0);
    }
    [b"{\"Time\":\"".as_slice(), b"{\"ImportPath\":\""]
        .into_iter()
        .find_map(|start| line.windows(start.len()).position(|window| window == start))
}

/// Counts over all packages.
#[derive(Default)]
struct Totals {
    unbuilt: u64,
    ended: bool,
    /// A package ran without naming the tests that passed.
    plain: bool,
    executed: bool,
}

impl Totals {
    fn take(&mut self, reading: &mut Reading, input: &Input<'_>, package: Package) {
        let prefix = package.name.as_ref().map(|name| format!("{name}::")).unwrap_or_default();
        let label = package.name.clone().unwrap_or_else(|| "a package".to_owned());
        self.ended |= package.ended();
        let mut failed = false;
        let settled = package.settle();
        for test in settled.tests {
            let id = format!("{prefix}{}", test.name);
            self.executed |= test.state != TestState::Skipped;
            reading.test(&id, test.state);
            if test.state == TestState::Failed {
                failed = true;
                reading.failure(package::failure(input, &id, &test));
            }
        }
        for name in settled.unresolved {
            reading.open(format!("{prefix}{name} began and has no result"));
        }
        for decoy in settled.decoys {
            reading.note(format!("{decoy} is printed as a result, but no such test ran"));
        }
        match settled.end {
            Some(End::Ok) => {
                self.plain |= !settled.announced && !settled.nothing_to_run;
                self.executed |= !settled.announced && !settled.nothing_to_run;
            }
            Some(End::Failed) if !failed => {
                reading
                    .broken(format!("{label} failed though none of its tests did: {}", settled.last_words));
                self.plain |= !settled.announced;
            }
            Some(End::Failed) => self.plain |= !settled.announced,
            Some(End::Unbuilt) => self.unbuilt += 1,
            Some(End::NoTests) => {}
            None => reading.open(format!("the result of {label} is missing")),
        }
    }

    fn settle(self, reading: &mut Reading) {
        let passed = reading.count_of(&[TestState::Passed]);
        reading.counts = Counts {
            passed: (!self.plain).then_some(passed),
            failed: Some(reading.count_of(&[TestState::Failed])),
            skipped: Some(reading.count_of(&[TestState::Skipped])),
            errors: Some(self.unbuilt),
        };
        reading.executed = match (self.executed, self.ended) {
            (true, _) => Executed::Some,
            (false, true) => Executed::Nothing,
            (false, false) => Executed::Unknown,
        };
    }
}
