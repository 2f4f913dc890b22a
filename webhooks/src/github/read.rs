//! What is asked of GitHub before anything is decided: roles, pull requests, commits and files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobs::forge::{Account, Issue, PullRequest, PullRequestState, PushTarget, Repository, Role};
use jobs::id::{CommitId, TreeId};
use serde_json::Value;

use super::GitHub;
use super::client::Request;
use super::credentials::Use;
use super::error::ApiError;
use super::route;
use crate::forge::{Branch, Commit, MAX_FILE_BYTES};

impl GitHub {
    /// The role of an account now. A login that meanwhile belongs to somebody else has none.
    pub(super) async fn role(&self, repository: &Repository, account: &Account) -> Result<Role, ApiError> {
        let what = format!("the role of {} in {repository}", account.login);
        let login = route::escape(&account.login);
        let path = route::of(repository, &format!("/collaborators/{login}/permission"));
        let answer = self.ask(repository, Use::Look, Request::read(path, &what)).await?;
        if answer["user"]["id"].as_i64().is_some_and(|id| id != account.id) {
            return Ok(Role::None);
        }
        // A custom role has a name of its own; the coarse permission beside it is what it is worth.
        [&answer["role_name"], &answer["permission"]]
            .into_iter()
            .find_map(|name| named_role(name.as_str()?))
            .ok_or_else(|| unreadable(&what, "it names no role"))
    }

    pub(super) async fn pull(&self, repository: &Repository, number: i64) -> Result<PullRequest, ApiError> {
        let what = format!("pull request {number} of {repository}");
        let path = route::of(repository, &format!("/pulls/{number}"));
        let pull = self.ask(repository, Use::ReadPullRequest, Request::read(path, &what)).await?;
        let base_branch = text(&pull["base"]["ref"], &what, "it names no base branch")?.to_owned();
        // `base.sha` is the base as it was when the pull request was last touched.
        let branch = Branch { repository: repository.clone(), name: base_branch.clone() };
        let base = self.head_of(&branch).await?.ok_or_else(|| ApiError::NotFound {
            what: format!("the base branch {base_branch} of {repository}"),
        })?;
        let author = &pull["user"];
        Ok(PullRequest {
            number,
            state: match pull["state"].as_str() {
                Some("open") => PullRequestState::Open,
                _ => PullRequestState::Closed,
            },
            head: commit_id(&pull["head"]["sha"], &what)?,
            base,
            base_branch,
            push_target: push_target(&pull),
            author: author["id"]
                .as_i64()
                .zip(author["login"].as_str())
                .map(|(id, login)| Account { id, login: login.to_owned() }),
        })
    }

    pub(super) async fn issue_now(&self, repository: &Repository, number: i64) -> Result<Issue, ApiError> {
        let what = format!("issue {number} of {repository}");
        let path = route::of(repository, &format!("/issues/{number}"));
        let issue = self.ask(repository, Use::ReadIssue, Request::read(path, &what)).await?;
        let state = match issue["state"].as_str() {
            Some("open") => PullRequestState::Open,
            Some(_) | None => PullRequestState::Closed,
        };
        Ok(Issue { number, state })
    }

    pub(super) async fn default(&self, repository: &Repository) -> Result<(Branch, CommitId), ApiError> {
        let what = format!("the default branch of {repository}");
        let request = Request::read(route::of(repository, ""), &what);
        let answer = self.ask(repository, Use::Look, request).await?;
        let name = text(&answer["default_branch"], &what, "it names none")?.to_owned();
        let branch = Branch { repository: repository.clone(), name };
        match self.head_of(&branch).await? {
            Some(head) => Ok((branch, head)),
            None => Err(ApiError::NotFound { what }),
        }
    }

