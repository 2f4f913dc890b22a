//! Recorded yeses, and the one transaction that spends one.

use crate::authorization::{Authorization, PushGrant, PushResult};
use crate::clock::Millis;
use crate::digest::Digest;
use crate::forge::Account;
use crate::id::{AuthorizationId, CommitId, RunId};
use crate::message::Address;

use super::db::{Db, Tx};
use super::error::StoreError;
use super::outbox;
use super::row::{from_json, from_word, json, parse, plain, word};

/// An authorization as its row says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    pub authorization: Authorization,
    pub spent_at: Option<Millis>,
    pub result: Option<PushResult>,
    pub settled_at: Option<Millis>,
}

/// Whether the yes was new.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recording {
    /// It is durable, and its push is queued.
    New,
    /// The same comment or click was recorded before, as this authorization.
    Known { id: AuthorizationId },
}

/// What is about to be pushed, to be held against what was authorized.
#[derive(Clone, Debug)]
pub struct Spend<'a> {
    pub id: &'a AuthorizationId,
    /// The commit that the branch shows now.
    pub head: &'a CommitId,
    /// Digest of the patch that would be pushed.
    pub patch: Digest,
    pub now: Millis,
}

/// Why an authorization buys nothing.
#[derive(Debug, thiserror::Error)]
pub enum SpendError {
    #[error("there is no authorization {0}")]
    Unknown(AuthorizationId),
    #[error("the authorization was spent before; authorize the patch again")]
    AlreadySpent,
    #[error("the authorization was declined or refused before; authorize the patch again")]
    Closed,
    #[error("the authorization has expired; authorize the patch again")]
    Expired,
    #[error(
        "the branch moved from {authorized} to {now} after the authorization; ask for a new run on the new head"
    )]
    HeadMoved { authorized: CommitId, now: CommitId },
    #[error("the authorization is for another patch ({authorized}, not {given})")]
    OtherPatch { authorized: Digest, given: Digest },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The proof that the spending transaction was committed. Made in this file only.
#[derive(Debug)]
pub struct Spent {
    authorization: Authorization,
    spent_at: Millis,
}

impl Spent {
    pub(crate) fn into_parts(self) -> (Authorization, Millis) {
        (self.authorization, self.spent_at)
    }
}

/// Records a yes and queues its push to `address`, in one transaction.
pub async fn record(
    db: &Db,
    authorization: &Authorization,
    address: Address,
) -> Result<Recording, StoreError> {
    const SQL: &str = "INSERT INTO authorizations
        (id, run, actor, role, origin, head, patch, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (origin) DO NOTHING";
    let (yes, mut tx) = (authorization, db.write().await?);
    let (actor, origin) = (json(&yes.actor), plain(&yes.origin));
    let recorded = execute!(
        tx,
        SQL,
        yes.id.as_str(),
        yes.run.as_str(),
        actor,
        word(&yes.role),
        origin.as_str(),
        yes.head.as_str(),
        yes.patch.to_string(),
        yes.created_at,
        yes.expires_at,
    )?;
    if recorded == 0 {
        return known(&mut tx, &origin).await;
    }
    outbox::push_in(&mut tx, address, &yes.run, &yes.id, yes.created_at).await?;
    outbox::tell_check_run(&mut tx, &yes.run, yes.created_at).await?;
    tx.commit().await?;
    crate::fault::point("after-authorization");
    Ok(Recording::New)
}

/// Records a person's no to the patch: a row that can never be spent.
pub async fn decline(db: &Db, no: &Authorization) -> Result<Recording, StoreError> {
    const SQL: &str = "INSERT INTO authorizations
        (id, run, actor, role, origin, head, patch, created_at, expires_at, result, settled_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $8) ON CONFLICT (origin) DO NOTHING";
    let mut tx = db.write().await?;
    let declined = execute!(
        tx,
        SQL,
        no.id.as_str(),
        no.run.as_str(),
        json(&no.actor),
        word(&no.role),
        plain(&no.origin),
        no.head.as_str(),
        no.patch.to_string(),
        no.created_at,
        json(&PushResult::Declined { by: no.actor.login.clone() }),
    )?;
    if declined == 0 {
        return known(&mut tx, &no.origin).await;
    }
    outbox::tell_check_run(&mut tx, &no.run, no.created_at).await?;
    tx.commit().await?;
    Ok(Recording::New)
}

async fn known(tx: &mut Tx, origin: &str) -> Result<Recording, StoreError> {
    const SAME: &str = "SELECT id FROM authorizations WHERE origin = $1";
    let same = fetch_optional!(tx, (String,), SAME, plain(origin))?;
    let (id,) = same.ok_or_else(|| StoreError::NotFound { what: format!("authorization of {origin}") })?;
    Ok(Recording::Known { id: parse("an authorization's id", &id)? })
}

/// Spends the authorization, if it is unspent, has not expired, and is for exactly this head and this
/// patch. All of that is compared by the statement that spends it.
pub async fn spend(db: &Db, spend: Spend<'_>) -> Result<PushGrant, SpendError> {
    const SQL: &str = "UPDATE authorizations SET spent_at = $1
        WHERE id = $2 AND spent_at IS NULL AND result IS NULL AND expires_at > $1
          AND head = $3 AND patch = $4";
    let Spend { id, head, patch, now } = spend;
    let mut tx = db.write().await?;
    let spent =
        execute!(tx, SQL, now, id.as_str(), head.as_str(), patch.to_string()).map_err(StoreError::from)?;
    let recorded = find_in(&mut tx, id).await?.ok_or_else(|| SpendError::Unknown(id.clone()))?;
    if spent == 0 {
        return Err(refusal(recorded, head, patch));
    }
    tx.commit().await?;
    crate::fault::point("after-spend");
    Ok(PushGrant::of(Spent { authorization: recorded.authorization, spent_at: now }))
}

fn refusal(recorded: Recorded, head: &CommitId, patch: Digest) -> SpendError {
    let Recorded { authorization: yes, spent_at, result, .. } = recorded;
    if spent_at.is_some() {
        SpendError::AlreadySpent
    } else if result.is_some() {
        SpendError::Closed
    } else if yes.head != *head {
        SpendError::HeadMoved { authorized: yes.head, now: head.clone() }
    } else if yes.patch != patch {
        SpendError::OtherPatch { authorized: yes.patch, given: patch }
    } else {
        SpendError::Expired
    }
}

/// Gives a grant back whose push certainly reached no forge, so that it can be spent again.
pub async fn give_back(db: &Db, grant: PushGrant) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE authorizations SET spent_at = NULL
        WHERE id = $1 AND spent_at = $2 AND result IS NULL";
    let mut tx = db.write().await?;
    execute!(tx, SQL, grant.authorization().id.as_str(), grant.spent_at())?;
    tx.commit().await
}

