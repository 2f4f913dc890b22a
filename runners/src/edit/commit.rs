//! Writes a changeset into a folder: every file of it, or none, whatever happens on the way.
//!
//! New files are written and synced in a staging folder beside the workspace, which no container sees.
//! A journal says what will be moved. Then names are moved, one system call each. A crash before the
//! journal is closed is undone by [`recover`]; after that, the change is complete.
//!
//! Nobody else may write to the workspace meanwhile: the caller has no container running on it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode as Bits, OFlags};
use rustix::io::Errno;

use super::changeset::{Change, Changeset, ChangesetError, Side};
use super::journal::{DONE, JOURNAL, Operation, PathText, Place, Stamp, Step};
use crate::workspace::folder::{Executable, Folder, FolderError, Found};
use crate::workspace::materialize::{owner_of, settle};
use crate::workspace::{Mode, TreePath};

/// Where a changeset is written.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub root: &'a Path,
    /// A folder outside of the root, on the same file system, that this change has for itself.
    pub staging: &'a Path,
    /// The user and group, as ids of this host, that new files shall belong to.
    pub owner: Option<(u32, u32)>,
}

/// What a recovery found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// No change was under way, or none of it had begun.
    Nothing,
    /// A change had begun; every file is as it was before.
    RolledBack,
    /// A change was complete; only its leavings were cleared.
    Complete,
}

