//! What is to be told to a forge, exactly once each.
//!
//! A run has at most one pending `CheckRun` message. Every change of the run raises that message's
//! revision in the same transaction, or makes a new one; and a sender whose revision has been passed
//! leaves it pending. So the last state is always told, and states are told in their order.

use crate::clock::Millis;
use crate::id::{AuthorizationId, Fence, MessageId, RunId};
use crate::message::{Address, MessageBody, MessageState};

use super::db::{Db, Tx};
use super::error::StoreError;
use super::row::MAX_LOST_CLAIMS;
use super::row::{count, from_json, json, parse, plain};
use super::wake::Topic;

/// After so many attempts a message is dead, unless its sender says otherwise.
pub const MAX_ATTEMPTS: u32 = 12;

/// How long a step on the way may wait before it is told.
pub const PROGRESS_WAIT: Millis = 3_000;

/// A message to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewMessage {
    pub address: Address,
    pub body: MessageBody,
    /// Not to be sent before.
    pub not_before: Millis,
}

/// A message that this worker sends while its lease lasts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedMessage {
    pub id: MessageId,
    pub address: Address,
    pub body: MessageBody,
    /// How often it was claimed since it last changed, this time included. From 2 on an earlier
    /// attempt may have reached the forge.
    pub attempts: u32,
    fence: Fence,
    revision: i64,
}

/// A message as its row says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub id: MessageId,
    pub body: MessageBody,
    pub state: MessageState,
    pub attempts: u32,
    pub not_before: Millis,
    pub last_error: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

/// What became of a message that could not be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retried {
    /// It will be tried again.
    Postponed,
    /// It was tried often enough.
    Dead,
}

/// Queues a message on its own.
pub async fn enqueue(db: &Db, message: &NewMessage, now: Millis) -> Result<(), StoreError> {
    let mut tx = db.write().await?;
    enqueue_in(&mut tx, message, now).await?;
    tx.commit().await
}

/// Has the run's check run told anew, from the rows of the moment it is sent.
pub async fn refresh(db: &Db, run: &RunId, now: Millis) -> Result<(), StoreError> {
    let mut tx = db.write().await?;
    tell_check_run(&mut tx, run, now).await?;
    tx.commit().await
}

pub(super) async fn enqueue_in(tx: &mut Tx, message: &NewMessage, now: Millis) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO outbox
        (id, run, kind, address, body, state, not_before, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, 'pending', $6, $7, $7)";
    if let MessageBody::CheckRun { run } = &message.body {
        return tell_check_run(tx, run, now).await;
    }
    execute!(
        tx,
        SQL,
        MessageId::fresh(now).as_str(),
        message.body.run().map(RunId::as_str),
        message.body.kind(),
        json(&message.address),
        json(&message.body),
        message.not_before,
        now,
    )?;
    tx.ring(Topic::Outbox);
    Ok(())
}

/// Makes the run's pending check-run message, or raises its revision; it may be sent at once. A run
/// without an address on a forge has none.
pub(super) async fn tell_check_run(tx: &mut Tx, run: &RunId, now: Millis) -> Result<(), StoreError> {
    tell_check_run_after(tx, run, 0, now).await
}

/// The same for a step on the way, which may wait a little: steps that follow each other fast are told as
/// one, so that forges are not asked more often than they like.
pub(super) async fn tell_progress(tx: &mut Tx, run: &RunId, now: Millis) -> Result<(), StoreError> {
    tell_check_run_after(tx, run, now.saturating_add(PROGRESS_WAIT), now).await
}

/// A message that waits only by its pace is sent earlier where something asks for it; one that waits
/// because the forge has failed keeps its time.
async fn tell_check_run_after(
    tx: &mut Tx,
    run: &RunId,
    not_before: Millis,
    now: Millis,
) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO outbox
        (id, run, kind, address, body, state, not_before, created_at, updated_at)
        SELECT $1, runs.id, 'check-run', jobs.address, $2, 'pending', $5, $3, $3
        FROM runs JOIN jobs ON jobs.id = runs.job WHERE runs.id = $4 AND jobs.address IS NOT NULL
        ON CONFLICT (run) WHERE kind = 'check-run' AND state = 'pending'
        DO UPDATE SET revision = outbox.revision + 1, updated_at = excluded.updated_at,
            not_before = CASE WHEN outbox.last_error IS NULL AND excluded.not_before < outbox.not_before
                THEN excluded.not_before ELSE outbox.not_before END";
    let body = json(&MessageBody::CheckRun { run: run.clone() });
    if execute!(tx, SQL, MessageId::fresh(now).as_str(), body, now, run.as_str(), not_before)? > 0 {
        tx.ring(Topic::Outbox);
    }
    Ok(())
}

