//! Everything that speaks to GitHub.

pub mod client;
pub mod credentials;
pub mod error;
pub mod payload;
