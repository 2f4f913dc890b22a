use super::super::testing::{LEASE, START, delivery, each_db};
use super::*;

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
async fn the_raw_body_is_kept() {
    each_db(async |db| {
        let delivery = Delivery { body: b"\0\xff raw \r\n".to_vec(), ..delivery("raw") };
        record(&db, &delivery).await.unwrap();
        assert_eq!(body(&db, &delivery.key).await.unwrap(), Some(delivery.body));
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
