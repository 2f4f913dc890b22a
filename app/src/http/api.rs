//! What continuous integration reads: the verdict on a commit, and a run, as JSON.
//!
//! Nothing here changes anything. Whoever may not read a run is told the same as where there is none.

mod shapes;

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jobs::id::CommitId;
use jobs::store::{RunSummary, StoreError, runs};
use secrecy::ExposeSecret as _;
use serde_json::json;
use subtle::ConstantTimeEq as _;

use super::is_open;
use crate::service::Service;

/// The routes below `/api/v1`, in OpenAPI's words.
const DESCRIPTION: &str = include_str!("api/openapi.json");
/// Of so many runs on a commit the newest that may be read is told.
const MOST_RUNS: u32 = 20;

/// The routes below `/api/v1`.
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/openapi.json", get(description))
        .route("/repos/{owner}/{repo}/commits/{sha}/verdict", get(verdict))
        .route("/runs/{id}", get(run))
        .fallback(|| async { Fault::NoSuchPath })
        .method_not_allowed_fallback(|| async { Fault::ReadOnly })
        .with_state(service)
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("there is no such path; /api/v1/openapi.json names them")]
    NoSuchPath,
    #[error("nothing can be changed here; use GET")]
    ReadOnly,
    #[error("{0}")]
    Malformed(String),
    #[error("the token is not this service's read token")]
    WrongToken,
    #[error("there is no run on this commit, or it may not be read without the service's read token")]
    NoRunOnCommit,
    #[error("there is no such run, or it may not be read without the service's read token")]
    NoRun,
    #[error("this cannot be looked up now; try again later")]
    Unavailable(#[from] StoreError),
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let status = match &self {
            Fault::NoSuchPath | Fault::NoRunOnCommit | Fault::NoRun => StatusCode::NOT_FOUND,
            Fault::ReadOnly => StatusCode::METHOD_NOT_ALLOWED,
            Fault::Malformed(_) => StatusCode::BAD_REQUEST,
            Fault::WrongToken => StatusCode::UNAUTHORIZED,
            Fault::Unavailable(error) => {
                tracing::error!(error = error as &(dyn std::error::Error + 'static), "a read failed");
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        let mut response = (status, Json(json!({ "message": self.to_string() }))).into_response();
        let extra = match self {
            Fault::WrongToken => Some((header::WWW_AUTHENTICATE, "Bearer")),
            Fault::Unavailable(_) => Some((header::RETRY_AFTER, "30")),
            Fault::ReadOnly => Some((header::ALLOW, "GET,HEAD")),
            Fault::NoSuchPath | Fault::Malformed(_) | Fault::NoRunOnCommit | Fault::NoRun => None,
        };
        if let Some((name, value)) = extra {
            response.headers_mut().insert(name, header::HeaderValue::from_static(value));
        }
        response
    }
}

/// Who reads.
enum Reader {
    /// Anybody: what the operator shows to all.
    Anybody,
    /// Whoever holds the service's read token.
    Trusted,
}

impl Reader {
    fn of(service: &Service, headers: &HeaderMap) -> Result<Self, Fault> {
        let Some(given) = headers.get(header::AUTHORIZATION) else { return Ok(Reader::Anybody) };
        let given = given.to_str().ok().and_then(|value| value.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        match (given, service.read_token()) {
            (Some((_, given)), Some(token))
                if given.trim().as_bytes().ct_eq(token.expose_secret().as_bytes()).into() =>
            {
                Ok(Reader::Trusted)
            }
            _ => Err(Fault::WrongToken),
        }
    }

    fn may_read(&self, service: &Service, run: &RunSummary) -> bool {
        match self {
            Reader::Trusted => true,
            Reader::Anybody => is_open(service, run),
        }
    }
}

async fn description() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DESCRIPTION).into_response()
}

/// The newest run on a commit, whether it was asked to repair it or has made it by its push.
async fn verdict(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    path: Result<Path<(String, String, String)>, PathRejection>,
) -> Result<Response, Fault> {
    let reader = Reader::of(&service, &headers)?;
    let Path((owner, name, sha)) = path.map_err(|fault| Fault::Malformed(fault.body_text()))?;
    let commit: CommitId =
        sha.parse().map_err(|error: jobs::id::NotAnId| Fault::Malformed(error.to_string()))?;
    let found = runs::of_commit(&service.db, &owner, &name, &commit, MOST_RUNS).await?;
    let newest = found.iter().find(|run| reader.may_read(&service, run)).ok_or(Fault::NoRunOnCommit)?;
    let view = runs::view(&service.db, &newest.id).await?.ok_or(Fault::NoRunOnCommit)?;
    Ok(fresh(shapes::Verdict::of(&service, &view, &commit)))
}

async fn run(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, Fault> {
    let reader = Reader::of(&service, &headers)?;
    let Path(id) = path.map_err(|fault| Fault::Malformed(fault.body_text()))?;
    let id = id.parse().map_err(|error: jobs::id::NotAnId| Fault::Malformed(error.to_string()))?;
    let view = runs::view(&service.db, &id).await?.ok_or(Fault::NoRun)?;
    if !reader.may_read(&service, &view.run) {
        return Err(Fault::NoRun);
    }
    Ok(fresh(shapes::Run::of(&service, &view)))
}

/// A state that may be another in the next second.
fn fresh(body: impl serde::Serialize) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}
