//! A run's journal: signed, hash-chained lines in the order in which they were written.
//!
//! What the lines say, and their legal order, is the business of the crate `receipts`; the store keeps
//! their exact bytes. The number in the row is the place in the chain.

use crate::clock::Millis;
use crate::id::{Fence, RunId};

use super::db::{Db, Tx};
use super::error::StoreError;
use super::row;
use super::runs;
use super::signed::Signed;

/// Appends one line; gives its number.
pub async fn append(
    db: &Db,
    run: &RunId,
    fence: Fence,
    entry: &Signed,
    now: Millis,
) -> Result<u32, StoreError> {
    let mut tx = db.write().await?;
    runs::hold(&mut tx, run, fence, now).await?;
    let seq = append_in(&mut tx, run, entry, now).await?;
    tx.commit().await?;
    Ok(seq)
}

/// All lines of a run, in order.
pub async fn list(db: &Db, run: &RunId) -> Result<Vec<Signed>, StoreError> {
    const SQL: &str = "SELECT entry, signature FROM journal WHERE run = $1 ORDER BY seq";
    let mut tx = db.read().await?;
    let rows = fetch_all!(tx, (Vec<u8>, Vec<u8>), SQL, run.as_str())?;
    rows.into_iter().map(|(bytes, signature)| row::signed("a journal entry", bytes, signature)).collect()
}

/// Appends under the run's row lock, which the caller holds.
pub(super) async fn append_in(
    tx: &mut Tx,
    run: &RunId,
    entry: &Signed,
    now: Millis,
) -> Result<u32, StoreError> {
    const SQL: &str = "INSERT INTO journal (run, seq, entry, signature, digest, at)
        SELECT $1, COALESCE(MAX(seq) + 1, 0), $2, $3, $4, $5 FROM journal WHERE run = $1
        RETURNING seq";
    let (bytes, signature) = (entry.bytes.as_slice(), entry.signature.as_slice());
    let inserted =
        fetch_optional!(tx, (i64,), SQL, run.as_str(), bytes, signature, entry.digest().to_string(), now)?;
    let (seq,) = inserted.ok_or_else(|| StoreError::NotFound { what: format!("journal of run {run}") })?;
    row::count("a journal entry's number", seq)
}
