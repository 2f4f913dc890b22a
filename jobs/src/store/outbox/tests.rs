use super::super::runs;
use super::super::testing::{LEASE, START, address, each_db, queue, running};
use super::*;
use crate::run::Phase;

fn comment(text: &str, not_before: Millis) -> NewMessage {
    let body = MessageBody::Comment { body: text.to_owned(), reply_to: Some(3), place: Default::default() };
    NewMessage { address: address(), body, not_before }
}

async fn next(db: &Db, now: Millis) -> ClaimedMessage {
    claim(db, "n", LEASE, now).await.unwrap().unwrap()
}

async fn none(db: &Db, now: Millis) -> bool {
    claim(db, "n", LEASE, now).await.unwrap().is_none()
}

#[tokio::test]
async fn changes_of_a_run_gather_in_one_pending_message() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        for phase in [Phase::Bootstrap, Phase::Navigate, Phase::Edit] {
            runs::enter(&db, &claimed.run, claimed.fence, phase, START).await.unwrap();
        }
        let seen = runs::view(&db, &claimed.run).await.unwrap().unwrap();
        assert_eq!(seen.outbox.len(), 1);
        let message = next(&db, START).await;
        assert!(none(&db, START).await, "it is being sent");
        sent(&db, &message, "17", START).await.unwrap();
        assert!(none(&db, START).await, "it is sent");
        let twice = sent(&db, &message, "17", START).await;
        assert!(matches!(twice, Err(StoreError::LeaseLost { .. })), "{twice:?}");
    })
    .await;
}

#[tokio::test]
async fn a_change_while_the_message_is_sent_is_told_after_it() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        let message = next(&db, START).await;
        runs::enter(&db, &claimed.run, claimed.fence, Phase::Edit, START).await.unwrap();
        assert!(none(&db, START).await, "one at a time per run");
        sent(&db, &message, "17", START).await.unwrap();
        let again = next(&db, START).await;
        assert_eq!(again.body, message.body);
        sent(&db, &again, "17", START).await.unwrap();
        assert!(none(&db, START).await);
    })
    .await;
}

#[tokio::test]
async fn a_message_of_a_dead_sender_is_sent_by_the_next_and_not_by_both() {
    each_db(async |db| {
        queue(&db, "comment/1", START).await;
        let dead = next(&db, START).await;
        let alive = next(&db, START + LEASE).await;
        assert_eq!((dead.attempts, alive.attempts), (1, 2));
        assert!(matches!(sent(&db, &dead, "1", START).await, Err(StoreError::LeaseLost { .. })));
        assert!(matches!(retry(&db, &dead, "x", 0, START).await, Err(StoreError::LeaseLost { .. })));
        assert!(matches!(super::dead(&db, &dead, "x", START).await, Err(StoreError::LeaseLost { .. })));
        sent(&db, &alive, "1", START + LEASE).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_postponed_message_waits_for_its_time_and_dies_after_the_last_attempt() {
    each_db(async |db| {
        enqueue(&db, &comment("hello", START + 5), START).await.unwrap();
        assert!(none(&db, START + 4).await);
        let mut now = START + 5;
        for attempt in 1..=MAX_ATTEMPTS {
            let message = next(&db, now).await;
            assert_eq!(message.attempts, attempt);
            let retried = retry(&db, &message, "429", now + 1000, now).await.unwrap();
            let last = attempt == MAX_ATTEMPTS;
            assert_eq!(retried, if last { Retried::Dead } else { Retried::Postponed });
            assert!(none(&db, now + 999).await);
            now += 1000;
        }
        assert!(none(&db, now + 1_000_000).await);
    })
    .await;
}

#[tokio::test]
async fn a_waiting_time_of_the_forge_outlives_a_change_of_the_run() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        let message = next(&db, START).await;
        retry(&db, &message, "rate limit", START + 9000, START).await.unwrap();
        runs::enter(&db, &claimed.run, claimed.fence, Phase::Edit, START).await.unwrap();
        assert!(none(&db, START + 8999).await);
        next(&db, START + 9000).await;
    })
    .await;
}

