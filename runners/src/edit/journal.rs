//! What an atomic change of a folder is about to do, written down before it is done.
//!
//! Every operation moves a name between the workspace and the staging folder in one system call, so a
//! look at both tells whether it happened. Undoing all of them in reverse gives every file back.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode as Bits, OFlags, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::commit::CommitError;
use crate::workspace::TreePath;
use crate::workspace::folder::{Folder, Found};

/// The journal of a change that is under way.
pub(super) const JOURNAL: &str = "journal";
/// The journal of a change that is complete.
pub(super) const DONE: &str = "done";
/// A journal that is being written.
const UNFINISHED: &str = "journal.new";

/// Asked after each step; an error ends the work there, as a crash would.
pub(super) type Step<'a> = &'a mut dyn FnMut(&'static str) -> Result<(), CommitError>;

/// One move of a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub(super) enum Operation {
    /// The staged file takes the place of the one at `path`, which is staged in its stead.
    Exchange {
        path: PathText,
        staged: String,
        inode: u64,
    },
    /// The staged file goes to `path`, where nothing is.
    Create {
        path: PathText,
        staged: String,
        inode: u64,
    },
    /// The file at `path` is staged.
    Remove {
        path: PathText,
        staged: String,
    },
    MakeFolder {
        path: PathText,
    },
    /// Only where nothing is left in it.
    RemoveFolder {
        path: PathText,
        permissions: u32,
    },
}

/// A path in a journal: bytes in hex.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PathText(String);

impl PathText {
    pub(super) fn new(path: &TreePath) -> Self {
        Self(hex::encode(path.as_bytes()))
    }

    fn path(&self) -> Result<TreePath, CommitError> {
        let bytes =
            hex::decode(&self.0).map_err(|_| CommitError::Journal { why: "a path is no hex text" })?;
        TreePath::parse(bytes).map_err(|_| CommitError::Journal { why: "a path is refused" })
    }
}

/// The two folders of a change, held open.
pub(super) struct Place {
    pub root: Folder,
    pub staging: Folder,
    pub owner: Option<(rustix::fs::Uid, rustix::fs::Gid)>,
}

impl Place {
    /// Writes the journal so that it is there whole or not at all.
    pub(super) fn write_journal(&self, operations: &[Operation], step: Step<'_>) -> Result<(), CommitError> {
        let failed = |source| CommitError::Staging {
            action: "write the journal in",
            folder: self.staging.path().into(),
            source,
        };
        let bytes = serde_json::to_vec(operations).expect("operations have only strings and numbers");
        let path = self.staging.path().join(UNFINISHED);
        let mut file = File::create(&path).map_err(failed)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        step("edit.journal-written")?;
        std::fs::rename(&path, self.staging.path().join(JOURNAL)).map_err(failed)?;
        self.sync_staging()
    }

    /// Reads a journal; `None` when there is none.
    pub(super) fn read_journal(&self) -> Result<Option<Vec<Operation>>, CommitError> {
        match std::fs::read(self.staging.path().join(JOURNAL)) {
            Ok(bytes) => {
                let read = serde_json::from_slice(&bytes);
                read.map(Some).map_err(|_| CommitError::Journal { why: "it is damaged" })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CommitError::Staging {
                action: "read the journal in",
                folder: self.staging.path().into(),
                source,
            }),
        }
    }

    /// From here on the change counts as complete.
    pub(super) fn mark_done(&self) -> Result<(), CommitError> {
        let at = |name: &str| self.staging.path().join(name);
        std::fs::rename(at(JOURNAL), at(DONE)).map_err(|source| CommitError::Staging {
            action: "close the journal in",
            folder: self.staging.path().into(),
            source,
        })?;
        self.sync_staging()
    }

    pub(super) fn sync_staging(&self) -> Result<(), CommitError> {
        rustix::fs::fsync(&self.staging).map_err(|errno| CommitError::Staging {
            action: "sync",
            folder: self.staging.path().into(),
            source: errno.into(),
        })
    }

    /// Makes the folders durable whose names changed.
    pub(super) fn sync_folders(&self, operations: &[Operation]) -> Result<(), CommitError> {
        let mut folders: BTreeSet<Option<TreePath>> = BTreeSet::new();
        for operation in operations {
            folders.insert(operation.path()?.parent());
        }
        for folder in folders {
            let handle = match &folder {
                // A folder that went, too, is covered by the one above it.
                Some(path) => self.root.below(path)?,
                None => Some(self.root.as_fd().try_clone_to_owned().map_err(|source| {
                    CommitError::Staging { action: "open", folder: self.root.path().into(), source }
                })?),
            };
            if let Some(handle) = handle {
                rustix::fs::fsync(handle).map_err(|errno| CommitError::Staging {
                    action: "sync",
                    folder: self.root.path().into(),
                    source: errno.into(),
                })?;
            }
        }
        Ok(())
    }

