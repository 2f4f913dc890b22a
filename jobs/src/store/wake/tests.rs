use super::super::testing::{START, each_db, queue, running, second_node};
use super::*;
use crate::store::{Db, runs};

/// Longer than any test takes: a test that needs it fails by its own time limit.
const LONG: Duration = Duration::from_secs(60);

/// Whether the bell has rung since the last wait.
fn rang(waiter: &Waiter) -> bool {
    waiter.bell.has_changed().unwrap()
}

#[tokio::test]
async fn what_is_written_between_looking_and_waiting_wakes_at_once() {
    each_db(async |db| {
        let mut waiter = db.waiter(Topic::Runs);
        assert!(runs::claim(&db, "n", 1, START).await.unwrap().is_none());
        queue(&db, "comment/1", START).await;
        waiter.wait(LONG).await;
        assert!(runs::claim(&db, "n", 1, START).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_wait_ends_without_a_ring() {
    each_db(async |db| {
        let mut waiter = db.waiter(Topic::Outbox);
        waiter.wait(Duration::from_millis(1)).await;
        assert!(!rang(&waiter));
    })
    .await;
}

#[tokio::test]
async fn a_transaction_that_is_dropped_rings_nothing() {
    each_db(async |db: Db| {
        let waiter = db.waiter(Topic::Runs);
        let mut tx = db.write().await.unwrap();
        tx.ring(Topic::Runs);
        drop(tx);
        assert!(!rang(&waiter));
        let mut tx = db.write().await.unwrap();
        tx.ring(Topic::Runs);
        tx.commit().await.unwrap();
        assert!(rang(&waiter));
    })
    .await;
}

#[tokio::test]
async fn another_node_of_one_postgresql_hears_what_is_queued_here() {
    each_db(async |db| {
        let Some(other) = second_node(&db).await else { return };
        let (mut elsewhere, mut outbox) = (other.waiter(Topic::Runs), other.waiter(Topic::Outbox));
        let claimed = running(&db, "comment/1", START).await;
        elsewhere.wait(LONG).await;
        outbox.wait(LONG).await;
        runs::requeue(&db, &claimed.run, claimed.fence, START).await.unwrap();
        let mut here = db.waiter(Topic::Runs);
        elsewhere.wait(LONG).await;
        let again = runs::claim(&other, "other", 1, START).await.unwrap().unwrap();
        runs::requeue(&other, &again.run, again.fence, START).await.unwrap();
        here.wait(LONG).await;
        other.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_node_does_not_hear_itself_nor_what_it_does_not_understand() {
    let bells = Bells::new();
    let mut waiter = bells.waiter(Topic::Runs);
    bells.hear(&format!("runs {}", bells.teller));
    bells.hear("runs");
    bells.hear("weather someone");
    assert!(!rang(&waiter));
    bells.hear("runs someone");
    assert!(rang(&waiter));
    waiter.wait(LONG).await;
}
