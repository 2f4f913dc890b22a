//! Everything that touches a workspace: phases, sandboxes, egress, agents, verdicts.
//!
//! Invariants held here:
//! - Nothing in this crate can name a value that writes to a forge; all it knows of one is `Source`.
//! - No code of a repository runs outside a container, and no container has an interface but loopback.
//! - Only parsed reports decide. No agent is asked whether its edit worked.
//! - Before an agent starts, its intent is durable; an intent without a result is never repeated.
//! - What cannot be proven sealed is not used.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod agents;
pub mod bootstrap;
pub mod edit;
pub mod egress;
pub mod executor;
pub mod governor;
pub mod local;
pub mod navigate;
pub mod progress;
pub mod recovery;
pub mod reports;
pub mod sandbox;
pub mod toolchains;
pub mod workspace;
