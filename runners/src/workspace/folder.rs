//! A folder held open: everything below it is named relative to it and never through a link.
//!
//! The kernel keeps the confinement (`openat2` with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`), so
//! no name that a stranger swaps for a link between two of our calls leads out.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Mode as Bits, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::path::TreePath;

/// A folder that stays open.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    path: PathBuf,
}

/// What failed in a folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot open the folder {folder}")]
    Open { folder: PathBuf, source: std::io::Error },
    #[error("cannot {action} {path}")]
    At { action: &'static str, path: String, source: std::io::Error },
    #[error("{path} is no regular file")]
    NoFile { path: String },
    /// Reading it would go over the bound, or it grew while it was read.
    #[error("{path} is larger than {bound} bytes")]
    TooLarge { path: String, bound: u64 },
}

/// What a name in a folder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    File {
        bytes: u64,
        links: u64,
        executable: Executable,
    },
    Folder,
    Link,
    /// A fifo, socket or device.
    Special,
}

/// Whether the owner may execute a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Executable {
    Yes,
    No,
}

const CONFINED: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl Folder {
    /// Opens a folder of the host by its own path, which may lead through links.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Bits::empty())
            .map_err(|errno| FolderError::Open { folder: path.to_owned(), source: errno.into() })?;
        Ok(Self { handle, path: path.to_owned() })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a folder below; `None` when there is none.
    pub(crate) fn below(&self, path: &TreePath) -> Result<Option<OwnedFd>, FolderError> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, "open the folder")
    }

    /// Opens the folder that holds `path`; `None` when there is none.
    pub(crate) fn parent_of(&self, path: &TreePath) -> Result<Option<OwnedFd>, FolderError> {
        match path.parent() {
            Some(parent) => self.below(&parent),
            None => self.handle.try_clone().map(Some).map_err(|source| FolderError::At {
                action: "open the folder of",
                path: path.to_string(),
                source,
            }),
        }
    }

    /// What stands at `path`; `None` when nothing does, or when a folder on the way is no folder.
    pub fn look(&self, path: &TreePath) -> Result<Option<Found>, FolderError> {
        let Some(parent) = self.parent_of(path)? else { return Ok(None) };
        match rustix::fs::statat(&parent, name_of(path), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(found(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(at("look at", path, errno)),
        }
    }

    /// Reads a regular file of at most `bound` bytes, with whether it may be executed.
    pub fn read(&self, path: &TreePath, bound: u64) -> Result<(Vec<u8>, Executable), FolderError> {
        // A fifo would hold the call for ever without NONBLOCK.
        let opened = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW, "open")?;
        let handle = opened.ok_or_else(|| at("open", path, Errno::NOENT))?;
        read_file(handle, &path.to_string(), bound)
    }

    /// A link's target.
    pub fn read_link(&self, path: &TreePath) -> Result<Vec<u8>, FolderError> {
        let parent = self.parent_of(path)?.ok_or_else(|| at("read the link", path, Errno::NOENT))?;
        let target = rustix::fs::readlinkat(&parent, name_of(path), Vec::new());
        Ok(target.map_err(|errno| at("read the link", path, errno))?.into_bytes())
    }

    fn open_at(
        &self,
        path: &TreePath,
        flags: OFlags,
        action: &'static str,
    ) -> Result<Option<OwnedFd>, FolderError> {
        match rustix::fs::openat2(
            &self.handle,
            path.as_os(),
            flags | OFlags::CLOEXEC,
            Bits::empty(),
            CONFINED,
        ) {
            Ok(handle) => Ok(Some(handle)),
            // A link or a file where a folder should be: what is named does not exist inside.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(at(action, path, errno)),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Reads an open file, if it is a regular one, to at most `bound` bytes.
pub(crate) fn read_file(
    handle: OwnedFd,
    shown: &str,
    bound: u64,
) -> Result<(Vec<u8>, Executable), FolderError> {
    let failed = |source| FolderError::At { action: "read", path: shown.to_owned(), source };
    let file = std::fs::File::from(handle);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(FolderError::NoFile { path: shown.to_owned() });
    }
    let too_large = || FolderError::TooLarge { path: shown.to_owned(), bound };
    if metadata.len() > bound {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).map_err(|_| too_large())?);
    file.take(bound.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > bound {
        return Err(too_large());
    }
    Ok((bytes, executable(metadata.mode())))
}

/// What a stat says of a name.
pub(crate) fn found(stat: &Stat) -> Found {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Found::File {
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            // Narrower on some architectures, so that the conversion is needed there.
            #[allow(clippy::useless_conversion)]
            links: u64::from(stat.st_nlink),
            executable: executable(stat.st_mode),
        },
        FileType::Directory => Found::Folder,
        FileType::Symlink => Found::Link,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Found::Special,
    }
}

const fn executable(mode: u32) -> Executable {
    if mode & 0o100 != 0 { Executable::Yes } else { Executable::No }
}

/// The last name as the system takes it.
pub(crate) fn name_of(path: &TreePath) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(path.name()))
}

pub(crate) fn at(action: &'static str, path: &TreePath, errno: Errno) -> FolderError {
    FolderError::At { action, path: path.to_string(), source: errno.into() }
}
