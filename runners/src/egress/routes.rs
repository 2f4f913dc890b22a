//! Requests that are no tunnel: the broker answers them itself, from `/registry/HOST/…` and
//! `/model/NAME/…`.
//!
//! The connection is read by an HTTP library, and what goes out is a new request that the route builds:
//! no byte of a client's head is passed on, so no two readers can understand one differently.

use std::convert::Infallible;
use std::io::Cursor;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

use super::broker::HEAD_TIME;
use super::ledger::{Entry, Ledger};
use super::model::Model;
use super::registry::Registries;
use super::request::{MAX_HEAD, Refusal};

/// A body that a route answers with.
pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// The routes of one window.
#[derive(Debug)]
pub enum Routes {
    /// While dependencies are fetched.
    Registries(Registries),
    /// For an agent.
    Models(Vec<Model>),
}

impl Routes {
    fn is_empty(&self) -> bool {
        match self {
            Routes::Registries(registries) => registries.is_empty(),
            Routes::Models(models) => models.is_empty(),
        }
    }

    /// Whether a request's head is for a route: its target is a path.
    pub fn take(&self, head: &[u8]) -> bool {
        !self.is_empty()
            && head.split(|&byte| byte == b' ').nth(1).is_some_and(|target| target.starts_with(b"/"))
    }

    /// Serves one connection, of which `bytes` have been read.
    pub async fn serve(&self, client: UnixStream, bytes: Vec<u8>, ledger: &Arc<Ledger>) {
        let (read, write) = client.into_split();
        let stream = tokio::io::join(Cursor::new(bytes).chain(read), write);
        let answer = service_fn(async |request| Ok::<_, Infallible>(self.answer(request, ledger).await));
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(2 * MAX_HEAD)
            .max_headers(64)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(stream), answer)
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection to an egress route broke");
        }
    }

    async fn answer(&self, request: Request<Incoming>, ledger: &Arc<Ledger>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let is_path = request.uri().authority().is_none();
        let mut parts = path.splitn(4, '/').skip(1);
        let (kind, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let rest = format!("/{}", parts.next().unwrap_or_default());
        match self {
            Routes::Registries(registries) if is_path && kind == "registry" => {
                return registries.answer(&request, name, &rest, ledger).await;
            }
            Routes::Models(models) if is_path && kind == "model" => {
                if let Some(model) = models.iter().find(|model| model.name() == name) {
                    return model.answer(request, &rest, ledger).await;
                }
            }
            Routes::Registries(_) | Routes::Models(_) => {}
        }
        let mut entry = ledger.entry("", 0);
        entry.path(&path);
        refusal(
            entry,
            Refusal { status: 404, phrase: "Egress-No-Such-Route", why: "no such route".to_owned() },
        )
    }
}

/// A refusal with its reason in the phrase, for clients that show nothing else, and in the body.
pub fn refusal(mut entry: Entry, refusal: Refusal) -> Response<Body> {
    tracing::info!(host = entry.line.host, path = entry.line.path, why = refusal.why, "egress refused");
    let text = format!("{}: {}\n", refusal.phrase, refusal.why);
    entry.refused(refusal.why);
    let mut response = Response::new(whole(text));
    *response.status_mut() = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::FORBIDDEN);
    response.extensions_mut().insert(ReasonPhrase::from_static(refusal.phrase.as_bytes()));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// A body that is there whole.
pub fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}
