//! Mends what models usually get wrong in a patch, where only one reading is possible.
//!
//! Every repair is told in a sentence. What could be read in two ways is refused with a message that
//! says how to write it. The result is applied with every line checked as ever: mending may find the
//! form again, never invent content.

use std::borrow::Cow;

use super::patch::{Hunk, Mark, parse_ranges, trim_end};
use crate::workspace::path::shown;
use crate::workspace::{Tree, TreePath};

/// A patch whose form was mended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mended {
    pub patch: Vec<u8>,
    /// What was mended, one sentence each.
    pub notes: Vec<String>,
}

/// Damage that has no single repair.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MendError {
    #[error(
        "the answer is in the `*** Begin Patch` form; write a unified diff with `--- a/path`, `+++ b/path` and `@@ -1,3 +1,4 @@`"
    )]
    OtherForm,
    #[error(
        "the answer has no patch; write a unified diff with `--- a/path`, `+++ b/path` and `@@ -1,3 +1,4 @@`"
    )]
    NoPatch,
    #[error(
        "line {line} of the patch, `{text}`, is no line of a hunk: begin it with a blank (unchanged), `-` (removed) or `+` (added)"
    )]
    Line { line: usize, text: String },
    #[error("the hunk at line {line} of the patch has no lines")]
    EmptyHunk { line: usize },
}

/// Mends the form of `text`, with the paths of `tree` as a guide.
pub fn mend(text: &[u8], tree: &Tree) -> Result<Mended, MendError> {
    let mut notes = Vec::new();
    let mut text = unfenced(text, &mut notes);
    if text.split(|&b| b == b'\n').any(|line| trim_end(line) == b"*** Begin Patch") {
        return Err(MendError::OtherForm);
    }
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
        notes.push("the patch ended in the middle of a line; a line end was added".to_owned());
    }
    let lines: Vec<&[u8]> = text.split_inclusive(|&b| b == b'\n').collect();
    if !(0..lines.len()).any(|at| is_header(&lines, at) || lines[at].starts_with(b"diff --git ")) {
        return Err(MendError::NoPatch);
    }
    let mut rewrite = Rewrite { lines, at: 0, tree, out: Vec::new(), notes };
    rewrite.run()?;
    Ok(Mended { patch: rewrite.out, notes: rewrite.notes })
}

/// The text inside code fences, if there are any around something that looks like a patch.
fn unfenced(text: &[u8], notes: &mut Vec<String>) -> Vec<u8> {
    let is_fence = |line: &[u8]| line.starts_with(b"```") || line.starts_with(b"~~~");
    let mut inside = Vec::new();
    let mut block: Option<Vec<u8>> = None;
    for line in text.split_inclusive(|&b| b == b'\n') {
        match (&mut block, is_fence(line)) {
            (None, true) => block = Some(Vec::new()),
            (None, false) => {}
            (Some(content), true) => {
                take_block(&mut inside, content);
                block = None;
            }
            (Some(content), false) => content.extend_from_slice(line),
        }
    }
    // An answer that was cut off lacks the closing fence.
    if let Some(content) = &block {
        take_block(&mut inside, content);
    }
    if inside.is_empty() {
        return text.to_vec();
    }
    notes.push("the patch was taken out of its code fence".to_owned());
    inside
}

fn take_block(inside: &mut Vec<u8>, block: &[u8]) {
    let lines: Vec<&[u8]> = block.split_inclusive(|&b| b == b'\n').collect();
    if (0..lines.len()).any(|at| is_header(&lines, at) || lines[at].starts_with(b"diff --git ")) {
        inside.extend_from_slice(block);
        if !inside.ends_with(b"\n") {
            inside.push(b'\n');
        }
    }
}

/// `---`, `+++` and something like a hunk's header in a row.
fn is_header(lines: &[&[u8]], at: usize) -> bool {
    let starts = |ahead: usize, with: &[u8]| lines.get(at + ahead).is_some_and(|line| line.starts_with(with));
    starts(0, b"--- ") && starts(1, b"+++ ") && starts(2, b"@@")
}

struct Rewrite<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
    tree: &'a Tree,
    out: Vec<u8>,
    notes: Vec<String>,
}