    /// Does one operation.
    pub(super) fn perform(&self, operation: &Operation) -> Result<(), CommitError> {
        let path = operation.path()?;
        let failed = |errno: Errno| CommitError::At { path: path.clone(), source: errno.into() };
        let parent = self.parent(&path)?;
        let name = file_name(&path);
        match operation {
            Operation::Exchange { staged, .. } => {
                self.rename(&parent, name, staged, RenameFlags::EXCHANGE).map_err(failed)
            }
            Operation::Create { staged, .. } => rustix::fs::renameat_with(
                &self.staging,
                staged.as_str(),
                &parent,
                name,
                RenameFlags::NOREPLACE,
            )
            .map_err(failed),
            Operation::Remove { staged, .. } => {
                self.rename(&parent, name, staged, RenameFlags::NOREPLACE).map_err(failed)
            }
            Operation::MakeFolder { .. } => match self.make_folder(&parent, name, 0o755) {
                Err(Errno::EXIST) if self.root.look(&path)? == Some(Found::Folder) => Ok(()),
                Ok(()) => Ok(()),
                Err(errno) => Err(failed(errno)),
            },
            Operation::RemoveFolder { .. } => match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                // Something that is not tracked is left in it, so it stays.
                Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => Ok(()),
                Err(errno) => Err(failed(errno)),
            },
        }
    }

    /// Takes one operation back, if it happened.
    pub(super) fn undo(&self, operation: &Operation) -> Result<(), CommitError> {
        let path = operation.path()?;
        let failed = |errno: Errno| CommitError::At { path: path.clone(), source: errno.into() };
        let Some(parent) = self.root.parent_of(&path)? else {
            return self.undone_without_parent(operation, &path);
        };
        let name = file_name(&path);
        match operation {
            Operation::Exchange { staged, inode, .. } => match self.staged_inode(staged)? {
                Some(there) if there == *inode => Ok(()),
                Some(_) => self.rename(&parent, name, staged, RenameFlags::EXCHANGE).map_err(failed),
                None => Err(CommitError::Lost { path: path.clone() }),
            },
            Operation::Create { staged, inode, .. } => match self.staged_inode(staged)? {
                Some(_) => Ok(()),
                None => {
                    let stat =
                        rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                    if stat.st_ino != *inode {
                        return Err(CommitError::Lost { path: path.clone() });
                    }
                    self.rename(&parent, name, staged, RenameFlags::NOREPLACE).map_err(failed)
                }
            },
            Operation::Remove { staged, .. } => match self.staged_inode(staged)? {
                Some(_) => rustix::fs::renameat_with(
                    &self.staging,
                    staged.as_str(),
                    &parent,
                    name,
                    RenameFlags::NOREPLACE,
                )
                .map_err(failed),
                None => Ok(()),
            },
            Operation::MakeFolder { .. } => match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                // A file or link of that name is what stood there before the folder was to be made.
                Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
                Err(errno) => Err(failed(errno)),
            },
            Operation::RemoveFolder { permissions, .. } => {
                self.make_folder_again(&parent, name, *permissions).map_err(failed)
            }
        }
    }

    /// Where the folder is not there, what should be in it never came.
    fn undone_without_parent(&self, operation: &Operation, path: &TreePath) -> Result<(), CommitError> {
        match operation {
            Operation::Create { staged, .. } if self.staged_inode(staged)?.is_some() => Ok(()),
            Operation::MakeFolder { .. } => Ok(()),
            Operation::Create { .. }
            | Operation::Exchange { .. }
            | Operation::Remove { .. }
            | Operation::RemoveFolder { .. } => Err(CommitError::Lost { path: path.clone() }),
        }
    }

    fn rename(&self, parent: &OwnedFd, name: &Path, staged: &str, flags: RenameFlags) -> Result<(), Errno> {
        rustix::fs::renameat_with(parent, name, &self.staging, staged, flags)
    }

    fn make_folder(&self, parent: &OwnedFd, name: &Path, permissions: u32) -> Result<(), Errno> {
        rustix::fs::mkdirat(parent, name, Bits::from_raw_mode(permissions))?;
        if let Some((user, group)) = self.owner {
            rustix::fs::chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Makes a folder again as it was, also where an earlier try ended between making and settling it.
    fn make_folder_again(&self, parent: &OwnedFd, name: &Path, permissions: u32) -> Result<(), Errno> {
        match self.make_folder(parent, name, permissions) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(parent, name, flags, Bits::empty())?;
        // The process's mask may have taken some bits.
        rustix::fs::fchmod(&folder, Bits::from_raw_mode(permissions))?;
        match self.owner {
            Some((user, group)) => rustix::fs::fchown(&folder, Some(user), Some(group)),
            None => Ok(()),
        }
    }

    fn parent(&self, path: &TreePath) -> Result<OwnedFd, CommitError> {
        self.root
            .parent_of(path)?
            .ok_or_else(|| CommitError::At { path: path.clone(), source: std::io::Error::from(Errno::NOENT) })
    }

    /// The inode of a staged name; `None` when it is not there.
    pub(super) fn staged_inode(&self, staged: &str) -> Result<Option<u64>, CommitError> {
        Ok(self.stamp(staged)?.map(|stamp| stamp.inode))
    }

    /// The stamp of a staged name; `None` when it is not there.
    pub(super) fn stamp(&self, staged: &str) -> Result<Option<Stamp>, CommitError> {
        Stamp::at(&self.staging, Path::new(staged)).map_err(|errno| CommitError::Staging {
            action: "look into",
            folder: self.staging.path().into(),
            source: errno.into(),
        })
    }

    /// Removes everything from the staging folder, asking `step` after each name.
    ///
    /// An open journal goes first: without it nothing is left to be undone, while with it an undo would look
    /// for what is cleared here. The mark of a complete change goes last, so that a crash on the way still
    /// finds it.
    pub(super) fn clear_staging(&self, step: Step<'_>) -> Result<(), CommitError> {
        let failed =
            |source| CommitError::Staging { action: "clear", folder: self.staging.path().into(), source };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.staging.path()).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name());
        }
        names.sort_by_key(|name| match name.to_str() {
            Some(JOURNAL) => 0,
            Some(DONE) => 2,
            Some(_) | None => 1,
        });
        for name in names {
            std::fs::remove_file(self.staging.path().join(&name)).map_err(failed)?;
            if name == JOURNAL {
                self.sync_staging()?;
            }
            step("edit.cleared")?;
        }
        self.sync_staging()
    }
}

