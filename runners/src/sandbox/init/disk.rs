//! The bound on what is written to the host's disk, where no file system can hold it: looking often, best
//! effort.
//!
//! A file system's own count of what is used costs nothing to read. Only when it has grown by a good part of
//! the limit is the folder itself walked, since others may write to the same file system.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::process::Pid;

use super::watch;

/// The part of the limit by which a file system grows before the folder is walked again.
const STEPS: u64 = 8;
/// Folders nested deeper than this are not counted: they are over the limit.
const DEPTH: usize = 256;
/// Bytes of a block, see stat(2).
const BLOCK: u64 = 512;

/// Bytes and names.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Use {
    pub bytes: u64,
    pub files: u64,
}

impl Use {
    fn over(self, limit: Use) -> bool {
        self.bytes > limit.bytes || self.files > limit.files
    }

    fn since(self, before: Use) -> Use {
        let (bytes, files) =
            (self.bytes.saturating_sub(before.bytes), self.files.saturating_sub(before.files));
        Use { bytes, files }
    }
}

/// Watches the writable folders of one command.
pub struct DiskWatch {
    folders: Vec<Folder>,
    limit: Use,
}

struct Folder {
    path: PathBuf,
    /// What its file system held when it was last walked, or at the beginning.
    walked_at: Use,
    begun_at: Use,
}

impl DiskWatch {
    pub fn begin<'a>(folders: impl Iterator<Item = &'a Path>, limit: Use) -> Self {
        let folder = |path: &Path| {
            let now = used(path).unwrap_or_default();
            Folder { path: path.to_owned(), walked_at: now, begun_at: now }
        };
        Self { folders: folders.map(folder).collect(), limit }
    }

    /// Whether one of the folders holds more than it may.
    pub fn is_over(&mut self, init: Pid) -> bool {
        let limit = self.limit;
        let step = Use { bytes: limit.bytes / STEPS, files: limit.files / STEPS };
        self.folders.iter_mut().any(|folder| {
            let Ok(now) = used(&folder.path) else { return false };
            if !now.since(folder.walked_at).over(step) {
                return false;
            }
            folder.walked_at = now;
            match walk(&folder.path) {
                Ok(mut held) => {
                    held.bytes += unlinked(init, &folder.path);
                    held.over(limit)
                }
                // What cannot be counted is held against what the file system itself says.
                Err(_) => now.since(folder.begun_at).over(limit),
            }
        })
    }
}

/// What the file system below `path` has in use.
fn used(path: &Path) -> io::Result<Use> {
    let found = rustix::fs::statvfs(path)?;
    let bytes = found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize;
    Ok(Use { bytes, files: found.f_files.saturating_sub(found.f_ffree) })
}

/// Counts a folder of strangers: no link is followed, and a file with several names counts once.
fn walk(path: &Path) -> io::Result<Use> {
    let mut walk = Walk { seen: BTreeSet::new(), found: Use::default() };
    walk.folder(&open(CWD, path)?, 0)?;
    Ok(walk.found)
}

fn open(at: impl AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

struct Walk {
    seen: BTreeSet<u64>,
    found: Use,
}

impl Walk {
    fn folder(&mut self, folder: &OwnedFd, depth: usize) -> io::Result<()> {
        if depth > DEPTH {
            self.found = Use { bytes: u64::MAX, files: u64::MAX };
            return Ok(());
        }
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            // What has gone in between holds nothing any more.
            let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            self.found.files = self.found.files.saturating_add(1);
            let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
            if stat.st_nlink < 2 || self.seen.insert(stat.st_ino) {
                self.found.bytes = self.found.bytes.saturating_add(blocks * BLOCK);
            }
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                match open(folder, name) {
                    Ok(inner) => self.folder(&inner, depth + 1)?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// Bytes of files that have no name any more and are held open.
fn unlinked(init: Pid, folder: &Path) -> u64 {
    let Ok(device) = fs::metadata(folder).map(|found| found.dev()) else { return 0 };
    let mut seen = BTreeSet::new();
    let mut bytes = 0_u64;
    for process in watch::tree(init) {
        for entry in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
            let Ok(found) = fs::metadata(entry.path()) else { continue };
            if found.is_file() && found.nlink() == 0 && found.dev() == device && seen.insert(found.ino()) {
                bytes = bytes.saturating_add(found.blocks() * BLOCK);
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_counted_by_what_it_holds_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(root.join("a/file"), root.join("a/b/again")).unwrap();
        std::os::unix::fs::symlink("/usr", root.join("link")).unwrap();
        fs::File::create(root.join("sparse")).unwrap().set_len(1 << 40).unwrap();
        let held = walk(&root).unwrap();
        assert_eq!(held.files, 6);
        assert!((1 << 20..2 << 20).contains(&held.bytes), "{}", held.bytes);
    }

    #[test]
    fn a_nest_that_is_too_deep_to_be_counted_is_over_every_limit() {
        let folder = tempfile::tempdir().unwrap();
        let nest = folder.path().join("d/".repeat(DEPTH + 2));
        fs::create_dir_all(nest).unwrap();
        assert!(walk(folder.path()).unwrap().over(Use { bytes: u64::MAX - 1, files: u64::MAX - 1 }));
    }

    #[test]
    fn an_open_file_without_a_name_is_counted() {
        use std::io::Write as _;
        let folder = tempfile::tempdir().unwrap();
        let mut file = tempfile::tempfile_in(folder.path()).unwrap();
        file.write_all(&vec![1; 3 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!(unlinked(rustix::process::getpid(), folder.path()) >= 3 << 20);
    }
}
