//! `cargo check` and `cargo clippy`: JSON messages on stdout, or what cargo prints for people.
//!
//! A warning alone is no failure; with `-D warnings` the compiler itself calls it an error.

use std::collections::BTreeSet;

use jobs::verdict::{Diagnostic, Severity};
use serde::Deserialize;

use super::reading::{Executed, Input, Reading};
use super::rust_console;

#[derive(Deserialize)]
struct Line {
    reason: String,
    #[serde(default)]
    success: Option<bool>,
    #[serde(default)]
    message: Option<Message>,
    #[serde(default)]
    target: Option<Target>,
}

#[derive(Deserialize, Default)]
struct Target {
    #[serde(default)]
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    message: String,
    #[serde(default)]
    code: Option<Code>,
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: u32,
    column_start: u32,
    is_primary: bool,
}

/// Messages found among other lines.
#[derive(Default)]
pub(super) struct Messages {
    pub diagnostics: Vec<Diagnostic>,
    /// What `build-finished` says, the worst of several.
    pub success: Option<bool>,
    /// Whether a build script failed to compile.
    pub build_script_broken: bool,
    /// Whether any message was there at all.
    pub any: bool,
}

/// Reads every message line of a stream; other lines are passed over.
pub(super) fn messages(input: &Input<'_>, stream: &[u8]) -> Messages {
    let mut found = Messages::default();
    let mut seen = BTreeSet::new();
    for line in stream.split(|&byte| byte == b'\n') {
        let line = line.trim_ascii();
        if !line.starts_with(b"{\"reason\"") && !line.starts_with(b"{ \"reason\"") {
            continue;
        }
        let text = String::from_utf8_lossy(line);
        let Ok(line) = serde_json::from_str::<Line>(&text) else { continue };
        found.any = true;
        match line.reason.as_str() {
            "build-finished" => {
                let success = line.success.unwrap_or(false);
                found.success = Some(found.success.unwrap_or(true) && success);
            }
            "compiler-message" => {
                let Some(message) = line.message else { continue };
                let Some(diagnostic) = diagnostic(input, message) else { continue };
                let script = line.target.unwrap_or_default().kind.iter().any(|kind| kind == "custom-build");
                found.build_script_broken |= script && diagnostic.severity == Severity::Error;
                let key = (
                    diagnostic.file.clone(),
                    diagnostic.line,
                    diagnostic.column,
                    diagnostic.code.clone(),
                    diagnostic.message.clone(),
                );
                if seen.len() < 20_000 && seen.insert(key) {
                    found.diagnostics.push(diagnostic);
                }
            }
            _ => {}
        }
    }
    found
}

/// A message with a place, or an error without one that is no summary.
fn diagnostic(input: &Input<'_>, message: Message) -> Option<Diagnostic> {
    let severity = match message.level.as_str() {
        "error" | "error: internal compiler error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    let span = message.spans.iter().find(|span| span.is_primary);
    let summary = message.message.starts_with("aborting due to")
        || message.message.ends_with("warning emitted")
        || message.message.ends_with("warnings emitted")
        || message.message.starts_with("could not compile");
    if span.is_none() && (summary || severity == Severity::Warning) {
        return None;
    }
    Some(Diagnostic {
        file: span.map(|span| input.path(&span.file_name)).unwrap_or_default(),
        line: span.map(|span| span.line_start),
        column: span.map(|span| span.column_start),
        severity,
        code: message.code.map(|code| code.code),
        message: message.message,
    })
}

/// Reads one run of `cargo check` or `cargo clippy`.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let messages = messages(input, &input.raw.stdout);
    let human = rust_console::parse(input, input.lines());
    let finished = input.lines().any(|line| line.trim_start().starts_with("Finished "));
    if messages.any {
        for diagnostic in messages.diagnostics {
            reading.diagnostic(diagnostic);
        }
    } else {
        for diagnostic in human.diagnostics {
            reading.diagnostic(diagnostic);
        }
    }
    let errors = reading.diagnostics.iter().any(|found| found.severity == Severity::Error);
    match messages.success {
        Some(true) => reading.executed = Executed::Some,
        Some(false) => reading.executed = Executed::Unknown,
        None if finished && !messages.any => reading.executed = Executed::Some,
        None => {}
    }
    if messages.build_script_broken {
        reading.broken("a build script does not compile, so nothing after it was looked at");
    }
    if !errors {
        for error in human.bare_errors {
            reading.broken(format!("cargo: {error}"));
        }
        if messages.success == Some(false) || human.could_not_compile {
            reading.broken("cargo could not build, and no message says where");
        }
    }
    if messages.success == Some(true) && !input.exit_is_zero() {
        reading.note("cargo says that the build finished, the exit code says that it did not");
    }
    reading
}
