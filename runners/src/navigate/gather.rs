//! Brings the tags of a whole tree together: known blobs are taken over, the others are read on all cores.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::budget::Stop;
use super::cache::{CacheKey, Known, Learnt};
use super::encoding::FileTags;
use super::extract::{NotRead, Reader};
use super::language::Language;
use crate::workspace::{Tree, TreePath};

/// Files of one tree that are looked at; the rest is listed as skipped.
const MAX_FILES: usize = 20_000;
/// Bytes of one tree that are read.
const MAX_BYTES: u64 = 256 << 20;
const MAX_THREADS: usize = 8;

const OVER_FILES: &str = "comes after more files than one map takes";
const OVER_BYTES: &str = "comes after more bytes than one map takes";
const OVER_TIME: &str = "was not reached in time";
const NO_CONTENT: &str = "cannot be read";

/// One file with its tags.
#[derive(Clone, Debug)]
pub struct TaggedFile {
    pub path: TreePath,
    pub key: CacheKey,
    pub tags: std::sync::Arc<FileTags>,
}

/// A file of a known language that has no tags.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    pub path: TreePath,
    pub why: &'static str,
}

/// The tags of a tree.
#[derive(Clone, Debug, Default)]
pub struct TreeTags {
    /// Sorted by the bytes of their paths.
    pub files: Vec<TaggedFile>,
    pub skipped: Vec<Skipped>,
}

/// What gathering left.
#[derive(Debug, Default)]
pub struct Gathered {
    pub tags: TreeTags,
    /// What was read now and was not known before; kept for the next time.
    pub fresh: Known,
    /// Blobs that were known.
    pub known: u64,
}

/// All files of a tree that tags are read of.
fn files(tree: &Tree) -> impl Iterator<Item = (&TreePath, CacheKey)> {
    tree.entries().iter().filter(|(_, entry)| entry.mode.is_file()).filter_map(|(path, entry)| {
        let language = Language::of_name(std::str::from_utf8(path.name()).ok()?)?;
        Some((path, CacheKey { blob: entry.id, language }))
    })
}

/// What must be known of a tree so that nothing of it is read; each once.
pub fn keys_of(tree: &Tree) -> Vec<CacheKey> {
    let keys: HashSet<CacheKey> = files(tree).take(MAX_FILES).map(|(_, key)| key).collect();
    keys.into_iter().collect()
}

/// The tags of a tree.
pub fn gather(tree: &Tree, known: &Known, stop: Stop<'_>) -> Gathered {
    let mut wanted = HashSet::new();
    let mut to_read = Vec::new();
    let mut gathered = Gathered::default();
    for (path, key) in files(tree).take(MAX_FILES) {
        if !wanted.insert(key) {
            continue;
        }
        match known.find(key) {
            Some(_) => gathered.known += 1,
            None => to_read.push((path, key)),
        }
    }
    let answers = read_all(tree, &to_read, stop);
    let mut unread = std::collections::HashMap::new();
    for (key, answer) in answers {
        match answer {
            Ok(learnt) => gathered.fresh.learn(key, learnt),
            Err(why) => {
                unread.insert(key, why);
            }
        }
    }
    for (place, (path, key)) in files(tree).enumerate() {
        let learnt =
            if place < MAX_FILES { known.find(key).or_else(|| gathered.fresh.find(key)) } else { None };
        let why = match learnt {
            Some(Learnt::Tags(tags)) => {
                gathered.tags.files.push(TaggedFile { path: path.clone(), key, tags: tags.clone() });
                continue;
            }
            Some(Learnt::NotRead(reason)) => reason.why(),
            None => unread.get(&key).copied().unwrap_or(OVER_FILES),
        };
        gathered.tags.skipped.push(Skipped { path: path.clone(), why });
    }
    gathered
}

type Answer = (CacheKey, Result<Learnt, &'static str>);

/// Reads files on as many threads as there are cores. What the bounds of the whole leave out has a reason in
/// place of tags, which is not kept: the next tree may have room for it.
fn read_all(tree: &Tree, files: &[(&TreePath, CacheKey)], stop: Stop<'_>) -> Vec<Answer> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(MAX_THREADS).min(files.len().div_ceil(8)).max(1);
    let (next, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let work = || {
        let (mut reader, mut answers) = (Reader::new(), Vec::new());
        while let Some((path, key)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answer =
                if stop.now() { Err(OVER_TIME) } else { read_one(tree, path, *key, &bytes, &mut reader) };
            answers.push((*key, answer));
        }
        answers
    };
    if threads == 1 {
        return work();
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        // A worker that panicked leaves its files without tags; none of them is kept as known.
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    })
}

fn read_one(
    tree: &Tree,
    path: &TreePath,
    key: CacheKey,
    bytes: &AtomicU64,
    reader: &mut Reader,
) -> Result<Learnt, &'static str> {
    let content = tree.read(path).map_err(|_| NO_CONTENT)?;
    let length = content.len() as u64;
    if bytes.fetch_add(length, Ordering::Relaxed).saturating_add(length) > MAX_BYTES {
        return Err(OVER_BYTES);
    }
    Ok(match reader.read(key.language, &content) {
        Ok(tags) => Learnt::Tags(std::sync::Arc::new(tags)),
        Err(reason @ (NotRead::TooLarge | NotRead::Generated | NotRead::NoText | NotRead::TooMuchWork)) => {
            Learnt::NotRead(reason)
        }
    })
}

#[cfg(test)]
mod tests;
