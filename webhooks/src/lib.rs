//! Everything that speaks to a forge: receive, admit, report, push.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admission;
pub mod authenticate;
pub mod authorize;
pub mod command;
pub mod forge;
pub mod github;
pub mod links;
pub mod local;
pub mod offer;
mod protected;
pub mod receive;
pub mod report;
mod text;
