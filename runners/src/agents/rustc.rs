//! Machine-applicable suggestions in the JSON messages of cargo, checked against the files they are for.
//!
//! The compiler marks a suggestion `MachineApplicable` when applying it needs no judgement. It gives each as
//! spans of bytes and with the lines that it saw; a span whose lines are not in the file is not used.
//! (Format: the "JSON Output" chapter of the rustc book.)

use serde::Deserialize;

use super::suggestions::{Replacement, Suggestion};
use crate::workspace::{Tree, TreePath};

#[derive(Deserialize)]
struct Line {
    reason: String,
    #[serde(default)]
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    message: String,
    #[serde(default)]
    code: Option<Code>,
    #[serde(default)]
    spans: Vec<Span>,
    #[serde(default)]
    children: Vec<Message>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    line_start: usize,
    #[serde(default)]
    text: Vec<SpanLine>,
    #[serde(default)]
    suggested_replacement: Option<String>,
    #[serde(default)]
    suggestion_applicability: Option<String>,
    /// Present where the span lies in what a macro made.
    #[serde(default)]
    expansion: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct SpanLine {
    text: String,
}

/// The suggestions for errors among a stream's lines. Warnings are not what makes a check fail.
pub(super) fn suggestions(stdout: &[u8], directory: &str, tree: &Tree) -> Vec<Suggestion> {
    let mut found = Vec::new();
    for line in stdout.split(|&byte| byte == b'\n') {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") {
            continue;
        }
        let Ok(line) = serde_json::from_slice::<Line>(line) else { continue };
        let Some(message) = line.message.filter(|_| line.reason == "compiler-message") else { continue };
        if message.level != "error" {
            continue;
        }
        let says = match &message.code {
            Some(code) => format!("{} ({})", message.message, code.code),
            None => message.message.clone(),
        };
        collect(&message, &says, directory, tree, &mut found);
    }
    found
}

/// Each message of a tree of them is one suggestion, if all of its spans are machine-applicable.
fn collect(message: &Message, says: &str, directory: &str, tree: &Tree, found: &mut Vec<Suggestion>) {
    let suggested: Vec<&Span> =
        message.spans.iter().filter(|span| span.suggested_replacement.is_some()).collect();
    let applicable = |span: &&Span| {
        span.suggestion_applicability.as_deref() == Some("MachineApplicable") && span.expansion.is_none()
    };
    let judged = suggested.iter().any(|span| needs_judgement(span));
    if !suggested.is_empty() && suggested.iter().all(applicable) && !judged {
        let parts: Option<Vec<Replacement>> =
            suggested.iter().map(|span| replacement(span, directory, tree)).collect();
        if let Some(parts) = parts {
            found.push(Suggestion { says: says.chars().take(160).collect(), parts });
        }
    }
    for child in &message.children {
        collect(child, says, directory, tree, found);
    }
}

/// Whether a replacement puts in what only a person should decide on: a way to panic, or code that is not
/// checked. The compiler marks `.try_into().unwrap()` for a number of another width as applicable, which
/// makes the code compile and gives it a new way to fail.
fn needs_judgement(span: &Span) -> bool {
    const WORDS: [&str; 7] =
        [".unwrap()", ".expect(", "panic!", "todo!", "unimplemented!", "unreachable!", "unsafe"];
    let with = span.suggested_replacement.as_deref().unwrap_or_default();
    let before: String = span.text.iter().map(|line| line.text.as_str()).collect();
    WORDS.iter().any(|word| with.matches(word).count() > before.matches(word).count())
}

/// A span as a replacement, where the file is in the tree and holds what the compiler saw.
fn replacement(span: &Span, directory: &str, tree: &Tree) -> Option<Replacement> {
    let with = span.suggested_replacement.clone()?;
    // File names are relative to the cargo workspace, whose root may lie above the check's directory.
    let mut at = Some(directory);
    while let Some(folder) = at {
        let name =
            if folder.is_empty() { span.file_name.clone() } else { format!("{folder}/{}", span.file_name) };
        if let Ok(path) = TreePath::parse(&name)
            && let Some(entry) = tree.entry(&path).filter(|entry| entry.mode.is_file())
            && let Ok(content) = tree.content(&path, entry)
            && is_there(span, &content)
        {
            return Some(Replacement { path, start: span.byte_start, end: span.byte_end, with });
        }
        at = if folder.is_empty() {
            None
        } else {
            Some(folder.rsplit_once('/').map_or("", |(above, _)| above))
        };
    }
    None
}

/// Whether the lines that the compiler shows stand where it says, around the bytes that it means.
fn is_there(span: &Span, content: &[u8]) -> bool {
    if span.byte_start > span.byte_end || span.byte_end > content.len() || span.text.is_empty() {
        return false;
    }
    let boundary = |at: usize| content.get(at).is_none_or(|byte| !(0x80..0xc0).contains(byte));
    if !boundary(span.byte_start) || !boundary(span.byte_end) {
        return false;
    }
    let line_start =
        content[..span.byte_start].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let line_number = content[..line_start].iter().filter(|&&byte| byte == b'\n').count() + 1;
    let mut lines = content[line_start..].split(|&byte| byte == b'\n');
    line_number == span.line_start
        && span.text.iter().all(|shown| {
            let strip = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
            lines.next().is_some_and(|line| {
                let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
                strip(line) == strip(shown.text.as_bytes())
            })
        })
}

#[cfg(test)]
mod tests;
