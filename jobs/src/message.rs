//! Something to be told to a forge, exactly once.

use serde::{Deserialize, Serialize};

use crate::forge::{CommentPlace, Repository, Subject};
use crate::id::{CommitId, RunId};
use crate::policy::PolicyError;
use crate::run::IllegalTransition;

/// Where a message stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum MessageState {
    Pending,
    /// The forge's id for it.
    Sent {
        external_id: String,
    },
    Dead {
        attempts: u32,
    },
}

/// What is to be told. The text is rendered when it is sent, from the rows of that moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum MessageBody {
    /// Create or update the run's check run (found by external id = the run's id).
    CheckRun { run: RunId },
    /// A comment on the job's pull request or issue; in answer to the comment `reply_to` of `place`.
    Comment {
        body: String,
        reply_to: Option<i64>,
        #[serde(default)]
        place: CommentPlace,
    },
    /// A check run that says what is wrong with the base branch's policy.
    PolicyFault { head: CommitId, fault: PolicyError },
    /// Push the run's authorized patch.
    Push { run: RunId, authorization: crate::id::AuthorizationId },
}

/// Where on a forge a message goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Address {
    pub repository: Repository,
    pub subject: Subject,
}

/// What happens to a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageEvent {
    /// The forge has it, under this id.
    Deliver { external_id: String },
    /// It could not be delivered now.
    Postpone,
    /// It will not be tried again.
    GiveUp { attempts: u32 },
    /// An operator has it sent after all.
    Resend,
}

impl MessageState {
    /// The word in rows and pages.
    pub const fn name(&self) -> &'static str {
        match self {
            MessageState::Pending => "pending",
            MessageState::Sent { .. } => "sent",
            MessageState::Dead { .. } => "dead",
        }
    }

    /// The state after `event`, or why there is none.
    pub fn apply(self, event: MessageEvent) -> Result<Self, IllegalTransition> {
        match (self, event) {
            (MessageState::Pending, MessageEvent::Deliver { external_id }) => {
                Ok(MessageState::Sent { external_id })
            }
            (MessageState::Pending, MessageEvent::Postpone) => Ok(MessageState::Pending),
            (MessageState::Pending, MessageEvent::GiveUp { attempts }) => Ok(MessageState::Dead { attempts }),
            (MessageState::Dead { .. }, MessageEvent::Resend) => Ok(MessageState::Pending),
            (
                from @ (MessageState::Sent { .. } | MessageState::Dead { .. }),
                event @ (MessageEvent::Deliver { .. } | MessageEvent::Postpone | MessageEvent::GiveUp { .. }),
            )
            | (from @ (MessageState::Pending | MessageState::Sent { .. }), event @ MessageEvent::Resend) => {
                Err(IllegalTransition { from: format!("{} message", from.name()), event: event.to_string() })
            }
        }
    }
}

impl std::fmt::Display for MessageEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MessageEvent::Deliver { .. } => "deliver",
            MessageEvent::Postpone => "postpone",
            MessageEvent::GiveUp { .. } => "give up",
            MessageEvent::Resend => "resend",
        })
    }
}

impl MessageBody {
    /// The word in rows and pages.
    pub const fn kind(&self) -> &'static str {
        match self {
            MessageBody::CheckRun { .. } | MessageBody::PolicyFault { .. } => "check-run",
            MessageBody::Comment { .. } => "comment",
            MessageBody::Push { .. } => "push",
        }
    }

    /// The run that it speaks of, where it speaks of one.
    pub const fn run(&self) -> Option<&RunId> {
        match self {
            MessageBody::CheckRun { run } | MessageBody::Push { run, .. } => Some(run),
            MessageBody::Comment { .. } | MessageBody::PolicyFault { .. } => None,
        }
    }
}
