//! The HTTP side: faults, rate-limit headers, who asks, and which operation answers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State as Shares};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::state::{Recorded, Token};
use super::{Shared, access, checks, conversation, deliveries, git_http, manifest, objects, pulls};

/// Bodies of requests are small; a blob of a patch is the largest.
const MAX_BODY: usize = 32 << 20;

/// What an operation answers.
pub(super) struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Value,
}

impl Reply {
    pub fn json(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    pub fn error(status: u16, message: &str) -> Self {
        Self::json(
            status,
            json!({ "message": message, "documentation_url": "https://docs.github.com/rest", "status": status.to_string() }),
        )
    }

    pub fn invalid(message: &str) -> Self {
        let mut reply = Self::error(422, "Invalid request.");
        reply.body["errors"] = json!([message]);
        reply
    }
}

/// A failure of git itself is this server's fault.
impl From<anyhow::Error> for Reply {
    fn from(error: anyhow::Error) -> Self {
        Reply::error(500, &format!("{error:#}"))
    }
}

/// A request that is to fail.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Only requests with this method; empty for any.
    pub method: &'static str,
    /// Only requests whose path holds this.
    pub path: String,
    /// How many of them.
    pub times: usize,
    pub failure: Failure,
}

/// How a request fails.
#[derive(Clone, Debug)]
pub enum Failure {
    /// This answer, and nothing is done.
    Answer(Answered),
    /// The connection breaks before anything is done.
    LostRequest,
    /// It is done, and the connection breaks before the answer.
    LostAnswer,
    /// It is done after this time.
    Slow(Duration),
}

/// A ready answer.
#[derive(Clone, Debug)]
pub struct Answered {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub message: String,
}

impl Answered {
    /// A server error.
    pub fn server_error(status: u16) -> Self {
        Self { status, headers: Vec::new(), message: "Server Error".into() }
    }

    /// GitHub's secondary rate limit; `retry_after` in seconds, when it names one.
    pub fn secondary_limit(retry_after: Option<u64>) -> Self {
        let headers = retry_after.map(|seconds| ("retry-after", seconds.to_string())).into_iter().collect();
        let message =
            "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
        Self { status: 403, headers, message: message.into() }
    }

    /// Too many requests.
    pub fn too_many(retry_after: u64) -> Self {
        let headers = vec![("retry-after", retry_after.to_string())];
        Self { status: 429, headers, message: "Too many requests".into() }
    }
}

pub(super) async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let router = Router::new().fallback(answer).with_state(shared);
    let listener = tokio::net::TcpListener::from_std(listener).expect("the listener does not block");
    axum::serve(listener, router).await.expect("the listener stays open");
}

/// One request, as operations see it.
pub(super) struct Call<'a> {
    pub shared: &'a Shared,
    pub method: &'a str,
    /// `owner/name`.
    pub repository: String,
    /// The parts of the path behind the repository, unescaped.
    pub rest: Vec<&'a str>,
    pub query: Vec<(String, String)>,
    pub body: &'a Value,
    pub token: &'a Token,
}

impl Call<'_> {
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// One page of `items`, with the Link header that names the next.
    pub fn page(&self, items: Vec<Value>) -> (Vec<Value>, Vec<(&'static str, String)>) {
        let number = |name: &str, otherwise: usize| {
            self.query(name).and_then(|value| value.parse().ok()).unwrap_or(otherwise)
        };
        let (size, page) = (number("per_page", 30).clamp(1, 100), number("page", 1).max(1));
        let (from, total) = ((page - 1) * size, items.len());
        let shown = items.into_iter().skip(from).take(size).collect();
        let link = format!("<http://127.0.0.1/next?page={}>; rel=\"next\"", page + 1);
        let headers = if from + size < total { vec![("link", link)] } else { Vec::new() };
        (shown, headers)
    }
}

