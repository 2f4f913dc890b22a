//! The local forge's bare repositories: objects, refs, and a push that expects the old head.
//!
//! Repositories are opened in isolation, so that neither the machine's nor the user's git
//! configuration has a say, and no program is ever started.

use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::BString;
use gix::objs::tree::{Editor, EntryKind};
use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit};
use jobs::changeset::{FileMode, FileNow, FileState};
use jobs::clock::Millis;
use jobs::id::{CommitId, TreeId};

use super::LocalError;
use crate::forge::Commit;

/// One bare repository.
pub(super) struct Bare {
    repository: gix::Repository,
    path: PathBuf,
}

/// Who stands in a commit.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub name: String,
    pub email: String,
}

/// A commit to be made.
pub(super) struct NewCommit<'a> {
    pub parent: Option<&'a CommitId>,
    pub tree: ObjectId,
    pub message: &'a str,
    pub person: &'a Person,
    pub at: Millis,
}

/// What a branch must show before it moves.
pub(super) enum Expected<'a> {
    /// It does not exist.
    Nothing,
    Head(&'a CommitId),
}

/// Whether a branch moved.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Moved {
    Yes,
    /// It showed something else.
    No,
}

impl Bare {
    /// Makes a repository whose default branch is `branch`.
    pub(super) fn create(path: &Path, branch: &str) -> Result<Self, LocalError> {
        std::fs::create_dir_all(path).map_err(failed("make the folder", path))?;
        gix::init_bare(path).map_err(failed("make the repository", path))?;
        let head = format!("ref: refs/heads/{branch}\n");
        std::fs::write(path.join("HEAD"), head).map_err(failed("write HEAD of", path))?;
        Self::open(path)
    }

    /// Opens a repository that exists.
    pub(super) fn open(path: &Path) -> Result<Self, LocalError> {
        let options = gix::open::Options::isolated().open_path_as_is(true);
        let repository = gix::open_opts(path, options).map_err(failed("open the repository", path))?;
        Ok(Self { repository, path: path.to_owned() })
    }

    /// The commit that a full ref name shows; `None` where there is no such ref.
    pub(super) fn show(&self, reference: &str) -> Result<Option<CommitId>, LocalError> {
        match self.repository.try_find_reference(reference).map_err(self.failed("read a ref of"))? {
            Some(found) => found.try_id().map(|id| commit_id(&id.detach())).transpose(),
            None => Ok(None),
        }
    }

    /// A commit; `None` where there is no such commit.
    pub(super) fn commit(&self, id: &CommitId) -> Result<Option<Commit>, LocalError> {
        let Some(object) =
            self.repository.try_find_object(object_id(id.as_str())?).map_err(self.failed("read"))?
        else {
            return Ok(None);
        };
        let Ok(commit) = object.try_into_commit() else { return Ok(None) };
        let read = self.failed("read a commit of");
        let decoded = commit.decode().map_err(read)?;
        let parents = decoded.parents().map(|parent| commit_id(&parent)).collect::<Result<_, _>>()?;
        Ok(Some(Commit {
            id: id.clone(),
            tree: tree_id(&decoded.tree())?,
            parents,
            message: decoded.message.to_string(),
        }))
    }

    /// The names at the root of a tree.
    pub(super) fn root_names(&self, tree: &TreeId) -> Result<Option<Vec<String>>, LocalError> {
        let id = object_id(tree.as_str())?;
        if id.is_empty_tree() {
            return Ok(Some(Vec::new()));
        }
        let Some(object) = self.repository.try_find_object(id).map_err(self.failed("read"))? else {
            return Ok(None);
        };
        let Ok(tree) = object.try_into_tree() else { return Ok(None) };
        let decoded = tree.decode().map_err(self.failed("read a tree of"))?;
        Ok(Some(decoded.entries.iter().map(|entry| entry.filename.to_string()).collect()))
    }

    /// A file's size and content at a commit; the content is only read when `limit` allows it.
    pub(super) fn file(
        &self,
        commit: &Commit,
        path: &str,
        limit: usize,
    ) -> Result<Option<FileContent>, LocalError> {
        let tree = self.find_tree(object_id(commit.tree.as_str())?)?;
        let entry = tree.lookup_entry(path.split('/').map(BString::from));
        let Some(entry) = entry.map_err(self.failed("look up a path in"))? else { return Ok(None) };
        if !entry.mode().is_blob() {
            return Ok(None);
        }
        let header = self.repository.find_header(entry.object_id()).map_err(self.failed("read"))?;
        if header.size() > limit as u64 {
            return Ok(Some(FileContent::TooLarge));
        }
        let blob = self.repository.find_blob(entry.object_id()).map_err(self.failed("read a file of"))?;
        Ok(Some(FileContent::Whole(blob.detach().data)))
    }

