//! What a tree is made of: its files by language. What no language claims is listed, never guessed.

use std::collections::{BTreeMap, BTreeSet};

use jobs::step::LanguageCount;

use super::language::Language;
use crate::workspace::Tree;

/// File endings that one run lists as left out; the rest is counted.
const OMITTED: usize = 40;

/// What a tree is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Survey {
    /// Most files first.
    pub languages: Vec<LanguageCount>,
    /// Endings of files in no language that is known here.
    pub omitted: Vec<String>,
}

/// Counts the files of a tree by language.
pub fn survey(tree: &Tree) -> Survey {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for (path, entry) in tree.entries() {
        if !entry.mode.is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(path.name()).into_owned();
        match Language::of_name(&name) {
            Some(language) => *counts.entry(language.name()).or_default() += 1,
            None => {
                unknown.insert(ending(&name));
            }
        }
    }
    let mut languages: Vec<_> = counts
        .into_iter()
        .map(|(language, files)| LanguageCount { language: language.to_owned(), files })
        .collect();
    languages.sort_by(|left, right| right.files.cmp(&left.files).then(left.language.cmp(&right.language)));
    let more = unknown.len().saturating_sub(OMITTED);
    let mut omitted: Vec<String> = unknown.into_iter().take(OMITTED).collect();
    if more > 0 {
        omitted.push(format!("and {more} more"));
    }
    Survey { languages, omitted }
}

/// What stands for a file in the list of what was left out: its ending, or its name where it has none.
fn ending(name: &str) -> String {
    let text = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && !ending.is_empty() => format!(".{ending}"),
        Some(_) | None => name.to_owned(),
    };
    text.chars().map(|next| if next.is_control() { '?' } else { next }).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Entry, Mode, TreePath};

    #[test]
    fn an_unknown_language_is_listed_as_left_out() {
        let entries = ["src/lib.rs", "src/main.RS", "a.py", "b.zig", "Makefile", ".gitignore"]
            .map(|path| (TreePath::parse(path).unwrap(), Entry::new(Mode::Regular, &b""[..])));
        let found = survey(&Tree::new(entries.into(), None).unwrap());
        let counts: Vec<_> = found.languages.iter().map(|l| (l.language.as_str(), l.files)).collect();
        assert_eq!(counts, [("Rust", 2), ("Python", 1)]);
        assert_eq!(found.omitted, [".gitignore", ".zig", "Makefile"]);
    }
}
