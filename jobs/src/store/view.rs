//! A run with all that belongs to it, as one moment's picture: what pages, check runs and the command
//! line render from.

use crate::authorization::PushResult;
use crate::clock::Millis;
use crate::forge::{ForgeKind, Repository};
use crate::id::{CommitId, Fence, JobId, RunId};
use crate::job::JobSpec;
use crate::run::RunState;

use super::db::{Db, Tx};
use super::error::StoreError;
use super::row::{from_json, json, parse, plain};
use super::runs::HaltRequest;
use super::{authorizations, launches, outbox, receipts, steps};

/// A run without what hangs on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunSummary {
    pub id: RunId,
    pub job_id: JobId,
    pub job: JobSpec,
    pub state: RunState,
    pub fence: Fence,
    /// The node that holds it, or held it last.
    pub node: Option<String>,
    pub halt: Option<HaltRequest>,
    pub created_at: Millis,
    pub started_at: Option<Millis>,
    pub updated_at: Millis,
    pub finished_at: Option<Millis>,
}

/// A run with all that belongs to it.
#[derive(Clone, PartialEq, Debug)]
pub struct RunView {
    pub run: RunSummary,
    pub steps: Vec<steps::Step>,
    pub launches: Vec<launches::Launch>,
    pub receipts: Vec<receipts::Receipt>,
    pub authorizations: Vec<authorizations::Recorded>,
    pub outbox: Vec<outbox::Message>,
}

impl RunView {
    /// What was admitted.
    pub fn job(&self) -> &JobSpec {
        &self.run.job
    }

    /// The forge's id of the run's check run, once it was told.
    pub fn check_run(&self) -> Option<&str> {
        use crate::message::{MessageBody, MessageState};
        self.outbox.iter().rev().find_map(|message| match (&message.body, &message.state) {
            (MessageBody::CheckRun { .. }, MessageState::Sent { external_id }) => Some(external_id.as_str()),
            (
                MessageBody::CheckRun { .. }
                | MessageBody::Comment { .. }
                | MessageBody::Push { .. }
                | MessageBody::PolicyFault { .. },
                MessageState::Pending | MessageState::Sent { .. } | MessageState::Dead { .. },
            ) => None,
        })
    }
}

macro_rules! summaries {
    ($rest:literal) => {
        concat!(
            "SELECT runs.id, runs.job, jobs.spec, runs.detail, runs.fence, runs.node, runs.halt,
             runs.created_at, runs.started_at, runs.updated_at, runs.finished_at
             FROM runs JOIN jobs ON jobs.id = runs.job ",
            $rest
        )
    };
}

type Row =
    (String, String, String, String, i64, Option<String>, Option<String>, i64, Option<i64>, i64, Option<i64>);

/// All of one run; `None` where there is none.
pub async fn view(db: &Db, run: &RunId) -> Result<Option<RunView>, StoreError> {
    let mut tx = db.read().await?;
    let Some(summary) = find_in(&mut tx, run).await? else { return Ok(None) };
    Ok(Some(RunView {
        run: summary,
        steps: steps::list_in(&mut tx, run).await?,
        launches: launches::list_in(&mut tx, run).await?,
        receipts: receipts::list_in(&mut tx, run).await?,
        authorizations: authorizations::list_in(&mut tx, run).await?,
        outbox: outbox::list_in(&mut tx, run).await?,
    }))
}

/// One run without what hangs on it.
pub async fn find(db: &Db, run: &RunId) -> Result<Option<RunSummary>, StoreError> {
    find_in(&mut db.read().await?, run).await
}

/// The newest runs, newest first, at most `limit`.
pub async fn list(db: &Db, limit: u32) -> Result<Vec<RunSummary>, StoreError> {
    const SQL: &str = summaries!("ORDER BY runs.created_at DESC, runs.id DESC LIMIT $1");
    let mut tx = db.read().await?;
    let rows = fetch_all!(tx, Row, SQL, i64::from(limit))?;
    rows.into_iter().map(summary).collect()
}

/// The runs that were begun and have no end yet: what has a signed line and is not finished.
pub async fn begun(db: &Db) -> Result<Vec<RunId>, StoreError> {
    const SQL: &str = "SELECT id FROM runs
        WHERE state <> 'finished' AND EXISTS (SELECT 1 FROM journal WHERE journal.run = runs.id) ORDER BY id";
    let mut tx = db.read().await?;
    let rows = fetch_all!(tx, (String,), SQL)?;
    rows.into_iter().map(|(id,)| parse("a run's id", &id)).collect()
}

