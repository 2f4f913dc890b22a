//! Asks a provider for one reply, again where the answer says that asking again may help.
//!
//! Asking is no effect but its cost, so a reply that was cut off is asked for anew. What a cut reply cost
//! is counted too, where the provider had told it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::StreamExt;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::conversation::{Reply, StreamFault, ToolSpec, Turn, Usage};
use super::profile::{Profile, Protocol};
use super::{anthropic, openai_chat, openai_responses};

/// Requests for one reply.
const MAX_ATTEMPTS: u32 = 10;
const CONNECT: Duration = Duration::from_secs(20);
/// Silence within a stream.
const SILENCE: Duration = Duration::from_secs(180);
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Bytes of one reply.
const MAX_REPLY: usize = 32 << 20;
/// Bytes of an error's body that are read.
const MAX_ERROR: usize = 64 << 10;
/// Characters of a provider's words that an error repeats.
const SHOWN: usize = 500;

/// A client of one model.
#[derive(Debug)]
pub struct Client<'a> {
    profile: &'a Profile,
    http: reqwest::Client,
}

/// A reply with what all attempts at it cost.
#[derive(Debug)]
pub struct Asked {
    pub reply: Reply,
    pub usage: Usage,
}

/// There is no reply.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The client itself cannot be made.
    #[error("cannot make an HTTP client for the model")]
    Client(#[source] reqwest::Error),
    /// A header of the configuration is none.
    #[error("{0:?} in the model's headers is no header, or its value is none")]
    Header(String),
    /// The provider does not take the request, whenever it is sent.
    #[error("the model's provider refused the request: {0}")]
    Rejected(String),
    /// The provider cannot be reached, or cannot serve, for as long as we wait.
    #[error("the model's provider could not serve after {attempts} attempts: {last}")]
    Unavailable { attempts: u32, last: String },
}

/// Why one attempt gave nothing.
enum Missed {
    /// Another may help, not before this long.
    Later {
        wait: Option<Duration>,
        why: String,
        usage: Usage,
    },
    Never(AskError),
}

impl<'a> Client<'a> {
    /// A client that follows no redirect: a key goes where the operator said, and nowhere else.
    pub fn new(profile: &'a Profile) -> Result<Self, AskError> {
        // Whoever came first has installed the same one.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let http = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .default_headers(headers(profile)?)
            .user_agent(concat!("whipstitch/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(AskError::Client)?;
        Ok(Self { profile, http })
    }

    /// One reply. `left` bounds how long is waited for a provider that says when to come back.
    pub async fn ask(
        &self,
        system: &str,
        tools: &[ToolSpec],
        turns: &[Turn],
        left: Duration,
    ) -> Result<Asked, AskError> {
        let Profile { protocol, model, max_output_tokens, .. } = self.profile;
        let body = match protocol {
            Protocol::Anthropic => anthropic::request(model, *max_output_tokens, system, tools, turns),
            Protocol::OpenAiChat => openai_chat::request(model, *max_output_tokens, system, tools, turns),
            Protocol::OpenAiResponses => {
                openai_responses::request(model, *max_output_tokens, system, tools, turns)
            }
        };
        let mut spent = Usage::default();
        let (mut waited, mut attempts) = (Duration::ZERO, 0);
        loop {
            attempts += 1;
            let (wait, why) = match self.attempt(&body).await {
                Ok(reply) => {
                    let usage = plus(spent, reply.usage);
                    return Ok(Asked { reply, usage });
                }
                Err(Missed::Never(error)) => return Err(error),
                Err(Missed::Later { wait, why, usage }) => {
                    spent = plus(spent, usage);
                    (wait.unwrap_or_else(|| growing(attempts)), why)
                }
            };
            if attempts >= MAX_ATTEMPTS || waited + wait > left {
                return Err(AskError::Unavailable { attempts, last: why });
            }
            tracing::info!(attempts, wait_ms = wait.as_millis(), why, "asking the model again");
            tokio::time::sleep(wait).await;
            waited += wait;
        }
    }

    async fn attempt(&self, body: &Value) -> Result<Reply, Missed> {
        let later = |why: String| Missed::Later { wait: None, why, usage: Usage::default() };
        let sent = self.http.post(self.profile.url()).json(body).send().await;
        let response = sent.map_err(|error| later(crate::executor::whole(&error.without_url())))?;
        let status = response.status();
        if !status.is_success() {
            let wait = retry_after(response.headers());
            let said = words(response).await;
            let why = format!("{status}: {said}");
            return Err(match status.as_u16() {
                408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529 => {
                    Missed::Later { wait, why, usage: Usage::default() }
                }
                _ => Missed::Never(AskError::Rejected(why)),
            });
        }
        self.read(response).await
    }

    async fn read(&self, response: reqwest::Response) -> Result<Reply, Missed> {
        let mut reading = Reading::of(self.profile.protocol);
        let read = reading.all(response).await;
        let usage = reading.usage();
        let fault = match read {
            Ok(()) => match reading.finish() {
                Ok(reply) => return Ok(reply),
                Err(fault) => fault,
            },
            Err(fault) => fault,
        };
        match fault {
            StreamFault::Cut(_) | StreamFault::Overloaded(_) => {
                Err(Missed::Later { wait: None, why: fault.to_string(), usage })
            }
            StreamFault::Rejected(why) => Err(Missed::Never(AskError::Rejected(shown(&why)))),
        }
    }
}

/// One stream, in its protocol.
enum Reading {
    Anthropic(anthropic::Stream),
    Chat(openai_chat::Stream),
    Responses(openai_responses::Stream),
}

impl Reading {
    fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Anthropic => Reading::Anthropic(anthropic::Stream::default()),
            Protocol::OpenAiChat => Reading::Chat(openai_chat::Stream::default()),
            Protocol::OpenAiResponses => Reading::Responses(openai_responses::Stream::default()),
        }
    }

