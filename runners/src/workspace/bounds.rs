//! How much of a repository or workspace is read before it is refused.

use super::path::TreePath;

/// Bounds of one tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// All files together.
    pub bytes: u64,
    pub files: u64,
    /// One file.
    pub file_bytes: u64,
    /// Names in folders that are looked at, tracked or not.
    pub names: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 128 << 20, files: 16_384, file_bytes: 64 << 20, names: 1 << 20 }
    }
}

/// A tree is larger than its bounds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OverBound {
    #[error("the tree has more than {0} files; raise the bound or leave files out")]
    Files(u64),
    #[error("the tree has more than {0} bytes; raise the bound or leave files out")]
    Bytes(u64),
    #[error("{path} has {bytes} bytes, over the bound of {bound} for one file")]
    File { path: TreePath, bytes: u64, bound: u64 },
    #[error("the workspace has more than {0} names; clean up what the commands leave behind")]
    Names(u64),
}

impl Bounds {
    pub(super) fn check_files(&self, files: u64) -> Result<(), OverBound> {
        if files > self.files { Err(OverBound::Files(self.files)) } else { Ok(()) }
    }

    pub(super) fn check_bytes(&self, bytes: u64) -> Result<(), OverBound> {
        if bytes > self.bytes { Err(OverBound::Bytes(self.bytes)) } else { Ok(()) }
    }

    pub(super) fn check_names(&self, names: u64) -> Result<(), OverBound> {
        if names > self.names { Err(OverBound::Names(self.names)) } else { Ok(()) }
    }

    pub(super) fn check_file(&self, path: &TreePath, bytes: u64) -> Result<(), OverBound> {
        if bytes > self.file_bytes {
            return Err(OverBound::File { path: path.clone(), bytes, bound: self.file_bytes });
        }
        Ok(())
    }
}
