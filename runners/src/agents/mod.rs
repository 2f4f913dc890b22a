//! Agents: who proposes an edit, behind one trait, and the two that need no model.
//!
//! An agent proposes a tree and is asked nothing else. Whether its edit helped is decided by the checks
//! alone. The intent to start it is durable before [`Agent::propose`] is called, and its error tells
//! whether it may be called again.

mod fixers;
pub mod model;
mod replay;
mod ruff;
mod rustc;
mod suggestions;
mod workbench;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use jobs::artifacts::{ArtifactError, Artifacts};
use jobs::check::Check;
use jobs::digest::Digest;
use jobs::id::LaunchId;
use jobs::job::{AgentSpec, Limits};
use jobs::verdict::{Checked, Verdict};
use tokio_util::sync::CancellationToken;

use crate::navigate::RepoView;
use crate::workspace::Tree;

pub use fixers::Fixers;
pub use model::{Model, RunCheck};
pub use replay::Replay;
pub use workbench::{Bench, Workbench, WorkbenchError};

/// Proposes edits.
#[async_trait]
pub trait Agent: Send + Sync {
    /// Who it is, for the receipt.
    fn identity(&self) -> Identity;

    /// One proposal for one launch. Called at most once for each launch.
    async fn propose(&self, task: &Task<'_>) -> Result<Proposal, AgentError>;
}

/// An agent by name, version and model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub name: String,
    pub version: String,
    /// `None` for an agent without one.
    pub model: Option<String>,
}

/// What is to be mended.
pub struct Task<'a> {
    /// The first edit of a run is 0.
    pub iteration: u32,
    pub launch: &'a LaunchId,
    /// Digest of the recorded intent.
    pub intent: Digest,
    /// The tree as it is now: the admitted one, or what the last iteration made of it.
    pub tree: &'a Tree,
    /// The admitted checks.
    pub checks: &'a [Check],
    /// What they said of `tree`.
    pub failing: &'a Checked,
    /// What may be asked of `tree`: the repo map from its failures, search, files and passages.
    pub view: &'a RepoView,
    /// What the last iteration came to, where there was one.
    pub last: Option<&'a Verdict>,
    /// Why the last proposal could not be applied, if it could not.
    pub unapplied: Option<&'a str>,
    pub limits: &'a Limits,
    /// Where commands run on copies of the tree, sealed and offline.
    pub workbench: &'a Workbench<'a>,
    /// Runs one admitted check on a tree as a verification does; what it says is for the agent alone.
    pub run_check: &'a RunCheck<'a>,
    pub tokens_left: u64,
    pub time_left: Duration,
    pub cancel: &'a CancellationToken,
}

/// What an agent proposes.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The whole tree after the edit; `None` when it has nothing to propose.
    pub after: Option<Tree>,
    /// What it did, in a few sentences; for people, never for a decision.
    pub note: String,
    /// Tokens that it took, as the provider counts them.
    pub tokens: u64,
}

/// An agent did not propose.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It is known that it did nothing; another launch may be made.
    #[error("the agent did not start: {0}")]
    NotStarted(String),
    /// It ended by itself and will give no other answer to the same task.
    #[error("the agent refused: {why}")]
    Refused {
        why: String,
        /// What it took until then.
        tokens: u64,
    },
    /// Whether it did anything is not known.
    #[error("it is not known what the agent did: {0}")]
    Uncertain(String),
}

impl AgentError {
    /// The refusal of an agent that takes no tokens.
    pub fn refused(why: impl Into<String>) -> Self {
        AgentError::Refused { why: why.into(), tokens: 0 }
    }

    /// What the launch took, as far as is known.
    pub const fn tokens(&self) -> u64 {
        match self {
            AgentError::Refused { tokens, .. } => *tokens,
            AgentError::NotStarted(_) | AgentError::Uncertain(_) => 0,
        }
    }
}

/// What an operator's configuration gives to agents.
pub type Models = BTreeMap<String, model::Profile>;

/// A job's agent cannot be had here.
#[derive(Debug, thiserror::Error)]
pub enum NoAgent {
    /// Its patch is not at hand.
    #[error("cannot read the recorded patch")]
    Patch(#[from] ArtifactError),
    /// The operator's configuration does not name it.
    #[error("no model is named {name:?} here{known}; the operator adds it as [models.{name}]")]
    Model { name: String, known: String },
}

/// The agent that a job was admitted with.
pub fn agent_of(
    spec: &AgentSpec,
    artifacts: &Artifacts,
    limits: &Limits,
    models: &Models,
) -> Result<Box<dyn Agent>, NoAgent> {
    match spec {
        AgentSpec::Fixers => Ok(Box::new(Fixers)),
        AgentSpec::Replay { patch } => {
            Ok(Box::new(Replay::new(artifacts.get_bounded(*patch, limits.max_patch_bytes)?)))
        }
        AgentSpec::Model { profile } => match models.get(profile) {
            Some(found) => Ok(Box::new(Model::new(found.clone()))),
            None => {
                let names: Vec<&str> = models.keys().map(String::as_str).collect();
                let known = match names.is_empty() {
                    true => String::new(),
                    false => format!(" (there are {})", names.join(", ")),
                };
                Err(NoAgent::Model { name: profile.clone(), known })
            }
        },
    }
}