    /// Writes the tree that `files` make out of `base` and gives its id.
    pub(super) fn write_tree(
        &self,
        base: Option<&TreeId>,
        files: &[FileState],
    ) -> Result<ObjectId, LocalError> {
        let root = match base {
            Some(base) => {
                let tree = self.find_tree(object_id(base.as_str())?)?;
                gix::objs::Tree::from(tree.decode().map_err(self.failed("read a tree of"))?)
            }
            None => gix::objs::Tree::empty(),
        };
        let mut editor = Editor::new(root, &self.repository.objects, self.repository.object_hash());
        for file in files {
            let parts = file.path.split('/').map(BString::from);
            match &file.now {
                FileNow::Deleted => editor.remove(parts).map(drop),
                FileNow::File { mode, content } => {
                    let blob = self.repository.write_blob(content).map_err(self.failed("write to"))?;
                    editor.upsert(parts, kind(*mode), blob.detach()).map(drop)
                }
            }
            .map_err(self.failed("make a tree in"))?;
        }
        editor
            .write(|tree| self.repository.write_object(tree).map(gix::Id::detach))
            .map_err(self.failed("write a tree to"))
    }

    /// Writes a commit; no ref shows it yet.
    pub(super) fn write_commit(&self, new: &NewCommit<'_>) -> Result<CommitId, LocalError> {
        let signature = gix::actor::Signature {
            name: new.person.name.as_str().into(),
            email: new.person.email.as_str().into(),
            time: gix::date::Time::new(new.at.div_euclid(1000), 0),
        };
        let parents = new.parent.map(|parent| object_id(parent.as_str())).transpose()?;
        let commit = gix::objs::Commit {
            tree: new.tree,
            parents: parents.into_iter().collect(),
            author: signature.clone(),
            committer: signature,
            encoding: None,
            message: new.message.into(),
            extra_headers: Vec::new(),
        };
        let id = self.repository.write_object(&commit).map_err(self.failed("write a commit to"))?;
        commit_id(&id.detach())
    }

    /// Lets `branch` show `to`, when it shows what is expected, and refs that follow it as well.
    pub(super) fn move_branch(
        &self,
        branch: &str,
        expected: Expected<'_>,
        to: &CommitId,
        followers: &[String],
    ) -> Result<Moved, LocalError> {
        let reference = format!("refs/heads/{branch}");
        let previous = match &expected {
            Expected::Nothing => PreviousValue::MustNotExist,
            Expected::Head(head) => PreviousValue::MustExistAndMatch(object_id(head.as_str())?.into()),
        };
        let to_id = object_id(to.as_str())?;
        let mut edits = vec![update(&reference, previous, to_id)?];
        for follower in followers {
            edits.push(update(follower, PreviousValue::Any, to_id)?);
        }
        match self.repository.edit_references_as(edits, None) {
            Ok(_) => Ok(Moved::Yes),
            Err(error) => {
                // The edit fails alike for a lost race and for a full disk; the ref tells which.
                let shown = self.show(&reference)?;
                let as_expected = match expected {
                    Expected::Nothing => shown.is_none(),
                    Expected::Head(head) => shown.as_ref() == Some(head),
                };
                if as_expected { Err(self.failed("move a branch of")(error)) } else { Ok(Moved::No) }
            }
        }
    }

    fn find_tree(&self, id: ObjectId) -> Result<gix::Tree<'_>, LocalError> {
        self.repository.find_tree(id).map_err(self.failed("read a tree of"))
    }

    fn failed<E: std::fmt::Display>(&self, doing: &'static str) -> impl FnOnce(E) -> LocalError {
        failed(doing, &self.path)
    }
}

/// A file's bytes, unless there are too many of them.
pub(super) enum FileContent {
    Whole(Vec<u8>),
    TooLarge,
}

fn failed<E: std::fmt::Display>(doing: &'static str, path: &Path) -> impl FnOnce(E) -> LocalError {
    let path = path.to_owned();
    move |error| LocalError::Git { doing, path, why: error.to_string() }
}

fn update(name: &str, expected: PreviousValue, to: ObjectId) -> Result<RefEdit, LocalError> {
    let log = LogChange::default();
    let name = name.try_into().map_err(|_| LocalError::Unusable(format!("the ref name {name:?}")))?;
    Ok(RefEdit::new(name, Change::Update { log, expected, new: to.into() }))
}

fn kind(mode: FileMode) -> EntryKind {
    match mode {
        FileMode::Regular => EntryKind::Blob,
        FileMode::Executable => EntryKind::BlobExecutable,
        FileMode::Symlink => EntryKind::Link,
    }
}

fn object_id(hex: &str) -> Result<ObjectId, LocalError> {
    ObjectId::from_hex(hex.as_bytes()).map_err(|_| LocalError::Unusable(format!("the object id {hex}")))
}

fn commit_id(id: &ObjectId) -> Result<CommitId, LocalError> {
    id.to_string().parse().map_err(|_| LocalError::Unusable(format!("the object id {id}")))
}

/// The id of a tree as this crate names it.
pub(super) fn tree_id(id: &ObjectId) -> Result<TreeId, LocalError> {
    id.to_string().parse().map_err(|_| LocalError::Unusable(format!("the object id {id}")))
}
