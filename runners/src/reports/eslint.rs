//! ESLint: `-f json` on stdout or in a file, or its `stylish` lines.

use jobs::verdict::{Diagnostic, Severity};
use serde::Deserialize;

use super::reading::{Executed, Input, Reading};
use super::text;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileResult {
    file_path: String,
    messages: Vec<Message>,
    #[serde(default)]
    error_count: u64,
    #[serde(default)]
    warning_count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    #[serde(default)]
    rule_id: Option<String>,
    #[serde(default)]
    severity: u8,
    #[serde(default)]
    fatal: Option<bool>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    column: Option<u32>,
}

/// Reads one run of ESLint.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let mut found = false;
    for (path, bytes) in input.files(|path| path.ends_with(".json")) {
        match document(&String::from_utf8_lossy(bytes)) {
            Some(results) => {
                found = true;
                take(&mut reading, input, results);
            }
            None => reading.open(format!("{path} is no whole ESLint report")),
        }
    }
    if !found {
        match document(&String::from_utf8_lossy(&input.raw.stdout)) {
            Some(results) => take(&mut reading, input, results),
            None => console(&mut reading, input),
        }
    }
    if input.raw.exit_code == Some(2) {
        let why = input.stderr.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut why = why.filter(|line| !line.starts_with("Oops!") && !line.starts_with("ESLint:"));
        let why = why.next();
        reading.open(format!("ESLint could not run: {}", why.unwrap_or("exit code 2")));
    }
    reading
}

/// The JSON array, which other lines may stand before.
fn document(text: &str) -> Option<Vec<FileResult>> {
    let text = text.trim_start();
    let mut starts =
        text.starts_with('[').then_some(0).into_iter().chain(text.match_indices("\n[").map(|(at, _)| at + 1));
    starts.by_ref().take(20).find_map(|at| {
        serde_json::Deserializer::from_str(&text[at..]).into_iter::<Vec<FileResult>>().next()?.ok()
    })
}

fn take(reading: &mut Reading, input: &Input<'_>, results: Vec<FileResult>) {
    reading.executed = if results.is_empty() { Executed::Nothing } else { Executed::Some };
    let mut errors = 0_u64;
    let mut warnings = 0_u64;
    for result in results {
        errors = errors.saturating_add(result.error_count);
        warnings = warnings.saturating_add(result.warning_count);
        let file = input.path(&result.file_path);
        for message in result.messages {
            let severe = message.severity >= 2 || message.fatal == Some(true);
            reading.diagnostic(Diagnostic {
                file: file.clone(),
                line: message.line,
                column: message.column,
                severity: if severe { Severity::Error } else { Severity::Warning },
                code: message.rule_id,
                message: message.message,
            });
        }
    }
    reading.counts.errors = Some(errors);
    reading.extra.insert("warnings", warnings);
}

/// A path, then `  1:7  error  message  rule`, and `✖ 5 problems (3 errors, 2 warnings)` at the end.
fn console(reading: &mut Reading, input: &Input<'_>) {
    let asked_for_json = input.check.argv.iter().any(|word| word.contains("json"));
    if input.exit_is_zero() && input.stdout.trim().is_empty() && !asked_for_json {
        // Silence is what its form for people has when there is nothing to tell.
        reading.executed = Executed::Some;
        return;
    }
    let mut file = String::new();
    for line in input.stdout.lines() {
        if !line.starts_with(' ') {
            if let Some((errors, warnings)) = problems(line) {
                reading.counts.errors = Some(errors);
                reading.extra.insert("warnings", warnings);
                reading.executed = Executed::Some;
            } else if line.contains('.') && !line.starts_with('✖') {
                file = input.path(line);
            }
        } else if let Some(found) = stylish(&file, line) {
            reading.diagnostic(found);
            reading.executed = Executed::Some;
        }
    }
}

fn problems(line: &str) -> Option<(u64, u64)> {
    let rest = line.strip_prefix("✖ ")?;
    let (_, inner) = rest.split_once(" (")?;
    let (errors, rest) = text::leading_count(inner);
    let (_, rest) = rest.split_once(", ")?;
    let (warnings, _) = text::leading_count(rest);
    Some((errors?, warnings?))
}

fn stylish(file: &str, line: &str) -> Option<Diagnostic> {
    let words = line.trim();
    let (row, rest) = text::leading_number(words);
    let (column, rest) = text::leading_number(rest.strip_prefix(':')?);
    let rest = rest.trim_start();
    let (severity, rest) = if let Some(rest) = rest.strip_prefix("error") {
        (Severity::Error, rest)
    } else if let Some(rest) = rest.strip_prefix("warning") {
        (Severity::Warning, rest)
    } else {
        return None;
    };
    let rest = rest.trim();
    let (message, code) = match rest.rsplit_once("  ") {
        Some((message, rule)) if !rule.contains(' ') => (message.trim(), Some(rule.to_owned())),
        Some(_) | None => (rest, None),
    };
    Some(Diagnostic {
        file: file.to_owned(),
        line: Some(row?),
        column,
        severity,
        code,
        message: message.to_owned(),
    })
}
