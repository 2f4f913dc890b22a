//! A verified patch as suggested changes: each hunk of the git patch becomes lines of the tested commit
//! with what takes their place. A patch that makes, deletes, renames or binary-changes a file has no
//! such form.

use jobs::store::RunView;

use super::mask::Mask;
use crate::forge::{SuggestedEdit, Suggestion};
use crate::offer;

/// The patch as a review; `None` where it has no such form.
pub(super) fn of(view: &RunView, patch: &[u8], mask: &Mask) -> Option<Suggestion> {
    let offer = offer::verified(view).ok()?;
    let edits = edits(std::str::from_utf8(patch).ok()?)?;
    let seal: String = offer.seal.to_string().chars().take(12).collect();
    // A masked line would be another patch than the one that was verified.
    let shows_secret =
        edits.iter().filter_map(|edit| edit.text.as_deref()).any(|text| mask.apply(text) != text);
    if shows_secret {
        return None;
    }
    Some(Suggestion {
        key: format!("suggestion/{}", view.run.id),
        head: view.job().head.clone(),
        body: format!(
            "What was red on this commit is green with **all** of these changes; they were verified together in a sealed container (run `{}`, seal `{seal}`). Add them to one batch and commit them.",
            view.run.id
        ),
        edits,
    })
}

/// The edits of a git patch, in its order.
fn edits(patch: &str) -> Option<Vec<SuggestedEdit>> {
    let (mut edits, mut path, mut hunk) = (Vec::new(), None::<String>, None::<Hunk>);
    for line in patch.lines() {
        if let Some(open) = &mut hunk
            && !open.is_whole()
        {
            open.take(line)?;
            continue;
        }
        if let Some(whole) = hunk.take() {
            edits.extend(whole.edits(path.as_deref()?));
        }
        if line.starts_with("diff ") {
            path = None;
        } else if [
            "new file",
            "deleted file",
            "rename ",
            "copy ",
            "old mode",
            "new mode",
            "Binary files",
            "GIT binary",
        ]
        .iter()
        .any(|form| line.starts_with(form))
        {
            return None;
        } else if let Some(name) = line.strip_prefix("+++ ") {
            // A quoted name holds characters that are better read in the patch.
            path = Some(name.strip_prefix("b/")?.trim_end_matches('\t').to_owned());
        } else if line.starts_with("@@ ") {
            hunk = Some(Hunk::open(line)?);
        } else if line.starts_with('\\') {
            // The file's last line has no end, which a suggestion cannot say.
            return None;
        }
    }
    match hunk {
        Some(whole) if whole.is_whole() => edits.extend(whole.edits(path.as_deref()?)),
        Some(_) => return None,
        None => {}
    }
    (!edits.is_empty()).then_some(edits)
}

/// A hunk while it is read.
struct Hunk {
    /// The next line of the old file.
    at: u32,
    old_left: u32,
    new_left: u32,
    /// Lines in order: of the old file with their numbers, and of the new one.
    lines: Vec<Line>,
}

enum Line {
    Kept(u32, String),
    Removed(u32),
    Added(String),
}

impl Hunk {
    fn open(line: &str) -> Option<Self> {
        let mut parts = line.strip_prefix("@@ -")?.split(' ');
        let (at, old_left) = range(parts.next()?)?;
        let (_, new_left) = range(parts.next()?.strip_prefix('+')?)?;
        Some(Self { at, old_left, new_left, lines: Vec::new() })
    }

