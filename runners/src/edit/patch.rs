//! Reads unified diffs, plain ones and git's, into file patches. Strict: what git calls corrupt is
//! refused here too, and so is what git would pass over in silence although it looks like content.

mod hunks;

use std::borrow::Cow;

use super::binary::{BinaryHunk, MAX_BINARY_BYTES, decode_line};
use super::quote;
use crate::workspace::path::{TreePath, shown};
use crate::workspace::{Mode, PathRefused};
use hunks::number;
pub(super) use hunks::parse_ranges;

/// The part of a patch that is about one file.
#[derive(Clone, Debug)]
pub struct FilePatch<'p> {
    /// Where it begins in the patch, counted from 1.
    pub line: usize,
    pub action: Action,
    pub old_mode: Option<Mode>,
    pub new_mode: Option<Mode>,
    pub body: Body<'p>,
}

/// What happens to the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Create {
        path: TreePath,
    },
    Delete {
        path: TreePath,
    },
    Modify {
        path: TreePath,
    },
    /// A plain diff of an empty old side: a new file, or an empty one that gets content.
    CreateOrFill {
        path: TreePath,
    },
    Rename {
        from: TreePath,
        to: TreePath,
    },
    Copy {
        from: TreePath,
        to: TreePath,
    },
}

impl Action {
    /// The path that the change leads to, or the one that goes.
    pub fn path(&self) -> &TreePath {
        match self {
            Action::Create { path }
            | Action::Delete { path }
            | Action::Modify { path }
            | Action::CreateOrFill { path } => path,
            Action::Rename { to, .. } | Action::Copy { to, .. } => to,
        }
    }
}

/// How the content changes.
#[derive(Clone, Debug)]
pub enum Body<'p> {
    /// Only names or modes change; or the file is empty.
    Nothing,
    Hunks(Vec<Hunk<'p>>),
    Binary {
        hunk: BinaryHunk,
        old_id: String,
        new_id: String,
    },
}

/// One hunk of a text patch.
#[derive(Clone, Debug)]
pub struct Hunk<'p> {
    /// Where its header stands in the patch, counted from 1.
    pub line: usize,
    pub old_start: usize,
    pub new_start: usize,
    pub lines: Vec<(Mark, Cow<'p, [u8]>)>,
}

/// What a line of a hunk is. The line's text holds its own line end, if it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    Context,
    Remove,
    Add,
}

/// A patch that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line} of the patch: {why}")]
pub struct PatchError {
    /// Counted from 1.
    pub line: usize,
    pub why: String,
}

/// Reads all file patches. Text around them is passed over, as git does.
pub fn parse(patch: &[u8]) -> Result<Vec<FilePatch<'_>>, PatchError> {
    let mut reader = Reader { lines: patch.split_inclusive(|&b| b == b'\n').collect(), at: 0 };
    let mut files = Vec::new();
    while let Some(line) = reader.peek() {
        if line.starts_with(b"diff --git ") {
            files.push(reader.git_file()?);
        } else if reader.at_plain_header() {
            files.push(reader.plain_file()?);
        } else if line.starts_with(b"@@ -") {
            return Err(reader.error("a hunk without the `--- a/file` and `+++ b/file` lines before it"));
        } else {
            reader.at += 1;
        }
    }
    if files.is_empty() {
        return Err(PatchError {
            line: 1,
            why: "no file header was found; write `--- a/path` and `+++ b/path` before the hunks".to_owned(),
        });
    }
    Ok(files)
}

struct Reader<'p> {
    lines: Vec<&'p [u8]>,
    at: usize,
}

/// What the lines between `diff --git` and the first hunk say.
#[derive(Default)]
struct Header {
    default_name: Option<Vec<u8>>,
    old_name: Option<Vec<u8>>,
    new_name: Option<Vec<u8>>,
    created: Option<()>,
    deleted: Option<()>,
    renamed: (Option<Vec<u8>>, Option<Vec<u8>>),
    copied: (Option<Vec<u8>>, Option<Vec<u8>>),
    old_mode: Option<Mode>,
    new_mode: Option<Mode>,
    ids: Option<(String, String)>,
    names_seen: (Option<Named>, Option<Named>),
}

/// What a `---` or `+++` line names.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Named {
    Nothing,
    File(Vec<u8>),
}

