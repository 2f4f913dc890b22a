use super::super::testing::{LEASE, START, delivery, each_db};
use super::*;
use crate::event::Event;

#[tokio::test]
async fn one_delivery_id_is_recorded_once_however_often_it_comes() {
    each_db(async |db| {
        let delivery = delivery("same");
        let tries = (0..20).map(|_| {
            let (db, delivery) = (db.clone(), delivery.clone());
            tokio::spawn(async move { record(&db, &delivery).await.unwrap() })
        });
        let mut new = 0;
        for tried in tries.collect::<Vec<_>>() {
            new += u32::from(tried.await.unwrap() == Recorded::New);
        }
        assert_eq!(new, 1);
        let claimed = claim(&db, "node", LEASE, START).await.unwrap().unwrap();
        assert_eq!(claimed.ticket.key, delivery.key);
        assert!(claim(&db, "node", LEASE, START).await.unwrap().is_none(), "it is claimed");
    })
    .await;
}

#[tokio::test]
async fn what_needs_nothing_done_is_decided_with_its_arrival() {
    each_db(async |db| {
        let why = "nothing is done on \0 stars".to_owned();
        for (id, event) in [("ping", Event::Ping), ("star", Event::Ignored { why })] {
            let delivery = Delivery { event, ..delivery(id) };
            assert_eq!(record(&db, &delivery).await.unwrap(), Recorded::New);
            assert_eq!(record(&db, &delivery).await.unwrap(), Recorded::Known);
        }
        assert!(claim(&db, "node", LEASE, START + 9 * LEASE).await.unwrap().is_none());
        let ids = ["ping".to_owned(), "star".to_owned()];
        assert_eq!(known(&db, ForgeKind::Local, &ids).await.unwrap(), ids, "a sweep does not fetch them");
    })
    .await;
}

#[tokio::test]
async fn a_batch_of_any_size_is_recorded_whole() {
    each_db(async |db| {
        for (size, already) in [(1, 0), (3, 1), (90, 3), (151, 90)] {
            let rows: Vec<_> = (0..size).map(|at| Prepared::of(&delivery(&format!("{at:03}")))).collect();
            let mut tx = db.write().await.unwrap();
            let recorded = record_all_in(&mut tx, &rows.iter().collect::<Vec<_>>()).await.unwrap();
            tx.commit().await.unwrap();
            let known = recorded.iter().take_while(|is| **is == Recorded::Known).count();
            let new = recorded.iter().filter(|is| **is == Recorded::New).count();
            assert_eq!((known, new), (already, size - already));
        }
    })
    .await;
}

#[tokio::test]
async fn the_raw_body_is_kept() {
    each_db(async |db| {
        for (id, raw) in
            [("raw", b"\0\xff raw \r\n".to_vec()), ("none", Vec::new()), ("long", vec![7; 300_000])]
        {
            let delivery = Delivery { body: raw, ..delivery(id) };
            record(&db, &delivery).await.unwrap();
            assert_eq!(body(&db, &delivery.key).await.unwrap(), Some(delivery.body));
        }
        const OLD: &str = "UPDATE deliveries SET packing = NULL, body = $1 WHERE id = 'raw'";
        let mut tx = db.write().await.unwrap();
        execute!(tx, OLD, b"as it was".as_slice()).unwrap();
        tx.commit().await.unwrap();
        let delivery = delivery("raw");
        assert_eq!(body(&db, &delivery.key).await.unwrap().unwrap(), b"as it was");
        let other = DeliveryKey { id: "other".to_owned(), ..delivery.key };
        assert_eq!(body(&db, &other).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_delivery_of_a_dead_worker_is_claimed_again_and_the_dead_ticket_is_worthless() {
    each_db(async |db| {
        record(&db, &delivery("one")).await.unwrap();
        let dead = claim(&db, "a", LEASE, START).await.unwrap().unwrap();
        let alive = claim(&db, "b", LEASE, START + LEASE).await.unwrap().unwrap();
        assert_eq!((dead.attempts, alive.attempts), (1, 2));
        assert!(matches!(retry(&db, &dead.ticket, "late", START).await, Err(StoreError::LeaseLost { .. })));
        retry(&db, &alive.ticket, "the forge is away", START + 9 * LEASE).await.unwrap();
        assert!(claim(&db, "b", LEASE, START + 8 * LEASE).await.unwrap().is_none(), "not before its time");
        assert!(claim(&db, "b", LEASE, START + 9 * LEASE).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_redelivery_after_a_failure_is_processed() {
    each_db(async |db| {
        let delivery = delivery("one");
        record(&db, &delivery).await.unwrap();
        let claimed = claim(&db, "a", LEASE, START).await.unwrap().unwrap();
        fail(&db, &claimed.ticket, "broken", Vec::new(), START).await.unwrap();
        let ids = ["one".to_owned(), "two".to_owned()];
        assert!(known(&db, ForgeKind::Local, &ids).await.unwrap().is_empty(), "a sweep fetches it again");
        assert!(claim(&db, "a", LEASE, START + 99 * LEASE).await.unwrap().is_none());
        assert_eq!(record(&db, &delivery).await.unwrap(), Recorded::New);
        assert_eq!(record(&db, &delivery).await.unwrap(), Recorded::Known);
        assert_eq!(known(&db, ForgeKind::Local, &ids).await.unwrap(), ["one"]);
        let again = claim(&db, "a", LEASE, START).await.unwrap().unwrap();
        assert_eq!(again.attempts, 1);
    })
    .await;
}

#[tokio::test]
async fn a_ticket_from_before_a_revival_is_worthless() {
    each_db(async |db| {
        let delivery = delivery("one");
        record(&db, &delivery).await.unwrap();
        let before = claim(&db, "a", LEASE, START).await.unwrap().unwrap();
        fail(&db, &before.ticket, "broken", Vec::new(), START).await.unwrap();
        record(&db, &delivery).await.unwrap();
        let after = claim(&db, "b", LEASE, START).await.unwrap().unwrap();
        assert_ne!(before.ticket, after.ticket);
        assert!(fail(&db, &before.ticket, "late", Vec::new(), START).await.is_err());
        fail(&db, &after.ticket, "in time", Vec::new(), START).await.unwrap();
    })
    .await;
}
