//! A forge in a folder: real bare git repositories, pull requests, comments, roles and check runs,
//! for demonstrations and for machines without a network.
//!
//! Its webhooks come through the same HTTP door as GitHub's and are signed the same way; the body
//! is an event in our own words. Like GitHub it refuses what is over its limits, and a branch moves
//! only from the head that the caller expects.

mod client;
mod git;
mod people;
mod state;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use jobs::clock::{Clock, SystemClock};
use jobs::event::Event;
use jobs::forge::{Account, ForgeKind, Repository};
use jobs::id::{CommitId, NotAnId};
use secrecy::{ExposeSecret as _, SecretString};

use crate::authenticate::{EmptySecret, WebhookSecret, mac, mac_matches};
use crate::forge::{Authentic, Commit, Inbound, Unauthentic};

use git::Bare;
use state::StateFile;

pub use people::{SeedFile, SeedRepository, Seeded, SignedDelivery};
pub use state::{LocalCheckRun, LocalComment};

/// The local forge could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("cannot {doing} {folder}")]
    Disk { doing: &'static str, folder: PathBuf, source: std::io::Error },
    #[error("cannot {doing} {path}: {why}")]
    Git { doing: &'static str, path: PathBuf, why: String },
    /// A name, id or file that nothing can be done with.
    #[error("the local forge cannot use {0}")]
    Unusable(String),
    #[error("the local forge has no {0}")]
    Missing(String),
    #[error("the local forge already has {0}")]
    Exists(String),
    #[error(transparent)]
    Secret(#[from] EmptySecret),
    #[error(transparent)]
    Id(#[from] NotAnId),
}

/// The forge. Cheap to clone; safe to open in several processes at once.
#[derive(Clone)]
pub struct LocalForge {
    folder: PathBuf,
    state: StateFile,
    webhook_secret: WebhookSecret,
    login_key: [u8; 32],
    clock: Arc<dyn Clock>,
}

impl LocalForge {
    /// Opens the forge in `folder`, making it where there is none.
    pub fn open(folder: impl Into<PathBuf>, webhook_secret: SecretString) -> Result<Self, LocalError> {
        Self::open_with_clock(folder, webhook_secret, Arc::new(SystemClock))
    }

    /// Opens the forge with a clock of the caller's, from which commits get their times.
    pub fn open_with_clock(
        folder: impl Into<PathBuf>,
        webhook_secret: SecretString,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LocalError> {
        let folder = folder.into();
        let login_key = mac(webhook_secret.expose_secret().as_bytes(), b"whipstitch local login");
        let webhook_secret = WebhookSecret::new(webhook_secret)?;
        let state = StateFile::open(&folder)?;
        Ok(Self { folder, state, webhook_secret, login_key, clock })
    }

    /// The text with which a person proves to the dashboard who they are.
    pub fn login_token(&self, login: &str) -> String {
        format!("{login}.{}", hex::encode(mac(&self.login_key, login.as_bytes())))
    }

    /// Who a login token belongs to; `None` for a wrong token or an unknown account.
    pub fn login(&self, token: &str) -> Result<Option<Account>, LocalError> {
        let Some((login, digits)) = token.rsplit_once('.') else { return Ok(None) };
        let mut given = [0; 32];
        let right = hex::decode_to_slice(digits, &mut given).is_ok()
            && mac_matches(&self.login_key, login.as_bytes(), &given);
        if right { Ok(self.state.read()?.account(login).cloned()) } else { Ok(None) }
    }

    /// The commit that a branch shows.
    pub fn branch_head(&self, repository: &Repository, branch: &str) -> Result<CommitId, LocalError> {
        self.bare(repository)?
            .show(&format!("refs/heads/{branch}"))?
            .ok_or_else(|| LocalError::Missing(format!("branch {branch} in {repository}")))
    }

    /// A commit, with its tree and message.
    pub fn commit(&self, repository: &Repository, id: &CommitId) -> Result<Commit, LocalError> {
        self.bare(repository)?
            .commit(id)?
            .ok_or_else(|| LocalError::Missing(format!("commit {id} in {repository}")))
    }

    /// The check runs on a commit, oldest first.
    pub fn check_runs(
        &self,
        repository: &Repository,
        commit: &CommitId,
    ) -> Result<Vec<LocalCheckRun>, LocalError> {
        let state = self.state.read()?;
        let found = rows(&state, repository)?.check_runs.iter();
        Ok(found.filter(|run| run.check.head == *commit).cloned().collect())
    }

    /// The comments on a pull request, oldest first.
    pub fn comments(&self, repository: &Repository, number: i64) -> Result<Vec<LocalComment>, LocalError> {
        let state = self.state.read()?;
        let found = rows(&state, repository)?.comments.iter();
        Ok(found.filter(|comment| comment.number == number).cloned().collect())
    }

    /// Where the bare repository is.
    pub fn repository_path(&self, repository: &Repository) -> Result<PathBuf, LocalError> {
        let (owner, name) = (&repository.owner, &repository.name);
        for part in [owner, name] {
            if !is_name(part) {
                return Err(LocalError::Unusable(format!("the repository name {part:?}")));
            }
        }
        Ok(self.folder.join(owner).join(format!("{name}.git")))
    }

    fn bare(&self, repository: &Repository) -> Result<Bare, LocalError> {
        let path = self.repository_path(repository)?;
        if is_folder(&path) { Bare::open(&path) } else { Err(missing(repository)) }
    }
}

impl Inbound for LocalForge {
    fn authenticate(&self, headers: &HeaderMap, body: Bytes) -> Result<Authentic, Unauthentic> {
        self.webhook_secret.authenticate(headers, body)
    }

    fn parse(&self, delivery: &Authentic) -> Event {
        let event: Event = match serde_json::from_slice(&delivery.body) {
            Ok(event) => event,
            Err(error) => return Event::Ignored { why: format!("the body is no event: {error}") },
        };
        let repository = match &event {
            Event::Comment(comment) => &comment.repository,
            Event::CheckAction(action) => &action.repository,
            Event::PullRequest { repository, .. } => repository,
            Event::Label(label) => &label.repository,
            Event::CheckSuite(suite) => &suite.repository,
            Event::Push { repository, .. } => repository,
            Event::Access { .. } => {
                return Event::Ignored { why: "this forge has no installations".to_owned() };
            }
            Event::Ping | Event::Ignored { .. } => return event,
        };
        if repository.forge != ForgeKind::Local || self.repository_path(repository).is_err() {
            return Event::Ignored { why: "the event is about another forge's repository".to_owned() };
        }
        event
    }
}

/// The repository of this forge with these names.
pub fn repository(owner: &str, name: &str) -> Repository {
    Repository { forge: ForgeKind::Local, owner: owner.to_owned(), name: name.to_owned(), installation: 0 }
}

/// Whether `text` may be an owner or a repository: it becomes a folder.
fn is_name(text: &str) -> bool {
    (1..=100).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn missing(repository: &Repository) -> LocalError {
    LocalError::Missing(format!("repository {repository}"))
}

fn rows<'a>(
    state: &'a state::State,
    repository: &Repository,
) -> Result<&'a state::RepositoryState, LocalError> {
    state.repository(&repository.owner, &repository.name).ok_or_else(|| missing(repository))
}

fn rows_mut<'a>(
    state: &'a mut state::State,
    repository: &Repository,
) -> Result<&'a mut state::RepositoryState, LocalError> {
    state.repository_mut(&repository.owner, &repository.name).ok_or_else(|| missing(repository))
}

#[cfg(test)]
mod tests;
