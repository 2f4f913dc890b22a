//! Runs: claimed by one worker at a time, each write held against the claim's fence.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::id::{Fence, JobId, RunId};
use crate::job::JobSpec;
use crate::run::{HaltReason, Outcome, Phase, RunEvent, RunState, Suspension};

use super::db::{Db, Tx};
use super::error::StoreError;
use super::receipts::NewReceipt;
use super::row::{MAX_LOST_CLAIMS, from_json, json, parse, plain};
use super::signed::Signed;
use super::wake::Topic;
use super::{journal, launches, outbox, receipts};

pub use super::view::{begun, by_check_run, find, list, of_commit, of_head, of_subject, view};

/// A run that this worker holds while its lease lasts.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub run: RunId,
    pub job_id: JobId,
    pub job: JobSpec,
    pub fence: Fence,
    /// Somebody asked, before the claim, that it ends.
    pub halt: Option<HaltRequest>,
    pub created_at: Millis,
    /// When the first claim was.
    pub started_at: Millis,
}

/// Somebody's wish that a run ends as `Halted`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HaltRequest {
    /// An account, an operator, or the event that asked.
    pub by: String,
    pub reason: HaltReason,
}

/// What a heartbeat brings back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pulse {
    pub halt: Option<HaltRequest>,
}

/// What came of the wish that a run ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Halting {
    /// Its worker will end it, or the next one that claims it.
    Requested,
    /// It had ended before.
    AlreadyFinished,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub run: RunId,
    pub fence: Fence,
    pub outcome: Outcome,
    /// The journal's seal.
    pub entry: Signed,
    /// The seal receipt, after what else is still to be kept.
    pub receipts: Vec<NewReceipt>,
    pub now: Millis,
}

/// How a worker claims.
#[derive(Clone, Copy, Debug)]
pub struct Claiming<'a> {
    pub node: &'a str,
    pub lease_ms: Millis,
    /// Runs of one repository at a time, over all nodes that hold to the same number; `None` for any.
    pub per_repository: Option<u32>,
    pub now: Millis,
}

/// Claims the run whose turn it is, in a database whose repositories run as much at a time as they like.
pub async fn claim(
    db: &Db,
    node: &str,
    lease_ms: Millis,
    now: Millis,
) -> Result<Option<Claimed>, StoreError> {
    claim_within(db, Claiming { node, lease_ms, per_repository: None, now }).await
}

/// Claims the run whose turn it is, or one whose worker has let its lease run out. Of the runs on one
/// commit only one runs at a time, and of one repository as many as are allowed.
///
/// A run that was left with a launch whose result is not known is suspended instead, and the next
/// one is looked at. `None` means: look again later.
pub async fn claim_within(db: &Db, claiming: Claiming<'_>) -> Result<Option<Claimed>, StoreError> {
    let mut lost = 0;
    while lost < MAX_LOST_CLAIMS {
        match claim_one(db, claiming).await? {
            Taken::Claimed(claimed) => return Ok(Some(*claimed)),
            Taken::Suspended => {}
            Taken::Lost => lost += 1,
            Taken::Nothing => return Ok(None),
        }
    }
    Ok(None)
}

enum Taken {
    Claimed(Box<Claimed>),
    Suspended,
    /// Another claimer was faster; there is more.
    Lost,
    Nothing,
}

/// Which runs may be claimed at `$1`: those that wait, and those whose worker let its lease run out;
/// but none whose lane another run holds.
macro_rules! claimable {
    () => {
        "runs.state IN ('queued', 'running') AND (runs.state = 'queued' OR runs.lease_until <= $1)
         AND NOT EXISTS (SELECT 1 FROM runs AS holder WHERE holder.lane = runs.lane
                         AND holder.state = 'running' AND holder.id <> runs.id)"
    };
}

