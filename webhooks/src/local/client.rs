//! What this app asks of the local forge and tells it.

use async_trait::async_trait;
use jobs::forge::{
    Account, ForgeKind, Issue, PullRequest, PullRequestState, PushTarget, Repository, Role, Subject,
};
use jobs::id::{CommitId, TreeId};
use jobs::source::{Claim, CloneAccess, Source, SourceError};

use super::git::{Expected, FileContent, Moved, NewCommit, Person, tree_id};
use super::people::{pull_ref, pull_request};
use super::state::Openness;
use super::{LocalCheckRun, LocalComment, LocalError, LocalForge, rows, rows_mut};
use crate::forge::{
    Branch, CheckRun, Comment, Commit, DestinationKind, Forge, ForgeError, MAX_FILE_BYTES, MAX_TEXT_BYTES,
    NewPullRequest, Posted, PushError, PushOutcome, PushRefusal, PushRequest, Suggestion,
};

impl LocalForge {
    /// Runs blocking work of this forge on a thread where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        what: String,
        work: impl FnOnce(&LocalForge) -> Result<T, LocalError> + Send + 'static,
    ) -> Result<T, ForgeError> {
        let forge = self.clone();
        match tokio::task::spawn_blocking(move || work(&forge)).await {
            Ok(done) => done.map_err(|error| told(what, &error)),
            Err(error) => Err(ForgeError::Unavailable { what, why: error.to_string() }),
        }
    }

    fn pull_request_now(&self, repository: &Repository, number: i64) -> Result<PullRequest, LocalError> {
        let state = self.state.read()?;
        let row = pull_request(rows(&state, repository)?, number)?;
        Ok(PullRequest {
            number,
            state: match row.open {
                Openness::Open => PullRequestState::Open,
                Openness::Closed => PullRequestState::Closed,
            },
            head: self.branch_head(repository, &row.head_branch)?,
            base: self.branch_head(repository, &row.base_branch)?,
            base_branch: row.base_branch.clone(),
            push_target: PushTarget::Branch { name: row.head_branch.clone() },
            author: Some(row.author.clone()),
        })
    }

    fn put(&self, repository: &Repository, check: CheckRun) -> Result<Posted, LocalError> {
        held_to_limits(&check)?;
        self.commit(repository, &check.head)?;
        self.state.change(|state| {
            let new_id = state.next_id();
            let runs = &mut rows_mut(state, repository)?.check_runs;
            let same = |run: &&mut LocalCheckRun| {
                run.check.external_id == check.external_id && run.check.head == check.head
            };
            let id = match runs.iter_mut().find(same) {
                Some(found) => {
                    found.check = check;
                    found.revisions += 1;
                    found.id
                }
                None => {
                    runs.push(LocalCheckRun { id: new_id, check, revisions: 1 });
                    new_id
                }
            };
            Ok(Posted { id: id.to_string(), url: None })
        })
    }

    fn upsert(&self, repository: &Repository, number: i64, comment: Comment) -> Result<Posted, LocalError> {
        self.state.change(|state| {
            let new_id = state.next_id();
            pull_request(rows(state, repository)?, number)?;
            let comments = &mut rows_mut(state, repository)?.comments;
            let same = |found: &&mut LocalComment| {
                found.number == number && found.key.as_deref() == Some(&comment.key)
            };
            let id = match comments.iter_mut().find(same) {
                Some(found) => {
                    found.body = comment.body;
                    found.id
                }
                None => {
                    let (body, key) = (comment.body, Some(comment.key));
                    comments.push(LocalComment { id: new_id, number, author: None, body, key });
                    new_id
                }
            };
            Ok(Posted { id: id.to_string(), url: None })
        })
    }

    fn push_commit(&self, request: &PushRequest) -> Result<PushOutcome, LocalError> {
        let branch = request.branch();
        let bare = self.bare(&branch.repository)?;
        let reference = format!("refs/heads/{}", branch.name);
        let refused = |refusal| Ok(PushOutcome::Refused(refusal));
        match request.kind() {
            DestinationKind::Moved => {}
            DestinationKind::Made { .. } => {
                let why = "on this forge branches are made by its owner alone".to_owned();
                return refused(PushRefusal::Forbidden { why });
            }
        }
        match bare.show(&reference)? {
            None => return refused(PushRefusal::BranchGone),
            Some(found) if found != *request.head() => return refused(PushRefusal::HeadMoved { found }),
            Some(_) => {}
        }
        let before = self.commit(&branch.repository, request.head())?;
        let tree = bare.write_tree(Some(&before.tree), &request.changeset().files)?;
        let found = tree_id(&tree)?;
        if found != request.changeset().tree_after {
            return refused(PushRefusal::TreeDiffers { found });
        }
        let app = Person { name: "whipstitch[bot]".into(), email: "whipstitch@local.invalid".into() };
        let parent = Some(request.head());
        let (message, at) = (request.message(), self.clock.now());
        let commit = bare.write_commit(&NewCommit { parent, tree, message, person: &app, at })?;
        let followers = self.pull_refs_of(branch)?;
        match bare.move_branch(&branch.name, Expected::Head(request.head()), &commit, &followers)? {
            Moved::Yes => Ok(PushOutcome::Pushed { commit }),
            Moved::No => match bare.show(&reference)? {
                Some(found) => refused(PushRefusal::HeadMoved { found }),
                None => refused(PushRefusal::BranchGone),
            },
        }
    }

    fn pull_refs_of(&self, branch: &Branch) -> Result<Vec<String>, LocalError> {
        let state = self.state.read()?;
        let rows = rows(&state, &branch.repository)?.pull_requests.iter();
        Ok(rows.filter(|row| row.head_branch == branch.name).map(|row| pull_ref(row.number)).collect())
    }
}

