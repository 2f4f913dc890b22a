//! Making repositories, people and pull requests, and changing them as their owners would.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};

use super::access::set;
use super::state::{Installation, Issue, Level, Pull, Repository, State, Visibility, granted};
use super::{INSTALLATION, SimulatedGitHub};
use crate::git::BareRepository;

/// The branch that seeds put a pull request's commits on.
pub const HEAD_BRANCH: &str = "topic";

impl SimulatedGitHub {
    /// A private repository with the app installed; `files` are the first commit of `main`.
    pub fn seed_repository(&self, full: &str, files: &[(&str, &str)]) -> Result<String> {
        let mut state = self.shared.state();
        let commit = add_repository(&mut state, full, files, Visibility::Private)?;
        let (owner, _) = full.split_once('/').context("a repository is owner/name")?;
        let installation = state.installations.entry(INSTALLATION).or_insert_with(|| Installation {
            account: owner.to_owned(),
            permissions: granted(),
            repositories: BTreeSet::new(),
        });
        installation.repositories.insert(full.to_owned());
        Ok(commit)
    }

    /// A public fork of `base` without the app.
    pub fn seed_fork(&self, base: &str, full: &str) -> Result<()> {
        let mut state = self.shared.state();
        let source = state.repositories.get(base).context("no such repository")?.git.clone();
        add_repository(&mut state, full, &[], Visibility::Public)?;
        let fork = state.repositories.get(full).context("it was just made")?;
        fork.git.fetch(&source, "refs/heads/main", "refs/heads/main")
    }

    /// Gives a person a role (`read`, `triage`, `write`, `maintain`, `admin`, or a custom name).
    pub fn set_role(&self, repository: &str, login: &str, role: &str) -> Result<i64> {
        let mut state = self.shared.state();
        let id = state.user(login);
        let found = state.repositories.get_mut(repository).context("no such repository")?;
        found.roles.insert(login.to_owned(), role.to_owned());
        Ok(id)
    }

    /// Opens a pull request from [`HEAD_BRANCH`] of `head` (the repository itself or a fork), with one
    /// commit of `files`; returns its number and head.
    pub fn open_pull(
        &self,
        repository: &str,
        head: &str,
        author: &str,
        files: &[(&str, Option<&str>)],
    ) -> Result<(i64, String)> {
        let mut state = self.shared.state();
        state.user(author);
        let git = state.repositories.get(head).context("no such head repository")?.git.clone();
        let main = git.resolve("refs/heads/main")?.context("the head repository has a main branch")?;
        git.update_ref(&format!("refs/heads/{HEAD_BRANCH}"), &main)?;
        let commit = git.commit_files(HEAD_BRANCH, "Change it", files)?;
        let base = state.repositories.get_mut(repository).context("no such repository")?;
        let number = base.pulls.keys().chain(base.issues.keys()).max().copied().unwrap_or(0) + 1;
        let pull = Pull {
            title: "Change it".to_owned(),
            author: Some(author.to_owned()),
            open: true,
            head_repository: Some(head.to_owned()),
            head_branch: HEAD_BRANCH.to_owned(),
            base_branch: "main".to_owned(),
            maintainer_can_modify: head != repository,
            body: String::new(),
        };
        base.pulls.insert(number, pull);
        state.follow_branches()?;
        Ok((number, commit))
    }

    /// Opens an issue.
    pub fn open_issue(&self, repository: &str, title: &str) -> Result<i64> {
        let mut state = self.shared.state();
        let found = state.repositories.get_mut(repository).context("no such repository")?;
        let number = found.pulls.keys().chain(found.issues.keys()).max().copied().unwrap_or(0) + 1;
        found.issues.insert(number, Issue { title: title.to_owned(), open: true });
        Ok(number)
    }

    /// Closes an issue.
    pub fn close_issue(&self, repository: &str, number: i64) -> Result<()> {
        let mut state = self.shared.state();
        let found = state.repositories.get_mut(repository).context("no such repository")?;
        found.issues.get_mut(&number).context("no such issue")?.open = false;
        Ok(())
    }

    /// A new commit on a branch, as its owner pushes it.
    pub fn push_files(
        &self,
        repository: &str,
        branch: &str,
        files: &[(&str, Option<&str>)],
    ) -> Result<String> {
        let mut state = self.shared.state();
        let git = state.repositories.get(repository).context("no such repository")?.git.clone();
        let commit = git.commit_files(branch, "Change it again", files)?;
        state.follow_branches()?;
        Ok(commit)
    }

