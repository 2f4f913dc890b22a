//! Launches of an agent: the intent is durable before the agent starts, the result after it ends.
//!
//! An intent without a result is `Uncertain` and is never started again.

use crate::clock::Millis;
use crate::digest::Digest;
use crate::id::{Fence, LaunchId, RunId};
use crate::launch::{LaunchEvent, LaunchState};

use super::db::{Db, Tx};
use super::error::StoreError;
use super::row::{count, from_json, json, parse, plain};
use super::signed::Signed;
use super::{journal, runs};

/// An intent to start an agent.
#[derive(Clone, Debug)]
pub struct NewLaunch {
    pub id: LaunchId,
    pub iteration: u32,
    /// Name, version and model of the agent.
    pub agent: String,
    /// Digest of what the agent is given.
    pub input: Digest,
    /// The intent as a signed line of the journal.
    pub entry: Signed,
    pub at: Millis,
}

/// A launch as its row says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    pub id: LaunchId,
    pub iteration: u32,
    pub agent: String,
    pub input: Digest,
    pub state: LaunchState,
    /// The fence of the worker that meant to start it.
    pub fence: Fence,
    pub intended_at: Millis,
    pub updated_at: Millis,
}

/// A change of a launch, by the worker that holds its run.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    pub run: &'a RunId,
    pub fence: Fence,
    pub launch: &'a LaunchId,
    /// The change as a signed line of the journal.
    pub entry: &'a Signed,
    pub now: Millis,
}

/// Makes the intent durable. Only after this returns may the agent be started.
pub async fn intend(db: &Db, run: &RunId, fence: Fence, launch: NewLaunch) -> Result<u32, StoreError> {
    const SQL: &str = "INSERT INTO launches
        (id, run, iteration, agent, input, state, detail, fence, intended_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)";
    let mut tx = db.write().await?;
    runs::hold(&mut tx, run, fence, launch.at).await?;
    let seq = journal::append_in(&mut tx, run, &launch.entry, launch.at).await?;
    let state = LaunchState::Intended;
    execute!(
        tx,
        SQL,
        launch.id.as_str(),
        run.as_str(),
        i64::from(launch.iteration),
        plain(&launch.agent),
        launch.input.to_string(),
        state.name(),
        json(&state),
        fence.0,
        launch.at,
    )?;
    crate::fault::point("before-intent-commit");
    tx.commit().await?;
    crate::fault::point("after-intent-commit");
    Ok(seq)
}

/// Records that the agent is being started.
pub async fn start(db: &Db, change: Change<'_>) -> Result<(), StoreError> {
    apply(db, change, LaunchEvent::Start).await?;
    crate::fault::point("after-launch-started");
    Ok(())
}

/// Records the agent's result: the digest of its proposal, or nothing when it proposed or started
/// nothing, and the tokens that it took.
pub async fn settle(
    db: &Db,
    change: Change<'_>,
    proposal: Option<Digest>,
    tokens: u64,
) -> Result<(), StoreError> {
    crate::fault::point("before-launch-settled");
    apply(db, change, LaunchEvent::Settle(proposal, tokens)).await?;
    crate::fault::point("after-launch-settled");
    Ok(())
}

/// Records that it is not known whether the agent ran. The run is then to be suspended.
pub async fn uncertain(db: &Db, change: Change<'_>) -> Result<(), StoreError> {
    apply(db, change, LaunchEvent::LeaseLost).await
}

/// Records the result that a read-only look-up has established.
pub async fn adopt(
    db: &Db,
    launch: &LaunchId,
    proposal: Option<Digest>,
    now: Millis,
) -> Result<(), StoreError> {
    leave_uncertain(db, launch, LaunchEvent::Adopt(proposal), now).await
}

/// Records that the named operator gives the launch up.
pub async fn abandon(db: &Db, launch: &LaunchId, by: &str, now: Millis) -> Result<(), StoreError> {
    leave_uncertain(db, launch, LaunchEvent::Abandon(by.to_owned()), now).await
}

/// The launches of a run, oldest first.
pub async fn list(db: &Db, run: &RunId) -> Result<Vec<Launch>, StoreError> {
    list_in(&mut db.read().await?, run).await
}

