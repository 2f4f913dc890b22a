//! The door: `POST /webhooks/{forge}`.
//!
//! Bytes are read within bounds of size, time and memory, then their signature is checked, then they
//! are parsed, then made durable, and only then answered 2xx. No forge is called before the answer.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use jobs::clock::Clock;
use jobs::forge::ForgeKind;
use jobs::store::Ingest;
use jobs::store::deliveries::{Delivery, DeliveryKey, Recorded};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::forge::{Inbound, Unauthentic};

/// GitHub sends no more than 25 MB.
pub const MAX_BODY_BYTES: usize = 25_000_000;
/// All bodies that are being read at once may hold this much.
const MAX_BYTES_IN_FLIGHT: usize = 100_000_000;
/// GitHub gives up after ten seconds; a body has to be here well before.
const READ_TIME: Duration = Duration::from_secs(5);
/// What is not durable by then is answered as such, in time for the forge to hear it.
const COMMIT_TIME: Duration = Duration::from_secs(4);

/// What the door needs.
#[derive(Clone)]
pub struct Door {
    inbound: Arc<[(ForgeKind, Arc<dyn Inbound>)]>,
    ingest: Ingest,
    clock: Arc<dyn Clock>,
    space: Arc<Semaphore>,
    read_time: Duration,
}

impl Door {
    /// A door for these forges.
    pub fn new(inbound: Vec<(ForgeKind, Arc<dyn Inbound>)>, ingest: Ingest, clock: Arc<dyn Clock>) -> Self {
        let space = Arc::new(Semaphore::new(MAX_BYTES_IN_FLIGHT));
        Self { inbound: inbound.into(), ingest, clock, space, read_time: READ_TIME }
    }

    fn of(&self, name: &str) -> Option<(ForgeKind, &Arc<dyn Inbound>)> {
        self.inbound.iter().find(|(kind, _)| kind.name() == name).map(|(kind, inbound)| (*kind, inbound))
    }
}

/// The routes of the door.
pub fn router(door: Door) -> Router {
    Router::new().route("/webhooks/{forge}", post(receive)).with_state(door)
}

/// Why a request is not taken.
#[derive(Debug, thiserror::Error)]
enum Turned {
    #[error("there is no webhook endpoint for this forge")]
    UnknownForge,
    #[error("send the payload as application/json; set the webhook's content type at the forge")]
    NotJson,
    #[error("the body has more than {MAX_BODY_BYTES} bytes")]
    TooLarge,
    #[error("the body did not arrive within {} s", READ_TIME.as_secs())]
    TooSlow,
    #[error("the body broke off")]
    BrokenOff,
    #[error("too many bodies are being read; send this one again later")]
    Full,
    #[error(transparent)]
    Unauthentic(#[from] Unauthentic),
    #[error("the delivery could not be made durable; send it again later")]
    NotDurable,
}

impl IntoResponse for Turned {
    fn into_response(self) -> Response {
        let status = match self {
            Turned::UnknownForge => StatusCode::NOT_FOUND,
            Turned::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Turned::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Turned::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Turned::BrokenOff | Turned::Unauthentic(Unauthentic::NoIdentity) => StatusCode::BAD_REQUEST,
            Turned::Unauthentic(Unauthentic::NoSignature | Unauthentic::WrongSignature) => {
                StatusCode::UNAUTHORIZED
            }
            Turned::Full | Turned::NotDurable => StatusCode::SERVICE_UNAVAILABLE,
        };
        let text = format!("{self}\n");
        match status {
            StatusCode::SERVICE_UNAVAILABLE => (status, [(RETRY_AFTER, "30")], text).into_response(),
            _ => (status, text).into_response(),
        }
    }
}

async fn receive(
    State(door): State<Door>,
    Path(forge): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Turned> {
    let (kind, inbound) = door.of(&forge).ok_or(Turned::UnknownForge)?;
    if !is_json(&headers) {
        return Err(Turned::NotJson);
    }
    let read = tokio::time::timeout(door.read_time, read_bounded(&headers, body, &door.space));
    let (body, _space) = read.await.map_err(|_| Turned::TooSlow)??;
    let delivery = inbound.authenticate(&headers, body)?;
    let event = inbound.parse(&delivery);
    let recorded = door.ingest.record(Delivery {
        key: DeliveryKey { forge: kind, id: delivery.delivery.clone() },
        event,
        body: delivery.body.to_vec(),
        received_at: door.clock.now(),
    });
    match tokio::time::timeout(COMMIT_TIME, recorded).await {
        Ok(Ok(Recorded::New)) => {
            tracing::info!(delivery.id = delivery.delivery, forge, "a delivery was taken");
            Ok((StatusCode::ACCEPTED, "accepted\n").into_response())
        }
        Ok(Ok(Recorded::Known)) => Ok((StatusCode::OK, "already known\n").into_response()),
        Ok(Err(error)) => {
            let error: &(dyn std::error::Error + 'static) = &error;
            tracing::error!(delivery.id = delivery.delivery, error, "a delivery is not durable");
            Err(Turned::NotDurable)
        }
        Err(_) => {
            tracing::error!(delivery.id = delivery.delivery, "a delivery was not durable in time");
            Err(Turned::NotDurable)
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// Reads a body that may be as long as its sender likes, keeping no more than the bounds allow.
async fn read_bounded(
    headers: &HeaderMap,
    mut body: Body,
    space: &Arc<Semaphore>,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Turned> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
        return Err(Turned::TooLarge);
    }
    let (mut read, mut held) = (BytesMut::new(), Option::<OwnedSemaphorePermit>::None);
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame.map_err(|_| Turned::BrokenOff)?.into_data() else { continue };
        if read.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(Turned::TooLarge);
        }
        let length = u32::try_from(chunk.len()).map_err(|_| Turned::TooLarge)?;
        let more = Arc::clone(space).try_acquire_many_owned(length).map_err(|_| Turned::Full)?;
        match &mut held {
            Some(held) => held.merge(more),
            None => held = Some(more),
        }
        read.extend_from_slice(&chunk);
    }
    Ok((read.freeze(), held))
}

#[cfg(test)]
mod tests;