    async fn all(&mut self, response: reqwest::Response) -> Result<(), StreamFault> {
        let cut = |why: String| StreamFault::Cut(why);
        let mut size = 0;
        let bounded = response.bytes_stream().map(move |part| {
            let part: Bytes = part.map_err(|error| crate::executor::whole(&error.without_url()))?;
            size += part.len();
            if size > MAX_REPLY { Err(format!("it is longer than {MAX_REPLY} bytes")) } else { Ok(part) }
        });
        let mut events = std::pin::pin!(bounded.eventsource());
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| cut(error.to_string()))?;
            let data = event.data.trim();
            if data.is_empty() {
                continue;
            }
            if let Reading::Chat(stream) = self
                && data == openai_chat::Stream::DONE
            {
                stream.done();
                return Ok(());
            }
            let value: Value =
                serde_json::from_str(data).map_err(|error| cut(format!("an event is no JSON: {error}")))?;
            match self {
                Reading::Anthropic(stream) => stream.event(&value)?,
                Reading::Chat(stream) => stream.event(&value)?,
                Reading::Responses(stream) => stream.event(&value)?,
            }
        }
        Ok(())
    }

    fn usage(&self) -> Usage {
        match self {
            Reading::Anthropic(stream) => stream.usage(),
            Reading::Chat(stream) => stream.usage(),
            Reading::Responses(stream) => stream.usage(),
        }
    }

    fn finish(self) -> Result<Reply, StreamFault> {
        match self {
            Reading::Anthropic(stream) => stream.finish(),
            Reading::Chat(stream) => stream.finish(),
            Reading::Responses(stream) => stream.finish(),
        }
    }
}

fn headers(profile: &Profile) -> Result<HeaderMap, AskError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &profile.headers {
        let key = HeaderName::try_from(name.as_str()).map_err(|_| AskError::Header(name.clone()))?;
        headers.insert(key, secret(value.expose_secret()).ok_or_else(|| AskError::Header(name.clone()))?);
    }
    let key = |key: &SecretString, before: &str| {
        secret(&format!("{before}{}", key.expose_secret()))
            .ok_or_else(|| AskError::Header("the key".to_owned()))
    };
    match (profile.protocol, &profile.key) {
        (Protocol::Anthropic, given) => {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
            if let Some(given) = given {
                headers.insert("x-api-key", key(given, "")?);
            }
        }
        (Protocol::OpenAiChat | Protocol::OpenAiResponses, Some(given)) => {
            headers.insert(reqwest::header::AUTHORIZATION, key(given, "Bearer ")?);
        }
        (Protocol::OpenAiChat | Protocol::OpenAiResponses, None) => {}
    }
    Ok(headers)
}

fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// How long a provider asks to be left alone: seconds, milliseconds or a date (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    let after = text("retry-after")?;
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::parse(after).ok()?.timestamp();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let wait = i128::from(at.as_millisecond()) - i128::try_from(now.as_millis()).ok()?;
    Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
}

/// Doubles with each attempt, less up to a half at random, so that many do not come back at once.
fn growing(attempts: u32) -> Duration {
    let whole = FIRST_WAIT.saturating_mul(1 << attempts.min(16)).min(LONGEST_WAIT);
    let mut byte = [0; 1];
    let random = match getrandom::fill(&mut byte) {
        Ok(()) => u32::from(byte[0]),
        Err(_) => 0,
    };
    whole - whole * random / 512
}

/// The provider's words on an error.
async fn words(response: reqwest::Response) -> String {
    let mut body = Vec::new();
    let mut parts = response.bytes_stream();
    while let Some(Ok(part)) = parts.next().await {
        body.extend_from_slice(&part[..part.len().min(MAX_ERROR - body.len())]);
        if body.len() >= MAX_ERROR {
            break;
        }
    }
    let text = String::from_utf8_lossy(&body);
    match serde_json::from_str::<Value>(&text) {
        Ok(value) => match value["error"]["message"].as_str().or_else(|| value["message"].as_str()) {
            Some(message) => shown(message),
            None => shown(&text),
        },
        Err(_) => shown(&text),
    }
}

fn shown(text: &str) -> String {
    let plain = |next: char| if next.is_control() { ' ' } else { next };
    text.trim().chars().map(plain).take(SHOWN).collect()
}

fn plus(left: Usage, right: Usage) -> Usage {
    Usage { input: left.input.saturating_add(right.input), output: left.output.saturating_add(right.output) }
}
