//! A recorded intent to start an agent, and what became of it.

use serde::{Deserialize, Serialize};

/// Where a launch stands. An `Uncertain` one is never started again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum LaunchState {
    /// The intent is durable; nothing was started yet, as far as is known.
    Intended,
    Started,
    /// The agent's result is durable (digest of the proposal, in the artifact folder).
    Settled {
        proposal: Option<crate::digest::Digest>,
    },
    /// Whether it ran is not known.
    Uncertain,
    /// A read-only look-up established the result.
    Adopted {
        proposal: Option<crate::digest::Digest>,
    },
    /// A named operator gave it up.
    Abandoned {
        by: String,
    },
}

/// What happens to a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LaunchEvent {
    Start,
    Settle(Option<crate::digest::Digest>),
    LeaseLost,
    Adopt(Option<crate::digest::Digest>),
    Abandon(String),
}
