//! The service's doors: the webhook endpoint, pages that people read, and what CI reads.

mod api;
mod run_page;
mod session;
pub mod setup;
mod verifier;

use std::sync::Arc;

use anyhow::Context as _;
use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use jobs::forge::ForgeKind;
use jobs::store::{RunSummary, RunView, runs};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::trace::TraceLayer;
use webhooks::receive::Door;

use crate::commands::state_words;
use crate::service::Service;
use crate::show::utc;

/// Pages load nothing but their own style, run nothing and are framed by nobody.
const CONTENT_POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Everything that is served over HTTP.
pub fn router(service: Arc<Service>, door: Door) -> Router {
    let setup = service.setup.clone().map(setup::router).unwrap_or_default();
    let pages = Router::new()
        .route("/", get(runs_page))
        .route("/style.css", get(style))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/login", get(session::login))
        .route("/runs/{run}", get(run_page::show))
        .route("/runs/{run}/bundle", get(run_page::bundle))
        .route("/runs/{run}/bundle/{file}", get(run_page::bundle_file))
        .route("/runs/{run}/apply", post(run_page::apply))
        .route("/runs/{run}/reject", post(run_page::reject))
        .fallback(|| async { Fault::NotFound })
        .with_state(Arc::clone(&service))
        .nest("/api/v1", api::router(service));
    let header = |name: HeaderName, value: &'static str| {
        SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
    };
    pages
        .layer(header(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY))
        .layer(header(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(header(header::REFERRER_POLICY, "no-referrer"))
        // After the layers above, since these pages have policies of their own.
        .route("/verify", get(verifier::page))
        .merge(setup)
        .merge(webhooks::receive::router(door))
        .layer(CatchPanicLayer::new())
        .layer(TraceLayer::new_for_http())
}

/// Serves until it is cancelled; requests under way are answered.
pub async fn serve(
    listener: tokio::net::TcpListener,
    router: Router,
    cancel: CancellationToken,
) -> anyhow::Result<()> {
    let stopped = async move { cancel.cancelled().await };
    axum::serve(listener, router).with_graceful_shutdown(stopped).await.context("the server failed")
}

/// Why a page cannot be shown, or a deed was not done.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("there is no such page")]
    NotFound,
    #[error(
        "sign in first: on the local forge by the link that the demo prints; on GitHub use the check run's button"
    )]
    NotSignedIn,
    #[error("this came from another site; open the run's page and press the button there")]
    OtherSite,
    #[error("open the set-up page by the link that the service printed when it started")]
    NoSetupKey,
    #[error(
        "GitHub sent back an answer that does not belong to a review of this page; begin again at /setup"
    )]
    UnknownState,
    #[error("{0}")]
    Refused(String),
    #[error("this cannot be looked up now; try again later")]
    Unavailable(#[source] anyhow::Error),
}

#[derive(Template)]
#[template(path = "pages/message.html")]
struct MessagePage {
    message: String,
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let status = match &self {
            Fault::NotFound => StatusCode::NOT_FOUND,
            Fault::NotSignedIn | Fault::NoSetupKey => StatusCode::UNAUTHORIZED,
            Fault::OtherSite | Fault::UnknownState => StatusCode::FORBIDDEN,
            Fault::Refused(_) => StatusCode::CONFLICT,
            Fault::Unavailable(error) => {
                tracing::error!(error = format!("{error:#}"), "a page could not be made");
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        let page = MessagePage { message: self.to_string() }.render().unwrap_or_else(|_| self.to_string());
        (status, Html(page)).into_response()
    }
}

impl From<jobs::store::StoreError> for Fault {
    fn from(error: jobs::store::StoreError) -> Self {
        Fault::Unavailable(error.into())
    }
}

fn page(template: &impl Template) -> Result<Response, Fault> {
    let text = template.render().map_err(|error| Fault::Unavailable(error.into()))?;
    Ok(Html(text).into_response())
}

/// The run that a path names, if its page may be read by all who reach this service.
async fn view_of(service: &Service, run: &str) -> Result<RunView, Fault> {
    let id = run.parse().map_err(|_| Fault::NotFound)?;
    let view = runs::view(&service.db, &id).await?.ok_or(Fault::NotFound)?;
    if is_open(service, &view.run) { Ok(view) } else { Err(Fault::NotFound) }
}

/// Pages about GitHub's repositories, which may be private, are shown only where the operator says so.
fn is_open(service: &Service, run: &RunSummary) -> bool {
    match run.job.repository.forge {
        ForgeKind::Local => true,
        ForgeKind::Github => service.config.server.open_pages,
    }
}

struct RunRow {
    id: String,
    repository: String,
    number: String,
    state: String,
    actor: String,
    at: String,
}

#[derive(Template)]
#[template(path = "pages/runs.html")]
struct RunsPage {
    runs: Vec<RunRow>,
}

async fn runs_page(State(service): State<Arc<Service>>) -> Result<Response, Fault> {
    let found = runs::list(&service.db, 100).await?;
    let row = |run: &RunSummary| RunRow {
        id: run.id.to_string(),
        repository: run.job.repository.to_string(),
        number: run.job.subject.number().map_or(String::new(), |number| format!("#{number}")),
        state: state_words(&run.state),
        actor: run.job.request.actor.login.clone(),
        at: utc(run.created_at),
    };
    page(&RunsPage { runs: found.iter().filter(|run| is_open(&service, run)).map(row).collect() })
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../../../templates/pages/style.css"))
        .into_response()
}

/// The run id of a path, for handlers that act.
type RunPath = Path<String>;
