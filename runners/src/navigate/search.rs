//! Search by regular expression, with ripgrep's libraries, in the bytes of a tree.
//!
//! The expression comes from an agent and the bytes from a stranger: the expression is bounded in size, and
//! between two pieces of a file the clock is looked at. A link of the tree is no file, so none is followed.

use std::time::Duration;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::overrides::{Override, OverrideBuilder};
use serde::Deserialize;

use super::budget::Stop;
use super::tools::ToolError;
use crate::workspace::{Tree, TreePath};

/// The time of one search.
const TIME: Duration = Duration::from_secs(5);
/// Matches when nobody says, and the most.
const MATCHES: usize = 100;
const MAX_MATCHES: usize = 500;
/// Matches of one file: a word that stands on every line of one file must not hide the other files.
const MAX_IN_FILE: usize = 30;
/// Bytes of an answer, and of one line of it.
const MAX_ANSWER: usize = 48 << 10;
const MAX_LINE: usize = 300;
/// A larger file is not searched.
const MAX_FILE: usize = 4 << 20;
/// Bytes that are searched between two looks at the clock.
const PIECE: usize = 128 << 10;
const MAX_PATTERN: usize = 1_000;
const MAX_GLOBS: usize = 20;
/// Bytes of a compiled expression, and of the tables that are built of it as it runs.
const COMPILED: usize = 256 << 10;
const TABLES: usize = 4 << 20;

/// What is searched for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchAsk {
    /// A regular expression; lines are matched, one at a time.
    pub pattern: String,
    /// The pattern is plain text.
    pub literal: bool,
    pub ignore_case: bool,
    /// Globs of files and folders, as ripgrep takes them; one that begins with `!` leaves out.
    pub globs: Vec<String>,
    /// At most so many matches; 100 when it is not said, never more than 500.
    pub matches: Option<usize>,
}

/// One line that matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    pub path: TreePath,
    /// 1-based.
    pub line: u64,
    /// The line, cut.
    pub text: String,
}

/// What a search found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SearchFound {
    /// By path and line.
    pub found: Vec<Found>,
    /// Files that were searched.
    pub files: usize,
    /// What kept the answer from being whole.
    pub cut: Vec<&'static str>,
}

impl SearchFound {
    /// The answer as an agent reads it.
    pub fn text(&self) -> String {
        let lines = self.found.iter().map(|found| format!("{}:{}: {}\n", found.path, found.line, found.text));
        let mut text: String = lines.collect();
        if self.found.is_empty() {
            text.push_str(&format!("no match in {} files\n", self.files));
        }
        text.extend(self.cut.iter().map(|why| format!("not whole: {why}\n")));
        text
    }
}

/// Searches the files of a tree.
pub(super) fn search(tree: &Tree, ask: &SearchAsk) -> Result<SearchFound, ToolError> {
    search_until(tree, ask, Stop::in_time(TIME))
}

fn search_until(tree: &Tree, ask: &SearchAsk, stop: Stop<'_>) -> Result<SearchFound, ToolError> {
    let (matcher, globs) = (matcher(ask)?, Globs::of(&ask.globs)?);
    let mut searcher = SearcherBuilder::new().line_number(true).build();
    let mut collect = Collect {
        most: ask.matches.unwrap_or(MATCHES).clamp(1, MAX_MATCHES),
        bytes: 0,
        in_file: 0,
        before: 0,
        path: None,
        answer: SearchFound::default(),
    };
    for (path, entry) in tree.entries() {
        if !entry.mode.is_file() || !globs.take(path) {
            continue;
        }
        let Ok(content) = tree.content(path, entry) else {
            collect.cut("a file could not be read");
            continue;
        };
        if content.len() > MAX_FILE {
            collect.cut("a file over 4 MiB was not searched");
            continue;
        }
        // A NUL early on is how git, too, tells that a file is no text.
        if content[..content.len().min(8 << 10)].contains(&0) {
            continue;
        }
        collect.answer.files += 1;
        collect.begin(path);
        if !file(&mut searcher, &matcher, &content, stop, &mut collect) {
            break;
        }
    }
    Ok(collect.answer)
}

/// Searches one file; `false` when the search ends with it.
fn file(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    content: &[u8],
    stop: Stop<'_>,
    collect: &mut Collect,
) -> bool {
    let mut rest = content;
    while !rest.is_empty() {
        if stop.now() {
            collect.cut("the time of a search was spent");
            return false;
        }
        let piece = piece(rest);
        // The sink has no error of its own, and a slice is read without any.
        let _ = searcher.search_slice(matcher, piece, &mut *collect);
        collect.before += piece.iter().filter(|&&byte| byte == b'\n').count() as u64;
        if collect.is_full() {
            return false;
        }
        if collect.in_file >= MAX_IN_FILE {
            collect.cut("a file has more than 30 matches");
            return true;
        }
        rest = &rest[piece.len()..];
    }
    true
}