#[async_trait]
impl Forge for LocalForge {
    fn kind(&self) -> ForgeKind {
        ForgeKind::Local
    }

    async fn permission(&self, repository: &Repository, account: &Account) -> Result<Role, ForgeError> {
        let (repository, id) = (repository.clone(), account.id);
        self.blocking(format!("the role of {} in {repository}", account.login), move |forge| {
            let state = forge.state.read()?;
            let roles = rows(&state, &repository)?.roles.iter();
            Ok(roles
                .filter(|(holder, _)| *holder == id)
                .map(|(_, role)| *role)
                .next_back()
                .unwrap_or(Role::None))
        })
        .await
    }

    async fn pull_request(&self, repository: &Repository, number: i64) -> Result<PullRequest, ForgeError> {
        let repository = repository.clone();
        self.blocking(format!("pull request {number} of {repository}"), move |forge| {
            forge.pull_request_now(&repository, number)
        })
        .await
    }

    async fn issue(&self, repository: &Repository, number: i64) -> Result<Issue, ForgeError> {
        Err(ForgeError::NotFound { what: format!("issue {number} of {repository}: this forge has none") })
    }

    async fn default_branch(&self, repository: &Repository) -> Result<(Branch, CommitId), ForgeError> {
        let repository = repository.clone();
        self.blocking(format!("the default branch of {repository}"), move |forge| {
            let name = rows(&forge.state.read()?, &repository)?.default_branch.clone();
            let head = forge.branch_head(&repository, &name)?;
            Ok((Branch { repository, name }, head))
        })
        .await
    }

    async fn commit(&self, repository: &Repository, id: &CommitId) -> Result<Commit, ForgeError> {
        let (repository, id) = (repository.clone(), id.clone());
        self.blocking(format!("commit {id} of {repository}"), move |forge| forge.commit(&repository, &id))
            .await
    }

    async fn root_names(&self, repository: &Repository, tree: &TreeId) -> Result<Vec<String>, ForgeError> {
        let (repository, tree) = (repository.clone(), tree.clone());
        self.blocking(format!("tree {tree} of {repository}"), move |forge| {
            let names = forge.bare(&repository)?.root_names(&tree)?;
            names.ok_or_else(|| LocalError::Missing(format!("tree {tree} in {repository}")))
        })
        .await
    }

    async fn file(
        &self,
        repository: &Repository,
        commit: &CommitId,
        path: &str,
    ) -> Result<Option<Vec<u8>>, ForgeError> {
        let what = format!("{path} of {repository}");
        let (owned, commit, path) = (repository.clone(), commit.clone(), path.to_owned());
        let content = self.blocking(what.clone(), move |forge| {
            let commit = forge.commit(&owned, &commit)?;
            forge.bare(&owned)?.file(&commit, &path, MAX_FILE_BYTES)
        });
        match content.await? {
            None => Ok(None),
            Some(FileContent::Whole(bytes)) => Ok(Some(bytes)),
            Some(FileContent::TooLarge) => {
                Err(ForgeError::Refused { what, why: format!("it has more than {MAX_FILE_BYTES} bytes") })
            }
        }
    }

