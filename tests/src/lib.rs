//! What the tests of the whole need: real git, a simulated GitHub, stories, and the rules of the house.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod dice;
pub mod git;
pub mod github;
pub mod peers;
pub mod scripted;
pub mod story;

/// Installs the process's one TLS provider; may be called again.
pub fn install_crypto() {
    // Only the first call of a process installs it; a later one finds it there.
    let _already = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