/// A changeset was not written. Every file is as it was, unless `Broken` says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("{path} is not what the change was made for: {why}")]
    Drift { path: TreePath, why: &'static str },
    #[error("{staging} holds a change that did not end; recover it first")]
    Unfinished { staging: PathBuf },
    #[error("cannot {action} {folder}")]
    Staging { action: &'static str, folder: PathBuf, source: std::io::Error },
    #[error("{staging} is on another file system than {root}, so files cannot be moved whole between them")]
    FileSystems { staging: PathBuf, root: PathBuf },
    #[error("cannot change {path}")]
    At { path: TreePath, source: std::io::Error },
    #[error("the journal of a change cannot be used: {why}")]
    Journal { why: &'static str },
    /// Somebody else changed the workspace while the change was under way.
    #[error("{path} was moved by somebody else, so the change cannot be undone there")]
    Lost { path: TreePath },
    /// The change failed, and so did taking it back. The journal is still there.
    #[error("the change failed and could not be taken back ({undo}); run the recovery before anything else")]
    Broken { source: Box<CommitError>, undo: Box<CommitError> },
    #[error("the change stopped at {0}")]
    Stopped(&'static str),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Changeset(#[from] ChangesetError),
}

/// Whether a change goes on at a named step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    GoOn,
    /// End here as a crash would.
    Stop,
}

/// Writes the changeset. All files must be as its tree before says.
pub fn commit_changeset(target: &Target<'_>, changeset: &Changeset) -> Result<(), CommitError> {
    commit_watched(target, changeset, &mut |step| {
        jobs::fault::point(step);
        Next::GoOn
    })
}

/// As [`commit_changeset`], asking `watch` after each step whether to go on.
pub fn commit_watched(
    target: &Target<'_>,
    changeset: &Changeset,
    watch: &mut dyn FnMut(&'static str) -> Next,
) -> Result<(), CommitError> {
    let mut step = |name| match watch(name) {
        Next::GoOn => Ok(()),
        Next::Stop => Err(CommitError::Stopped(name)),
    };
    for change in &changeset.changes {
        change.check_kind()?;
    }
    let place = open(target)?;
    for name in [JOURNAL, DONE] {
        if place.staged_inode(name)?.is_some() {
            return Err(CommitError::Unfinished { staging: target.staging.to_owned() });
        }
    }
    place.clear_staging(&mut step)?;
    let mut before = Vec::new();
    for change in &changeset.changes {
        before.extend(check_before(&place.root, change)?);
    }
    let operations = stage(&place, changeset, &mut step)?;
    place.sync_staging()?;
    step("edit.staged")?;
    place.write_journal(&operations, &mut step)?;
    step("edit.journalled")?;
    match perform(&place, &operations, &before, &mut step) {
        Ok(()) => {}
        Err(stopped @ CommitError::Stopped(_)) => return Err(stopped),
        Err(source) => return Err(take_back(&place, &operations, source)),
    }
    step("edit.performed")?;
    place.mark_done()?;
    step("edit.done")?;
    place.clear_staging(&mut step)
}

/// Ends a change that a crash interrupted: takes it back, or clears its leavings if it was complete.
pub fn recover(target: &Target<'_>) -> Result<Recovery, CommitError> {
    recover_watched(target, &mut |step| {
        jobs::fault::point(step);
        Next::GoOn
    })
}

/// As [`recover`], asking `watch` after each step whether to go on.
pub fn recover_watched(
    target: &Target<'_>,
    watch: &mut dyn FnMut(&'static str) -> Next,
) -> Result<Recovery, CommitError> {
    let mut step = |name| match watch(name) {
        Next::GoOn => Ok(()),
        Next::Stop => Err(CommitError::Stopped(name)),
    };
    if !target.staging.exists() {
        return Ok(Recovery::Nothing);
    }
    let place = open(target)?;
    let recovery = match (place.read_journal()?, place.staged_inode(DONE)?) {
        (Some(operations), _) => {
            undo(&place, &operations, &mut step)?;
            Recovery::RolledBack
        }
        (None, Some(_)) => Recovery::Complete,
        (None, None) => Recovery::Nothing,
    };
    place.clear_staging(&mut step)?;
    Ok(recovery)
}

fn open(target: &Target<'_>) -> Result<Place, CommitError> {
    let staging = |action, source| CommitError::Staging { action, folder: target.staging.to_owned(), source };
    std::fs::create_dir_all(target.staging).map_err(|source| staging("make", source))?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(target.staging, private).map_err(|source| staging("close", source))?;
    let place = Place {
        root: Folder::open(target.root)?,
        staging: Folder::open(target.staging)?,
        owner: target.owner.map(owner_of),
    };
    let device = |folder: &Folder| {
        rustix::fs::fstat(folder).map(|stat| stat.st_dev).map_err(|errno| staging("look at", errno.into()))
    };
    if device(&place.root)? != device(&place.staging)? {
        return Err(CommitError::FileSystems {
            staging: target.staging.to_owned(),
            root: target.root.to_owned(),
        });
    }
    Ok(place)
}

/// What was looked at in a place, so that what is taken from there later can be told to be the same.
#[derive(Clone, Debug)]
struct Seen {
    path: TreePath,
    stamp: Stamp,
}

/// The path must be, byte for byte and by its mode, what the change says it was.
fn check_before(root: &Folder, change: &Change) -> Result<Option<Seen>, CommitError> {
    // The stamp is taken first: a write after it shows, whether before or after the bytes are read.
    let stamp = match change.before {
        Some(_) => Stamp::of(root, &change.path)?,
        None => None,
    };
    check_content(root, change)?;
    Ok(stamp.map(|stamp| Seen { path: change.path.clone(), stamp }))
}

fn check_content(root: &Folder, change: &Change) -> Result<(), CommitError> {
    let drift = |why| CommitError::Drift { path: change.path.clone(), why };
    let path = &change.path;
    match (&change.before, root.look(path)?) {
        (None, None) => Ok(()),
        (None, Some(Found::Folder)) => Ok(()),
        (None, Some(Found::File { .. } | Found::Link | Found::Special)) => {
            Err(drift("something is there already"))
        }
        (Some(_), None) => Err(drift("it is gone")),
        (Some(_), Some(Found::Folder | Found::Special)) => Err(drift("it is no file")),
        (Some(_), Some(Found::File { links, .. })) if links > 1 => {
            Err(drift("it is one file under several names"))
        }
        (Some(side), Some(Found::Link)) if side.mode == Mode::Symlink => {
            if *root.read_link(path)? == *side.content {
                Ok(())
            } else {
                Err(drift("the link leads elsewhere"))
            }
        }
        (Some(side), Some(Found::File { bytes, executable, .. })) if side.mode.is_file() => {
            if (executable == Executable::Yes) != (side.mode == Mode::Executable) {
                return Err(drift("its mode is another"));
            }
            let same = bytes == side.content.len() as u64 && root.read(path, bytes)?.0 == *side.content;
            if same { Ok(()) } else { Err(drift("its content is another")) }
        }
        (Some(_), Some(Found::File { .. } | Found::Link)) => {
            Err(drift("it is a file where a link was, or a link"))
        }
    }
}

/// Writes all new files into the staging folder; gives the operations that bring them in.
fn stage(place: &Place, changeset: &Changeset, step: Step<'_>) -> Result<Vec<Operation>, CommitError> {
    let mut operations = Vec::new();
    let removed: Vec<&Change> = changeset.changes.iter().filter(|change| change.after.is_none()).collect();
    for (number, change) in removed.iter().enumerate() {
        operations
            .push(Operation::Remove { path: PathText::new(&change.path), staged: format!("old-{number}") });
    }
    // The deepest folders first, so that one that is left empty goes with what it held.
    let emptied: BTreeSet<TreePath> = removed.iter().flat_map(|change| change.path.parents()).collect();
    let mut emptied: Vec<TreePath> = emptied.into_iter().collect();
    emptied.sort_by_key(|path| std::cmp::Reverse(path.depth()));
    for path in emptied {
        let permissions = permissions_of(&place.root, &path)?;
        operations.push(Operation::RemoveFolder { path: PathText::new(&path), permissions });
    }
    let written = changeset.changes.iter().filter_map(|change| Some((change, change.after.as_ref()?)));
    let mut made = BTreeSet::new();
    for (number, (change, side)) in written.enumerate() {
        let folders: Vec<TreePath> = change.path.parents().collect();
        for folder in folders {
            let there = place.root.look(&folder)? == Some(Found::Folder) && !goes(&operations, &folder);
            if !there && made.insert(folder.clone()) {
                operations.push(Operation::MakeFolder { path: PathText::new(&folder) });
            }
        }
        let staged = format!("new-{number}");
        let inode = write_staged(place, &change.path, &staged, side)?;
        step("edit.file-staged")?;
        let path = PathText::new(&change.path);
        operations.push(match change.before {
            Some(_) => Operation::Exchange { path, staged, inode },
            None => Operation::Create { path, staged, inode },
        });
    }
    Ok(operations)
}

/// Whether an operation may remove this folder.
fn goes(operations: &[Operation], folder: &TreePath) -> bool {
    let text = PathText::new(folder);
    operations.iter().any(|operation| match operation {
        Operation::RemoveFolder { path, .. } => *path == text,
        Operation::Remove { .. }
        | Operation::Exchange { .. }
        | Operation::Create { .. }
        | Operation::MakeFolder { .. } => false,
    })
}

fn permissions_of(root: &Folder, path: &TreePath) -> Result<u32, CommitError> {
    let failed = |errno: Errno| CommitError::At { path: path.clone(), source: errno.into() };
    let handle = root.below(path)?.ok_or_else(|| failed(Errno::NOENT))?;
    rustix::fs::fstat(handle).map(|stat| stat.st_mode & 0o777).map_err(failed)
}

/// Writes and syncs one new file or link in the staging folder; gives its inode.
fn write_staged(place: &Place, path: &TreePath, staged: &str, side: &Side) -> Result<u64, CommitError> {
    let failed = |source| CommitError::At { path: path.clone(), source };
    match side.mode {
        Mode::Symlink => {
            rustix::fs::symlinkat(&*side.content, &place.staging, staged)
                .map_err(|errno| failed(errno.into()))?;
            if let Some((user, group)) = place.owner {
                rustix::fs::chownat(
                    &place.staging,
                    staged,
                    Some(user),
                    Some(group),
                    AtFlags::SYMLINK_NOFOLLOW,
                )
                .map_err(|errno| failed(errno.into()))?;
            }
        }
        Mode::Regular | Mode::GroupWritable | Mode::Executable => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let handle = rustix::fs::openat(&place.staging, staged, flags, Bits::from_raw_mode(0o600))
                .map_err(|errno| failed(errno.into()))?;
            let mut file = File::from(handle);
            file.write_all(&side.content).map_err(failed)?;
            settle(&file, path, side.mode, place.owner)?;
            file.sync_all().map_err(failed)?;
        }
        Mode::Submodule => return Err(ChangesetError::Submodule { path: path.clone() }.into()),
    }
    place.staged_inode(staged)?.ok_or_else(|| failed(std::io::Error::from(Errno::NOENT)))
}

fn perform(
    place: &Place,
    operations: &[Operation],
    before: &[Seen],
    step: Step<'_>,
) -> Result<(), CommitError> {
    for operation in operations {
        place.perform(operation)?;
        step("edit.operation")?;
    }
    check_taken(place, operations, before)?;
    place.sync_folders(operations)
}

/// Somebody may have written to a file after it was looked at: then what was taken away is not what the
/// change replaces, and must come back.
fn check_taken(place: &Place, operations: &[Operation], before: &[Seen]) -> Result<(), CommitError> {
    for operation in operations {
        let Some((path, staged)) = operation.takes()? else { continue };
        let seen = before.iter().find(|seen| seen.path == path);
        if seen.is_none_or(|seen| place.stamp(staged).ok().flatten() != Some(seen.stamp)) {
            return Err(CommitError::Drift { path, why: "it was written to while the change was made" });
        }
    }
    Ok(())
}

fn undo(place: &Place, operations: &[Operation], step: Step<'_>) -> Result<(), CommitError> {
    for operation in operations.iter().rev() {
        place.undo(operation)?;
        step("edit.undone")?;
    }
    place.sync_folders(operations)?;
    place.sync_staging()
}

fn take_back(place: &Place, operations: &[Operation], source: CommitError) -> CommitError {
    let mut go_on = |_: &'static str| Ok(());
    match undo(place, operations, &mut go_on).and_then(|()| place.clear_staging(&mut go_on)) {
        Ok(()) => source,
        Err(undo) => CommitError::Broken { source: Box::new(source), undo: Box::new(undo) },
    }
}

#[cfg(test)]
mod tests;
