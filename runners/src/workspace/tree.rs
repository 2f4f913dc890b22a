//! A git tree in memory: every file's path, mode and blob id, and its bytes where they are at hand.
//!
//! The id is git's own, computed here from bytes alone: no index, no attributes, no filters.

use std::collections::BTreeMap;
use std::sync::Arc;

use gix::ObjectId;
use gix::objs::Kind;
use jobs::changeset::FileMode;
use jobs::id::{CommitId, TreeId};

use super::objects::{Objects, ObjectsError};
use super::path::{self, TreePath};

/// A blob's id.
pub type BlobId = ObjectId;

/// What a path of a tree is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    Regular,
    /// `100664`, which very old commits hold. Kept so that their tree ids stay what they are.
    GroupWritable,
    Executable,
    Symlink,
    /// Another repository's commit; its files are no part of the tree.
    Submodule,
}

impl Mode {
    /// Git's octal digits, as trees and patches write them.
    pub const fn octal(self) -> &'static str {
        match self {
            Mode::Regular => "100644",
            Mode::GroupWritable => "100664",
            Mode::Executable => "100755",
            Mode::Symlink => "120000",
            Mode::Submodule => "160000",
        }
    }

    /// The mode as a change may name it; a submodule is none.
    pub const fn file_mode(self) -> Option<FileMode> {
        match self {
            Mode::Regular | Mode::GroupWritable => Some(FileMode::Regular),
            Mode::Executable => Some(FileMode::Executable),
            Mode::Symlink => Some(FileMode::Symlink),
            Mode::Submodule => None,
        }
    }

    /// Whether the bytes are a file's content.
    pub const fn is_file(self) -> bool {
        match self {
            Mode::Regular | Mode::GroupWritable | Mode::Executable => true,
            Mode::Symlink | Mode::Submodule => false,
        }
    }
}

/// One path's state.
#[derive(Clone, Debug)]
pub struct Entry {
    pub mode: Mode,
    pub id: BlobId,
    /// `None`: read it from the tree's object store.
    content: Option<Arc<[u8]>>,
}

impl Entry {
    /// A file or link with its bytes at hand.
    pub fn new(mode: Mode, content: impl Into<Arc<[u8]>>) -> Self {
        let content = content.into();
        Self { mode, id: blob_id(&content), content: Some(content) }
    }

    /// An entry whose bytes, if it has any, stand in the tree's object store.
    pub fn stored(mode: Mode, id: BlobId) -> Self {
        Self { mode, id, content: None }
    }

    /// Whether mode and bytes are the same.
    pub fn same_as(&self, other: &Entry) -> bool {
        self.mode == other.mode && self.id == other.id
    }
}

/// All files of one state of a repository.
#[derive(Clone, Debug)]
pub struct Tree {
    entries: BTreeMap<TreePath, Entry>,
    id: TreeId,
    commit: Option<CommitId>,
    objects: Option<Objects>,
}

/// Entries that make no tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// One path is a file and a folder at once.
    #[error("{0} is a file and a folder at once")]
    FileAndFolder(TreePath),
    /// The bytes of a path are nowhere at hand.
    #[error("cannot read {path}: its content is not at hand")]
    NoContent { path: TreePath },
    /// The object store has not what the tree names.
    #[error("cannot read {path}")]
    Store { path: TreePath, source: Box<ObjectsError> },
}

impl Tree {
    /// The tree of these entries, whose stored content is read from `objects`.
    pub fn new(entries: BTreeMap<TreePath, Entry>, objects: Option<Objects>) -> Result<Self, TreeError> {
        let id = write(&entries, |kind, bytes| Ok::<_, TreeError>(hash(kind, bytes)))?;
        let id = id.to_string().parse().expect("an object id is 40 hex digits");
        Ok(Self { entries, id, commit: None, objects })
    }

    /// The tree without files.
    pub fn empty() -> Self {
        Self::new(BTreeMap::new(), None).expect("a tree without entries has no conflict")
    }

    /// The same tree, bound to the commit that it was read from.
    pub fn at(mut self, commit: CommitId) -> Self {
        self.commit = Some(commit);
        self
    }

    /// Git's id of the tree.
    pub fn id(&self) -> &TreeId {
        &self.id
    }

    /// The commit that it was read from.
    pub fn commit(&self) -> Option<&CommitId> {
        self.commit.as_ref()
    }

    /// All entries, sorted by the bytes of their paths.
    pub fn entries(&self) -> &BTreeMap<TreePath, Entry> {
        &self.entries
    }

    /// The state of one path.
    pub fn entry(&self, path: &TreePath) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// The store that entries without their bytes are read from.
    pub fn objects(&self) -> Option<&Objects> {
        self.objects.as_ref()
    }

