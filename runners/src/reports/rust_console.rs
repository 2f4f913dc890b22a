//! Diagnostics as rustc and cargo print them for people: a headline, an arrow with the place, a picture.

use std::collections::BTreeSet;

use jobs::verdict::{Diagnostic, Severity};

use super::reading::Input;
use super::text;

/// What was found on a console.
#[derive(Default)]
pub(super) struct Found {
    /// Findings with a place, each once.
    pub diagnostics: Vec<Diagnostic>,
    /// Errors of cargo or the linker that have no place.
    pub bare_errors: Vec<String>,
    /// Whether a `could not compile` line stands there.
    pub could_not_compile: bool,
}

/// Lines of cargo that sum up what was already told.
const SUMMARIES: [&str; 10] = [
    "could not compile",
    "aborting due to",
    "build failed",
    "test failed",
    "doctest failed",
    "bench failed",
    "command `",
    "creating test list failed",
    "test run failed",
    "no tests to run",
];

/// Reads headlines with their places from cleaned lines.
pub(super) fn parse<'l>(input: &Input<'_>, lines: impl Iterator<Item = &'l str>) -> Found {
    let mut found = Found::default();
    let mut seen = BTreeSet::new();
    let mut headline: Option<Headline> = None;
    let mut kept = false;
    for line in lines {
        if kept
            && headline.is_none()
            && let (Some(code), Some(last)) = (lint_name(line), found.diagnostics.last_mut())
        {
            last.code.get_or_insert(code);
        }
        if let Some(next) = parse_headline(line) {
            finish(&mut found, headline.take());
            headline = Some(next);
            continue;
        }
        let Some(current) = &mut headline else { continue };
        if let Some(place) = line.trim_start().strip_prefix("--> ") {
            let Some(mut diagnostic) = current.placed(input, place) else { continue };
            headline = None;
            diagnostic.message = text::cut(&diagnostic.message, 2_000);
            if text::base_name(&diagnostic.file) == "Cargo.toml" {
                // cargo shows a manifest as rustc shows code, but then nothing was compiled at all.
                let line = diagnostic.line.unwrap_or_default();
                found.bare_errors.push(format!("{}:{line}: {}", diagnostic.file, diagnostic.message));
                continue;
            }
            let key =
                (diagnostic.file.clone(), diagnostic.line, diagnostic.column, diagnostic.message.clone());
            kept = seen.len() < 20_000 && seen.insert(key);
            if kept {
                found.diagnostics.push(diagnostic);
            }
        } else if line.trim().is_empty() || current.lines > 20 {
            finish(&mut found, headline.take());
        } else {
            current.lines += 1;
        }
    }
    finish(&mut found, headline);
    found
}

/// The lint in a note below a picture: `#[warn(dead_code)]`, `-D clippy::all`, or Clippy's page.
fn lint_name(line: &str) -> Option<String> {
    let note = line.trim_start().strip_prefix("= ")?;
    if let Some((_, name)) = note.split_once("rust-clippy/").and_then(|(_, rest)| rest.split_once('#')) {
        return Some(format!("clippy::{}", name.trim()));
    }
    let note = note.strip_prefix("note: ")?;
    for level in ["`#[warn(", "`#[deny(", "`#[forbid(", "`#![warn(", "`#![deny("] {
        if let Some((name, _)) = note.strip_prefix(level).and_then(|rest| rest.split_once(')')) {
            return Some(name.to_owned());
        }
    }
    for level in [
        "`-W ",
        "`-D ",
        "`-F ",
        "requested on the command line with `-W ",
        "requested on the command line with `-D ",
    ] {
        if let Some((name, _)) = note.strip_prefix(level).and_then(|rest| rest.split_once('`')) {
            return Some(name.replace('-', "_"));
        }
    }
    None
}

struct Headline {
    severity: Severity,
    code: Option<String>,
    message: String,
    lines: usize,
}

impl Headline {
    fn placed(&self, input: &Input<'_>, place: &str) -> Option<Diagnostic> {
        let position = text::position(place)?;
        Some(Diagnostic {
            file: input.path(position.path),
            line: Some(position.line),
            column: position.column,
            severity: self.severity,
            code: self.code.clone(),
            message: self.message.clone(),
        })
    }
}

fn parse_headline(line: &str) -> Option<Headline> {
    let (severity, rest) = if let Some(rest) = line.strip_prefix("error") {
        (Severity::Error, rest)
    } else if let Some(rest) = line.strip_prefix("warning") {
        (Severity::Warning, rest)
    } else {
        return None;
    };
    let (code, rest) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (code, rest) = rest.split_once(']')?;
            (Some(code.to_owned()), rest)
        }
        None => (None, rest),
    };
    let message = rest.strip_prefix(": ")?.to_owned();
    Some(Headline { severity, code, message, lines: 0 })
}

/// A headline that never got a place: a summary, or an error of cargo itself.
fn finish(found: &mut Found, headline: Option<Headline>) {
    let Some(headline) = headline else { return };
    if headline.severity != Severity::Error {
        return;
    }
    if headline.message.starts_with("could not compile") {
        found.could_not_compile = true;
    }
    let summary = SUMMARIES.iter().any(|start| headline.message.starts_with(start))
        || headline.message.contains("targets failed:")
        || headline.message.contains("target failed:");
    if !summary && found.bare_errors.len() < 50 {
        found.bare_errors.push(text::cut(&headline.message, 1_000));
    }
}
