//! The one transaction that turns a decided delivery into a job, a run and what the forge is told.

use crate::clock::Millis;
use crate::forge::Subject;
use crate::id::{JobId, RunId};
use crate::job::JobSpec;
use crate::message::Address;
use crate::run::RunState;

use super::db::{Db, Tx};
use super::deliveries::{self, Ticket};
use super::error::StoreError;
use super::outbox::{self, NewMessage};
use super::row::{json, parse, plain};
use super::turns;
use super::wake::Topic;

/// A decision, ready to be kept.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The delivery that is decided by this; `None` for a run that no webhook asked for.
    pub delivery: Option<Ticket>,
    pub decision: Decision,
    /// What else the forge is told. Not sent when the job turns out to be a duplicate.
    pub messages: Vec<NewMessage>,
    pub now: Millis,
}

/// What was decided.
#[derive(Clone, Debug)]
pub enum Decision {
    /// A run is queued, unless one with the same semantic key was accepted before.
    Admit {
        spec: Box<JobSpec>,
        /// Installation, repository, comment id and command digest, or what else names the request
        /// itself rather than its delivery.
        semantic_key: String,
    },
    /// Nothing to do.
    Ignore { why: String },
    /// Asked for, and not allowed or not possible.
    Refuse { why: String },
    /// Done otherwise: a cancel, a resume, an authorization, a help text.
    Handle { what: String },
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Acceptance {
    Queued {
        run: RunId,
        job: JobId,
    },
    /// The same request was accepted before, as this run.
    Duplicate {
        run: RunId,
    },
    /// The delivery is decided; there is no run.
    Decided,
}

/// Keeps the decision in one transaction: delivery, job, queued run, messages.
pub async fn accept(db: &Db, accepted: Accepted) -> Result<Acceptance, StoreError> {
    let Accepted { delivery, decision, messages, now } = accepted;
    let mut tx = db.write().await?;
    let acceptance = match &decision {
        Decision::Admit { spec, semantic_key } => queue(&mut tx, spec, semantic_key, now).await?,
        Decision::Ignore { .. } | Decision::Refuse { .. } | Decision::Handle { .. } => Acceptance::Decided,
    };
    if let Some(ticket) = &delivery {
        deliveries::decide_in(&mut tx, ticket, &sentence(&decision, &acceptance), now).await?;
    }
    match &acceptance {
        Acceptance::Duplicate { .. } => {}
        Acceptance::Queued { .. } | Acceptance::Decided => {
            for message in &messages {
                outbox::enqueue_in(&mut tx, message, now).await?;
            }
        }
    }
    crate::fault::point("before-accept-commit");
    tx.commit().await?;
    crate::fault::point("after-accept-commit");
    Ok(acceptance)
}

/// The decision as the delivery's row keeps it.
fn sentence(decision: &Decision, acceptance: &Acceptance) -> String {
    match (decision, acceptance) {
        (_, Acceptance::Queued { run, .. }) => format!("admitted as run {run}"),
        (_, Acceptance::Duplicate { run }) => format!("already admitted as run {run}"),
        (Decision::Admit { .. }, Acceptance::Decided) => "admitted".to_owned(),
        (Decision::Ignore { why }, Acceptance::Decided) => format!("ignored: {why}"),
        (Decision::Refuse { why }, Acceptance::Decided) => format!("refused: {why}"),
        (Decision::Handle { what }, Acceptance::Decided) => format!("handled: {what}"),
    }
}

async fn queue(
    tx: &mut Tx,
    spec: &JobSpec,
    semantic_key: &str,
    now: Millis,
) -> Result<Acceptance, StoreError> {
    const RUN: &str = "INSERT INTO runs (id, job, semantic_key, lane, state, detail, created_at, updated_at,
            repository, actor, turn, place)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10, $11) ON CONFLICT (semantic_key) DO NOTHING";
    const SAME: &str = "SELECT id FROM runs WHERE semantic_key = $1";
    let job = keep_job(tx, spec, now).await?;
    let (run, state, key) = (RunId::fresh(now), RunState::Queued, plain(semantic_key));
    let turn = turns::next(tx, spec, now).await?;
    let queued = execute!(
        tx,
        RUN,
        run.as_str(),
        job.as_str(),
        key.as_str(),
        lane(spec),
        state.name(),
        json(&state),
        now,
        turn.repository,
        turn.actor,
        turn.turn,
        turn.place,
    )?;
    if queued == 0 {
        let found = fetch_optional!(tx, (String,), SAME, key.as_str())?;
        let (run,) = found.ok_or_else(|| StoreError::NotFound { what: format!("run of request {key}") })?;
        return Ok(Acceptance::Duplicate { run: parse("a run's id", &run)? });
    }
    outbox::tell_check_run(tx, &run, now).await?;
    tx.ring(Topic::Runs);
    Ok(Acceptance::Queued { run, job })
}

/// Runs on the same commit of the same repository do not run at once; those on a checkout do.
fn lane(spec: &JobSpec) -> Option<String> {
    let repository = &spec.repository;
    match &spec.subject {
        Subject::PullRequest { .. } | Subject::Issue { .. } => {
            Some(plain(&format!("{} {repository} {}", repository.forge.name(), spec.head)))
        }
        Subject::Checkout => None,
    }
}

/// Keeps the job, which is its own name: the same one again is the same row.
async fn keep_job(tx: &mut Tx, spec: &JobSpec, now: Millis) -> Result<JobId, StoreError> {
    const SQL: &str = "INSERT INTO jobs (id, spec, forge, owner, name, number, head, address, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING";
    let id = spec.id();
    let text = String::from_utf8(spec.canonical()).expect("JSON is UTF-8");
    let address = match &spec.subject {
        Subject::PullRequest { .. } | Subject::Issue { .. } => {
            Some(json(&Address { repository: spec.repository.clone(), subject: spec.subject.clone() }))
        }
        Subject::Checkout => None,
    };
    let repository = &spec.repository;
    execute!(
        tx,
        SQL,
        id.as_str(),
        text.as_str(),
        repository.forge.name(),
        plain(&repository.owner),
        plain(&repository.name),
        spec.subject.number(),
        spec.head.as_str(),
        address.as_deref(),
        now,
    )?;
    Ok(id)
}

#[cfg(test)]
mod tests;
