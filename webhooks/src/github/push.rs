//! The one way that this app writes to a repository: an authorized changeset, by the Git data API.
//!
//! Blobs, tree and commit are objects that nothing shows. Only the last request moves the branch,
//! without force, or makes it, after the tree was found equal to the verified one and the branch was
//! found at the authorized head, or absent, once more.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobs::changeset::{FileNow, FileState};
use jobs::id::{CommitId, TreeId};
use serde_json::{Value, json};

use super::GitHub;
use super::client::Request;
use super::credentials::Use;
use super::error::ApiError;
use super::read::{commit_id, tree_id, unreadable};
use super::route;
use crate::forge::{DestinationKind, PushError, PushOutcome, PushRefusal, PushRequest};

impl GitHub {
    pub(super) async fn push_commit(&self, request: PushRequest) -> Result<PushOutcome, PushError> {
        let commit = match self.prepare(&request).await {
            Ok(Prepared::Commit(commit)) => commit,
            Ok(Prepared::Decided(outcome)) => return Ok(outcome),
            Err(error) => return Err(request.not_done(error.into())),
        };
        let error = match self.move_branch(&request, &commit).await {
            Ok(()) => return Ok(PushOutcome::Pushed { commit }),
            Err(error) => error,
        };
        match error {
            ApiError::RateLimited { .. } => Err(request.not_done(error.into())),
            // Somebody else may have moved the branch, or the answer to this request was lost.
            ApiError::Rejected { .. }
            | ApiError::NotFound { .. }
            | ApiError::Unavailable { .. }
            | ApiError::Unreadable { .. } => match self.moved(&request).await {
                Ok(Some(outcome)) => Ok(outcome),
                Ok(None) | Err(_) => {
                    refusal_or_error(error).map_err(|error| PushError::Unknown(error.into()))
                }
            },
            ApiError::Forbidden { .. } | ApiError::Unauthorized { .. } => {
                refusal_or_error(error).map_err(|error| PushError::Unknown(error.into()))
            }
        }
    }

    /// All that comes before the branch moves. An error here leaves the repository as it was.
    async fn prepare(&self, request: &PushRequest) -> Result<Prepared, ApiError> {
        if let Some(outcome) = self.moved(request).await? {
            return Ok(Prepared::Decided(outcome));
        }
        let commit = match self.write_objects(request).await {
            Ok(Written::Commit(commit)) => commit,
            Ok(Written::OtherTree(found)) => {
                return Ok(Prepared::Decided(PushOutcome::Refused(PushRefusal::TreeDiffers { found })));
            }
            Err(error) => return refusal_or_error(error).map(Prepared::Decided),
        };
        Ok(match self.moved(request).await? {
            Some(outcome) => Prepared::Decided(outcome),
            None => Prepared::Commit(commit),
        })
    }

    /// What is to be said when the branch does not show the authorized head; `None` when it does.
    /// When it shows the commit that this very request makes, an earlier attempt had arrived.
    async fn moved(&self, request: &PushRequest) -> Result<Option<PushOutcome>, ApiError> {
        let found = match self.head_of(request.branch()).await {
            Ok(found) => found,
            Err(error) => return refusal_or_error(error).map(Some),
        };
        let refused = |refusal| Ok(Some(PushOutcome::Refused(refusal)));
        let (found, elsewhere) = match (request.kind(), found) {
            (DestinationKind::Made { .. }, None) => return Ok(None),
            (DestinationKind::Made { .. }, Some(found)) => {
                (found.clone(), PushRefusal::BranchTaken { found })
            }
            (DestinationKind::Moved, None) => return refused(PushRefusal::BranchGone),
            (DestinationKind::Moved, Some(found)) if found == *request.head() => return Ok(None),
            (DestinationKind::Moved, Some(found)) => (found.clone(), PushRefusal::HeadMoved { found }),
        };
        let commit = self.commit_of(&request.branch().repository, &found).await?;
        let ours = commit.parents == [request.head().clone()]
            && commit.tree == request.changeset().tree_after
            && commit.message.trim_end() == request.message().trim_end();
        if ours { Ok(Some(PushOutcome::Pushed { commit: found })) } else { refused(elsewhere) }
    }