/// The claim in one statement, with a further condition and what else it sets.
macro_rules! claim_sql {
    ($set:literal, $condition:literal) => {
        concat!(
            "UPDATE runs SET state = 'running', detail = $2, fence = fence + 1, lease_until = $3,
                node = $4, started_at = COALESCE(started_at, $1), updated_at = $1",
            $set,
            " WHERE id = (SELECT id FROM runs WHERE ",
            claimable!(),
            $condition,
            " ORDER BY place, created_at, id LIMIT 1) AND ",
            claimable!(),
            " RETURNING id, job, fence, halt, created_at, started_at"
        )
    };
}

async fn claim_one(db: &Db, claiming: Claiming<'_>) -> Result<Taken, StoreError> {
    const ANY: &str = claim_sql!(", slot = NULL", "");
    // Two claimers that take the same slot meet in its index, and the second has lost.
    const WITHIN: &str = claim_sql!(
        ", slot = CASE WHEN state = 'running' AND slot IS NOT NULL THEN slot
            WHEN NOT EXISTS (SELECT 1 FROM runs AS s WHERE s.repository = runs.repository
                AND s.state = 'running' AND s.slot = 0) THEN 0
            ELSE (SELECT MIN(s.slot) + 1 FROM runs AS s WHERE s.repository = runs.repository
                AND s.state = 'running' AND NOT EXISTS (SELECT 1 FROM runs AS t
                    WHERE t.repository = s.repository AND t.state = 'running' AND t.slot = s.slot + 1)) END",
        " AND (runs.state = 'running' OR (SELECT COUNT(*) FROM runs AS s
            WHERE s.repository = runs.repository AND s.state = 'running') < $5)"
    );
    let Claiming { node, lease_ms, per_repository, now } = claiming;
    type Row = (String, String, i64, Option<String>, i64, i64);
    // A run whose lease was lost is queued again and claimed, in one step.
    let running = json(&RunState::Queued.apply(RunEvent::Claim)?);
    let mut tx = db.write().await?;
    let lease_until = now.saturating_add(lease_ms);
    let taken = match per_repository {
        None => fetch_optional!(tx, Row, ANY, now, running, lease_until, plain(node)),
        Some(most) => {
            fetch_optional!(tx, Row, WITHIN, now, running, lease_until, plain(node), i64::from(most.max(1)))
        }
    };
    let row = match taken {
        Ok(row) => row,
        // On PostgreSQL two claimers of one lane or slot meet in its index, and the second has lost.
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => return Ok(Taken::Lost),
        Err(error) => return Err(error.into()),
    };
    let Some((run, job, fence, halt, created_at, started_at)) = row else {
        let left = is_work_left(&mut tx, per_repository, now).await?;
        return if left { Ok(Taken::Lost) } else { Ok(Taken::Nothing) };
    };
    let (run, job_id) = (parse::<RunId>("a run's id", &run)?, parse::<JobId>("a job's id", &job)?);
    if launches::mark_uncertain(&mut tx, &run, now).await? > 0 {
        let why = Suspension::UncertainLaunch;
        change(&mut tx, &run, Fence(fence), RunEvent::Suspend(why), now).await?;
        tx.commit().await?;
        return Ok(Taken::Suspended);
    }
    let job = job_in(&mut tx, &job_id).await?;
    outbox::tell_check_run(&mut tx, &run, now).await?;
    tx.commit().await?;
    crate::fault::point("after-claim");
    let halt = halt.map(|halt| from_json("a halt request", &halt)).transpose()?;
    let claimed = Claimed { run, job_id, job, fence: Fence(fence), halt, created_at, started_at };
    Ok(Taken::Claimed(Box::new(claimed)))
}

