//! A private bare repository: blobs, trees, commits and refs, read and written without the git program.
//!
//! It is opened with nothing but its own configuration: no environment, no system or user files, no
//! hooks, no filters. What it holds may be hostile, so trees are read under bounds and every name in
//! them is checked before it becomes a [`TreePath`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix::ObjectId;
use gix::objs::Kind;
use gix::refs::transaction::PreviousValue;
use jobs::id::{CommitId, TreeId};

use super::path::{PathRefused, TreePath, is_gitmodules};
use super::tree::{self, BlobId, Entry, Mode, Tree, TreeError};
use super::{Bounds, OverBound};

/// A bare repository; cheap to clone, and every clone may be used from another thread.
#[derive(Clone)]
pub struct Objects {
    repository: Arc<gix::ThreadSafeRepository>,
    folder: PathBuf,
}

/// What failed in a repository.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    #[error("cannot make a repository in {folder}")]
    Init { folder: PathBuf, source: Box<gix::Error> },
    #[error("cannot open the repository in {folder}")]
    Open { folder: PathBuf, source: Box<gix::Error> },
    /// The id names nothing, or another kind of object.
    #[error("the repository has no {kind} {id}")]
    Missing { kind: &'static str, id: String },
    #[error("cannot read object {id}")]
    Read { id: String, source: Box<gix::Error> },
    #[error("cannot write a {kind}")]
    Write { kind: &'static str, source: Box<gix::Error> },
    /// Only SHA-1 repositories are read.
    #[error("{id} is no SHA-1 object id; repositories with SHA-256 ids are not supported")]
    ObjectFormat { id: String },
    #[error("tree {tree} holds a name that is refused")]
    Path { tree: String, source: PathRefused },
    /// Git would not make such a tree, so nothing that git does with it can be relied on.
    #[error("tree {tree} is not in git's form: {why}")]
    Form { tree: String, why: &'static str },
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Bound(#[from] OverBound),
    /// The ref does not point where the caller expects.
    #[error("{name} was not moved: it is not at {expected}")]
    RefMoved { name: String, expected: String, source: Box<gix::Error> },
    #[error("cannot read {name}")]
    RefRead { name: String, source: Box<gix::Error> },
}

/// Where a ref must stand for it to be moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// It must not exist.
    Absent,
    /// It must point at this commit.
    At(CommitId),
}

/// A commit to be written.
#[derive(Clone, Debug)]
pub struct NewCommit {
    pub tree: TreeId,
    pub parents: Vec<CommitId>,
    pub name: String,
    pub email: String,
    /// Seconds since 1970 UTC, for author and committer alike.
    pub seconds: i64,
    pub message: String,
}

impl Objects {
    /// Makes an empty bare repository in `folder`, which must be empty or absent.
    pub fn init(folder: &Path) -> Result<Self, ObjectsError> {
        let fail = |source| ObjectsError::Init { folder: folder.to_owned(), source: Box::new(source) };
        let options = gix::create::Options { destination_must_be_empty: Some(true), ..Default::default() };
        gix::ThreadSafeRepository::init_opts(
            folder,
            gix::create::Kind::Bare,
            options,
            gix::open::Options::isolated(),
        )
        .map_err(fail)?;
        Self::open(folder)
    }

    /// Opens the repository in `folder`, bare or with a working copy.
    pub fn open(folder: &Path) -> Result<Self, ObjectsError> {
        let options = gix::open::Options::isolated()
            .with(gix::sec::Trust::Full)
            // Nothing that the repository itself says may start a program or write a log.
            .config_overrides([
                "core.hooksPath=/dev/null",
                "core.fsmonitor=false",
                "core.logAllRefUpdates=false",
            ]);
        let repository = options
            .open(folder)
            .map_err(|source| ObjectsError::Open { folder: folder.to_owned(), source: Box::new(source) })?;
        if repository.to_thread_local().object_hash() != gix::hash::Kind::Sha1 {
            return Err(ObjectsError::ObjectFormat { id: folder.display().to_string() });
        }
        Ok(Self { repository: Arc::new(repository), folder: folder.to_owned() })
    }

    /// Where the repository is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The repository for this thread.
    pub(super) fn local(&self) -> gix::Repository {
        self.repository.to_thread_local()
    }

    /// A blob's bytes.
    pub fn blob(&self, id: BlobId) -> Result<Vec<u8>, ObjectsError> {
        self.read(id, Kind::Blob)
    }

    /// The tree of a commit.
    pub fn tree_of(&self, commit: &CommitId) -> Result<TreeId, ObjectsError> {
        let id = object_id(commit.as_str())?;
        let bytes = self.read(id, Kind::Commit)?;
        let parsed = gix::objs::CommitRef::from_bytes(&bytes, gix::hash::Kind::Sha1).map_err(|source| {
            ObjectsError::Read { id: id.to_string(), source: Box::new(gix::Error::from_error(source)) }
        })?;
        Ok(tree_id(parsed.tree()))
    }

    /// All files of a commit.
    pub fn tree_at(&self, commit: &CommitId, bounds: &Bounds) -> Result<Tree, ObjectsError> {
        Ok(self.tree(&self.tree_of(commit)?, bounds)?.at(commit.clone()))
    }

    /// All files of a tree. Their bytes stay in the repository until they are read.
    pub fn tree(&self, id: &TreeId, bounds: &Bounds) -> Result<Tree, ObjectsError> {
        let mut walk = Walk { repository: self.local(), bounds, entries: BTreeMap::new(), bytes: 0 };
        walk.folder(object_id(id.as_str())?, &mut Vec::new())?;
        let tree = Tree::new(walk.entries, Some(self.clone()))?;
        if tree.id() != id {
            return Err(ObjectsError::Form {
                tree: id.to_string(),
                why: "its entries are out of order, doubled, or empty folders",
            });
        }
        Ok(tree)
    }

    /// How many bytes all files of a tree have, by the headers of the objects.
    pub fn size_of(&self, tree: &Tree) -> Result<u64, ObjectsError> {
        let repository = self.local();
        let mut bytes = 0_u64;
        for entry in tree.entries().values().filter(|entry| entry.mode != Mode::Submodule) {
            let header = repository.find_header(entry.id).map_err(|source| ObjectsError::Read {
                id: entry.id.to_string(),
                source: Box::new(source),
            })?;
            bytes = bytes.saturating_add(header.size());
        }
        Ok(bytes)
    }

    /// The bytes of one file at a commit; `None` when there is no such file.
    pub fn file(&self, commit: &CommitId, path: &TreePath) -> Result<Option<Vec<u8>>, ObjectsError> {
        let mut id = object_id(self.tree_of(commit)?.as_str())?;
        let mut names = path.as_bytes().split(|&b| b == b'/').peekable();
        while let Some(name) = names.next() {
            let bytes = self.read(id, Kind::Tree)?;
            let found = entries_of(&bytes, id)?.into_iter().find(|entry| entry.filename == name);
            let Some(entry) = found else { return Ok(None) };
            id = entry.oid.to_owned();
            match (names.peek(), entry.mode.is_tree(), entry.mode.is_blob()) {
                (Some(_), true, _) => {}
                (None, _, true) => return self.blob(id).map(Some),
                (Some(_), false, _) | (None, _, false) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Writes a blob.
    pub fn write_blob(&self, bytes: &[u8]) -> Result<BlobId, ObjectsError> {
        self.write(&self.local(), Kind::Blob, bytes)
    }

    /// Writes a tree with all blobs that are at hand in it; what is only stored must be here already.
    pub fn write_tree(&self, tree: &Tree) -> Result<TreeId, ObjectsError> {
        let repository = self.local();
        for (path, entry) in tree.entries() {
            match entry.mode {
                Mode::Submodule => {}
                Mode::Regular | Mode::GroupWritable | Mode::Executable | Mode::Symlink => {
                    if !repository.has_object(entry.id) {
                        self.write(&repository, Kind::Blob, &tree.content(path, entry)?)?;
                    }
                }
            }
        }
        let id = tree::write(tree.entries(), |kind, bytes| self.write(&repository, kind, bytes))?;
        Ok(tree_id(id))
    }

    /// Writes a commit; no ref is moved.
    pub fn write_commit(&self, commit: &NewCommit) -> Result<CommitId, ObjectsError> {
        let time = gix::date::Time { seconds: commit.seconds, offset: 0 };
        let signature = gix::actor::Signature {
            name: commit.name.as_str().into(),
            email: commit.email.as_str().into(),
            time,
        };
        let object = gix::objs::Commit {
            tree: object_id(commit.tree.as_str())?,
            parents: commit.parents.iter().map(|id| object_id(id.as_str())).collect::<Result<_, _>>()?,
            author: signature.clone(),
            committer: signature,
            encoding: None,
            message: commit.message.as_str().into(),
            extra_headers: Vec::new(),
        };
        let id = self
            .local()
            .write_object(object)
            .map_err(|source| ObjectsError::Write { kind: "commit", source: Box::new(source) })?
            .detach();
        Ok(commit_id(id))
    }

    /// The commit that a ref points at; `None` when there is no such ref.
    pub fn reference(&self, name: &str) -> Result<Option<CommitId>, ObjectsError> {
        let fail = |source| ObjectsError::RefRead { name: name.to_owned(), source: Box::new(source) };
        let repository = self.local();
        let Some(mut found) = repository.try_find_reference(name).map_err(fail)? else { return Ok(None) };
        Ok(Some(commit_id(found.peel_to_id().map_err(fail)?.detach())))
    }

    /// Moves a ref to `commit`, if it stands where the caller expects it.
    pub fn update_reference(
        &self,
        name: &str,
        commit: &CommitId,
        expected: &Expected,
    ) -> Result<(), ObjectsError> {
        let (previous, shown) = match expected {
            Expected::Absent => (PreviousValue::MustNotExist, "nothing".to_owned()),
            Expected::At(old) => {
                (PreviousValue::MustExistAndMatch(object_id(old.as_str())?.into()), old.to_string())
            }
        };
        self.local().reference(name, object_id(commit.as_str())?, previous, "").map(drop).map_err(|source| {
            ObjectsError::RefMoved { name: name.to_owned(), expected: shown, source: Box::new(source) }
        })
    }

    pub(super) fn read(&self, id: ObjectId, kind: Kind) -> Result<Vec<u8>, ObjectsError> {
        read(&self.local(), id, kind)
    }

    fn write(
        &self,
        repository: &gix::Repository,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<ObjectId, ObjectsError> {
        use gix::objs::Write as _;
        let fail = |source| ObjectsError::Write { kind: kind_name(kind), source: Box::new(source) };
        let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, kind, bytes).map_err(fail)?;
        if repository.has_object(id) {
            return Ok(id);
        }
        repository.objects.write_buf(kind, bytes).map_err(fail)
    }
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Objects({})", self.folder.display())
    }
}

fn read(repository: &gix::Repository, id: ObjectId, kind: Kind) -> Result<Vec<u8>, ObjectsError> {
    if kind == Kind::Tree && id == ObjectId::empty_tree(gix::hash::Kind::Sha1) {
        return Ok(Vec::new());
    }
    let found = repository
        .try_find_object(id)
        .map_err(|source| ObjectsError::Read { id: id.to_string(), source: Box::new(source) })?;
    match found {
        Some(object) if object.kind == kind => Ok(object.detach().data),
        Some(_) | None => Err(ObjectsError::Missing { kind: kind_name(kind), id: id.to_string() }),
    }
}

/// One reading of a whole tree.
struct Walk<'a> {
    repository: gix::Repository,
    bounds: &'a Bounds,
    entries: BTreeMap<TreePath, Entry>,
    bytes: u64,
}

impl Walk<'_> {
    fn folder(&mut self, id: ObjectId, prefix: &mut Vec<u8>) -> Result<(), ObjectsError> {
        let bytes = read(&self.repository, id, Kind::Tree)?;
        for entry in entries_of(&bytes, id)? {
            let length = prefix.len();
            prefix.extend_from_slice(entry.filename);
            let path = TreePath::parse(&*prefix)
                .map_err(|source| ObjectsError::Path { tree: id.to_string(), source })?;
            if entry.mode.is_tree() {
                prefix.push(b'/');
                self.folder(entry.oid.to_owned(), prefix)?;
            } else {
                self.leaf(path, &entry, id)?;
            }
            prefix.truncate(length);
        }
        Ok(())
    }

    fn leaf(
        &mut self,
        path: TreePath,
        entry: &gix::objs::tree::EntryRef<'_>,
        tree: ObjectId,
    ) -> Result<(), ObjectsError> {
        let form = |why| ObjectsError::Form { tree: tree.to_string(), why };
        let mode = match entry.mode.value() {
            0o100644 => Mode::Regular,
            0o100664 => Mode::GroupWritable,
            0o100755 => Mode::Executable,
            0o120000 => Mode::Symlink,
            0o160000 => Mode::Submodule,
            _ => return Err(form("an entry has an unknown mode")),
        };
        if mode == Mode::Symlink && is_gitmodules(&path) {
            return Err(form(".gitmodules is a link"));
        }
        if mode != Mode::Submodule {
            let header = self.repository.find_header(entry.oid).map_err(|source| ObjectsError::Read {
                id: entry.oid.to_string(),
                source: Box::new(source),
            })?;
            self.bytes = self.bytes.saturating_add(header.size());
            self.bounds.check_file(&path, header.size())?;
            self.bounds.check_bytes(self.bytes)?;
        }
        self.bounds.check_files(self.entries.len() as u64 + 1)?;
        if self.entries.insert(path, Entry::stored(mode, entry.oid.to_owned())).is_some() {
            return Err(form("a name stands twice in one folder"));
        }
        Ok(())
    }
}

fn entries_of(bytes: &[u8], id: ObjectId) -> Result<Vec<gix::objs::tree::EntryRef<'_>>, ObjectsError> {
    gix::objs::TreeRefIter::from_bytes(bytes, gix::hash::Kind::Sha1)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| ObjectsError::Form { tree: id.to_string(), why: "an entry cannot be read" })
}

/// A SHA-1 id from its text.
pub(super) fn object_id(text: &str) -> Result<ObjectId, ObjectsError> {
    match (text.len(), ObjectId::from_hex(text.as_bytes())) {
        (40, Ok(id)) => Ok(id),
        (_, Ok(_) | Err(_)) => Err(ObjectsError::ObjectFormat { id: text.to_owned() }),
    }
}

pub(super) fn commit_id(id: ObjectId) -> CommitId {
    id.to_string().parse().expect("an object id is 40 hex digits")
}

pub(super) fn tree_id(id: ObjectId) -> TreeId {
    id.to_string().parse().expect("an object id is 40 hex digits")
}

pub(super) const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Blob => "blob",
        Kind::Tree => "tree",
        Kind::Commit => "commit",
        Kind::Tag => "tag",
    }
}