#[tokio::test]
async fn a_dead_check_run_is_told_again_by_the_next_change() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        let message = next(&db, START).await;
        dead(&db, &message, "gone", START).await.unwrap();
        assert!(none(&db, START).await);
        runs::enter(&db, &claimed.run, claimed.fence, Phase::Edit, START).await.unwrap();
        let seen = runs::view(&db, &claimed.run).await.unwrap().unwrap();
        assert_eq!(seen.outbox[0].state, MessageState::Dead { attempts: 1 });
        assert_eq!(seen.outbox[0].last_error.as_deref(), Some("gone"));
        next(&db, START + PROGRESS_WAIT).await;
    })
    .await;
}

#[tokio::test]
async fn the_last_state_is_always_told_however_senders_and_changes_meet() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        let (run, fence) = (claimed.run.clone(), claimed.fence);
        let changes = {
            let (db, run) = (db.clone(), run.clone());
            tokio::spawn(async move {
                for round in 0..40 {
                    let phase = if round % 2 == 0 { Phase::Edit } else { Phase::Verify };
                    runs::enter(&db, &run, fence, phase, START).await.unwrap();
                }
                runs::enter(&db, &run, fence, Phase::Repair, START).await.unwrap();
            })
        };
        let mut told = None;
        let mut done = false;
        loop {
            let finished = changes.is_finished();
            match claim(&db, "n", LEASE, START + PROGRESS_WAIT).await.unwrap() {
                Some(message) => {
                    told = Some(runs::find(&db, &run).await.unwrap().unwrap().state);
                    sent(&db, &message, "17", START).await.unwrap();
                }
                None if done => break,
                None => tokio::task::yield_now().await,
            }
            done = finished;
        }
        changes.await.unwrap();
        assert_eq!(told, Some(crate::run::RunState::Running { phase: Phase::Repair }));
    })
    .await;
}

#[tokio::test]
async fn as_many_claimers_as_messages_get_one_each_at_the_first_asking() {
    each_db(async |db| {
        for number in 0..8 {
            enqueue(&db, &comment(&number.to_string(), 0), START).await.unwrap();
        }
        let claimers: Vec<_> = (0..8)
            .map(|_| {
                let db = db.clone();
                tokio::spawn(async move { claim(&db, "n", LEASE, START).await.unwrap().unwrap().id })
            })
            .collect();
        let mut claimed = std::collections::HashSet::new();
        for claimer in claimers {
            claimed.insert(claimer.await.unwrap());
        }
        assert_eq!(claimed.len(), 8);
    })
    .await;
}

#[tokio::test]
async fn a_dead_letter_is_listed_and_sent_once_more_as_a_second_attempt() {
    each_db(async |db| {
        enqueue(&db, &comment("hello", 0), START).await.unwrap();
        let message = next(&db, START).await;
        dead(&db, &message, "403 Forbidden", START + 1).await.unwrap();
        let letters = dead_letters(&db, 10).await.unwrap();
        assert_eq!(letters.len(), 1);
        assert_eq!((letters[0].error.as_str(), letters[0].given_up_at), ("403 Forbidden", START + 1));
        assert_eq!(resend(&db, &letters[0].id, START + 2).await.unwrap(), Resent::Pending);
        assert_eq!(resend(&db, &letters[0].id, START + 2).await.unwrap(), Resent::Unknown, "it is not dead");
        assert!(dead_letters(&db, 10).await.unwrap().is_empty());
        let again = next(&db, START + 2).await;
        assert_eq!((again.body.clone(), again.attempts), (message.body.clone(), 2));
        let late = sent(&db, &message, "1", START + 3).await;
        assert!(matches!(late, Err(StoreError::LeaseLost { .. })), "the first sender has no say any more");
        sent(&db, &again, "1", START + 3).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_dead_check_run_that_a_later_one_has_overtaken_stays_dead() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        let message = next(&db, START).await;
        dead(&db, &message, "gone", START).await.unwrap();
        runs::enter(&db, &claimed.run, claimed.fence, Phase::Edit, START).await.unwrap();
        assert_eq!(resend(&db, &message.id, START).await.unwrap(), Resent::Overtaken);
        assert_eq!(dead_letters(&db, 10).await.unwrap().len(), 1);
    })
    .await;
}
