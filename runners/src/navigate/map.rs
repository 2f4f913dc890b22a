//! The repo map: the definitions that matter most for a failure, as source lines under their files, cut to a
//! budget of tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;

use super::budget::bytes_of;
use super::focus::Focus;
use super::gather::TreeTags;
use super::rank::Ranking;

/// Tokens of a map when nobody says.
const TOKENS: usize = 4_000;
const MAX_TOKENS: usize = 32_000;
/// Bytes that are kept for what was left out.
const CLOSING: usize = 600;
/// Endings and reasons that are named; the rest is counted.
const MAX_NAMED: usize = 12;
/// Definitions around a definition that are shown with it.
const MAX_AROUND: usize = 16;

/// What a map is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MapAsk {
    /// Files to begin at, beside those of the failures.
    pub files: Vec<String>,
    /// Names to begin at, beside those of the failures.
    pub names: Vec<String>,
    /// At most so many tokens; 4,000 when it is not said, never more than 32,000.
    pub tokens: Option<usize>,
}

/// A map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepoMap {
    pub text: String,
    /// Files and definitions that the text shows.
    pub files: usize,
    pub definitions: usize,
    /// All definitions of the tree.
    pub of_definitions: usize,
}

impl MapAsk {
    /// The failures' focus with what is asked for beside it.
    pub(super) fn focus(&self, failures: &Focus) -> Focus {
        let mut focus = failures.clone();
        self.files.iter().for_each(|file| focus.add_file(file, None));
        self.names.iter().for_each(|name| focus.add_name(name));
        focus
    }
}

/// Draws the map of a tree. `omitted` are the endings of files in no language that is read.
pub(super) fn draw(tags: &TreeTags, omitted: &[String], focus: &Focus, tokens: Option<usize>) -> RepoMap {
    let ranking = Ranking::of(tags, focus);
    let bytes = bytes_of(tokens.unwrap_or(TOKENS).min(MAX_TOKENS));
    let chosen = choose(tags, &ranking, bytes.saturating_sub(CLOSING));
    let mut text = String::new();
    for (file, places) in by_rank(&ranking, &chosen) {
        let _ = writeln!(text, "{}", tags.files[file].path);
        for place in places {
            text.push_str(&line(&ranking, place));
        }
    }
    let closing = closing(tags, omitted, ranking.definitions.len() - chosen.len());
    let room = bytes.saturating_sub(text.len()).min(CLOSING);
    text.push_str(&closing[..closing.floor_char_boundary(room)]);
    let files = chosen.iter().map(|place| ranking.file_of(*place)).collect::<BTreeSet<_>>().len();
    RepoMap { text, files, definitions: chosen.len(), of_definitions: ranking.definitions.len() }
}

/// The definitions with the highest scores, each with those around it, as many as fit.
fn choose(tags: &TreeTags, ranking: &Ranking<'_>, bytes: usize) -> BTreeSet<usize> {
    let mut order: Vec<usize> = (0..ranking.scores.len()).collect();
    order.sort_by(|left, right| {
        ranking.scores[*right].total_cmp(&ranking.scores[*left]).then(left.cmp(right))
    });
    let (mut chosen, mut files) = (BTreeSet::new(), BTreeSet::new());
    let mut spent = 0;
    for place in order {
        let file = ranking.file_of(place);
        let mut more: Vec<usize> = vec![place];
        more.extend(around(ranking, file, place));
        more.retain(|place| !chosen.contains(place));
        let lines: usize = more.iter().map(|place| line(ranking, *place).len()).sum();
        let head = if files.contains(&file) { 0 } else { tags.files[file].path.to_string().len() + 1 };
        if spent + lines + head > bytes {
            break;
        }
        spent += lines + head;
        files.insert(file);
        chosen.extend(more);
    }
    chosen
}

/// The definitions around one, the innermost first.
fn around(ranking: &Ranking<'_>, file: usize, place: usize) -> Vec<usize> {
    let begin = ranking.begins[file];
    let mut found = Vec::new();
    let mut place = place;
    while let Some(parent) = ranking.definitions[place].parent {
        let outer = begin + parent as usize;
        // What is around a definition begins before it; anything else is no tag of ours.
        if outer >= place || found.len() >= MAX_AROUND {
            break;
        }
        found.push(outer);
        place = outer;
    }
    found
}

fn line(ranking: &Ranking<'_>, place: usize) -> String {
    let tag = &ranking.definitions[place];
    let depth = around(ranking, ranking.file_of(place), place).len();
    format!("{:>5} {:indent$}{}\n", tag.line, "", tag.text, indent = 2 * depth)
}

/// The chosen definitions under their files, the file with the best of them first.
fn by_rank(ranking: &Ranking<'_>, chosen: &BTreeSet<usize>) -> Vec<(usize, Vec<usize>)> {
    let mut files: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for place in chosen {
        files.entry(ranking.file_of(*place)).or_default().push(*place);
    }
    let mut files: Vec<_> = files.into_iter().collect();
    let best = |places: &[usize]| places.iter().map(|place| ranking.scores[*place]).fold(0.0, f64::max);
    files.sort_by(|left, right| best(&right.1).total_cmp(&best(&left.1)).then(left.0.cmp(&right.0)));
    files
}

/// What the map does not show.
fn closing(tags: &TreeTags, omitted: &[String], definitions: usize) -> String {
    let mut text = String::new();
    if definitions > 0 {
        let _ = writeln!(text, "left out: {definitions} more definitions");
    }
    if !omitted.is_empty() {
        let named: Vec<_> = omitted.iter().take(MAX_NAMED).map(String::as_str).collect();
        let more = if omitted.len() > MAX_NAMED { ", and others" } else { "" };
        let _ = writeln!(text, "left out: files in no language that is read: {}{more}", named.join(", "));
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for skipped in &tags.skipped {
        *reasons.entry(skipped.why).or_default() += 1;
    }
    for (why, files) in reasons {
        let _ = writeln!(text, "left out: {files} files of which each {why}");
    }
    text
}

#[cfg(test)]
mod tests;
