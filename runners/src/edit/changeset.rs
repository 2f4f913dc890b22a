//! A change of a tree: what each path was and is, the exact trees before and after, and the git patch.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::changeset::{ChangesetFiles, FileNow, FileState};
use jobs::digest::Digest;
use jobs::id::{CommitId, TreeId};
use jobs::step::FileChange;

use crate::workspace::path::{TreePath, is_gitmodules, link_stays_inside};
use crate::workspace::{Entry, Mode, Tree, TreeError};

/// All changes from one tree to another.
#[derive(Clone, Debug)]
pub struct Changeset {
    /// The commit that the tree before was read from, where it was read from one.
    pub base: Option<CommitId>,
    pub tree_before: TreeId,
    pub tree_after: TreeId,
    /// Sorted by path; no path twice.
    pub changes: Vec<Change>,
    /// A patch that `git apply` takes on the tree before and that gives the tree after.
    pub patch: Vec<u8>,
}

/// One changed path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    pub path: TreePath,
    /// `None`: the path is new.
    pub before: Option<Side>,
    /// `None`: the path is gone.
    pub after: Option<Side>,
    /// Lines that the patch adds and removes; zero for binary files.
    pub added_lines: u64,
    pub removed_lines: u64,
}

/// A path's state on one side of a change.
#[derive(Clone, PartialEq, Eq)]
pub struct Side {
    pub mode: Mode,
    pub content: Arc<[u8]>,
}

/// How much one changeset may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub changed_files: u64,
    pub patch_bytes: u64,
    /// One file after the change.
    pub file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { changed_files: 64, patch_bytes: 1 << 20, file_bytes: 16 << 20 }
    }
}

/// A change that is refused as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ChangesetError {
    #[error("the change touches {found} files, over the bound of {bound}; make it smaller")]
    Files { found: u64, bound: u64 },
    #[error("the patch has {found} bytes, over the bound of {bound}; make it smaller")]
    PatchBytes { found: u64, bound: u64 },
    #[error("{path} would have {found} bytes, over the bound of {bound}")]
    FileBytes { path: TreePath, found: u64, bound: u64 },
    #[error("{path} is a submodule, which cannot be changed")]
    Submodule { path: TreePath },
    #[error("the link {path} would lead out of the repository")]
    LinkOut { path: TreePath },
    #[error("{path} would be a link; git reads this file never through one")]
    Gitmodules { path: TreePath },
    #[error("{path} and {other} are the same name where case does not count")]
    Case { path: TreePath, other: String },
    #[error("{path} is not UTF-8, so it cannot be pushed")]
    NotUtf8 { path: TreePath },
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl Changeset {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The digest of the patch: what a person authorizes.
    pub fn patch_digest(&self) -> Digest {
        Digest::of(&self.patch)
    }

    /// Holds the change to bounds, and refuses what must never be written: links that lead out,
    /// submodules, and new names that another file system could not tell from others in `base`.
    pub fn check(&self, base: &Tree, limits: &Limits) -> Result<(), ChangesetError> {
        let (files, bytes) = (self.changes.len() as u64, self.patch.len() as u64);
        if files > limits.changed_files {
            return Err(ChangesetError::Files { found: files, bound: limits.changed_files });
        }
        if bytes > limits.patch_bytes {
            return Err(ChangesetError::PatchBytes { found: bytes, bound: limits.patch_bytes });
        }
        for change in &self.changes {
            change.check(limits)?;
        }
        self.check_case(base)
    }

    fn check_case(&self, base: &Tree) -> Result<(), ChangesetError> {
        let new: Vec<&TreePath> =
            self.changes.iter().filter(|c| c.before.is_none()).map(|c| &c.path).collect();
        if new.is_empty() {
            return Ok(());
        }
        let gone: Vec<&TreePath> =
            self.changes.iter().filter(|c| c.after.is_none()).map(|c| &c.path).collect();
        let mut names: BTreeMap<String, TreePath> = BTreeMap::new();
        for path in base.entries().keys().filter(|path| !gone.contains(path)) {
            for name in path.parents().chain([path.clone()]) {
                names.entry(name.folded()).or_insert(name);
            }
        }
        for path in new {
            for name in path.parents().chain([path.clone()]) {
                let known = names.entry(name.folded()).or_insert_with(|| name.clone());
                if *known != name && base.entry(path).is_none() {
                    return Err(ChangesetError::Case { path: path.clone(), other: known.to_string() });
                }
            }
        }
        Ok(())
    }

    /// What a step's record tells of each file.
    pub fn file_changes(&self) -> Vec<FileChange> {
        let told = |change: &Change| FileChange {
            path: change.path.to_string(),
            added_lines: change.added_lines,
            removed_lines: change.removed_lines,
        };
        self.changes.iter().map(told).collect()
    }

    /// The form that a push reads.
    pub fn to_files(&self) -> Result<ChangesetFiles, ChangesetError> {
        let state = |change: &Change| -> Result<FileState, ChangesetError> {
            let path =
                change.path.as_str().ok_or_else(|| ChangesetError::NotUtf8 { path: change.path.clone() })?;
            let now = match &change.after {
                None => FileNow::Deleted,
                Some(side) => FileNow::File {
                    mode: side
                        .mode
                        .file_mode()
                        .ok_or_else(|| ChangesetError::Submodule { path: change.path.clone() })?,
                    content: side.content.to_vec(),
                },
            };
            Ok(FileState { path: path.to_owned(), now })
        };
        Ok(ChangesetFiles {
            tree_before: self.tree_before.clone(),
            tree_after: self.tree_after.clone(),
            patch: self.patch_digest(),
            files: self.changes.iter().map(state).collect::<Result<_, _>>()?,
        })
    }

    /// The tree after the change, from the tree before it.
    pub fn tree_from(&self, base: &Tree) -> Result<Tree, ChangesetError> {
        let mut entries = base.entries().clone();
        for change in &self.changes {
            match &change.after {
                None => {
                    entries.remove(&change.path);
                }
                Some(side) => {
                    entries.insert(change.path.clone(), Entry::new(side.mode, side.content.clone()));
                }
            }
        }
        Ok(Tree::new(entries, base.objects().cloned())?)
    }
}

impl Change {
    fn check(&self, limits: &Limits) -> Result<(), ChangesetError> {
        self.check_kind()?;
        let found = self.after.as_ref().map_or(0, |after| after.content.len() as u64);
        if found > limits.file_bytes {
            return Err(ChangesetError::FileBytes {
                path: self.path.clone(),
                found,
                bound: limits.file_bytes,
            });
        }
        Ok(())
    }

    /// Refuses what is never written, however small.
    pub(super) fn check_kind(&self) -> Result<(), ChangesetError> {
        let path = || self.path.clone();
        if [&self.before, &self.after].into_iter().flatten().any(|side| side.mode == Mode::Submodule) {
            return Err(ChangesetError::Submodule { path: path() });
        }
        let Some(after) = &self.after else { return Ok(()) };
        if after.mode == Mode::Symlink {
            if is_gitmodules(&self.path) {
                return Err(ChangesetError::Gitmodules { path: path() });
            }
            if !link_stays_inside(&self.path, &after.content) {
                return Err(ChangesetError::LinkOut { path: path() });
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.mode.octal(), String::from_utf8_lossy(&self.content))
    }
}

#[cfg(test)]
mod tests;
