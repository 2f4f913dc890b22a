//! Registry routes: the broker asks a package registry on a client's behalf, by GET and HEAD alone.
//!
//! A client is told that its registry lies at `http://127.0.0.1:3128/registry/HOST/`. The broker makes the
//! TLS connection to that host, so nothing can be sent to it but a path, every path stands in the ledger
//! with the digest of what came, and no certificate is needed inside. Where a listing names files of a host
//! that has a route, the addresses are changed to that route. Redirects are followed to hosts with a route
//! and to no other.

mod passing;
mod rewrite;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use url::Url;

use super::cache::{Cache, Record};
use super::client;
use super::dial::unreachable;
use super::ledger::{Entry, Ledger};
use super::request::{HostPort, Refusal};
use super::routes::{Body, refusal, whole};
use super::tunnel::Budgets;
use super::{EgressError, EgressPolicy};
use crate::sandbox::EGRESS_PROXY;
use passing::Passing;
use rewrite::Rewrites;

/// How long a registry may be silent.
const SILENCE: Duration = Duration::from_secs(60);
const MAX_TARGET: usize = 2048;
const MAX_REDIRECTS: usize = 5;
/// A listing is changed whole, so it is held in memory.
const MAX_LISTING: u64 = 64 << 20;

/// A registry that the broker asks for clients that are told of the route.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RegistryRoute {
    host: HostPort,
    scheme: &'static str,
}

impl RegistryRoute {
    /// The registry at a host, reached by TLS.
    pub fn of(host: HostPort) -> Self {
        Self { host, scheme: "https" }
    }

    /// A registry of a test, on loopback.
    #[cfg(test)]
    pub fn plain(host: HostPort) -> Self {
        Self { host, scheme: "http" }
    }

    pub fn host(&self) -> &HostPort {
        &self.host
    }

    /// How the path of the route calls it.
    fn name(&self) -> String {
        if self.host.port() == 443 { self.host.host().to_owned() } else { self.host.to_string() }
    }

    fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.name())
    }

    /// Where a client within a container finds what lies at `path` of the registry.
    pub fn inside(&self, path: &str) -> String {
        format!("{EGRESS_PROXY}/registry/{}{path}", self.name())
    }
}

/// The registry routes of one window.
#[derive(Debug)]
pub struct Registries {
    routes: BTreeMap<String, RegistryRoute>,
    rewrites: Rewrites,
    client: reqwest::Client,
    cache: Option<Cache>,
    budgets: Arc<Budgets>,
}

/// A request that a registry has admitted.
struct Asked {
    method: Method,
    url: Url,
    accept: String,
}

impl Registries {
    pub async fn open(policy: &EgressPolicy, budgets: Arc<Budgets>) -> Result<Self, EgressError> {
        let client = client::for_registries(&policy.trusted_networks, policy.upstream.as_ref(), SILENCE)
            .map_err(|source| EgressError::Client { source })?;
        let cache = match policy.cache.clone() {
            Some(folder) => {
                let opened = tokio::task::spawn_blocking({
                    let folder = folder.clone();
                    move || Cache::open(&folder)
                });
                let opened = opened.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
                Some(opened.map_err(|source| EgressError::Cache { folder, source })?)
            }
            None => None,
        };
        let routes: BTreeMap<String, RegistryRoute> =
            policy.registries.iter().map(|route| (route.name(), route.clone())).collect();
        let rewrites =
            Rewrites::of(routes.values().map(|route| (format!("{}/", route.origin()), route.inside("/"))));
        Ok(Self { routes, rewrites, client, cache, budgets })
    }

    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Answers a request for `path` of the registry that is called `name`.
    pub async fn answer(
        &self,
        request: &Request<Incoming>,
        name: &str,
        path: &str,
        ledger: &Arc<Ledger>,
    ) -> Response<Body> {
        let Some(route) = self.routes.get(name) else {
            let asked: Option<HostPort> = name.parse().or_else(|_| format!("{name}:443").parse()).ok();
            let (host, port) = asked.as_ref().map_or(("", 0), |asked| (asked.host(), asked.port()));
            let mut entry = ledger.entry(host, port);
            entry.path(path);
            return refusal(entry, Refusal::not_allowed("no registry that a client's configuration names"));
        };
        let mut entry = ledger.entry(route.host.host(), route.host.port());
        entry.path(path);
        match self.admit(request, route, path, &mut entry) {
            Ok(asked) => match self.fetch(&asked, entry).await {
                Ok(answer) => answer,
                Err((entry, refused)) => refusal(entry, refused),
            },
            Err(refused) => refusal(entry, refused),
        }
    }

