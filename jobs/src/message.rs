//! Something to be told to a forge, exactly once.

use serde::{Deserialize, Serialize};

use crate::id::RunId;

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
    /// A comment on the job's pull request or issue.
    Comment { body: String, reply_to: Option<i64> },
    /// Push the run's authorized patch.
    Push { run: RunId, authorization: crate::id::AuthorizationId },
}
