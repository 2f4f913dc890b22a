//! The hunks of a file's patch: as many lines as their headers promise, no more and no fewer.

use std::borrow::Cow;

use super::{Hunk, Mark, PatchError, Reader, trim_end};

impl<'p> Reader<'p> {
    pub(super) fn hunks(&mut self) -> Result<Vec<Hunk<'p>>, PatchError> {
        let mut hunks = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with(b"@@ -")) {
            hunks.push(self.hunk()?);
        }
        if self.peek().is_some_and(looks_like_content) && !self.at_plain_header() {
            return Err(
                self.error("the hunk goes on after as many lines as its header says; correct the counts")
            );
        }
        Ok(hunks)
    }

    fn hunk(&mut self) -> Result<Hunk<'p>, PatchError> {
        let line = self.at + 1;
        let ranges = parse_ranges(trim_end(self.peek().unwrap_or_default()))
            .ok_or_else(|| self.error("the hunk's header is not of the form `@@ -1,3 +1,4 @@`"))?;
        let Ranges { old_start, old_count, new_start, new_count } = ranges;
        let (mut old_left, mut new_left) = (old_count, new_count);
        self.at += 1;
        let mut lines: Vec<(Mark, Cow<'p, [u8]>)> = Vec::new();
        while old_left > 0 || new_left > 0 {
            let text = self.peek().ok_or_else(|| self.short(line, old_left, new_left))?;
            if !text.ends_with(b"\n") {
                return Err(self.error("the patch ends in the middle of a line; end it with a line end"));
            }
            let (mark, content) = match text[0] {
                b' ' => (Mark::Context, &text[1..]),
                // Some editors strip the blank of an empty context line.
                b'\n' => (Mark::Context, text),
                b'-' => (Mark::Remove, &text[1..]),
                b'+' => (Mark::Add, &text[1..]),
                b'\\' => {
                    self.no_newline(&mut lines)?;
                    continue;
                }
                _ => return Err(self.short(line, old_left, new_left)),
            };
            let (old, new) = match mark {
                Mark::Context => (1, 1),
                Mark::Remove => (1, 0),
                Mark::Add => (0, 1),
            };
            (old_left, new_left) = match (old_left.checked_sub(old), new_left.checked_sub(new)) {
                (Some(old_left), Some(new_left)) => (old_left, new_left),
                (None, _) | (_, None) => {
                    return Err(self.error("the hunk has other lines than its header says"));
                }
            };
            lines.push((mark, Cow::Borrowed(content)));
            self.at += 1;
        }
        if self.peek().is_some_and(|text| text.starts_with(b"\\ ")) {
            self.no_newline(&mut lines)?;
        }
        if lines.iter().all(|(mark, _)| *mark == Mark::Context) {
            return Err(PatchError { line, why: "the hunk changes nothing".to_owned() });
        }
        Ok(Hunk { line, old_start, new_start, lines })
    }

    fn short(&self, header: usize, old_left: usize, new_left: usize) -> PatchError {
        self.error(format!(
            "the hunk that begins at line {header} lacks {old_left} old and {new_left} new lines that its header promises"
        ))
    }

    /// Takes the line end from the last line, which the marker says the file has not.
    fn no_newline(&mut self, lines: &mut [(Mark, Cow<'p, [u8]>)]) -> Result<(), PatchError> {
        let text = self.peek().unwrap_or_default();
        let last = lines.last_mut();
        let stripped = last.as_ref().and_then(|(_, line)| match line {
            Cow::Borrowed(line) => line.strip_suffix(b"\n"),
            Cow::Owned(_) => None,
        });
        match (last, stripped) {
            (Some(last), Some(stripped)) if text.len() >= 12 && text.starts_with(b"\\ ") => {
                last.1 = Cow::Borrowed(stripped);
                self.at += 1;
                Ok(())
            }
            _ => Err(self.error("`\\ No newline at end of file` stands in the wrong place")),
        }
    }
}

/// Whether a line after a hunk looks as if it still belonged to it. A mail's signature does not.
fn looks_like_content(line: &[u8]) -> bool {
    matches!(line.first(), Some(b' ' | b'+' | b'-')) && !matches!(trim_end(line), b"-- " | b"--" | b"---")
}

/// The numbers of a hunk's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::edit) struct Ranges {
    pub old_start: usize,
    pub old_count: usize,
    pub new_start: usize,
    pub new_count: usize,
}

/// Reads `@@ -1,3 +1,4 @@`; what follows is a title for people.
pub(in crate::edit) fn parse_ranges(header: &[u8]) -> Option<Ranges> {
    let text = header.strip_prefix(b"@@ -")?;
    let space = text.iter().position(|&b| b == b' ')?;
    let (old_start, old_count) = range(&text[..space])?;
    let text = text[space..].strip_prefix(b" +")?;
    let space = text.iter().position(|&b| b == b' ')?;
    let (new_start, new_count) = range(&text[..space])?;
    text[space..].starts_with(b" @@").then_some(Ranges { old_start, old_count, new_start, new_count })
}

fn range(text: &[u8]) -> Option<(usize, usize)> {
    match text.iter().position(|&b| b == b',') {
        Some(comma) => Some((number(&text[..comma])?, number(&text[comma + 1..])?)),
        None => Some((number(text)?, 1)),
    }
}

pub(super) fn number(text: &[u8]) -> Option<usize> {
    let digits = !text.is_empty() && text.len() <= 9 && text.iter().all(u8::is_ascii_digit);
    if digits { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}