impl Rewrite<'_> {
    fn run(&mut self) -> Result<(), MendError> {
        while let Some(&line) = self.lines.get(self.at) {
            if line.starts_with(b"diff --git ") && self.is_bare_git_header() {
                // Its lines say no more than the `---` and `+++` lines below it.
                self.at += 1;
                while self.lines.get(self.at).is_some_and(|line| line.starts_with(b"index ")) {
                    self.at += 1;
                }
            } else if is_header(&self.lines, self.at) {
                self.names();
            } else if line.starts_with(b"@@") {
                self.hunk()?;
            } else {
                self.out.extend_from_slice(line);
                self.at += 1;
            }
        }
        Ok(())
    }

    /// A git header without modes or renames, before a plain one.
    fn is_bare_git_header(&self) -> bool {
        let mut at = self.at + 1;
        while self.lines.get(at).is_some_and(|line| line.starts_with(b"index ")) {
            at += 1;
        }
        is_header(&self.lines, at)
    }

    fn names(&mut self) {
        for mark in ["--- ", "+++ "] {
            let line = trim_end(self.lines[self.at]);
            let name = line[4..].split(|&b| b == b'\t').next().unwrap_or_default().trim_ascii();
            self.out.extend_from_slice(mark.as_bytes());
            if name == b"/dev/null" || name.starts_with(b"\"") || self.is_prefixed(name) {
                self.out.extend_from_slice(&line[4..]);
            } else {
                self.out.extend_from_slice(if mark == "--- " { b"a/" } else { b"b/" });
                self.out.extend_from_slice(name);
                self.notes.push(format!("`{}` was taken as a path from the root", shown(name)));
            }
            self.out.push(b'\n');
            self.at += 1;
        }
    }

    /// Whether the first folder of a name is the prefix that diffs put before paths.
    fn is_prefixed(&self, name: &[u8]) -> bool {
        let known = |name: &[u8]| TreePath::parse(name).is_ok_and(|path| self.tree.entry(&path).is_some());
        match name.iter().position(|&b| b == b'/') {
            None => false,
            Some(1) if matches!(name[0], b'a' | b'b') => known(&name[2..]) || !known(name),
            Some(slash) => known(&name[slash + 1..]) && !known(name),
        }
    }

    fn hunk(&mut self) -> Result<(), MendError> {
        let header_line = self.at + 1;
        let header = trim_end(self.lines[self.at]);
        self.at += 1;
        let begin = self.at;
        let mut end = begin;
        while end < self.lines.len() && !self.is_boundary(end) {
            end += 1;
        }
        let ranges = parse_ranges(header);
        if let Some(ranges) = ranges
            && self.counts_hold(begin, end, ranges.old_count, ranges.new_count)
        {
            self.out.extend_from_slice(self.lines[begin - 1]);
            return Ok(());
        }
        while end > begin && trim_end(self.lines[end - 1]).is_empty() {
            end -= 1;
        }
        let (old, new) = self.count(begin, end)?;
        if old + new == 0 {
            return Err(MendError::EmptyHunk { line: header_line });
        }
        let (old_start, new_start) = match ranges {
            Some(ranges) => (ranges.old_start, ranges.new_start),
            None => (usize::from(old > 0), usize::from(new > 0)),
        };
        let what = if ranges.is_some() { "the counts of" } else { "the line numbers of" };
        self.notes.push(format!("{what} the hunk at line {header_line} were made out from its lines"));
        self.out.extend_from_slice(format!("@@ -{old_start},{old} +{new_start},{new} @@\n").as_bytes());
        for line in &self.lines[begin..end] {
            self.out.extend_from_slice(line);
        }
        self.at = end;
        // Blank lines between files are no part of either.
        while self.lines.get(self.at).is_some_and(|line| trim_end(line).is_empty()) {
            self.at += 1;
        }
        Ok(())
    }

    fn is_boundary(&self, at: usize) -> bool {
        self.lines[at].starts_with(b"diff --git ")
            || self.lines[at].starts_with(b"@@")
            || is_header(&self.lines, at)
    }

    /// Whether the counts end the hunk where no line that looks like content follows.
    fn counts_hold(&self, begin: usize, end: usize, old_count: usize, new_count: usize) -> bool {
        let (mut old, mut new) = (0, 0);
        for at in begin..end {
            if old == old_count && new == new_count {
                let rest = &self.lines[at..end];
                return !rest.iter().any(|line| matches!(line[0], b' ' | b'+' | b'-'));
            }
            let (from_old, from_new) = match self.lines[at][0] {
                b' ' | b'\n' => (1, 1),
                b'-' => (1, 0),
                b'+' => (0, 1),
                b'\\' => (0, 0),
                _ => return false,
            };
            (old, new) = (old + from_old, new + from_new);
        }
        old == old_count && new == new_count
    }

    fn count(&self, begin: usize, end: usize) -> Result<(usize, usize), MendError> {
        let (mut old, mut new) = (0, 0);
        for at in begin..end {
            let (from_old, from_new) = match self.lines[at][0] {
                b' ' | b'\n' => (1, 1),
                b'-' => (1, 0),
                b'+' => (0, 1),
                b'\\' => (0, 0),
                _ => {
                    let text = shown(trim_end(self.lines[at])).chars().take(80).collect();
                    return Err(MendError::Line { line: at + 1, text });
                }
            };
            (old, new) = (old + from_old, new + from_new);
        }
        Ok((old, new))
    }
}

