//! tsc: `path(line,column): error TS1234: message`, or the pretty form of it; silence when all is well.

use jobs::verdict::{Diagnostic, Severity};

use super::reading::{Executed, Input, Reading};
use super::text;

/// Reads one run of tsc.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let mut last: Option<Diagnostic> = None;
    let mut help = false;
    for line in input.lines() {
        if let Some(found) = parse(input, line) {
            if let Some(done) = last.replace(found) {
                reading.diagnostic(done);
            }
            continue;
        }
        let continues = line.starts_with("  ") && !line.trim().is_empty();
        if let (Some(found), true) = (&mut last, continues && is_words(line)) {
            if found.message.len() < 2_000 {
                found.message.push('\n');
                found.message.push_str(line.trim_end());
            }
            continue;
        }
        help |= line.starts_with("Version ") || line.contains("The TypeScript Compiler - Version");
    }
    if let Some(done) = last {
        reading.diagnostic(done);
    }
    let errors = || reading.diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let configuration = errors().next().is_some() && errors().all(about_configuration);
    if configuration {
        reading.broken("tsc could not read its configuration, so no file was looked at");
    } else if help {
        reading.open("tsc printed its help or version instead of looking at files");
    } else if input.exit_is_zero() || !reading.diagnostics.is_empty() {
        reading.executed = Executed::Some;
    }
    reading
}

/// Whether a line below a message belongs to its chain of reasons, not to a picture of the code.
fn is_words(line: &str) -> bool {
    let words = line.trim();
    !words.chars().all(|next| next == '~') && !words.starts_with(|next: char| next.is_ascii_digit())
}

/// An error that is about tsc's own options or project file.
fn about_configuration(found: &Diagnostic) -> bool {
    let name = text::base_name(&found.file);
    let project = name.starts_with("tsconfig") && name.ends_with(".json");
    let number: u32 =
        found.code.as_deref().and_then(|code| code.strip_prefix("TS")?.parse().ok()).unwrap_or_default();
    project || (found.file.is_empty() && matches!(number, 5_000..=6_999 | 18_000..=18_999))
}

fn parse(input: &Input<'_>, line: &str) -> Option<Diagnostic> {
    if line.starts_with(' ') {
        return None;
    }
    if let Some((severity, code, message)) = severity_and_code(line) {
        return Some(diagnostic(String::new(), None, severity, code, message));
    }
    plain(input, line).or_else(|| pretty(input, line))
}

/// The first `(line,column): error TS` of the line: what follows is message, whatever it looks like.
fn plain(input: &Input<'_>, line: &str) -> Option<Diagnostic> {
    let mut from = 0;
    while let Some(found) = line[from..].find('(') {
        let open = from + found;
        from = open + 1;
        let (Some(row), rest) = text::leading_number(&line[open + 1..]) else { continue };
        let Some(rest) = rest.strip_prefix(',') else { continue };
        let (Some(column), rest) = text::leading_number(rest) else { continue };
        let Some(rest) = rest.strip_prefix("): ") else { continue };
        let Some((severity, code, message)) = severity_and_code(rest) else { continue };
        return Some(diagnostic(input.path(&line[..open]), Some((row, column)), severity, code, message));
    }
    None
}

fn pretty(input: &Input<'_>, line: &str) -> Option<Diagnostic> {
    let at = text::position(line)?;
    let (severity, code, message) = severity_and_code(at.rest.strip_prefix(" - ")?)?;
    Some(diagnostic(input.path(at.path), Some((at.line, at.column?)), severity, code, message))
}

/// `error TS2322: message`.
fn severity_and_code(text: &str) -> Option<(Severity, &str, &str)> {
    let (severity, rest) = if let Some(rest) = text.strip_prefix("error ") {
        (Severity::Error, rest)
    } else if let Some(rest) = text.strip_prefix("warning ") {
        (Severity::Warning, rest)
    } else {
        return None;
    };
    let (code, message) = rest.split_once(": ")?;
    let digits = code.strip_prefix("TS")?;
    let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    number.then_some((severity, code, message))
}

fn diagnostic(
    file: String,
    place: Option<(u32, u32)>,
    severity: Severity,
    code: &str,
    message: &str,
) -> Diagnostic {
    Diagnostic {
        file,
        line: place.map(|(line, _)| line),
        column: place.map(|(_, column)| column),
        severity,
        code: Some(code.to_owned()),
        message: message.to_owned(),
    }
}
