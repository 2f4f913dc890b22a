//! Hands the host's folders of a container over to the user who writes in it.
//!
//! The content may be hostile: no link is followed, and nothing outside the folder is touched.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid};

use crate::sandbox::{ContainerSpec, SandboxError};

/// Folders nested deeper than this are not walked into; no real project has them.
const MAX_DEPTH: usize = 512;

/// Makes both folders where they are missing, and `owner` the owner of the whole workspace, and of the home
/// unless it is already.
pub fn hand_over(spec: &ContainerSpec, owner: Option<(u32, u32)>) -> Result<(), SandboxError> {
    for folder in [&spec.workspace, &spec.home] {
        std::fs::create_dir_all(folder).map_err(|source| SandboxError::Create {
            what: format!("cannot make {}", folder.display()),
            source,
        })?;
    }
    let Some((user, group)) = owner else { return Ok(()) };
    let owner = (Uid::from_raw(user), Gid::from_raw(group));
    let failed = |path: &Path| {
        let what = format!("cannot hand {} over to its user", path.display());
        move |source: io::Error| SandboxError::Create { what, source }
    };
    let folder = open(CWD, &spec.workspace).map_err(failed(&spec.workspace))?;
    give(folder, owner, 0).map_err(failed(&spec.workspace))?;
    let home = open(CWD, &spec.home).map_err(failed(&spec.home))?;
    let stat = rustix::fs::fstat(&home).map_err(io::Error::from).map_err(failed(&spec.home))?;
    if stat.st_uid != user {
        // Inner folders first and the home itself last, so that a walk cut short is done again.
        give(home, owner, 0).map_err(failed(&spec.home))?;
    }
    Ok(())
}

fn open(at: impl AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

fn give(folder: OwnedFd, owner: (Uid, Gid), depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("its folders are nested too deep"));
    }
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            give(open(&folder, name)?, owner, depth + 1)?;
        } else if (stat.st_uid, stat.st_gid) != (owner.0.as_raw(), owner.1.as_raw()) {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&folder, name, Some(owner.0), Some(owner.1), flags)?;
        }
    }
    rustix::fs::fchown(&folder, Some(owner.0), Some(owner.1))?;
    Ok(())
}
