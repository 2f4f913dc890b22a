//! What the simulated GitHub remembers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::Result;
use serde_json::Value;

use super::deliveries::Delivery;
use super::server::Fault;
use crate::git::BareRepository;

/// Everything.
pub(super) struct State {
    pub folder: tempfile::TempDir,
    pub next_id: i64,
    pub users: BTreeMap<String, i64>,
    pub installations: BTreeMap<i64, Installation>,
    pub tokens: BTreeMap<String, Token>,
    /// By `owner/name`.
    pub repositories: BTreeMap<String, Repository>,
    pub faults: Vec<Fault>,
    /// Until when, in seconds since 1970, nothing is left of the rate limit.
    pub limit_spent_until: Option<i64>,
    /// Whether the last request of that limit was answered.
    pub limit_answered: bool,
    pub requests: Vec<Recorded>,
    pub deliveries: VecDeque<Delivery>,
    pub webhook: Option<url::Url>,
    /// Manifests of apps that were made, by the code that was not changed yet.
    pub manifests: BTreeMap<String, Value>,
    /// The manifest of the app that was handed out.
    pub manifest: Option<Value>,
    /// What the app asks of its installations.
    pub app_permissions: BTreeMap<String, Level>,
    /// What the app listens to.
    pub app_events: BTreeSet<String>,
}

impl State {
    pub fn new() -> Result<Self> {
        Ok(Self {
            folder: tempfile::tempdir()?,
            // Beyond 32 bits, as GitHub's ids are by now.
            next_id: 5_000_000_000,
            users: BTreeMap::new(),
            installations: BTreeMap::new(),
            tokens: BTreeMap::new(),
            repositories: BTreeMap::new(),
            faults: Vec::new(),
            limit_spent_until: None,
            limit_answered: false,
            requests: Vec::new(),
            deliveries: VecDeque::new(),
            webhook: None,
            manifests: BTreeMap::new(),
            manifest: None,
            app_permissions: granted(),
            app_events: EVENTS.into_iter().map(str::to_owned).collect(),
        })
    }

    pub fn new_id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    /// The id of a login, made at its first use.
    pub fn user(&mut self, login: &str) -> i64 {
        if let Some(id) = self.users.get(login) {
            return *id;
        }
        let id = self.new_id();
        self.users.insert(login.to_owned(), id);
        id
    }
}

/// The app's permissions in every story.
pub(super) fn granted() -> BTreeMap<String, Level> {
    let levels = [
        ("metadata", Level::Read),
        ("contents", Level::Write),
        ("checks", Level::Write),
        ("pull_requests", Level::Write),
        ("issues", Level::Write),
    ];
    levels.map(|(name, level)| (name.to_owned(), level)).into()
}

/// The app's events in every story.
const EVENTS: [&str; 8] = [
    "check_run",
    "check_suite",
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "push",
];

/// Where the app is installed, and what it was granted there.
pub(super) struct Installation {
    pub account: String,
    pub permissions: BTreeMap<String, Level>,
    /// `owner/name` of each repository.
    pub repositories: BTreeSet<String>,
}

/// How much a permission allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    Read,
    Write,
}

impl Level {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "read" => Some(Level::Read),
            "write" => Some(Level::Write),
            _ => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Level::Read => "read",
            Level::Write => "write",
        }
    }
}

/// An installation token.
#[derive(Clone)]
pub(super) struct Token {
    pub repositories: BTreeSet<String>,
    pub permissions: BTreeMap<String, Level>,
    /// Milliseconds since 1970.
    pub expires_at: i64,
}

/// A repository with its conversations.
pub(super) struct Repository {
    pub id: i64,
    pub git: BareRepository,
    pub default_branch: String,
    pub visibility: Visibility,
    /// `role_name` by login.
    pub roles: BTreeMap<String, String>,
    pub pulls: BTreeMap<i64, Pull>,
    pub issues: BTreeMap<i64, Issue>,
    pub reviews: Vec<Review>,
    pub comments: Vec<Comment>,
    pub check_runs: Vec<CheckRun>,
    pub protected: BTreeSet<String>,
    pub archived: bool,
}

/// Who may see a repository.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Visibility {
    Public,
    Private,
}

/// A pull request.
#[derive(Clone)]
pub(super) struct Pull {
    pub title: String,
    pub author: Option<String>,
    pub open: bool,
    /// `owner/name` that the head branch is in; `None` for a deleted fork.
    pub head_repository: Option<String>,
    pub head_branch: String,
    pub base_branch: String,
    pub maintainer_can_modify: bool,
    pub body: String,
}

/// An issue.
#[derive(Clone, Debug)]
pub(super) struct Issue {
    pub title: String,
    pub open: bool,
}

/// A review of a pull request by the app.
#[derive(Clone, Debug)]
pub struct Review {
    pub id: i64,
    pub number: i64,
    pub body: String,
    /// As they were sent.
    pub comments: Vec<Value>,
}

/// A comment on an issue or pull request.
#[derive(Clone, Debug)]
pub struct Comment {
    pub id: i64,
    pub number: i64,
    pub author: String,
    /// Whether the app wrote it.
    pub by_app: bool,
    pub body: String,
    /// How often it was changed after it was made.
    pub edits: usize,
}

/// A check run as GitHub stores it.
#[derive(Clone, Debug)]
pub struct CheckRun {
    pub id: i64,
    pub name: String,
    pub head_sha: String,
    pub external_id: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
    pub details_url: Option<String>,
    pub title: String,
    pub summary: String,
    pub text: String,
    pub annotations: Vec<Value>,
    pub actions: Vec<Value>,
    /// How often it was changed after it was made.
    pub updates: usize,
}

/// One request and how it was answered.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    /// Without the API's prefix; with the query.
    pub path: String,
    pub body: Value,
    /// The token's permissions; empty for the app itself.
    pub permissions: BTreeMap<String, Level>,
    pub status: u16,
}
