//! A run's states, phases and ends.

use serde::{Deserialize, Serialize};

/// The six phases of the governed loop, in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    Provision,
    Bootstrap,
    Navigate,
    Edit,
    Verify,
    Repair,
}

/// Why a run waits for a person or a look-up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suspension {
    /// A launch has an intent and no result; it is never blindly repeated.
    UncertainLaunch,
    /// Someone asked for it.
    Requested,
}

/// Why a run gave up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "why")]
pub enum Failure {
    /// The repository could not be cloned or checked out.
    Provision(String),
    /// Dependencies could not be installed, or the container could not be sealed.
    Bootstrap(String),
    /// The agent had nothing more to propose while something was still red.
    NotRepaired(String),
    /// Green, but not believed.
    Refused(String),
    /// A check could not be read.
    Inconclusive(String),
    /// The agent's proposal could not be applied, or the agent failed.
    Agent(String),
    /// Something of ours went wrong.
    Internal(String),
}

/// Why the governor, a person or the clock refused to go on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "why")]
pub enum HaltReason {
    /// The next iteration's gain does not pay for its cost.
    Governor(String),
    /// Somebody cancelled.
    Cancelled(String),
    /// The head moved while the run worked.
    Superseded(String),
    /// The run's wall time is spent.
    OutOfTime(String),
}

/// The one end of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Outcome {
    Succeeded,
    Failed { failure: Failure },
    Halted { reason: HaltReason, requeue_recommended: bool },
}

/// Where a run stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum RunState {
    Queued,
    Running { phase: Phase },
    Suspended { why: Suspension },
    Finished { outcome: Outcome },
}

/// What happens to a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEvent {
    Claim,
    Enter(Phase),
    Suspend(Suspension),
    Resume,
    LeaseLost,
    Settle(Outcome),
}

/// A step that the state machine does not have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {from} cannot take {event}")]
pub struct IllegalTransition {
    pub from: String,
    pub event: String,
}
