//! Signed, hash-chained receipts, and their verifier.
//!
//! Bytes in, verdict out: no clock, no randomness, no network and no database, so that a verdict
//! depends on nothing but the evidence and the caller's key. The format is `docs/RECEIPTS.md`.
//!
//! Invariants: the signed bytes are the file's bytes; the key always comes from the caller; the
//! signer takes structures and never bytes; a cut tail is never `VALID_CHAIN`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod authorization;
pub mod bundle;
mod chain;
pub mod export;
mod flat;
mod gate;
pub mod journal;
mod key;
pub mod keyring;
mod record;
pub mod report;
mod time;
mod verify;

#[cfg(test)]
mod corpus;

pub use authorization::{Authorize, Push, authorize, push, verify_authorizations, verify_decisions};
pub use chain::{Apply, Open, RunChain, Seal, WriteError};
pub use journal::Journal;
pub use key::{KeyError, PrivateKeyError, PublicKey, Signed, Signer, digest, raw_key};
pub use record::{Row, SealOutcome};
pub use time::Timestamp;
pub use verify::{Chain, Code, Expected, Verdict, verify_by, verify_chain, verify_lines, verify_receipt};

/// Largest receipt, in bytes.
pub const MAX_RECEIPT: usize = 16 * 1024;
/// Largest diff, in bytes.
pub const MAX_DIFF: usize = 64 * 1024 * 1024;
/// Longest chain, in receipts.
pub const MAX_CHAIN: usize = 100_000;
