use std::collections::HashSet;

use super::super::accept;
use super::super::receipts::ReceiptKind;
use super::super::steps::{self, NewStep};
use super::super::testing::{LEASE, START, admit, each_db, queue, running, signed};
use super::*;
use crate::forge::ForgeKind;
use crate::message::{MessageBody, MessageState};
use crate::run::Failure;
use crate::step::{StepKind, StepState};

fn settlement(claimed: &Claimed) -> Settlement {
    Settlement {
        run: claimed.run.clone(),
        fence: claimed.fence,
        outcome: Outcome::Succeeded,
        entry: signed("journal seal"),
        receipts: vec![NewReceipt { kind: ReceiptKind::Seal, signed: signed("seal"), diff: None }],
        now: START,
    }
}

fn begun() -> NewStep {
    let entry = signed("provision begun");
    NewStep { kind: StepKind::Provision, iteration: 0, state: StepState::Begun, entry, at: START }
}

fn cancelled(by: &str) -> HaltRequest {
    HaltRequest { by: by.to_owned(), reason: HaltReason::Cancelled(format!("{by} asked")) }
}

async fn state(db: &Db, run: &RunId) -> RunState {
    find(db, run).await.unwrap().unwrap().state
}

#[tokio::test]
async fn twelve_claimers_claim_each_job_once() {
    each_db(async |db| {
        const JOBS: usize = 60;
        for number in 0..JOBS {
            queue(&db, &format!("comment/{number}"), START).await;
        }
        let left = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(JOBS));
        let workers: Vec<_> = (0..12)
            .map(|worker| {
                let (db, left) = (db.clone(), left.clone());
                tokio::spawn(async move {
                    let mut mine = Vec::new();
                    while left.load(std::sync::atomic::Ordering::SeqCst) > 0 {
                        // A losing claimer gets nothing though work remains, and looks again.
                        if let Some(claimed) = claim(&db, &worker.to_string(), LEASE, START).await.unwrap() {
                            left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                            mine.push(claimed.run);
                        }
                    }
                    mine
                })
            })
            .collect();
        let mut claimed = Vec::new();
        for worker in workers {
            claimed.extend(worker.await.unwrap());
        }
        assert_eq!(claimed.len(), JOBS);
        assert_eq!(claimed.into_iter().collect::<HashSet<_>>().len(), JOBS);
        assert!(claim(&db, "late", LEASE, START).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn the_run_that_has_waited_longest_is_claimed_first() {
    each_db(async |db| {
        let second = queue(&db, "comment/2", START + 1).await;
        let first = queue(&db, "comment/1", START).await;
        assert_eq!(claim(&db, "n", LEASE, START + 2).await.unwrap().unwrap().run, first);
        assert_eq!(claim(&db, "n", LEASE, START + 2).await.unwrap().unwrap().run, second);
    })
    .await;
}

#[tokio::test]
async fn an_expired_lease_is_taken_over_with_a_higher_fence() {
    each_db(async |db| {
        let dead = running(&db, "comment/1", START).await;
        assert!(claim(&db, "b", LEASE, START + LEASE - 1).await.unwrap().is_none());
        let alive = claim(&db, "b", LEASE, START + LEASE).await.unwrap().unwrap();
        assert_eq!(alive.run, dead.run);
        assert!(alive.fence > dead.fence);
        assert_eq!(alive.started_at, START, "it started when it was first claimed");
    })
    .await;
}

#[tokio::test]
async fn a_heartbeat_prolongs_the_lease() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        heartbeat(&db, &claimed.run, claimed.fence, LEASE, START + LEASE - 1).await.unwrap();
        assert!(claim(&db, "b", LEASE, START + LEASE).await.unwrap().is_none());
        assert!(claim(&db, "b", LEASE, START + 2 * LEASE).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn stale_fence_cannot_settle() {
    each_db(async |db| {
        let dead = running(&db, "comment/1", START).await;
        let alive = claim(&db, "b", LEASE, START + LEASE).await.unwrap().unwrap();
        let refused = settle(&db, settlement(&dead)).await;
        assert!(matches!(refused, Err(StoreError::FenceLost { .. })), "{refused:?}");
        let seen = view(&db, &dead.run).await.unwrap().unwrap();
        assert_eq!(seen.run.state, RunState::Running { phase: Phase::Provision });
        assert_eq!(seen.receipts, [], "not even the receipt is kept");
        settle(&db, settlement(&alive)).await.unwrap();
        assert_eq!(state(&db, &dead.run).await, RunState::Finished { outcome: Outcome::Succeeded });
    })
    .await;
}

#[tokio::test]
async fn stale_fence_cannot_write_anything() {
    each_db(async |db| {
        let Claimed { run, fence, .. } = running(&db, "comment/1", START).await;
        claim(&db, "b", LEASE, START + LEASE).await.unwrap().unwrap();
        let before = view(&db, &run).await.unwrap().unwrap();
        let receipt = NewReceipt { kind: ReceiptKind::Open, signed: signed("open"), diff: None };
        let refusals = [
            heartbeat(&db, &run, fence, LEASE, START).await.map(|_| ()),
            enter(&db, &run, fence, Phase::Bootstrap, START).await,
            suspend(&db, &run, fence, Suspension::Requested, START).await,
            requeue(&db, &run, fence, START).await,
            steps::append(&db, &run, fence, begun()).await.map(|_| ()),
            journal::append(&db, &run, fence, &signed("x"), START).await.map(|_| ()),
            receipts::append(&db, &run, fence, &receipt, START).await.map(|_| ()),
        ];
        for (place, refused) in refusals.into_iter().enumerate() {
            assert!(matches!(refused, Err(StoreError::FenceLost { .. })), "{place}: {refused:?}");
        }
        assert_eq!(view(&db, &run).await.unwrap().unwrap(), before);
        assert_eq!(journal::list(&db, &run).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_finished_run_takes_no_further_write_and_is_never_claimed() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        settle(&db, settlement(&claimed)).await.unwrap();
        let again = settle(&db, settlement(&claimed)).await;
        assert!(matches!(again, Err(StoreError::FenceLost { .. })), "one end: {again:?}");
        assert!(steps::append(&db, &claimed.run, claimed.fence, begun()).await.is_err());
        assert!(claim(&db, "b", LEASE, START + 99 * LEASE).await.unwrap().is_none());
        let halting = cancel(&db, &claimed.run, &cancelled("ada"), START).await.unwrap();
        assert_eq!(halting, Halting::AlreadyFinished);
    })
    .await;
}

#[tokio::test]
async fn a_settled_run_has_its_end_its_seals_and_its_message() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        steps::append(&db, &claimed.run, claimed.fence, begun()).await.unwrap();
        let failure = Failure::NotRepaired("still red".to_owned());
        let outcome = Outcome::Failed { failure };
        let ended = Settlement { outcome: outcome.clone(), now: START + 5, ..settlement(&claimed) };
        settle(&db, ended).await.unwrap();
        let seen = view(&db, &claimed.run).await.unwrap().unwrap();
        assert_eq!(seen.run.state, RunState::Finished { outcome });
        assert_eq!(seen.run.finished_at, Some(START + 5));
        assert_eq!(seen.receipts.len(), 1);
        assert_eq!(seen.receipts[0].signed, signed("seal"));
        let journal = journal::list(&db, &claimed.run).await.unwrap();
        assert_eq!(journal, [signed("provision begun"), signed("journal seal")]);
        assert_eq!(seen.outbox.last().unwrap().state, MessageState::Pending);
    })
    .await;
}

#[tokio::test]
async fn steps_are_the_numbered_lines_of_the_journal() {
    each_db(async |db| {
        let Claimed { run, fence, .. } = running(&db, "comment/1", START).await;
        assert_eq!(journal::append(&db, &run, fence, &signed("admit"), START).await.unwrap(), 0);
        assert_eq!(steps::append(&db, &run, fence, begun()).await.unwrap(), 1);
        let failed = NewStep { state: StepState::Failed { error: "no clone".to_owned() }, ..begun() };
        assert_eq!(steps::append(&db, &run, fence, failed.clone()).await.unwrap(), 2);
        let kept = steps::list(&db, &run).await.unwrap();
        assert_eq!(kept.iter().map(|step| step.seq).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((&kept[0].state, &kept[1].state), (&StepState::Begun, &failed.state));
        assert_eq!(journal::list(&db, &run).await.unwrap().len(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_phase_is_entered_only_as_the_machine_says() {
    each_db(async |db| {
        let Claimed { run, fence, .. } = running(&db, "comment/1", START).await;
        enter(&db, &run, fence, Phase::Verify, START).await.unwrap();
        enter(&db, &run, fence, Phase::Edit, START).await.unwrap();
        let back = enter(&db, &run, fence, Phase::Provision, START).await;
        assert!(matches!(back, Err(StoreError::Illegal(_))), "{back:?}");
        assert_eq!(state(&db, &run).await, RunState::Running { phase: Phase::Edit });
    })
    .await;
}

#[tokio::test]
async fn a_requeued_run_is_claimed_at_once_with_a_higher_fence() {
    each_db(async |db| {
        let first = running(&db, "comment/1", START).await;
        requeue(&db, &first.run, first.fence, START).await.unwrap();
        let second = claim(&db, "b", LEASE, START).await.unwrap().unwrap();
        assert!(second.fence > first.fence);
        assert!(matches!(
            requeue(&db, &first.run, first.fence, START).await,
            Err(StoreError::FenceLost { .. })
        ));
    })
    .await;
}

#[tokio::test]
async fn a_cancel_reaches_the_worker_and_the_first_one_counts() {
    each_db(async |db| {
        let Claimed { run, fence, .. } = running(&db, "comment/1", START).await;
        assert_eq!(heartbeat(&db, &run, fence, LEASE, START).await.unwrap().halt, None);
        assert_eq!(cancel(&db, &run, &cancelled("ada"), START).await.unwrap(), Halting::Requested);
        assert_eq!(cancel(&db, &run, &cancelled("eve"), START).await.unwrap(), Halting::Requested);
        let pulse = heartbeat(&db, &run, fence, LEASE, START).await.unwrap();
        assert_eq!(pulse.halt, Some(cancelled("ada")));
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_waiting_run_is_claimed_with_the_request() {
    each_db(async |db| {
        let queued = queue(&db, "comment/1", START).await;
        cancel(&db, &queued, &cancelled("ada"), START).await.unwrap();
        let claimed = claim(&db, "n", LEASE, START).await.unwrap().unwrap();
        assert_eq!(claimed.halt, Some(cancelled("ada")));
        suspend(&db, &claimed.run, claimed.fence, Suspension::Requested, START).await.unwrap();
        assert!(claim(&db, "n", LEASE, START).await.unwrap().is_none(), "suspended runs wait");
        cancel(&db, &queued, &cancelled("eve"), START).await.unwrap();
        let claimed = claim(&db, "n", LEASE, START).await.unwrap().unwrap();
        assert_eq!(claimed.halt, Some(cancelled("ada")));
    })
    .await;
}

#[tokio::test]
async fn only_a_suspended_run_is_resumed() {
    each_db(async |db| {
        let Claimed { run, fence, .. } = running(&db, "comment/1", START).await;
        assert!(matches!(resume(&db, &run, "ada", START).await, Err(StoreError::Illegal(_))));
        suspend(&db, &run, fence, Suspension::Requested, START).await.unwrap();
        resume(&db, &run, "ada", START).await.unwrap();
        assert_eq!(state(&db, &run).await, RunState::Queued);
        let unknown = RunId::fresh(START);
        assert!(matches!(resume(&db, &unknown, "ada", START).await, Err(StoreError::NotFound { .. })));
    })
    .await;
}

#[tokio::test]
async fn runs_are_found_by_subject_and_by_check_run() {
    each_db(async |db| {
        let old = queue(&db, "comment/1", START).await;
        let new = queue(&db, "comment/2", START + 1).await;
        let repository = crate::store::testing::repository();
        let found = of_subject(&db, &repository, 5, 10).await.unwrap();
        assert_eq!(found.iter().map(|run| &run.id).collect::<Vec<_>>(), [&new, &old]);
        assert_eq!(of_subject(&db, &repository, 6, 10).await.unwrap(), []);
        assert_eq!(list(&db, 1).await.unwrap()[0].id, new);
        let message = outbox::claim(&db, "n", LEASE, START + 1).await.unwrap().unwrap();
        assert_eq!(message.body, MessageBody::CheckRun { run: old.clone() });
        outbox::sent(&db, &message, "8137", START + 1).await.unwrap();
        assert_eq!(by_check_run(&db, ForgeKind::Local, "8137").await.unwrap(), Some(old.clone()));
        assert_eq!(by_check_run(&db, ForgeKind::Github, "8137").await.unwrap(), None);
        assert_eq!(view(&db, &old).await.unwrap().unwrap().check_run(), Some("8137"));
        assert_eq!(view(&db, &RunId::fresh(START)).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_receipt_after_the_seal_takes_its_place_or_none() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        let yes = NewReceipt { kind: ReceiptKind::Authorize, signed: signed("authorize"), diff: None };
        let early = receipts::append_after_seal(&db, &claimed.run, 1, &yes, START).await;
        assert!(matches!(early, Err(StoreError::NotFound { .. })), "{early:?}");
        settle(&db, settlement(&claimed)).await.unwrap();
        receipts::append_after_seal(&db, &claimed.run, 1, &yes, START).await.unwrap();
        let again = receipts::append_after_seal(&db, &claimed.run, 1, &yes, START).await;
        assert!(matches!(again, Err(StoreError::LeaseLost { .. })), "{again:?}");
        let kept = receipts::list(&db, &claimed.run).await.unwrap();
        assert_eq!(
            kept.iter().map(|one| one.kind).collect::<Vec<_>>(),
            [ReceiptKind::Seal, ReceiptKind::Authorize]
        );
    })
    .await;
}

#[tokio::test]
async fn runs_on_one_commit_run_one_after_the_other() {
    each_db(async |db| {
        let first = accept(&db, admit("comment/1", "a", START)).await.unwrap();
        let second = accept(&db, admit("comment/1", "b", START + 1)).await.unwrap();
        assert_ne!(first, second);
        let other = queue(&db, "comment/2", START + 2).await;
        let held = claim(&db, "n", LEASE, START + 2).await.unwrap().unwrap();
        assert_eq!(claim(&db, "n", LEASE, START + 2).await.unwrap().unwrap().run, other);
        assert!(claim(&db, "n", LEASE, START + 2).await.unwrap().is_none());
        settle(&db, settlement(&held)).await.unwrap();
        assert!(claim(&db, "n", LEASE, START + 2).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn claimers_of_one_lane_never_run_at_once() {
    each_db(async |db| {
        for number in 0..8 {
            accept(&db, admit("comment/1", &number.to_string(), START)).await.unwrap();
        }
        let claimers: Vec<_> = (0..8)
            .map(|_| {
                let db = db.clone();
                tokio::spawn(async move { claim(&db, "n", LEASE, START).await.unwrap() })
            })
            .collect();
        let mut claimed = 0;
        for claimer in claimers {
            claimed += u32::from(claimer.await.unwrap().is_some());
        }
        assert_eq!(claimed, 1);
    })
    .await;
}
