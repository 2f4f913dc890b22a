//! The difference of two trees as a changeset with a git patch.
//!
//! The patch names no renames: a moved file is a deletion and a creation, which every version of
//! `git apply` takes alike. Ids stand in full, as git demands for binary files.

use std::sync::Arc;

use imara_diff::{Algorithm, Diff, InternedInput};

use super::binary;
use super::changeset::{Change, Changeset, ChangesetError, Side};
use super::quote;
use crate::workspace::tree::blob_id;
use crate::workspace::{Entry, Mode, Tree, TreePath};

/// Unchanged lines around a change, as git shows them.
const CONTEXT: u32 = 3;
/// Git looks for a NUL byte in this many bytes to tell a binary file.
const BINARY_PROBE: usize = 8000;
/// Files with more lines than this are shown with the usual context where all of it was asked for.
const MAX_WHOLE_LINES: usize = 20_000;
/// Files with more lines than this are written as binary, which takes linear time.
const MAX_DIFF_LINES: usize = 1 << 20;

/// The change that leads from `base` to `after`.
pub fn diff(base: &Tree, after: &Tree) -> Result<Changeset, ChangesetError> {
    let mut changes = Vec::new();
    let mut patch = Vec::new();
    for path in changed_paths(base, after) {
        let before = side(base, path)?;
        let now = side(after, path)?;
        let (added, removed) = write_file(&mut patch, path, before.as_ref(), now.as_ref(), CONTEXT);
        changes.push(Change {
            path: path.clone(),
            before,
            after: now,
            added_lines: added,
            removed_lines: removed,
        });
    }
    Ok(Changeset {
        base: base.commit().cloned(),
        tree_before: base.id().clone(),
        tree_after: after.id().clone(),
        changes,
        patch,
    })
}

/// The change as a patch with all of each changed file around it, for what is to be read of it in its place.
pub fn with_whole_files(changeset: &Changeset) -> Vec<u8> {
    let mut patch = Vec::new();
    for change in &changeset.changes {
        let sides = (change.before.as_ref(), change.after.as_ref());
        let lines = |side: Option<&Side>| content(side).iter().filter(|&&b| b == b'\n').count();
        let short = lines(sides.0).max(lines(sides.1)) <= MAX_WHOLE_LINES;
        let context = if short { u32::MAX } else { CONTEXT };
        write_file(&mut patch, &change.path, sides.0, sides.1, context);
    }
    patch
}

/// Paths whose entries differ, in order.
fn changed_paths<'a>(base: &'a Tree, after: &'a Tree) -> Vec<&'a TreePath> {
    let differs = |path: &TreePath, entry: &Entry, other: &Tree| {
        !other.entry(path).is_some_and(|there| there.same_as(entry))
    };
    let mut paths: Vec<_> = base
        .entries()
        .iter()
        .filter(|(path, entry)| differs(path, entry, after))
        .map(|(path, _)| path)
        .collect();
    let new = after.entries().keys().filter(|path| base.entry(path).is_none());
    paths.extend(new);
    paths.sort();
    paths
}

fn side(tree: &Tree, path: &TreePath) -> Result<Option<Side>, ChangesetError> {
    let Some(entry) = tree.entry(path) else { return Ok(None) };
    let content: Arc<[u8]> = match entry.mode {
        Mode::Submodule => return Err(ChangesetError::Submodule { path: path.clone() }),
        Mode::Regular | Mode::GroupWritable | Mode::Executable | Mode::Symlink => {
            tree.content(path, entry)?
        }
    };
    Ok(Some(Side { mode: entry.mode, content }))
}

/// Writes one file's part of the patch; gives the lines added and removed.
fn write_file(
    out: &mut Vec<u8>,
    path: &TreePath,
    before: Option<&Side>,
    after: Option<&Side>,
    context: u32,
) -> (u64, u64) {
    match (before, after) {
        // A link that becomes a file is, for git, one that goes and one that comes.
        (Some(old), Some(new)) if old.mode.is_file() != new.mode.is_file() => {
            let (_, removed) = write_part(out, path, Some(old), None, context);
            let (added, _) = write_part(out, path, None, Some(new), context);
            (added, removed)
        }
        (before, after) => write_part(out, path, before, after, context),
    }
}

fn write_part(
    out: &mut Vec<u8>,
    path: &TreePath,
    before: Option<&Side>,
    after: Option<&Side>,
    context: u32,
) -> (u64, u64) {
    write_header(out, path, before, after);
    let (old, new) = (content(before), content(after));
    if old == new {
        return (0, 0);
    }
    let is_long = |bytes: &[u8]| bytes.iter().filter(|&&b| b == b'\n').count() > MAX_DIFF_LINES;
    if is_binary(old) || is_binary(new) || is_long(old) || is_long(new) {
        out.extend_from_slice(b"GIT binary patch\n");
        binary::write_literal(out, new);
        binary::write_literal(out, old);
        return (0, 0);
    }
    write_name(out, "--- ", "a/", before.map(|_| path));
    write_name(out, "+++ ", "b/", after.map(|_| path));
    write_hunks(out, old, new, context)
}

