//! A forge's things in our words.

use serde::{Deserialize, Serialize};

use crate::id::CommitId;

/// Which kind of forge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForgeKind {
    Github,
    Local,
}

impl ForgeKind {
    /// The name in rows, routes and pages.
    pub const fn name(self) -> &'static str {
        match self {
            ForgeKind::Github => "github",
            ForgeKind::Local => "local",
        }
    }
}

/// `owner/name`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Repository {
    pub forge: ForgeKind,
    pub owner: String,
    pub name: String,
    /// The forge's installation that may act on it; 0 where the forge has none.
    pub installation: i64,
}

impl std::fmt::Display for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// A person or app as the forge knows it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Account {
    pub id: i64,
    pub login: String,
}

/// The forge's roles, least first (`role_name` of GitHub's permission API).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    None,
    Read,
    Triage,
    Write,
    Maintain,
    Admin,
}

impl Role {
    /// The name that the forge uses.
    pub const fn name(self) -> &'static str {
        match self {
            Role::None => "none",
            Role::Read => "read",
            Role::Triage => "triage",
            Role::Write => "write",
            Role::Maintain => "maintain",
            Role::Admin => "admin",
        }
    }
}

/// What a job was asked about.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Subject {
    PullRequest {
        number: i64,
    },
    Issue {
        number: i64,
    },
    /// A checkout on this machine, without a forge.
    Checkout,
}

impl Subject {
    /// The number on the forge; `None` for a checkout.
    pub const fn number(&self) -> Option<i64> {
        match self {
            Subject::PullRequest { number } | Subject::Issue { number } => Some(*number),
            Subject::Checkout => None,
        }
    }
}

/// Where a comment was written: each has ids of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommentPlace {
    /// The conversation of a pull request or issue.
    #[default]
    Conversation,
    /// A line of a pull request's diff.
    Line,
    /// The summary of a review.
    Review,
}

impl CommentPlace {
    /// The word in origins and keys.
    pub const fn name(self) -> &'static str {
        match self {
            CommentPlace::Conversation => "comment",
            CommentPlace::Line => "line-comment",
            CommentPlace::Review => "review",
        }
    }
}

/// Whether a pull request takes commits, or an issue is still one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PullRequestState {
    Open,
    Closed,
}

/// Where a verified patch may be pushed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum PushTarget {
    /// A branch of the repository itself.
    Branch { name: String },
    /// A branch of a fork whose owner lets maintainers push.
    Fork { owner: String, repository: String, branch: String },
    /// A new branch of the app's own, from which a pull request into the branch `base` is opened.
    NewPullRequest { base: String },
    /// None: the patch is given out as an artifact.
    Nowhere { why: String },
}

/// An issue as the forge shows it now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issue {
    pub number: i64,
    pub state: PullRequestState,
}

/// A pull request as the forge shows it now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PullRequest {
    pub number: i64,
    pub state: PullRequestState,
    pub head: CommitId,
    /// Commit of the base branch now.
    pub base: CommitId,
    pub base_branch: String,
    pub push_target: PushTarget,
    pub author: Option<Account>,
}
