//! The model route: how an agent in a container asks a model without holding the key.
//!
//! A [`ModelWindow`] is a socket of its own, mounted into an agent's container and into no other. Inside,
//! the forwarder listens on loopback, and [`ModelRoute::base_url`] is what the agent is given as its
//! provider's address. The broker takes listed calls only, builds a new request from the listed headers and
//! the body, adds the key, and sends it to the one upstream that the operator configured. Redirects are not
//! followed, answers are passed on as they come, and bytes, calls and tokens are counted against a budget.
//!
//! A window lets through nothing else: no tunnel, no registry. It is no [`EgressWindow`](super::EgressWindow)
//! and gives no [`Sealed`](super::Sealed): an agent works after the seal, what it can send through here
//! goes to the model's provider alone, and Verify is given no window of any kind.
//!
//! ```no_run
//! # async fn f(limits: &jobs::job::Limits) -> Result<(), Box<dyn std::error::Error>> {
//! use runners::egress::{ModelBounds, ModelCall, ModelKey, ModelRoute, ModelWindow};
//! let route = ModelRoute {
//!     name: "provider".to_owned(),
//!     upstream: "https://models.example".parse()?,
//!     key: Some(ModelKey { header: "authorization".to_owned(), prefix: "Bearer ".to_owned(), secret: "…".to_owned().into() }),
//!     calls: vec![ModelCall::post("/v1/messages")],
//!     headers: vec!["version".to_owned()],
//! };
//! let window = ModelWindow::open("/run/x".as_ref(), vec![route.clone()], ModelBounds::of(limits), None).await?;
//! window.asked_by("the agent's command");
//! // ContainerSpec { egress: Some(window.folder().to_owned()), .. }; inside: route.base_url()
//! let (lines, used) = window.close().await;
//! # Ok(()) }
//! ```

mod pass;
mod tokens;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use http::header::{HeaderName, HeaderValue};
use jobs::step::EgressLine;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::broker::{self, Broker};
use super::ledger::{Ledger, hold};
use super::request::canonical_host;
use super::routes::Routes;
use super::{EgressError, SOCKET, UpstreamProxy, client};
use crate::sandbox::EGRESS_PROXY;

/// A model provider that an agent may ask, fixed by the operator.
#[derive(Clone, Debug)]
pub struct ModelRoute {
    /// Its name in the path: letters, digits and hyphens.
    pub name: String,
    /// Where calls go; `https`, or `http` for a model on loopback. A call's path is put after its own.
    pub upstream: Url,
    /// `None` for a provider that asks for none, such as a model on this host.
    pub key: Option<ModelKey>,
    /// What may be asked, and nothing else.
    pub calls: Vec<ModelCall>,
    /// Names of request headers that are passed on besides `accept` and `content-type`.
    pub headers: Vec<String>,
}

/// How the broker shows itself to the provider.
#[derive(Clone, Debug)]
pub struct ModelKey {
    /// `authorization`, `x-api-key`, …
    pub header: String,
    /// What stands before the secret: `Bearer `, or nothing.
    pub prefix: String,
    pub secret: SecretString,
}

/// One call that is let through: its method and its exact path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelCall {
    pub method: Method,
    /// Below the upstream's own path; begins with a slash.
    pub path: String,
}

impl ModelCall {
    /// A `POST` to a path.
    pub fn post(path: &str) -> Self {
        Self { method: Method::POST, path: path.to_owned() }
    }

    /// A `GET` of a path.
    pub fn get(path: &str) -> Self {
        Self { method: Method::GET, path: path.to_owned() }
    }
}

/// Bounds of one window, over all of its routes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelBounds {
    /// How long the window may stand open.
    pub window: Duration,
    pub calls: u64,
    /// Bytes of one call's body.
    pub call_bytes: u64,
    /// Bytes of all calls' bodies.
    pub bytes_up: u64,
    /// Bytes of all answers.
    pub bytes_down: u64,
    /// Tokens of all calls, in and out. A call that begins within the budget may end beyond it.
    pub tokens: u64,
    /// Connections at a time.
    pub connections: usize,
    /// How long an answer may be silent.
    pub silence: Duration,
}

impl ModelBounds {
    /// The job's limits, with fixed bounds for bytes and calls.
    pub fn of(limits: &jobs::job::Limits) -> Self {
        Self {
            window: Duration::from_millis(limits.max_runtime_ms),
            calls: 2000,
            call_bytes: 16 << 20,
            bytes_up: 512 << 20,
            bytes_down: 256 << 20,
            tokens: limits.max_tokens,
            connections: 16,
            silence: Duration::from_secs(300),
        }
    }
}

/// What has been used of the bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ModelUse {
    pub calls: u64,
    pub bytes_up: u64,
    pub bytes_down: u64,
    pub tokens: u64,
    /// How many of the tokens no answer told: a quarter of the bytes of such a call.
    pub estimated_tokens: u64,
}

/// A route that cannot be opened as it is configured.
#[derive(Debug, thiserror::Error)]
#[error("the model route {name:?} cannot be used: {why}")]
pub struct NotAModelRoute {
    pub name: String,
    pub why: String,
}

impl ModelRoute {
    /// The provider's address as an agent within a container is given it.
    pub fn base_url(&self) -> String {
        format!("{EGRESS_PROXY}/model/{}", self.name)
    }

