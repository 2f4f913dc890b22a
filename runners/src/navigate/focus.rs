//! Where to look first: the files, lines and names that the failures speak of.

use std::collections::{BTreeMap, BTreeSet};

use jobs::verdict::{CheckOutcome, Checked, Severity};

/// Failures may be thousands; the first tell where to look.
const MAX_FILES: usize = 100;
const MAX_LINES: usize = 50;
const MAX_NAMES: usize = 300;
const MAX_NAME: usize = 100;

/// Files and names that a map begins at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Focus {
    files: BTreeMap<String, BTreeSet<u32>>,
    names: BTreeSet<String>,
}

impl Focus {
    /// What failed checks speak of.
    pub fn of(checked: &Checked) -> Self {
        let mut focus = Self::default();
        for check in checked.checks.iter().filter(|check| check.report.outcome != CheckOutcome::Passed) {
            for failure in &check.report.failures {
                if let Some(file) = &failure.file {
                    focus.add_file(file, failure.line);
                }
                focus.add_words(&failure.name, Words::All);
                focus.add_words(&failure.message, Words::OfCode);
                focus.add_words(&failure.excerpt, Words::OfCode);
            }
            let errors = check.report.diagnostics.iter().filter(|found| found.severity == Severity::Error);
            for found in errors {
                focus.add_file(&found.file, found.line);
                focus.add_words(&found.message, Words::OfCode);
            }
        }
        focus
    }

    /// Adds a file, with a line of it.
    pub fn add_file(&mut self, file: &str, line: Option<u32>) {
        let file = file.trim_start_matches("./");
        if file.is_empty() || self.files.len() >= MAX_FILES && !self.files.contains_key(file) {
            return;
        }
        let lines = self.files.entry(file.to_owned()).or_default();
        lines.extend(line.filter(|_| lines.len() < MAX_LINES));
    }

    /// Adds a name.
    pub fn add_name(&mut self, name: &str) {
        if (2..=MAX_NAME).contains(&name.len()) && self.names.len() < MAX_NAMES {
            self.names.insert(name.to_owned());
        }
    }

    /// Files as they were named, with the lines that were named in them.
    pub fn files(&self) -> &BTreeMap<String, BTreeSet<u32>> {
        &self.files
    }

    /// Names that definitions may have.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    fn add_words(&mut self, text: &str, which: Words) {
        let is_part = |next: char| next.is_alphanumeric() || next == '_';
        let mut rest = text;
        while let Some(begin) = rest.find(is_part) {
            let word = &rest[begin..];
            let end = word.find(|next| !is_part(next)).unwrap_or(word.len());
            let (before, after) = (rest[..begin].chars().next_back(), word[end..].chars().next());
            let word = &word[..end];
            rest = &rest[begin + end..];
            let begins_name = word.starts_with(|first: char| !first.is_numeric());
            if word.len() > 2 && begins_name && (which == Words::All || is_code(word, before, after)) {
                self.add_name(word);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    All,
    OfCode,
}

/// Whether a word of a message is more likely a name than a word of a sentence.
fn is_code(word: &str, before: Option<char>, after: Option<char>) -> bool {
    let quotes = ['\'', '"', '`', '‘', '’'];
    word.contains('_')
        || word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase)
        || matches!(before, Some('.' | ':')) && matches!(after, Some('(' | ':' | '\'' | '"' | '`' | '.'))
        || after == Some('(')
        || before.is_some_and(|next| quotes.contains(&next))
            && after.is_some_and(|next| quotes.contains(&next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_the_words_around_them() {
        let mut focus = Focus::default();
        focus.add_words(
            "AttributeError: 'Widget' object has no attribute paint_all, see draw() and 3rd",
            Words::OfCode,
        );
        let names: Vec<_> = focus.names().iter().map(String::as_str).collect();
        assert_eq!(names, ["AttributeError", "Widget", "draw", "paint_all"]);
    }

    #[test]
    fn a_flood_of_failures_is_bounded() {
        let mut focus = Focus::default();
        for at in 0..10_000 {
            focus.add_file(&format!("./src/{at}.py"), Some(at));
            focus.add_file("one.py", Some(at));
            focus.add_name(&format!("name_{at}"));
        }
        assert_eq!(focus.files().len(), MAX_FILES);
        assert_eq!(focus.files()["one.py"].len(), MAX_LINES);
        assert_eq!(focus.names().len(), MAX_NAMES);
    }
}