impl<'p> Reader<'p> {
    fn peek(&self) -> Option<&'p [u8]> {
        self.lines.get(self.at).copied()
    }

    fn error(&self, why: impl Into<String>) -> PatchError {
        PatchError { line: self.at + 1, why: why.into() }
    }

    fn path(&self, name: &[u8]) -> Result<TreePath, PatchError> {
        TreePath::parse(name).map_err(|refused: PathRefused| self.error(refused.to_string()))
    }

    /// `---`, `+++` and a hunk in a row.
    fn at_plain_header(&self) -> bool {
        let starts =
            |ahead: usize, with: &[u8]| self.lines.get(self.at + ahead).is_some_and(|l| l.starts_with(with));
        starts(0, b"--- ") && starts(1, b"+++ ") && starts(2, b"@@ -")
    }

    fn plain_file(&mut self) -> Result<FilePatch<'p>, PatchError> {
        let line = self.at + 1;
        let old = self.plain_name()?;
        let new = self.plain_name()?;
        let hunks = self.hunks()?;
        let removes = hunks.iter().any(|hunk| hunk.lines.iter().any(|(mark, _)| *mark != Mark::Add));
        let action = match (old, new) {
            (Named::Nothing, Named::File(name)) => Action::Create { path: self.path(&name)? },
            (Named::File(name), Named::Nothing) => Action::Delete { path: self.path(&name)? },
            (Named::File(old), Named::File(new)) if old == new => {
                let path = self.path(&new)?;
                if removes || hunks.len() > 1 {
                    Action::Modify { path }
                } else {
                    Action::CreateOrFill { path }
                }
            }
            (Named::File(old), Named::File(new)) => {
                return Err(PatchError {
                    line,
                    why: format!(
                        "the names {} and {} differ; a rename needs git's `rename from` and `rename to` lines",
                        shown(&old),
                        shown(&new)
                    ),
                });
            }
            (Named::Nothing, Named::Nothing) => {
                return Err(PatchError { line, why: "both names are /dev/null".to_owned() });
            }
        };
        self.check_sides(&action, &hunks)?;
        Ok(FilePatch { line, action, old_mode: None, new_mode: None, body: Body::Hunks(hunks) })
    }

    /// The name of a `--- ` or `+++ ` line, which is then passed.
    fn plain_name(&mut self) -> Result<Named, PatchError> {
        let line = self.peek().unwrap_or_default();
        let named = self.named(&line[4..])?;
        self.at += 1;
        Ok(named)
    }

    /// What follows `--- ` or `+++ `, up to a tab, without its first folder.
    fn named(&self, text: &[u8]) -> Result<Named, PatchError> {
        let text = trim_end(text);
        let name = if text.starts_with(b"\"") {
            quote::read(text).ok_or_else(|| self.error("the quoted name is damaged"))?.0
        } else {
            text.split(|&b| b == b'\t').next().unwrap_or_default().to_vec()
        };
        if name == b"/dev/null" {
            return Ok(Named::Nothing);
        }
        if name.starts_with(b"/") {
            return Err(self.error(format!("the name {} is absolute", shown(&name))));
        }
        match name.iter().position(|&b| b == b'/') {
            Some(slash) => Ok(Named::File(name[slash + 1..].to_vec())),
            None => Err(self.error(format!("the name {} lacks the leading `a/` or `b/`", shown(&name)))),
        }
    }

    fn git_file(&mut self) -> Result<FilePatch<'p>, PatchError> {
        let line = self.at + 1;
        let first = self.peek().unwrap_or_default();
        // Git takes a carriage return here for a part of the second name, which then is another.
        let names = first[11..].strip_suffix(b"\n").unwrap_or(&first[11..]);
        let mut header = Header { default_name: header_name(names), ..Header::default() };
        self.at += 1;
        let begun = self.at;
        while let Some(text) = self.peek() {
            // Git takes a last line without a line end for text.
            if !text.ends_with(b"\n") || !self.header_line(&mut header, trim_end(text))? {
                break;
            }
            self.at += 1;
        }
        let body = self.body(&header)?;
        if self.at == begun {
            // Git takes a lone first line for text, but remembers its name and stumbles over what follows.
            return Err(PatchError {
                line,
                why: "nothing of this file follows its `diff --git` line".to_owned(),
            });
        }
        let action = self.action(&header, line)?;
        let changes_mode = match (header.old_mode, header.new_mode) {
            (Some(old), Some(new)) => old != new,
            (Some(_) | None, None) | (None, Some(_)) => false,
        };
        match (&action, &body) {
            (Action::Modify { .. }, Body::Nothing) if !changes_mode => {
                return Err(PatchError { line, why: "this file has no hunk and no other change".to_owned() });
            }
            (action, Body::Hunks(hunks)) => self.check_sides(action, hunks)?,
            (_, Body::Nothing | Body::Binary { .. }) => {}
        }
        Ok(FilePatch { line, action, old_mode: header.old_mode, new_mode: header.new_mode, body })
    }

    /// Reads one line of git's extended header; false at the line after it.
    fn header_line(&self, header: &mut Header, text: &[u8]) -> Result<bool, PatchError> {
        let after = |with: &str| text.strip_prefix(with.as_bytes());
        // What the names mean depends on the lines before them, so they come last, the old one first.
        let named = header.names_seen.0.is_some() || header.names_seen.1.is_some();
        let is_second = header.names_seen.1.is_none() && after("+++ ").is_some();
        if (named && !is_second && is_header_line(text)) || (!named && after("+++ ").is_some()) {
            return Err(self.error("the header's last lines must be `---` and `+++`, in this order"));
        }
        if let Some(mode) = after("old mode ") {
            header.old_mode = Some(self.mode(mode)?);
        } else if let Some(mode) = after("new mode ") {
            header.new_mode = Some(self.mode(mode)?);
        } else if let Some(mode) = after("deleted file mode ") {
            (header.deleted, header.old_mode) = (Some(()), Some(self.mode(mode)?));
        } else if let Some(mode) = after("new file mode ") {
            (header.created, header.new_mode) = (Some(()), Some(self.mode(mode)?));
        } else if let Some(name) = after("rename from ") {
            header.renamed.0 = Some(self.whole_name(name)?);
        } else if let Some(name) = after("rename to ") {
            header.renamed.1 = Some(self.whole_name(name)?);
        } else if let Some(name) = after("copy from ") {
            header.copied.0 = Some(self.whole_name(name)?);
        } else if let Some(name) = after("copy to ") {
            header.copied.1 = Some(self.whole_name(name)?);
        } else if after("similarity index ").is_some() || after("dissimilarity index ").is_some() {
        } else if let Some(ids) = after("index ") {
            self.ids(header, ids)?;
        } else if let Some(name) = after("--- ") {
            let named = self.named(name)?;
            if let Named::File(name) = &named {
                header.old_name = Some(name.clone());
            }
            header.names_seen.0 = Some(named);
        } else if let Some(name) = after("+++ ") {
            let named = self.named(name)?;
            if let Named::File(name) = &named {
                header.new_name = Some(name.clone());
            }
            header.names_seen.1 = Some(named);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn mode(&self, text: &[u8]) -> Result<Mode, PatchError> {
        match text {
            b"100644" => Ok(Mode::Regular),
            b"100664" => Ok(Mode::GroupWritable),
            b"100755" => Ok(Mode::Executable),
            b"120000" => Ok(Mode::Symlink),
            b"160000" => Err(self.error("a submodule cannot be changed")),
            _ => Err(self.error(format!("the mode {} is none of 100644, 100755 and 120000", shown(text)))),
        }
    }

    fn ids(&self, header: &mut Header, text: &[u8]) -> Result<(), PatchError> {
        let text = std::str::from_utf8(text).map_err(|_| self.error("the index line is damaged"))?;
        let (ids, mode) = text.split_once(' ').map_or((text, None), |(ids, mode)| (ids, Some(mode)));
        let (old, new) = ids.split_once("..").ok_or_else(|| self.error("the index line is damaged"))?;
        header.ids = Some((old.to_owned(), new.to_owned()));
        if let Some(mode) = mode {
            header.old_mode = Some(self.mode(mode.as_bytes())?);
        }
        Ok(())
    }

    /// A name that stands without `a/` or `b/`.
    fn whole_name(&self, text: &[u8]) -> Result<Vec<u8>, PatchError> {
        if text.starts_with(b"\"") {
            return Ok(quote::read(text).ok_or_else(|| self.error("the quoted name is damaged"))?.0);
        }
        Ok(text.to_vec())
    }

    /// What the header as a whole says, if its lines agree.
    fn action(&self, header: &Header, line: usize) -> Result<Action, PatchError> {
        let error = |why: &str| PatchError { line, why: why.to_owned() };
        let kinds = usize::from(header.created.is_some())
            + usize::from(header.deleted.is_some())
            + usize::from(header.renamed != (None, None))
            + usize::from(header.copied != (None, None));
        if kinds > 1 {
            return Err(error("the header says more than one of new, deleted, renamed and copied"));
        }
        for (pair, copies) in [(&header.renamed, false), (&header.copied, true)] {
            if let (Some(from), Some(to)) = pair {
                let matches = header.old_name.as_ref().is_none_or(|name| name == from)
                    && header.new_name.as_ref().is_none_or(|name| name == to);
                if !matches
                    || header.names_seen.0 == Some(Named::Nothing)
                    || header.names_seen.1 == Some(Named::Nothing)
                {
                    return Err(error(
                        "the `---` and `+++` lines name other files than the `from` and `to` lines",
                    ));
                }
                let (from, to) = (self.path(from)?, self.path(to)?);
                return Ok(if copies { Action::Copy { from, to } } else { Action::Rename { from, to } });
            }
            if *pair != (None, None) {
                return Err(error("a `from` line needs its `to` line"));
            }
        }
        self.action_of_one_name(header, line)
    }

    fn action_of_one_name(&self, header: &Header, line: usize) -> Result<Action, PatchError> {
        let error = |why: &str| PatchError { line, why: why.to_owned() };
        let known = [&header.old_name, &header.new_name, &header.default_name];
        let mut known = known.into_iter().flatten();
        let name = known.next().ok_or_else(|| error("the header names no file that can be told for sure"))?;
        if known.any(|other| other != name) {
            return Err(error("the header's lines name different files"));
        }
        let path = self.path(name)?;
        let nothing =
            (header.names_seen.0 == Some(Named::Nothing), header.names_seen.1 == Some(Named::Nothing));
        let (shows_old, shows_new) = (
            matches!(header.names_seen.0, Some(Named::File(_))),
            matches!(header.names_seen.1, Some(Named::File(_))),
        );
        match (header.created, header.deleted) {
            (Some(()), _) if !shows_old && !nothing.1 => Ok(Action::Create { path }),
            (Some(()), _) => Err(error("a new file needs `--- /dev/null`")),
            (None, Some(())) if !shows_new && !nothing.0 => Ok(Action::Delete { path }),
            (None, Some(())) => Err(error("a deleted file needs `+++ /dev/null`")),
            (None, None) if nothing.0 => Err(error("`--- /dev/null` needs the line `new file mode 100644`")),
            (None, None) if nothing.1 => {
                Err(error("`+++ /dev/null` needs the line `deleted file mode 100644`"))
            }
            (None, None) => Ok(Action::Modify { path }),
        }
    }

    fn body(&mut self, header: &Header) -> Result<Body<'p>, PatchError> {
        let Some(text) = self.peek() else { return Ok(Body::Nothing) };
        if text.starts_with(b"@@ -") {
            if header.names_seen.0.is_none() || header.names_seen.1.is_none() {
                return Err(self.error("a hunk needs the `---` and `+++` lines before it"));
            }
            return Ok(Body::Hunks(self.hunks()?));
        }
        if trim_end(text) == b"GIT binary patch" {
            self.at += 1;
            return self.binary(header);
        }
        if text.starts_with(b"Binary files ") {
            return Err(
                self.error("the binary content is not in the patch; make it with `git diff --binary`")
            );
        }
        Ok(Body::Nothing)
    }

    fn binary(&mut self, header: &Header) -> Result<Body<'p>, PatchError> {
        let full = |id: &str| id.len() == 40 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let (old_id, new_id) = match &header.ids {
            Some((old, new)) if full(old) && full(new) => (old.clone(), new.clone()),
            Some(_) | None => return Err(self.error("a binary patch needs an index line with full ids")),
        };
        let hunk =
            self.binary_hunk()?.ok_or_else(|| self.error("a binary patch needs `literal` or `delta`"))?;
        // The way back is read, so that damage in it shows, and not used.
        if let Some(back) = self.binary_hunk()? {
            back.check(MAX_BINARY_BYTES).map_err(|why| self.error(why.to_string()))?;
        }
        Ok(Body::Binary { hunk, old_id, new_id })
    }

    fn binary_hunk(&mut self) -> Result<Option<BinaryHunk>, PatchError> {
        let Some(text) = self.peek().map(trim_end) else { return Ok(None) };
        let size_of = |with: &str| text.strip_prefix(with.as_bytes());
        let (size, is_delta) = match (size_of("literal "), size_of("delta ")) {
            (Some(size), _) => (size, false),
            (None, Some(size)) => (size, true),
            (None, None) => return Ok(None),
        };
        let size = number(size).ok_or_else(|| self.error("the size of the binary data is no number"))?;
        self.at += 1;
        let mut stream = Vec::new();
        loop {
            let line = self.peek().ok_or_else(|| self.error("the binary data has no end"))?;
            let Some(line) = line.strip_suffix(b"\n") else {
                return Err(self.error("the binary data is cut off"));
            };
            if line.is_empty() {
                self.at += 1;
                break;
            }
            decode_line(&mut stream, line).map_err(|why| self.error(why.to_string()))?;
            self.at += 1;
        }
        Ok(Some(if is_delta {
            BinaryHunk::Delta { size, stream }
        } else {
            BinaryHunk::Literal { size, stream }
        }))
    }

    /// New files have no old lines, and deleted ones no new lines.
    fn check_sides(&self, action: &Action, hunks: &[Hunk<'p>]) -> Result<(), PatchError> {
        let has = |wanted: Mark| {
            hunks
                .iter()
                .find(|hunk| hunk.lines.iter().any(|(mark, _)| *mark == wanted || *mark == Mark::Context))
        };
        let bad = match action {
            Action::Create { .. } => {
                has(Mark::Remove).map(|hunk| (hunk.line, "a new file cannot have old lines"))
            }
            Action::Delete { .. } => {
                has(Mark::Add).map(|hunk| (hunk.line, "a deleted file cannot keep lines"))
            }
            Action::Modify { .. }
            | Action::CreateOrFill { .. }
            | Action::Rename { .. }
            | Action::Copy { .. } => None,
        };
        bad.map_or(Ok(()), |(line, why)| Err(PatchError { line, why: why.to_owned() }))
    }
}