async fn answer(Shares(shared): Shares<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, MAX_BODY).await else {
        return respond(&shared, Reply::error(413, "Payload too large"));
    };
    let target = parts.uri.path_and_query().map(|target| target.as_str()).unwrap_or("/").to_owned();
    let api = target.strip_prefix("/api/v3").map(str::to_owned);
    let failure = take_fault(&shared, parts.method.as_str(), &target);
    match &failure {
        Some(Failure::Answer(answered)) => {
            let mut reply = Reply::error(answered.status, &answered.message);
            reply.headers = answered.headers.clone();
            record(&shared, parts.method.as_str(), api.as_deref().unwrap_or(&target), &bytes, &reply, None);
            return respond(&shared, reply);
        }
        Some(Failure::LostRequest) => return broken(),
        Some(Failure::Slow(wait)) => tokio::time::sleep(*wait).await,
        Some(Failure::LostAnswer) | None => {}
    }
    let credential = credential(&parts.headers);
    let response = match api {
        None if manifest::is_page(parts.uri.path()) => manifest::page(&shared, &parts, &bytes),
        None => git_http::answer(&shared, &parts, bytes, credential.as_deref()).await,
        Some(path) => {
            let method = parts.method.as_str().to_owned();
            let worked = Arc::clone(&shared);
            tokio::task::spawn_blocking(move || rest(&worked, &method, &path, &bytes, credential.as_deref()))
                .await
                .map(|reply| respond(&shared, reply))
                .unwrap_or_else(|error| respond(&shared, Reply::error(500, &error.to_string())))
        }
    };
    if matches!(failure, Some(Failure::LostAnswer)) { broken() } else { response }
}

/// A response whose body breaks off, so that the client sees a lost connection.
fn broken() -> Response {
    let stream = futures_util::stream::iter([
        Ok(Bytes::from_static(b"{")),
        Err(std::io::Error::other("the connection is lost")),
    ]);
    Response::new(Body::from_stream(stream))
}

fn take_fault(shared: &Shared, method: &str, target: &str) -> Option<Failure> {
    let mut state = shared.state();
    let fault = state.faults.iter_mut().find(|fault| {
        fault.times > 0 && (fault.method.is_empty() || fault.method == method) && target.contains(&fault.path)
    })?;
    fault.times -= 1;
    Some(fault.failure.clone())
}

/// The token of a bearer or basic authorization.
fn credential(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("basic") {
        let decoded = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
        return decoded.split_once(':').map(|(_, password)| password.to_owned());
    }
    matches!(scheme.to_ascii_lowercase().as_str(), "bearer" | "token").then(|| rest.to_owned())
}

