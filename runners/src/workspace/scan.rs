//! Reads a workspace back as a tree, after code of strangers ran in it.
//!
//! The walk opens every folder from the one above it and never through a link, reads regular files
//! only, and ends with an error where what it finds could not be told truly by a patch: a tracked file
//! that became a fifo, a link that leads out, a bound that is passed.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use jobs::digest::Digest;
use rustix::fs::{AtFlags, Mode as Bits, OFlags, Stat};
use rustix::io::Errno;

use super::folder::{Executable, Folder, FolderError, Found, found, read_file};
use super::ignored::{Kind, MAX_RULE_FILE, RULE_FILE, Rules, Verdict};
use super::path::{self, TreePath};
use super::tree::{Entry, Mode, Tree, TreeError};
use super::{Bounds, OverBound};

/// Notes beyond this many are only counted.
const MAX_NOTES: usize = 100;

/// What a workspace holds.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Tracked files as they are now, and untracked ones that are not ignored.
    pub tree: Tree,
    /// Digest over paths, raw permission bits and contents of all files of the tree. It shows drift that
    /// a tree id does not, such as a file that became writable for all.
    pub fingerprint: Digest,
    /// What was seen and left out; the first hundred.
    pub notes: Vec<Note>,
    /// How many names were left out and noted in all.
    pub noted: u64,
    permissions: BTreeMap<TreePath, u32>,
}

impl Scan {
    /// The raw permission bits of a file or link, where one was found.
    pub fn permissions(&self, path: &TreePath) -> Option<u32> {
        self.permissions.get(path).copied()
    }
}

/// One name that is no part of the tree, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Safe to print.
    pub path: String,
    pub why: &'static str,
}

/// A workspace that yields no tree.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error("{path} is tracked and is now a fifo, socket or device")]
    Special { path: TreePath },
    #[error("{path} is tracked and is now one file under several names (a hard link)")]
    HardLink { path: TreePath },
    #[error("{path} is a link that leads out of the workspace")]
    LinkOut { path: TreePath },
    #[error("{path} is a link; git reads this file never through one")]
    Gitmodules { path: TreePath },
    #[error("{path} is tracked and is now on another file system")]
    OtherFileSystem { path: TreePath },
    #[error("cannot read {folder} with tracked files in it")]
    Unreadable { folder: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Bound(#[from] OverBound),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// Reads the workspace at `root`. Tracked is what `base` has; what of the rest is ignored is said by
/// the ignore files of `base`, not by those in the workspace.
pub fn scan(root: &Path, base: &Tree, bounds: &Bounds) -> Result<Scan, ScanError> {
    Walk::begin(root, base, bounds, RulesFrom::Base(Rules::of(base)?))?.finish()
}

/// Reads any folder, by its own ignore files.
pub(super) fn scan_by_own_rules(root: &Path, base: &Tree, bounds: &Bounds) -> Result<Scan, ScanError> {
    Walk::begin(root, base, bounds, RulesFrom::Folder(Rules::default()))?.finish()
}

/// Whose ignore files count.
enum RulesFrom {
    Base(Rules),
    Folder(Rules),
}

impl RulesFrom {
    fn rules(&self) -> &Rules {
        match self {
            RulesFrom::Base(rules) | RulesFrom::Folder(rules) => rules,
        }
    }
}

/// Whether a folder above is ignored: then only tracked files count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Taken,
    Ignored,
}

struct Walk<'a> {
    root: Folder,
    device: u64,
    base: &'a Tree,
    /// Folders that hold tracked files.
    tracked_folders: BTreeSet<TreePath>,
    bounds: &'a Bounds,
    rules: RulesFrom,
    entries: BTreeMap<TreePath, Entry>,
    permissions: BTreeMap<TreePath, u32>,
    names: u64,
    bytes: u64,
    notes: Vec<Note>,
    noted: u64,
}

impl<'a> Walk<'a> {
    fn begin(root: &Path, base: &'a Tree, bounds: &'a Bounds, rules: RulesFrom) -> Result<Self, ScanError> {
        let folder = Folder::open(root)?;
        let unreadable =
            |errno: Errno| ScanError::Unreadable { folder: root.to_owned(), source: errno.into() };
        let device = rustix::fs::fstat(&folder).map_err(unreadable)?.st_dev;
        Ok(Self {
            root: folder,
            device,
            base,
            tracked_folders: base.entries().keys().flat_map(TreePath::parents).collect(),
            bounds,
            rules,
            entries: BTreeMap::new(),
            permissions: BTreeMap::new(),
            names: 0,
            bytes: 0,
            notes: Vec::new(),
            noted: 0,
        })
    }