/// The runs on a pull request or issue, newest first, at most `limit`.
pub async fn of_subject(
    db: &Db,
    repository: &Repository,
    number: i64,
    limit: u32,
) -> Result<Vec<RunSummary>, StoreError> {
    const SQL: &str = summaries!(
        "WHERE jobs.forge = $1 AND jobs.owner = $2 AND jobs.name = $3 AND jobs.number = $4
         ORDER BY runs.created_at DESC, runs.id DESC LIMIT $5"
    );
    let (owner, name) = (plain(&repository.owner), plain(&repository.name));
    let mut tx = db.read().await?;
    let rows = fetch_all!(tx, Row, SQL, repository.forge.name(), owner, name, number, i64::from(limit))?;
    rows.into_iter().map(summary).collect()
}

/// The runs about a commit of a repository of this name on any forge, newest first, at most `limit`:
/// those that were asked to repair it, and the one whose push made it.
pub async fn of_commit(
    db: &Db,
    owner: &str,
    name: &str,
    commit: &CommitId,
    limit: u32,
) -> Result<Vec<RunSummary>, StoreError> {
    const SQL: &str = summaries!(
        "WHERE jobs.owner = $1 AND jobs.name = $2 AND runs.id IN (
            SELECT runs.id FROM runs JOIN jobs ON jobs.id = runs.job WHERE jobs.head = $3
            UNION SELECT run FROM authorizations WHERE substr(result, 1, 120) = $4)
         ORDER BY runs.created_at DESC, runs.id DESC LIMIT $5"
    );
    let pushed = json(&PushResult::Pushed { commit: commit.clone() });
    let mut tx = db.read().await?;
    let rows =
        fetch_all!(tx, Row, SQL, plain(owner), plain(name), commit.as_str(), pushed, i64::from(limit))?;
    rows.into_iter().map(summary).collect()
}

/// The newest run on a commit, whatever it is about.
pub async fn of_head(
    db: &Db,
    repository: &Repository,
    head: &CommitId,
) -> Result<Option<RunSummary>, StoreError> {
    const SQL: &str = summaries!(
        "WHERE jobs.forge = $1 AND jobs.owner = $2 AND jobs.name = $3 AND jobs.head = $4
         ORDER BY runs.created_at DESC, runs.id DESC LIMIT 1"
    );
    let (owner, name) = (plain(&repository.owner), plain(&repository.name));
    let mut tx = db.read().await?;
    let row = fetch_optional!(tx, Row, SQL, repository.forge.name(), owner, name, head.as_str())?;
    row.map(summary).transpose()
}

/// The run that a check run of the forge belongs to.
pub async fn by_check_run(db: &Db, forge: ForgeKind, external_id: &str) -> Result<Option<RunId>, StoreError> {
    const SQL: &str = "SELECT run FROM check_runs WHERE forge = $1 AND external_id = $2";
    let mut tx = db.read().await?;
    let row = fetch_optional!(tx, (String,), SQL, forge.name(), plain(external_id))?;
    row.map(|(run,)| parse("a check run's run", &run)).transpose()
}

async fn find_in(tx: &mut Tx, run: &RunId) -> Result<Option<RunSummary>, StoreError> {
    const SQL: &str = summaries!("WHERE runs.id = $1");
    fetch_optional!(tx, Row, SQL, run.as_str())?.map(summary).transpose()
}

fn summary(row: Row) -> Result<RunSummary, StoreError> {
    let (id, job_id, spec, detail, fence, node, halt, created_at, started_at, updated_at, finished_at) = row;
    Ok(RunSummary {
        id: parse("a run's id", &id)?,
        job_id: parse("a job's id", &job_id)?,
        job: from_json("a job", &spec)?,
        state: from_json("a run's state", &detail)?,
        fence: Fence(fence),
        node,
        halt: halt.map(|halt| from_json("a halt request", &halt)).transpose()?,
        created_at,
        started_at,
        updated_at,
        finished_at,
    })
}

impl RunSummary {
    /// The commit that is repaired.
    pub fn head(&self) -> &CommitId {
        &self.job.head
    }
}

#[cfg(test)]
mod tests;