    async fn branch_head(&self, branch: &Branch) -> Result<Option<CommitId>, ForgeError> {
        let branch = branch.clone();
        self.blocking(format!("branch {} of {}", branch.name, branch.repository), move |forge| {
            forge.bare(&branch.repository)?.show(&format!("refs/heads/{}", branch.name))
        })
        .await
    }

    async fn put_check(&self, repository: &Repository, check: &CheckRun) -> Result<Posted, ForgeError> {
        let (repository, check) = (repository.clone(), check.clone());
        self.blocking(format!("a check run of {repository}"), move |forge| forge.put(&repository, check))
            .await
    }

    async fn comment(
        &self,
        repository: &Repository,
        subject: &Subject,
        comment: &Comment,
    ) -> Result<Posted, ForgeError> {
        let number = subject
            .number()
            .ok_or_else(|| ForgeError::NotFound { what: "a place for comments on a checkout".to_owned() })?;
        let (repository, comment) = (repository.clone(), comment.clone());
        self.blocking(format!("a comment on {repository} {number}"), move |forge| {
            forge.upsert(&repository, number, comment)
        })
        .await
    }

    /// This forge has no reviews.
    async fn suggest(&self, _: &Repository, _: i64, _: &Suggestion) -> Result<Option<Posted>, ForgeError> {
        Ok(None)
    }

    async fn open_pull_request(&self, request: &NewPullRequest) -> Result<Posted, ForgeError> {
        Err(ForgeError::Refused {
            what: format!("a pull request from {}", request.head.name),
            why: "on this forge they are opened by its owner alone".to_owned(),
        })
    }

    async fn push(&self, request: PushRequest) -> Result<PushOutcome, PushError> {
        let what = format!("a push to {} of {}", request.branch().name, request.branch().repository);
        self.blocking(what, move |forge| forge.push_commit(&request)).await.map_err(PushError::Unknown)
    }
}

#[async_trait]
impl Source for LocalForge {
    async fn clone_access(&self, _: &Claim, repository: &Repository) -> Result<CloneAccess, SourceError> {
        let refused = |why: String| SourceError::Refused { repository: repository.to_string(), why };
        let path = self.repository_path(repository).map_err(|error| refused(error.to_string()))?;
        let path = std::path::absolute(path).map_err(|error| refused(error.to_string()))?;
        let url = url::Url::from_file_path(&path)
            .map_err(|()| refused(format!("{} is no absolute path", path.display())))?;
        Ok(CloneAccess { url: url.into(), token: None })
    }
}

/// The forge's answer in the words of every forge.
fn told(what: String, error: &LocalError) -> ForgeError {
    match error {
        LocalError::Missing(_) => ForgeError::NotFound { what },
        LocalError::Unusable(_) | LocalError::Exists(_) | LocalError::Secret(_) | LocalError::Id(_) => {
            ForgeError::Refused { what, why: error.to_string() }
        }
        LocalError::Disk { source, .. } => {
            ForgeError::Unavailable { what, why: format!("{error}: {source}") }
        }
        LocalError::Git { .. } => ForgeError::Unavailable { what, why: error.to_string() },
    }
}

/// GitHub refuses what is longer, so this forge does as well.
fn held_to_limits(check: &CheckRun) -> Result<(), LocalError> {
    let long = |text: &str| text.len() > MAX_TEXT_BYTES;
    let wide = |text: &str, limit: usize| text.is_empty() || text.chars().count() > limit;
    let over = |what: &str| Err(LocalError::Unusable(format!("a check run with {what}")));
    if long(&check.summary) || check.text.as_deref().is_some_and(long) {
        return over("too long a text");
    }
    if check.actions.len() > 3 {
        return over("more than three buttons");
    }
    let unfit = check.actions.iter().any(|action| {
        wide(&action.label, 20) || wide(&action.description, 40) || wide(&action.identifier, 20)
    });
    if unfit { over("a button whose texts are too long or empty") } else { Ok(()) }
}
