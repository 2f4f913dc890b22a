//! Removes a folder that code of strangers has written in.
//!
//! No link is followed, folders that were closed are opened, and a nest of folders deeper than a process
//! has descriptors is taken apart level by level, since a folder that cannot be removed would stay for ever.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};

/// Folders that are open at a time; what lies deeper is moved up to the top first.
const MOST_OPEN: usize = 64;

/// Removes the folder and everything below it. One that is not there is removed already.
pub fn remove(folder: &Path) -> io::Result<()> {
    let top = match open(CWD, folder) {
        Ok(top) => top,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut removal = Removal { top: top.try_clone()?, moved: 0 };
    // What is moved up lies in the top folder, which is looked at again until it is empty.
    while removal.empty(&top, 0)? {}
    drop((top, removal));
    std::fs::remove_dir(folder)
}

struct Removal {
    top: OwnedFd,
    moved: u64,
}

impl Removal {
    /// Empties a folder; says whether it moved something to the top.
    fn empty(&mut self, folder: &OwnedFd, depth: usize) -> io::Result<bool> {
        let mut moved = false;
        for (name, kind) in names(folder)? {
            if kind != FileType::Directory {
                rustix::fs::unlinkat(folder, &name, AtFlags::empty())?;
                continue;
            }
            if depth >= MOST_OPEN {
                self.move_up(folder, &name)?;
                moved = true;
                continue;
            }
            let inner = open(folder, name.as_c_str())?;
            moved |= self.empty(&inner, depth + 1)?;
            rustix::fs::unlinkat(folder, &name, AtFlags::REMOVEDIR)?;
        }
        Ok(moved)
    }

    fn move_up(&mut self, folder: &OwnedFd, name: &CStr) -> io::Result<()> {
        loop {
            self.moved += 1;
            let to = format!(".removed-{}", self.moved);
            match rustix::fs::renameat_with(folder, name, &self.top, to.as_str(), RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Read whole before anything is removed, since the kernel need not list what moves meanwhile.
fn names(folder: &OwnedFd) -> io::Result<Vec<(CString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        found.push((name.to_owned(), kind));
    }
    Ok(found)
}

/// Opens a folder; one that its owner has closed is opened for him.
fn open(at: impl AsFd, path: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(&at, path, flags, Mode::empty()) {
        Err(rustix::io::Errno::ACCESS) => {
            let reached = rustix::fs::openat(&at, path, OFlags::PATH | flags, Mode::empty())?;
            unlock(&reached)?;
            rustix::fs::openat(&at, path, flags, Mode::empty())?
        }
        other => other?,
    };
    // Entries can be removed only where one may write.
    let stat = rustix::fs::fstat(&opened)?;
    if Mode::from_raw_mode(stat.st_mode) & Mode::RWXU != Mode::RWXU {
        rustix::fs::fchmod(&opened, Mode::RWXU)?;
    }
    Ok(opened)
}

/// A descriptor of a path alone has no mode to be changed, but its name in /proc has.
fn unlock(reached: &OwnedFd) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let name = format!("/proc/self/fd/{}", reached.as_raw_fd());
    Ok(rustix::fs::chmod(name.as_str(), Mode::RWXU)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_nest_of_folders_deeper_than_any_path_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let mut at = open(CWD, root.as_path()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            rustix::fs::mkdirat(&at, "beside", Mode::RWXU).unwrap();
            at = open(&at, "d").unwrap();
        }
        remove(&root).unwrap();
        assert!(!root.exists());
        remove(&root).unwrap();
    }

    #[test]
    fn links_are_removed_and_never_followed_and_closed_folders_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        std::fs::create_dir_all(root.join("closed/within")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "x").unwrap();
        symlink(&outside, root.join("link")).unwrap();
        std::fs::set_permissions(root.join("closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
        remove(&root).unwrap();
        assert!(!root.exists() && outside.join("kept").exists());
    }
}
