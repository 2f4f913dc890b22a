//! The page that sets a GitHub App up, while none is configured: GitHub's manifest flow.
//!
//! Whoever opens it must bring the key that the service printed on its terminal. Three steps: what is
//! wanted (`/setup`), what GitHub will be asked for (`/setup/review`), and what GitHub sent back
//! (`/setup/done`), which is taken only with the state of a review that this service has made.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use askama::Template;
use axum::Router;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;
use url::Url;
use webhooks::github::manifest::{self, EVENTS, Wish, Workflows};

use super::Fault;
use crate::github_app;

const COOKIE: &str = "whipstitch_setup";
/// Reviews whose way to GitHub may be under way at once.
const MOST_PENDING: usize = 16;

/// The set-up of one service.
#[derive(Debug)]
pub struct Setup {
    /// Opens the page; printed once.
    key: String,
    data_folder: PathBuf,
    public_url: Url,
    /// What was reviewed, by the state that GitHub brings back.
    pending: Mutex<HashMap<String, Wish>>,
    /// Cancelled when the app is kept.
    kept: CancellationToken,
}

impl Setup {
    /// A set-up that keeps the app in `data_folder`.
    pub fn new(data_folder: PathBuf, public_url: Url) -> anyhow::Result<Self> {
        let (pending, kept) = (Mutex::default(), CancellationToken::new());
        Ok(Self { key: random()?, data_folder, public_url, pending, kept })
    }

    /// The address that opens the page.
    pub fn link(&self) -> String {
        format!("{}/setup?key={}", self.public_url.as_str().trim_end_matches('/'), self.key)
    }

    /// Ends when the app is kept.
    pub async fn kept(&self) {
        self.kept.cancelled().await;
    }

    fn is_key(&self, given: &str) -> bool {
        self.key.as_bytes().ct_eq(given.as_bytes()).into()
    }

    fn remember(&self, wish: Wish) -> anyhow::Result<String> {
        let state = random()?;
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= MOST_PENDING {
            pending.clear();
        }
        pending.insert(state.clone(), wish);
        Ok(state)
    }

    /// The review of this state, which is good for one use.
    fn take(&self, state: &str) -> Option<Wish> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(state)
    }
}

/// The pages of the set-up.
pub fn router(setup: Arc<Setup>) -> Router {
    Router::new()
        .route("/setup", get(ask))
        .route("/setup/review", post(review))
        .route("/setup/done", get(done))
        .with_state(setup)
}

#[derive(Template)]
#[template(path = "pages/setup.html")]
struct AskPage<'a> {
    web: &'a str,
    organization: &'a str,
    public_url: &'a str,
    workflows: bool,
    fault: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "pages/setup_review.html")]
struct ReviewPage<'a> {
    page: String,
    host: &'a str,
    owner: Option<&'a str>,
    webhook: String,
    is_local: bool,
    permissions: Vec<Permission>,
    events: &'static [&'static str],
    manifest: String,
}

struct Permission {
    name: &'static str,
    level: &'static str,
    why: &'static str,
}

#[derive(Template)]
#[template(path = "pages/setup_done.html")]
struct DonePage<'a> {
    slug: &'a str,
    id: i64,
    install: String,
    folder: String,
}

#[derive(Deserialize)]
struct Opened {
    key: Option<String>,
}

async fn ask(
    State(setup): State<Arc<Setup>>,
    Query(opened): Query<Opened>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    if let Some(key) = opened.key {
        if !setup.is_key(&key) {
            return Err(Fault::NoSetupKey);
        }
        // The key leaves the address, so that it is in no history and no referrer.
        let cookie = format!("{COOKIE}={key}; HttpOnly; SameSite=Lax; Path=/setup; Max-Age=3600");
        let to = [(header::SET_COOKIE, cookie), (header::LOCATION, "/setup".to_owned())];
        return Ok((StatusCode::SEE_OTHER, to).into_response());
    }
    check_key(&setup, &headers)?;
    let public_url = setup.public_url.as_str();
    show(
        &AskPage { web: "https://github.com", organization: "", public_url, workflows: false, fault: None },
        "'self'",
    )
}

#[derive(Deserialize)]
struct Wanted {
    web: String,
    #[serde(default)]
    organization: String,
    public_url: String,
    workflows: Option<String>,
}

