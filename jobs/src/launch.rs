//! A recorded intent to start an agent, and what became of it.

use serde::{Deserialize, Serialize};

use crate::run::IllegalTransition;

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
        /// Tokens that it used, as the provider counts them; left out where there are none.
        #[serde(default, skip_serializing_if = "is_zero")]
        tokens: u64,
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

/// A launch without tokens is written as it was before they were counted.
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// What happens to a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LaunchEvent {
    Start,
    /// The proposal, and the tokens that it took.
    Settle(Option<crate::digest::Digest>, u64),
    LeaseLost,
    Adopt(Option<crate::digest::Digest>),
    Abandon(String),
}

impl LaunchState {
    /// The word in rows and pages.
    pub const fn name(&self) -> &'static str {
        match self {
            LaunchState::Intended => "intended",
            LaunchState::Started => "started",
            LaunchState::Settled { .. } => "settled",
            LaunchState::Uncertain => "uncertain",
            LaunchState::Adopted { .. } => "adopted",
            LaunchState::Abandoned { .. } => "abandoned",
        }
    }

    /// The state after `event`, or why there is none.
    ///
    /// An intent that is known to have started nothing settles without a proposal.
    pub fn apply(self, event: LaunchEvent) -> Result<Self, IllegalTransition> {
        match (self, event) {
            (LaunchState::Intended, LaunchEvent::Start) => Ok(LaunchState::Started),
            (LaunchState::Intended, LaunchEvent::Settle(None, tokens)) => {
                Ok(LaunchState::Settled { proposal: None, tokens })
            }
            (LaunchState::Started, LaunchEvent::Settle(proposal, tokens)) => {
                Ok(LaunchState::Settled { proposal, tokens })
            }
            (LaunchState::Intended | LaunchState::Started, LaunchEvent::LeaseLost) => {
                Ok(LaunchState::Uncertain)
            }
            (LaunchState::Uncertain, LaunchEvent::Adopt(proposal)) => Ok(LaunchState::Adopted { proposal }),
            (LaunchState::Uncertain, LaunchEvent::Abandon(by)) => Ok(LaunchState::Abandoned { by }),
            (
                from @ LaunchState::Intended,
                event
                @ (LaunchEvent::Settle(Some(..), _) | LaunchEvent::Adopt(..) | LaunchEvent::Abandon(..)),
            )
            | (
                from @ LaunchState::Started,
                event @ (LaunchEvent::Start | LaunchEvent::Adopt(..) | LaunchEvent::Abandon(..)),
            )
            | (
                from @ LaunchState::Uncertain,
                event @ (LaunchEvent::Start | LaunchEvent::Settle(..) | LaunchEvent::LeaseLost),
            )
            | (
                from @ (LaunchState::Settled { .. }
                | LaunchState::Adopted { .. }
                | LaunchState::Abandoned { .. }),
                event @ (LaunchEvent::Start
                | LaunchEvent::Settle(..)
                | LaunchEvent::LeaseLost
                | LaunchEvent::Adopt(..)
                | LaunchEvent::Abandon(..)),
            ) => Err(IllegalTransition { from: format!("{} launch", from.name()), event: event.to_string() }),
        }
    }
}

impl std::fmt::Display for LaunchEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LaunchEvent::Start => f.write_str("start"),
            LaunchEvent::Settle(Some(_), _) => f.write_str("settle (proposal)"),
            LaunchEvent::Settle(None, _) => f.write_str("settle (nothing)"),
            LaunchEvent::LeaseLost => f.write_str("lease lost"),
            LaunchEvent::Adopt(_) => f.write_str("adopt"),
            LaunchEvent::Abandon(_) => f.write_str("abandon"),
        }
    }
}
