//! Which lockfiles an install changed, and the folders that it made for later containers.

use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::fs::{Mode as Bits, OFlags};

use super::InstallStep;
use crate::sandbox::{Bind, WORKSPACE};
use crate::workspace::tree::blob_id;
use crate::workspace::{Folder, Tree, TreePath};

/// A lockfile larger than this counts as changed without being read.
const MAX_LOCKFILE: u64 = 64 << 20;

/// The lockfiles of a step that are not as the tree has them. They lie in Bootstrap's own copy of the
/// tree, so what an install did to them reaches no later container.
pub(super) fn changed(workspace: &Path, tree: &Tree, step: &InstallStep) -> Vec<String> {
    let Ok(root) = Folder::open(workspace) else { return step.lockfiles.clone() };
    let is_changed = |name: &&String| {
        let Ok(path) = TreePath::parse(name.as_str()) else { return false };
        let before = tree.entry(&path).map(|entry| entry.id);
        let now = match root.look(&path) {
            Ok(None) => None,
            Ok(Some(_)) => match root.read(&path, MAX_LOCKFILE) {
                Ok((content, _)) => Some(blob_id(&content)),
                Err(_) => return true,
            },
            Err(_) => return true,
        };
        before != now
    };
    step.lockfiles.iter().filter(is_changed).cloned().collect()
}

/// Binds of the folders that the steps made, each reached without following a link.
pub(super) fn carried(workspace: &Path, steps: &[InstallStep]) -> Vec<Bind> {
    let folders = steps.iter().flat_map(|step| &step.carries);
    folders
        .filter(|folder| is_plain_folder(workspace, folder))
        .map(|folder| Bind { host: workspace.join(folder), inside: Path::new(WORKSPACE).join(folder) })
        .collect()
}

fn is_plain_folder(workspace: &Path, folder: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(mut at) = rustix::fs::open(workspace, flags, Bits::empty()) else { return false };
    for name in folder.split('/') {
        match rustix::fs::openat(at.as_fd(), name, flags, Bits::empty()) {
            Ok(next) => at = next,
            Err(_) => return false,
        }
    }
    true
}