    const fn is_whole(&self) -> bool {
        self.old_left == 0 && self.new_left == 0
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let (mark, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        match mark {
            " " => {
                self.lines.push(Line::Kept(self.at, text.to_owned()));
                (self.at, self.old_left, self.new_left) =
                    (self.at + 1, self.old_left.checked_sub(1)?, self.new_left.checked_sub(1)?);
            }
            "-" => {
                self.lines.push(Line::Removed(self.at));
                (self.at, self.old_left) = (self.at + 1, self.old_left.checked_sub(1)?);
            }
            "+" => {
                self.lines.push(Line::Added(text.to_owned()));
                self.new_left = self.new_left.checked_sub(1)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// One edit for each run of changed lines; one that only adds takes a kept line along.
    fn edits(self, path: &str) -> Vec<SuggestedEdit> {
        let mut edits = Vec::new();
        let mut before: Option<(u32, String)> = None;
        let mut lines = self.lines.into_iter().peekable();
        while let Some(line) = lines.next() {
            let (mut removed, mut added) = (Vec::new(), Vec::new());
            match line {
                Line::Kept(at, text) => {
                    before = Some((at, text));
                    continue;
                }
                Line::Removed(at) => removed.push(at),
                Line::Added(text) => added.push(text),
            }
            while let Some(more) = lines.next_if(|line| !matches!(line, Line::Kept(..))) {
                match more {
                    Line::Removed(at) => removed.push(at),
                    Line::Added(text) => added.push(text),
                    Line::Kept(..) => {}
                }
            }
            let after = match lines.peek() {
                Some(Line::Kept(at, text)) => Some((*at, text.clone())),
                Some(Line::Removed(_) | Line::Added(_)) | None => None,
            };
            let range = match (removed.first(), removed.last()) {
                (Some(first), Some(last)) => Some((*first, *last)),
                _ => match (before.take(), after) {
                    (Some((at, text)), _) => {
                        added.insert(0, text);
                        Some((at, at))
                    }
                    (None, Some((at, text))) => {
                        added.push(text);
                        Some((at, at))
                    }
                    (None, None) => None,
                },
            };
            before = None;
            // A file that was empty has no line to which anything could be suggested; the patch says so
            // as a whole, since fewer edits than hunks would be another patch.
            let (first_line, last_line) = range.unwrap_or((0, 0));
            let text = (!added.is_empty()).then(|| added.join("\n"));
            edits.push(SuggestedEdit { path: path.to_owned(), first_line, last_line, text });
        }
        edits
    }
}

/// `first,length` of a hunk's head.
fn range(text: &str) -> Option<(u32, u32)> {
    let (first, length) = text.split_once(',').unwrap_or((text, "1"));
    Some((first.parse().ok()?, length.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(patch: &str) -> String {
        let Some(edits) = edits(patch) else { return "no suggestion".to_owned() };
        let line = |edit: &SuggestedEdit| {
            format!("{}:{}-{} {:?}", edit.path, edit.first_line, edit.last_line, edit.text)
        };
        edits.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    const HEAD: &str = "diff --git a/a.rs b/a.rs\nindex 1..2 100644\n--- a/a.rs\n+++ b/a.rs\n";

    #[test]
    fn each_run_of_changed_lines_is_one_edit_on_the_tested_commits_lines() {
        let patch = format!(
            "{HEAD}@@ -1,6 +1,6 @@\n one\n-two\n-three\n+2\n four\n five\n+5.5\n six\n@@ -20,3 +20,2 @@\n x\n-y\n z\n"
        );
        insta::assert_snapshot!(shown(&patch), @r#"
        a.rs:2-3 Some("2")
        a.rs:5-5 Some("five\n5.5")
        a.rs:21-21 None
        "#);
    }

    #[test]
    fn lines_that_are_added_on_top_take_the_line_below_along() {
        let patch = format!("{HEAD}@@ -1,2 +1,3 @@\n+zero\n one\n two\n");
        assert_eq!(shown(&patch), "a.rs:1-1 Some(\"zero\\none\")");
    }

    #[test]
    fn a_line_that_looks_like_a_header_is_a_line() {
        let patch = format!("{HEAD}@@ -1,2 +1,2 @@\n--- a/b\n+++ b/c\n same\n");
        assert_eq!(shown(&patch), "a.rs:1-1 Some(\"++ b/c\")");
    }

    #[test]
    fn what_a_suggestion_cannot_say_is_none() {
        for patch in [
            "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n"
                .to_owned(),
            "diff --git a/n b/n\ndeleted file mode 100644\n--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
                .to_owned(),
            format!("{HEAD}@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"),
            format!("{HEAD}@@ -1,9 +1,9 @@\n-a\n+b\n"),
            format!("{HEAD}@@ what\n"),
            String::new(),
        ] {
            assert_eq!(shown(&patch), "no suggestion", "{patch}");
        }
    }
}
