//! Deliveries as rows: made by whoever received them, so that the one task that commits only writes.

use sqlx::AssertSqlSafe;

use crate::clock::Millis;
use crate::digest::Digest;
use crate::event::Event;

use super::super::db::Tx;
use super::super::error::StoreError;
use super::super::row::{json, plain};
use super::super::wake::Topic;
use super::{Delivery, DeliveryKey, Recorded};

/// How the `body` column holds the raw bytes: LZ4's block format behind their length. Payloads are
/// repetitive JSON, so that most then fit into one page.
const LZ4: &str = "lz4";
/// Rows of one statement, most first; a batch is cut into these, so that few statements are prepared.
const GROUPS: [usize; 4] = [64, 16, 4, 1];
/// Columns of one row.
const COLUMNS: usize = 10;

/// A delivery in the form of its row.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub key: DeliveryKey,
    event: String,
    body: Vec<u8>,
    body_digest: String,
    received_at: Millis,
    /// Why nothing is ever to be done on it.
    nothing: Option<String>,
}

impl Prepared {
    /// Reads and packs the whole body; costs time by its length.
    pub fn of(delivery: &Delivery) -> Self {
        Self {
            key: DeliveryKey { forge: delivery.key.forge, id: plain(&delivery.key.id) },
            event: json(&delivery.event),
            body: lz4_flex::compress_prepend_size(&delivery.body),
            body_digest: Digest::of(&delivery.body).to_string(),
            received_at: delivery.received_at,
            nothing: nothing_to_do(&delivery.event),
        }
    }

    /// Bytes that it holds while it waits.
    pub fn size(&self) -> usize {
        self.event.len() + self.body.len()
    }
}

/// Why nothing is to be done on an event, where it says so by itself: it is decided with its arrival.
fn nothing_to_do(event: &Event) -> Option<String> {
    match event {
        Event::Ping => Some("ignored: a sign of life".to_owned()),
        Event::Ignored { why } => Some(format!("ignored: {}", plain(why))),
        Event::Comment(_)
        | Event::CheckAction(_)
        | Event::PullRequest { .. }
        | Event::Label(_)
        | Event::CheckSuite(_)
        | Event::Push { .. }
        | Event::Access { .. } => None,
    }
}

/// The raw bytes of a `body` column. Rows of before there was a packing name none.
pub(super) fn unpacked(packing: Option<&str>, body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    let corrupt = |why: String| StoreError::Corrupt { what: "a delivery's body", why };
    match packing {
        None => Ok(body),
        Some(LZ4) => lz4_flex::decompress_size_prepended(&body).map_err(|error| corrupt(error.to_string())),
        Some(other) => Err(corrupt(format!("packed by {other}"))),
    }
}

/// Writes the rows, each with another key, in the order given; gives what became of each.
///
/// Nodes whose batches share deliveries would wait for each other crosswise, were the rows not in the
/// order of their keys.
pub(in crate::store) async fn record_all_in(
    tx: &mut Tx,
    rows: &[&Prepared],
) -> Result<Vec<Recorded>, StoreError> {
    let (mut recorded, mut rest) = (Vec::with_capacity(rows.len()), rows);
    while let Some(size) = GROUPS.into_iter().find(|size| *size <= rest.len()) {
        let (group, after) = rest.split_at(size);
        recorded.extend(record_group(tx, group).await?);
        rest = after;
    }
    Ok(recorded)
}

async fn record_group(tx: &mut Tx, rows: &[&Prepared]) -> Result<Vec<Recorded>, StoreError> {
    let sql = statement(rows.len());
    let written: Vec<(String, String)> = on!(tx, connection => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql));
        for row in rows {
            let decided_at = row.nothing.is_some().then_some(row.received_at);
            query = query
                .bind(row.key.forge.name())
                .bind(row.key.id.as_str())
                .bind(row.event.as_str())
                .bind(row.body.as_slice())
                .bind(LZ4)
                .bind(row.body_digest.as_str())
                .bind(row.received_at)
                .bind(if row.nothing.is_some() { "decided" } else { "received" })
                .bind(row.nothing.as_deref())
                .bind(decided_at);
        }
        query.fetch_all(&mut **connection).await
    })?;
    let is_new = |row: &Prepared| {
        written.iter().any(|(forge, id)| *forge == row.key.forge.name() && *id == row.key.id)
    };
    let recorded: Vec<_> =
        rows.iter().map(|row| if is_new(row) { Recorded::New } else { Recorded::Known }).collect();
    let waits = rows.iter().zip(&recorded).any(|(row, is)| row.nothing.is_none() && *is == Recorded::New);
    if waits {
        tx.ring(Topic::Deliveries);
    }
    Ok(recorded)
}

/// The statement that writes so many rows; it holds nothing but numbered places.
fn statement(rows: usize) -> String {
    let row = |row: usize| {
        let places: Vec<String> =
            (1..=COLUMNS).map(|column| format!("${}", row * COLUMNS + column)).collect();
        format!("({})", places.join(", "))
    };
    let values: Vec<String> = (0..rows).map(row).collect();
    format!(
        "INSERT INTO deliveries
            (forge, id, event, body, packing, body_digest, received_at, state, decision, decided_at)
         VALUES {}
         ON CONFLICT (forge, id) DO UPDATE
         SET state = 'received', attempts = 0, not_before = 0, last_error = NULL
         WHERE deliveries.state = 'failed'
         RETURNING forge, id",
        values.join(", ")
    )
}
