//! Claiming runs, one worker a run, and letting go of them.

use std::sync::Arc;
use std::time::Duration;

use jobs::run::{HaltReason, Outcome, RunState, Suspension};
use jobs::store::runs::{self, Claimed, Claiming};
use jobs::store::{StoreError, Topic};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::cx::Cx;
use super::drive::{self, Driven};
use super::folders::Folders;
use super::lease::{Heartbeat, Interrupts, LEASE_MS};
use super::ledger::Ledger;
use super::{Engine, Interrupt, Let, PhaseError, whole};
use crate::progress::{Attempt, Happening};
use crate::recovery;

/// How long a worker sleeps when nobody rings.
const POLL: Duration = Duration::from_secs(5);

impl Engine {
    /// Claims and drives runs until `cancel`, then lets what is under way go on for a while, hands the rest
    /// back and returns.
    pub async fn work(self: Arc<Self>, cancel: CancellationToken) {
        // What ends the runs under way, which is later than what ends the claims.
        let shutdown = CancellationToken::new();
        let mut bell = self.db.waiter(Topic::Runs);
        let mut under_way = JoinSet::new();
        while !cancel.is_cancelled() {
            let claimed = if under_way.len() < self.concurrency.max(1) { self.claim().await } else { None };
            if let Some(claimed) = claimed {
                let (engine, shutdown) = (Arc::clone(&self), shutdown.clone());
                under_way.spawn(async move { engine.take(claimed, shutdown).await });
                continue;
            }
            tokio::select! {
                () = cancel.cancelled() => {}
                () = bell.wait(POLL) => {}
                Some(ended) = under_way.join_next(), if !under_way.is_empty() => report(ended),
            }
        }
        tracing::info!(runs = under_way.len(), "no run is claimed any more");
        let drained = tokio::time::timeout(self.drain, join(&mut under_way)).await;
        if drained.is_err() {
            shutdown.cancel();
            join(&mut under_way).await;
        }
    }

    /// Claims one run and drives it until this worker lets go of it; `None` when there is none.
    pub async fn run_one(&self, cancel: CancellationToken) -> Option<Let> {
        match self.claim().await {
            Some(claimed) => Some(self.take(claimed, cancel).await),
            None => None,
        }
    }