/// Records what came of a spent authorization, or why an unspent one buys nothing. A known result is
/// never replaced; an uncertain one is, by what a look-up has found.
pub async fn settle(
    db: &Db,
    id: &AuthorizationId,
    result: &PushResult,
    now: Millis,
) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE authorizations SET result = $1, settled_at = $2 WHERE id = $3
        AND (result IS NULL OR result = $4)";
    let mut tx = db.write().await?;
    let found = find_in(&mut tx, id).await?;
    let found = found.ok_or_else(|| StoreError::NotFound { what: format!("authorization {id}") })?;
    let before = match &found.result {
        None | Some(PushResult::Uncertain { .. }) => found.result.as_ref().map(json),
        Some(PushResult::Pushed { .. } | PushResult::Refused { .. } | PushResult::Declined { .. }) => {
            return Ok(());
        }
    };
    execute!(tx, SQL, json(result), now, id.as_str(), before)?;
    outbox::tell_check_run(&mut tx, &found.authorization.run, now).await?;
    tx.commit().await
}

/// One authorization.
pub async fn find(db: &Db, id: &AuthorizationId) -> Result<Option<Recorded>, StoreError> {
    find_in(&mut db.read().await?, id).await
}

type Row = (
    String,
    String,
    String,
    String,
    String,
    String,
    String,
    i64,
    i64,
    Option<i64>,
    Option<String>,
    Option<i64>,
);

async fn find_in(tx: &mut Tx, id: &AuthorizationId) -> Result<Option<Recorded>, StoreError> {
    const SQL: &str = "SELECT id, run, actor, role, origin, head, patch, created_at, expires_at,
        spent_at, result, settled_at FROM authorizations WHERE id = $1";
    fetch_optional!(tx, Row, SQL, id.as_str())?.map(recorded).transpose()
}

pub(super) async fn list_in(tx: &mut Tx, run: &RunId) -> Result<Vec<Recorded>, StoreError> {
    const SQL: &str = "SELECT id, run, actor, role, origin, head, patch, created_at, expires_at,
        spent_at, result, settled_at FROM authorizations WHERE run = $1 ORDER BY created_at, id";
    fetch_all!(tx, Row, SQL, run.as_str())?.into_iter().map(recorded).collect()
}

fn recorded(row: Row) -> Result<Recorded, StoreError> {
    let (id, run, actor, role, origin, head, patch, created_at, expires_at, spent_at, result, settled_at) =
        row;
    Ok(Recorded {
        authorization: Authorization {
            id: parse("an authorization's id", &id)?,
            run: parse("an authorization's run", &run)?,
            actor: from_json::<Account>("an authorization's actor", &actor)?,
            role: from_word("an authorization's role", &role)?,
            origin,
            head: parse("an authorization's head", &head)?,
            patch: parse("an authorization's patch", &patch)?,
            created_at,
            expires_at,
        },
        spent_at,
        result: result.map(|text| from_json("an authorization's result", &text)).transpose()?,
        settled_at,
    })
}

#[cfg(test)]
mod tests;
