//! What the launcher is told to do, and what it tells back, as they cross the control socket.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::forward;
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
    /// The cgroups, which the launcher makes and removes; none where none can be made.
    pub cgroup: cgroup::Child,
    /// Whether the kernel has Landlock, so that not being held by it is a failure.
    pub landlock: bool,
    /// Whether the forwarder listens for clients of the egress window mounted at `/run/egress`.
    pub forward: bool,
    pub work: Work,
}

impl Plan {
    /// How many processes and threads there may be, with those that are ours.
    pub fn tasks(&self) -> u64 {
        self.limits.tasks(self.forward)
    }
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
    pub disk_bytes: u64,
    pub disk_files: u64,
}

/// The first process, and the thread of it that looks for full file systems.
const OWN_TASKS: u64 = 2;

impl Limits {
    /// The first process and its threads count too.
    pub fn tasks(&self, forward: bool) -> u64 {
        self.processes.saturating_add(OWN_TASKS + if forward { forward::THREADS } else { 0 })
    }
}

impl From<ContainerLimits> for Limits {
    fn from(limits: ContainerLimits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            processes: limits.processes,
            file_bytes: limits.file_bytes,
            open_files: limits.open_files,
            scratch_bytes: limits.scratch_bytes,
            disk_bytes: limits.disk_bytes,
            disk_files: limits.disk_files,
        }
    }
}

/// What is done in the finished container.
#[derive(Debug, Serialize, Deserialize)]
pub enum Work {
    /// A program is run.
    Program { argv: Vec<String>, directory: PathBuf, environment: BTreeMap<String, String> },
    /// The conformance suite's quick probes are made, and what came of them is written to standard output.
    SelfTest,
}

/// Told back on the control socket, one JSON text a line.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// The container could not be made.
    Failed { what: String, errno: Option<i32> },
    /// The container stands, the program could not be started in it.
    NotStarted { why: String },
    /// The program left with this code; whether a file system of it had been full.
    Exited { code: i32, full: bool },
    /// A signal ended the program.
    Signalled { signal: i32, full: bool },
    /// No process is left. The last line.
    Gone(Met),
}

/// Which of its limits a container has met.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Met {
    pub memory: bool,
    /// A process or a thread was refused, or the watch saw as many as there may be.
    pub processes: bool,
    /// The watch saw more on disk than there may be, and ended it.
    pub disk: bool,
}