fn respond(shared: &Shared, reply: Reply) -> Response {
    let seconds = shared.now().div_euclid(1000);
    let spent = shared.state().limit_spent_until.filter(|until| *until > seconds);
    let mut builder = Response::builder()
        .status(StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        .header(header::CONTENT_TYPE, "application/json; charset=utf-8")
        .header(header::DATE, http_date(seconds))
        .header("x-ratelimit-limit", "5000")
        .header("x-ratelimit-remaining", if spent.is_some() { "0" } else { "4999" })
        .header("x-ratelimit-reset", spent.unwrap_or(seconds + 3_600).to_string());
    let headers = builder.headers_mut().expect("the status and headers above are valid");
    for (name, value) in reply.headers {
        headers.insert(name, value.parse().expect("replies carry plain headers"));
    }
    builder.body(Body::from(reply.body.to_string())).expect("the response is well formed")
}

fn http_date(seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn rest(shared: &Shared, method: &str, target: &str, bytes: &[u8], credential: Option<&str>) -> Reply {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut token = None;
    let reply = match serde_json::from_slice(if bytes.is_empty() { b"null" } else { bytes }) {
        Err(_) => Reply::error(400, "Problems parsing JSON"),
        Ok(body) => {
            let asked = Asked { shared, method, path, query, body: &body, credential };
            asked.answer(&mut token).unwrap_or_else(|refused| refused)
        }
    };
    record(shared, method, target, bytes, &reply, token.as_ref());
    reply
}

fn record(shared: &Shared, method: &str, path: &str, bytes: &[u8], reply: &Reply, token: Option<&Token>) {
    shared.state().requests.push(Recorded {
        method: method.to_owned(),
        path: path.to_owned(),
        body: serde_json::from_slice(bytes).unwrap_or(Value::Null),
        permissions: token.map(|token| token.permissions.clone()).unwrap_or_default(),
        status: reply.status,
    });
}

struct Asked<'a> {
    shared: &'a Shared,
    method: &'a str,
    path: &'a str,
    query: &'a str,
    body: &'a Value,
    credential: Option<&'a str>,
}

impl Asked<'_> {
    fn answer(&self, token: &mut Option<Token>) -> Result<Reply, Reply> {
        self.shared
            .contract
            .check(self.method, self.path, self.body)
            .map_err(|wrong| Reply::invalid(&wrong))?;
        let parts: Vec<String> = self.path.trim_matches('/').split('/').map(unescape).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match (self.method, parts.as_slice()) {
            ("GET", ["rate_limit"]) => Ok(Reply::json(200, json!({ "resources": {} }))),
            ("POST", ["app-manifests", code, "conversions"]) => manifest::convert(self.shared, code),
            (_, ["app", rest @ ..]) => {
                access::check_app(self.shared, self.credential)?;
                self.as_app(rest)
            }
            (_, ["repos", owner, name, rest @ ..]) => {
                let token = token.insert(access::check_token(self.shared, self.credential)?);
                self.in_repository(format!("{owner}/{name}"), rest, token)
            }
            _ => Err(Reply::error(404, "Not Found")),
        }
    }

    fn as_app(&self, rest: &[&str]) -> Result<Reply, Reply> {
        match (self.method, rest) {
            ("GET", []) => Ok(access::show_app(self.shared)),
            ("GET", ["installations"]) => Ok(access::list_installations(self.shared)),
            ("POST", ["installations", id, "access_tokens"]) => {
                let id = id.parse().map_err(|_| Reply::error(404, "Not Found"))?;
                access::mint(self.shared, id, self.body)
            }
            (_, ["hook", "deliveries", rest @ ..]) => {
                deliveries::answer(self.shared, self.method, rest, self.query)
            }
            _ => Err(Reply::error(404, "Not Found")),
        }
    }

    fn in_repository(&self, repository: String, rest: &[&str], token: &Token) -> Result<Reply, Reply> {
        let public = {
            let mut state = self.shared.state();
            let now = self.shared.now().div_euclid(1000);
            if state.limit_spent_until.is_some_and(|until| until > now)
                && std::mem::replace(&mut state.limit_answered, true)
            {
                return Err(Reply::error(403, "API rate limit exceeded for installation."));
            }
            let found = state.repositories.get(&repository).ok_or_else(|| Reply::error(404, "Not Found"))?;
            if found.archived && self.method != "GET" {
                return Err(Reply::error(403, "Repository was archived so is read-only."));
            }
            found.visibility == super::state::Visibility::Public
        };
        access::allow(token, &repository, public, access::required(self.method, rest))?;
        let call = Call {
            shared: self.shared,
            method: self.method,
            repository,
            rest: rest.to_vec(),
            query: url_pairs(self.query),
            body: self.body,
            token,
        };
        match rest.first() {
            Some(&"check-runs") => checks::answer(&call),
            Some(&"commits") => checks::list(&call),
            Some(&"git") => objects::answer(&call),
            Some(&"pulls") => pulls::answer(&call),
            _ => conversation::answer(&call),
        }
    }
}

fn url_pairs(query: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn unescape(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'%' && after.len() >= 2)
            .then(|| hex::decode(&after[..2]).ok())
            .flatten()
            .and_then(|byte| byte.first().copied());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
