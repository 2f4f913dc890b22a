//! The durable plan of a run: each change of a step is one row, tied to its line of the journal.

use crate::clock::Millis;
use crate::id::{Fence, RunId};
use crate::step::{StepKind, StepState};

use super::db::{Db, Tx};
use super::error::StoreError;
use super::receipts::NewReceipt;
use super::row::{count, from_json, from_word, json};
use super::signed::Signed;
use super::{journal, receipts, runs};

/// A step that begins or ends.
#[derive(Clone, Debug)]
pub struct NewStep {
    pub kind: StepKind,
    /// The first edit is 0.
    pub iteration: u32,
    pub state: StepState,
    /// The same as a signed line of the journal.
    pub entry: Signed,
    pub at: Millis,
}

/// A step as its row says.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The number of its line in the journal.
    pub seq: u32,
    pub kind: StepKind,
    pub iteration: u32,
    pub state: StepState,
    pub at: Millis,
}

/// Appends to the run's plan; gives the number of the journal's line.
pub async fn append(db: &Db, run: &RunId, fence: Fence, step: NewStep) -> Result<u32, StoreError> {
    let mut tx = db.write().await?;
    runs::hold(&mut tx, run, fence, step.at).await?;
    let seq = append_in(&mut tx, run, &step).await?;
    tx.commit().await?;
    Ok(seq)
}

/// One line of what belongs together.
#[derive(Clone, Debug)]
pub enum Line {
    /// A line of the journal that is no step.
    Entry(Signed),
    Step(NewStep),
    Receipt(NewReceipt),
}

/// Appends lines that mean something only together, in their order: all of them or none. Gives the
/// numbers of the steps' lines in the journal.
pub async fn record(
    db: &Db,
    run: &RunId,
    fence: Fence,
    lines: &[Line],
    now: Millis,
) -> Result<Vec<u32>, StoreError> {
    let mut tx = db.write().await?;
    runs::hold(&mut tx, run, fence, now).await?;
    let mut places = Vec::new();
    for line in lines {
        match line {
            Line::Entry(entry) => {
                journal::append_in(&mut tx, run, entry, now).await?;
            }
            Line::Step(step) => places.push(append_in(&mut tx, run, step).await?),
            Line::Receipt(receipt) => {
                receipts::append_in(&mut tx, run, receipt, now).await?;
            }
        }
    }
    tx.commit().await?;
    Ok(places)
}

/// The run's plan so far, in order.
pub async fn list(db: &Db, run: &RunId) -> Result<Vec<Step>, StoreError> {
    list_in(&mut db.read().await?, run).await
}

pub(super) async fn append_in(tx: &mut Tx, run: &RunId, step: &NewStep) -> Result<u32, StoreError> {
    const SQL: &str = "INSERT INTO steps (run, seq, kind, iteration, state, at)
        VALUES ($1, $2, $3, $4, $5, $6)";
    let seq = journal::append_in(tx, run, &step.entry, step.at).await?;
    let (place, iteration) = (i64::from(seq), i64::from(step.iteration));
    execute!(tx, SQL, run.as_str(), place, step.kind.name(), iteration, json(&step.state), step.at)?;
    Ok(seq)
}

pub(super) async fn list_in(tx: &mut Tx, run: &RunId) -> Result<Vec<Step>, StoreError> {
    const SQL: &str = "SELECT seq, kind, iteration, state, at FROM steps WHERE run = $1 ORDER BY seq";
    let rows = fetch_all!(tx, (i64, String, i64, String, i64), SQL, run.as_str())?;
    rows.into_iter()
        .map(|(seq, kind, iteration, state, at)| {
            Ok(Step {
                seq: count("a step's number", seq)?,
                kind: from_word("a step's kind", &kind)?,
                iteration: count("a step's iteration", iteration)?,
                state: from_json("a step's state", &state)?,
                at,
            })
        })
        .collect()
}