/// Whole lines, at least [`PIECE`] bytes where there are so many.
fn piece(rest: &[u8]) -> &[u8] {
    let end = match rest.get(PIECE..) {
        Some(after) => after.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| PIECE + at + 1),
        None => rest.len(),
    };
    &rest[..end]
}

fn matcher(ask: &SearchAsk) -> Result<RegexMatcher, ToolError> {
    if ask.pattern.is_empty() || ask.pattern.len() > MAX_PATTERN {
        return Err(ToolError::refused(format!("a pattern has 1 to {MAX_PATTERN} bytes")));
    }
    RegexMatcherBuilder::new()
        .fixed_strings(ask.literal)
        .case_insensitive(ask.ignore_case)
        .line_terminator(Some(b'\n'))
        .size_limit(COMPILED)
        .dfa_size_limit(TABLES)
        .nest_limit(50)
        .build(&ask.pattern)
        .map_err(|error| ToolError::refused(format!("the pattern cannot be used: {error}")))
}

/// Which files are searched.
struct Globs {
    wanted: Override,
    unwanted: Override,
}

impl Globs {
    fn of(globs: &[String]) -> Result<Self, ToolError> {
        if globs.len() > MAX_GLOBS || globs.iter().any(|glob| glob.len() > MAX_PATTERN) {
            return Err(ToolError::refused(format!("there are at most {MAX_GLOBS} globs")));
        }
        let (unwanted, wanted): (Vec<_>, Vec<_>) = globs.iter().partition(|glob| glob.starts_with('!'));
        let wanted = overrides(wanted.into_iter().map(String::as_str))?;
        let unwanted = overrides(unwanted.into_iter().map(|glob| &glob[1..]))?;
        Ok(Self { wanted, unwanted })
    }

    fn take(&self, path: &TreePath) -> bool {
        (self.wanted.is_empty() || names(&self.wanted, path)) && !names(&self.unwanted, path)
    }
}

fn overrides<'a>(globs: impl Iterator<Item = &'a str>) -> Result<Override, ToolError> {
    let refused = |error: ignore::Error| ToolError::refused(format!("a glob cannot be used: {error}"));
    // The root is a name that globs are relative to; no file of this host is looked at.
    let mut builder = OverrideBuilder::new("");
    for glob in globs {
        builder.add(glob).map_err(refused)?;
    }
    builder.build().map_err(refused)
}

/// Whether a glob names the file or a folder that holds it.
fn names(globs: &Override, path: &TreePath) -> bool {
    !globs.is_empty()
        && (globs.matched(path.as_os(), false).is_whitelist()
            || path.parents().any(|folder| globs.matched(folder.as_os(), true).is_whitelist()))
}

/// Takes matches up to the bounds.
struct Collect {
    most: usize,
    bytes: usize,
    in_file: usize,
    /// Lines of the file before the piece that is searched.
    before: u64,
    path: Option<TreePath>,
    answer: SearchFound,
}

impl Collect {
    fn begin(&mut self, path: &TreePath) {
        (self.in_file, self.before, self.path) = (0, 0, Some(path.clone()));
    }

    fn cut(&mut self, why: &'static str) {
        if !self.answer.cut.contains(&why) {
            self.answer.cut.push(why);
        }
    }

    fn is_full(&mut self) -> bool {
        let full = self.answer.found.len() >= self.most || self.bytes >= MAX_ANSWER;
        if full {
            self.cut("there may be more matches");
        }
        full
    }
}

impl Sink for &mut Collect {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let Some(path) = self.path.clone() else { return Ok(false) };
        let bytes = found.bytes();
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_LINE)]);
        let text: String =
            text.trim_end().chars().map(|next| if next.is_control() { ' ' } else { next }).collect();
        let line = self.before + found.line_number().unwrap_or(1);
        self.bytes += path.as_bytes().len() + text.len() + 10;
        self.in_file += 1;
        self.answer.found.push(Found { path, line, text });
        let full = self.answer.found.len() >= self.most || self.bytes >= MAX_ANSWER;
        Ok(!full && self.in_file < MAX_IN_FILE)
    }
}

#[cfg(test)]
mod tests;
