//! A forge as this crate needs it: what comes in, what may be asked, and what is told to it.
//!
//! `Forge` has exactly one way to write to a repository, `push`, and its argument cannot be made
//! without a spent authorization.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use jobs::authorization::PushGrant;
use jobs::changeset::ChangesetFiles;
use jobs::clock::Millis;
use jobs::digest::Digest;
use jobs::event::Event;
use jobs::forge::{Account, ForgeKind, Issue, PullRequest, PushTarget, Repository, Role, Subject};
use jobs::id::{CommitId, RunId, TreeId};
use serde::{Deserialize, Serialize};

/// A request whose signature was found right, before anything of it was parsed.
#[derive(Clone, Debug)]
pub struct Authentic {
    /// The forge's id of the delivery.
    pub delivery: String,
    /// The event's name, such as `issue_comment`.
    pub event: String,
    /// The raw bytes that were signed.
    pub body: Bytes,
}

/// Why a request is not believed. Never says which part of a signature was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unauthentic {
    #[error("the request carries no signature that can be checked; send X-Hub-Signature-256")]
    NoSignature,
    #[error("the signature does not fit the body and the configured secret")]
    WrongSignature,
    #[error("the request names no delivery or no event")]
    NoIdentity,
}

/// What comes in from a forge.
pub trait Inbound: Send + Sync {
    /// Checks the signature over the raw bytes, in constant time, and then reads the delivery's
    /// id and event from the headers.
    fn authenticate(&self, headers: &HeaderMap, body: Bytes) -> Result<Authentic, Unauthentic>;

    /// What an authentic delivery means. Never fails: what is not understood is `Ignored`.
    fn parse(&self, delivery: &Authentic) -> Event;
}

/// A forge did not do what was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ForgeError {
    /// It does not exist, or may not be seen.
    #[error("the forge does not know {what}")]
    NotFound { what: String },
    /// Understood and refused; asking again gives the same answer.
    #[error("the forge refuses {what}: {why}")]
    Refused { what: String, why: String },
    /// Nothing was done; it may be asked again after this time.
    #[error("the forge limits the rate of requests; {what} may be asked again in {} s", retry_after.as_secs())]
    RateLimited { what: String, retry_after: Duration },
    /// Out of reach, or the answer was lost: whether it was done is not known.
    #[error("the forge is out of reach for {what}: {why}")]
    Unavailable { what: String, why: String },
}

impl ForgeError {
    /// How long to wait at least before the same request has a chance; `None` when it has none.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ForgeError::RateLimited { retry_after, .. } => Some(*retry_after),
            ForgeError::Unavailable { .. } => Some(Duration::ZERO),
            ForgeError::NotFound { .. } | ForgeError::Refused { .. } => None,
        }
    }
}

/// What this crate asks of a forge and tells it. Calls are made one at a time per repository.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Which kind it is.
    fn kind(&self) -> ForgeKind;

    /// The account's role now. An account that the forge does not know has `Role::None`;
    /// an error means that it could not be checked, which is never a yes.
    async fn permission(&self, repository: &Repository, account: &Account) -> Result<Role, ForgeError>;

    /// The pull request as it is now.
    async fn pull_request(&self, repository: &Repository, number: i64) -> Result<PullRequest, ForgeError>;

    /// The issue as it is now.
    async fn issue(&self, repository: &Repository, number: i64) -> Result<Issue, ForgeError>;

    /// The default branch and its commit now.
    async fn default_branch(&self, repository: &Repository) -> Result<(Branch, CommitId), ForgeError>;

    /// A commit.
    async fn commit(&self, repository: &Repository, id: &CommitId) -> Result<Commit, ForgeError>;

    /// The names of files and folders at the root of a tree.
    async fn root_names(&self, repository: &Repository, tree: &TreeId) -> Result<Vec<String>, ForgeError>;

    /// A file's bytes at a commit, `None` where there is no such file. One of more than
    /// [`MAX_FILE_BYTES`] is `Refused`.
    async fn file(
        &self,
        repository: &Repository,
        commit: &CommitId,
        path: &str,
    ) -> Result<Option<Vec<u8>>, ForgeError>;

    /// The commit that a branch shows now; `None` where there is no such branch.
    async fn branch_head(&self, branch: &Branch) -> Result<Option<CommitId>, ForgeError>;

    /// Makes the check run, or updates the one that this app made with the same external id on the
    /// same commit. Doing it again changes nothing: annotations that the forge already has are not
    /// sent a second time.
    async fn put_check(&self, repository: &Repository, check: &CheckRun) -> Result<Posted, ForgeError>;

    /// Makes the comment on a pull request or issue, or updates the one of this app that has the
    /// same key (a hidden line in the comment).
    async fn comment(
        &self,
        repository: &Repository,
        subject: &Subject,
        comment: &Comment,
    ) -> Result<Posted, ForgeError>;

    /// Suggests changes in a review of the pull request's head, or does nothing where this app has
    /// made the review with this key before. `None` where the changes do not fit the diff of the pull
    /// request, so that they cannot be suggested.
    async fn suggest(
        &self,
        repository: &Repository,
        number: i64,
        suggestion: &Suggestion,
    ) -> Result<Option<Posted>, ForgeError>;

    /// Opens a pull request from a branch that a push made, or finds the one that was opened from it
    /// before, whatever became of it.
    async fn open_pull_request(&self, request: &NewPullRequest) -> Result<Posted, ForgeError>;

    /// Writes one commit on top of the authorized head and moves the branch to it, without force, or
    /// makes the new branch. The branch does not move unless it shows that head, or is not there where
    /// it is to be made, and the new commit's tree is the verified one. A refusal says that it did not move; an error tells whether that is known.
    async fn push(&self, request: PushRequest) -> Result<PushOutcome, PushError>;
}