    /// The commit that a branch shows now.
    pub(super) async fn head_of(&self, branch: &Branch) -> Result<Option<CommitId>, ApiError> {
        let what = format!("branch {} of {}", branch.name, branch.repository);
        let name = route::escape_path(&branch.name);
        let path = route::of(&branch.repository, &format!("/git/ref/heads/{name}"));
        match self.ask(&branch.repository, Use::ReadCode, Request::read(path, &what)).await {
            Ok(answer) => Ok(Some(commit_id(&answer["object"]["sha"], &what)?)),
            Err(ApiError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn commit_of(&self, repository: &Repository, id: &CommitId) -> Result<Commit, ApiError> {
        let what = format!("commit {id} of {repository}");
        let path = route::of(repository, &format!("/git/commits/{id}"));
        let answer = self.ask(repository, Use::ReadCode, Request::read(path, &what)).await?;
        let parents = answer["parents"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Commit {
            id: id.clone(),
            tree: tree_id(&answer["tree"]["sha"], &what)?,
            parents: parents
                .iter()
                .map(|parent| commit_id(&parent["sha"], &what))
                .collect::<Result<_, _>>()?,
            message: answer["message"].as_str().unwrap_or_default().to_owned(),
        })
    }

    pub(super) async fn names_at_root(
        &self,
        repository: &Repository,
        tree: &TreeId,
    ) -> Result<Vec<String>, ApiError> {
        let what = format!("tree {tree} of {repository}");
        let path = route::of(repository, &format!("/git/trees/{tree}"));
        let answer = self.ask(repository, Use::ReadCode, Request::read(path, &what)).await?;
        let entries = answer["tree"].as_array().ok_or_else(|| unreadable(&what, "it has no entries"))?;
        Ok(entries.iter().filter_map(|entry| entry["path"].as_str()).map(str::to_owned).collect())
    }

    pub(super) async fn file_at(
        &self,
        repository: &Repository,
        commit: &CommitId,
        file: &str,
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let what = format!("{file} of {repository} at {commit}");
        let path = route::of(repository, &format!("/contents/{}?ref={commit}", route::escape_path(file)));
        let answer = match self.ask(repository, Use::ReadCode, Request::read(path, &what)).await {
            Ok(answer) => answer,
            Err(ApiError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if answer["type"].as_str() != Some("file") {
            return Ok(None);
        }
        let size = answer["size"].as_u64().unwrap_or(u64::MAX);
        if size > MAX_FILE_BYTES as u64 {
            let message = format!("it has more than {MAX_FILE_BYTES} bytes");
            return Err(ApiError::Rejected { what, status: 200, message });
        }
        if answer["encoding"].as_str() != Some("base64") {
            return Err(unreadable(&what, "its content is not there as base64"));
        }
        let digits: String =
            answer["content"].as_str().unwrap_or_default().split_ascii_whitespace().collect();
        let bytes = STANDARD.decode(digits).map_err(|error| unreadable(&what, &error.to_string()))?;
        Ok(Some(bytes))
    }
}

fn named_role(name: &str) -> Option<Role> {
    [Role::None, Role::Read, Role::Triage, Role::Write, Role::Maintain, Role::Admin]
        .into_iter()
        .find(|role| role.name() == name)
}

/// Where a patch for this pull request may be pushed. A deleted fork is one that takes none.
fn push_target(pull: &Value) -> PushTarget {
    let nowhere = |why: &str| PushTarget::Nowhere { why: why.to_owned() };
    let (head, base) = (&pull["head"], &pull["base"]);
    let Some(branch) = head["ref"].as_str().map(str::to_owned) else {
        return nowhere("the pull request names no branch");
    };
    let Some(head_repository) = head["repo"]["id"].as_i64() else {
        return nowhere("the fork was deleted");
    };
    if base["repo"]["id"].as_i64() == Some(head_repository) {
        return PushTarget::Branch { name: branch };
    }
    if pull["maintainer_can_modify"].as_bool() != Some(true) {
        return nowhere("the fork does not let maintainers push");
    }
    match (head["repo"]["owner"]["login"].as_str(), head["repo"]["name"].as_str()) {
        (Some(owner), Some(name)) => {
            PushTarget::Fork { owner: owner.to_owned(), repository: name.to_owned(), branch }
        }
        _ => nowhere("the fork has no name"),
    }
}

pub(super) fn unreadable(what: &str, why: &str) -> ApiError {
    ApiError::Unreadable { what: what.to_owned(), why: why.to_owned() }
}

fn text<'a>(value: &'a Value, what: &str, why: &str) -> Result<&'a str, ApiError> {
    value.as_str().ok_or_else(|| unreadable(what, why))
}

pub(super) fn commit_id(value: &Value, what: &str) -> Result<CommitId, ApiError> {
    text(value, what, "it names no commit")?.parse().map_err(|error| unreadable(what, &format!("{error}")))
}

pub(super) fn tree_id(value: &Value, what: &str) -> Result<TreeId, ApiError> {
    text(value, what, "it names no tree")?.parse().map_err(|error| unreadable(what, &format!("{error}")))
}
