//! Ruff: `--output-format=json`, JSON lines, or the lines that it prints for people.

use jobs::verdict::{Diagnostic, Severity};
use serde::Deserialize;

use super::reading::{Executed, Input, Reading};
use super::text;

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    filename: Option<String>,
    message: String,
    #[serde(default)]
    location: Option<Location>,
    #[serde(default)]
    severity: Option<String>,
}

#[derive(Deserialize)]
struct Location {
    row: u32,
    column: u32,
}

/// Reads one run of `ruff check`.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let stdout = String::from_utf8_lossy(&input.raw.stdout);
    match rows(&stdout) {
        Some(rows) => {
            reading.executed = Executed::Some;
            for row in rows {
                take_row(&mut reading, input, row);
            }
        }
        None => read_console(&mut reading, input),
    }
    for line in input.stderr.lines() {
        let line = line.trim_start();
        if line.starts_with("ruff failed") || line.starts_with("error: ") {
            reading.open(text::cut(line, 500));
        } else if line.contains("No Python files found") {
            reading.executed = Executed::Nothing;
        }
    }
    if matches!(input.raw.exit_code, Some(2)) {
        reading.open("ruff could not run as it was configured");
    }
    reading
}

/// The rows of a JSON array or of JSON lines; `None` when the output is neither.
fn rows(stdout: &str) -> Option<Vec<Row>> {
    let trimmed = stdout.trim();
    if let Some(start) = array_start(trimmed) {
        let mut stream = serde_json::Deserializer::from_str(&trimmed[start..]).into_iter::<Vec<Row>>();
        if let Some(Ok(rows)) = stream.next() {
            return Some(rows);
        }
    }
    if !trimmed.starts_with('{') {
        return None;
    }
    trimmed.lines().map(|line| serde_json::from_str(line).ok()).collect()
}

/// Where a JSON array starts at the beginning of a line.
fn array_start(text: &str) -> Option<usize> {
    if text.starts_with('[') {
        return Some(0);
    }
    text.find("\n[").map(|at| at + 1)
}

fn take_row(reading: &mut Reading, input: &Input<'_>, row: Row) {
    let file = row.filename.as_deref().map(|name| input.path(name)).unwrap_or_default();
    if row.code.as_deref() == Some("E902") || row.code.as_deref() == Some("io-error") {
        reading.open(format!("ruff cannot read {file}: {}", row.message));
        return;
    }
    let severity = match row.severity.as_deref() {
        Some("warning") => Severity::Warning,
        Some("info" | "help" | "note") => Severity::Note,
        Some(_) | None => Severity::Error,
    };
    reading.diagnostic(Diagnostic {
        file,
        line: row.location.as_ref().map(|location| location.row),
        column: row.location.as_ref().map(|location| location.column),
        severity,
        code: row.code,
        message: row.message,
    });
}

/// `path:row:column: CODE message` (concise) and `CODE message` + ` --> path:row:column` (full).
fn read_console(reading: &mut Reading, input: &Input<'_>) {
    let mut headline: Option<(String, String)> = None;
    for line in input.stdout.lines() {
        if let Some(place) = line.trim_start().strip_prefix("--> ") {
            if let (Some((code, message)), Some(at)) = (headline.take(), text::position(place)) {
                reading.diagnostic(finding(input, at, code, &message));
                reading.executed = Executed::Some;
            }
            continue;
        }
        if line.trim() == "All checks passed!" {
            reading.executed = Executed::Some;
        }
        if let Some(rest) = line.strip_prefix("Found ") {
            let (count, rest) = text::leading_count(rest);
            if rest.starts_with(" error") {
                reading.counts.errors = count;
                reading.executed = Executed::Some;
            }
        }
        if let Some(at) = text::position(line)
            && let Some((code, message)) = at.rest.strip_prefix(": ").and_then(code_and_message)
        {
            reading.diagnostic(finding(input, at, code, &message));
            reading.executed = Executed::Some;
            continue;
        }
        headline = code_and_message(line);
    }
}

fn finding(input: &Input<'_>, at: text::Position<'_>, code: String, message: &str) -> Diagnostic {
    Diagnostic {
        file: input.path(at.path),
        line: Some(at.line),
        column: at.column,
        severity: Severity::Error,
        code: Some(code),
        message: message.to_owned(),
    }
}

/// `F401 [*] message` or `invalid-syntax: message` or `SyntaxError: message`.
fn code_and_message(text: &str) -> Option<(String, String)> {
    for syntax in ["invalid-syntax: ", "SyntaxError: "] {
        if let Some(message) = text.strip_prefix(syntax) {
            return Some(("invalid-syntax".to_owned(), message.to_owned()));
        }
    }
    let (code, message) = text.split_once(' ')?;
    let letters = code.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = code.bytes().skip(letters).take_while(u8::is_ascii_digit).count();
    if letters == 0 || digits == 0 || letters + digits != code.len() || code.len() > 12 {
        return None;
    }
    let message = message.strip_prefix("[*] ").unwrap_or(message);
    Some((code.to_owned(), message.to_owned()))
}
