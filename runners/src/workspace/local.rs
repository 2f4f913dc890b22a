//! Copies a commit between two repositories of this host, object by object.
//!
//! Every object is hashed again while it is written, so a source that was tampered with cannot give
//! bytes under a name that they do not have.

use std::collections::BTreeSet;

use gix::ObjectId;
use gix::objs::Kind;
use jobs::id::CommitId;

use super::clone::History;
use super::objects::{Objects, ObjectsError, object_id};

/// Copies `commit` with its whole tree, and its past if that is asked for.
pub(super) fn copy(
    from: &Objects,
    to: &Objects,
    commit: &CommitId,
    history: History,
) -> Result<(), ObjectsError> {
    let mut copy = Copy { from: from.local(), to: to.local(), done: BTreeSet::new() };
    let first = object_id(commit.as_str())?;
    let mut open = vec![first];
    while let Some(id) = open.pop() {
        if !copy.done.insert(id) {
            continue;
        }
        let (tree, parents) = copy.commit(id)?;
        copy.tree(tree)?;
        match history {
            History::None => {}
            // A shallow source ends where its past does.
            History::Full => open.extend(parents.into_iter().filter(|&parent| copy.from.has_object(parent))),
        }
    }
    if history == History::None {
        mark_shallow(to, first)?;
    }
    Ok(())
}

/// Says that the past of a commit is left out on purpose, as git does.
pub(super) fn mark_shallow(objects: &Objects, commit: ObjectId) -> Result<(), ObjectsError> {
    std::fs::write(objects.folder().join("shallow"), format!("{commit}\n")).map_err(|source| {
        ObjectsError::Write { kind: "shallow boundary", source: Box::new(gix::Error::from_error(source)) }
    })
}

struct Copy {
    from: gix::Repository,
    to: gix::Repository,
    done: BTreeSet<ObjectId>,
}

impl Copy {
    fn commit(&mut self, id: ObjectId) -> Result<(ObjectId, Vec<ObjectId>), ObjectsError> {
        let bytes = self.object(id, Kind::Commit)?;
        let parsed = gix::objs::CommitRef::from_bytes(&bytes, gix::hash::Kind::Sha1).map_err(|source| {
            ObjectsError::Read { id: id.to_string(), source: Box::new(gix::Error::from_error(source)) }
        })?;
        Ok((parsed.tree(), parsed.parents().collect()))
    }

    fn tree(&mut self, root: ObjectId) -> Result<(), ObjectsError> {
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            if !self.done.insert(id) {
                continue;
            }
            let bytes = self.object(id, Kind::Tree)?;
            for entry in gix::objs::TreeRefIter::from_bytes(&bytes, gix::hash::Kind::Sha1) {
                let entry = entry.map_err(|_| ObjectsError::Form {
                    tree: id.to_string(),
                    why: "an entry cannot be read",
                })?;
                let child = entry.oid.to_owned();
                if entry.mode.is_tree() {
                    open.push(child);
                } else if !entry.mode.is_commit() && self.done.insert(child) {
                    self.object(child, Kind::Blob)?;
                }
            }
        }
        Ok(())
    }

    /// Copies one object and gives its bytes.
    fn object(&self, id: ObjectId, kind: Kind) -> Result<Vec<u8>, ObjectsError> {
        use gix::objs::Write as _;
        let missing = || ObjectsError::Missing { kind: super::objects::kind_name(kind), id: id.to_string() };
        let read = |source| ObjectsError::Read { id: id.to_string(), source: Box::new(source) };
        if kind == Kind::Tree && id == ObjectId::empty_tree(gix::hash::Kind::Sha1) {
            return Ok(Vec::new());
        }
        let object = self.from.try_find_object(id).map_err(read)?.ok_or_else(missing)?;
        if object.kind != kind {
            return Err(missing());
        }
        let bytes = object.detach().data;
        if !self.to.has_object(id) {
            let write = |source| ObjectsError::Write {
                kind: super::objects::kind_name(kind),
                source: Box::new(source),
            };
            let written = self.to.objects.write_buf(kind, &bytes).map_err(write)?;
            if written != id {
                return Err(ObjectsError::Form {
                    tree: id.to_string(),
                    why: "the source gives other bytes under this id",
                });
            }
        }
        Ok(bytes)
    }
}
