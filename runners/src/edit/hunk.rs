//! Puts hunks onto a file's lines: every context and removed line must be there, byte for byte.
//!
//! The rules of place are git's: a hunk whose old side begins at line 0 or 1 stands at the beginning,
//! one without trailing context at the end. A hunk that is not where its header says is taken only
//! where exactly one place in reach fits, and then it is told.

use super::patch::{Hunk, Mark};
use crate::workspace::path::shown;

/// How many lines a hunk may be away from where its header says.
pub const MAX_OFFSET: usize = 1000;
/// Places that an error names.
const MAX_PLACES: usize = 5;

/// Steps that placing a file's hunks may take for each line of file and patch, and without any.
const STEPS_A_LINE: usize = 512;
const FREE_STEPS: usize = 1 << 24;

/// How exactly a hunk's place must be what git demands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Git's rules.
    AsGit,
    /// Anywhere in the file, if only one place fits.
    Anywhere,
}

/// A hunk that stands elsewhere than its header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The hunk's line in the patch.
    pub line: usize,
    pub stated: usize,
    pub found: usize,
}

/// A hunk that does not fit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HunkError {
    #[error("the hunk at line {line} of the patch does not match: {why}")]
    NoMatch { line: usize, why: String },
    #[error(
        "the hunk at line {line} of the patch fits at lines {places}, and at none where its header says; add context lines"
    )]
    Ambiguous { line: usize, places: String },
    #[error(
        "the hunk at line {line} of the patch is too far from where its header says, after many that were; correct the line numbers, and put the hunks in order"
    )]
    TooFar { line: usize },
}

/// One line of the file as it is by now.
#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a [u8],
    /// A hunk covered it, so no other may.
    covered: Covered,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Covered {
    Yes,
    No,
}

/// Applies all hunks to `content`; gives the new content and the hunks that were moved.
pub fn apply(content: &[u8], hunks: &[Hunk<'_>], place: Place) -> Result<(Vec<u8>, Vec<Moved>), HunkError> {
    let mut image = Image::of(content);
    let patched: usize = hunks.iter().map(|hunk| hunk.lines.len()).sum();
    let steps = STEPS_A_LINE.saturating_mul(image.len() + patched).saturating_add(FREE_STEPS);
    let mut search = Search { place, steps };
    let mut moved = Vec::new();
    for hunk in hunks {
        let old: Vec<&[u8]> = side(hunk, Mark::Add);
        let stated = hunk.new_start.saturating_sub(1);
        let found = search.find(&image, hunk, &old, stated)?;
        if found != stated {
            moved.push(Moved { line: hunk.line, stated: stated + 1, found: found + 1 });
        }
        search.spend(image.move_to(found), hunk)?;
        let new = side(hunk, Mark::Remove).into_iter().map(|text| Line { text, covered: Covered::Yes });
        image.replace(old.len(), new);
    }
    Ok((image.bytes(), moved))
}

/// The lines of one side: all that are not marked `without`.
fn side<'h>(hunk: &'h Hunk<'_>, without: Mark) -> Vec<&'h [u8]> {
    hunk.lines.iter().filter(|(mark, _)| *mark != without).map(|(_, text)| text.as_ref()).collect()
}

/// The file's lines, parted at the last hunk: hunks that follow one another cost what lies between them.
struct Image<'a> {
    before: Vec<Line<'a>>,
    /// The lines from there on, the last one first.
    after: Vec<Line<'a>>,
}

impl<'a> Image<'a> {
    fn of(content: &'a [u8]) -> Self {
        let mut after: Vec<Line<'a>> = content
            .split_inclusive(|&b| b == b'\n')
            .map(|text| Line { text, covered: Covered::No })
            .collect();
        after.reverse();
        Self { before: Vec::new(), after }
    }

    fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }

    fn get(&self, at: usize) -> Option<&Line<'a>> {
        match at.checked_sub(self.before.len()) {
            None => self.before.get(at),
            Some(behind) => self.after.get(self.after.len().checked_sub(behind + 1)?),
        }
    }

    /// The lines from `at` on.
    fn from(&self, at: usize) -> impl Iterator<Item = &Line<'a>> {
        let behind = at.saturating_sub(self.before.len());
        let before = self.before.get(at..).unwrap_or_default();
        let after = self.after.get(..self.after.len().saturating_sub(behind)).unwrap_or_default();
        before.iter().chain(after.iter().rev())
    }

    /// Parts the lines at `at`; gives how many were moved for it.
    fn move_to(&mut self, at: usize) -> usize {
        let moved = at.abs_diff(self.before.len());
        if at < self.before.len() {
            self.after.extend(self.before.drain(at..).rev());
        } else {
            let keep = self.after.len().saturating_sub(moved);
            self.before.extend(self.after.drain(keep..).rev());
        }
        moved
    }

    /// Puts `new` in the place of the `old` lines behind the part.
    fn replace(&mut self, old: usize, new: impl Iterator<Item = Line<'a>>) {
        self.after.truncate(self.after.len().saturating_sub(old));
        self.before.extend(new);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.from(0).map(|line| line.text.len()).sum());
        self.from(0).for_each(|line| out.extend_from_slice(line.text));
        out
    }
}

/// Where hunks fit, as long as the search stays within what files and patches of their size need.
struct Search {
    place: Place,
    steps: usize,
}

impl Search {
    fn spend(&mut self, steps: usize, hunk: &Hunk<'_>) -> Result<(), HunkError> {
        self.steps = self.steps.checked_sub(steps).ok_or(HunkError::TooFar { line: hunk.line })?;
        Ok(())
    }

    fn find(
        &mut self,
        image: &Image<'_>,
        hunk: &Hunk<'_>,
        old: &[&[u8]],
        stated: usize,
    ) -> Result<usize, HunkError> {
        let Some(last) = image.len().checked_sub(old.len()) else {
            return Err(no_match(image, hunk, old, stated));
        };
        let at_end = hunk.lines.last().is_some_and(|(mark, _)| *mark != Mark::Context);
        let at_beginning = hunk.old_start <= 1;
        let only = match (at_beginning, at_end) {
            (true, true) if last == 0 => Some(0),
            (true, true) => None,
            (true, false) => Some(0),
            (false, true) => Some(last),
            (false, false) if stated <= last => Some(stated),
            (false, false) => None,
        };
        // What must stand at the beginning or the end has one place, however far its header says it is.
        if let Some(at) = only.filter(|&at| fits(image, old, at)) {
            return Ok(at);
        }
        let reach = match self.place {
            Place::AsGit if at_beginning || at_end => return Err(no_match(image, hunk, old, stated)),
            Place::AsGit => stated.saturating_sub(MAX_OFFSET)..=last.min(stated.saturating_add(MAX_OFFSET)),
            Place::Anywhere => 0..=last,
        };
        // A hunk without any old line fits everywhere, so it has no place but a stated one.
        if old.is_empty() {
            return Err(no_match(image, hunk, old, stated));
        }
        let mut places = Vec::new();
        for at in reach {
            let same = matching(image, old, at, Covered::No);
            self.spend(same + 1, hunk)?;
            if same == old.len() {
                places.push(at);
            }
            if places.len() == MAX_PLACES {
                break;
            }
        }
        match places[..] {
            [] => Err(no_match(image, hunk, old, stated)),
            [at] => Ok(at),
            _ => Err(HunkError::Ambiguous {
                line: hunk.line,
                places: places.iter().map(|at| (at + 1).to_string()).collect::<Vec<_>>().join(", "),
            }),
        }
    }
}

fn fits(image: &Image<'_>, old: &[&[u8]], at: usize) -> bool {
    matching(image, old, at, Covered::No) == old.len()
}

/// How many lines match from `at` on; those that a hunk covered too, if `at_most` says so.
fn matching(image: &Image<'_>, old: &[&[u8]], at: usize, at_most: Covered) -> usize {
    let counts = |line: &Line<'_>| at_most == Covered::Yes || line.covered == Covered::No;
    image.from(at).zip(old).take_while(|(line, text)| line.text == **text && counts(line)).count()
}

