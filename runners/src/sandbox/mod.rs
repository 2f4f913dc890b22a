//! Where code of strangers runs: containers without a network, behind one trait.
//!
//! Order of calls: [`Sandbox::create`], then [`Container::exec`] any number of times, one at a time,
//! perhaps [`Container::seal`], and [`Container::destroy`] at the end. A container whose value is
//! dropped is destroyed too. After a failed `create` nothing is left. After a crash of this process
//! the kernel ends every container with it; [`Sandbox::reap`] removes what lies on disk.
//!
//! Every backend constructs the environment and never inherits one, gives no interface but loopback,
//! and returns from `exec` only when no process of the command is left.

mod base;
mod cgroup;
pub mod conformance;
mod embedded;
pub mod init;
pub mod leftovers;
mod probe;
pub mod removal;
mod seccomp;
mod sys;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use jobs::id::RunId;
use jobs::step::SealReport;
use tokio_util::sync::CancellationToken;

use crate::egress::Sealed;

pub use self::embedded::Embedded;
pub use self::seccomp::oci::profile as seccomp_profile;

/// Where the workspace lies within every container.
pub const WORKSPACE: &str = "/workspace";
/// The writable home within every container; dependency caches live below it.
pub const HOME: &str = "/home/whipstitch";
/// Where the forwarder to the egress window listens within a container that has one.
pub const EGRESS_PROXY: &str = "http://127.0.0.1:3128";

/// Starts containers of one kind.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// What this machine can seal, measured and not assumed.
    fn probe(&self) -> Capabilities;

    /// The user and group, as ids of this host, that own what a container writes; `None` when it is
    /// the user of this process. Folders that are handed to `create` belong to it.
    fn owner(&self) -> Option<(u32, u32)>;

    /// Makes a container. Any number may exist at a time.
    async fn create(&self, spec: ContainerSpec) -> Result<Box<dyn Container>, SandboxError>;

    /// Removes what a crashed process left of `run`'s containers. Idempotent.
    async fn reap(&self, run: RunId) -> Result<(), SandboxError>;
}

/// One container.
#[async_trait]
pub trait Container: Send {
    /// Runs one command and returns when no process of it is left.
    ///
    /// Its own failure, its death and our killing it are all an [`Exit`]; an error means that the
    /// command's result is unknown or that it never started.
    async fn exec(&mut self, command: Command) -> Result<Exit, SandboxError>;

    /// Closes the way to the egress window and proves by failed dials from inside that nothing is open.
    async fn seal(&mut self, proof: &Sealed) -> Result<SealReport, SandboxError>;

    /// Ends every process and gives back what the container held. Idempotent.
    async fn destroy(&mut self) -> Result<(), SandboxError>;
}

/// What a container is made of.
#[derive(Clone, Debug)]
pub struct ContainerSpec {
    pub run: RunId,
    /// Host folder that appears at [`WORKSPACE`], writable.
    pub workspace: PathBuf,
    /// Host folder that appears at [`HOME`], writable; outlives the container.
    pub home: PathBuf,
    /// Host paths that appear read-only at the same place or another.
    pub read_only: Vec<Bind>,
    /// The whole environment, but for what a command adds.
    pub environment: BTreeMap<String, String>,
    pub limits: ContainerLimits,
    /// The folder of an open egress window; `None` for a container without a way out.
    pub egress: Option<PathBuf>,
}

/// A host path within a container. Links are resolved on the host first, so that a toolchain behind a
/// link cannot silently vanish.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bind {
    pub host: PathBuf,
    pub inside: PathBuf,
}

impl Bind {
    /// A host path at the same place.
    pub fn same(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { host: path.clone(), inside: path }
    }
}

/// Bounds of everything in one container together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContainerLimits {
    pub memory_bytes: u64,
    pub processes: u64,
    /// The largest file that may be written.
    pub file_bytes: u64,
    pub open_files: u64,
    /// Size of each scratch file system (`/tmp`, `/dev/shm`).
    pub scratch_bytes: u64,
    /// What may be written to the workspace and to the home, each.
    pub disk_bytes: u64,
    /// How many files and folders may be made in the workspace and in the home, each.
    pub disk_files: u64,
    /// The share of processors, 100 being one of them.
    pub cpu_percent: u64,
}

