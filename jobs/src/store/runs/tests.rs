use std::collections::HashSet;

use super::super::receipts::ReceiptKind;
use super::super::steps::{self, NewStep};
use super::super::testing::{LEASE, START, admit, each_db, queue, running, signed};
use super::super::{Acceptance, Accepted, Decision, accept};
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
        let first = queue(&db, "comment/1", START).await;
        let second = queue(&db, "comment/2", START + 1).await;
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

/// A queued run of this repository, asked for by this account.
async fn queue_of(db: &Db, name: &str, person: i64, number: u32) -> RunId {
    queue_at(db, name, person, number, START).await
}

async fn queue_at(db: &Db, name: &str, person: i64, number: u32, now: Millis) -> RunId {
    let origin = format!("{name}/{person}/{number}");
    let mut spec = super::super::testing::spec(&origin);
    name.clone_into(&mut spec.repository.name);
    spec.request.actor.id = person;
    queue_spec(db, spec, &origin, now).await
}

async fn queue_spec(db: &Db, spec: JobSpec, key: &str, now: Millis) -> RunId {
    let decision = Decision::Admit { spec: Box::new(spec), semantic_key: key.to_owned() };
    let accepted = Accepted { delivery: None, decision, messages: Vec::new(), now };
    match accept(db, accepted).await.unwrap() {
        Acceptance::Queued { run, .. } => run,
        other => panic!("{other:?}"),
    }
}

/// The repositories in the order in which one worker takes their runs, each run being ended at once.
async fn order(db: &Db, count: usize) -> Vec<String> {
    let mut order = Vec::new();
    for _ in 0..count {
        let claimed = claim(db, "n", LEASE, START).await.unwrap().unwrap();
        order.push(format!("{} {}", claimed.job.repository.name, claimed.job.request.actor.id));
        settle(db, settlement(&claimed)).await.unwrap();
    }
    order
}

#[tokio::test]
async fn whoever_asks_for_many_waits_behind_themselves() {
    each_db(async |db| {
        for number in 0..6 {
            queue_of(&db, "busy", 1, number).await;
        }
        queue_of(&db, "quiet", 2, 0).await;
        assert!(order(&db, 2).await.contains(&"quiet 2".to_owned()));
        // Who comes late comes beside those who wait, not behind them.
        queue_of(&db, "late", 3, 0).await;
        assert!(order(&db, 3).await.contains(&"late 3".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn neither_many_repositories_nor_many_people_take_another_ones_turn() {
    each_db(async |db| {
        for number in 0..6 {
            queue_of(&db, &format!("of-one-{number}"), 1, 0).await;
            queue_of(&db, "crowded", 100 + i64::from(number), 0).await;
        }
        queue_of(&db, "quiet", 2, 0).await;
        let first: Vec<_> = order(&db, 3).await;
        assert!(first.contains(&"quiet 2".to_owned()), "{first:?}");
    })
    .await;
}

#[tokio::test]
async fn nobody_is_put_off_for_good_by_those_who_come_later() {
    each_db(async |db| {
        let mut waiting = super::super::testing::spec("suite/1");
        "patient".clone_into(&mut waiting.repository.name);
        waiting.request.role = crate::forge::Role::None;
        queue_spec(&db, waiting, "suite/1", START).await;
        let mut taken = Vec::new();
        for number in 0..12 {
            // New people with new repositories, again and again, and twice as many as can be served.
            let now = START + 300_000 * Millis::from(number);
            queue_at(&db, &format!("new-{number}"), 10 + i64::from(number), 0, now).await;
            queue_at(&db, &format!("newer-{number}"), 100 + i64::from(number), 0, now).await;
            taken.extend(order(&db, 1).await);
        }
        let place = taken.iter().position(|taken| taken.starts_with("patient"));
        assert!(place.is_some_and(|place| place > 0), "it stands back, and has its turn: {taken:?}");
    })
    .await;
}

#[tokio::test]
async fn a_repository_runs_no_more_at_a_time_than_it_may() {
    each_db(async |db| {
        for number in 0..12 {
            queue_of(&db, "busy", 1, number).await;
        }
        queue_of(&db, "quiet", 2, 0).await;
        let within = |node: usize| {
            let db = db.clone();
            async move {
                let node = node.to_string();
                let claiming = Claiming { node: &node, lease_ms: LEASE, per_repository: Some(3), now: START };
                let mut mine = Vec::new();
                for _ in 0..4 {
                    mine.extend(claim_within(&db, claiming).await.unwrap());
                }
                mine
            }
        };
        let workers: Vec<_> = (0..8).map(|node| tokio::spawn(within(node))).collect();
        let mut claimed = Vec::new();
        for worker in workers {
            claimed.extend(worker.await.unwrap());
        }
        claimed.extend(within(9).await);
        let busy: Vec<_> = claimed.iter().filter(|claimed| claimed.job.repository.name == "busy").collect();
        assert_eq!((busy.len(), claimed.len()), (3, 4));
        // One that ends makes room for one.
        settle(&db, settlement(busy[1])).await.unwrap();
        assert_eq!(within(10).await.len(), 1);
        // One whose worker died is taken over in its own place.
        let claiming =
            Claiming { node: "late", lease_ms: LEASE, per_repository: Some(3), now: START + LEASE };
        assert!(claim_within(&db, claiming).await.unwrap().is_some());
    })
    .await;
}
