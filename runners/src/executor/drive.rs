//! The order of a run: from the clone to the seals, taken up wherever its journal stands.

use jobs::fault;
use jobs::id::LaunchId;
use jobs::run::{Failure, Outcome};
use jobs::step::{Output, SealReport, StepKind};
use jobs::store::runs;

use super::cx::{Cx, blocking};
use super::provision::Ready;
use super::{PhaseError, apply, baseline, bundle, install, navigate, propose, provision, verify};
use crate::governor::{self, History, Spent};
use crate::progress::Happening;
use crate::recovery::{Known, Next, REQUEUE, worked_ms};

/// How the drive ended when nothing interrupted it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Driven {
    Finished,
    /// It is not known whether this launch ran.
    Suspend(LaunchId),
}

/// Drives the run from where it stands to its end.
pub async fn drive(cx: &mut Cx<'_>) -> Result<Driven, PhaseError> {
    cx.folders.make().map_err(PhaseError::disk("make the folders"))?;
    reap(cx).await?;
    cx.ledger.open(cx.claimed).await?;
    fault::point("run-opened");
    cx.check_interrupt()?;
    match cx.plan().await?.next {
        Next::Suspend(launch) => return Ok(Driven::Suspend(launch)),
        Next::Settle(outcome) => return settle(cx, outcome).await.map(|()| Driven::Finished),
        Next::Provision
        | Next::Bootstrap
        | Next::Navigate
        | Next::Baseline
        | Next::Govern { .. }
        | Next::Propose { .. }
        | Next::Apply { .. }
        | Next::Verify { .. } => {}
    }
    let provisioned = provision::run(cx).await?;
    let installed = install::run(cx, provisioned).await?;
    let navigated = navigate::run(cx, installed).await?;
    let ready = baseline::run(cx, navigated).await?;
    repair(cx, ready).await
}

/// Takes away what an earlier worker of this run left on this node. One that still runs has lost its fence.
async fn reap(cx: &Cx<'_>) -> Result<(), PhaseError> {
    let reaped = cx.engine.sandbox.reap(cx.run().clone()).await;
    reaped.map_err(|error| PhaseError::internal(&super::whole(&error)))?;
    let folders = cx.folders.clone();
    blocking(move || folders.remove_leftovers().map_err(PhaseError::disk("remove what a worker left"))).await
}

/// Edit, verify and decide, until the journal says that nothing is left.
async fn repair(cx: &mut Cx<'_>, mut ready: Ready) -> Result<Driven, PhaseError> {
    loop {
        cx.check_interrupt()?;
        let plan = cx.plan().await?;
        match plan.next {
            Next::Govern { iteration } => govern(cx, &plan.known, iteration).await?,
            Next::Propose { iteration, answer } => {
                propose::run(cx, &ready, &plan.known, iteration, answer).await?;
            }
            Next::Apply { iteration, patch } => ready = apply::run(cx, ready, iteration, patch).await?,
            Next::Verify { iteration } => verify::run(cx, &ready, &plan.known, iteration).await?,
            Next::Settle(outcome) => return settle(cx, outcome).await.map(|()| Driven::Finished),
            Next::Suspend(launch) => return Ok(Driven::Suspend(launch)),
            Next::Provision | Next::Bootstrap | Next::Navigate | Next::Baseline => {
                return Err(PhaseError::internal("the journal goes back behind the baseline"));
            }
        }
    }
}

/// The governor's decision before an iteration.
async fn govern(cx: &mut Cx<'_>, known: &Known, iteration: u32) -> Result<(), PhaseError> {
    cx.ledger.begin(StepKind::Govern, iteration).await?;
    let churn_bytes = known.applied.iter().map(|change| patch_bytes(cx, change.patch)).sum();
    let spent = Spent { tokens: known.tokens, wall_ms: worked_ms(cx.ledger.steps()), churn_bytes };
    let decision =
        governor::check(&History { open: known.open.clone(), spent, fan_out: 1 }, &cx.job().limits);
    let mut figures = decision.figures.clone();
    let requeue = if decision.requeue_recommended() { "yes" } else { "no" };
    figures.push((REQUEUE.to_owned(), requeue.to_owned()));
    let output = Output::Governed { go: decision.goes(), why: decision.why, figures };
    cx.ledger.done(StepKind::Govern, iteration, output).await?;
    fault::point("run-governed");
    Ok(())
}

fn patch_bytes(cx: &Cx<'_>, patch: jobs::digest::Digest) -> u64 {
    // A patch that is gone from the folder stops the run where it is needed, not here.
    std::fs::metadata(cx.engine.artifacts.path(patch)).map_or(0, |found| found.len())
}

/// Ends the run: the seals are signed, the bundle is written, then all of it is stored in one transaction.
pub async fn settle(cx: &mut Cx<'_>, outcome: Outcome) -> Result<(), PhaseError> {
    let known = cx.plan().await?.known;
    let tree = known.tree_now().unwrap_or(&cx.job().tree).clone();
    let settlement = cx.ledger.seal(&tree, outcome.clone())?;
    let place = bundle::folder(&cx.engine.data_dir, cx.run());
    let (receipts, journal) = (cx.ledger.receipts().to_vec(), cx.ledger.entries().to_vec());
    let seal_report = cx.ledger.seal_report().map(SealReport::to_bytes);
    let (artifacts, signer) = (cx.engine.artifacts.clone(), std::sync::Arc::clone(&cx.engine.signer));
    blocking(move || {
        let contents = bundle::Contents {
            receipts: &receipts,
            decisions: &[],
            journal: &journal,
            seal_report,
            signer: &signer,
            issued: &place,
        };
        let written = bundle::write(&place, &artifacts, &contents);
        written.map_err(|error| PhaseError::internal(&super::whole(&error)))
    })
    .await?;
    fault::point("run-bundled");
    runs::settle(&cx.engine.db, settlement).await?;
    cx.ledger.tell(Happening::Finished { outcome });
    let folders = cx.folders.clone();
    let removed = blocking(move || folders.remove().map_err(PhaseError::disk("remove the folders"))).await;
    if let Err(error) = removed {
        tracing::warn!(run.id = %cx.run(), error = super::whole(&error), "folders of a finished run stay");
    }
    Ok(())
}

/// Records the failure of a step where it ends the run, so that a restart ends it too.
pub async fn in_step<T>(
    cx: &mut Cx<'_>,
    kind: StepKind,
    iteration: u32,
    result: Result<T, PhaseError>,
) -> Result<T, PhaseError> {
    let error = match result {
        Err(PhaseError::Failed(failure)) => {
            cx.ledger.failed(kind, iteration, words(&failure)).await?;
            return Err(PhaseError::Failed(failure));
        }
        Err(error @ (PhaseError::Write(_) | PhaseError::Artifact(_) | PhaseError::Disk { .. })) => error,
        Ok(_)
        | Err(
            PhaseError::Interrupted(_)
            | PhaseError::Uncertain(_)
            | PhaseError::Store(_)
            | PhaseError::OtherKey(_),
        ) => {
            return result;
        }
    };
    let why = super::whole(&error);
    cx.ledger.failed(kind, iteration, &why).await?;
    Err(PhaseError::Failed(Failure::Internal(why)))
}

fn words(failure: &Failure) -> &str {
    match failure {
        Failure::Provision(why)
        | Failure::Bootstrap(why)
        | Failure::NotRepaired(why)
        | Failure::Refused(why)
        | Failure::Inconclusive(why)
        | Failure::Agent(why)
        | Failure::Internal(why) => why,
    }
}