/// What tells one state of a file from another without its bytes. A rename keeps all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    inode: u64,
    bytes: i64,
    seconds: i64,
    nanoseconds: u64,
}

impl Stamp {
    /// Of a path in the workspace; `None` when nothing is there.
    pub(super) fn of(root: &Folder, path: &TreePath) -> Result<Option<Self>, CommitError> {
        let Some(parent) = root.parent_of(path)? else { return Ok(None) };
        Self::at(&parent, file_name(path))
            .map_err(|errno| CommitError::At { path: path.clone(), source: errno.into() })
    }

    fn at(folder: impl AsFd, name: &Path) -> Result<Option<Self>, Errno> {
        match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Self::from(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl From<&rustix::fs::Stat> for Stamp {
    // The fields' types differ between architectures, so that some conversions are needed there alone.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    fn from(stat: &rustix::fs::Stat) -> Self {
        Self {
            inode: stat.st_ino,
            bytes: stat.st_size,
            seconds: i64::from(stat.st_mtime),
            nanoseconds: stat.st_mtime_nsec as u64,
        }
    }
}

impl Operation {
    /// The path and the staged name of what an operation takes out of the workspace.
    pub(super) fn takes(&self) -> Result<Option<(TreePath, &str)>, CommitError> {
        match self {
            Operation::Exchange { path, staged, .. } | Operation::Remove { path, staged } => {
                Ok(Some((path.path()?, staged)))
            }
            Operation::Create { .. } | Operation::MakeFolder { .. } | Operation::RemoveFolder { .. } => {
                Ok(None)
            }
        }
    }

    fn path(&self) -> Result<TreePath, CommitError> {
        match self {
            Operation::Exchange { path, .. }
            | Operation::Create { path, .. }
            | Operation::Remove { path, .. }
            | Operation::MakeFolder { path }
            | Operation::RemoveFolder { path, .. } => path.path(),
        }
    }
}

fn file_name(path: &TreePath) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(path.name()))
}
