//! An answer on its way to a client: counted, digested, and perhaps taken down for the cache.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use jobs::digest::Digest;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

use crate::egress::cache::{Cache, Record, Writing};
use crate::egress::client;
use crate::egress::dial::unreachable;
use crate::egress::ledger::Entry;
use crate::egress::request::Refusal;
use crate::egress::routes::Body;
use crate::egress::tunnel::Budgets;

/// One answer.
pub struct Passing {
    from: From,
    /// What its address gave, once it is whole; `None` for an answer that is not kept.
    record: Option<Record>,
    writing: Option<Writing>,
    budgets: Arc<Budgets>,
    digest: Sha256,
    /// How many bytes were promised: who has them all does not ask for more.
    length: Option<u64>,
    is_ended: bool,
    entry: Entry,
}

enum From {
    Registry(reqwest::Response),
    Cache(tokio::fs::File, Option<Cache>),
}

impl Passing {
    pub fn of_registry(
        answer: reqwest::Response,
        writing: Option<Writing>,
        record: Option<Record>,
        budgets: Arc<Budgets>,
        entry: Entry,
    ) -> Self {
        let length = answer.content_length();
        let from = From::Registry(answer);
        Self { from, record, writing, budgets, digest: Sha256::new(), length, is_ended: false, entry }
    }

    pub fn of_cache(
        file: tokio::fs::File,
        record: Record,
        cache: Option<Cache>,
        budgets: Arc<Budgets>,
        entry: Entry,
    ) -> Self {
        let (from, length) = (From::Cache(file, cache), Some(record.bytes));
        let record = Some(record);
        Self { from, record, writing: None, budgets, digest: Sha256::new(), length, is_ended: false, entry }
    }

    /// The next bytes; `None` at the end of a whole answer.
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        let chunk = match &mut self.from {
            From::Registry(answer) => answer
                .chunk()
                .await
                .map_err(|error| format!("the registry broke off: {}", client::told(error)))?,
            From::Cache(file, _) => {
                let mut buffer = Vec::with_capacity(64 << 10);
                file.read_buf(&mut buffer)
                    .await
                    .map_err(|error| format!("the cache cannot be read: {error}"))?;
                (!buffer.is_empty()).then(|| Bytes::from(buffer))
            }
        };
        let Some(chunk) = chunk else { return self.end().await.map(|()| None) };
        let count = chunk.len() as u64;
        self.entry.line.bytes_down += count;
        if !self.budgets.down.take(count) {
            return Err("the window's download budget is spent; cut".to_owned());
        }
        self.digest.update(&chunk);
        if let Some(writing) = &mut self.writing
            && let Err(error) = writing.write(&chunk).await
        {
            tracing::warn!(%error, "cannot take a registry's answer down; it is passed on all the same");
            self.writing = None;
        }
        if self.length == Some(self.entry.line.bytes_down) {
            self.end().await?;
        }
        Ok(Some(chunk))
    }

    /// Ends a whole answer, before its last bytes are given out.
    async fn end(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.is_ended, true) {
            return Ok(());
        }
        let digest = Digest::from_bytes(self.digest.clone().finalize().into());
        self.entry.line.digest = Some(digest);
        let Some(record) = &mut self.record else { return Ok(()) };
        if let From::Cache(_, cache) = &self.from {
            if record.digest == digest {
                return Ok(());
            }
            if let Some(cache) = cache {
                cache.forget(record.digest).await;
            }
            return Err("the cache held other bytes than it should; ask again".to_owned());
        }
        record.digest = digest;
        record.bytes = self.entry.line.bytes_down;
        if let Some(writing) = self.writing.take()
            && let Err(error) = writing.keep(record).await
        {
            tracing::warn!(%error, "cannot keep a registry's answer");
        }
        Ok(())
    }

    /// The answer as a body; an error cuts it, which the client sees.
    pub fn stream(self) -> Body {
        let chunks = stream::try_unfold(self, async |mut passing| match passing.next().await {
            Ok(chunk) => Ok(chunk.map(|chunk| (Frame::data(chunk), passing))),
            Err(why) => {
                passing.entry.refused(why.as_str());
                Err(std::io::Error::other(why))
            }
        });
        StreamBody::new(chunks).boxed_unsync()
    }

    /// The whole answer, which must not be larger than `most`.
    pub async fn collect(mut self, most: u64) -> Result<Vec<u8>, (Entry, Refusal)> {
        let mut bytes = Vec::new();
        loop {
            match self.next().await {
                Ok(None) => return Ok(bytes),
                Ok(Some(chunk)) if bytes.len() as u64 + chunk.len() as u64 <= most => {
                    bytes.extend_from_slice(&chunk)
                }
                Ok(Some(_)) => {
                    let why = format!("a listing larger than {most} bytes");
                    return Err((self.entry, Refusal { status: 502, phrase: "Egress-Too-Large", why }));
                }
                Err(why) => return Err((self.entry, unreachable(why))),
            }
        }
    }
}
