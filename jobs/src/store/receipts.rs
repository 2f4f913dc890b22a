//! The receipts of a run: signed lines, never changed, kept in the order of their chain.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::digest::Digest;
use crate::id::{Fence, RunId};

use super::db::{Db, Tx};
use super::error::StoreError;
use super::row::{self, from_word, word};
use super::runs;
use super::signed::Signed;

/// What a receipt records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiptKind {
    Open,
    Apply,
    Seal,
    /// A person's yes, after the seal.
    Authorize,
    /// What the forge's branch holds, after the yes.
    Push,
}

/// A receipt to be kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewReceipt {
    pub kind: ReceiptKind,
    pub signed: Signed,
    /// Digest of the diff that it speaks of, in the artifact folder.
    pub diff: Option<Digest>,
}

/// A receipt as its row says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// Its place in the chain.
    pub seq: u32,
    pub kind: ReceiptKind,
    pub signed: Signed,
    pub diff: Option<Digest>,
    pub at: Millis,
}

/// Appends a receipt to a running run's chain; gives its place.
pub async fn append(
    db: &Db,
    run: &RunId,
    fence: Fence,
    receipt: &NewReceipt,
    now: Millis,
) -> Result<u32, StoreError> {
    let mut tx = db.write().await?;
    runs::hold(&mut tx, run, fence, now).await?;
    let seq = append_in(&mut tx, run, receipt, now).await?;
    tx.commit().await?;
    Ok(seq)
}

/// Appends what follows the seal (`authorize`, `push`) as receipt number `expected`.
///
/// The signed bytes name their predecessor; where another receipt took the place, this is `LeaseLost`
/// and the caller reads the chain again and signs anew.
pub async fn append_after_seal(
    db: &Db,
    run: &RunId,
    expected: u32,
    receipt: &NewReceipt,
    now: Millis,
) -> Result<(), StoreError> {
    const HOLD: &str = "UPDATE runs SET updated_at = $1 WHERE id = $2 AND state = 'finished'";
    let mut tx = db.write().await?;
    if execute!(tx, HOLD, now, run.as_str())? == 0 {
        return Err(StoreError::NotFound { what: format!("finished run {run}") });
    }
    let seq = append_in(&mut tx, run, receipt, now).await?;
    if seq != expected {
        return Err(StoreError::LeaseLost { what: format!("place {expected} in the chain of run {run}") });
    }
    tx.commit().await
}

/// The chain of a run, in order.
pub async fn list(db: &Db, run: &RunId) -> Result<Vec<Receipt>, StoreError> {
    list_in(&mut db.read().await?, run).await
}

/// Appends under the run's row lock, which the caller holds.
pub(super) async fn append_in(
    tx: &mut Tx,
    run: &RunId,
    receipt: &NewReceipt,
    now: Millis,
) -> Result<u32, StoreError> {
    const SQL: &str = "INSERT INTO receipts (run, seq, kind, bytes, signature, digest, diff, at)
        SELECT $1, COALESCE(MAX(seq) + 1, 0), $2, $3, $4, $5, $6, $7 FROM receipts WHERE run = $1
        RETURNING seq";
    let signed = &receipt.signed;
    let inserted = fetch_optional!(
        tx,
        (i64,),
        SQL,
        run.as_str(),
        word(&receipt.kind),
        signed.bytes.as_slice(),
        signed.signature.as_slice(),
        signed.digest().to_string(),
        receipt.diff.map(|diff| diff.to_string()),
        now,
    )?;
    let (seq,) = inserted.ok_or_else(|| StoreError::NotFound { what: format!("chain of run {run}") })?;
    row::count("a receipt's place", seq)
}

pub(super) async fn list_in(tx: &mut Tx, run: &RunId) -> Result<Vec<Receipt>, StoreError> {
    const SQL: &str =
        "SELECT seq, kind, bytes, signature, diff, at FROM receipts WHERE run = $1 ORDER BY seq";
    type Row = (i64, String, Vec<u8>, Vec<u8>, Option<String>, i64);
    let rows = fetch_all!(tx, Row, SQL, run.as_str())?;
    rows.into_iter()
        .map(|(seq, kind, bytes, signature, diff, at)| {
            Ok(Receipt {
                seq: row::count("a receipt's place", seq)?,
                kind: from_word("a receipt's kind", &kind)?,
                signed: row::signed("a receipt", bytes, signature)?,
                diff: diff.map(|diff| row::parse("a receipt's diff", &diff)).transpose()?,
                at,
            })
        })
        .collect()
}