    async fn claim(&self) -> Option<Claimed> {
        let claiming = Claiming {
            node: &self.node,
            lease_ms: LEASE_MS,
            per_repository: self.repository_concurrency,
            now: self.clock.now(),
        };
        match runs::claim_within(&self.db, claiming).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::error!(error = whole(&error), "cannot claim a run");
                None
            }
        }
    }

    /// Drives a claimed run under its heartbeat.
    async fn take(&self, claimed: Claimed, shutdown: CancellationToken) -> Let {
        let run = claimed.run.clone();
        let interrupts = Interrupts::default();
        if let Some(halt) = claimed.halt.clone() {
            interrupts.raise(Interrupt::Halt(halt));
        }
        let ledger = Ledger::load(
            &self.db,
            &claimed,
            Arc::clone(&self.signer),
            Arc::clone(&self.clock),
            self.progress.clone(),
        );
        let ledger = match ledger.await {
            Ok(ledger) => ledger,
            Err(error) => {
                tracing::error!(run.id = %run, error = whole(&error), "cannot load the run's journal");
                return Let::Dropped(run);
            }
        };
        let attempt = if ledger.steps().is_empty() { Attempt::First } else { Attempt::Again };
        let subject = format!("{} {}", claimed.job.repository, claimed.job.head);
        ledger.tell(Happening::Claimed { subject, attempt });
        let limit_ms = claimed.job.limits.max_runtime_ms;
        let left = limit_ms.saturating_sub(recovery::worked_ms(ledger.steps()));
        let heartbeat = Heartbeat {
            db: self.db.clone(),
            run: run.clone(),
            fence: claimed.fence,
            clock: Arc::clone(&self.clock),
            interrupts: interrupts.clone(),
            deadline: self.clock.now().saturating_add(i64::try_from(left).unwrap_or(i64::MAX)),
            limit_ms,
            shutdown,
        };
        // Ends the heartbeat even when the drive ends by a panic: a beat without a worker would keep the
        // run from everyone for good.
        let stop = CancellationToken::new();
        let stopping = stop.clone().drop_guard();
        let beating = tokio::spawn(heartbeat.beat(stop.clone()));
        let folders = Folders::of(&self.data_dir, &run);
        let mut cx = Cx { engine: self, claimed: &claimed, ledger, folders, interrupts };
        let driven = drive::drive(&mut cx).await;
        let letting = self.let_go(&mut cx, driven).await;
        drop(stopping);
        if let Err(error) = beating.await {
            tracing::error!(run.id = %run, %error, "the heartbeat ended by a panic");
        }
        letting
    }

    /// Turns how the drive ended into what the store is told.
    async fn let_go(&self, cx: &mut Cx<'_>, driven: Result<Driven, PhaseError>) -> Let {
        let run = cx.run().clone();
        let done = match driven {
            Ok(Driven::Finished) => Ok(Let::Finished(run.clone())),
            Ok(Driven::Suspend(launch)) | Err(PhaseError::Uncertain(launch)) => {
                tracing::warn!(run.id = %run, launch.id = %launch, "a launch has no result; the run waits for a person");
                self.suspend(cx, Suspension::UncertainLaunch).await
            }
            Err(PhaseError::Interrupted(Interrupt::Halt(request))) => {
                drive::settle(cx, halted(request.reason)).await.map(|()| Let::Finished(run.clone()))
            }
            Err(PhaseError::Interrupted(Interrupt::OutOfTime { limit_ms })) => {
                let why = format!("the run's {} s are spent", limit_ms / 1000);
                drive::settle(cx, halted(HaltReason::OutOfTime(why)))
                    .await
                    .map(|()| Let::Finished(run.clone()))
            }
            Err(PhaseError::Interrupted(Interrupt::Shutdown)) => {
                let (now, fence) = (self.clock.now(), cx.claimed.fence);
                let requeued = runs::requeue(&self.db, &run, fence, now).await;
                requeued.map(|()| Let::Requeued(run.clone())).map_err(PhaseError::from)
            }
            Err(PhaseError::Failed(failure)) => {
                drive::settle(cx, Outcome::Failed { failure }).await.map(|()| Let::Finished(run.clone()))
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(letting) => letting,
            Err(PhaseError::Store(StoreError::FenceLost { .. }) | PhaseError::Interrupted(_)) => {
                tracing::warn!(run.id = %run, "another worker has the run; stopped at once");
                self.mend_bundle(cx).await;
                Let::Dropped(run)
            }
            Err(error) => {
                tracing::error!(run.id = %run, error = whole(&error), "the run is left to its lease");
                Let::Dropped(run)
            }
        }
    }

    async fn suspend(&self, cx: &Cx<'_>, why: Suspension) -> Result<Let, PhaseError> {
        let run = cx.run().clone();
        runs::suspend(&self.db, &run, cx.claimed.fence, why.clone(), self.clock.now()).await?;
        cx.ledger.tell(Happening::Suspended { why });
        Ok(Let::Suspended(run))
    }

    /// A worker that was overtaken may have put its bundle over that of the one who ended the run.
    async fn mend_bundle(&self, cx: &Cx<'_>) {
        let run = cx.run();
        let finished = match runs::find(&self.db, run).await {
            Ok(Some(summary)) => matches!(summary.state, RunState::Finished { .. }),
            Ok(None) => false,
            Err(error) => {
                tracing::error!(run.id = %run, error = whole(&error), "cannot look at an overtaken run");
                false
            }
        };
        if !finished {
            return;
        }
        let place = super::bundle::folder(&self.data_dir, run);
        let places = (place.as_path(), place.as_path());
        let made = super::bundle::from_store(&self.db, &self.artifacts, &self.signer, places, run).await;
        if let Err(error) = made {
            tracing::error!(run.id = %run, error = whole(&error), "cannot make the bundle again");
        }
    }
}

async fn join(under_way: &mut JoinSet<Let>) {
    while let Some(ended) = under_way.join_next().await {
        report(ended);
    }
}

fn halted(reason: HaltReason) -> Outcome {
    let requeue_recommended = matches!(reason, HaltReason::OutOfTime(_));
    Outcome::Halted { reason, requeue_recommended }
}

fn report(ended: Result<Let, tokio::task::JoinError>) {
    match ended {
        Ok(letting) => tracing::info!(run.id = %letting.run(), letting = ?letting, "let go of a run"),
        Err(error) => tracing::error!(%error, "a run's worker ended by a panic; its lease decides"),
    }
}
