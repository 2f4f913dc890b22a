//! The folders of one run on this node, and fresh copies of what the installation left.
//!
//! Every container that checks a tree gets its own workspace and its own home: the files of the tree
//! written anew, and copies of what was installed before any code of the repository could touch it. So
//! nothing that a check leaves behind (a build cache, a configuration of a tool, a file older than it
//! claims to be) is ever seen by the check of another tree.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use jobs::id::RunId;
use rustix::fs::{AtFlags, FileType, Gid, Mode as Bits, OFlags, Timespec, Timestamps, Uid};

use crate::sandbox::removal;
use crate::workspace::{Tree, TreePath};

/// Folders are not entered deeper than this.
const DEPTH: usize = 128;
/// More than this is not copied.
const BYTES: u64 = 16 << 30;
const NAMES: u64 = 4 << 20;

/// How the names of folders for one container begin.
const PER_CONTAINER: [&str; 3] = ["check-", "agent-", "self-test-"];

/// Where a run keeps its things on this node. Only this process's user reaches it; what containers write
/// lies two levels below.
#[derive(Clone, Debug)]
pub struct Folders {
    root: PathBuf,
}

impl Folders {
    /// The folders of `run` below the data folder.
    pub fn of(data_dir: &Path, run: &RunId) -> Self {
        Self { root: data_dir.join("runs").join(run.as_str()) }
    }

    /// Makes the root, closed to others.
    pub fn make(&self) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o711).create(&self.root)
    }

    /// The private object store.
    pub fn objects(&self) -> PathBuf {
        self.root.join("objects.git")
    }

    /// Where dependencies are installed: its workspace and its home.
    pub fn installed(&self) -> PathBuf {
        self.root.join("installed")
    }

    /// Exists once the installation is complete.
    pub fn installed_mark(&self) -> PathBuf {
        self.root.join("installed.done")
    }

    /// A new folder for one container.
    pub fn fresh(&self, name: &str) -> io::Result<tempfile::TempDir> {
        let folder = tempfile::Builder::new().prefix(name).tempdir_in(&self.root)?;
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711))?;
        Ok(folder)
    }

    /// Takes away what a worker that died had made for single containers.
    pub fn remove_leftovers(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.root)?.flatten() {
            let name = entry.file_name();
            if PER_CONTAINER.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                removal::remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Takes everything of the run away, but for what is in artifacts and the bundle.
    pub fn remove(&self) -> io::Result<()> {
        removal::remove(&self.root)
    }
}

/// Copies what is below `from` and not yet below `to`, but for the paths of `tree`, which are written by
/// others. Links are copied as links and never followed; devices, sockets and pipes are left out.
pub fn copy_missing(
    from: &Path,
    to: &Path,
    tree: Option<&Tree>,
    owner: Option<(u32, u32)>,
) -> io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    let folder = |path: &Path| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Bits::empty())
    };
    let taken: BTreeSet<&[u8]> =
        tree.map(|tree| tree.entries().keys().map(TreePath::as_bytes).collect()).unwrap_or_default();
    let owner = owner.map(|(user, group)| (Uid::from_raw(user), Gid::from_raw(group)));
    let mut copy = Copy { taken, owner, bytes: 0, names: 0 };
    copy.folder(&folder(from)?, &folder(to)?, &mut Vec::new(), 0)
}

struct Copy<'a> {
    taken: BTreeSet<&'a [u8]>,
    owner: Option<(Uid, Gid)>,
    bytes: u64,
    names: u64,
}

