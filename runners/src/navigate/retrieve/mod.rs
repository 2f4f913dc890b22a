//! Retrieval: passages of a workspace's files that speak of what is asked.
//!
//! Each workspace has an index of its own, and the only way to it is that workspace's [`Workspace`]: there is
//! no list of indexes, no id by which one could be looked up, and nothing in an ask that names a workspace.
//! So no query can reach another workspace's text.
//!
//! ```compile_fail,E0451
//! // The index of another workspace cannot be put behind a handle: the field is private.
//! let handle = runners::navigate::retrieve::Workspace { shared: panic!() };
//! ```

mod chunks;
mod embeddings;
mod fuse;
mod index;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use super::tools::ToolError;
use crate::workspace::{Tree, TreePath};
use embeddings::Vectors;
use index::Index;

pub use embeddings::{EmbeddingEndpoint, EmbeddingError};

/// Passages when nobody says, and the most.
const PASSAGES: usize = 8;
const MAX_PASSAGES: usize = 30;
/// Bytes of an answer.
const MAX_ANSWER: usize = 32 << 10;
const MAX_QUERY: usize = 2_000;
/// Passages of each ranking that are fused.
const RANKED: usize = 128;

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrieveAsk {
    /// Words, names or a sentence.
    pub query: String,
    /// At most so many passages; 8 when it is not said, never more than 30.
    pub passages: Option<usize>,
}

/// A part of a file that answers.
#[derive(Clone, PartialEq, Debug)]
pub struct Passage {
    pub path: TreePath,
    /// 1-based.
    pub first_line: u32,
    pub last_line: u32,
    pub text: String,
}

/// What was retrieved.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Retrieved {
    /// The best first.
    pub passages: Vec<Passage>,
    /// Whether embeddings ranked too, and if not, why.
    pub embeddings: Ranked,
    /// What kept the answer from being whole.
    pub cut: Vec<&'static str>,
}

/// Whether the second ranking took part.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Ranked {
    #[default]
    NotAsked,
    Took,
    /// The endpoint did not answer; the words alone ranked.
    Failed(String),
}

impl Retrieved {
    /// The answer as an agent reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for passage in &self.passages {
            let head = format!("{}:{}-{}\n", passage.path, passage.first_line, passage.last_line);
            text.push_str(&head);
            text.push_str(&passage.text);
            text.push_str("\n\n");
        }
        if self.passages.is_empty() {
            text.push_str("nothing speaks of it\n");
        }
        text.extend(self.cut.iter().map(|why| format!("not whole: {why}\n")));
        text
    }
}

/// The handle of one workspace's index.
#[derive(Clone)]
pub struct Workspace {
    shared: Arc<Shared>,
}

struct Shared {
    index: Mutex<Index>,
    vectors: Mutex<Vectors>,
    endpoint: Option<EmbeddingEndpoint>,
}

impl Workspace {
    /// A new workspace with an empty index. The index is built when it is first asked.
    pub fn open(endpoint: Option<EmbeddingEndpoint>) -> Self {
        let (index, vectors) = (Mutex::new(Index::new()), Mutex::new(Vectors::default()));
        Self { shared: Arc::new(Shared { index, vectors, endpoint }) }
    }

    /// Passages of `tree`, which is this workspace's tree now.
    pub async fn retrieve(&self, tree: &Tree, ask: &RetrieveAsk) -> Result<Retrieved, ToolError> {
        if ask.query.trim().is_empty() || ask.query.len() > MAX_QUERY {
            return Err(ToolError::refused(format!("a query has 1 to {MAX_QUERY} bytes")));
        }
        let (shared, tree, query) = (Arc::clone(&self.shared), tree.clone(), ask.query.clone());
        let most = ask.passages.unwrap_or(PASSAGES).clamp(1, MAX_PASSAGES);
        let by_words = {
            let (shared, tree, query) = (Arc::clone(&shared), tree.clone(), query.clone());
            blocking(move || {
                let mut index = held(&shared.index);
                let cut = index.follow(&tree);
                (index.rank(&query, RANKED), cut)
            })
            .await?
        };
        let (by_words, cut) = by_words;
        let (order, embeddings) = match &shared.endpoint {
            None => (by_words, Ranked::NotAsked),
            Some(endpoint) => match shared.by_meaning(endpoint, &tree, &query, &by_words).await {
                Ok(by_meaning) => (fuse::reciprocal_rank(&[by_words, by_meaning]), Ranked::Took),
                Err(error) => (by_words, Ranked::Failed(error.to_string())),
            },
        };
        blocking(move || {
            let passages = held(&shared.index).passages(&tree, &order, most, MAX_ANSWER);
            Retrieved { passages, embeddings, cut }
        })
        .await
    }
}

impl Shared {
    /// The ranking by embeddings, over the passages that have one and those that the words found.
    async fn by_meaning(
        &self,
        endpoint: &EmbeddingEndpoint,
        tree: &Tree,
        query: &str,
        by_words: &[index::ChunkId],
    ) -> Result<Vec<index::ChunkId>, EmbeddingError> {
        let wanted = {
            let index = held(&self.index);
            let vectors = held(&self.vectors);
            let missing = vectors.missing(&index, by_words);
            index.texts(tree, &missing)
        };
        for batch in embeddings::batches(&wanted) {
            let texts: Vec<&str> = batch.iter().map(|(_, text)| text.as_str()).collect();
            let found = endpoint.embed(&texts).await?;
            held(&self.vectors).add(batch.iter().map(|(chunk, _)| *chunk).zip(found));
        }
        let found = endpoint.embed(&[query]).await?;
        let query = found.into_iter().next().unwrap_or_default();
        let index = held(&self.index);
        Ok(held(&self.vectors).rank(&index, &query, RANKED))
    }
}

/// A lock that a panic left behind guards plain values, and a wrong one shows in an answer at worst.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ToolError::refused("the index could not be asked"))
}

#[cfg(test)]
mod tests;