    async fn write_objects(&self, request: &PushRequest) -> Result<Written, ApiError> {
        let mut entries = Vec::new();
        for file in &request.changeset().files {
            entries.push(self.tree_entry(request, file).await?);
        }
        let body = json!({ "base_tree": request.changeset().tree_before.as_str(), "tree": entries });
        let (answer, what) = self.write(request, "/git/trees", body).await?;
        let tree = tree_id(&answer["sha"], &what)?;
        if tree != request.changeset().tree_after {
            return Ok(Written::OtherTree(tree));
        }
        // Without author and committer GitHub writes the app's and signs the commit.
        let body = json!({
            "message": request.message(),
            "tree": tree.as_str(),
            "parents": [request.head().as_str()],
        });
        let (answer, what) = self.write(request, "/git/commits", body).await?;
        let written = tree_id(&answer["tree"]["sha"], &what)?;
        if written != tree {
            return Ok(Written::OtherTree(written));
        }
        Ok(Written::Commit(commit_id(&answer["sha"], &what)?))
    }

    async fn tree_entry(&self, request: &PushRequest, file: &FileState) -> Result<Value, ApiError> {
        match &file.now {
            FileNow::Deleted => {
                Ok(json!({ "path": file.path, "mode": "100644", "type": "blob", "sha": null }))
            }
            FileNow::File { mode, content } => {
                let body = json!({ "content": STANDARD.encode(content), "encoding": "base64" });
                let (answer, what) = self.write(request, "/git/blobs", body).await?;
                let blob = answer["sha"].as_str().ok_or_else(|| unreadable(&what, "it names no blob"))?;
                Ok(json!({ "path": file.path, "mode": mode.octal(), "type": "blob", "sha": blob }))
            }
        }
    }

    async fn move_branch(&self, request: &PushRequest, commit: &CommitId) -> Result<(), ApiError> {
        let branch = request.branch();
        let what = format!("the move of {} of {}", branch.name, branch.repository);
        let request_for_ref = match request.kind() {
            DestinationKind::Moved => {
                let name = route::escape_path(&branch.name);
                let path = route::of(&branch.repository, &format!("/git/refs/heads/{name}"));
                Request::change(path, json!({ "sha": commit.as_str(), "force": false }), what)
            }
            DestinationKind::Made { .. } => {
                let body = json!({ "ref": format!("refs/heads/{}", branch.name), "sha": commit.as_str() });
                Request::create(route::of(&branch.repository, "/git/refs"), body, what)
            }
        };
        self.ask(&branch.repository, purpose(request), request_for_ref).await.map(drop)
    }

    async fn write(
        &self,
        request: &PushRequest,
        rest: &str,
        body: Value,
    ) -> Result<(Value, String), ApiError> {
        let repository = &request.branch().repository;
        let what = format!("{} of {repository}", rest.trim_start_matches("/git/"));
        let path = route::of(repository, rest);
        Ok((self.ask(repository, purpose(request), Request::create(path, body, &what)).await?, what))
    }
}

/// The token that a push needs: workflow files have a permission of their own.
fn purpose(request: &PushRequest) -> Use {
    let workflow = |file: &FileState| file.path.to_ascii_lowercase().starts_with(".github/workflows/");
    if request.changeset().files.iter().any(workflow) { Use::PushWorkflows } else { Use::Push }
}

/// What came of a push before its last request.
enum Prepared {
    Commit(CommitId),
    Decided(PushOutcome),
}

/// What the objects of a push came to.
enum Written {
    Commit(CommitId),
    OtherTree(TreeId),
}

/// What GitHub forbids is an outcome: the verified result stands, and asking again is no use.
fn refusal_or_error(error: ApiError) -> Result<PushOutcome, ApiError> {
    match error {
        ApiError::Forbidden { .. }
        | ApiError::Rejected { .. }
        | ApiError::NotFound { .. }
        | ApiError::Unauthorized { .. } => {
            Ok(PushOutcome::Refused(PushRefusal::Forbidden { why: error.to_string() }))
        }
        ApiError::RateLimited { .. } | ApiError::Unavailable { .. } | ApiError::Unreadable { .. } => {
            Err(error)
        }
    }
}
