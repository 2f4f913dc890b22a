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

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Phase; 6] =
        [Phase::Provision, Phase::Bootstrap, Phase::Navigate, Phase::Edit, Phase::Verify, Phase::Repair];

    /// The name in rows and pages.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Provision => "provision",
            Phase::Bootstrap => "bootstrap",
            Phase::Navigate => "navigate",
            Phase::Edit => "edit",
            Phase::Verify => "verify",
            Phase::Repair => "repair",
        }
    }

    /// Whether a run in this phase may enter `next`: forwards always, since a resumed run skips what
    /// its journal holds; backwards only around the loop of edit, verify and repair.
    pub fn may_enter(self, next: Phase) -> bool {
        match (self, next) {
            (Phase::Verify | Phase::Repair, Phase::Edit) | (Phase::Repair, Phase::Verify) => true,
            (from, to) => from <= to,
        }
    }
}

impl Outcome {
    /// The word in rows, receipts and pages.
    pub const fn name(&self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Failed { .. } => "failed",
            Outcome::Halted { .. } => "halted",
        }
    }
}

impl RunState {
    /// The word in rows and pages.
    pub const fn name(&self) -> &'static str {
        match self {
            RunState::Queued => "queued",
            RunState::Running { .. } => "running",
            RunState::Suspended { .. } => "suspended",
            RunState::Finished { .. } => "finished",
        }
    }

    /// The state after `event`, or why there is none.
    pub fn apply(self, event: RunEvent) -> Result<Self, IllegalTransition> {
        match (self, event) {
            (RunState::Queued, RunEvent::Claim) => Ok(RunState::Running { phase: Phase::Provision }),
            (RunState::Running { phase }, RunEvent::Enter(next)) if phase.may_enter(next) => {
                Ok(RunState::Running { phase: next })
            }
            (RunState::Running { .. }, RunEvent::Suspend(why)) => Ok(RunState::Suspended { why }),
            (RunState::Running { .. }, RunEvent::LeaseLost) => Ok(RunState::Queued),
            (RunState::Running { .. }, RunEvent::Settle(outcome)) => Ok(RunState::Finished { outcome }),
            (RunState::Suspended { .. }, RunEvent::Resume) => Ok(RunState::Queued),
            (
                from @ RunState::Queued,
                event @ (RunEvent::Enter(..)
                | RunEvent::Suspend(..)
                | RunEvent::Resume
                | RunEvent::LeaseLost
                | RunEvent::Settle(..)),
            )
            | (
                from @ RunState::Running { .. },
                event @ (RunEvent::Claim | RunEvent::Enter(..) | RunEvent::Resume),
            )
            | (
                from @ RunState::Suspended { .. },
                event @ (RunEvent::Claim
                | RunEvent::Enter(..)
                | RunEvent::Suspend(..)
                | RunEvent::LeaseLost
                | RunEvent::Settle(..)),
            )
            | (
                from @ RunState::Finished { .. },
                event @ (RunEvent::Claim
                | RunEvent::Enter(..)
                | RunEvent::Suspend(..)
                | RunEvent::Resume
                | RunEvent::LeaseLost
                | RunEvent::Settle(..)),
            ) => Err(IllegalTransition { from: from.to_string(), event: event.to_string() }),
        }
    }
}

impl std::fmt::Display for RunState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunState::Queued => f.write_str("queued run"),
            RunState::Running { phase } => write!(f, "running run ({})", phase.name()),
            RunState::Suspended { why: Suspension::UncertainLaunch } => {
                f.write_str("suspended run (uncertain launch)")
            }
            RunState::Suspended { why: Suspension::Requested } => f.write_str("suspended run (requested)"),
            RunState::Finished { outcome } => write!(f, "finished run ({})", outcome.name()),
        }
    }
}

impl std::fmt::Display for RunEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunEvent::Claim => f.write_str("claim"),
            RunEvent::Enter(phase) => write!(f, "enter {}", phase.name()),
            RunEvent::Suspend(Suspension::UncertainLaunch) => f.write_str("suspend (uncertain launch)"),
            RunEvent::Suspend(Suspension::Requested) => f.write_str("suspend (requested)"),
            RunEvent::Resume => f.write_str("resume"),
            RunEvent::LeaseLost => f.write_str("lease lost"),
            RunEvent::Settle(outcome) => write!(f, "settle ({})", outcome.name()),
        }
    }
}

/// A step that the state machine does not have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {from} cannot take {event}")]
pub struct IllegalTransition {
    pub from: String,
    pub event: String,
}

#[cfg(test)]
mod tests;