/// The hunks with the line ends of the file, where the file has but one kind and the hunks another:
/// CRLF against LF, or a last line without a line end.
pub fn with_line_ends_of(old: &[u8], hunks: &[Hunk<'_>]) -> Option<(Vec<Hunk<'static>>, &'static str)> {
    let lines: Vec<&[u8]> = old.split_inclusive(|&b| b == b'\n').collect();
    let whole = old.iter().filter(|&&b| b == b'\n').count();
    let with_return = lines.iter().filter(|line| line.ends_with(b"\r\n")).count();
    let has_return = |text: &[u8]| text.ends_with(b"\r\n");
    let texts = || hunks.iter().flat_map(|hunk| &hunk.lines).map(|(_, text)| text.as_ref());
    if whole > 0 && with_return == whole && !texts().any(has_return) {
        let to_crlf = |text: &[u8]| match text.strip_suffix(b"\n") {
            Some(line) => [line, b"\r\n"].concat(),
            None => text.to_vec(),
        };
        return Some((converted(hunks, to_crlf), "the patch was given the CRLF line ends of the file"));
    }
    if whole > 0 && with_return == 0 && texts().filter(|text| text.ends_with(b"\n")).all(has_return) {
        let to_lf = |text: &[u8]| match text.strip_suffix(b"\r\n") {
            Some(line) => [line, b"\n"].concat(),
            None => text.to_vec(),
        };
        return Some((converted(hunks, to_lf), "the patch was given the LF line ends of the file"));
    }
    without_last_line_end(&lines, hunks)
}

fn converted(hunks: &[Hunk<'_>], convert: impl Fn(&[u8]) -> Vec<u8>) -> Vec<Hunk<'static>> {
    hunks
        .iter()
        .map(|hunk| Hunk {
            line: hunk.line,
            old_start: hunk.old_start,
            new_start: hunk.new_start,
            lines: hunk.lines.iter().map(|(mark, text)| (*mark, Cow::Owned(convert(text)))).collect(),
        })
        .collect()
}

/// Where the file's last line has no line end and the last hunk says it has: as the file has it.
fn without_last_line_end(lines: &[&[u8]], hunks: &[Hunk<'_>]) -> Option<(Vec<Hunk<'static>>, &'static str)> {
    let last = lines.last().filter(|line| !line.ends_with(b"\n"))?;
    let mut hunks = converted(hunks, <[u8]>::to_vec);
    let hunk = hunks.last_mut()?;
    let position = |of: Mark| hunk.lines.iter().rposition(|(mark, _)| *mark == of || *mark == Mark::Context);
    let (old, new) = (position(Mark::Remove)?, position(Mark::Add)?);
    if hunk.lines[old].1.strip_suffix(b"\n")? != *last {
        return None;
    }
    for at in [old, new] {
        if let Some(text) = hunk.lines[at].1.strip_suffix(b"\n") {
            hunk.lines[at].1 = Cow::Owned(text.to_vec());
        }
    }
    Some((hunks, "the last line was left without a line end, as it is in the file"))
}

#[cfg(test)]
mod tests;
