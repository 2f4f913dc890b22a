//! A delivery's meaning in our words. Payloads are read leniently by the forge's own parser.

use serde::{Deserialize, Serialize};

use crate::forge::{Account, CommentPlace, Repository, Subject};
use crate::id::CommitId;

/// What a webhook delivery says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Event {
    /// A new comment on a pull request or issue, or a review. An edited one is `Ignored`.
    Comment(CommentEvent),
    /// A button of one of our check runs, or its re-run link.
    CheckAction(CheckActionEvent),
    /// The pull request was closed, or its head moved.
    PullRequest { repository: Repository, number: i64, change: PullRequestChange },
    /// A label was put on a pull request or issue.
    Label(LabelEvent),
    /// A check suite: others' ended red, or ours is to be run again.
    CheckSuite(CheckSuiteEvent),
    /// A branch moved.
    Push { repository: Repository, branch: String },
    /// The app can reach repositories no more, or again.
    Access { installation: i64, change: AccessChange },
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
    /// Where it was written.
    #[serde(default)]
    pub place: CommentPlace,
    /// The app that wrote it, where an app did.
    #[serde(default)]
    pub app: Option<i64>,
}

/// A label that was put on something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LabelEvent {
    pub repository: Repository,
    pub subject: Subject,
    pub label: String,
    pub sender: Account,
    pub sender_kind: SenderKind,
}

/// What happened to a check suite.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckSuiteEvent {
    pub repository: Repository,
    pub change: CheckSuiteChange,
    /// The commit that it stands on.
    pub head: CommitId,
    /// Pull requests of this repository's own branches that show the commit; none for a fork's.
    pub pull_requests: Vec<i64>,
    pub sender: Account,
    pub sender_kind: SenderKind,
}

/// What happened to a check suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckSuiteChange {
    /// Ours begins, because a commit was pushed.
    Requested,
    /// Somebody wants all of our check runs on the commit again.
    Rerequested,
    /// One of another app ended red.
    Failed,
}

/// What the app's reach has become.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum AccessChange {
    Gained,
    /// `owner/name` of each repository; all of the installation's where none is named.
    Lost {
        repositories: Vec<String>,
    },
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
