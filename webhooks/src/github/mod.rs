//! Everything that speaks to GitHub: its webhooks, its REST API, access to clone.
//!
//! octocrab and jsonwebtoken are used here and nowhere else. No request is repeated by itself but
//! where a 401 shows that nothing was done; waiting and trying again is the outbox's.

mod check_run;
mod client;
mod comment;
mod credentials;
mod error;
mod health;
pub mod manifest;
mod payload;
mod pull_request;
mod push;
mod read;
mod route;
mod sweep;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use jobs::clock::Clock;
use jobs::event::Event;
use jobs::forge::{Account, ForgeKind, Issue, PullRequest, Repository, Role, Subject};
use jobs::id::{CommitId, TreeId};
use jobs::source::{Claim, CloneAccess, Source, SourceError};
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

use crate::authenticate::{EmptySecret, WebhookSecret};
use crate::forge::{
    Authentic, Branch, CheckRun, Comment, Commit, Forge, ForgeError, Inbound, NewPullRequest, Posted,
    PushError, PushOutcome, PushRequest, Suggestion, Unauthentic,
};
use client::{Client, Request};
use credentials::{AppIdentity, BadKey, Credentials, Use};
use error::ApiError;

pub use health::{Finding, Health};
pub use sweep::{SweepError, Swept};

/// How to reach a GitHub, and as which app.
#[derive(Clone, Debug)]
pub struct GitHubConfig {
    /// The REST API: `https://api.github.com`, or `https://HOST/api/v3` of an enterprise server.
    pub api: Url,
    /// Where repositories are cloned from: `https://github.com`, or the enterprise server's root.
    pub web: Url,
    pub app_id: i64,
    /// RSA, in PEM form, as GitHub gives it out.
    pub private_key: SecretString,
    pub webhook_secret: SecretString,
}

impl GitHubConfig {
    /// Where the GitHub behind `api` is cloned from.
    pub fn web_of(api: &Url) -> Url {
        let mut web = api.clone();
        web.set_query(None);
        web.set_fragment(None);
        let host = api.host_str().and_then(|host| host.strip_prefix("api."));
        if let Some(host) = host.filter(|host| *host == "github.com" || host.ends_with(".ghe.com")) {
            // The host was just read from this URL, so that it can be replaced.
            let _replaced = web.set_host(Some(host));
        }
        let path = web.path().trim_end_matches('/');
        let path = path.strip_suffix("/api/v3").unwrap_or(path).to_owned();
        web.set_path(&path);
        web
    }
}

/// The configuration cannot work.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Key(#[from] BadKey),
    #[error(transparent)]
    Secret(#[from] EmptySecret),
    #[error("cannot use the GitHub API at {api}: {why}")]
    Api { api: Url, why: String },
}

/// GitHub as one app sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GitHub {
    credentials: Credentials,
    webhook_secret: WebhookSecret,
    web: Url,
}

impl GitHub {
    /// Prepares the connection; sends nothing. Must be called within a tokio runtime.
    pub fn new(config: GitHubConfig, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        let identity = AppIdentity::new(config.app_id, &config.private_key)?;
        let webhook_secret = WebhookSecret::new(config.webhook_secret)?;
        let client = Client::new(&config.api)
            .map_err(|error| SetupError::Api { api: config.api, why: error.to_string() })?;
        let credentials = Credentials::new(client, identity, clock);
        Ok(Self { credentials, webhook_secret, web: config.web })
    }

    /// Sends one request with a token that can do `purpose` in `repository` alone.
    async fn ask(&self, repository: &Repository, purpose: Use, request: Request) -> Result<Value, ApiError> {
        let answer =
            self.credentials.send(repository.installation, &repository.name, purpose, &request).await?;
        Ok(answer.body)
    }
}

impl Inbound for GitHub {
    fn authenticate(&self, headers: &HeaderMap, body: Bytes) -> Result<Authentic, Unauthentic> {
        self.webhook_secret.authenticate(headers, body)
    }

    fn parse(&self, delivery: &Authentic) -> Event {
        payload::parse(self.credentials.app_id(), &delivery.event, &delivery.body)
    }
}

