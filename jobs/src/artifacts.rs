//! Logs and patches: files in a folder, each named by the digest of its bytes.
//!
//! A file is complete and on disk before it has its name, so a row may point to it as soon as
//! `put` has returned. What is read is held against its name: a damaged file is an error.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::digest::Digest;

/// A content-addressed folder. Cheap to clone; safe to share between processes.
#[derive(Clone, Debug)]
pub struct Artifacts {
    folder: PathBuf,
}

/// An artifact could not be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The disk refused.
    #[error("cannot {doing} artifact {name} in {folder}")]
    Disk { doing: &'static str, name: String, folder: PathBuf, source: std::io::Error },
    /// Nothing has this digest here.
    #[error("no artifact {0} in the artifact folder; the folder must be shared by all nodes of one database")]
    Missing(Digest),
    /// The file is not what its name says.
    #[error("artifact {0} is damaged: its bytes have another digest")]
    Damaged(Digest),
    /// Larger than the caller takes.
    #[error("artifact {digest} is larger than {limit} bytes")]
    TooLarge { digest: Digest, limit: u64 },
}

impl Artifacts {
    /// Opens `folder`, making it (for this user alone) where it does not exist.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, ArtifactError> {
        let artifacts = Self { folder: folder.into() };
        make_private_folder(&artifacts.folder).map_err(artifacts.failed("open", "folder"))?;
        Ok(artifacts)
    }

    /// Keeps `bytes` and returns the name; keeping the same bytes again changes nothing.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, ArtifactError> {
        let digest = Digest::of(bytes);
        let path = self.path(digest);
        if self.holds(digest, bytes.len()) {
            return Ok(digest);
        }
        let parent = path.parent().expect("a path below the folder has a parent");
        let write = || -> std::io::Result<()> {
            make_private_folder(parent)?;
            let temporary = parent.join(format!(".{}.{}", digest.short(), uuid::Uuid::new_v4().simple()));
            let written = write_synced(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, &path));
            if written.is_err() {
                // The temporary file is of no use to anyone; that it may stay is no further harm.
                let _ = std::fs::remove_file(&temporary);
            }
            written?;
            File::open(parent)?.sync_all()
        };
        write().map_err(self.failed("write", &digest.to_string()))?;
        Ok(digest)
    }

    /// The bytes, checked against their name.
    pub fn get(&self, digest: Digest) -> Result<Vec<u8>, ArtifactError> {
        self.get_bounded(digest, u64::MAX - 1)
    }

    /// The bytes, checked against their name, refused when there are more than `limit`.
    pub fn get_bounded(&self, digest: Digest, limit: u64) -> Result<Vec<u8>, ArtifactError> {
        let name = digest.to_string();
        let file = match File::open(self.path(digest)) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(ArtifactError::Missing(digest));
            }
            Err(error) => return Err(self.failed("open", &name)(error)),
        };
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes).map_err(self.failed("read", &name))?;
        if bytes.len() as u64 > limit {
            return Err(ArtifactError::TooLarge { digest, limit });
        }
        if Digest::of(&bytes) != digest {
            return Err(ArtifactError::Damaged(digest));
        }
        Ok(bytes)
    }

    /// Where the file of this digest is, or would be.
    pub fn path(&self, digest: Digest) -> PathBuf {
        let name = digest.to_string();
        self.folder.join(&name[..2]).join(&name[2..])
    }

    /// Whether a whole file is there; one of another length was damaged and is written anew.
    fn holds(&self, digest: Digest, length: usize) -> bool {
        std::fs::metadata(self.path(digest)).is_ok_and(|found| found.len() == length as u64)
            && self.get(digest).is_ok()
    }

    fn failed(&self, doing: &'static str, name: &str) -> impl FnOnce(std::io::Error) -> ArtifactError {
        let (name, folder) = (name.to_owned(), self.folder.clone());
        move |source| ArtifactError::Disk { doing, name, folder, source }
    }
}

fn make_private_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifacts() -> (tempfile::TempDir, Artifacts) {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::open(folder.path().join("artifacts")).unwrap();
        (folder, artifacts)
    }

    #[test]
    fn what_was_put_is_got_by_its_digest() {
        let (_folder, artifacts) = artifacts();
        let digest = artifacts.put(b"a log\0\xff").unwrap();
        assert_eq!(digest, Digest::of(b"a log\0\xff"));
        assert_eq!(artifacts.get(digest).unwrap(), b"a log\0\xff");
        assert_eq!(artifacts.put(b"a log\0\xff").unwrap(), digest, "a second put is no error");
    }

    #[test]
    fn a_damaged_artifact_is_an_error_and_is_mended_by_the_next_put() {
        let (_folder, artifacts) = artifacts();
        let digest = artifacts.put(b"whole").unwrap();
        std::fs::write(artifacts.path(digest), b"wrong").unwrap();
        assert!(matches!(artifacts.get(digest), Err(ArtifactError::Damaged(_))));
        artifacts.put(b"whole").unwrap();
        assert_eq!(artifacts.get(digest).unwrap(), b"whole");
    }

    #[test]
    fn a_missing_artifact_and_one_over_the_limit_are_told_apart() {
        let (_folder, artifacts) = artifacts();
        assert!(matches!(artifacts.get(Digest::of(b"never")), Err(ArtifactError::Missing(_))));
        let digest = artifacts.put(b"12345").unwrap();
        assert!(matches!(artifacts.get_bounded(digest, 4), Err(ArtifactError::TooLarge { limit: 4, .. })));
        assert_eq!(artifacts.get_bounded(digest, 5).unwrap(), b"12345");
    }

    #[test]
    fn no_temporary_file_stays_and_others_cannot_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, artifacts) = artifacts();
        let digest = artifacts.put(b"secretly private").unwrap();
        let parent = artifacts.path(digest).parent().unwrap().to_owned();
        let names: Vec<_> =
            std::fs::read_dir(&parent).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 1);
        for path in [parent, artifacts.path(digest)] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o077, 0);
        }
    }
}