/// Whether git's extended header may hold such a line.
fn is_header_line(text: &[u8]) -> bool {
    const STARTS: [&str; 14] = [
        "old mode ",
        "new mode ",
        "deleted file mode ",
        "new file mode ",
        "rename from ",
        "rename to ",
        "copy from ",
        "copy to ",
        "similarity index ",
        "dissimilarity index ",
        "index ",
        "--- ",
        "+++ ",
        "GIT binary patch",
    ];
    STARTS.iter().any(|start| text.starts_with(start.as_bytes()))
}

/// Without the line end.
pub(super) fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The name in `a/name b/name`, where both are the same.
fn header_name(text: &[u8]) -> Option<Vec<u8>> {
    let strip = |name: &[u8]| name.iter().position(|&b| b == b'/').map(|slash| name[slash + 1..].to_vec());
    if text.starts_with(b"\"") {
        let (first, rest) = quote::read(text)?;
        let rest = rest.strip_prefix(b" ")?;
        let second = if rest.starts_with(b"\"") { quote::read(rest)?.0 } else { rest.to_vec() };
        let (first, second) = (strip(&first)?, strip(&second)?);
        return (first == second).then_some(first);
    }
    if text.ends_with(b"\"") {
        let begin = text.windows(2).position(|pair| pair == b" \"")?;
        let (first, second) = (strip(&text[..begin])?, strip(&quote::read(&text[begin + 1..])?.0)?);
        return (first == second).then_some(first);
    }
    let spaces = text.iter().enumerate().filter(|(_, b)| **b == b' ').map(|(at, _)| at);
    spaces.map(|at| (strip(&text[..at]), strip(&text[at + 1..]))).find_map(|pair| match pair {
        (Some(first), Some(second)) if first == second => Some(first),
        (Some(_) | None, Some(_) | None) => None,
    })
}

#[cfg(test)]
mod tests;
