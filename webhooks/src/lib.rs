//! Everything that speaks to a forge: receive, admit, report, push.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod authenticate;
pub mod command;
pub mod forge;
pub mod github;
pub mod local;
pub mod receive;