/// Which messages may be sent at `$1`.
macro_rules! sendable {
    () => {
        "outbox.state = 'pending' AND outbox.not_before <= $1 AND outbox.lease_until <= $1
         AND NOT EXISTS (SELECT 1 FROM outbox AS other
                         WHERE other.run = outbox.run AND other.state = 'pending'
                           AND other.lease_until > $1)"
    };
}

/// Claims the message that has waited longest. `None` means: look again later.
///
/// A run's check run is told by one sender at a time; other messages of the run wait for it where
/// their claimers can see it.
pub async fn claim(
    db: &Db,
    node: &str,
    lease_ms: Millis,
    now: Millis,
) -> Result<Option<ClaimedMessage>, StoreError> {
    const SQL: &str = concat!(
        "UPDATE outbox SET lease_until = $2, node = $3, attempts = attempts + 1, fence = fence + 1,
            updated_at = $1
         WHERE id = (SELECT id FROM outbox WHERE ",
        sendable!(),
        " ORDER BY created_at, id LIMIT 1) AND ",
        sendable!(),
        " RETURNING id, address, body, attempts, fence, revision"
    );
    const LEFT: &str = concat!("SELECT id FROM outbox WHERE ", sendable!(), " LIMIT 1");
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

fn claimed(row: Row) -> Result<ClaimedMessage, StoreError> {
    let (id, address, body, attempts, fence, revision) = row;
    crate::fault::point("after-message-claim");
    Ok(ClaimedMessage {
        id: parse("a message's id", &id)?,
        address: from_json("a message's address", &address)?,
        body: from_json("a message's body", &body)?,
        attempts: count("a message's attempts", attempts)?,
        fence: Fence(fence),
        revision,
    })
}

/// The forge has the message, under this id.
///
/// A check run that changed meanwhile stays pending, to be told anew at once.
pub async fn sent(
    db: &Db,
    message: &ClaimedMessage,
    external_id: &str,
    now: Millis,
) -> Result<(), StoreError> {
    const SENT: &str = "UPDATE outbox SET state = 'sent', external_id = $1, last_error = NULL,
            lease_until = 0, updated_at = $2
        WHERE id = $3 AND fence = $4 AND state = 'pending' AND revision = $5";
    const AGAIN: &str = "UPDATE outbox SET external_id = $1, last_error = NULL, lease_until = 0,
            attempts = 0, not_before = 0, updated_at = $2
        WHERE id = $3 AND fence = $4 AND state = 'pending'";
    const CHECK_RUN: &str = "INSERT INTO check_runs (forge, external_id, run) VALUES ($1, $2, $3)
        ON CONFLICT (forge, external_id) DO NOTHING";
    crate::fault::point("before-message-sent");
    let mut tx = db.write().await?;
    let (id, external_id) = (message.id.as_str(), plain(external_id));
    let done = execute!(tx, SENT, external_id.as_str(), now, id, message.fence.0, message.revision)?;
    if done == 0 {
        let again = execute!(tx, AGAIN, external_id.as_str(), now, id, message.fence.0)?;
        held(again, message)?;
        tx.ring(Topic::Outbox);
    }
    if let MessageBody::CheckRun { run } = &message.body {
        let forge = message.address.repository.forge.name();
        execute!(tx, CHECK_RUN, forge, external_id.as_str(), run.as_str())?;
    }
    tx.commit().await?;
    crate::fault::point("after-message-sent");
    Ok(())
}

/// It could not be sent; it is tried again after `not_before`, or is dead after [`MAX_ATTEMPTS`].
pub async fn retry(
    db: &Db,
    message: &ClaimedMessage,
    error: &str,
    not_before: Millis,
    now: Millis,
) -> Result<Retried, StoreError> {
    const SQL: &str = "UPDATE outbox SET not_before = $1, last_error = $2, lease_until = 0, updated_at = $3
        WHERE id = $4 AND fence = $5 AND state = 'pending'";
    if message.attempts >= MAX_ATTEMPTS {
        dead(db, message, error, now).await?;
        return Ok(Retried::Dead);
    }
    let mut tx = db.write().await?;
    let id = message.id.as_str();
    held(execute!(tx, SQL, not_before, plain(error), now, id, message.fence.0)?, message)?;
    tx.ring(Topic::Outbox);
    tx.commit().await?;
    Ok(Retried::Postponed)
}

/// A message that was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    pub id: MessageId,
    pub address: Address,
    pub body: MessageBody,
    pub attempts: u32,
    /// Why the forge does not have it.
    pub error: String,
    pub given_up_at: Millis,
}

/// What becomes of a dead letter that is to be sent after all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resent {
    /// It is sent again.
    Pending,
    /// A later message tells the same run's state; this one stays dead.
    Overtaken,
    /// There is no dead letter of that id.
    Unknown,
}

