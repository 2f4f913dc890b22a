//! What registries gave, by content, shared by all runs of a data folder.
//!
//! Bytes lie under their digest, and a record for each address says which bytes it gave and how the
//! registry can be asked whether they still hold. Only the broker writes here, and only what it fetched
//! itself without any credential; what is read is held against its digest again. A record is believed
//! without asking only where the registry called the answer immutable.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jobs::digest::Digest;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt as _;

/// Older bytes go when there are more than this at the opening of a window.
const MOST_BYTES: u64 = 8 << 30;
/// A record is small.
const MAX_RECORD: u64 = 64 << 10;

/// The cache in one folder.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

/// What an address gave.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    pub url: String,
    /// The kinds of content that were asked for: one address may give several.
    pub accept: String,
    pub digest: Digest,
    pub bytes: u64,
    pub content_type: Option<String>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    /// The registry said that this never changes.
    pub is_immutable: bool,
}

impl Cache {
    /// Opens or makes the cache, and removes the oldest bytes where there are too many.
    pub fn open(folder: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let cache = Self { folder: folder.to_owned() };
        for part in [cache.bytes(), cache.records(), cache.unfinished()] {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(part)?;
        }
        cache.trim(MOST_BYTES)?;
        Ok(cache)
    }

    fn bytes(&self) -> PathBuf {
        self.folder.join("bytes")
    }

    fn records(&self) -> PathBuf {
        self.folder.join("records")
    }

    fn unfinished(&self) -> PathBuf {
        self.folder.join("unfinished")
    }

    fn bytes_of(&self, digest: Digest) -> PathBuf {
        self.bytes().join(digest.to_string())
    }

    fn record_of(&self, url: &str, accept: &str) -> PathBuf {
        self.records().join(Digest::of(format!("{url}\n{accept}")).to_string())
    }

    /// What an address gave before, with its bytes; `None` where anything about it is not right.
    pub async fn find(&self, url: &str, accept: &str) -> Option<(Record, tokio::fs::File)> {
        let path = self.record_of(url, accept);
        if tokio::fs::metadata(&path).await.ok()?.len() > MAX_RECORD {
            return None;
        }
        let record: Record = serde_json::from_slice(&tokio::fs::read(&path).await.ok()?).ok()?;
        let file = tokio::fs::File::open(self.bytes_of(record.digest)).await.ok()?;
        let is_whole = file.metadata().await.ok()?.len() == record.bytes;
        (record.url == url && record.accept == accept && is_whole).then_some((record, file))
    }

    /// Forgets bytes that are not what their name says.
    pub async fn forget(&self, digest: Digest) {
        if let Err(error) = tokio::fs::remove_file(self.bytes_of(digest)).await {
            tracing::warn!(%error, %digest, "cannot remove damaged bytes of the egress cache");
        }
    }

    /// Begins to take an answer down.
    pub fn begin(&self) -> io::Result<Writing> {
        let (file, path) = NamedTempFile::new_in(self.unfinished())?.into_parts();
        Ok(Writing { cache: self.clone(), file: tokio::fs::File::from_std(file), path })
    }

    fn trim(&self, most: u64) -> io::Result<()> {
        let mut found: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(self.bytes())? {
            let entry = entry?;
            let about = entry.metadata()?;
            found.push((about.modified()?, about.len(), entry.path()));
        }
        let mut total: u64 = found.iter().map(|(_, bytes, _)| bytes).sum();
        found.sort();
        for (_, bytes, path) in found {
            if total <= most {
                break;
            }
            std::fs::remove_file(path)?;
            total -= bytes;
        }
        Ok(())
    }
}

/// An answer that is taken down as it passes; dropped before its end, nothing of it stays.
#[derive(Debug)]
pub struct Writing {
    cache: Cache,
    file: tokio::fs::File,
    path: tempfile::TempPath,
}

impl Writing {
    pub async fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.file.write_all(chunk).await
    }

    /// Keeps the whole answer under its digest, then its record.
    pub async fn keep(mut self, record: &Record) -> io::Result<()> {
        self.file.flush().await?;
        self.path.persist(self.cache.bytes_of(record.digest)).map_err(|error| error.error)?;
        let mut file = NamedTempFile::new_in(self.cache.unfinished())?;
        io::Write::write_all(&mut file, &serde_json::to_vec(record).map_err(io::Error::other)?)?;
        file.persist(self.cache.record_of(&record.url, &record.accept)).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn record(bytes: &[u8]) -> Record {
        Record {
            url: "https://r.example/x".to_owned(),
            accept: "*/*".to_owned(),
            digest: Digest::of(bytes),
            bytes: bytes.len() as u64,
            content_type: None,
            etag: None,
            last_modified: None,
            is_immutable: true,
        }
    }

    async fn keep(cache: &Cache, bytes: &[u8]) {
        let mut writing = cache.begin().unwrap();
        writing.write(bytes).await.unwrap();
        writing.keep(&record(bytes)).await.unwrap();
    }

    #[tokio::test]
    async fn what_was_kept_is_found_by_address_and_kind() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        keep(&cache, b"content").await;
        let (found, mut file) = cache.find("https://r.example/x", "*/*").await.unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).await.unwrap();
        assert_eq!((found, bytes.as_slice()), (record(b"content"), &b"content"[..]));
        assert!(cache.find("https://r.example/x", "text/html").await.is_none());
        assert!(cache.find("https://r.example/y", "*/*").await.is_none());
    }

    #[tokio::test]
    async fn an_unfinished_answer_leaves_nothing_and_a_cut_one_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let mut writing = cache.begin().unwrap();
        writing.write(b"half").await.unwrap();
        drop(writing);
        assert_eq!(std::fs::read_dir(cache.unfinished()).unwrap().count(), 0);
        keep(&cache, b"content").await;
        std::fs::write(cache.bytes_of(Digest::of(b"content")), b"cont").unwrap();
        assert!(cache.find("https://r.example/x", "*/*").await.is_none());
    }

    #[tokio::test]
    async fn the_oldest_bytes_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        for (bytes, age) in [(b"old".as_slice(), 20), (b"new".as_slice(), 10)] {
            keep(&cache, bytes).await;
            let file = std::fs::File::options().write(true).open(cache.bytes_of(Digest::of(bytes))).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
        cache.trim(5).unwrap();
        assert!(!cache.bytes_of(Digest::of(b"old")).exists());
        assert!(cache.bytes_of(Digest::of(b"new")).exists());
    }
}
