//! What the launcher is told to do, and what it tells back, as they cross the control socket.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::ContainerLimits;
use crate::sandbox::cgroup;

/// The user and the group within every container.
pub const INSIDE_ID: u32 = 1000;

/// Everything that one execution needs; nothing else reaches the launcher, whose environment is empty.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The user and group of this host that stand behind [`INSIDE_ID`].
    pub host_ids: (u32, u32),
    /// In the order in which they are made.
    pub mounts: Vec<Mount>,
    /// Symbolic links of the root: where they lie, and what they say.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Small files of the root, and their text.
    pub files: Vec<(PathBuf, String)>,
    pub limits: Limits,
    /// The memory limit's cgroup, which the launcher makes and removes.
    pub cgroup: Option<cgroup::Child>,
    /// Whether the kernel has Landlock, so that not being held by it is a failure.
    pub landlock: bool,
    /// Whether the forwarder listens for clients of the egress window mounted at `/run/egress`.
    pub forward: bool,
    pub work: Work,
}

/// A host path within the container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mount {
    /// Without links.
    pub host: PathBuf,
    pub inside: PathBuf,
    pub writable: bool,
}

/// The container's bounds as they are set inside.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Limits {
    pub memory_bytes: u64,
    pub processes: u64,
    pub file_bytes: u64,
    pub open_files: u64,
    pub scratch_bytes: u64,
}

impl From<ContainerLimits> for Limits {
    fn from(limits: ContainerLimits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            processes: limits.processes,
            file_bytes: limits.file_bytes,
            open_files: limits.open_files,
            scratch_bytes: limits.scratch_bytes,
        }
    }
}

/// What is done in the finished container.
#[derive(Debug, Serialize, Deserialize)]
pub enum Work {
    /// A program is run.
    Program { argv: Vec<String>, directory: PathBuf, environment: BTreeMap<String, String> },
    /// Every way out is tried, and what came of it is written to standard output.
    Dials,
}

/// Told back on the control socket, one JSON text a line.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// The container could not be made.
    Failed { what: String, errno: Option<i32> },
    /// The container stands, the program could not be started in it.
    NotStarted { why: String },
    /// The program left with this code.
    Exited(i32),
    /// A signal ended the program.
    Signalled(i32),
    /// No process is left. The last line.
    Gone { out_of_memory: bool },
}
