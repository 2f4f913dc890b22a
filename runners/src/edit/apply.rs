//! Applies a patch to a tree in memory: all of it, or nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::binary::{BinaryError, MAX_BINARY_BYTES};
use super::changeset::{Changeset, ChangesetError, Side};
use super::diff::diff;
use super::hunk::{self, HunkError, Place};
use super::mend;
use super::overlay::Overlay;
use super::patch::{self, Action, Body, FilePatch, Hunk, PatchError};
use crate::workspace::tree::blob_id;
use crate::workspace::{Mode, Tree, TreeError, TreePath};

/// The bytes of a link's target and its end that Linux takes.
const MAX_TARGET: usize = 4096;

/// A patch that fitted.
#[derive(Clone, Debug)]
pub struct Applied {
    pub changeset: Changeset,
    pub tree: Tree,
    /// What was not exactly as the patch says, in sentences for people and models.
    pub notes: Vec<String>,
}

/// A patch that did not fit. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Patch(#[from] PatchError),
    #[error("{path}: {source}")]
    Hunk { path: TreePath, source: HunkError },
    #[error("{path}: {source}")]
    Binary { path: TreePath, source: BinaryError },
    #[error("{path} is not in the repository; its path is written from the root")]
    Absent { path: TreePath },
    #[error("{path} is there already, so the patch cannot make it; change it, or delete it first")]
    Exists { path: TreePath },
    #[error("{path} is deleted by the patch but would keep {bytes} bytes; remove every line")]
    NotEmptied { path: TreePath, bytes: usize },
    #[error("{path} is a {found}, and the patch takes it for a {expected}")]
    Kind { path: TreePath, found: &'static str, expected: &'static str },
    #[error("{path} would be a link whose target is empty, too long or not one text")]
    LinkTarget { path: TreePath },
    #[error("{path}: the binary patch was made from, or gives, other bytes than it says")]
    BinaryIds { path: TreePath },
    #[error("{path} is touched twice in ways that depend on their order; write one change for it")]
    Twice { path: TreePath },
    #[error("the patch cannot be read, even after the usual damage was mended: {0}")]
    Mend(#[from] mend::MendError),
    #[error("the patch changes nothing")]
    Nothing,
    #[error(transparent)]
    Changeset(#[from] ChangesetError),
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// Applies a patch as it stands. What this takes, `git apply` takes too.
pub fn apply_patch(patch: &[u8], tree: &Tree) -> Result<Applied, ApplyError> {
    let files = patch::parse(patch)?;
    apply_files(&files, tree, Place::AsGit, Vec::new())
}

/// Applies a patch that a model wrote: as it stands, or else with its usual damage mended where only
/// one reading fits. What was mended is told in the notes.
pub fn apply_proposal(text: &[u8], tree: &Tree) -> Result<Applied, ApplyError> {
    let strict = match apply_patch(text, tree) {
        Ok(applied) => return Ok(applied),
        Err(error) => error,
    };
    let mended = mend::mend(text, tree)?;
    if mended.notes.is_empty() {
        // Nothing was damaged but the place of a hunk, if anything.
        return match patch::parse(text).map(|files| apply_files(&files, tree, Place::Anywhere, Vec::new())) {
            Ok(Ok(applied)) => Ok(applied),
            Ok(Err(_)) | Err(_) => Err(strict),
        };
    }
    let files = patch::parse(&mended.patch)?;
    apply_files(&files, tree, Place::Anywhere, mended.notes)
}

fn apply_files(
    files: &[FilePatch<'_>],
    tree: &Tree,
    place: Place,
    notes: Vec<String>,
) -> Result<Applied, ApplyError> {
    let going = files.iter().filter_map(|file| match &file.action {
        Action::Delete { path } | Action::Rename { from: path, .. } => Some(path.clone()),
        Action::Create { .. } | Action::Modify { .. } | Action::CreateOrFill { .. } | Action::Copy { .. } => {
            None
        }
    });
    let mut work = Work { overlay: Overlay::new(tree), going: going.collect(), place, notes };
    for file in files {
        work.file(file)?;
    }
    let Work { overlay, notes, .. } = work;
    let after = overlay.finish()?;
    let changeset = diff(tree, &after)?;
    if changeset.is_empty() {
        return Err(ApplyError::Nothing);
    }
    for change in &changeset.changes {
        check_link(tree, &change.path)?;
    }
    Ok(Applied { changeset, tree: after, notes })
}

/// A name below a link would be written through it.
fn check_link(tree: &Tree, path: &TreePath) -> Result<(), ApplyError> {
    let through = path.parents().find(|folder| {
        tree.entry(folder).is_some_and(|entry| matches!(entry.mode, Mode::Symlink | Mode::Submodule))
    });
    match through {
        Some(folder) => {
            Err(ApplyError::Kind { path: folder, found: "link or submodule", expected: "folder" })
        }
        None => Ok(()),
    }
}

struct Work<'a> {
    overlay: Overlay<'a>,
    /// Paths that some part of the patch takes away, so that another may use their names.
    going: BTreeSet<TreePath>,
    place: Place,
    notes: Vec<String>,
}

impl Work<'_> {
    fn file(&mut self, file: &FilePatch<'_>) -> Result<(), ApplyError> {
        match &file.action {
            Action::Create { path } => self.create(file, path),
            Action::CreateOrFill { path } if self.overlay.read(path)?.is_none() => self.create(file, path),
            Action::Delete { path } => self.delete(file, path),
            Action::Modify { path } | Action::CreateOrFill { path } => {
                let old = self.present(self.overlay.read(path)?, path)?;
                let side = self.changed(file, path, &old)?;
                self.overlay.write(path.clone(), side);
                Ok(())
            }
            Action::Rename { from, to } => {
                if let Some(None) = self.overlay.touched(from) {
                    return Err(ApplyError::Twice { path: from.clone() });
                }
                let side = self.moved(file, from, to)?;
                match self.overlay.touched(from) {
                    // Another file already came to the name that this one leaves.
                    Some(Some(_)) => {}
                    Some(None) | None => self.overlay.remove(from.clone()),
                }
                self.overlay.write(to.clone(), side);
                Ok(())
            }
            Action::Copy { from, to } => {
                let side = self.moved(file, from, to)?;
                self.overlay.write(to.clone(), side);
                Ok(())
            }
        }
    }

    fn create(&mut self, file: &FilePatch<'_>, path: &TreePath) -> Result<(), ApplyError> {
        self.vacant(path)?;
        let old = Side { mode: file.new_mode.unwrap_or(Mode::Regular), content: Arc::from(&b""[..]) };
        let side = self.changed(file, path, &old)?;
        self.overlay.write(path.clone(), side);
        Ok(())
    }

    fn delete(&mut self, file: &FilePatch<'_>, path: &TreePath) -> Result<(), ApplyError> {
        if self.overlay.touched(path).is_some() {
            return Err(ApplyError::Twice { path: path.clone() });
        }
        let old = self.present(self.overlay.base(path)?, path)?;
        check_kind(file.old_mode, &old, path)?;
        let rest = self.content(file, path, &old)?;
        match &file.body {
            // Git lets an empty file go without a hunk, and only an empty one.
            Body::Nothing | Body::Hunks(_) | Body::Binary { .. } if rest.is_empty() => {}
            Body::Nothing | Body::Hunks(_) | Body::Binary { .. } => {
                return Err(ApplyError::NotEmptied { path: path.clone(), bytes: rest.len() });
            }
        }
        self.overlay.remove(path.clone());
        Ok(())
    }

    /// Renames and copies read the tree as it was before the patch, as git does.
    fn moved(&mut self, file: &FilePatch<'_>, from: &TreePath, to: &TreePath) -> Result<Side, ApplyError> {
        self.vacant(to)?;
        let old = self.present(self.overlay.base(from)?, from)?;
        self.changed(file, to, &old)
    }

    fn present(&self, side: Option<Side>, path: &TreePath) -> Result<Side, ApplyError> {
        side.ok_or_else(|| ApplyError::Absent { path: path.clone() })
    }

    fn vacant(&self, path: &TreePath) -> Result<(), ApplyError> {
        let free = match self.overlay.touched(path) {
            Some(Some(_)) => false,
            Some(None) => true,
            None => self.overlay.base(path)?.is_none() || self.going.contains(path),
        };
        if free { Ok(()) } else { Err(ApplyError::Exists { path: path.clone() }) }
    }

    /// The file after its part of the patch.
    fn changed(&mut self, file: &FilePatch<'_>, path: &TreePath, old: &Side) -> Result<Side, ApplyError> {
        check_kind(file.old_mode, old, path)?;
        let mode = file.new_mode.unwrap_or(old.mode);
        if mode.is_file() != old.mode.is_file() {
            return Err(ApplyError::Kind { path: path.clone(), found: kind(old.mode), expected: kind(mode) });
        }
        let side = Side { mode, content: self.content(file, path, old)? };
        if mode == Mode::Symlink && !can_be_target(&side.content) {
            return Err(ApplyError::LinkTarget { path: path.clone() });
        }
        Ok(side)
    }

    fn content(
        &mut self,
        file: &FilePatch<'_>,
        path: &TreePath,
        old: &Side,
    ) -> Result<Arc<[u8]>, ApplyError> {
        match &file.body {
            Body::Nothing => Ok(old.content.clone()),
            Body::Hunks(hunks) => self.hunks(hunks, path, &old.content),
            Body::Binary { hunk, old_id, new_id } => {
                let is = |id: &str, bytes: &[u8]| {
                    let absent = bytes.is_empty() && id.bytes().all(|b| b == b'0');
                    absent || blob_id(bytes) == id
                };
                let wrong = || ApplyError::BinaryIds { path: path.clone() };
                if !is(old_id, &old.content) {
                    return Err(wrong());
                }
                let new = hunk
                    .apply(&old.content, MAX_BINARY_BYTES)
                    .map_err(|source| ApplyError::Binary { path: path.clone(), source })?;
                if !is(new_id, &new) {
                    return Err(wrong());
                }
                Ok(new.into())
            }
        }
    }

    fn hunks(&mut self, hunks: &[Hunk<'_>], path: &TreePath, old: &[u8]) -> Result<Arc<[u8]>, ApplyError> {
        let failed = |source| ApplyError::Hunk { path: path.clone(), source };
        let strict = hunk::apply(old, hunks, Place::AsGit);
        let (new, moved) = match (strict, self.place) {
            (Ok(done), _) => done,
            (Err(error), Place::AsGit) => return Err(failed(error)),
            (Err(error), Place::Anywhere) => match self.line_ends(hunks, path, old) {
                Some(hunks) => hunk::apply(old, &hunks, Place::Anywhere).map_err(failed)?,
                None => hunk::apply(old, hunks, Place::Anywhere).map_err(|_| failed(error))?,
            },
        };
        for moved in moved {
            self.notes.push(format!(
                "{path}: the hunk at line {} of the patch was found at line {} in place of {}",
                moved.line, moved.found, moved.stated
            ));
        }
        Ok(new.into())
    }

    /// The hunks with the line ends of the file, where the file has but one kind and they the other.
    fn line_ends(&mut self, hunks: &[Hunk<'_>], path: &TreePath, old: &[u8]) -> Option<Vec<Hunk<'static>>> {
        let (converted, what) = mend::with_line_ends_of(old, hunks)?;
        self.notes.push(format!("{path}: {what}"));
        Some(converted)
    }
}

/// Whether the system can make a link of these bytes.
fn can_be_target(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.len() < MAX_TARGET && !bytes.contains(&0)
}

fn check_kind(stated: Option<Mode>, old: &Side, path: &TreePath) -> Result<(), ApplyError> {
    match stated {
        Some(stated) if stated.is_file() != old.mode.is_file() => {
            Err(ApplyError::Kind { path: path.clone(), found: kind(old.mode), expected: kind(stated) })
        }
        Some(_) | None => Ok(()),
    }
}

const fn kind(mode: Mode) -> &'static str {
    match mode {
        Mode::Regular | Mode::GroupWritable | Mode::Executable => "file",
        Mode::Symlink => "link",
        Mode::Submodule => "submodule",
    }
}

#[cfg(test)]
mod tests;