    fn admit(
        &self,
        request: &Request<Incoming>,
        route: &RegistryRoute,
        path: &str,
        entry: &mut Entry,
    ) -> Result<Asked, Refusal> {
        if *request.method() != Method::GET && *request.method() != Method::HEAD {
            return Err(Refusal {
                status: 405,
                phrase: "Egress-Read-Only",
                why: format!("{} is refused: a registry is only read from", request.method()),
            });
        }
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let asked = (path.len() + query.len()) as u64;
        entry.line.bytes_up = asked;
        if asked > MAX_TARGET as u64 {
            return Err(Refusal {
                status: 414,
                phrase: "Egress-Path-Too-Long",
                why: "the path is too long".to_owned(),
            });
        }
        if !self.budgets.up.take(asked) || self.budgets.down.is_spent() {
            return Err(Refusal::budget("the window's bytes are spent"));
        }
        let url = Url::parse(&format!("{}{path}{query}", route.origin()))
            .map_err(|_| Refusal::bad("the path is none"))?;
        let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let accept = accept.filter(|accept| accept.len() <= 300).unwrap_or("*/*").to_owned();
        Ok(Asked { method: request.method().clone(), url, accept })
    }

    async fn fetch(&self, asked: &Asked, entry: Entry) -> Result<Response<Body>, (Entry, Refusal)> {
        let known = match &self.cache {
            Some(cache) if asked.method == Method::GET => cache.find(asked.url.as_str(), &asked.accept).await,
            _ => None,
        };
        let held = known.as_ref().map(|(record, _)| record);
        if held.is_none_or(|record| !record.is_immutable) {
            let answer = match self.ask(asked, held).await {
                Ok(answer) => answer,
                Err(refused) => return Err((entry, refused)),
            };
            if held.is_none() || answer.status() != StatusCode::NOT_MODIFIED {
                return self.pass(asked, answer, entry).await;
            }
        }
        match known {
            Some((record, file)) => self.give(record, file, entry).await,
            None => Err((
                entry,
                unreachable("the registry says that what was never asked for has not changed".to_owned()),
            )),
        }
    }

    /// Asks the registry, and whom it redirects to as far as they have routes.
    async fn ask(&self, asked: &Asked, held: Option<&Record>) -> Result<reqwest::Response, Refusal> {
        let mut url = asked.url.clone();
        let mut conditions = HeaderMap::new();
        let validators = held.map(|record| (&record.etag, &record.last_modified));
        if let Some((etag, modified)) = validators {
            for (name, value) in [(header::IF_NONE_MATCH, etag), (header::IF_MODIFIED_SINCE, modified)] {
                if let Some(value) = value.as_deref().and_then(|value| HeaderValue::from_str(value).ok()) {
                    conditions.insert(name, value);
                }
            }
        }
        for _ in 0..=MAX_REDIRECTS {
            let request = self.client.request(asked.method.clone(), url.clone());
            let request = request.header(header::ACCEPT, &asked.accept).headers(conditions.clone());
            let answer = request.send().await.map_err(refused_by)?;
            if !answer.status().is_redirection() || answer.status() == StatusCode::NOT_MODIFIED {
                return Ok(answer);
            }
            let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            url = to
                .and_then(|to| url.join(to).ok())
                .ok_or_else(|| unreachable("the registry redirects to nowhere".to_owned()))?;
            self.may_follow(&url)?;
        }
        Err(unreachable(format!("the registry redirects more than {MAX_REDIRECTS} times")))
    }

    fn may_follow(&self, url: &Url) -> Result<(), Refusal> {
        let origin = url.origin().ascii_serialization();
        if self.routes.values().any(|route| route.origin() == origin) {
            return Ok(());
        }
        let to = url.host_str().unwrap_or_default();
        Err(Refusal::not_allowed(format!(
            "the registry redirects to {to}, which is on no client's list; admit `{to}:443` if it is meant"
        )))
    }

