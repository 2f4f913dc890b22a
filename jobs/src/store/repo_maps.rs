//! What was learnt of a tree, kept by the tree's id: a tree never changes, so neither does this.

use crate::clock::Millis;
use crate::digest::Digest;
use crate::id::TreeId;

use super::db::Db;
use super::error::StoreError;
use super::row::parse;

/// Remembers the artifact that holds the map of `tree`, made by the reader of this version.
pub async fn put(db: &Db, tree: &TreeId, version: &str, map: Digest, now: Millis) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO repo_maps (tree, version, digest, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (tree, version) DO UPDATE SET digest = excluded.digest";
    let mut tx = db.write().await?;
    execute!(tx, SQL, tree.as_str(), version, map.to_string(), now)?;
    tx.commit().await
}

/// The artifact that holds the map of `tree`, where one was made.
pub async fn find(db: &Db, tree: &TreeId, version: &str) -> Result<Option<Digest>, StoreError> {
    const SQL: &str = "SELECT digest FROM repo_maps WHERE tree = $1 AND version = $2";
    let mut tx = db.read().await?;
    let row = fetch_optional!(tx, (String,), SQL, tree.as_str(), version)?;
    row.map(|(digest,)| parse("a map's digest", &digest)).transpose()
}