/// The forges that this process speaks to, one of a kind.
#[derive(Clone, Default)]
pub struct Forges(Vec<Arc<dyn Forge>>);

impl Forges {
    /// These forges; the first of a kind counts.
    pub fn new(forges: Vec<Arc<dyn Forge>>) -> Self {
        Self(forges)
    }

    /// The forge that a repository is on.
    pub fn of(&self, repository: &Repository) -> Result<&dyn Forge, ForgeError> {
        let found = self.0.iter().find(|forge| forge.kind() == repository.forge);
        found.map(AsRef::as_ref).ok_or_else(|| ForgeError::Refused {
            what: format!("anything about {repository}"),
            why: format!("this service is not connected to {}", repository.forge.name()),
        })
    }
}

/// A file that is read through a forge may have this size.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// A branch of a repository; a fork's branch names the fork.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Branch {
    pub repository: Repository,
    pub name: String,
}

/// Where a push goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destination {
    pub branch: Branch,
    pub kind: DestinationKind,
}

/// What a push does with its branch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DestinationKind {
    /// It moves from the authorized head to the new commit.
    Moved,
    /// It is made, and a pull request into the branch `base` is opened from it.
    Made { base: String },
}

impl Destination {
    /// Where the verified patch of `run` goes; `None` when it may be pushed nowhere.
    pub fn of_target(repository: &Repository, target: &PushTarget, run: &RunId) -> Option<Self> {
        let on = |repository: Repository, name: String, kind: DestinationKind| {
            Some(Self { branch: Branch { repository, name }, kind })
        };
        match target {
            PushTarget::Branch { name } => on(repository.clone(), name.clone(), DestinationKind::Moved),
            PushTarget::Fork { owner, repository: name, branch } => on(
                Repository { owner: owner.clone(), name: name.clone(), ..repository.clone() },
                branch.clone(),
                DestinationKind::Moved,
            ),
            PushTarget::NewPullRequest { base } => {
                let kind = DestinationKind::Made { base: base.clone() };
                on(repository.clone(), format!("whipstitch/{run}"), kind)
            }
            PushTarget::Nowhere { .. } => None,
        }
    }
}

/// A commit as far as decisions need it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    pub id: CommitId,
    pub tree: TreeId,
    pub parents: Vec<CommitId>,
    pub message: String,
}

/// What the forge made or updated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Posted {
    /// The forge's id.
    pub id: String,
    /// Where a person sees it.
    pub url: Option<String>,
}

/// A check run, held to the forge's limits before it comes here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckRun {
    /// Ours: names the run, and is what it is found by.
    pub external_id: String,
    pub name: String,
    pub head: CommitId,
    pub status: CheckStatus,
    pub title: String,
    /// Markdown, at most [`MAX_TEXT_BYTES`].
    pub summary: String,
    /// Markdown, at most [`MAX_TEXT_BYTES`].
    pub text: Option<String>,
    /// All of them; the forge's client sends them in batches of [`ANNOTATION_BATCH`].
    pub annotations: Vec<Annotation>,
    /// At most three.
    pub actions: Vec<CheckAction>,
    pub details_url: Option<String>,
    pub started_at: Option<Millis>,
}

/// GitHub takes 65,535 characters; we hold to as many bytes.
pub const MAX_TEXT_BYTES: usize = 65_535;
/// Annotations of one request.
pub const ANNOTATION_BATCH: usize = 50;

/// Where a check run stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CheckStatus {
    Queued,
    InProgress,
    Completed { conclusion: Conclusion, at: Millis },
}

/// How a check run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Conclusion {
    Success,
    Failure,
    ActionRequired,
    Cancelled,
    TimedOut,
    Neutral,
}

impl Conclusion {
    /// The name in the forge's API.
    pub const fn name(self) -> &'static str {
        match self {
            Conclusion::Success => "success",
            Conclusion::Failure => "failure",
            Conclusion::ActionRequired => "action_required",
            Conclusion::Cancelled => "cancelled",
            Conclusion::TimedOut => "timed_out",
            Conclusion::Neutral => "neutral",
        }
    }
}

/// A remark at lines of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Annotation {
    pub path: String,
    /// 1-based.
    pub start_line: u32,
    /// At or after `start_line`.
    pub end_line: u32,
    pub level: AnnotationLevel,
    /// At most 255 characters.
    pub title: Option<String>,
    /// At most 64 KiB.
    pub message: String,
}

