//! Exact edits: spans of bytes with the text that must stand there, applied all or none.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::workspace::{Entry, Tree, TreeError, TreePath};

/// One replacement in one file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Replacement {
    pub path: TreePath,
    pub start: usize,
    pub end: usize,
    pub with: String,
}

impl Replacement {
    fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// Replacements that only make sense together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Suggestion {
    /// What the tool says of it, for the note.
    pub says: String,
    pub parts: Vec<Replacement>,
}

/// What came of a set of suggestions.
pub(super) struct Outcome {
    pub tree: Tree,
    /// The words of those that were applied.
    pub applied: Vec<String>,
}

/// Applies as many suggestions as fit beside each other, in their order. One that overlaps an earlier one
/// waits for the next round, when the tool has looked at the changed file.
pub(super) fn apply(tree: &Tree, suggestions: &[Suggestion]) -> Result<Outcome, TreeError> {
    let mut taken: BTreeMap<TreePath, Vec<&Replacement>> = BTreeMap::new();
    let mut applied = Vec::new();
    for suggestion in suggestions {
        let mut parts: Vec<&Replacement> = suggestion.parts.iter().collect();
        // One compiler run may tell the same of a library and of its tests.
        if parts.iter().all(|part| taken.get(&part.path).is_some_and(|there| there.contains(part))) {
            continue;
        }
        parts.sort();
        let apart = parts.windows(2).all(|pair| pair[0].path != pair[1].path || are_apart(pair[0], pair[1]));
        let free = parts.iter().all(|part| {
            taken.get(&part.path).is_none_or(|there| there.iter().all(|other| are_apart(part, other)))
        });
        if apart && free {
            for part in parts {
                taken.entry(part.path.clone()).or_default().push(part);
            }
            applied.push(suggestion.says.clone());
        }
    }
    let mut entries = tree.entries().clone();
    for (path, mut parts) in taken {
        let Some(entry) = tree.entry(&path) else { continue };
        let before = tree.content(&path, entry)?;
        parts.sort_by_key(|part| (part.start, part.end));
        entries.insert(path, Entry::new(entry.mode, replaced(&before, &parts)));
    }
    Ok(Outcome { tree: Tree::new(entries, tree.objects().cloned())?, applied })
}

/// Two places that share no byte. Two insertions at one place have no order, so they are not apart.
fn are_apart(one: &Replacement, other: &Replacement) -> bool {
    let (one, other) = (one.range(), other.range());
    (one.end <= other.start || other.end <= one.start) && one.start != other.start
}

fn replaced(before: &[u8], parts: &[&Replacement]) -> Vec<u8> {
    let mut after = Vec::with_capacity(before.len());
    let mut at = 0;
    for part in parts {
        after.extend_from_slice(&before[at..part.start]);
        after.extend_from_slice(part.with.as_bytes());
        at = part.end;
    }
    after.extend_from_slice(&before[at..]);
    after
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::workspace::Mode;

    fn tree(content: &str) -> Tree {
        let entry = Entry::new(Mode::Regular, content.as_bytes());
        Tree::new(BTreeMap::from([(path(), entry)]), None).unwrap()
    }

    fn path() -> TreePath {
        TreePath::parse("src/lib.rs").unwrap()
    }

    fn suggestion(parts: &[(usize, usize, &str)]) -> Suggestion {
        let parts = parts.iter().map(|&(start, end, with)| Replacement {
            path: path(),
            start,
            end,
            with: with.to_owned(),
        });
        Suggestion { says: format!("{parts:?}").len().to_string(), parts: parts.collect() }
    }

    fn text_after(content: &str, suggestions: &[Suggestion]) -> (String, usize) {
        let outcome = apply(&tree(content), suggestions).unwrap();
        let text = outcome.tree.read(&path()).unwrap();
        (String::from_utf8(text.to_vec()).unwrap(), outcome.applied.len())
    }

    #[test]
    fn suggestions_that_are_apart_are_applied_together() {
        let all = [suggestion(&[(4, 4, "mut ")]), suggestion(&[(0, 3, "const"), (10, 10, ";")])];
        assert_eq!(text_after("let x = 1;", &all), ("const mut x = 1;;".to_owned(), 2));
    }

    #[test]
    fn of_two_that_overlap_the_first_is_applied() {
        let all = [suggestion(&[(0, 5, "a")]), suggestion(&[(3, 6, "b"), (8, 8, "c")])];
        assert_eq!(text_after("0123456789", &all), ("a56789".to_owned(), 1));
    }

    #[test]
    fn two_insertions_at_one_place_are_not_mixed() {
        let all = [suggestion(&[(2, 2, "x")]), suggestion(&[(2, 2, "y")])];
        assert_eq!(text_after("0123", &all), ("01x23".to_owned(), 1));
    }

    #[test]
    fn what_is_told_twice_is_applied_once() {
        let all = [suggestion(&[(1, 2, "")]), suggestion(&[(1, 2, "")])];
        assert_eq!(text_after("0123", &all), ("023".to_owned(), 1));
    }

    #[test]
    fn a_suggestion_whose_own_parts_overlap_is_left_out() {
        let all = [suggestion(&[(0, 3, "a"), (2, 4, "b")])];
        assert_eq!(text_after("0123", &all), ("0123".to_owned(), 0));
    }
}