    fn finish(mut self) -> Result<Scan, ScanError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.root, ".", flags, Bits::empty()).map_err(|errno| {
            ScanError::Unreadable { folder: self.root.path().to_owned(), source: errno.into() }
        })?;
        self.folder(handle, None, Within::Taken)?;
        self.keep_what_is_never_laid_out()?;
        let fingerprint = self.fingerprint();
        let tree = Tree::new(self.entries, self.base.objects().cloned())?;
        Ok(Scan { tree, fingerprint, notes: self.notes, noted: self.noted, permissions: self.permissions })
    }

    /// Submodules and links that lead out are not made on disk, so their absence is no change.
    fn keep_what_is_never_laid_out(&mut self) -> Result<(), ScanError> {
        for (path, entry) in self.base.entries() {
            let absent = !self.entries.contains_key(path);
            if absent && (entry.mode == Mode::Submodule || self.base.leads_out(path, entry)?) {
                self.entries.insert(path.clone(), entry.clone());
            }
        }
        Ok(())
    }

    fn fingerprint(&self) -> Digest {
        let mut lines = Vec::new();
        for (path, entry) in &self.entries {
            let permissions = self.permissions.get(path).copied().unwrap_or(0);
            lines.extend_from_slice(
                format!("{permissions:o} {} {} ", entry.mode.octal(), entry.id).as_bytes(),
            );
            lines.extend_from_slice(path.as_bytes());
            lines.push(0);
        }
        Digest::of(lines)
    }

    fn folder(
        &mut self,
        handle: OwnedFd,
        prefix: Option<&TreePath>,
        within: Within,
    ) -> Result<(), ScanError> {
        let names = self.names_in(&handle, prefix)?;
        if let RulesFrom::Folder(_) = self.rules {
            self.read_rules(&handle, prefix)?;
        }
        for name in &names {
            let Some(path) = self.path_of(prefix, name) else { continue };
            match rustix::fs::statat(&handle, os_name(name), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => self.name(&handle, path, &stat, &names, within)?,
                Err(Errno::NOENT) => {}
                Err(errno) => self.unreadable(&path, errno)?,
            }
        }
        Ok(())
    }

    fn names_in(
        &mut self,
        handle: &OwnedFd,
        prefix: Option<&TreePath>,
    ) -> Result<BTreeSet<Vec<u8>>, ScanError> {
        let failed = |errno: Errno| ScanError::Unreadable {
            folder: prefix.map_or_else(|| self.root.path().to_owned(), |path| path.as_os().to_owned()),
            source: errno.into(),
        };
        let mut names = BTreeSet::new();
        for entry in rustix::fs::Dir::read_from(handle).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                self.names += 1;
                self.bounds.check_names(self.names)?;
                names.insert(name.to_vec());
            }
        }
        Ok(names)
    }

    /// The path of a name in a folder; names that are refused are noted.
    fn path_of(&mut self, prefix: Option<&TreePath>, name: &[u8]) -> Option<TreePath> {
        let bytes = match prefix {
            Some(prefix) => [prefix.as_bytes(), b"/", name].concat(),
            None => name.to_vec(),
        };
        match TreePath::parse(&bytes) {
            Ok(path) => Some(path),
            Err(_) if bytes == b".git" => None,
            Err(refused) => {
                self.note(path::shown(&bytes).into_owned(), refused.why);
                None
            }
        }
    }

    fn name(
        &mut self,
        parent: &OwnedFd,
        path: TreePath,
        stat: &Stat,
        beside: &BTreeSet<Vec<u8>>,
        within: Within,
    ) -> Result<(), ScanError> {
        let found = found(stat);
        let kind = if found == Found::Folder { Kind::Folder } else { Kind::File };
        let tracked = self.base.entry(&path).is_some() || self.tracked_folders.contains(&path);
        let verdict = match within {
            Within::Ignored => Verdict::ByRule,
            Within::Taken => self.rules.rules().judge(&path, kind, |name| beside.contains(name)),
        };
        match (tracked, verdict) {
            (true, _) | (false, Verdict::Taken) => {}
            (false, Verdict::ByRule) => return Ok(()),
            (false, Verdict::ByDefault) => {
                self.note(path.to_string(), "is left behind by a tool and not tracked");
                return Ok(());
            }
        }
        match found {
            Found::Folder => {
                let within = if verdict == Verdict::Taken { Within::Taken } else { Within::Ignored };
                self.enter(parent, &path, stat, within)
            }
            Found::File { .. } | Found::Link | Found::Special => self.leaf(parent, path, stat),
        }
    }

    fn enter(
        &mut self,
        parent: &OwnedFd,
        path: &TreePath,
        stat: &Stat,
        within: Within,
    ) -> Result<(), ScanError> {
        if self.base.entry(path).is_some_and(|entry| entry.mode == Mode::Submodule) {
            return Ok(());
        }
        let tracked = self.tracked_folders.contains(path);
        if stat.st_dev != self.device {
            if tracked {
                return Err(ScanError::OtherFileSystem { path: path.clone() });
            }
            self.note(path.to_string(), "is on another file system");
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(parent, super::folder::name_of(path), flags, Bits::empty()) {
            Ok(handle) if !tracked && is_tagged_as_cache(&handle) => {
                self.note(path.to_string(), "is tagged as a cache and not tracked");
                Ok(())
            }
            Ok(handle) => self.folder(handle, Some(path), within),
            Err(errno) => self.unreadable(path, errno),
        }
    }

    fn leaf(&mut self, parent: &OwnedFd, path: TreePath, stat: &Stat) -> Result<(), ScanError> {
        let tracked = self.base.entry(&path).is_some();
        let entry = match found(stat) {
            Found::Folder => return Ok(()),
            Found::Special if tracked => return Err(ScanError::Special { path }),
            Found::Special => {
                self.note(path.to_string(), "is a fifo, socket or device");
                return Ok(());
            }
            Found::File { links, .. } if links > 1 && tracked => return Err(ScanError::HardLink { path }),
            Found::File { links, .. } if links > 1 => {
                self.note(path.to_string(), "is one file under several names (a hard link)");
                return Ok(());
            }
            Found::File { bytes, .. } => {
                self.bounds.check_file(&path, bytes)?;
                self.bounds.check_bytes(self.bytes.saturating_add(bytes))?;
                match self.file(parent, &path)? {
                    Some(entry) => entry,
                    None => return Ok(()),
                }
            }
            Found::Link => self.link(parent, &path)?,
        };
        self.permissions.insert(path.clone(), stat.st_mode & 0o7777);
        self.bounds.check_files(self.entries.len() as u64 + 1)?;
        self.entries.insert(path, entry);
        Ok(())
    }

    fn file(&mut self, parent: &OwnedFd, path: &TreePath) -> Result<Option<Entry>, ScanError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = match rustix::fs::openat(parent, super::folder::name_of(path), flags, Bits::empty()) {
            Ok(handle) => handle,
            Err(errno) => return self.unreadable(path, errno).map(|()| None),
        };
        let (content, executable) = read_file(handle, &path.to_string(), self.bounds.file_bytes)?;
        self.bytes = self.bytes.saturating_add(content.len() as u64);
        self.bounds.check_bytes(self.bytes)?;
        let before = self.base.entry(path);
        let mode = match (executable, before.map(|entry| entry.mode)) {
            (Executable::Yes, _) => Mode::Executable,
            (Executable::No, Some(Mode::GroupWritable)) => Mode::GroupWritable,
            (Executable::No, _) => Mode::Regular,
        };
        Ok(Some(self.shared(before, Entry::new(mode, content))))
    }

    fn link(&mut self, parent: &OwnedFd, path: &TreePath) -> Result<Entry, ScanError> {
        let target = rustix::fs::readlinkat(parent, super::folder::name_of(path), Vec::new())
            .map_err(|errno| super::folder::at("read the link", path, errno))?
            .into_bytes();
        let inside = path::link_stays_inside(path, &target);
        let before = self.base.entry(path);
        let entry = Entry::new(Mode::Symlink, target);
        let unchanged = before.is_some_and(|before| before.same_as(&entry));
        if !inside && !unchanged {
            return Err(ScanError::LinkOut { path: path.clone() });
        }
        if path::is_gitmodules(path) {
            return Err(ScanError::Gitmodules { path: path.clone() });
        }
        Ok(self.shared(before, entry))
    }

    /// The entry of the base where nothing changed, so that the bytes are held once.
    fn shared(&self, before: Option<&Entry>, now: Entry) -> Entry {
        match before {
            Some(before) if before.same_as(&now) => before.clone(),
            Some(_) | None => now,
        }
    }

    fn read_rules(&mut self, handle: &OwnedFd, prefix: Option<&TreePath>) -> Result<(), ScanError> {
        let Some(path) = self.path_of(prefix, RULE_FILE) else { return Ok(()) };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(handle, os_name(RULE_FILE), flags, Bits::empty()) else {
            return Ok(());
        };
        match read_file(file, &path.to_string(), MAX_RULE_FILE) {
            Ok((content, _)) => {
                if let RulesFrom::Folder(rules) = &mut self.rules {
                    rules.add(&path, &content);
                }
            }
            Err(_) => self.note(path.to_string(), "is no file of rules that can be read"),
        }
        Ok(())
    }

    /// What cannot be read is an error where tracked files are at stake, else a note.
    fn unreadable(&mut self, path: &TreePath, errno: Errno) -> Result<(), ScanError> {
        if self.base.entry(path).is_some() || self.tracked_folders.contains(path) {
            return Err(ScanError::Unreadable { folder: path.as_os().to_owned(), source: errno.into() });
        }
        self.note(path.to_string(), "cannot be read");
        Ok(())
    }

    fn note(&mut self, path: String, why: &'static str) {
        self.noted += 1;
        if self.notes.len() < MAX_NOTES {
            self.notes.push(Note { path: path.chars().take(200).collect(), why });
        }
    }
}

/// Whether a tool says of its folder that it is a cache (bford.info/cachedir).
fn is_tagged_as_cache(folder: &OwnedFd) -> bool {
    const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, "CACHEDIR.TAG", flags, Bits::empty())
        .ok()
        .and_then(|handle| read_file(handle, "CACHEDIR.TAG", 4096).ok())
        .is_some_and(|(content, _)| content.starts_with(SIGNATURE))
}

fn os_name(name: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests;