/// The messages that were given up, the oldest first, at most `limit`.
pub async fn dead_letters(db: &Db, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
    const SQL: &str = "SELECT id, address, body, attempts, last_error, updated_at FROM outbox
        WHERE state = 'dead' ORDER BY updated_at, id LIMIT $1";
    type Row = (String, String, String, i64, Option<String>, i64);
    let mut tx = db.write().await?;
    let rows = fetch_all!(tx, Row, SQL, i64::from(limit))?;
    tx.commit().await?;
    rows.into_iter()
        .map(|(id, address, body, attempts, error, given_up_at)| {
            Ok(DeadLetter {
                id: parse("a message's id", &id)?,
                address: from_json("a message's address", &address)?,
                body: from_json("a message's body", &body)?,
                attempts: count("a message's attempts", attempts)?,
                error: error.unwrap_or_default(),
                given_up_at,
            })
        })
        .collect()
}

/// Has a dead letter sent once more. Its first attempts count as one, so that its sender looks for what they
/// may have left at the forge.
pub async fn resend(db: &Db, id: &MessageId, now: Millis) -> Result<Resent, StoreError> {
    const SQL: &str = "UPDATE outbox SET state = 'pending', attempts = 1, fence = fence + 1, not_before = 0,
            lease_until = 0, updated_at = $1
        WHERE id = $2 AND state = 'dead' AND (kind <> 'check-run' OR run IS NULL OR NOT EXISTS
            (SELECT 1 FROM outbox AS other
             WHERE other.run = outbox.run AND other.kind = 'check-run' AND other.id > outbox.id))";
    const DEAD: &str = "SELECT id FROM outbox WHERE id = $1 AND state = 'dead'";
    let mut tx = db.write().await?;
    let resent = if execute!(tx, SQL, now, id.as_str())? == 1 {
        tx.ring(Topic::Outbox);
        Resent::Pending
    } else if fetch_optional!(tx, (String,), DEAD, id.as_str())?.is_some() {
        Resent::Overtaken
    } else {
        Resent::Unknown
    };
    tx.commit().await?;
    Ok(resent)
}

/// It will not be tried again.
pub async fn dead(db: &Db, message: &ClaimedMessage, error: &str, now: Millis) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE outbox SET state = 'dead', last_error = $1, lease_until = 0, updated_at = $2
        WHERE id = $3 AND fence = $4 AND state = 'pending'";
    let mut tx = db.write().await?;
    held(execute!(tx, SQL, plain(error), now, message.id.as_str(), message.fence.0)?, message)?;
    tx.commit().await
}

pub(super) async fn list_in(tx: &mut Tx, run: &RunId) -> Result<Vec<Message>, StoreError> {
    const SQL: &str = "SELECT id, body, state, attempts, not_before, external_id, last_error, created_at,
        updated_at FROM outbox WHERE run = $1 ORDER BY created_at, id";
    type Row = (String, String, String, i64, i64, Option<String>, Option<String>, i64, i64);
    let rows = fetch_all!(tx, Row, SQL, run.as_str())?;
    rows.into_iter()
        .map(|(id, body, state, attempts, not_before, external_id, last_error, created_at, updated_at)| {
            let attempts = count("a message's attempts", attempts)?;
            Ok(Message {
                id: parse("a message's id", &id)?,
                body: from_json("a message's body", &body)?,
                state: state_of(&state, external_id, attempts)?,
                attempts,
                not_before,
                last_error,
                created_at,
                updated_at,
            })
        })
        .collect()
}

fn state_of(word: &str, external_id: Option<String>, attempts: u32) -> Result<MessageState, StoreError> {
    match word {
        "pending" => Ok(MessageState::Pending),
        "sent" => Ok(MessageState::Sent { external_id: external_id.unwrap_or_default() }),
        "dead" => Ok(MessageState::Dead { attempts }),
        other => Err(StoreError::Corrupt { what: "a message's state", why: format!("{other:?}") }),
    }
}

fn held(changed: u64, message: &ClaimedMessage) -> Result<(), StoreError> {
    if changed == 1 {
        return Ok(());
    }
    Err(StoreError::LeaseLost { what: format!("message {}", message.id) })
}

/// Whether a push message of this authorization exists: an authorization is pushed by one message.
pub(super) async fn push_in(
    tx: &mut Tx,
    address: Address,
    run: &RunId,
    authorization: &AuthorizationId,
    now: Millis,
) -> Result<(), StoreError> {
    let body = MessageBody::Push { run: run.clone(), authorization: authorization.clone() };
    enqueue_in(tx, &NewMessage { address, body, not_before: 0 }, now).await
}

#[cfg(test)]
mod tests;
