use super::super::testing::{delivery, each_db, sqlite_url};
use super::*;

#[tokio::test]
async fn every_concurrent_delivery_is_durable_when_it_is_answered() {
    each_db(async |db| {
        let (ingest, task) = Ingest::start(db.clone());
        let answers = (0..300).map(|number| {
            let ingest = ingest.clone();
            // Every id comes three times.
            tokio::spawn(async move { ingest.record(delivery(&format!("id-{}", number % 100))).await })
        });
        let mut new = 0;
        for answer in answers.collect::<Vec<_>>() {
            new += u32::from(answer.await.unwrap().unwrap() == Recorded::New);
        }
        assert_eq!(new, 100);
        let ids: Vec<_> = (0..100).map(|number| format!("id-{number}")).collect();
        let forge = crate::forge::ForgeKind::Local;
        assert_eq!(deliveries::known(&db, forge, &ids).await.unwrap().len(), 100);
        drop(ingest);
        task.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_made_durable_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&sqlite_url(&folder)).await.unwrap();
    let (ingest, task) = Ingest::start(db.clone());
    db.close().await;
    let answer = ingest.record(delivery("one")).await;
    assert!(matches!(answer, Err(IngestError::Database(_))), "{answer:?}");
    drop(ingest);
    task.await.unwrap();
}

#[tokio::test]
async fn more_bytes_than_may_wait_are_refused_at_once() {
    let (queue, _not_taken) = mpsc::channel(8);
    let two = Prepared::of(&delivery("one")).size() * 2;
    let ingest = Ingest { queue, space: Arc::new(Semaphore::new(two - 1)) };
    let first = ingest.record(delivery("one"));
    let mut first = std::pin::pin!(first);
    assert!(futures_poll(first.as_mut()).await.is_pending());
    let second = ingest.record(delivery("two")).await;
    assert!(matches!(second, Err(IngestError::Busy)), "{second:?}");
}

/// Polls once.
async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx))).await
}

#[tokio::test]
async fn two_nodes_that_get_the_same_deliveries_crosswise_do_not_block_each_other() {
    each_db(async |db| {
        let other = super::super::testing::second_node(&db).await;
        let nodes = [db.clone(), other.clone().unwrap_or(db)];
        let mut answers = Vec::new();
        let mut tasks = Vec::new();
        for (node, db) in nodes.into_iter().enumerate() {
            let (ingest, task) = Ingest::start(db);
            tasks.push(task);
            for number in 0..200 {
                let id = if node == 0 { number } else { 199 - number };
                let ingest = ingest.clone();
                answers.push(tokio::spawn(async move { ingest.record(delivery(&format!("{id:03}"))).await }));
            }
        }
        let mut new = 0;
        for answer in answers {
            new += u32::from(answer.await.unwrap().unwrap() == Recorded::New);
        }
        assert_eq!(new, 200);
        for task in tasks {
            task.await.unwrap();
        }
        if let Some(other) = other {
            other.close().await;
        }
    })
    .await;
}