/// How grave an annotation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AnnotationLevel {
    Notice,
    Warning,
    Failure,
}

impl AnnotationLevel {
    /// The name in the forge's API.
    pub const fn name(self) -> &'static str {
        match self {
            AnnotationLevel::Notice => "notice",
            AnnotationLevel::Warning => "warning",
            AnnotationLevel::Failure => "failure",
        }
    }
}

/// A button of a check run: label of 20, description of 40, identifier of 20 characters at most.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckAction {
    pub label: String,
    pub description: String,
    pub identifier: String,
}

/// A comment of this app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comment {
    /// ASCII letters, digits, `-` and `/`; the same key updates the same comment.
    pub key: String,
    /// Markdown, at most [`MAX_TEXT_BYTES`], without the hidden line.
    pub body: String,
}

impl Comment {
    /// The hidden line that names the key; the client puts it at the comment's end.
    pub fn marker(&self) -> String {
        marker(&self.key)
    }
}

/// Changes that a person may take over with a click, in a review of a pull request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suggestion {
    /// As a comment's key.
    pub key: String,
    /// The commit whose lines the edits name.
    pub head: CommitId,
    /// Markdown above the suggestions.
    pub body: String,
    /// In order of file and line.
    pub edits: Vec<SuggestedEdit>,
}

impl Suggestion {
    /// The hidden line that names the key.
    pub fn marker(&self) -> String {
        marker(&self.key)
    }
}

/// Lines of a file with what is to take their place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SuggestedEdit {
    pub path: String,
    /// 1-based, in the file at the head.
    pub first_line: u32,
    /// At or after `first_line`.
    pub last_line: u32,
    /// Without the last line's end; `None` deletes the lines.
    pub text: Option<String>,
}

/// A pull request to be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewPullRequest {
    /// The branch with the commit.
    pub head: Branch,
    /// The branch of the same repository that it is to be merged into.
    pub base: String,
    pub title: String,
    /// Markdown, at most [`MAX_TEXT_BYTES`].
    pub body: String,
}

fn marker(key: &str) -> String {
    format!("<!-- whipstitch:{key} -->")
}

/// One commit to be put on one branch. Only [`PushRequest::new`] makes it, from a spent authorization.
#[derive(Debug)]
pub struct PushRequest {
    grant: PushGrant,
    destination: Destination,
    changeset: ChangesetFiles,
    message: String,
}

/// The authorization is not for what would be pushed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the authorization is for patch {authorized}, not for {given}; authorize the verified patch")]
pub struct NotAuthorized {
    pub authorized: Digest,
    pub given: Digest,
}

impl PushRequest {
    /// The request that a grant allows: its patch, on its head.
    pub fn new(
        grant: PushGrant,
        destination: Destination,
        changeset: ChangesetFiles,
        message: String,
    ) -> Result<Self, NotAuthorized> {
        if grant.patch() != changeset.patch {
            return Err(NotAuthorized { authorized: grant.patch(), given: changeset.patch });
        }
        Ok(Self { grant, destination, changeset, message })
    }

    /// The branch to move or make.
    pub fn branch(&self) -> &Branch {
        &self.destination.branch
    }

    /// What is done with the branch.
    pub fn kind(&self) -> &DestinationKind {
        &self.destination.kind
    }

    /// The commit that the branch must show, and the new commit's only parent.
    pub fn head(&self) -> &CommitId {
        self.grant.head()
    }

    /// The changed files, the tree that they start from and the tree that must result.
    pub fn changeset(&self) -> &ChangesetFiles {
        &self.changeset
    }

    /// Digest of the patch that was authorized.
    pub fn patch(&self) -> Digest {
        self.changeset.patch
    }

    /// The whole commit message, trailers included. Author and committer are the app.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The error that gives the grant back, for a forge that knows that the branch was not moved.
    pub(crate) fn not_done(self, error: ForgeError) -> PushError {
        PushError::NotDone { error, grant: Box::new(self.grant) }
    }
}

/// A push without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The branch was not moved by this request and never will be, so that the grant comes back.
    #[error("nothing was pushed: {error}")]
    NotDone { error: ForgeError, grant: Box<PushGrant> },
    /// Whether the branch was moved is not known.
    #[error("whether the branch was moved is not known: {0}")]
    Unknown(ForgeError),
}

/// What became of a push.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushOutcome {
    Pushed {
        commit: CommitId,
    },
    /// The branch did not move.
    Refused(PushRefusal),
}

/// Why a branch was not moved.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PushRefusal {
    #[error("the branch moved: it shows {found}, not the commit that was authorized")]
    HeadMoved { found: CommitId },
    #[error("the branch does not exist any more")]
    BranchGone,
    #[error("the branch that was to be made is there already and shows {found}")]
    BranchTaken { found: CommitId },
    #[error("the resulting tree {found} is not the verified one")]
    TreeDiffers { found: TreeId },
    #[error("the forge forbids the push: {why}")]
    Forbidden { why: String },
}
