//! A delivery's meaning in our words. Payloads are read leniently by the forge's own parser.

use serde::{Deserialize, Serialize};

use crate::forge::{Account, Repository, Subject};

/// What a webhook delivery says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Event {
    /// A new comment on a pull request or issue. An edited one is `Ignored`.
    Comment(CommentEvent),
    /// A button of one of our check runs, or its re-run link.
    CheckAction(CheckActionEvent),
    /// The pull request was closed, or its head moved.
    PullRequest { repository: Repository, number: i64, change: PullRequestChange },
    /// A sign of life from the forge.
    Ping,
    /// Understood, and nothing to do; the reason is counted.
    Ignored { why: String },
}

/// A new comment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CommentEvent {
    pub repository: Repository,
    pub subject: Subject,
    pub comment_id: i64,
    pub body: String,
    /// Who sent the event; never taken from the comment.
    pub sender: Account,
    pub sender_kind: SenderKind,
}

/// A click on a check run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckActionEvent {
    pub repository: Repository,
    /// The forge's id of the check run.
    pub check_run_id: i64,
    /// Our external id on it: the run.
    pub external_id: Option<String>,
    /// `apply`, `reject`, `rerun`, `cancel`; `rerun` for a re-run link.
    pub action: String,
    pub sender: Account,
    pub sender_kind: SenderKind,
}

/// What kind of account sent an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SenderKind {
    Person,
    Bot,
}

/// What happened to a pull request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PullRequestChange {
    Closed,
    HeadMoved,
}
