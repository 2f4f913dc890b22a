//! Why the store did not do what was asked.

use crate::id::RunId;
use crate::run::IllegalTransition;

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL names no database that this program speaks to.
    #[error("{0:?} names no database; use sqlite:///absolute/path.db or postgres://user:password@host/name")]
    Url(String),
    /// The database could not be opened.
    #[error("cannot open the database")]
    Open(#[source] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("cannot bring the database's schema up to date")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// A statement failed; nothing of its transaction was kept.
    #[error("the database did not take a statement")]
    Database(#[from] sqlx::Error),
    /// Someone else has, or had, the run: stop at once and write nothing more.
    #[error("run {run} is no longer held by this worker")]
    FenceLost { run: RunId },
    /// Someone else has, or had, the delivery or message: its lease had run out.
    #[error("the lease on {what} was lost")]
    LeaseLost { what: String },
    /// There is no such row.
    #[error("there is no {what}")]
    NotFound { what: String },
    /// The state machine does not have that step.
    #[error(transparent)]
    Illegal(#[from] IllegalTransition),
    /// A row does not say what this version of the program expects.
    #[error("cannot read {what} of a row: {why}")]
    Corrupt { what: &'static str, why: String },
}
