//! A forge in memory that does what a forge promises and counts what is written to it. It fails as forges
//! do: before anything was done, and after all of it was.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use jobs::digest::Digest;
use jobs::forge::{
    Account, ForgeKind, Issue, PullRequest, PullRequestState, PushTarget, Repository, Role, Subject,
};
use jobs::id::{CommitId, TreeId};
use webhooks::forge::{
    Branch, CheckRun, Comment, Commit, Forge, ForgeError, NewPullRequest, Posted, PushError, PushOutcome,
    PushRefusal, PushRequest, Suggestion,
};

use crate::world::{Ground, POLICY, Trouble};

pub const BRANCH: &str = "topic";

/// What the forge holds, by the number of the pull request; each is in a repository of its own.
#[derive(Default)]
pub struct Held {
    pub heads: BTreeMap<String, CommitId>,
    pub commits: BTreeMap<CommitId, Commit>,
    /// By repository and external id.
    pub checks: BTreeMap<(String, String, CommitId), (i64, CheckRun)>,
    /// By repository and key.
    pub comments: BTreeMap<(String, String), Comment>,
    /// Repository and patch of every commit that was written.
    pub pushed: Vec<(String, Digest, CommitId)>,
}

pub struct Simulated {
    held: Mutex<Held>,
    trouble: Arc<Trouble>,
}

impl Simulated {
    pub fn new(ground: &Ground, trouble: Arc<Trouble>) -> Self {
        let mut held = Held::default();
        for place in &ground.places {
            held.heads.insert(place.name.clone(), place.commit.clone());
            let commit = Commit {
                id: place.commit.clone(),
                tree: place.tree.clone(),
                parents: Vec::new(),
                message: String::new(),
            };
            held.commits.insert(place.commit.clone(), commit);
        }
        Self { held: Mutex::new(held), trouble }
    }

    pub fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap()
    }

    /// The answer, unless it or the request is lost on the way.
    fn answer<T>(&self, what: &str, act: impl FnOnce(&mut Held) -> T) -> Result<T, ForgeError> {
        let unavailable = |why: &str| ForgeError::Unavailable { what: what.to_owned(), why: why.to_owned() };
        if self.trouble.comes("request") {
            return Err(unavailable("the request was lost"));
        }
        if self.trouble.comes("rate") {
            let retry_after = Duration::from_secs(7);
            return Err(ForgeError::RateLimited { what: what.to_owned(), retry_after });
        }
        let done = act(&mut self.held());
        if self.trouble.comes("answer") {
            return Err(unavailable("the answer was lost"));
        }
        Ok(done)
    }
}

pub fn base() -> CommitId {
    "c".repeat(40).parse().unwrap()
}

#[async_trait]
impl Forge for Simulated {
    fn kind(&self) -> ForgeKind {
        ForgeKind::Local
    }

    async fn permission(&self, _: &Repository, account: &Account) -> Result<Role, ForgeError> {
        let role = if account.login == "rita" { Role::Read } else { Role::Write };
        self.answer("a role", |_| role)
    }

    async fn pull_request(&self, repository: &Repository, number: i64) -> Result<PullRequest, ForgeError> {
        self.answer("a pull request", |held| PullRequest {
            number,
            state: PullRequestState::Open,
            head: held.heads[&repository.name].clone(),
            base: base(),
            base_branch: "main".to_owned(),
            push_target: PushTarget::Branch { name: BRANCH.to_owned() },
            author: Some(Account { id: 9, login: "author".to_owned() }),
        })
    }

    async fn issue(&self, _: &Repository, number: i64) -> Result<Issue, ForgeError> {
        self.answer("an issue", |_| Issue { number, state: PullRequestState::Open })
    }

    async fn default_branch(&self, repository: &Repository) -> Result<(Branch, CommitId), ForgeError> {
        let branch = Branch { repository: repository.clone(), name: "main".to_owned() };
        self.answer("a branch", |_| (branch, base()))
    }

    async fn commit(&self, _: &Repository, id: &CommitId) -> Result<Commit, ForgeError> {
        let found = self.answer("a commit", |held| held.commits.get(id).cloned())?;
        found.ok_or_else(|| ForgeError::NotFound { what: format!("commit {id}") })
    }

    async fn root_names(&self, _: &Repository, _: &TreeId) -> Result<Vec<String>, ForgeError> {
        self.answer("a tree", |_| vec!["value".to_owned()])
    }

    async fn file(&self, _: &Repository, _: &CommitId, path: &str) -> Result<Option<Vec<u8>>, ForgeError> {
        let policy = (path == jobs::policy::PATH).then(|| POLICY.as_bytes().to_vec());
        self.answer("a file", |_| policy)
    }

    async fn branch_head(&self, branch: &Branch) -> Result<Option<CommitId>, ForgeError> {
        self.answer("a branch", |held| held.heads.get(&branch.repository.name).cloned())
    }

    async fn put_check(&self, repository: &Repository, check: &CheckRun) -> Result<Posted, ForgeError> {
        let key = (repository.name.clone(), check.external_id.clone(), check.head.clone());
        self.answer("a check run", |held| {
            let number = held.checks.len() as i64 + 1;
            let found = held.checks.entry(key).or_insert_with(|| (number, check.clone()));
            found.1 = check.clone();
            Posted { id: found.0.to_string(), url: None }
        })
    }

    async fn comment(
        &self,
        repository: &Repository,
        _: &Subject,
        comment: &Comment,
    ) -> Result<Posted, ForgeError> {
        let key = (repository.name.clone(), comment.key.clone());
        self.answer("a comment", |held| {
            held.comments.insert(key, comment.clone());
            Posted { id: comment.key.clone(), url: None }
        })
    }

    async fn suggest(&self, _: &Repository, _: i64, _: &Suggestion) -> Result<Option<Posted>, ForgeError> {
        self.answer("a review", |_| None)
    }

    async fn open_pull_request(&self, _: &NewPullRequest) -> Result<Posted, ForgeError> {
        self.answer("a pull request", |_| Posted { id: "1".to_owned(), url: None })
    }

    async fn push(&self, request: PushRequest) -> Result<PushOutcome, PushError> {
        let name = request.branch().repository.name.clone();
        let done = self.answer("a push", |held| {
            let found = held.heads[&name].clone();
            if found != *request.head() {
                return PushOutcome::Refused(PushRefusal::HeadMoved { found });
            }
            let text = format!("{name} {} {}", request.message(), held.pushed.len());
            let id: CommitId = Digest::of(text).to_string()[..40].parse().unwrap();
            let commit = Commit {
                id: id.clone(),
                tree: request.changeset().tree_after.clone(),
                parents: vec![found],
                message: request.message().to_owned(),
            };
            held.commits.insert(id.clone(), commit);
            held.heads.insert(name.clone(), id.clone());
            held.pushed.push((name.clone(), request.patch(), id.clone()));
            PushOutcome::Pushed { commit: id }
        });
        done.map_err(PushError::Unknown)
    }
}
