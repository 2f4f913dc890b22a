//! Commits as they are read: tree, parents and message, and all that the refs of a repository reach.

use std::collections::BTreeSet;

use gix::objs::Kind;
use jobs::id::{CommitId, TreeId};

use super::objects::{Objects, ObjectsError, commit_id, object_id, tree_id};

/// A commit's content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    pub id: CommitId,
    pub tree: TreeId,
    pub parents: Vec<CommitId>,
    /// Its message; what is no UTF-8 is replaced.
    pub message: String,
}

impl Commit {
    /// The values of a trailer: of lines `KEY: value` in the message's last paragraph.
    pub fn trailers(&self, key: &str) -> Vec<&str> {
        let lines: Vec<&str> = self.message.trim_end().lines().collect();
        let last = lines.rsplit(|line| line.trim().is_empty()).next().unwrap_or_default();
        let named = last.iter().filter_map(|line| line.split_once(':'));
        named.filter(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value.trim()).collect()
    }
}

impl Objects {
    /// Reads a commit.
    pub fn commit(&self, id: &CommitId) -> Result<Commit, ObjectsError> {
        let bytes = self.read(object_id(id.as_str())?, Kind::Commit)?;
        let parsed = gix::objs::CommitRef::from_bytes(&bytes, gix::hash::Kind::Sha1).map_err(|source| {
            ObjectsError::Read { id: id.to_string(), source: Box::new(gix::Error::from_error(source)) }
        })?;
        Ok(Commit {
            id: id.clone(),
            tree: tree_id(parsed.tree()),
            parents: parsed.parents().map(commit_id).collect(),
            message: String::from_utf8_lossy(parsed.message).into_owned(),
        })
    }

    /// Calls `see` with each commit that `HEAD` and the refs reach, once, in no order that counts; at
    /// most `most` of them. Gives whether that were all. Where history was left out, it ends.
    pub fn each_commit(&self, most: usize, mut see: impl FnMut(Commit)) -> Result<bool, ObjectsError> {
        let mut open = self.heads()?;
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if !seen.insert(id.clone()) {
                continue;
            }
            if seen.len() > most {
                return Ok(false);
            }
            let commit = match self.commit(&id) {
                Ok(commit) => commit,
                // The end of a shallow clone, or a tag of something that is no commit.
                Err(ObjectsError::Missing { .. }) => continue,
                Err(error) => return Err(error),
            };
            open.extend(commit.parents.iter().cloned());
            see(commit);
        }
        Ok(true)
    }

    fn heads(&self) -> Result<Vec<CommitId>, ObjectsError> {
        let fail = |source| ObjectsError::RefRead { name: "the refs".to_owned(), source: Box::new(source) };
        let repository = self.local();
        // Before the first commit HEAD names a branch that is not there.
        let mut heads: Vec<CommitId> = self.reference("HEAD").ok().flatten().into_iter().collect();
        for found in repository.references().map_err(fail)?.all().map_err(fail)? {
            // A ref that cannot be read, or points at nothing, shows no commit.
            let Ok(mut found) = found else { continue };
            let Ok(id) = found.peel_to_id() else { continue };
            heads.push(commit_id(id.detach()));
        }
        Ok(heads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{NewCommit, Tree};

    fn commit(message: &str) -> Commit {
        let id = || "a".repeat(40);
        Commit {
            id: id().parse().unwrap(),
            tree: id().parse().unwrap(),
            parents: Vec::new(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn trailers_stand_in_the_last_paragraph() {
        let said =
            commit("Repair\n\nWhipstitch-Run: quoted\n\nWhipstitch-Run: one\nwhipstitch-run:two\nOther: x\n");
        assert_eq!(said.trailers("Whipstitch-Run"), ["one", "two"]);
        assert!(commit("Repair\n\nKey: a\n\nthe end").trailers("Key").is_empty());
        assert!(commit("").trailers("Key").is_empty());
    }

    #[test]
    fn every_commit_that_a_ref_reaches_is_seen_once_and_no_more_than_asked() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::init(folder.path()).unwrap();
        let tree = objects.write_tree(&Tree::empty()).unwrap();
        let write = |message: &str, parents: Vec<CommitId>| {
            let (name, email, message) = ("A".to_owned(), "a@example.org".to_owned(), message.to_owned());
            let new = NewCommit { tree: tree.clone(), parents, name, email, seconds: 0, message };
            objects.write_commit(&new).unwrap()
        };
        let first = write("first", Vec::new());
        let sides = [write("left", vec![first.clone()]), write("right", vec![first])];
        for (name, id) in ["left", "right"].iter().zip(&sides) {
            std::fs::write(folder.path().join("refs/heads").join(name), format!("{id}\n")).unwrap();
        }
        let mut messages = Vec::new();
        assert!(objects.each_commit(10, |commit| messages.push(commit.message)).unwrap());
        messages.sort();
        assert_eq!(messages, ["first", "left", "right"]);
        assert!(!objects.each_commit(2, |_| {}).unwrap());
    }
}
