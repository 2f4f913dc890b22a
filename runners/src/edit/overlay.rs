//! A tree with edits laid over it, until all of them are known to fit.

use std::collections::BTreeMap;

use super::changeset::{ChangesetError, Side};
use crate::workspace::{Entry, Mode, Tree, TreeError, TreePath};

/// Edits over a tree.
pub struct Overlay<'a> {
    base: &'a Tree,
    changed: BTreeMap<TreePath, Option<Side>>,
}

impl<'a> Overlay<'a> {
    /// No edits yet.
    pub fn new(base: &'a Tree) -> Self {
        Self { base, changed: BTreeMap::new() }
    }

    /// A path as the tree below has it.
    pub fn base(&self, path: &TreePath) -> Result<Option<Side>, ChangesetError> {
        let Some(entry) = self.base.entry(path) else { return Ok(None) };
        match entry.mode {
            Mode::Submodule => Err(ChangesetError::Submodule { path: path.clone() }),
            Mode::Regular | Mode::GroupWritable | Mode::Executable | Mode::Symlink => {
                Ok(Some(Side { mode: entry.mode, content: self.base.content(path, entry)? }))
            }
        }
    }

    /// A path with the edits so far.
    pub fn read(&self, path: &TreePath) -> Result<Option<Side>, ChangesetError> {
        match self.changed.get(path) {
            Some(side) => Ok(side.clone()),
            None => self.base(path),
        }
    }

    /// Whether an edit touched the path.
    pub fn touched(&self, path: &TreePath) -> Option<&Option<Side>> {
        self.changed.get(path)
    }

    /// Sets what a path is.
    pub fn write(&mut self, path: TreePath, side: Side) {
        self.changed.insert(path, Some(side));
    }

    /// Takes a path away.
    pub fn remove(&mut self, path: TreePath) {
        self.changed.insert(path, None);
    }

    /// The tree with all edits.
    pub fn finish(self) -> Result<Tree, TreeError> {
        let mut entries = self.base.entries().clone();
        for (path, side) in self.changed {
            match side {
                None => {
                    entries.remove(&path);
                }
                Some(side) => {
                    entries.insert(path, Entry::new(side.mode, side.content));
                }
            }
        }
        Tree::new(entries, self.base.objects().cloned())
    }
}