    /// Points a branch at another commit, as a force-push does.
    pub fn force_branch(&self, repository: &str, branch: &str, commit: &str) -> Result<()> {
        let mut state = self.shared.state();
        let git = state.repositories.get(repository).context("no such repository")?.git.clone();
        git.update_ref(&format!("refs/heads/{branch}"), commit)?;
        state.follow_branches()
    }

    /// The commit that a branch shows.
    pub fn branch(&self, repository: &str, branch: &str) -> Result<Option<String>> {
        self.git(repository)?.resolve(&format!("refs/heads/{branch}"))
    }

    /// Closes a pull request.
    pub fn close_pull(&self, repository: &str, number: i64) -> Result<()> {
        self.change_pull(repository, number, |pull| pull.open = false)
    }

    /// Deletes the fork that a pull request came from; GitHub keeps its head.
    pub fn delete_fork(&self, repository: &str, number: i64) -> Result<()> {
        self.change_pull(repository, number, |pull| pull.head_repository = None)
    }

    /// Whether maintainers of the base may push to the fork's branch.
    pub fn forbid_maintainers(&self, repository: &str, number: i64) -> Result<()> {
        self.change_pull(repository, number, |pull| pull.maintainer_can_modify = false)
    }

    /// Forbids direct pushes to a branch.
    pub fn protect(&self, repository: &str, branch: &str) -> Result<()> {
        let mut state = self.shared.state();
        let found = state.repositories.get_mut(repository).context("no such repository")?;
        found.protected.insert(branch.to_owned());
        Ok(())
    }

    /// Takes a permission from the app and its installations, or gives it.
    pub fn grant(&self, permission: &str, level: Option<Level>) {
        let mut state = self.shared.state();
        let state = &mut *state;
        let held = state.installations.values_mut().map(|installation| &mut installation.permissions);
        for permissions in held.chain([&mut state.app_permissions]) {
            match level {
                Some(level) => permissions.insert(permission.to_owned(), level),
                None => permissions.remove(permission),
            };
        }
    }

    /// Has the app not listen to an event any more.
    pub fn unsubscribe(&self, event: &str) {
        self.shared.state().app_events.remove(event);
    }

    fn change_pull(&self, repository: &str, number: i64, change: impl FnOnce(&mut Pull)) -> Result<()> {
        let mut state = self.shared.state();
        let found = state.repositories.get_mut(repository).context("no such repository")?;
        change(found.pulls.get_mut(&number).context("no such pull request")?);
        Ok(())
    }
}

impl State {
    /// Lets `refs/pull/N/head` of every open pull request show what its branch shows.
    pub(super) fn follow_branches(&mut self) -> Result<()> {
        for base in self.repositories.values() {
            for (number, pull) in base.pulls.iter().filter(|(_, pull)| pull.open) {
                let Some(head) = pull.head_repository.as_ref().and_then(|name| self.repositories.get(name))
                else {
                    continue;
                };
                let branch = format!("refs/heads/{}", pull.head_branch);
                let (shown, kept) = (head.git.resolve(&branch)?, format!("refs/pull/{number}/head"));
                if shown.is_some() && shown != base.git.resolve(&kept)? {
                    base.git.fetch(&head.git, &branch, &kept)?;
                }
            }
        }
        Ok(())
    }
}

fn add_repository(
    state: &mut State,
    full: &str,
    files: &[(&str, &str)],
    visibility: Visibility,
) -> Result<String> {
    let (owner, _) = full.split_once('/').context("a repository is owner/name")?;
    state.user(owner);
    let git = BareRepository::create(&state.folder.path().join(format!("{full}.git")))?;
    let files: Vec<(&str, Option<&str>)> = files.iter().map(|(path, text)| (*path, Some(*text))).collect();
    let commit = if files.is_empty() { String::new() } else { git.commit_files("main", "Begin", &files)? };
    let repository = Repository {
        id: state.new_id(),
        git,
        default_branch: "main".to_owned(),
        visibility,
        roles: BTreeMap::new(),
        pulls: BTreeMap::new(),
        issues: BTreeMap::new(),
        reviews: Vec::new(),
        comments: Vec::new(),
        check_runs: Vec::new(),
        protected: set(&[]),
        archived: false,
    };
    state.repositories.insert(full.to_owned(), repository);
    Ok(commit)
}
