//! Requests to GitHub's REST API: one at a time, bounded in time and size, never repeated blindly.
//!
//! Waiting and trying again is the outbox's business, because only it knows what was already done.

use std::time::Duration;

use http::header::{AUTHORIZATION, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use octocrab::Octocrab;
use octocrab::service::middleware::retry::RetryConfig;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

use super::error::ApiError;

/// One whole request may take this long.
const TIMEOUT: Duration = Duration::from_secs(30);
/// More of an answer is never read. A file of 64 MiB arrives as base64 in JSON.
const MAX_ANSWER: usize = 96 << 20;
/// GitHub's pages: wait at least a minute when a secondary limit names no time.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(60);
/// A wait longer than this is not believed.
pub const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// An answer with a 2xx status.
#[derive(Debug)]
pub struct Answer {
    pub headers: HeaderMap,
    /// GitHub's time in milliseconds since 1970, from the Date header.
    pub date: Option<i64>,
    /// This was the last request of the primary limit, which is renewed after this time.
    pub spent_for: Option<Duration>,
    pub body: Value,
}

/// One request, before its credentials.
#[derive(Clone, Debug)]
pub struct Request {
    method: Method,
    /// Path and query below the base URL, with a leading slash.
    path: String,
    body: Option<Value>,
    /// What is asked, as errors name it: `check run of owner/name`.
    what: String,
}

impl Request {
    /// A read.
    pub fn read(path: String, what: impl Into<String>) -> Self {
        Self { method: Method::GET, path, body: None, what: what.into() }
    }

    /// Something new.
    pub fn create(path: String, body: Value, what: impl Into<String>) -> Self {
        Self { method: Method::POST, path, body: Some(body), what: what.into() }
    }

    /// A change of something that exists.
    pub fn change(path: String, body: Value, what: impl Into<String>) -> Self {
        Self { method: Method::PATCH, path, body: Some(body), what: what.into() }
    }

    /// What is asked, as errors name it.
    pub fn what(&self) -> &str {
        &self.what
    }
}

/// A failed request, with what a caller may learn from the answer's headers.
#[derive(Debug)]
pub struct Refused {
    pub error: ApiError,
    /// GitHub's time in milliseconds since 1970, from the Date header.
    pub date: Option<i64>,
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

/// The connection to one GitHub, without credentials of its own.
#[derive(Clone, Debug)]
pub struct Client {
    octocrab: Octocrab,
    /// `/api/v3` on an enterprise server, else empty.
    prefix: String,
}

impl Client {
    /// A client for the API at `base`, such as `https://api.github.com` or
    /// `https://ghe.example/api/v3`.
    ///
    /// Must be called within a tokio runtime.
    pub fn new(base: &Url) -> Result<Self, ApiError> {
        let unusable = |why: String| ApiError::Unavailable { what: format!("the API at {base}"), why };
        let origin = base.origin().ascii_serialization();
        let octocrab = Octocrab::builder()
            .base_uri(origin)
            .map_err(|error| unusable(error.to_string()))?
            .add_retry_config(RetryConfig::None)
            .set_connect_timeout(Some(Duration::from_secs(10)))
            .set_read_timeout(Some(TIMEOUT))
            .set_write_timeout(Some(TIMEOUT))
            .add_header(http::header::ACCEPT, "application/vnd.github+json".to_owned())
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Self { octocrab, prefix: base.path().trim_end_matches('/').to_owned() })
    }

    /// Sends `request` once with `credential` as bearer token.
    pub async fn send(&self, request: &Request, credential: &SecretString) -> Result<Answer, Refused> {
        self.send_as(request, Some(credential)).await
    }

    /// Sends `request` once as nobody.
    pub async fn send_openly(&self, request: &Request) -> Result<Answer, Refused> {
        self.send_as(request, None).await
    }

    async fn send_as(&self, request: &Request, credential: Option<&SecretString>) -> Result<Answer, Refused> {
        let lost = |why: String| Refused {
            error: ApiError::Unavailable { what: request.what.clone(), why },
            date: None,
        };
        match tokio::time::timeout(TIMEOUT, self.exchange(request, credential)).await {
            Ok(Ok((status, headers, body))) => judge(request, status, headers, &body),
            Ok(Err(why)) => Err(lost(why)),
            Err(_) => Err(lost(format!("no answer within {} s", TIMEOUT.as_secs()))),
        }
    }

    async fn exchange(
        &self,
        request: &Request,
        credential: Option<&SecretString>,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), String> {
        let mut builder = http::Request::builder()
            .method(request.method.clone())
            .uri(format!("{}{}", self.prefix, request.path));
        if let Some(credential) = credential {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {}", credential.expose_secret()))
                .map_err(|_| "the credential holds characters that no header may hold".to_owned())?;
            bearer.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, bearer);
        }
        let outgoing =
            self.octocrab.build_request(builder, request.body.as_ref()).map_err(|error| causes(&error))?;
        let response = self.octocrab.send(outgoing).await.map_err(|error| causes(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| causes(error.as_ref()))?;
        Ok((parts.status, parts.headers, body.to_bytes().to_vec()))
    }
}

/// An error with its causes in one line.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        next = cause.source();
    }
    shorten(&line)
}

/// At most 500 characters in one line, because messages of a forge end up on pages and in logs.
fn shorten(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect()
}