fn content(side: Option<&Side>) -> &[u8] {
    side.map_or(&[], |side| &side.content)
}

/// Whether git takes the bytes for binary.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(BINARY_PROBE)].contains(&0)
}

fn write_header(out: &mut Vec<u8>, path: &TreePath, before: Option<&Side>, after: Option<&Side>) {
    out.extend_from_slice(b"diff --git ");
    quote::write(out, "a/", path.as_bytes());
    out.push(b' ');
    quote::write(out, "b/", path.as_bytes());
    out.push(b'\n');
    let id =
        |side: Option<&Side>| side.map_or_else(|| "0".repeat(40), |side| blob_id(&side.content).to_string());
    let (old_id, new_id) = (id(before), id(after));
    let mut index_mode = String::new();
    match (before.map(|side| side.mode.octal()), after.map(|side| side.mode.octal())) {
        (None, Some(mode)) => out.extend_from_slice(format!("new file mode {mode}\n").as_bytes()),
        (Some(mode), None) => out.extend_from_slice(format!("deleted file mode {mode}\n").as_bytes()),
        (Some(old), Some(new)) if old != new => {
            out.extend_from_slice(format!("old mode {old}\nnew mode {new}\n").as_bytes());
        }
        (Some(mode), Some(_)) => index_mode = format!(" {mode}"),
        (None, None) => {}
    }
    if old_id != new_id {
        out.extend_from_slice(format!("index {old_id}..{new_id}{index_mode}\n").as_bytes());
    }
}

fn write_name(out: &mut Vec<u8>, lead: &str, prefix: &str, path: Option<&TreePath>) {
    out.extend_from_slice(lead.as_bytes());
    match path {
        None => out.extend_from_slice(b"/dev/null"),
        Some(path) => {
            quote::write(out, prefix, path.as_bytes());
            // Without the tab, what follows a space could be taken for a date.
            if path.as_bytes().contains(&b' ') {
                out.push(b'\t');
            }
        }
    }
    out.push(b'\n');
}

/// Writes all hunks of a text file; gives the lines added and removed.
fn write_hunks(out: &mut Vec<u8>, old: &[u8], new: &[u8], context: u32) -> (u64, u64) {
    let input =
        InternedInput::new(imara_diff::sources::byte_lines(old), imara_diff::sources::byte_lines(new));
    let mut difference = Diff::compute(Algorithm::Histogram, &input);
    difference.postprocess_lines(&input);
    let before: Vec<&[u8]> = old.split_inclusive(|&b| b == b'\n').collect();
    let after: Vec<&[u8]> = new.split_inclusive(|&b| b == b'\n').collect();
    let mut group: Vec<imara_diff::Hunk> = Vec::new();
    for hunk in difference.hunks() {
        if group.last().is_some_and(|last| hunk.before.start - last.before.end > context.saturating_mul(2)) {
            write_group(out, &group, &before, &after, context);
            group.clear();
        }
        group.push(hunk);
    }
    write_group(out, &group, &before, &after, context);
    (u64::from(difference.count_additions()), u64::from(difference.count_removals()))
}

/// Writes changes that share their context as one hunk.
fn write_group(
    out: &mut Vec<u8>,
    group: &[imara_diff::Hunk],
    before: &[&[u8]],
    after: &[&[u8]],
    context: u32,
) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let lead = context.min(first.before.start);
    let trail = context.min(before.len() as u32 - last.before.end);
    let old = first.before.start - lead..last.before.end + trail;
    let new = first.after.start - lead..last.after.end + trail;
    out.extend_from_slice(format!("@@ -{} +{} @@\n", range(&old), range(&new)).as_bytes());
    let mut position = old.start;
    for hunk in group {
        write_lines(out, b' ', &before[position as usize..hunk.before.start as usize]);
        write_lines(out, b'-', &before[hunk.before.start as usize..hunk.before.end as usize]);
        write_lines(out, b'+', &after[hunk.after.start as usize..hunk.after.end as usize]);
        position = hunk.before.end;
    }
    write_lines(out, b' ', &before[position as usize..old.end as usize]);
}

fn range(lines: &std::ops::Range<u32>) -> String {
    match lines.end - lines.start {
        // An empty side names the line before it.
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn write_lines(out: &mut Vec<u8>, mark: u8, lines: &[&[u8]]) {
    for line in lines {
        out.push(mark);
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}