async fn review(
    State(setup): State<Arc<Setup>>,
    headers: HeaderMap,
    Form(wanted): Form<Wanted>,
) -> Result<Response, Fault> {
    check_key(&setup, &headers)?;
    let wish = match wish(&wanted) {
        Ok(wish) => wish,
        Err(fault) => {
            let page = AskPage {
                web: &wanted.web,
                organization: &wanted.organization,
                public_url: &wanted.public_url,
                workflows: wanted.workflows.is_some(),
                fault: Some(&fault),
            };
            let mut response = show(&page, "'self'")?;
            *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
            return Ok(response);
        }
    };
    let manifest = wish.manifest(&back(&headers, &setup));
    let state = setup.remember(wish.clone()).map_err(Fault::Unavailable)?;
    let page = wish.page(&state);
    let review = ReviewPage {
        page: page.to_string(),
        host: wish.web.host_str().unwrap_or_default(),
        owner: wish.organization.as_deref(),
        webhook: manifest["hook_attributes"]["url"].as_str().unwrap_or_default().to_owned(),
        is_local: is_loopback(&wish.public_url),
        permissions: wish.permissions().into_iter().map(permission).collect(),
        events: &EVENTS,
        manifest: manifest.to_string(),
    };
    show(&review, &page.origin().ascii_serialization())
}

#[derive(Deserialize)]
struct SentBack {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
}

async fn done(
    State(setup): State<Arc<Setup>>,
    headers: HeaderMap,
    Query(sent): Query<SentBack>,
) -> Result<Response, Fault> {
    check_key(&setup, &headers)?;
    let wish = setup.take(&sent.state).ok_or(Fault::UnknownState)?;
    let api = wish.api();
    let made = manifest::convert(&api, &sent.code).await.map_err(|error| Fault::Refused(format!(
        "the app could not be taken over: {error}. If GitHub lists it, delete it there, and begin again at /setup"
    )))?;
    github_app::keep(&setup.data_folder, &made, &api, &wish.public_url).map_err(Fault::Unavailable)?;
    tracing::info!(app.id = made.id, app.slug = made.slug, "the GitHub App is set up");
    let page = show(
        &DonePage {
            slug: &made.slug,
            id: made.id,
            install: format!("{}/installations/new", made.page.as_str().trim_end_matches('/')),
            folder: github_app::folder(&setup.data_folder).display().to_string(),
        },
        "'none'",
    );
    setup.kept.cancel();
    page
}

fn check_key(setup: &Setup, headers: &HeaderMap) -> Result<(), Fault> {
    match super::session::cookie(headers, COOKIE) {
        Some(key) if setup.is_key(key) => Ok(()),
        Some(_) | None => Err(Fault::NoSetupKey),
    }
}

/// What the form says, or what is wrong with it.
fn wish(wanted: &Wanted) -> Result<Wish, String> {
    let web = address(&wanted.web, "the address of GitHub")?;
    let public_url = address(&wanted.public_url, "the address of this service")?;
    let organization = wanted.organization.trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if organization.len() > 100 || !organization.bytes().all(plain) {
        return Err("an organisation's name has letters, digits and hyphens alone".to_owned());
    }
    Ok(Wish {
        web,
        organization: Some(organization.to_owned()).filter(|name| !name.is_empty()),
        public_url,
        workflows: if wanted.workflows.is_some() { Workflows::Allowed } else { Workflows::Never },
    })
}

/// An address whose traffic others cannot read: https, or this very machine.
fn address(text: &str, what: &str) -> Result<Url, String> {
    let url: Url = text.trim().parse().map_err(|error| format!("{what} is no URL: {error}"))?;
    match url.scheme() {
        "https" if url.host_str().is_some() => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        _ => Err(format!("{what} must begin with https://, since secrets go over it")),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Where GitHub sends the browser back to: the address that the browser knows this page by.
fn back(headers: &HeaderMap, setup: &Setup) -> Url {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let base = origin.and_then(|origin| origin.parse::<Url>().ok()).filter(|url| url.has_host());
    let mut back = base.unwrap_or_else(|| setup.public_url.clone());
    back.set_query(None);
    if let Ok(mut path) = back.path_segments_mut() {
        path.pop_if_empty().extend(["setup", "done"]);
    }
    back
}

fn permission((name, level): (&'static str, &'static str)) -> Permission {
    let why = match name {
        "checks" => "show what a run does and found",
        "contents" => "read code; push a patch that a person authorized, and nothing else",
        "issues" => "answer comments on issues",
        "metadata" => "look up who has which role",
        "pull_requests" => "answer comments on pull requests; open one for an issue's patch",
        "workflows" => "push an authorized patch that touches a workflow",
        _ => "",
    };
    Permission { name, level, why }
}

/// A page that nothing keeps, whose form goes to `target` alone.
fn show(template: &impl Template, target: &str) -> Result<Response, Fault> {
    let text = template.render().map_err(|error| Fault::Unavailable(error.into()))?;
    let policy = format!(
        "default-src 'none'; style-src 'self'; form-action {target}; frame-ancestors 'none'; base-uri 'none'"
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "strict-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Html(text)).into_response())
}

/// 32 random bytes as hex.
fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gives no random bytes: {error}"))?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests;
