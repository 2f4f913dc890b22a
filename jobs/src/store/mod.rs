//! All rows, on SQLite and PostgreSQL alike.
//!
//! The SQL stands beside the function that uses it, once, in the subset that both databases share.
//! Two writes that belong together are one transaction. A write to a run carries the run's fence:
//! it first holds the run's row, and where the fence is stale nothing is written.

#[macro_use]
mod db;
mod accept;
pub mod authorizations;
pub mod deliveries;
mod error;
mod ingest;
pub mod journal;
pub mod launches;
mod migrations;
pub mod outbox;
pub mod receipts;
pub mod repo_maps;
mod row;
pub mod runs;
mod signed;
pub mod steps;
#[cfg(test)]
pub(crate) mod testing;
mod turns;
mod view;
mod wake;

pub use accept::{Acceptance, Accepted, Decision, accept};
pub use db::{Db, Tx};
pub use error::StoreError;
pub use ingest::{Ingest, IngestError};
pub use signed::Signed;
pub use view::{RunSummary, RunView};
pub use wake::{Topic, Waiter};