/// On PostgreSQL a losing claimer gets no row though there is more.
async fn is_work_left(tx: &mut Tx, per_repository: Option<u32>, now: Millis) -> Result<bool, StoreError> {
    const ANY: &str = concat!("SELECT id FROM runs WHERE ", claimable!(), " LIMIT 1");
    const WITHIN: &str = concat!(
        "SELECT id FROM runs WHERE ",
        claimable!(),
        " AND (runs.state = 'running' OR (SELECT COUNT(*) FROM runs AS s
            WHERE s.repository = runs.repository AND s.state = 'running') < $2) LIMIT 1"
    );
    let found = match per_repository {
        None => fetch_optional!(tx, (String,), ANY, now)?,
        Some(most) => fetch_optional!(tx, (String,), WITHIN, now, i64::from(most.max(1)))?,
    };
    Ok(found.is_some())
}

/// Prolongs the lease.
pub async fn heartbeat(
    db: &Db,
    run: &RunId,
    fence: Fence,
    lease_ms: Millis,
    now: Millis,
) -> Result<Pulse, StoreError> {
    const SQL: &str = "UPDATE runs SET lease_until = $1
        WHERE id = $2 AND fence = $3 AND state = 'running' RETURNING halt";
    let mut tx = db.write().await?;
    let row =
        fetch_optional!(tx, (Option<String>,), SQL, now.saturating_add(lease_ms), run.as_str(), fence.0)?;
    let (halt,) = row.ok_or_else(|| lost(run))?;
    tx.commit().await?;
    Ok(Pulse { halt: halt.map(|halt| from_json("a halt request", &halt)).transpose()? })
}

/// Enters a phase.
pub async fn enter(db: &Db, run: &RunId, fence: Fence, phase: Phase, now: Millis) -> Result<(), StoreError> {
    change_alone(db, run, fence, RunEvent::Enter(phase), now).await
}

/// Lets the run wait for a person or a look-up, and lets go of it.
pub async fn suspend(
    db: &Db,
    run: &RunId,
    fence: Fence,
    why: Suspension,
    now: Millis,
) -> Result<(), StoreError> {
    change_alone(db, run, fence, RunEvent::Suspend(why), now).await
}

/// Lets go of the run so that another worker takes it up at once: a worker's last act before it ends.
pub async fn requeue(db: &Db, run: &RunId, fence: Fence, now: Millis) -> Result<(), StoreError> {
    change_alone(db, run, fence, RunEvent::LeaseLost, now).await
}

/// Queues a suspended run again. Its uncertain launches are given up in the name of `by`.
pub async fn resume(db: &Db, run: &RunId, by: &str, now: Millis) -> Result<(), StoreError> {
    let mut tx = db.write().await?;
    let (fence, _) = lock(&mut tx, run, now).await?;
    change(&mut tx, run, fence, RunEvent::Resume, now).await?;
    launches::abandon_uncertain(&mut tx, run, by, now).await?;
    tx.commit().await
}

/// Asks that the run ends as `Halted`. The first request counts. A suspended run is queued, so that
/// a worker can seal it; its uncertain launches stay what they are.
pub async fn cancel(db: &Db, run: &RunId, request: &HaltRequest, now: Millis) -> Result<Halting, StoreError> {
    const SQL: &str = "UPDATE runs SET halt = COALESCE(halt, $1),
            halt_requested_at = COALESCE(halt_requested_at, $2) WHERE id = $3";
    let mut tx = db.write().await?;
    let (fence, state) = lock(&mut tx, run, now).await?;
    match state {
        RunState::Finished { .. } => return Ok(Halting::AlreadyFinished),
        RunState::Suspended { .. } => change(&mut tx, run, fence, RunEvent::Resume, now).await?,
        RunState::Queued | RunState::Running { .. } => {}
    }
    execute!(tx, SQL, json(request), now, run.as_str())?;
    tx.ring(Topic::Runs);
    tx.commit().await?;
    Ok(Halting::Requested)
}

