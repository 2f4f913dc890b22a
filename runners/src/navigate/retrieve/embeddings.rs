//! The second ranking: vectors of passages from an endpoint that speaks OpenAI's embeddings protocol.
//!
//! The endpoint is the operator's choice, for the text of passages goes to it. Vectors are held for one
//! workspace and die with it.

use std::collections::HashMap;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::index::{ChunkId, Index};

/// Passages of one workspace that get a vector. A workspace with more has those that the words find.
const MAX_VECTORS: usize = 2_000;
/// Passages that the words found and that get a vector in a workspace with more.
const FOUND: usize = 64;
/// Passages of one request.
const BATCH: usize = 64;
/// Bytes of one passage that are sent: within the limits of small models.
const MAX_TEXT: usize = 6_000;
const MAX_ANSWER: usize = 32 << 20;
const MAX_DIMENSIONS: usize = 8_192;
const TIME: Duration = Duration::from_secs(30);

/// Where vectors come from.
#[derive(Clone, Debug)]
pub struct EmbeddingEndpoint {
    client: reqwest::Client,
    url: url::Url,
    model: String,
    key: Option<SecretString>,
}

/// Vectors could not be had.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// The address is none.
    #[error("the address of the embeddings cannot be used")]
    Address(#[source] url::ParseError),
    /// The request failed on its way.
    #[error("cannot reach the embeddings")]
    Request(#[source] reqwest::Error),
    /// The endpoint refused.
    #[error("the embeddings' endpoint answers {0}")]
    Status(u16),
    /// The answer is not in the protocol's form, or over a bound.
    #[error("the embeddings' answer cannot be used: {0}")]
    Answer(&'static str),
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedded>,
}

#[derive(Deserialize)]
struct Embedded {
    index: usize,
    embedding: Vec<f32>,
}

impl EmbeddingEndpoint {
    /// An endpoint below `base`, the address that `/embeddings` is added to.
    pub fn new(base: &str, model: &str, key: Option<SecretString>) -> Result<Self, EmbeddingError> {
        let address = format!("{}/embeddings", base.trim_end_matches('/'));
        let url = address.parse().map_err(EmbeddingError::Address)?;
        // Another part of the process may have chosen the provider already; then that one is used.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(TIME)
            // A key is for one host alone.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| EmbeddingError::Request(error.without_url()))?;
        Ok(Self { client, url, model: model.to_owned(), key })
    }

    /// A vector for each text, in their order, each of length one.
    pub(super) async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let input: Vec<&str> = texts.iter().map(|text| &text[..text.floor_char_boundary(MAX_TEXT)]).collect();
        let body = Request { model: &self.model, input: &input, encoding_format: "float" };
        let mut request = self.client.post(self.url.clone()).json(&body);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose_secret());
        }
        let mut answer =
            request.send().await.map_err(|error| EmbeddingError::Request(error.without_url()))?;
        if !answer.status().is_success() {
            return Err(EmbeddingError::Status(answer.status().as_u16()));
        }
        let mut bytes = Vec::new();
        while let Some(more) =
            answer.chunk().await.map_err(|error| EmbeddingError::Request(error.without_url()))?
        {
            if bytes.len() + more.len() > MAX_ANSWER {
                return Err(EmbeddingError::Answer("it is larger than 32 MiB"));
            }
            bytes.extend_from_slice(&more);
        }
        read(&bytes, texts.len())
    }
}

/// Reads an answer for `count` texts.
fn read(bytes: &[u8], count: usize) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    let answer: Answer = serde_json::from_slice(bytes)
        .map_err(|_| EmbeddingError::Answer("it is not in the protocol's form"))?;
    let mut vectors = vec![Vec::new(); count];
    for Embedded { index, embedding } in answer.data {
        let place = vectors.get_mut(index).ok_or(EmbeddingError::Answer("it has more vectors than texts"))?;
        *place = embedding;
    }
    let dimensions = vectors.first().map_or(0, Vec::len);
    if count > 0 && !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        return Err(EmbeddingError::Answer("its vectors have no fitting length"));
    }
    for vector in &mut vectors {
        let length = vector.iter().map(|part| part * part).sum::<f32>().sqrt();
        if vector.len() != dimensions || !length.is_normal() {
            return Err(EmbeddingError::Answer("a text has no vector"));
        }
        vector.iter_mut().for_each(|part| *part /= length);
    }
    Ok(vectors)
}

/// Texts in batches, as the endpoint takes them.
pub(super) fn batches(texts: &[(ChunkId, String)]) -> impl Iterator<Item = &[(ChunkId, String)]> {
    texts.chunks(BATCH)
}

/// The vectors of one workspace's passages.
#[derive(Default)]
pub(super) struct Vectors {
    vectors: HashMap<ChunkId, Vec<f32>>,
}

impl Vectors {
    /// Passages that are to have a vector and have none: all where they are few, else those found by words.
    pub(super) fn missing(&self, index: &Index, by_words: &[ChunkId]) -> Vec<ChunkId> {
        let lacks = |id: &ChunkId| !self.vectors.contains_key(id);
        if index.len() <= MAX_VECTORS {
            return index.ids().filter(lacks).collect();
        }
        let held = self.vectors.keys().filter(|id| index.holds(**id)).count();
        let room = MAX_VECTORS.saturating_sub(held);
        by_words.iter().copied().take(FOUND).filter(lacks).take(room).collect()
    }

    pub(super) fn add(&mut self, vectors: impl Iterator<Item = (ChunkId, Vec<f32>)>) {
        self.vectors.extend(vectors);
    }

    /// Passages of the index that have a vector, the nearest to the query first.
    pub(super) fn rank(&mut self, index: &Index, query: &[f32], most: usize) -> Vec<ChunkId> {
        self.vectors.retain(|id, _| index.holds(*id));
        let near = |vector: &[f32]| vector.iter().zip(query).map(|(left, right)| left * right).sum::<f32>();
        let mut order: Vec<(ChunkId, f32)> =
            self.vectors.iter().map(|(id, vector)| (*id, near(vector))).collect();
        order.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        order.into_iter().take(most).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_out_of_order_is_put_in_order_and_brought_to_length_one() {
        let answer = br#"{"data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[3,4]}],"model":"m"}"#;
        assert_eq!(read(answer, 2).unwrap(), [[0.6, 0.8], [0.0, 1.0]]);
    }

    #[test]
    fn an_answer_that_is_not_whole_is_refused() {
        for (answer, count) in [
            (r#"{"data":[{"index":0,"embedding":[1,2]}]}"#, 2),
            (r#"{"data":[{"index":5,"embedding":[1,2]}]}"#, 1),
            (r#"{"data":[{"index":0,"embedding":[]}]}"#, 1),
            (r#"{"data":[{"index":0,"embedding":[0,0]}]}"#, 1),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}"#, 2),
            (r#"{"error":"no"}"#, 1),
        ] {
            assert!(matches!(read(answer.as_bytes(), count), Err(EmbeddingError::Answer(_))), "{answer}");
        }
    }
}
