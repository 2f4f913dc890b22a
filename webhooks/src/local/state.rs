//! What the local forge knows besides git: accounts, roles, pull requests, comments, check runs.
//!
//! One JSON file. A change reads it, changes it and puts a whole new file in its place, under a lock
//! that other processes honour too; a reader always finds a whole file.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jobs::forge::{Account, Role};
use serde::{Deserialize, Serialize};

use super::LocalError;
use crate::forge::CheckRun;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub last_id: i64,
    pub accounts: Vec<Account>,
    pub repositories: Vec<RepositoryState>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RepositoryState {
    pub owner: String,
    pub name: String,
    pub default_branch: String,
    /// By account id.
    pub roles: Vec<(i64, Role)>,
    pub pull_requests: Vec<PullRequestRow>,
    pub comments: Vec<LocalComment>,
    pub check_runs: Vec<LocalCheckRun>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PullRequestRow {
    pub number: i64,
    pub title: String,
    pub open: Openness,
    pub base_branch: String,
    pub head_branch: String,
    pub author: Account,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Openness {
    Open,
    Closed,
}

/// A comment as the local forge keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalComment {
    pub id: i64,
    /// The pull request.
    pub number: i64,
    /// `None` for this app.
    pub author: Option<Account>,
    pub body: String,
    /// The key under which this app updates it.
    pub key: Option<String>,
}

/// A check run as the local forge keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalCheckRun {
    pub id: i64,
    pub check: CheckRun,
    /// How often it was made or updated.
    pub revisions: u64,
}

impl State {
    pub(super) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn account(&self, login: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.login == login)
    }

    pub(super) fn account_or_new(&mut self, login: &str) -> Account {
        if let Some(account) = self.account(login) {
            return account.clone();
        }
        let account = Account { id: self.next_id(), login: login.to_owned() };
        self.accounts.push(account.clone());
        account
    }

    pub(super) fn repository(&self, owner: &str, name: &str) -> Option<&RepositoryState> {
        self.repositories.iter().find(|found| found.owner == owner && found.name == name)
    }

    pub(super) fn repository_mut(&mut self, owner: &str, name: &str) -> Option<&mut RepositoryState> {
        self.repositories.iter_mut().find(|found| found.owner == owner && found.name == name)
    }
}

/// The file that holds the state.
#[derive(Clone, Debug)]
pub(super) struct StateFile {
    folder: PathBuf,
}

impl StateFile {
    pub(super) fn open(folder: &Path) -> Result<Self, LocalError> {
        let file = Self { folder: folder.to_owned() };
        std::fs::create_dir_all(folder).map_err(file.failed("make"))?;
        Ok(file)
    }

    /// The state as the last change left it.
    pub(super) fn read(&self) -> Result<State, LocalError> {
        match std::fs::read(self.path()) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| LocalError::Unusable(format!("{}: {error}", self.path().display()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(State::default()),
            Err(error) => Err(self.failed("read the state in")(error)),
        }
    }

    /// Changes the state, alone among all processes. Nothing is written when `change` fails.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, LocalError>,
    ) -> Result<T, LocalError> {
        let lock = File::create(self.folder.join("state.lock")).map_err(self.failed("lock"))?;
        lock.lock().map_err(self.failed("lock"))?;
        let mut state = self.read()?;
        let before = state.clone();
        let answer = change(&mut state)?;
        if state != before {
            self.write(&state).map_err(self.failed("write the state in"))?;
        }
        Ok(answer)
    }

    fn write(&self, state: &State) -> std::io::Result<()> {
        let temporary = self.folder.join("state.json.new");
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(state)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, self.path())?;
        File::open(&self.folder)?.sync_all()
    }

    fn path(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(std::io::Error) -> LocalError {
        let folder = self.folder.clone();
        move |source| LocalError::Disk { doing, folder, source }
    }
}
