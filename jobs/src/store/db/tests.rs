use super::super::testing::{each_db, queue, sqlite_url};
use super::super::{StoreError, runs};
use super::*;

async fn refusal(url: &str) -> StoreError {
    Db::open(url).await.unwrap_err()
}

#[tokio::test]
async fn a_url_of_no_database_is_refused_and_its_password_not_shown() {
    let refused = refusal("mysql://root:hunter2@localhost/x").await.to_string();
    assert!(refused.contains("sqlite://"), "{refused}");
    assert!(!refused.contains("hunter2"), "{refused}");
}

#[tokio::test]
async fn a_database_in_memory_is_refused_since_it_would_forget() {
    for url in ["sqlite::memory:", "sqlite://x?mode=memory"] {
        assert!(matches!(refusal(url).await, StoreError::Url(_)), "{url}");
    }
}

#[tokio::test]
async fn sqlite_syncs_every_commit_and_checks_references() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&sqlite_url(&folder)).await.unwrap();
    for mut tx in [db.write().await.unwrap(), db.read().await.unwrap()] {
        let pragma =
            async |tx: &mut Tx, sql: &'static str| fetch_optional!(tx, (i64,), sql).unwrap().unwrap().0;
        assert_eq!(pragma(&mut tx, "PRAGMA synchronous").await, 2, "FULL");
        assert_eq!(pragma(&mut tx, "PRAGMA foreign_keys").await, 1);
        let journal = fetch_optional!(tx, (String,), "PRAGMA journal_mode").unwrap().unwrap();
        assert_eq!(journal.0, "wal");
    }
}

#[tokio::test]
async fn rows_outlive_the_process_and_a_second_opening_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&sqlite_url(&folder)).await.unwrap();
    let run = queue(&db, "comment/1", 0).await;
    db.close().await;
    let db = Db::open(&sqlite_url(&folder)).await.unwrap();
    assert!(runs::find(&db, &run).await.unwrap().is_some());
}

#[tokio::test]
async fn nodes_that_open_one_new_database_at_once_all_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite_url(&folder);
    let opening: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { Db::open(&url).await })
        })
        .collect();
    for opened in opening {
        opened.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_reader_sees_one_moment() {
    each_db(async |db| {
        const COUNT: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM runs";
        let mut reader = db.read().await.unwrap();
        let before = fetch_optional!(reader, (i64,), COUNT).unwrap().unwrap();
        queue(&db, "comment/1", 0).await;
        let after = fetch_optional!(reader, (i64,), COUNT).unwrap().unwrap();
        assert_eq!((before, after), ((0,), (0,)));
    })
    .await;
}
