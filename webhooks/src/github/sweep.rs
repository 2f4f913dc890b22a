//! Deliveries that were missed while this service was down or could not write: GitHub keeps what it
//! sent for some days, and is asked for it.
//!
//! What is taken in goes the way of every delivery, so it is decided by the roles and heads of now.

use std::time::Duration;

use http::HeaderMap;
use jobs::clock::Millis;
use jobs::forge::ForgeKind;
use jobs::store::deliveries::{self, Delivery, DeliveryKey, Recorded};
use jobs::store::{Db, Ingest, IngestError, StoreError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::client::Request;
use super::error::ApiError;
use super::manifest::EVENTS;
use super::route;
use super::{GitHub, payload};
use crate::forge::ForgeError;

/// GitHub keeps deliveries for about three days.
const KEPT: Millis = 3 * 86_400_000;
/// How often is looked.
const EVERY: Duration = Duration::from_secs(300);
/// A delivery may have been on its way while the last sweep looked.
const OVERLAP: Millis = 600_000;
/// More pages of a hundred are left to the next sweep's older part.
const MOST_PAGES: usize = 300;

/// What a sweep found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Deliveries that GitHub listed and that could matter.
    pub listed: usize,
    /// Those of them that had been missed and are durable now.
    pub taken: usize,
}

/// A sweep broke off; what it had taken in stays.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Forge(#[from] ForgeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Ingest(#[from] IngestError),
}

impl From<ApiError> for SweepError {
    fn from(error: ApiError) -> Self {
        SweepError::Forge(error.into())
    }
}

/// A delivery as the list shows it.
struct Listed {
    /// GitHub's number of the attempt.
    attempt: i64,
    /// The id of the delivery itself, the same for each attempt.
    id: String,
    at: Millis,
    event: String,
}

impl GitHub {
    /// Takes in what was missed, at once and then every few minutes, until it is cancelled.
    pub async fn sweep_work(&self, db: &Db, ingest: &Ingest, cancel: &CancellationToken) {
        let mut since = None;
        while !cancel.is_cancelled() {
            let now = self.credentials.clock_now();
            match self.sweep(db, ingest, since.unwrap_or(now - KEPT)).await {
                Ok(swept) => {
                    since = Some(now - OVERLAP);
                    if swept.taken > 0 {
                        tracing::warn!(taken = swept.taken, "missed deliveries were taken in");
                    }
                }
                Err(error) => {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::error!(error, "missed deliveries could not be looked for");
                }
            }
            tokio::select! {
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    /// Takes in the deliveries since `since` that are not durable here, oldest first.
    pub async fn sweep(&self, db: &Db, ingest: &Ingest, since: Millis) -> Result<Swept, SweepError> {
        let listed = self.listed(since).await?;
        let ids: Vec<String> = listed.iter().map(|listed| listed.id.clone()).collect();
        let known = deliveries::known(db, ForgeKind::Github, &ids).await?;
        let mut swept = Swept { listed: listed.len(), taken: 0 };
        for missed in listed.iter().rev().filter(|listed| !known.contains(&listed.id)) {
            let Some(delivery) = self.fetch(missed).await? else { continue };
            match ingest.record(delivery).await? {
                Recorded::New => swept.taken += 1,
                Recorded::Known => {}
            }
        }
        Ok(swept)
    }

    /// The list since `since`, newest first, each delivery once.
    async fn listed(&self, since: Millis) -> Result<Vec<Listed>, ApiError> {
        let what = "the app's deliveries";
        let (mut found, mut cursor) = (Vec::<Listed>::new(), None::<String>);
        for _ in 0..MOST_PAGES {
            let from = cursor.as_deref().map(|cursor| format!("&cursor={}", route::escape(cursor)));
            let path = format!("/app/hook/deliveries?per_page=100{}", from.unwrap_or_default());
            let answer = self.credentials.send_as_app(&Request::read(path, what)).await?;
            let page = answer.body.as_array().ok_or_else(|| ApiError::Unreadable {
                what: what.to_owned(),
                why: "it is no list".to_owned(),
            })?;
            let read: Vec<Listed> = page.iter().filter_map(listed).collect();
            let past = read.iter().any(|listed| listed.at < since);
            for listed in read {
                let wanted = listed.at >= since && is_known(&listed.event);
                if wanted && !found.iter().any(|known| known.id == listed.id) {
                    found.push(listed);
                }
            }
            cursor = next_cursor(&answer.headers);
            if past || cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// The delivery itself; `None` when GitHub does not have it any more.
    async fn fetch(&self, missed: &Listed) -> Result<Option<Delivery>, ApiError> {
        let what = format!("delivery {}", missed.id);
        let request = Request::read(format!("/app/hook/deliveries/{}", missed.attempt), what);
        let answer = match self.credentials.send_as_app(&request).await {
            Ok(answer) => answer,
            Err(ApiError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let body = answer.body["request"]["payload"].to_string().into_bytes();
        Ok(Some(Delivery {
            key: DeliveryKey { forge: ForgeKind::Github, id: missed.id.clone() },
            event: payload::parse(self.credentials.app_id(), &missed.event, &body),
            body,
            // What GitHub sent first is decided first.
            received_at: missed.at,
        }))
    }
}

/// Whether anything is done on an event of this name.
fn is_known(event: &str) -> bool {
    EVENTS.contains(&event) || matches!(event, "installation" | "installation_repositories")
}

fn listed(entry: &Value) -> Option<Listed> {
    let at = entry["delivered_at"].as_str()?.parse::<jiff::Timestamp>().ok()?;
    Some(Listed {
        attempt: entry["id"].as_i64()?,
        id: entry["guid"].as_str().filter(|id| (1..=100).contains(&id.len()))?.to_owned(),
        at: at.as_millisecond(),
        event: entry["event"].as_str()?.to_owned(),
    })
}

/// The cursor of the next page, from the Link header.
fn next_cursor(headers: &HeaderMap) -> Option<String> {
    let links = headers.get("link")?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    let url = next.split_once('<')?.1.split_once('>')?.0;
    let url = Url::parse(url).ok()?;
    url.query_pairs().find(|(name, _)| name == "cursor").map(|(_, cursor)| cursor.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_read_off_the_link_header() {
        let cursor = |link: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("link", link.parse().unwrap());
            next_cursor(&headers)
        };
        let next = "<https://api.github.com/app/hook/deliveries?per_page=100&cursor=v1_12%3D>; rel=\"next\"";
        assert_eq!(cursor(next).as_deref(), Some("v1_12="));
        assert_eq!(cursor("<https://x.example/?cursor=1>; rel=\"prev\""), None);
        assert_eq!(cursor("nonsense"), None);
    }
}
