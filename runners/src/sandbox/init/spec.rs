//! The launcher's instructions.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything that the launcher needs to know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// An empty folder that becomes the container's root.
    pub stage: PathBuf,
    pub host_user: u32,
    pub host_group: u32,
    pub read_only: Vec<RootBind>,
    pub writable: Vec<Writable>,
    /// Whether `/run/egress` is there and a forwarder listens.
    pub egress: bool,
    pub scratch_bytes: u64,
    pub limits: Rlimits,
    pub payload: Payload,
}

/// A host path that is seen read-only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct RootBind {
    pub inside: PathBuf,
    pub host: PathBuf,
}

/// A host folder that may be written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Writable {
    pub inside: PathBuf,
    pub host: PathBuf,
}

/// Limits of each process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rlimits {
    pub processes: u64,
    pub open_files: u64,
    pub file_bytes: u64,
    /// Private memory of one process; what all use together is the control group's to bound.
    pub data_bytes: u64,
}

/// What the container is for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    Program {
        argv: Vec<String>,
        /// Absolute, inside.
        directory: String,
        environment: Vec<(String, String)>,
    },
    /// Tries every way out and writes what it found.
    SelfTest,
}
