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
    pub requests: Vec<Recorded>,
    pub deliveries: VecDeque<Delivery>,
    pub webhook: Option<url::Url>,
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
            requests: Vec::new(),
            deliveries: VecDeque::new(),
            webhook: None,
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
    pub issues: BTreeMap<i64, String>,
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