impl Copy<'_> {
    fn folder(&mut self, from: &OwnedFd, to: &OwnedFd, path: &mut Vec<u8>, depth: usize) -> io::Result<()> {
        if depth > DEPTH {
            return Err(io::Error::other("installed folders are nested too deeply to be copied"));
        }
        for entry in rustix::fs::Dir::read_from(from)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.names += 1;
            if self.names > NAMES || self.bytes > BYTES {
                return Err(io::Error::other("more was installed than can be copied for each check"));
            }
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            if !self.taken.contains(path.as_slice()) {
                self.entry(from, to, name, path, depth)?;
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &std::ffi::CStr,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> io::Result<()> {
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let bits = Bits::from_raw_mode(stat.st_mode & 0o777);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let source = rustix::fs::openat(from, name, flags, Bits::empty())?;
                match rustix::fs::mkdirat(to, name, Bits::from_raw_mode(0o755)) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                let target = rustix::fs::openat(to, name, flags, Bits::empty())?;
                self.folder(&source, &target, path, depth + 1)?;
                rustix::fs::fchmod(&target, bits | Bits::RWXU)?;
                self.own(&target)
            }
            FileType::RegularFile => self.file(from, to, name, bits),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(from, name, Vec::new())?;
                match rustix::fs::symlinkat(&target, to, name) {
                    Ok(()) => {}
                    Err(rustix::io::Errno::EXIST) => return Ok(()),
                    Err(errno) => return Err(errno.into()),
                }
                if let Some((user, group)) = self.owner {
                    rustix::fs::chownat(to, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
                }
                Ok(())
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(()),
        }
    }

    fn file(&mut self, from: &OwnedFd, to: &OwnedFd, name: &std::ffi::CStr, bits: Bits) -> io::Result<()> {
        let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let source = rustix::fs::openat(from, name, read, Bits::empty())?;
        // Looked at again through the handle: the name may have become something else.
        let stat = rustix::fs::fstat(&source)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = match rustix::fs::openat(to, name, write, Bits::from_raw_mode(0o600)) {
            Ok(target) => target,
            Err(rustix::io::Errno::EXIST) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
            io::copy(&mut File::from(source), &mut File::from(target.try_clone()?))?;
        }
        self.bytes += u64::try_from(stat.st_size).unwrap_or(0);
        // Times stay: interpreters hold compiled files against the times of their sources.
        let time = |seconds: i64, nanoseconds: u64| Timespec {
            tv_sec: seconds,
            tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
        };
        let times = Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
        };
        rustix::fs::futimens(&target, &times)?;
        rustix::fs::fchmod(&target, bits | Bits::RUSR | Bits::WUSR)?;
        self.own(&target)
    }

    fn own(&self, target: impl AsFd) -> io::Result<()> {
        match self.owner {
            Some((user, group)) => Ok(rustix::fs::fchown(target, Some(user), Some(group))?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_installed_is_copied_and_the_tree_and_its_deletions_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir_all(from.join("node_modules/a")).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        std::fs::write(from.join("node_modules/a/index.js"), "a").unwrap();
        std::fs::write(from.join("tracked"), "as installed").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.join("node_modules/link")).unwrap();
        let tracked = crate::workspace::Entry::new(crate::workspace::Mode::Regular, &b"x"[..]);
        let tree = Tree::new([(TreePath::parse("tracked").unwrap(), tracked)].into(), None).unwrap();
        let old = File::open(from.join("node_modules/a/index.js")).unwrap();
        old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        copy_missing(&from, &to, Some(&tree), None).unwrap();
        assert_eq!(std::fs::read(to.join("node_modules/a/index.js")).unwrap(), b"a");
        let copied = std::fs::metadata(to.join("node_modules/a/index.js")).unwrap();
        assert_eq!(copied.modified().unwrap(), std::time::SystemTime::UNIX_EPOCH);
        assert!(!to.join("tracked").exists(), "a file that a patch deleted does not come back");
        assert!(std::fs::symlink_metadata(to.join("node_modules/link")).unwrap().is_symlink());
        std::fs::write(to.join("node_modules/a/index.js"), "changed").unwrap();
        copy_missing(&from, &to, None, None).unwrap();
        assert_eq!(std::fs::read(to.join("node_modules/a/index.js")).unwrap(), b"changed");
        assert_eq!(std::fs::read(from.join("node_modules/a/index.js")).unwrap(), b"a");
    }
}