    /// Says what is wrong with it before anything is opened.
    pub fn check(&self) -> Result<(), NotAModelRoute> {
        let refuse = |why: &str| Err(NotAModelRoute { name: self.name.clone(), why: why.to_owned() });
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if self.name.is_empty() || self.name.len() > 40 || !self.name.bytes().all(plain) {
            return refuse("its name has other characters than letters, digits and hyphens");
        }
        let loopback = match self.upstream.host() {
            Some(url::Host::Domain(name)) => canonical_host(name).as_deref() == Some("localhost"),
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => return refuse("its upstream has no host"),
        };
        match self.upstream.scheme() {
            "https" => {}
            "http" if loopback => {}
            _ => return refuse("its upstream is reached by https, or by http on loopback"),
        }
        let own = self.upstream.query().is_some() || self.upstream.fragment().is_some();
        if own || !self.upstream.username().is_empty() || self.upstream.password().is_some() {
            return refuse("its upstream has a user, a query or a fragment; a key has its own place");
        }
        if self.calls.is_empty() || !self.calls.iter().all(|call| is_plain_path(&call.path)) {
            return refuse("it lists no calls, or a path that is not plain, such as /v1/messages");
        }
        if self.headers.iter().any(|name| !may_pass(name)) {
            return refuse("it lists a request header that is never passed on, or is none");
        }
        self.key_header().map(drop).map_err(|why| NotAModelRoute { name: self.name.clone(), why })
    }

    /// The header that shows the key, marked as sensitive.
    fn key_header(&self) -> Result<Option<(HeaderName, HeaderValue)>, String> {
        let Some(key) = &self.key else { return Ok(None) };
        let name =
            HeaderName::try_from(&key.header).map_err(|_| "its key's header has no name".to_owned())?;
        let shown = format!("{}{}", key.prefix, key.secret.expose_secret());
        let mut value =
            HeaderValue::try_from(shown).map_err(|_| "its key holds what no header can".to_owned())?;
        value.set_sensitive(true);
        Ok(Some((name, value)))
    }
}

/// A path that every reader understands alike.
fn is_plain_path(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~:@".contains(&byte);
    path.starts_with('/')
        && path.bytes().all(plain)
        && !path.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."))
}

/// Whether a request header may be listed: never one that identifies, routes or frames.
fn may_pass(name: &str) -> bool {
    const NEVER: [&str; 14] = [
        "authorization",
        "proxy-authorization",
        "cookie",
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "accept-encoding",
        "x-api-key",
        "forwarded",
    ];
    HeaderName::try_from(name).is_ok_and(|name| !NEVER.contains(&name.as_str()))
}

/// An open model window. Dropping it closes it too.
#[derive(Debug)]
pub struct ModelWindow {
    folder: PathBuf,
    ledger: Arc<Ledger>,
    used: Arc<Mutex<ModelUse>>,
    closed: CancellationToken,
    accepting: Option<JoinHandle<()>>,
}

impl ModelWindow {
    /// Opens a window whose socket lies in `folder`, which is made and belongs to this window alone.
    /// `upstream` is the operator's own proxy, for routes that do not lead to loopback.
    pub async fn open(
        folder: &Path,
        routes: Vec<ModelRoute>,
        bounds: ModelBounds,
        upstream: Option<UpstreamProxy>,
    ) -> Result<Self, EgressError> {
        let used = Arc::new(Mutex::new(ModelUse::default()));
        let mut models = Vec::new();
        for route in routes {
            route.check()?;
            let client = client::for_model(&route.upstream, upstream.as_ref(), bounds.silence)
                .map_err(|source| EgressError::Client { source })?;
            models.push(Model { route, client, bounds, used: Arc::clone(&used) });
        }
        let listener = broker::listen(folder)
            .map_err(|source| EgressError::Open { folder: folder.to_owned(), source })?;
        let (ledger, closed) = (Arc::new(Ledger::default()), CancellationToken::new());
        let broker = Arc::new(Broker {
            tunnels: None,
            routes: Routes::Models(models),
            ledger: Arc::clone(&ledger),
            window: bounds.window,
            connections: bounds.connections,
            closed: closed.clone(),
        });
        let accepting = Some(tokio::spawn(broker.accept(listener)));
        Ok(Self { folder: folder.to_owned(), ledger, used, closed, accepting })
    }

    /// The folder to mount read-only into an agent's container.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names the command on whose behalf calls are made from now on.
    pub fn asked_by(&self, command: &str) {
        self.ledger.asked_by(command);
    }

    /// What has been asked for up to now.
    pub fn lines(&self) -> Vec<EgressLine> {
        self.ledger.lines()
    }

    /// What has been used up to now.
    pub fn used(&self) -> ModelUse {
        *hold(&self.used)
    }

    /// Closes the window for good, cuts live calls, and gives what was asked for and used.
    pub async fn close(mut self) -> (Vec<EgressLine>, ModelUse) {
        self.closed.cancel();
        if let Some(accepting) = self.accepting.take()
            && let Err(error) = accepting.await
        {
            tracing::error!(%error, "the model's broker ended by a panic; its window is closed all the same");
        }
        (self.ledger.lines(), *hold(&self.used))
    }
}

impl Drop for ModelWindow {
    fn drop(&mut self) {
        self.closed.cancel();
        if let Err(error) = std::fs::remove_file(self.folder.join(SOCKET))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot remove the closed model socket; nothing listens on it");
        }
    }
}

/// One route of an open window.
#[derive(Debug)]
pub struct Model {
    route: ModelRoute,
    client: reqwest::Client,
    bounds: ModelBounds,
    used: Arc<Mutex<ModelUse>>,
}

#[cfg(test)]
mod tests;