/// Ends the run: its state, the seals of journal and chain, and what the forge is told, all or nothing.
pub async fn settle(db: &Db, settlement: Settlement) -> Result<(), StoreError> {
    let Settlement { run, fence, outcome, entry, receipts, now } = settlement;
    let mut tx = db.write().await?;
    hold(&mut tx, &run, fence, now).await?;
    journal::append_in(&mut tx, &run, &entry, now).await?;
    for receipt in &receipts {
        receipts::append_in(&mut tx, &run, receipt, now).await?;
    }
    change(&mut tx, &run, fence, RunEvent::Settle(outcome), now).await?;
    crate::fault::point("before-settle-commit");
    tx.commit().await?;
    crate::fault::point("after-settle-commit");
    Ok(())
}

/// Holds the run's row until the transaction ends, if the fence is the run's own and it is running.
pub(super) async fn hold(tx: &mut Tx, run: &RunId, fence: Fence, now: Millis) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE runs SET updated_at = $1 WHERE id = $2 AND fence = $3 AND state = 'running'";
    match execute!(tx, SQL, now, run.as_str(), fence.0)? {
        0 => Err(lost(run)),
        _ => Ok(()),
    }
}

/// Holds the run's row until the transaction ends, for one who is not its worker.
async fn lock(tx: &mut Tx, run: &RunId, now: Millis) -> Result<(Fence, RunState), StoreError> {
    const SQL: &str = "UPDATE runs SET updated_at = $1 WHERE id = $2 RETURNING fence, detail";
    let row = fetch_optional!(tx, (i64, String), SQL, now, run.as_str())?;
    let (fence, detail) = row.ok_or_else(|| StoreError::NotFound { what: format!("run {run}") })?;
    Ok((Fence(fence), from_json("a run's state", &detail)?))
}

async fn change_alone(
    db: &Db,
    run: &RunId,
    fence: Fence,
    event: RunEvent,
    now: Millis,
) -> Result<(), StoreError> {
    let mut tx = db.write().await?;
    hold(&mut tx, run, fence, now).await?;
    change(&mut tx, run, fence, event, now).await?;
    tx.commit().await
}

/// Applies `event`, and has the forge told of the new state. The caller holds the run's row.
async fn change(
    tx: &mut Tx,
    run: &RunId,
    fence: Fence,
    event: RunEvent,
    now: Millis,
) -> Result<(), StoreError> {
    const READ: &str = "SELECT detail FROM runs WHERE id = $1 AND fence = $2";
    const WRITE: &str = "UPDATE runs SET state = $1, detail = $2, finished_at = $3, updated_at = $4
        WHERE id = $5 AND fence = $6";
    let row = fetch_optional!(tx, (String,), READ, run.as_str(), fence.0)?;
    let (detail,) = row.ok_or_else(|| lost(run))?;
    let on_the_way = matches!(event, RunEvent::Enter(_));
    let state = from_json::<RunState>("a run's state", &detail)?.apply(event)?;
    let finished_at = match &state {
        RunState::Finished { .. } => Some(now),
        RunState::Queued | RunState::Running { .. } | RunState::Suspended { .. } => None,
    };
    if execute!(tx, WRITE, state.name(), json(&state), finished_at, now, run.as_str(), fence.0)? == 0 {
        return Err(lost(run));
    }
    match state {
        RunState::Queued | RunState::Suspended { .. } | RunState::Finished { .. } => tx.ring(Topic::Runs),
        RunState::Running { .. } => {}
    }
    if on_the_way {
        outbox::tell_progress(tx, run, now).await
    } else {
        outbox::tell_check_run(tx, run, now).await
    }
}

async fn job_in(tx: &mut Tx, id: &JobId) -> Result<JobSpec, StoreError> {
    const SQL: &str = "SELECT spec FROM jobs WHERE id = $1";
    let row = fetch_optional!(tx, (String,), SQL, id.as_str())?;
    let (spec,) = row.ok_or_else(|| StoreError::NotFound { what: format!("job {id}") })?;
    from_json("a job", &spec)
}

fn lost(run: &RunId) -> StoreError {
    StoreError::FenceLost { run: run.clone() }
}

#[cfg(test)]
mod tests;