    /// The bytes of one path: a file's content, or a link's target.
    pub fn read(&self, path: &TreePath) -> Result<Arc<[u8]>, TreeError> {
        let entry = self.entry(path).ok_or_else(|| TreeError::NoContent { path: path.clone() })?;
        self.content(path, entry)
    }

    /// The bytes of an entry of this tree.
    pub fn content(&self, path: &TreePath, entry: &Entry) -> Result<Arc<[u8]>, TreeError> {
        match (&entry.content, &self.objects, entry.mode) {
            (Some(content), _, _) => Ok(content.clone()),
            (None, Some(objects), Mode::Regular | Mode::GroupWritable | Mode::Executable | Mode::Symlink) => {
                objects
                    .blob(entry.id)
                    .map(Into::into)
                    .map_err(|source| TreeError::Store { path: path.clone(), source: Box::new(source) })
            }
            (None, Some(_), Mode::Submodule) | (None, None, _) => {
                Err(TreeError::NoContent { path: path.clone() })
            }
        }
    }

    /// Whether a path is a link that leads out of the root. Such a link is never made on disk.
    pub fn leads_out(&self, path: &TreePath, entry: &Entry) -> Result<bool, TreeError> {
        match entry.mode {
            Mode::Symlink => Ok(!path::link_stays_inside(path, &self.content(path, entry)?)),
            Mode::Regular | Mode::GroupWritable | Mode::Executable | Mode::Submodule => Ok(false),
        }
    }
}

/// The id that git gives a blob of these bytes.
pub fn blob_id(bytes: &[u8]) -> BlobId {
    hash(Kind::Blob, bytes)
}

/// Git's id of an object. Bytes that attack SHA-1 get the plain id too; writing them to a store, which
/// looks for such an attack, is what refuses them.
fn hash(kind: Kind, bytes: &[u8]) -> ObjectId {
    use sha1::Digest as _;
    let kind = if kind == Kind::Tree { "tree" } else { "blob" };
    let mut hasher = sha1::Sha1::new();
    hasher.update(format!("{kind} {}\0", bytes.len()));
    hasher.update(bytes);
    ObjectId::from_bytes_or_panic(&hasher.finalize())
}

/// Writes the tree objects of `entries`, inner folders first, each by `sink`; gives the root's id.
///
/// Paths sorted by their bytes come in git's order inside every folder, since git compares a folder's
/// name as if it ended with a slash.
pub(super) fn write<E: From<TreeError>>(
    entries: &BTreeMap<TreePath, Entry>,
    mut sink: impl FnMut(Kind, &[u8]) -> Result<ObjectId, E>,
) -> Result<ObjectId, E> {
    let mut open: Vec<(Vec<u8>, Vec<u8>)> = vec![(Vec::new(), Vec::new())];
    let mut close = |open: &mut Vec<(Vec<u8>, Vec<u8>)>| -> Result<(), E> {
        let (name, bytes) = open.pop().expect("only called with a folder above the root");
        let id = sink(Kind::Tree, &bytes)?;
        let parent = &mut open.last_mut().expect("the root is never closed here").1;
        push_entry(parent, "40000", &name, &id);
        Ok(())
    };
    for (path, entry) in entries {
        if let Some(file) = path.parents().find(|folder| entries.contains_key(folder)) {
            return Err(TreeError::FileAndFolder(file).into());
        }
        let folders: Vec<&[u8]> = folders(path);
        let shared =
            folders.iter().zip(open.iter().skip(1)).take_while(|(a, b)| **a == b.0.as_slice()).count();
        while open.len() > shared + 1 {
            close(&mut open)?;
        }
        for folder in &folders[shared..] {
            open.push((folder.to_vec(), Vec::new()));
        }
        let folder = &mut open.last_mut().expect("the root is always open").1;
        push_entry(folder, entry.mode.octal(), path.name(), &entry.id);
    }
    while open.len() > 1 {
        close(&mut open)?;
    }
    let (_, root) = open.pop().expect("the root is always open");
    sink(Kind::Tree, &root)
}

fn folders(path: &TreePath) -> Vec<&[u8]> {
    let mut names: Vec<_> = path.as_bytes().split(|&b| b == b'/').collect();
    names.pop();
    names
}

fn push_entry(folder: &mut Vec<u8>, mode: &str, name: &[u8], id: &ObjectId) {
    folder.extend_from_slice(mode.as_bytes());
    folder.push(b' ');
    folder.extend_from_slice(name);
    folder.push(0);
    folder.extend_from_slice(id.as_bytes());
}
