//! What was read of the files of a repository, kept by the blob and by the version of what read it: a blob
//! never changes, so neither does this. A repository sees its own rows alone, so that no row tells one
//! repository what another one holds.

use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::clock::Millis;
use crate::forge::Repository;

use super::db::Db;
use super::error::StoreError;
use super::row::plain;

/// Rows of one statement.
const FIND: usize = 500;
const PUT: usize = 100;
/// A row is forgotten after so long; a file that is still there is then read anew.
const KEEP_MS: Millis = 30 * 24 * 60 * 60 * 1000;

/// What was read of one blob.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kept {
    /// The blob's id, in hex.
    pub blob: String,
    /// What read it.
    pub version: String,
    pub tags: String,
}

/// What is kept of these blobs, read by this version; pairs of blob and tags, in no order.
pub async fn find(
    db: &Db,
    repository: &Repository,
    version: &str,
    blobs: &[String],
) -> Result<Vec<(String, String)>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let wanted = places(3, FIND);
        format!(
            "SELECT blob, tags FROM repo_maps WHERE repository = $1 AND version = $2 AND blob IN ({wanted})"
        )
    });
    let owner = owner(repository);
    let mut tx = db.read().await?;
    let mut found = Vec::new();
    for some in blobs.chunks(FIND) {
        // One statement for any number: it is prepared once, and the empty blob is none.
        let padded = some.iter().map(String::as_str).chain(std::iter::repeat("")).take(FIND);
        found.extend(on!(tx, connection => {
            let mut query = sqlx::query_as::<_, (String, String)>(SQL.as_str()).bind(&owner).bind(version);
            for blob in padded {
                query = query.bind(blob);
            }
            query.fetch_all(&mut **connection).await
        })?);
    }
    Ok(found)
}

/// Keeps what was read, and forgets what is old. A row that is there stays as it is.
pub async fn put(db: &Db, repository: &Repository, kept: &[Kept], now: Millis) -> Result<(), StoreError> {
    const FORGET: &str = "DELETE FROM repo_maps WHERE repository = $1 AND created_at < $2";
    static MANY: LazyLock<String> = LazyLock::new(|| insert(PUT));
    static ONE: LazyLock<String> = LazyLock::new(|| insert(1));
    let owner = owner(repository);
    let mut tx = db.write().await?;
    execute!(tx, FORGET, &owner, now.saturating_sub(KEEP_MS))?;
    for many in kept.chunks(PUT) {
        let (sql, size) = if many.len() == PUT { (MANY.as_str(), PUT) } else { (ONE.as_str(), 1) };
        for some in many.chunks(size) {
            on!(tx, connection => {
                let mut query = sqlx::query(sql).bind(&owner).bind(now);
                for row in some {
                    query = query.bind(&row.version).bind(&row.blob).bind(plain(&row.tags));
                }
                query.execute(&mut **connection).await.map(drop)
            })?;
        }
    }
    tx.commit().await
}

fn owner(repository: &Repository) -> String {
    format!("{}/{repository}", repository.forge.name())
}

/// The statement that keeps so many rows.
fn insert(rows: usize) -> String {
    let mut sql = "INSERT INTO repo_maps (repository, created_at, version, blob, tags) VALUES ".to_owned();
    for row in 0..rows {
        let comma = if row == 0 { "" } else { ", " };
        let _ = write!(sql, "{comma}($1, $2, {})", places(3 * row + 3, 3));
    }
    sql.push_str(" ON CONFLICT (repository, version, blob) DO NOTHING");
    sql
}

/// Placeholders, from the one of this number on.
fn places(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{START, each_db, repository};
    use super::*;

    fn rows(count: usize) -> Vec<Kept> {
        let row =
            |at| Kept { blob: format!("{at:040x}"), version: "v1".to_owned(), tags: format!("tags {at}") };
        (1..=count).map(row).collect()
    }

    fn blobs(rows: &[Kept]) -> Vec<String> {
        rows.iter().map(|row| row.blob.clone()).collect()
    }

    #[tokio::test]
    async fn what_is_kept_is_found_by_blob_and_version() {
        each_db(async |db| {
            let rows = rows(PUT * 12 + 7);
            put(&db, &repository(), &rows, START).await.unwrap();
            put(&db, &repository(), &rows[..3], START + 1).await.unwrap();
            let mut found = find(&db, &repository(), "v1", &blobs(&rows)).await.unwrap();
            found.sort();
            let wanted: Vec<_> = rows.iter().map(|row| (row.blob.clone(), row.tags.clone())).collect();
            assert_eq!(found, wanted);
            assert_eq!(find(&db, &repository(), "v1", &blobs(&rows[5..6])).await.unwrap(), wanted[5..6]);
            assert!(find(&db, &repository(), "v2", &blobs(&rows)).await.unwrap().is_empty());
        })
        .await;
    }

    #[tokio::test]
    async fn a_repository_does_not_see_the_rows_of_another() {
        each_db(async |db| {
            let (rows, other) = (rows(3), Repository { name: "gadgets".to_owned(), ..repository() });
            put(&db, &repository(), &rows, START).await.unwrap();
            assert!(find(&db, &other, "v1", &blobs(&rows)).await.unwrap().is_empty());
        })
        .await;
    }

    #[tokio::test]
    async fn old_rows_are_forgotten() {
        each_db(async |db| {
            let rows = rows(2);
            put(&db, &repository(), &rows[..1], START).await.unwrap();
            put(&db, &repository(), &rows[1..], START + KEEP_MS + 1).await.unwrap();
            let found = find(&db, &repository(), "v1", &blobs(&rows)).await.unwrap();
            assert_eq!(found, [(rows[1].blob.clone(), rows[1].tags.clone())]);
        })
        .await;
    }
}
