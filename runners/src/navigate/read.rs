//! Reading a part of one file of a tree.

use serde::Deserialize;

use super::tools::ToolError;
use crate::workspace::{Mode, Tree, TreePath};

/// Lines when nobody says, and the most.
const LINES: u32 = 300;
const MAX_LINES: u32 = 1_000;
/// Bytes of an answer, and of one line of it.
const MAX_ANSWER: usize = 48 << 10;
const MAX_LINE: usize = 2_000;

/// Which part is read.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadAsk {
    /// Relative to the root of the repository.
    pub path: String,
    /// The first line, 1-based.
    pub line: Option<u32>,
    /// At most so many lines; 300 when it is not said, never more than 1,000.
    pub lines: Option<u32>,
}

/// A part of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileText {
    pub path: TreePath,
    /// The first line that was read, 1-based.
    pub line: u32,
    /// The lines, without what ends them.
    pub lines: Vec<String>,
    /// All lines of the file.
    pub of_lines: u32,
    /// What kept a line from being whole.
    pub cut: Option<&'static str>,
}

impl FileText {
    /// The answer as an agent reads it: each line with its number.
    pub fn text(&self) -> String {
        let numbered = (self.line..).zip(&self.lines).map(|(number, line)| format!("{number:>6}\t{line}\n"));
        let mut text: String = numbered.collect();
        let next = self.line as usize + self.lines.len();
        if next <= self.of_lines as usize {
            text.push_str(&format!("not whole: the file goes on at line {next} of {}\n", self.of_lines));
        }
        text.extend(self.cut.map(|why| format!("not whole: {why}\n")));
        text
    }
}

/// Reads a part of a file of `tree`.
pub(super) fn read(tree: &Tree, ask: &ReadAsk) -> Result<FileText, ToolError> {
    let path = path_of(&ask.path)?;
    let entry = tree.entry(&path).ok_or_else(|| ToolError::NoFile(path.to_string()))?;
    let content = match entry.mode {
        Mode::Regular | Mode::GroupWritable | Mode::Executable => tree.content(&path, entry),
        Mode::Symlink => {
            return Err(ToolError::refused(format!("{path} is a link, and links are not followed")));
        }
        Mode::Submodule => return Err(ToolError::refused(format!("{path} is another repository"))),
    };
    let content = content.map_err(|_| ToolError::refused(format!("{path} is not at hand")))?;
    if content[..content.len().min(8 << 10)].contains(&0) {
        return Err(ToolError::refused(format!("{path} is no text")));
    }
    let first = ask.line.unwrap_or(1).max(1);
    let most = ask.lines.unwrap_or(LINES).clamp(1, MAX_LINES);
    let mut text = FileText { path, line: first, lines: Vec::new(), of_lines: 0, cut: None };
    let mut bytes = 0;
    for (number, line) in (1..).zip(content.split_inclusive(|&byte| byte == b'\n')) {
        text.of_lines = number;
        let wanted = number >= first && number - first < most;
        if !wanted || bytes >= MAX_ANSWER {
            continue;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if line.len() > MAX_LINE {
            text.cut = Some("a line is longer than 2,000 bytes");
        }
        let line = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE)]).into_owned();
        bytes += line.len() + 8;
        text.lines.push(line);
    }
    if first > text.of_lines.max(1) {
        return Err(ToolError::refused(format!("{} has {} lines", text.path, text.of_lines)));
    }
    Ok(text)
}

/// A path as an agent writes it.
fn path_of(path: &str) -> Result<TreePath, ToolError> {
    let path = path.trim_start_matches("./");
    TreePath::parse(path).map_err(|refused| ToolError::refused(refused.to_string()))
}

#[cfg(test)]
mod tests;
