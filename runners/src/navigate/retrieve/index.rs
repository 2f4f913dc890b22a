//! The index of one workspace: BM25 over the passages of its files. It follows the tree: what changed is
//! indexed anew, the rest stays.

use std::collections::{BTreeMap, HashMap, HashSet};

use bm25::{Embedder, EmbedderBuilder, Embedding, Scorer};
use jobs::id::TreeId;

use super::Passage;
use super::chunks::{Chunk, chunks};
use super::words::Words;
use crate::navigate::budget::Stop;
use crate::workspace::{BlobId, Tree, TreePath};

/// Bounds of one index.
const MAX_CHUNKS: usize = 40_000;
const MAX_BYTES: usize = 64 << 20;
/// A larger file is not indexed.
const MAX_FILE: usize = 512 << 10;
/// The longest that following a tree takes; what is not reached is indexed at the next question.
const TIME: std::time::Duration = std::time::Duration::from_secs(20);
/// Words of an ordinary passage, against which long ones are held.
const ORDINARY_WORDS: f32 = 250.0;

/// Names a passage within its index.
pub(super) type ChunkId = u32;

pub(super) struct Index {
    /// The tree that all of the index speaks of; `None` while it is not all.
    tree: Option<TreeId>,
    files: BTreeMap<TreePath, Indexed>,
    chunks: HashMap<ChunkId, (TreePath, Chunk)>,
    scorer: Scorer<ChunkId>,
    embedder: Embedder<u32, Words>,
    next: ChunkId,
    bytes: usize,
}

struct Indexed {
    blob: BlobId,
    bytes: usize,
    chunks: Vec<ChunkId>,
}

impl Index {
    pub(super) fn new() -> Self {
        Self {
            tree: None,
            files: BTreeMap::new(),
            chunks: HashMap::new(),
            scorer: Scorer::new(),
            embedder: EmbedderBuilder::with_avgdl(ORDINARY_WORDS).build(),
            next: 0,
            bytes: 0,
        }
    }

    /// Brings the index to `tree`; gives what kept it from being whole.
    pub(super) fn follow(&mut self, tree: &Tree) -> Vec<&'static str> {
        self.follow_until(tree, Stop::in_time(TIME))
    }

    pub(super) fn follow_until(&mut self, tree: &Tree, stop: Stop<'_>) -> Vec<&'static str> {
        if self.tree.as_ref() == Some(tree.id()) {
            return Vec::new();
        }
        let stale = |(path, indexed): (&TreePath, &Indexed)| {
            let same = tree.entry(path).is_some_and(|entry| entry.mode.is_file() && entry.id == indexed.blob);
            (!same).then(|| path.clone())
        };
        let stale: Vec<TreePath> = self.files.iter().filter_map(stale).collect();
        stale.iter().for_each(|path| self.remove(path));
        self.tree = None;
        for (path, entry) in tree.entries() {
            if !entry.mode.is_file() || self.files.contains_key(path) {
                continue;
            }
            if stop.now() {
                return vec!["the time of indexing was spent; ask again"];
            }
            if self.chunks.len() >= MAX_CHUNKS || self.bytes >= MAX_BYTES {
                return vec!["the tree is larger than an index"];
            }
            let Ok(content) = tree.content(path, entry) else { continue };
            let is_text = !content[..content.len().min(8 << 10)].contains(&0);
            let content = if is_text && content.len() <= MAX_FILE { &*content } else { &[] };
            self.add(path, entry.id, content);
        }
        self.tree = Some(tree.id().clone());
        Vec::new()
    }

    fn add(&mut self, path: &TreePath, blob: BlobId, content: &[u8]) {
        let mut ids = Vec::new();
        for chunk in chunks(content) {
            let id = self.next;
            self.next = self.next.wrapping_add(1);
            self.scorer.upsert(&id, self.embed(&text_of(path, &content[chunk.begin..chunk.end])));
            self.chunks.insert(id, (path.clone(), chunk));
            ids.push(id);
        }
        self.bytes += content.len();
        self.files.insert(path.clone(), Indexed { blob, bytes: content.len(), chunks: ids });
    }

    fn remove(&mut self, path: &TreePath) {
        if let Some(indexed) = self.files.remove(path) {
            self.bytes -= indexed.bytes;
            for id in indexed.chunks {
                self.scorer.remove(&id);
                self.chunks.remove(&id);
            }
        }
    }

    /// Each word once, with its weight; the library has a word as often as it stands there.
    fn embed(&self, text: &str) -> Embedding {
        let mut embedding = self.embedder.embed(text);
        let mut seen = HashSet::new();
        embedding.0.retain(|word| seen.insert(word.index));
        embedding
    }

    /// The passages that have words of the query, the best first.
    pub(super) fn rank(&self, query: &str, most: usize) -> Vec<ChunkId> {
        let mut found = self.scorer.matches(&self.embed(query));
        // The library leaves passages of one score in no order.
        found.sort_by(|left, right| right.score.total_cmp(&left.score).then(left.id.cmp(&right.id)));
        found.into_iter().take(most).map(|found| found.id).collect()
    }

    /// Every passage.
    pub(super) fn ids(&self) -> impl Iterator<Item = ChunkId> {
        let mut ids: Vec<_> = self.chunks.keys().copied().collect();
        ids.sort_unstable();
        ids.into_iter()
    }

    pub(super) fn holds(&self, id: ChunkId) -> bool {
        self.chunks.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// The texts of passages, as they are embedded.
    pub(super) fn texts(&self, tree: &Tree, ids: &[ChunkId]) -> Vec<(ChunkId, String)> {
        let text = |id: &ChunkId| {
            let (path, chunk) = self.chunks.get(id)?;
            let content = tree.read(path).ok()?;
            Some((*id, text_of(path, content.get(chunk.begin..chunk.end)?)))
        };
        ids.iter().filter_map(text).collect()
    }

    /// Passages in this order, at most so many and so many bytes.
    pub(super) fn passages(&self, tree: &Tree, order: &[ChunkId], most: usize, bytes: usize) -> Vec<Passage> {
        let (mut passages, mut spent) = (Vec::new(), 0);
        for (path, chunk) in order.iter().filter_map(|id| self.chunks.get(id)) {
            // Between two questions the tree may have moved on; then the passage is not what was ranked.
            let moved = self.files.get(path).map(|file| file.blob) != tree.entry(path).map(|entry| entry.id);
            let Ok(content) = tree.read(path) else { continue };
            let Some(held) = content.get(chunk.begin..chunk.end).filter(|_| !moved) else { continue };
            let held = &held[..held.len().min(bytes)];
            let text = String::from_utf8_lossy(held).trim_end().to_owned();
            spent += text.len() + path.as_bytes().len();
            if passages.len() >= most || spent > bytes && !passages.is_empty() {
                break;
            }
            let (first_line, last_line) = (chunk.first_line, chunk.last_line);
            passages.push(Passage { path: path.clone(), first_line, last_line, text });
        }
        passages
    }
}

/// What of a passage is indexed: its path has words too.
fn text_of(path: &TreePath, content: &[u8]) -> String {
    format!("{path}\n{}", String::from_utf8_lossy(content))
}
