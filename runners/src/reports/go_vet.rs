//! `go vet`: JSON objects on either stream, or plain lines; any finding is a failure, whatever the exit code.
//!
//! With `-json` it leaves with 0 though there are findings, and what does not compile is told in plain
//! lines on stderr while stdout holds a clean `{}`.

use std::collections::BTreeMap;

use jobs::verdict::{Diagnostic, Severity};
use serde::Deserialize;

use super::reading::{Executed, Input, Reading};
use super::text;

/// Findings by analyzer, by package; an analyzer that failed gives an object instead of a list.
type Packages = BTreeMap<String, BTreeMap<String, serde_json::Value>>;

#[derive(Deserialize)]
struct Finding {
    posn: String,
    message: String,
}

/// Reads one run of `go vet`.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let mut json = false;
    for stream in [&input.raw.stdout, &input.raw.stderr] {
        json |= take_objects(&mut reading, input, &String::from_utf8_lossy(stream));
    }
    let mut errors = 0;
    for line in input.lines() {
        errors += u64::from(take_line(&mut reading, input, line, json));
        if line.starts_with("flag provided but not defined") || line.starts_with("usage: go vet") {
            reading.open("go vet was called wrongly");
        } else if let Some(message) = line.strip_prefix("go: ").filter(|_| !input.exit_is_zero()) {
            if !message.starts_with("downloading") && !message.starts_with("finding") {
                reading.broken(format!("go: {message}"));
            }
        } else if line.contains("matched no packages") || line.contains("no packages to vet") {
            reading.executed = Executed::Nothing;
        }
    }
    reading.counts.errors = Some(errors);
    if errors > 0 {
        reading.broken("a package does not compile, so it was not looked at");
    }
    let findings = reading.diagnostics.iter().any(|found| found.severity == Severity::Warning);
    reading.failed = findings;
    let silent = input.exit_is_zero() && input.stdout.trim().is_empty() && input.stderr.trim().is_empty();
    let asked_for_json = input.check.argv.iter().any(|word| word == "-json");
    if reading.executed == Executed::Unknown && (json || findings || (silent && !asked_for_json)) {
        reading.executed = Executed::Some;
    }
    reading
}

/// Takes every object that begins a line; tells whether there was one.
fn take_objects(reading: &mut Reading, input: &Input<'_>, stream: &str) -> bool {
    let mut any = false;
    let mut from = 0;
    while let Some(at) = next_object(stream, from) {
        let mut objects = serde_json::Deserializer::from_str(&stream[at..]).into_iter::<Packages>();
        match objects.next() {
            Some(Ok(packages)) => {
                any = true;
                from = at + objects.byte_offset().max(1);
                for (analyzer, found) in packages.into_values().flatten() {
                    take_findings(reading, input, &analyzer, found);
                }
            }
            Some(Err(_)) | None => {
                // The rest of a cut object begins no line with a brace, so each is tried once.
                reading.open("a JSON object of go vet is cut");
                from = at + 1;
            }
        }
    }
    any
}

fn next_object(stream: &str, from: usize) -> Option<usize> {
    if from == 0 && stream.starts_with('{') {
        return Some(0);
    }
    stream.get(from..)?.find("\n{").map(|at| from + at + 1)
}

fn take_findings(reading: &mut Reading, input: &Input<'_>, analyzer: &str, found: serde_json::Value) {
    let findings = match serde_json::from_value::<Vec<Finding>>(found) {
        Ok(findings) => findings,
        Err(_) => {
            reading.broken(format!("the analyzer {analyzer} failed"));
            return;
        }
    };
    for finding in findings {
        let at = text::position(&finding.posn);
        reading.diagnostic(Diagnostic {
            file: at.map(|at| input.path(at.path)).unwrap_or_default(),
            line: at.map(|at| at.line),
            column: at.and_then(|at| at.column),
            severity: Severity::Warning,
            code: Some(analyzer.to_owned()),
            message: finding.message,
        });
    }
}

/// `path.go:1:2: message`, after `vet: ` when it does not compile. Tells whether it is an error.
fn take_line(reading: &mut Reading, input: &Input<'_>, line: &str, json: bool) -> bool {
    let (typed, rest) = match line.strip_prefix("vet: ") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    if rest.starts_with([' ', '\t', '#', '"']) {
        return false;
    }
    let Some(at) = text::position(rest).filter(|at| at.path.ends_with(".go")) else { return false };
    let Some(message) = at.rest.strip_prefix(": ") else { return false };
    let error = typed || json || unloadable(message);
    reading.diagnostic(Diagnostic {
        file: input.path(at.path),
        line: Some(at.line),
        column: at.column,
        severity: if error { Severity::Error } else { Severity::Warning },
        code: None,
        message: message.to_owned(),
    });
    error
}

/// Messages of the loader, which are no findings of vet.
pub(super) fn unloadable(message: &str) -> bool {
    ["no required module provides", "cannot find module", "cannot find package", "expected ", "import cycle"]
        .iter()
        .any(|start| message.starts_with(start))
        || (message.starts_with("package ") && message.contains(" is not in "))
}