#[async_trait]
impl Source for GitHub {
    async fn clone_access(&self, _: &Claim, repository: &Repository) -> Result<CloneAccess, SourceError> {
        let named = repository.to_string();
        let token = self.credentials.clone_token(repository.installation, &repository.name).await.map_err(
            |error| match error {
                ApiError::RateLimited { .. } | ApiError::Unavailable { .. } | ApiError::Unreadable { .. } => {
                    SourceError::Unavailable { repository: named, why: error.to_string() }
                }
                ApiError::Unauthorized { .. }
                | ApiError::Forbidden { .. }
                | ApiError::NotFound { .. }
                | ApiError::Rejected { .. } => {
                    SourceError::Refused { repository: named, why: error.to_string() }
                }
            },
        )?;
        let root = self.web.as_str().trim_end_matches('/');
        let (owner, name) = (route::escape(&repository.owner), route::escape(&repository.name));
        Ok(CloneAccess { url: format!("{root}/{owner}/{name}.git"), token: Some(token) })
    }
}

#[async_trait]
impl Forge for GitHub {
    fn kind(&self) -> ForgeKind {
        ForgeKind::Github
    }

    async fn permission(&self, repository: &Repository, account: &Account) -> Result<Role, ForgeError> {
        Ok(self.role(repository, account).await?)
    }

    async fn pull_request(&self, repository: &Repository, number: i64) -> Result<PullRequest, ForgeError> {
        Ok(self.pull(repository, number).await?)
    }

    async fn issue(&self, repository: &Repository, number: i64) -> Result<Issue, ForgeError> {
        Ok(self.issue_now(repository, number).await?)
    }

    async fn default_branch(&self, repository: &Repository) -> Result<(Branch, CommitId), ForgeError> {
        Ok(self.default(repository).await?)
    }

    async fn commit(&self, repository: &Repository, id: &CommitId) -> Result<Commit, ForgeError> {
        Ok(self.commit_of(repository, id).await?)
    }

    async fn root_names(&self, repository: &Repository, tree: &TreeId) -> Result<Vec<String>, ForgeError> {
        Ok(self.names_at_root(repository, tree).await?)
    }

    async fn file(
        &self,
        repository: &Repository,
        commit: &CommitId,
        path: &str,
    ) -> Result<Option<Vec<u8>>, ForgeError> {
        Ok(self.file_at(repository, commit, path).await?)
    }

    async fn branch_head(&self, branch: &Branch) -> Result<Option<CommitId>, ForgeError> {
        Ok(self.head_of(branch).await?)
    }

    async fn put_check(&self, repository: &Repository, check: &CheckRun) -> Result<Posted, ForgeError> {
        Ok(self.put_check_run(repository, check).await?)
    }

    async fn comment(
        &self,
        repository: &Repository,
        subject: &Subject,
        comment: &Comment,
    ) -> Result<Posted, ForgeError> {
        Ok(self.put_comment(repository, subject, comment).await?)
    }

    async fn suggest(
        &self,
        repository: &Repository,
        number: i64,
        suggestion: &Suggestion,
    ) -> Result<Option<Posted>, ForgeError> {
        Ok(self.put_suggestion(repository, number, suggestion).await?)
    }

    async fn open_pull_request(&self, request: &NewPullRequest) -> Result<Posted, ForgeError> {
        Ok(self.put_pull_request(request).await?)
    }

    async fn push(&self, request: PushRequest) -> Result<PushOutcome, PushError> {
        self.push_commit(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_come_from_beside_the_api() {
        for (api, web) in [
            ("https://api.github.com", "https://github.com/"),
            ("https://api.acme.ghe.com", "https://acme.ghe.com/"),
            ("https://ghe.example/api/v3/", "https://ghe.example/"),
            ("https://ghe.example/git/api/v3", "https://ghe.example/git"),
            ("http://127.0.0.1:3000", "http://127.0.0.1:3000/"),
        ] {
            assert_eq!(GitHubConfig::web_of(&api.parse().unwrap()).as_str(), web, "{api}");
        }
    }
}
