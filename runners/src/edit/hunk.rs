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
    let mut image: Vec<Line<'_>> =
        content.split_inclusive(|&b| b == b'\n').map(|text| Line { text, covered: Covered::No }).collect();
    let mut moved = Vec::new();
    for hunk in hunks {
        let old: Vec<&[u8]> = side(hunk, Mark::Add);
        let stated = hunk.new_start.saturating_sub(1);
        let found = find(&image, hunk, &old, stated, place)?;
        if found != stated {
            moved.push(Moved { line: hunk.line, stated: stated + 1, found: found + 1 });
        }
        let new = side(hunk, Mark::Remove).into_iter().map(|text| Line { text, covered: Covered::Yes });
        image.splice(found..found + old.len(), new);
    }
    let length = image.iter().map(|line| line.text.len()).sum();
    let mut out = Vec::with_capacity(length);
    image.iter().for_each(|line| out.extend_from_slice(line.text));
    Ok((out, moved))
}

/// The lines of one side: all that are not marked `without`.
fn side<'h>(hunk: &'h Hunk<'_>, without: Mark) -> Vec<&'h [u8]> {
    hunk.lines.iter().filter(|(mark, _)| *mark != without).map(|(_, text)| text.as_ref()).collect()
}

fn find(
    image: &[Line<'_>],
    hunk: &Hunk<'_>,
    old: &[&[u8]],
    stated: usize,
    place: Place,
) -> Result<usize, HunkError> {
    let fits = |at: usize| fits(image, old, at);
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
        (false, false) if stated <= last && fits(stated) => Some(stated),
        (false, false) => None,
    };
    // What must stand at the beginning or the end has one place, however far its header says it is.
    if let Some(at) = only.filter(|&at| fits(at)) {
        return Ok(at);
    }
    let reachable = |at: usize| at.abs_diff(stated) <= MAX_OFFSET;
    let anywhere = match place {
        Place::AsGit if at_beginning || at_end => return Err(no_match(image, hunk, old, stated)),
        Place::AsGit => false,
        Place::Anywhere => true,
    };
    // A hunk without any old line fits everywhere, so it has no place but a stated one.
    if old.is_empty() {
        return Err(no_match(image, hunk, old, stated));
    }
    let places: Vec<usize> =
        (0..=last).filter(|&at| (anywhere || reachable(at)) && fits(at)).take(MAX_PLACES).collect();
    match places[..] {
        [] => Err(no_match(image, hunk, old, stated)),
        [at] => Ok(at),
        _ => Err(HunkError::Ambiguous {
            line: hunk.line,
            places: places.iter().map(|at| (at + 1).to_string()).collect::<Vec<_>>().join(", "),
        }),
    }
}

fn fits(image: &[Line<'_>], old: &[&[u8]], at: usize) -> bool {
    let Some(window) = image.get(at..at + old.len()) else { return false };
    window.iter().zip(old).all(|(line, text)| line.text == *text && line.covered == Covered::No)
}

/// Says which line differs at the place that fits best near the stated one.
fn no_match(image: &[Line<'_>], hunk: &Hunk<'_>, old: &[&[u8]], stated: usize) -> HunkError {
    let matching = |at: usize| {
        let window = image.get(at..).unwrap_or_default();
        window.iter().zip(old).take_while(|(line, text)| line.text == **text).count()
    };
    let from = stated.saturating_sub(MAX_OFFSET);
    let to = (stated + MAX_OFFSET).min(image.len());
    // The first place of those that fit longest, the stated one before all others.
    let best = std::iter::once(stated)
        .chain(from..to)
        .map(|at| (matching(at), at))
        .fold((0, stated), |best, next| if next.0 > best.0 { next } else { best });
    let (matched, at) = best;
    let wanted = old.get(matched).map_or_else(|| "the end of the file".to_owned(), |text| excerpt(text));
    let there = image.get(at + matched).map_or_else(
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
        format!("line {} should be {wanted}, and {there}", at + matched + 1)
    };
    HunkError::NoMatch { line: hunk.line, why }
}

fn excerpt(text: &[u8]) -> String {
    let ending = if text.ends_with(b"\n") { "" } else { " without a line end" };
    let line = shown(text.strip_suffix(b"\n").unwrap_or(text)).chars().take(120).collect::<String>();
    format!("`{line}`{ending}")
}
