//! Webhook deliveries: durable before they are answered, unique by forge and delivery id.

mod record;

use crate::clock::Millis;
use crate::event::Event;
use crate::forge::ForgeKind;
use crate::id::Fence;

use super::db::{Db, Tx};
use super::error::StoreError;
use super::outbox::{self, NewMessage};
use super::row::{MAX_LOST_CLAIMS, from_json, from_word, plain};
use super::wake::Topic;

pub(super) use record::{Prepared, record_all_in};

/// What names a delivery.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DeliveryKey {
    pub forge: ForgeKind,
    /// The forge's id.
    pub id: String,
}

/// An authentic delivery as it came in.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub key: DeliveryKey,
    pub event: Event,
    /// The raw bytes that were signed.
    pub body: Vec<u8>,
    pub received_at: Millis,
}

/// Whether a delivery was seen before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recorded {
    /// It is durable now and will be admitted, unless there is nothing to do on its event, which is
    /// decided with it. A redelivery of one that had failed is new again.
    New,
    /// It was durable before; nothing changed.
    Known,
}

/// A delivery that this worker decides until its lease runs out.
#[derive(Clone, Debug)]
pub struct ClaimedDelivery {
    pub ticket: Ticket,
    pub event: Event,
    pub received_at: Millis,
    /// How often it was claimed, this time included.
    pub attempts: u32,
}

/// The right to decide a delivery, worthless once another worker has claimed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ticket {
    pub key: DeliveryKey,
    pub fence: Fence,
}

/// Records one delivery. Under load use [`Ingest`](super::Ingest), which commits many at once.
pub async fn record(db: &Db, delivery: &Delivery) -> Result<Recorded, StoreError> {
    let mut tx = db.write().await?;
    let recorded = record_all_in(&mut tx, &[&Prepared::of(delivery)]).await?;
    tx.commit().await?;
    Ok(recorded[0])
}

/// Claims the delivery that has waited longest, for `lease_ms`. `None` means: look again later.
pub async fn claim(
    db: &Db,
    node: &str,
    lease_ms: Millis,
    now: Millis,
) -> Result<Option<ClaimedDelivery>, StoreError> {
    // `not_before` is both: when a postponed delivery is due, and when a claimed one's lease ends.
    const SQL: &str = "UPDATE deliveries SET not_before = $2, attempts = attempts + 1,
            fence = fence + 1, node = $3
        WHERE (forge, id) IN (SELECT forge, id FROM deliveries
                              WHERE state = 'received' AND not_before <= $1
                              ORDER BY not_before, received_at, id LIMIT 1)
          AND state = 'received' AND not_before <= $1
        RETURNING forge, id, event, received_at, attempts, fence";
    const LEFT: &str = "SELECT id FROM deliveries WHERE state = 'received' AND not_before <= $1 LIMIT 1";
    for _ in 0..MAX_LOST_CLAIMS {
        let mut tx = db.write().await?;
        let row = fetch_optional!(tx, Row, SQL, now, now.saturating_add(lease_ms), plain(node))?;
        let lost = row.is_none() && fetch_optional!(tx, (String,), LEFT, now)?.is_some();
        tx.commit().await?;
        if !lost {
            return row.map(claimed).transpose();
        }
    }
    Ok(None)
}

type Row = (String, String, String, i64, i64, i64);

fn claimed((forge, id, event, received_at, attempts, fence): Row) -> Result<ClaimedDelivery, StoreError> {
    let key = DeliveryKey { forge: from_word("a delivery's forge", &forge)?, id };
    Ok(ClaimedDelivery {
        ticket: Ticket { key, fence: Fence(fence) },
        event: from_json("a delivery's event", &event)?,
        received_at,
        attempts: super::row::count("a delivery's attempts", attempts)?,
    })
}

/// Puts a delivery back until `not_before`, with the reason.
pub async fn retry(db: &Db, ticket: &Ticket, error: &str, not_before: Millis) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE deliveries SET not_before = $1, last_error = $2
        WHERE forge = $3 AND id = $4 AND state = 'received' AND fence = $5";
    let mut tx = db.write().await?;
    let forge = ticket.key.forge.name();
    let changed = execute!(tx, SQL, not_before, plain(error), forge, ticket.key.id.as_str(), ticket.fence.0)?;
    held(changed, &ticket.key)?;
    tx.ring(Topic::Deliveries);
    tx.commit().await
}

/// Gives a delivery up, with the reason; a redelivery of the forge revives it.
pub async fn fail(
    db: &Db,
    ticket: &Ticket,
    error: &str,
    messages: Vec<NewMessage>,
    now: Millis,
) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE deliveries SET state = 'failed', last_error = $1, decided_at = $2
        WHERE forge = $3 AND id = $4 AND state = 'received' AND fence = $5";
    let mut tx = db.write().await?;
    let forge = ticket.key.forge.name();
    let changed = execute!(tx, SQL, plain(error), now, forge, ticket.key.id.as_str(), ticket.fence.0)?;
    held(changed, &ticket.key)?;
    for message in &messages {
        outbox::enqueue_in(&mut tx, message, now).await?;
    }
    tx.commit().await
}

/// The raw bytes of a delivery.
pub async fn body(db: &Db, key: &DeliveryKey) -> Result<Option<Vec<u8>>, StoreError> {
    const SQL: &str = "SELECT packing, body FROM deliveries WHERE forge = $1 AND id = $2";
    let mut tx = db.read().await?;
    let row = fetch_optional!(tx, (Option<String>, Vec<u8>), SQL, key.forge.name(), key.id.as_str())?;
    row.map(|(packing, body)| record::unpacked(packing.as_deref(), body)).transpose()
}

/// Which of these ids of `forge` are durable; the others were missed.
pub async fn known(db: &Db, forge: ForgeKind, ids: &[String]) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "SELECT id FROM deliveries WHERE forge = $1 AND id = $2 AND state <> 'failed'";
    let mut tx = db.read().await?;
    let mut known = Vec::new();
    for id in ids {
        if let Some((id,)) = fetch_optional!(tx, (String,), SQL, forge.name(), id.as_str())? {
            known.push(id);
        }
    }
    Ok(known)
}

/// Writes the decision on a delivery, once.
pub(super) async fn decide_in(
    tx: &mut Tx,
    ticket: &Ticket,
    decision: &str,
    now: Millis,
) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE deliveries SET state = 'decided', decision = $1, decided_at = $2
        WHERE forge = $3 AND id = $4 AND state = 'received' AND fence = $5";
    let forge = ticket.key.forge.name();
    let changed = execute!(tx, SQL, plain(decision), now, forge, ticket.key.id.as_str(), ticket.fence.0)?;
    held(changed, &ticket.key)
}

fn held(changed: u64, key: &DeliveryKey) -> Result<(), StoreError> {
    if changed == 1 {
        return Ok(());
    }
    Err(StoreError::LeaseLost { what: format!("delivery {} of {}", key.id, key.forge.name()) })
}

#[cfg(test)]
mod tests;