impl ContainerLimits {
    /// The job's limits, with fixed bounds for files and scratch space.
    pub fn of(limits: &jobs::job::Limits) -> Self {
        Self {
            memory_bytes: limits.max_memory_bytes,
            processes: limits.max_processes,
            file_bytes: 4 << 30,
            open_files: 4096,
            scratch_bytes: 512 << 20,
            disk_bytes: 16 << 30,
            disk_files: 2_000_000,
            cpu_percent: all_processors(),
        }
    }
}

impl Default for ContainerLimits {
    fn default() -> Self {
        Self::of(&jobs::job::Limits::default())
    }
}

/// The share that is every processor of the machine.
fn all_processors() -> u64 {
    100 * std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// One command within a container.
#[derive(Clone, Debug)]
pub struct Command {
    /// Never a shell string, never empty.
    pub argv: Vec<String>,
    /// Where it runs, relative to [`WORKSPACE`]; empty for its root.
    pub directory: String,
    /// What it has beyond the container's environment.
    pub environment: BTreeMap<String, String>,
    pub stdin: Vec<u8>,
    /// The whole time it may take.
    pub timeout: Duration,
    /// The time that it may stay silent.
    pub silence: Duration,
    /// Bytes kept of each of its two outputs; a command that prints more is ended.
    pub max_output_bytes: u64,
    pub cancel: CancellationToken,
}

impl Command {
    /// A command at the workspace's root with the time and output bounds of a check.
    pub fn new(argv: &[&str]) -> Self {
        Self {
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            directory: String::new(),
            environment: BTreeMap::new(),
            stdin: Vec::new(),
            timeout: Duration::from_secs(600),
            silence: Duration::from_secs(600),
            max_output_bytes: 16 << 20,
            cancel: CancellationToken::new(),
        }
    }
}

/// How a command ended, and what it printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exit {
    pub cause: Cause,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub duration: Duration,
}

/// Why a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// It left with this code.
    Exited(i32),
    /// A signal of its own making or of another process inside ended it.
    Signalled(i32),
    /// Its whole time was over.
    TimedOut,
    /// It was silent for too long.
    Silent,
    /// It printed more than it may.
    OutputLimit,
    /// Its processes used more memory than they may.
    OutOfMemory,
    /// It failed, and it had been refused a process.
    Processes,
    /// It failed, and a file system or a file of it was full.
    Disk,
    /// The run was cancelled.
    Cancelled,
}

/// What this machine can seal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// `embedded`, `podman`, ...
    pub backend: &'static str,
    pub kernel: String,
    pub findings: Vec<Finding>,
}

impl Capabilities {
    /// Whether everything that sealing needs is there.
    pub fn can_seal(&self) -> bool {
        self.findings.iter().all(|finding| finding.state != FindingState::Missing)
    }

    /// What is best effort about a limit; `None` where the kernel holds it.
    pub fn weak(&self, limit: Limit) -> Option<&Finding> {
        let is = |finding: &&Finding| finding.name == limit.finding() && finding.state != FindingState::Ok;
        self.findings.iter().find(is)
    }
}

/// A limit that some machines cannot hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    Memory,
    Processes,
    Processors,
    Disk,
}

impl Limit {
    /// The name of the finding about it.
    pub const fn finding(self) -> &'static str {
        match self {
            Limit::Memory => "memory limit",
            Limit::Processes => "process limit",
            Limit::Processors => "processor limit",
            Limit::Disk => "disk limit",
        }
    }
}

/// One thing that was looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// `user namespaces`, `Landlock`, `seccomp`, `memory limit`, ...
    pub name: &'static str,
    pub state: FindingState,
    /// What was found, in a few words.
    pub found: String,
    /// What to do where something is missing or weak; empty when nothing is.
    pub advice: String,
}

/// How good it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FindingState {
    Ok,
    /// It works less strictly than it could: a best-effort limit.
    Weak,
    /// Sealing is not possible without it.
    Missing,
}

/// A container could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This machine cannot seal; the text names the reason and the ways out.
    #[error("this machine cannot seal a container: {0}")]
    CannotSeal(String),
    /// The container could not be made.
    #[error("cannot make a container: {what}")]
    Create { what: String, source: std::io::Error },
    /// The command did not start: no such program, no such folder.
    #[error("cannot start {program}: {why}")]
    NotStarted { program: String, why: String },
    /// Its result is unknown.
    #[error("lost the container while {while_doing}")]
    Lost { while_doing: String, source: std::io::Error },
    /// A way out was found open.
    #[error("the container is not sealed: {0}")]
    NotSealed(String),
}