/// Says which line differs at the place that fits best near the stated one.
fn no_match(image: &Image<'_>, hunk: &Hunk<'_>, old: &[&[u8]], stated: usize) -> HunkError {
    let from = stated.saturating_sub(MAX_OFFSET);
    let to = stated.saturating_add(MAX_OFFSET).min(image.len());
    // The first place of those that fit longest, the stated one before all others.
    let best = std::iter::once(stated)
        .chain(from..to)
        .map(|at| (matching(image, old, at, Covered::Yes), at))
        .fold((0, stated), |best, next| if next.0 > best.0 { next } else { best });
    let (matched, at) = best;
    let wanted = old.get(matched).map_or_else(|| "the end of the file".to_owned(), |text| excerpt(text));
    let there = image.get(at.saturating_add(matched)).map_or_else(
        || "the file ends".to_owned(),
        |line| match line.covered {
            Covered::Yes => "there is a line that an earlier hunk already changed".to_owned(),
            Covered::No => format!("there is {}", excerpt(line.text)),
        },
    );
    let why = if matched == old.len() {
        "it must stand at the beginning or at the end of the file, by its line numbers and context; \
         show the unchanged lines around the change"
            .to_owned()
    } else {
        format!("line {} should be {wanted}, and {there}", at.saturating_add(matched).saturating_add(1))
    };
    HunkError::NoMatch { line: hunk.line, why }
}

fn excerpt(text: &[u8]) -> String {
    let ending = if text.ends_with(b"\n") { "" } else { " without a line end" };
    let line = shown(text.strip_suffix(b"\n").unwrap_or(text)).chars().take(120).collect::<String>();
    format!("`{line}`{ending}")
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::time::{Duration, Instant};

    use super::*;

    const LINES: usize = 200_000;

    fn numbered() -> Vec<u8> {
        (0..LINES).flat_map(|line| format!("{line}\n").into_bytes()).collect()
    }

    /// Puts two lines in the place of line `at`, between its neighbours.
    fn doubled(at: usize, stated: usize) -> Hunk<'static> {
        let text = |line: usize| Cow::Owned(format!("{line}\n").into_bytes());
        let lines = vec![
            (Mark::Context, text(at - 1)),
            (Mark::Remove, text(at)),
            (Mark::Add, Cow::Borrowed(&b"new\n"[..])),
            (Mark::Add, Cow::Borrowed(&b"new too\n"[..])),
            (Mark::Context, text(at + 1)),
        ];
        Hunk { line: 1, old_start: at, new_start: stated, lines }
    }

    fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
        let start = Instant::now();
        (work(), start.elapsed())
    }

    #[test]
    fn many_hunks_on_a_long_file_take_time_in_proportion() {
        let content = numbered();
        let hunks = |step: usize| -> Vec<Hunk<'static>> {
            (1..LINES / step).map(|n| doubled(n * step - 1, n * step - 1 + n - 1)).collect()
        };
        let of = |hunks: &[Hunk<'static>]| {
            let (done, time) = timed(|| apply(&content, hunks, Place::AsGit).unwrap());
            assert!(done.1.is_empty(), "{:?}", done.1[0]);
            let new = done.0.split(|&b| b == b'\n').filter(|line| *line == b"new").count();
            assert_eq!(new, hunks.len());
            time
        };
        let (few, many) = (hunks(400), hunks(4));
        let (few, many) = (of(&few), of(&many));
        // A hundred times the hunks: were every line behind a hunk moved for it, so would the time be.
        assert!(many < few * 30 + Duration::from_millis(500), "{few:?} and {many:?}");
    }

    #[test]
    fn hunks_that_jump_about_are_refused_before_they_take_long() {
        let content = numbered();
        let jump = |n: usize| if n.is_multiple_of(2) { 4 + 2 * n } else { LINES - 4 - 2 * n };
        let hunks: Vec<Hunk<'static>> = (0..40_000).map(|n| doubled(jump(n), 1)).collect();
        let (done, time) = timed(|| apply(&content, &hunks, Place::Anywhere));
        assert!(matches!(done, Err(HunkError::TooFar { .. })), "{:?}", done.map(|done| done.1.len()));
        assert!(time < Duration::from_secs(60), "{time:?}");
    }

    #[test]
    fn hunks_out_of_order_are_found() {
        let content = b"0\n1\n2\n3\n4\n5\n6\n7\n8\n".to_vec();
        let hunks = [doubled(6, 6), doubled(2, 2)];
        let (done, moved) = apply(&content, &hunks, Place::AsGit).unwrap();
        assert_eq!(done, b"0\n1\nnew\nnew too\n3\n4\n5\nnew\nnew too\n7\n8\n");
        assert!(moved.is_empty(), "{moved:?}");
    }
}