async fn apply(db: &Db, change: Change<'_>, event: LaunchEvent) -> Result<(), StoreError> {
    const READ: &str = "SELECT detail FROM launches WHERE id = $1 AND run = $2";
    let mut tx = db.write().await?;
    runs::hold(&mut tx, change.run, change.fence, change.now).await?;
    let row = fetch_optional!(tx, (String,), READ, change.launch.as_str(), change.run.as_str())?;
    let (detail,) = row.ok_or_else(|| not_found(change.launch))?;
    let state = from_json::<LaunchState>("a launch's state", &detail)?.apply(event)?;
    journal::append_in(&mut tx, change.run, change.entry, change.now).await?;
    set(&mut tx, change.launch, &detail, &state, change.now).await?;
    tx.commit().await
}

/// An uncertain launch belongs to no worker: what is compared is the state itself.
async fn leave_uncertain(
    db: &Db,
    launch: &LaunchId,
    event: LaunchEvent,
    now: Millis,
) -> Result<(), StoreError> {
    const READ: &str = "SELECT detail FROM launches WHERE id = $1";
    let mut tx = db.write().await?;
    let row = fetch_optional!(tx, (String,), READ, launch.as_str())?;
    let (detail,) = row.ok_or_else(|| not_found(launch))?;
    let state = from_json::<LaunchState>("a launch's state", &detail)?.apply(event)?;
    set(&mut tx, launch, &detail, &state, now).await?;
    tx.commit().await
}

/// Sets the state where it still is what was read.
async fn set(
    tx: &mut Tx,
    launch: &LaunchId,
    from: &str,
    to: &LaunchState,
    now: Millis,
) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE launches SET state = $1, detail = $2, updated_at = $3
        WHERE id = $4 AND detail = $5";
    match execute!(tx, SQL, to.name(), json(to), now, launch.as_str(), from)? {
        0 => Err(StoreError::LeaseLost { what: format!("launch {launch}") }),
        _ => Ok(()),
    }
}

/// Marks every launch of `run` that has an intent and no result; gives their number.
///
/// The caller has just claimed the run: whoever began these launches is gone.
pub(super) async fn mark_uncertain(tx: &mut Tx, run: &RunId, now: Millis) -> Result<usize, StoreError> {
    let mut marked = 0;
    for launch in list_in(tx, run).await? {
        match launch.state {
            LaunchState::Intended | LaunchState::Started => {
                let from = json(&launch.state);
                let state = launch.state.apply(LaunchEvent::LeaseLost)?;
                set(tx, &launch.id, &from, &state, now).await?;
                marked += 1;
            }
            LaunchState::Settled { .. }
            | LaunchState::Uncertain
            | LaunchState::Adopted { .. }
            | LaunchState::Abandoned { .. } => {}
        }
    }
    Ok(marked)
}

/// Gives up every uncertain launch of `run` in the name of `by`.
pub(super) async fn abandon_uncertain(
    tx: &mut Tx,
    run: &RunId,
    by: &str,
    now: Millis,
) -> Result<(), StoreError> {
    for launch in list_in(tx, run).await? {
        if launch.state == LaunchState::Uncertain {
            let state = LaunchState::Uncertain.apply(LaunchEvent::Abandon(by.to_owned()))?;
            set(tx, &launch.id, &json(&LaunchState::Uncertain), &state, now).await?;
        }
    }
    Ok(())
}

pub(super) async fn list_in(tx: &mut Tx, run: &RunId) -> Result<Vec<Launch>, StoreError> {
    const SQL: &str = "SELECT id, iteration, agent, input, detail, fence, intended_at, updated_at
        FROM launches WHERE run = $1 ORDER BY intended_at, id";
    type Row = (String, i64, String, String, String, i64, i64, i64);
    let rows = fetch_all!(tx, Row, SQL, run.as_str())?;
    rows.into_iter()
        .map(|(id, iteration, agent, input, detail, fence, intended_at, updated_at)| {
            Ok(Launch {
                id: parse("a launch's id", &id)?,
                iteration: count("a launch's iteration", iteration)?,
                agent,
                input: parse("a launch's input", &input)?,
                state: from_json("a launch's state", &detail)?,
                fence: Fence(fence),
                intended_at,
                updated_at,
            })
        })
        .collect()
}

fn not_found(launch: &LaunchId) -> StoreError {
    StoreError::NotFound { what: format!("launch {launch}") }
}

#[cfg(test)]
mod tests;
