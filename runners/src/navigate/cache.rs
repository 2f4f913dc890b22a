//! What is known of blobs already: tags by blob and by the version of grammar and reader.

use std::collections::HashMap;
use std::sync::Arc;

use super::encoding::FileTags;
use super::extract::NotRead;
use super::language::Language;
use crate::workspace::BlobId;

/// Names what was learnt of one blob. The same bytes under two languages are two things to know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CacheKey {
    pub blob: BlobId,
    pub language: Language,
}

/// What was learnt of one blob.
#[derive(Clone, Debug)]
pub(super) enum Learnt {
    Tags(Arc<FileTags>),
    NotRead(NotRead),
}

impl Learnt {
    pub(super) fn as_text(&self) -> &str {
        match self {
            Learnt::Tags(tags) => tags.as_text(),
            Learnt::NotRead(reason) => reason.word(),
        }
    }

    pub(super) fn from_text(text: String) -> Self {
        match NotRead::of_word(&text) {
            Some(reason) => Learnt::NotRead(reason),
            None => Learnt::Tags(Arc::new(FileTags::from_text(text))),
        }
    }
}

/// What is known of blobs. Cheap to clone where the tags are.
#[derive(Clone, Debug, Default)]
pub struct Known {
    learnt: HashMap<CacheKey, Learnt>,
}

impl Known {
    /// Adds what was kept as text.
    pub fn insert(&mut self, key: CacheKey, text: String) {
        self.learnt.insert(key, Learnt::from_text(text));
    }

    pub(super) fn learn(&mut self, key: CacheKey, learnt: Learnt) {
        self.learnt.insert(key, learnt);
    }

    pub(super) fn find(&self, key: CacheKey) -> Option<&Learnt> {
        self.learnt.get(&key)
    }

    /// Everything, as the text that is kept; in no order.
    pub fn texts(&self) -> impl Iterator<Item = (CacheKey, &str)> {
        self.learnt.iter().map(|(key, learnt)| (*key, learnt.as_text()))
    }

    /// How many blobs are known.
    pub fn len(&self) -> usize {
        self.learnt.len()
    }

    pub fn is_empty(&self) -> bool {
        self.learnt.is_empty()
    }
}
