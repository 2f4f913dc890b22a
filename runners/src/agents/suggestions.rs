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

/// The parts are sorted and apart. Lines that held something and from which all was taken go with their line end,
/// and so does one of two empty lines that come together by it.
fn replaced(before: &[u8], parts: &[&Replacement]) -> Vec<u8> {
    let mut after = Vec::with_capacity(before.len());
    let mut at = 0;
    let mut parts = parts.iter().peekable();
    while let Some(first) = parts.next() {
        let start = before[..first.start].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        after.extend_from_slice(&before[at..start]);
        let (mut lines, mut only_takes) = (before[start..first.start].to_vec(), true);
        let (mut part, mut end) = (first, line_end(before, first));
        loop {
            lines.extend_from_slice(part.with.as_bytes());
            only_takes &= is_blank(part.with.as_bytes());
            at = part.end;
            match parts.next_if(|next| next.start < end || !before[..end].ends_with(b"\n")) {
                Some(next) => {
                    lines.extend_from_slice(&before[at..next.start]);
                    (part, end) = (next, line_end(before, next));
                }
                None => break,
            }
        }
        lines.extend_from_slice(&before[at..end]);
        at = end;
        if !(only_takes && is_blank(&lines) && !is_blank(&before[start..end])) {
            after.append(&mut lines);
            continue;
        }
        let next = before[at..].split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
        let is_free = parts.peek().is_none_or(|part| part.start > at + next.len());
        if is_free && is_blank(next) && ends_blank(&after) {
            at += next.len();
        }
    }
    after.extend_from_slice(&before[at..]);
    after
}

/// Where the last line ends that a part touches.
fn line_end(before: &[u8], part: &Replacement) -> usize {
    if part.start < part.end && before[part.end - 1] == b'\n' {
        return part.end;
    }
    before[part.end..].iter().position(|&byte| byte == b'\n').map_or(before.len(), |at| part.end + at + 1)
}

/// Whether there is no line, or the last one is empty.
fn ends_blank(lines: &[u8]) -> bool {
    lines.split_inclusive(|&byte| byte == b'\n').next_back().is_none_or(is_blank)
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
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

    #[test]
    fn a_line_from_which_all_is_taken_goes_with_its_line_end() {
        let source = "use a::b;\nuse a::{\n    c,\n    d,\n};\n\nfn e() {\n    f(); g();\r\n}\n";
        let at = |text: &str| {
            let start = source.find(text).unwrap();
            (start, start + text.len(), "")
        };
        let after = |parts: &[(usize, usize, &str)]| text_after(source, &[suggestion(parts)]).0;
        let without = |text: &str| source.replacen(text, "", 1);
        assert_eq!(after(&[at("use a::b;")]), without("use a::b;\n"));
        assert_eq!(after(&[at("use a::b;\n")]), without("use a::b;\n"));
        assert_eq!(after(&[at("use a::{\n    c,\n    d,\n};")]), without("use a::{\n    c,\n    d,\n};\n"));
        assert_eq!(after(&[at("    c,")]), without("    c,\n"));
        assert_eq!(after(&[at("c,"), at("d,")]), without("    c,\n    d,\n"));
        // Two parts that leave nothing of a line between them.
        assert_eq!(after(&[at("f();"), at("g();")]), without("    f(); g();\r\n"));
        // What is left of a line stays, and so does a line that was empty before.
        assert_eq!(after(&[at("f();")]), without("f();"));
        let (start, end, _) = at("use a::b;");
        assert_eq!(after(&[(start, end, "use z;")]), source.replacen("use a::b;", "use z;", 1));
        // An insertion on the line after stays, wherever it is.
        let brace = source.find("fn e").unwrap();
        let (start, end, _) = at("use a::{\n    c,\n    d,\n};");
        let both = source.replacen("use a::{\n    c,\n    d,\n};\n\n", "", 1).replacen("fn e", "pub fn e", 1);
        assert_eq!(
            after(&[(start, end, ""), (brace, brace, "pub ")]),
            both.replacen("use a::b;\n", "use a::b;\n\n", 1)
        );
        let empty = source.find("\n\nfn").unwrap() + 1;
        assert_eq!(after(&[(empty, empty, "\n")]), source.replacen("\n\nfn", "\n\n\nfn", 1));
    }

    #[test]
    fn empty_lines_around_what_goes_become_one() {
        let after = |source: &str| {
            let start = source.find("use").unwrap();
            text_after(source, &[suggestion(&[(start, start + 6, "")])]).0
        };
        assert_eq!(after("//! a\n\nuse b;\n\nfn c() {}\n"), "//! a\n\nfn c() {}\n");
        assert_eq!(after("//! a\r\n\r\nuse b;\r\n  \r\nfn c() {}\r\n"), "//! a\r\n\r\nfn c() {}\r\n");
        assert_eq!(after("use b;\n\nfn c() {}\n"), "fn c() {}\n");
        assert_eq!(after("//! a\n\nuse b;\nuse d;\n\n"), "//! a\n\nuse d;\n\n");
        assert_eq!(after("use d;\nuse b;\n\nfn c() {}\n"), "use b;\n\nfn c() {}\n");
    }

    #[test]
    fn a_last_line_without_a_line_end_goes_too() {
        assert_eq!(text_after("a\nuse b;", &[suggestion(&[(2, 8, "")])]).0, "a\n");
        assert_eq!(text_after("use b;", &[suggestion(&[(0, 6, "")])]).0, "");
    }
}
