//! Lays a tree out as files: the bytes of the blobs, as they are.
//!
//! No filter, hook or attribute has a say. Links that lead out of the root are left out and named, and
//! the scan knows that they are missing on purpose. Files go into a folder that is new and empty, so
//! nothing that is there can redirect a write.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode as Bits, OFlags, Uid};

use super::folder::{Folder, FolderError, at, name_of};
use super::path::TreePath;
use super::tree::{Entry, Mode, Tree, TreeError};

/// What was laid out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Materialized {
    pub files: u64,
    pub bytes: u64,
    /// Links that lead out of the root, and submodules, which are empty folders.
    pub left_out: Vec<TreePath>,
}

/// A tree could not be laid out.
#[derive(Debug, thiserror::Error)]
pub enum MaterializeError {
    #[error("cannot make the folder {folder}")]
    Make { folder: PathBuf, source: std::io::Error },
    #[error("cannot lay files out in {folder}: it is not empty")]
    NotEmpty { folder: PathBuf },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// Writes all files of `tree` below `into`, which must be empty or absent.
///
/// `owner` is the user and group, as ids of this host, that everything shall belong to: the ids that
/// the sandbox maps its user to.
pub fn materialize(
    tree: &Tree,
    into: &Path,
    owner: Option<(u32, u32)>,
) -> Result<Materialized, MaterializeError> {
    let make = |source| MaterializeError::Make { folder: into.to_owned(), source };
    std::fs::create_dir_all(into).map_err(make)?;
    if std::fs::read_dir(into).map_err(make)?.next().is_some() {
        return Err(MaterializeError::NotEmpty { folder: into.to_owned() });
    }
    let root = Folder::open(into)?;
    let mut layout =
        Layout { root, owner: owner.map(owner_of), parents: BTreeMap::new(), done: Materialized::default() };
    for (path, entry) in tree.entries() {
        layout.entry(tree, path, entry)?;
    }
    layout.own_root(into)?;
    Ok(layout.done)
}

pub(crate) fn owner_of((user, group): (u32, u32)) -> (Uid, Gid) {
    (Uid::from_raw(user), Gid::from_raw(group))
}

struct Layout {
    root: Folder,
    owner: Option<(Uid, Gid)>,
    /// The folders on the way to the last file, held open; files come sorted, so this is enough.
    parents: BTreeMap<TreePath, OwnedFd>,
    done: Materialized,
}

impl Layout {
    fn entry(&mut self, tree: &Tree, path: &TreePath, entry: &Entry) -> Result<(), MaterializeError> {
        self.parents.retain(|folder, _| path.parents().any(|parent| parent == *folder));
        for folder in path.parents() {
            self.folder(folder)?;
        }
        match entry.mode {
            Mode::Submodule => {
                self.folder(path.clone())?;
                self.done.left_out.push(path.clone());
                return Ok(());
            }
            Mode::Symlink if tree.leads_out(path, entry)? => {
                self.done.left_out.push(path.clone());
                return Ok(());
            }
            Mode::Symlink => self.link(path, &tree.content(path, entry)?)?,
            Mode::Regular | Mode::GroupWritable | Mode::Executable => {
                let content = tree.content(path, entry)?;
                self.file(path, &content, entry.mode)?;
                self.done.bytes += content.len() as u64;
            }
        }
        self.done.files += 1;
        Ok(())
    }

    fn folder(&mut self, path: TreePath) -> Result<(), MaterializeError> {
        if self.parents.contains_key(&path) {
            return Ok(());
        }
        let parent = self.parent(&path);
        rustix::fs::mkdirat(parent, name_of(&path), Bits::from_raw_mode(0o755))
            .map_err(|errno| at("make the folder", &path, errno))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(parent, name_of(&path), flags, Bits::empty())
            .map_err(|errno| at("open the folder", &path, errno))?;
        if let Some((user, group)) = self.owner {
            rustix::fs::fchown(&handle, Some(user), Some(group))
                .map_err(|errno| at("give away", &path, errno))?;
        }
        self.parents.insert(path, handle);
        Ok(())
    }

    fn file(&self, path: &TreePath, content: &[u8], mode: Mode) -> Result<(), MaterializeError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(self.parent(path), name_of(path), flags, Bits::from_raw_mode(0o600))
            .map_err(|errno| at("make", path, errno))?;
        let mut file = File::from(handle);
        file.write_all(content).map_err(|source| FolderError::At {
            action: "write",
            path: path.to_string(),
            source,
        })?;
        settle(&file, path, mode, self.owner)?;
        Ok(())
    }

    fn link(&self, path: &TreePath, target: &[u8]) -> Result<(), MaterializeError> {
        let parent = self.parent(path);
        rustix::fs::symlinkat(target, parent, name_of(path))
            .map_err(|errno| at("make the link", path, errno))?;
        if let Some((user, group)) = self.owner {
            rustix::fs::chownat(
                parent,
                name_of(path),
                Some(user),
                Some(group),
                rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
            )
            .map_err(|errno| at("give away", path, errno))?;
        }
        Ok(())
    }

    fn parent(&self, path: &TreePath) -> std::os::fd::BorrowedFd<'_> {
        use std::os::fd::AsFd as _;
        path.parent()
            .and_then(|parent| self.parents.get(&parent))
            .map_or(self.root.as_fd(), |handle| handle.as_fd())
    }

    /// The root is given away last: until then nobody else could have put anything in it.
    fn own_root(&self, into: &Path) -> Result<(), MaterializeError> {
        let failed = |errno: rustix::io::Errno| MaterializeError::Make {
            folder: into.to_owned(),
            source: errno.into(),
        };
        if let Some((user, group)) = self.owner {
            rustix::fs::fchown(&self.root, Some(user), Some(group)).map_err(failed)?;
        }
        Ok(())
    }
}

/// The permission bits that a file of this mode is laid out with.
pub const fn permissions(mode: Mode) -> u32 {
    match mode {
        Mode::Executable => 0o755,
        Mode::Regular | Mode::GroupWritable | Mode::Symlink | Mode::Submodule => 0o644,
    }
}

/// Gives a new file its mode and owner.
pub(crate) fn settle(
    file: &File,
    path: &TreePath,
    mode: Mode,
    owner: Option<(Uid, Gid)>,
) -> Result<(), FolderError> {
    rustix::fs::fchmod(file, Bits::from_raw_mode(permissions(mode)))
        .map_err(|errno| at("set the mode of", path, errno))?;
    if let Some((user, group)) = owner {
        rustix::fs::fchown(file, Some(user), Some(group)).map_err(|errno| at("give away", path, errno))?;
    }
    Ok(())
}
