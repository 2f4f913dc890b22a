//! The hinge between forges and workspaces: events, jobs, runs, their state machines and their store.
//!
//! Invariants held here:
//! - A job never changes after it was admitted; its id is the digest of its canonical form.
//! - A run ends in exactly one of `Succeeded`, `Failed`, `Halted`.
//! - Every write to a run carries its fence; a stale fence changes nothing.
//! - A push needs a `PushGrant`, and only spending a recorded authorization builds one.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod artifacts;
pub mod authorization;
pub mod changeset;
pub mod check;
pub mod clock;
pub mod digest;
pub mod event;
pub mod fault;
pub mod forge;
pub mod id;
pub mod job;
pub mod launch;
pub mod message;
pub mod policy;
pub mod run;
pub mod source;
pub mod step;
pub mod store;
pub mod verdict;
