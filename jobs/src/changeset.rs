//! A verified change as whole files: what a push writes, beside the git patch that people read.
//!
//! The patch's digest is what a person authorizes. The files must lead from the same tree to the
//! same tree; whoever pushes compares the tree that results with `tree_after` before a ref moves.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::Digest;
use crate::id::TreeId;

/// All changed files of a verified change; kept as JSON in the artifact folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangesetFiles {
    pub tree_before: TreeId,
    pub tree_after: TreeId,
    /// Digest of the git patch of the same change, in the artifact folder.
    pub patch: Digest,
    /// Sorted by path; no path twice.
    pub files: Vec<FileState>,
}

/// What one path is after the change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileState {
    /// From the root of the repository, with `/` between names.
    pub path: String,
    pub now: FileNow,
}

/// A file's content after the change, or that it is gone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum FileNow {
    File {
        mode: FileMode,
        #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
        content: Vec<u8>,
    },
    Deleted,
}

/// Git's modes for what a file can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FileMode {
    #[serde(rename = "100644")]
    Regular,
    #[serde(rename = "100755")]
    Executable,
    /// The content is the link's target.
    #[serde(rename = "120000")]
    Symlink,
}

impl FileMode {
    /// Git's six octal digits.
    pub const fn octal(self) -> &'static str {
        match self {
            FileMode::Regular => "100644",
            FileMode::Executable => "100755",
            FileMode::Symlink => "120000",
        }
    }
}

/// Bytes that are no changeset, or one that must not be pushed.
#[derive(Debug, thiserror::Error)]
pub enum NotAChangeset {
    #[error("cannot read the changeset: {0}")]
    Form(#[from] serde_json::Error),
    #[error("the changeset names the path {0:?}, which no repository can hold")]
    Path(String),
    #[error("the changeset's paths are not in order at {0:?}")]
    Order(String),
}

impl ChangesetFiles {
    /// The JSON form that is kept as an artifact.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a changeset has only strings")
    }

    /// Reads the JSON form and holds its paths to what git allows.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotAChangeset> {
        let changeset: Self = serde_json::from_slice(bytes)?;
        for file in &changeset.files {
            if !is_tracked_path(&file.path) {
                return Err(NotAChangeset::Path(file.path.clone()));
            }
        }
        match changeset.files.windows(2).find(|pair| pair[0].path >= pair[1].path) {
            Some(pair) => Err(NotAChangeset::Order(pair[1].path.clone())),
            None => Ok(changeset),
        }
    }
}

/// Whether git could track this path: relative, without empty, `.`, `..` or `.git` parts.
fn is_tracked_path(path: &str) -> bool {
    !path.contains('\0')
        && path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.eq_ignore_ascii_case(".git"))
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changeset(paths: &[&str]) -> ChangesetFiles {
        ChangesetFiles {
            tree_before: "a".repeat(40).parse().unwrap(),
            tree_after: "b".repeat(40).parse().unwrap(),
            patch: Digest::of(b"patch"),
            files: paths
                .iter()
                .map(|&path| FileState {
                    path: path.to_owned(),
                    now: FileNow::File { mode: FileMode::Executable, content: b"\xff\0x".to_vec() },
                })
                .collect(),
        }
    }

    #[test]
    fn a_changeset_survives_its_json_form() {
        let mut written = changeset(&["a/b.rs", "c"]);
        written.files.push(FileState { path: "d".into(), now: FileNow::Deleted });
        assert_eq!(ChangesetFiles::from_bytes(&written.to_bytes()).unwrap(), written);
    }

    #[test]
    fn a_path_that_git_cannot_track_is_refused() {
        for path in ["../x", "/x", "a//b", ".git/config", "a/.GIT/hooks/x", "", "a/./b", "a\0b"] {
            let bytes = changeset(&[path]).to_bytes();
            assert!(matches!(ChangesetFiles::from_bytes(&bytes), Err(NotAChangeset::Path(_))), "{path:?}");
        }
    }

    #[test]
    fn a_path_named_twice_is_refused() {
        let bytes = changeset(&["a", "a"]).to_bytes();
        assert!(matches!(ChangesetFiles::from_bytes(&bytes), Err(NotAChangeset::Order(_))));
    }
}