fn judge(request: &Request, status: StatusCode, headers: HeaderMap, body: &[u8]) -> Result<Answer, Refused> {
    let date = headers.get(DATE).and_then(|value| value.to_str().ok()).and_then(http_date);
    let what = request.what.clone();
    if status.is_success() {
        let parsed = if body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(body) };
        return match parsed {
            Ok(body) => {
                let spent_for = spent_for(&headers, date);
                Ok(Answer { headers, date, spent_for, body })
            }
            Err(error) => Err(Refused { error: ApiError::Unreadable { what, why: error.to_string() }, date }),
        };
    }
    let message = error_message(body);
    let error = match status.as_u16() {
        401 => ApiError::Unauthorized { what, message },
        403 | 429 => match limit_wait(status, &headers, &message, date) {
            Some(wait) => ApiError::RateLimited { what, wait },
            None => ApiError::Forbidden { what, message },
        },
        404 | 410 => ApiError::NotFound { what },
        code @ (408 | 500..) => ApiError::Unavailable { what, why: format!("status {code} {message}") },
        code => ApiError::Rejected { what, status: code, message },
    };
    Err(Refused { error, date })
}

/// GitHub's `message` and the messages of its `errors`.
fn error_message(body: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return shorten(&String::from_utf8_lossy(&body[..body.len().min(2_000)]));
    };
    let mut message = value["message"].as_str().unwrap_or_default().to_owned();
    for error in value["errors"].as_array().into_iter().flatten() {
        let detail = error.as_str().or_else(|| error["message"].as_str());
        if let Some(detail) = detail {
            message = format!("{message}: {detail}");
        }
    }
    shorten(&message)
}

/// How long until the primary limit is renewed, where nothing is left of it.
fn spent_for(headers: &HeaderMap, date: Option<i64>) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    if number("x-ratelimit-remaining") != Some(0) {
        return None;
    }
    let now = date.map(|ms| ms / 1000).and_then(|seconds| u64::try_from(seconds).ok());
    Some(match (number("x-ratelimit-reset"), now) {
        (Some(reset), Some(now)) => {
            Duration::from_secs(reset.saturating_sub(now) + 1).clamp(Duration::from_secs(1), LONGEST_WAIT)
        }
        _ => DEFAULT_WAIT,
    })
}

/// How long GitHub wants to be left alone; `None` when the answer is no rate limit.
fn limit_wait(status: StatusCode, headers: &HeaderMap, message: &str, date: Option<i64>) -> Option<Duration> {
    let bounded = |wait: Duration| Some(wait.clamp(Duration::from_secs(1), LONGEST_WAIT));
    if let Some(seconds) = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()) {
        return match seconds.trim().parse() {
            Ok(seconds) => bounded(Duration::from_secs(seconds)),
            Err(_) => Some(DEFAULT_WAIT),
        };
    }
    if let Some(wait) = spent_for(headers, date) {
        return Some(wait);
    }
    let lower = message.to_ascii_lowercase();
    let limited = status == StatusCode::TOO_MANY_REQUESTS
        || lower.contains("rate limit")
        || lower.contains("abuse detection");
    limited.then_some(DEFAULT_WAIT)
}

/// The time of an HTTP Date header (RFC 9110, IMF-fixdate), in milliseconds since 1970 UTC.
fn http_date(text: &str) -> Option<i64> {
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok().map(|at| at.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(status: u16, headers: &[(&'static str, &str)], message: &str) -> Option<Duration> {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let body = serde_json::json!({ "message": message }).to_string();
        let request = Request::read("/x".into(), "x");
        match judge(&request, StatusCode::from_u16(status).unwrap(), headers, body.as_bytes())
            .unwrap_err()
            .error
        {
            ApiError::RateLimited { wait, .. } => Some(wait),
            _ => None,
        }
    }

    #[test]
    fn a_rate_limit_waits_as_long_as_github_says() {
        let date = ("date", "Mon, 30 Nov 2026 02:00:00 GMT");
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(wait(403, &[("retry-after", "7")], "secondary rate limit"), seconds(7));
        assert_eq!(wait(429, &[("retry-after", "Mon, 30 Nov 2026 02:00:00 GMT")], ""), seconds(60));
        let reset = (1_796_004_000 + 90).to_string();
        let headers = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset), date];
        assert_eq!(wait(403, &headers, "API rate limit exceeded"), seconds(91));
        assert_eq!(wait(403, &[], "You have exceeded a secondary rate limit."), seconds(60));
        assert_eq!(wait(429, &[], "slow down"), seconds(60));
        assert_eq!(wait(429, &[("retry-after", "999999999")], ""), seconds(3_600));
    }

    #[test]
    fn a_missing_permission_is_no_rate_limit() {
        assert_eq!(wait(403, &[], "Resource not accessible by integration"), None);
        assert_eq!(wait(403, &[("x-ratelimit-remaining", "4999")], "Resource protected"), None);
    }

    #[test]
    fn the_date_header_is_read() {
        assert_eq!(http_date("Mon, 30 Nov 2026 02:00:00 GMT"), Some(1_796_004_000_000));
        assert_eq!(http_date("yesterday"), None);
    }

    #[test]
    fn a_forges_message_is_one_bounded_line() {
        let body = serde_json::json!({
            "message": "Validation\r\nFailed", "errors": ["a", { "message": "b".repeat(900) }]
        });
        let message = error_message(body.to_string().as_bytes());
        assert!(message.starts_with("Validation  Failed: a: bbb"));
        assert_eq!(message.chars().count(), 500);
    }
}
