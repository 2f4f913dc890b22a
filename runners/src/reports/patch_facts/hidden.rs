//! What a patch brings that nobody who reads it can see: bytes, compiled code, links, letters in disguise.
//!
//! The facts are read from text. What is no text, or says something else to a compiler than to a reader,
//! would pass unseen, so it is flagged for what it is.

use super::diff::FileDiff;
use super::{FlagKind, PatchFacts};

/// Endings of files that are source code or decide how code is run.
const SOURCES: &[&str] = &[
    ".py", ".pyi", ".pyx", ".rs", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".go",
    ".java", ".kt", ".kts", ".groovy", ".scala", ".cs", ".fs", ".vb", ".c", ".cc", ".cpp", ".cxx", ".h",
    ".hh", ".hpp", ".hxx", ".rb", ".php", ".sh", ".bash", ".toml", ".ini", ".cfg", ".json", ".yml", ".yaml",
    ".xml", ".gradle", ".cmake", ".mk", ".vue", ".svelte",
];
/// Endings of compiled code and of archives that programs are loaded from.
const COMPILED: &[&str] = &[
    ".pyc", ".pyo", ".pyd", ".so", ".dylib", ".dll", ".node", ".class", ".jar", ".rlib", ".rmeta", ".a",
    ".o", ".exe", ".wasm", ".whl", ".egg", ".zip",
];

/// Flags what cannot be read of one file.
pub(super) fn look(facts: &mut PatchFacts, file: &FileDiff) {
    let path = file.path().to_lowercase();
    if file.deleted {
        return;
    }
    if COMPILED.iter().any(|end| path.ends_with(end))
        || path.contains("__pycache__/")
        || path.contains(".so.")
    {
        facts.flag(FlagKind::Hidden, file, None, "it is compiled code or an archive");
    } else if file.binary && SOURCES.iter().any(|end| path.ends_with(end)) {
        facts.flag(FlagKind::Hidden, file, None, "its bytes are no text");
    }
    if file.becomes_link {
        facts.flag(FlagKind::Hidden, file, None, "it is a link, and what it says lies elsewhere");
    }
    for line in file.added() {
        if disguised(&line.text, &path) || other_coding(&line.text, line.number, &path) {
            facts.flag(FlagKind::Hidden, file, Some(line.number), &line.text);
        }
    }
}

/// Letters that a compiler takes for others, or that turn a line's order around for its reader.
fn disguised(line: &str, path: &str) -> bool {
    if line.is_ascii() {
        let unicode_escape = [".java", ".kt", ".scala"].iter().any(|end| path.ends_with(end))
            && line.match_indices("\\u00").any(|(at, word)| {
                line[at + word.len()..].starts_with(|next: char| ('2'..='7').contains(&next))
            });
        return unicode_escape;
    }
    let python = path.ends_with(".py");
    line.chars().any(|next| {
        let turns = matches!(next, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        // Python reads these as the plain letters that they look like.
        let folds = matches!(
            next,
            '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' | '\u{ff3f}' | '\u{1d400}'..='\u{1d7ff}'
                | '\u{1d2c}'..='\u{1d6a}' | '\u{2090}'..='\u{209c}' | '\u{fb00}'..='\u{fb06}'
                | '\u{2071}' | '\u{207f}' | '\u{017f}'
        );
        turns || python && folds
    })
}

/// A declaration, in one of the first two lines, that Python is to read a file as something else than UTF-8.
fn other_coding(line: &str, number: u32, path: &str) -> bool {
    if number > 2 || !path.ends_with(".py") || !line.trim_start().starts_with('#') {
        return false;
    }
    let line = line.to_lowercase();
    let Some(rest) = line.split_once("coding").and_then(|(_, rest)| rest.strip_prefix([':', '='])) else {
        return false;
    };
    let name: String = rest.trim_start().chars().take_while(|next| !next.is_whitespace()).collect();
    !["utf-8", "utf8", "ascii", "us-ascii", "latin-1", "iso-8859-1", "utf-8-sig"].contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_in_disguise_and_other_codings_are_seen() {
        assert!(disguised("os._\u{ff45}xit(0)", "a.py"));
        assert!(disguised("x = 1 \u{202e} # 0", "a.rs"));
        assert!(disguised("\\u0065xit(0);", "A.java"));
        assert!(!disguised("# Grüße, 世界", "a.py"));
        assert!(!disguised("\"\\u00e9\"", "A.java"));
        assert!(other_coding("# -*- coding: utf-7 -*-", 1, "a.py"));
        assert!(!other_coding("# -*- coding: utf-8 -*-", 1, "a.py"));
        assert!(!other_coding("# coding: utf-7", 9, "a.py"));
    }
}