    /// Passes an answer of the registry on.
    async fn pass(
        &self,
        asked: &Asked,
        answer: reqwest::Response,
        entry: Entry,
    ) -> Result<Response<Body>, (Entry, Refusal)> {
        let status = answer.status();
        let headers = answer.headers().clone();
        let is_whole = status == StatusCode::OK && asked.method == Method::GET;
        let record = is_whole.then(|| record_of(asked, &headers));
        let writing = match (&self.cache, &record) {
            (Some(cache), Some(record)) if record.can_be_held() => match cache.begin() {
                Ok(writing) => Some(writing),
                Err(error) => {
                    tracing::warn!(%error, "cannot take a registry's answer down; it is passed on all the same");
                    None
                }
            },
            _ => None,
        };
        let length = answer.content_length();
        let passing = Passing::of_registry(answer, writing, record, Arc::clone(&self.budgets), entry);
        self.respond(status, &headers, length, asked.url.path(), passing).await
    }

    /// Gives what is held, without a byte from outside.
    async fn give(
        &self,
        record: Record,
        file: tokio::fs::File,
        mut entry: Entry,
    ) -> Result<Response<Body>, (Entry, Refusal)> {
        entry.line.cached = true;
        let mut headers = HeaderMap::new();
        let told = [
            (header::CONTENT_TYPE, &record.content_type),
            (header::ETAG, &record.etag),
            (header::LAST_MODIFIED, &record.last_modified),
        ];
        for (name, value) in told {
            if let Some(value) = value.as_deref().and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(name, value);
            }
        }
        let (length, url) = (Some(record.bytes), record.url.clone());
        let cache = self.cache.clone();
        let passing = Passing::of_cache(file, record, cache, Arc::clone(&self.budgets), entry);
        self.respond(StatusCode::OK, &headers, length, &url, passing).await
    }

    async fn respond(
        &self,
        status: StatusCode,
        from: &HeaderMap,
        length: Option<u64>,
        path: &str,
        passing: Passing,
    ) -> Result<Response<Body>, (Entry, Refusal)> {
        let mut response = if status == StatusCode::OK && is_listing(from, path) && length != Some(0) {
            let listing = self.rewrites.apply(passing.collect(MAX_LISTING).await?);
            Response::new(whole(Bytes::from(listing)))
        } else {
            let mut response = Response::new(passing.stream());
            if let Some(length) = length {
                response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            }
            response
        };
        *response.status_mut() = status;
        for name in [header::CONTENT_TYPE, header::ETAG, header::LAST_MODIFIED] {
            if let Some(value) = from.get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        Ok(response)
    }
}

/// Whether an answer is a page that names files, whose addresses are changed.
fn is_listing(headers: &HeaderMap, path: &str) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_page = kind == "text/html"
        || kind == "application/json"
        || kind.ends_with("+json")
        || kind.ends_with("+html");
    // The metadata of a Python package is held against a digest by its client.
    is_page && !path.ends_with(".metadata")
}

fn record_of(asked: &Asked, headers: &HeaderMap) -> Record {
    let text =
        |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::to_owned);
    let control = text(header::CACHE_CONTROL).unwrap_or_default().to_ascii_lowercase();
    Record {
        url: asked.url.to_string(),
        accept: asked.accept.clone(),
        digest: jobs::digest::Digest::of([]),
        bytes: 0,
        content_type: text(header::CONTENT_TYPE),
        etag: text(header::ETAG),
        last_modified: text(header::LAST_MODIFIED),
        is_immutable: control.split(',').any(|word| word.trim() == "immutable"),
    }
}

impl Record {
    /// Whether it could ever be used again.
    fn can_be_held(&self) -> bool {
        self.is_immutable || self.etag.is_some() || self.last_modified.is_some()
    }
}

/// An error of the client; a name that may not be dialled says so itself.
fn refused_by(error: reqwest::Error) -> Refusal {
    let said = client::told(error);
    if said.contains("`trusted_networks`") {
        Refusal { status: 403, phrase: "Egress-Address-Not-Allowed", why: said }
    } else {
        unreachable(format!("it cannot be reached: {said}"))
    }
}

#[cfg(test)]
mod tests;
