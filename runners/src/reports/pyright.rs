//! pyright: `--outputjson`, or the lines that it prints for people.
//!
//! Its positions are 0-based in JSON. A clean document with an exit code of 3 or 4, or with no file
//! analysed, says nothing about the code.

use jobs::verdict::{Diagnostic, Severity};
use serde::Deserialize;

use super::reading::{Executed, Input, Reading};
use super::text;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    #[serde(default)]
    general_diagnostics: Vec<Finding>,
    summary: Summary,
    #[serde(default)]
    type_completeness: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    #[serde(default)]
    files_analyzed: u64,
    #[serde(default)]
    error_count: u64,
    #[serde(default)]
    warning_count: u64,
}

#[derive(Deserialize)]
struct Finding {
    #[serde(default)]
    file: String,
    #[serde(default)]
    severity: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    rule: Option<String>,
    #[serde(default)]
    range: Option<Range>,
}

#[derive(Deserialize)]
struct Range {
    start: Point,
}

#[derive(Deserialize)]
struct Point {
    line: u32,
    character: u32,
}

/// Reads one run of pyright.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    match document(&String::from_utf8_lossy(&input.raw.stdout)) {
        Some(output) if output.type_completeness.is_some() => {
            reading.open("pyright verified a package's types, which is no check of this code");
        }
        Some(output) => take(&mut reading, input, output),
        None => console(&mut reading, input),
    }
    match input.raw.exit_code {
        Some(3) => reading.open("pyright could not read its configuration (exit code 3)"),
        Some(4) => reading.open("pyright was called wrongly (exit code 4)"),
        Some(_) | None => {}
    }
    if let Some(line) = input.stderr.lines().find(|line| line.starts_with("Config ")) {
        reading.note(format!("pyright says of its configuration: {line}"));
    }
    reading
}

/// The JSON document on stdout, which other lines may stand around.
fn document(stdout: &str) -> Option<Output> {
    let mut from = 0;
    for _ in 0..50 {
        let at = from + stdout[from..].find('{')?;
        if at == 0 || stdout[..at].ends_with('\n') {
            let mut stream = serde_json::Deserializer::from_str(&stdout[at..]).into_iter::<Output>();
            if let Some(Ok(output)) = stream.next() {
                return Some(output);
            }
        }
        from = at + 1;
    }
    None
}

fn take(reading: &mut Reading, input: &Input<'_>, output: Output) {
    for finding in output.general_diagnostics {
        let severity = match finding.severity.as_str() {
            "warning" => Severity::Warning,
            "information" => Severity::Note,
            _ => Severity::Error,
        };
        reading.diagnostic(Diagnostic {
            file: input.path(&finding.file),
            line: finding.range.as_ref().map(|range| range.start.line.saturating_add(1)),
            column: finding.range.as_ref().map(|range| range.start.character.saturating_add(1)),
            severity,
            code: finding.rule,
            message: finding.message,
        });
    }
    reading.counts.errors = Some(output.summary.error_count);
    reading.extra.insert("warnings", output.summary.warning_count);
    reading.executed = if output.summary.files_analyzed > 0 { Executed::Some } else { Executed::Nothing };
}

/// `  path:2:12 - error: message (rule)`, its message perhaps over several lines, and the line of counts.
fn console(reading: &mut Reading, input: &Input<'_>) {
    let mut last: Option<Diagnostic> = None;
    for line in input.lines() {
        if let Some(found) = finding(input, line) {
            if let Some(done) = last.replace(found) {
                reading.diagnostic(with_rule(done));
            }
        } else if let Some((errors, warnings)) = counts(line) {
            reading.counts.errors = Some(errors);
            reading.extra.insert("warnings", warnings);
            reading.executed = Executed::Some;
        } else if line.starts_with("No source files found") {
            reading.executed = Executed::Nothing;
            reading.open("pyright found no source file");
        } else if let (Some(found), true) = (&mut last, line.starts_with("  "))
            && found.message.len() < 2_000
        {
            found.message.push('\n');
            found.message.push_str(line.trim());
        }
    }
    if let Some(done) = last {
        reading.diagnostic(with_rule(done));
    }
}

fn finding(input: &Input<'_>, line: &str) -> Option<Diagnostic> {
    let at = text::position(line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?)?;
    let rest = at.rest.strip_prefix(" - ")?;
    let (word, message) = rest.split_once(": ")?;
    let severity = match word {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        "information" => Severity::Note,
        _ => return None,
    };
    Some(Diagnostic {
        file: input.path(at.path),
        line: Some(at.line),
        column: at.column,
        severity,
        code: None,
        message: message.to_owned(),
    })
}

/// Takes the rule off the end of a message.
fn with_rule(mut found: Diagnostic) -> Diagnostic {
    let rule = found.message.strip_suffix(')').and_then(|text| text.rsplit_once(" (")).filter(|(_, rule)| {
        rule.starts_with("report") && rule.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    if let Some((message, rule)) = rule {
        found.code = Some(rule.to_owned());
        found.message = message.to_owned();
    }
    found
}

/// `5 errors, 0 warnings, 0 informations`.
fn counts(line: &str) -> Option<(u64, u64)> {
    let mut parts = line.trim_end().split(", ");
    let (errors, word) = text::leading_count(parts.next()?);
    let (warnings, other) = text::leading_count(parts.next()?);
    (word.starts_with(" error") && other.starts_with(" warning")).then_some((errors?, warnings?))
}
