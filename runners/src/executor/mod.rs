//! The governed run: claimed, taken up where its journal stands, driven phase by phase to its one end.
//!
//! For whoever starts it:
//! - [`Engine`] is filled in and shared: `Arc::new(Engine { .. }).work(cancel)` claims and drives runs, at
//!   most `concurrency` at a time, until `cancel`; what is under way may then go on for `drain`, and is
//!   handed back to the queue after it, but for an agent that is at work, which is waited for. [`Engine::run_one`] claims and drives one run.
//! - The bundle of a finished run stands in [`bundle::folder`] before the forge can be told of its end;
//!   [`bundle::from_store`] makes it again anywhere.
//! - [`FAULT_POINTS`] names where a test may kill the process (feature `fault-injection` of `jobs`).
//!
//! What holds: every write carries the run's fence, and a lost fence ends the worker at once. An agent is
//! called only after its intent is durable and journalled; a launch without a result suspends the run.
//! A check that was interrupted is run again only in a fresh container, on files written anew.
//!
//! Build caches: every tree is checked in its own workspace with its own home, both new. The checks of one
//! tree share a cache below that home; nothing of it reaches another tree, so neither an old time stamp nor
//! a planted file can make a changed tree look checked.

mod apply;
mod baseline;
pub mod bundle;
mod checks;
mod cx;
mod drive;
mod folders;
mod install;
mod lease;
mod ledger;
pub mod navigate;
mod propose;
mod provision;
pub mod summary;
mod traces;
mod verify;
mod work;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jobs::artifacts::{ArtifactError, Artifacts};
use jobs::clock::Clock;
use jobs::id::{LaunchId, RunId};
use jobs::run::Failure;
use jobs::source::Source;
use jobs::store::runs::HaltRequest;
use jobs::store::{Db, StoreError};
use receipts::{Signer, WriteError};
use tokio::sync::broadcast;

use crate::agents::Models;
use crate::egress::{HostPort, Network, UpstreamProxy};
use crate::progress::Progress;
use crate::sandbox::Sandbox;
use crate::toolchains::Toolchains;

pub use lease::LEASE_MS;

/// The points of a run at which a test may kill the process, in the order in which a run passes them.
/// Those of the store stand between a transaction and its commit, the others between two steps.
pub const FAULT_POINTS: [&str; 20] = [
    "after-claim",
    "run-opened",
    "run-provisioned",
    "run-bootstrapped",
    "run-navigated",
    "run-baseline-checked",
    "run-baseline",
    "run-governed",
    "before-intent-commit",
    "after-intent-commit",
    "after-launch-started",
    "before-launch-settled",
    "after-launch-settled",
    "run-proposed",
    "run-applied",
    "run-verify-checked",
    "run-verified",
    "run-bundled",
    "before-settle-commit",
    "after-settle-commit",
];

/// What an operator lets through the egress window.
#[derive(Clone, Debug, Default)]
pub struct EgressSettings {
    /// Beyond what the clients' own configuration names.
    pub hosts: BTreeSet<HostPort>,
    pub trusted_networks: Vec<Network>,
    pub upstream: Option<UpstreamProxy>,
}

/// Everything that drives runs.
pub struct Engine {
    pub db: Db,
    pub artifacts: Artifacts,
    pub source: Arc<dyn Source>,
    pub sandbox: Arc<dyn Sandbox>,
    pub toolchains: Toolchains,
    pub egress: EgressSettings,
    /// The models that jobs may name.
    pub models: Models,
    pub signer: Arc<Signer>,
    pub clock: Arc<dyn Clock>,
    /// Workspaces and bundles lie below it.
    pub data_dir: PathBuf,
    /// The name of this node in rows.
    pub node: String,
    pub progress: broadcast::Sender<Progress>,
    /// Runs at a time.
    pub concurrency: usize,
    /// Runs of one repository at a time, over all nodes that hold to it; `None` for any number.
    pub repository_concurrency: Option<u32>,
    /// How long runs under way may go on once the engine is told to stop.
    pub drain: Duration,
}

/// How one worker let go of one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Let {
    /// It has its one end.
    Finished(RunId),
    /// It waits for a person or a look-up.
    Suspended(RunId),
    /// It is queued again, for another worker or a later time.
    Requeued(RunId),
    /// Another worker has it, or the store could not be written to; its lease decides.
    Dropped(RunId),
}

impl Let {
    /// The run that was let go of.
    pub fn run(&self) -> &RunId {
        match self {
            Let::Finished(run) | Let::Suspended(run) | Let::Requeued(run) | Let::Dropped(run) => run,
        }
    }
}

/// Why a run is interrupted between or within steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Interrupt {
    /// The fence is lost: nothing more may be written.
    LeaseLost,
    /// Somebody asked for it.
    Halt(HaltRequest),
    /// The run's whole time is spent.
    OutOfTime { limit_ms: u64 },
    /// This process ends; another takes the run up.
    Shutdown,
}

/// A phase did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum PhaseError {
    /// The run ends as failed, with the true reason.
    #[error("{0:?}")]
    Failed(Failure),
    /// The run was interrupted.
    #[error("interrupted: {0:?}")]
    Interrupted(Interrupt),
    /// Whether the agent ran is not known.
    #[error("the result of launch {0} is not known")]
    Uncertain(LaunchId),
    /// The store did not take a write.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A signed line could not be written.
    #[error("cannot write a signed line of the run")]
    Write(#[from] WriteError),
    /// One chain has one key, and the run was begun with another.
    #[error("the run was begun with the signing key {0}, which is not this service's; put that key back")]
    OtherKey(String),
    /// An artifact could not be kept or found.
    #[error("cannot keep or find an artifact of the run")]
    Artifact(#[from] ArtifactError),
    /// A folder of the run could not be made or read.
    #[error("cannot {doing} of the run")]
    Disk { doing: &'static str, source: std::io::Error },
}

impl PhaseError {
    fn internal(why: &str) -> Self {
        PhaseError::Failed(Failure::Internal(why.to_owned()))
    }

    fn disk(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| PhaseError::Disk { doing, source }
    }
}

/// An error with all its causes, for a step's record and the log.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}
