//! Brings any folder of this host into a private object store as one commit.
//!
//! The folder may be a working copy of git or not, and it may be hostile: its own git folder is only
//! read as an object store. Its configuration, hooks and filters have no say.

use std::path::{Path, PathBuf};

use jobs::id::{CommitId, TreeId};

use super::clone::History;
use super::objects::{NewCommit, Objects, ObjectsError};
use super::scan::{Note, ScanError, scan_by_own_rules};
use super::tree::Tree;
use super::{Bounds, local};

/// The time of a commit that is made here, so that one content gives one commit id: 2000-01-01 UTC.
const COMMIT_SECONDS: i64 = 946_684_800;

/// What came in.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub objects: Objects,
    pub commit: CommitId,
    pub tree: TreeId,
    pub origin: Origin,
    pub files: u64,
    pub bytes: u64,
    /// What of the folder is no part of the commit.
    pub notes: Vec<Note>,
}

/// Where the commit comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The folder is as its `HEAD` says.
    Head,
    /// The folder has no commit, or differs from it: a commit was made of what it holds.
    Made,
}

/// A folder could not be brought in.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("cannot read the folder {folder}")]
    Scan { folder: PathBuf, source: ScanError },
    #[error("cannot keep what {folder} holds")]
    Objects { folder: PathBuf, source: ObjectsError },
    #[error("{folder} has no files that count; is everything ignored?")]
    Empty { folder: PathBuf },
}

/// Imports `path` into a new bare repository at `into`.
pub fn snapshot(path: &Path, into: &Path, bounds: &Bounds) -> Result<Snapshot, SnapshotError> {
    let keep = |source| SnapshotError::Objects { folder: path.to_owned(), source };
    let head = head_of(path, bounds);
    let base = head.as_ref().map_or_else(Tree::empty, |head| head.tree.clone());
    let scan = scan_by_own_rules(path, &base, bounds)
        .map_err(|source| SnapshotError::Scan { folder: path.to_owned(), source })?;
    if scan.tree.entries().is_empty() {
        return Err(SnapshotError::Empty { folder: path.to_owned() });
    }
    let objects = Objects::init(into).map_err(keep)?;
    let (commit, origin) = match head {
        Some(head) if head.tree.id() == scan.tree.id() => {
            local::copy(&head.objects, &objects, &head.commit, History::None).map_err(keep)?;
            (head.commit, Origin::Head)
        }
        Some(_) | None => {
            let tree = objects.write_tree(&scan.tree).map_err(keep)?;
            (objects.write_commit(&commit_of(tree)).map_err(keep)?, Origin::Made)
        }
    };
    let objects = Objects::open(into).map_err(keep)?;
    let tree = objects.tree_at(&commit, bounds).map_err(keep)?;
    let bytes = objects.size_of(&tree).map_err(keep)?;
    let files = tree.entries().len() as u64;
    Ok(Snapshot { commit, tree: tree.id().clone(), origin, files, bytes, notes: scan.notes, objects })
}

fn commit_of(tree: TreeId) -> NewCommit {
    NewCommit {
        tree,
        parents: Vec::new(),
        name: "Whipstitch".to_owned(),
        email: "whipstitch@localhost".to_owned(),
        seconds: COMMIT_SECONDS,
        message: "Files of a folder as they were found\n".to_owned(),
    }
}

/// The commit that a working copy stands on.
struct Head {
    objects: Objects,
    commit: CommitId,
    tree: Tree,
}

/// `None` where the folder has no commit that can be read; then all of its files are new.
fn head_of(path: &Path, bounds: &Bounds) -> Option<Head> {
    let git = path.join(".git");
    if !git.exists() {
        return None;
    }
    let objects = Objects::open(&git).ok()?;
    let commit = objects.reference("HEAD").ok()??;
    let tree = objects.tree_at(&commit, bounds).ok()?;
    Some(Head { objects, commit, tree })
}
