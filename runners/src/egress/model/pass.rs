//! One call through the model route: checked, built anew, sent, and its answer passed on as it comes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use jobs::digest::Digest;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use url::Url;

use super::Model;
use super::tokens::Tokens;
use crate::egress::client::told;
use crate::egress::dial::unreachable;
use crate::egress::ledger::{Entry, Ledger, hold};
use crate::egress::request::Refusal;
use crate::egress::routes::{Body, refusal};

/// How long a call's body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(60);
const MAX_QUERY: usize = 1024;
/// Request headers that say what a body is and what is understood.
const PASSED: [HeaderName; 2] = [header::ACCEPT, header::CONTENT_TYPE];
/// Answer headers that a client needs to read an answer, to wait and to report trouble.
const ANSWERED: [&str; 7] = [
    "content-type",
    "content-length",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "request-id",
    "x-request-id",
];

impl Model {
    pub fn name(&self) -> &str {
        &self.route.name
    }

    /// Answers a request for `path` below the route.
    pub async fn answer(
        &self,
        request: Request<Incoming>,
        path: &str,
        ledger: &Arc<Ledger>,
    ) -> Response<Body> {
        let upstream = &self.route.upstream;
        let host = upstream.host_str().unwrap_or_default();
        let mut entry = ledger.entry(host, upstream.port_or_known_default().unwrap_or(0));
        entry.path(path);
        match self.call(request, path, &mut entry).await {
            Ok(answer) => self.pass_on(answer, entry),
            Err(refused) => refusal(entry, refused),
        }
    }

    async fn call(
        &self,
        request: Request<Incoming>,
        path: &str,
        entry: &mut Entry,
    ) -> Result<reqwest::Response, Refusal> {
        let url = self.admit(&request, path)?;
        let (head, body) = request.into_parts();
        let most = usize::try_from(self.bounds.call_bytes).unwrap_or(usize::MAX);
        let body = match timeout(BODY_TIME, Limited::new(body, most).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => {
                return Err(too_large(format!("the body broke off or is larger than {most} bytes")));
            }
            Err(_) => {
                return Err(Refusal {
                    status: 408,
                    phrase: "Egress-Slow",
                    why: "no body in time".to_owned(),
                });
            }
        };
        self.spend(body.len() as u64)?;
        entry.line.bytes_up = body.len() as u64;
        let headers = self.headers(&head.headers)?;
        let sent = self.client.request(head.method, url).headers(headers).body(body).send().await;
        let answer = sent.map_err(|error| unreachable(told(error)))?;
        if answer.status().is_redirection() {
            return Err(unreachable("the provider redirects, and that is not followed".to_owned()));
        }
        Ok(answer)
    }

    /// Whether the call is a listed one within the budget, and where it goes.
    fn admit(&self, request: &Request<Incoming>, path: &str) -> Result<Url, Refusal> {
        let is_listed =
            self.route.calls.iter().any(|call| call.method == *request.method() && call.path == path);
        if !is_listed {
            return Err(Refusal {
                status: 403,
                phrase: "Egress-Call-Not-Allowed",
                why: format!("{} is no call that the route lists", request.method()),
            });
        }
        let query = request.uri().query();
        if query.is_some_and(|query| query.len() > MAX_QUERY) {
            return Err(too_large("the query is too long".to_owned()));
        }
        let mut url = self.route.upstream.clone();
        let whole = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&whole);
        url.set_query(query);
        Ok(url)
    }

    /// Counts a call and its body against the budget before anything is sent.
    fn spend(&self, up: u64) -> Result<(), Refusal> {
        let (mut used, bounds) = (hold(&self.used), &self.bounds);
        let spent = if used.tokens >= bounds.tokens {
            "tokens"
        } else if used.calls >= bounds.calls {
            "calls"
        } else if used.bytes_down >= bounds.bytes_down || used.bytes_up.saturating_add(up) > bounds.bytes_up {
            "bytes"
        } else {
            used.calls += 1;
            used.bytes_up += up;
            return Ok(());
        };
        let why = format!("the agent's budget of {spent} is spent");
        Err(Refusal { status: 403, phrase: "Egress-Budget-Spent", why })
    }

    fn headers(&self, asked: &HeaderMap) -> Result<HeaderMap, Refusal> {
        let mut headers = HeaderMap::new();
        let listed = self.route.headers.iter().filter_map(|name| HeaderName::try_from(name).ok());
        for name in PASSED.into_iter().chain(listed) {
            for value in asked.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        // The key comes last and alone, whatever a client sent under its name.
        if let Some((name, value)) = self.route.key_header().map_err(unreachable)? {
            headers.insert(name, value);
        }
        Ok(headers)
    }

    fn pass_on(&self, answer: reqwest::Response, entry: Entry) -> Response<Body> {
        let status = answer.status();
        let mut headers = HeaderMap::new();
        for name in ANSWERED {
            if let Some(value) = answer.headers().get(name) {
                headers.insert(HeaderName::from_static(name), value.clone());
            }
        }
        let passing = Passing {
            length: answer.content_length(),
            used: Arc::clone(&self.used),
            most_down: self.bounds.bytes_down,
            status,
            entry,
            answer,
            digest: Sha256::new(),
            tokens: Tokens::default(),
            counted: 0,
        };
        let chunks = stream::try_unfold(passing, async |mut passing| {
            Ok::<_, std::io::Error>(passing.next().await?.map(|chunk| (Frame::data(chunk), passing)))
        });
        let mut response = Response::new(StreamBody::new(chunks).boxed_unsync());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// An answer on its way; what it took is counted as it comes, and what it does not tell at its end.
struct Passing {
    used: Arc<std::sync::Mutex<super::ModelUse>>,
    most_down: u64,
    status: StatusCode,
    /// The bytes that were promised.
    length: Option<u64>,
    entry: Entry,
    answer: reqwest::Response,
    digest: Sha256,
    tokens: Tokens,
    /// The tokens of this call that are counted already.
    counted: u64,
}

impl Passing {
    async fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        let chunk = match self.answer.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => {
                self.whole();
                return Ok(None);
            }
            Err(error) => return Err(self.cut(&format!("the provider broke off: {}", told(error)))),
        };
        self.digest.update(&chunk);
        self.tokens.read(&chunk);
        let count = chunk.len() as u64;
        self.entry.line.bytes_down += count;
        // Who has as many bytes as were promised does not ask for more.
        if self.length == Some(self.entry.line.bytes_down) {
            self.whole();
        }
        let spent = {
            let mut used = hold(&self.used);
            used.bytes_down += count;
            let told = self.tokens.told().unwrap_or(0).max(self.counted);
            used.tokens = used.tokens.saturating_add(told - self.counted);
            self.counted = told;
            used.bytes_down > self.most_down
        };
        if spent { Err(self.cut("the agent's budget of bytes is spent; cut")) } else { Ok(Some(chunk)) }
    }

    fn whole(&mut self) {
        self.entry.line.digest = Some(Digest::from_bytes(self.digest.clone().finalize().into()));
    }

    fn cut(&mut self, why: &str) -> std::io::Error {
        self.entry.refused(why);
        std::io::Error::other(why.to_owned())
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if self.tokens.told().is_none() && self.status.is_success() {
            let bytes = self.entry.line.bytes_up + self.entry.line.bytes_down;
            let mut used = hold(&self.used);
            used.tokens = used.tokens.saturating_add(bytes / 4);
            used.estimated_tokens += bytes / 4;
        }
    }
}

fn too_large(why: String) -> Refusal {
    Refusal { status: 413, phrase: "Egress-Too-Large", why }
}
