//! Conformance of the embedded sandbox: what a container can and cannot do, tried from inside.
//!
//! The rules run as the user who runs the tests; when that is root, they run again as an unprivileged
//! user. Where the kernel gives no user namespaces they say that they were skipped, but in CI they fail.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests that say when they were skipped")]

#[path = "sandbox/bounds.rs"]
mod bounds;
mod common;
#[path = "sandbox/container.rs"]
mod container;
#[path = "sandbox/crash.rs"]
mod crash;
#[path = "sandbox/ends.rs"]
mod ends;
#[path = "sandbox/hostile.rs"]
mod hostile;
#[path = "sandbox/killed_often.rs"]
mod killed_often;
#[path = "sandbox/refusal.rs"]
mod refusal;
#[path = "sandbox/seal.rs"]
mod seal;
#[path = "sandbox/second_opinion.rs"]
mod second_opinion;
#[path = "sandbox/unprivileged.rs"]
mod unprivileged;
#[path = "sandbox/walls.rs"]
mod walls;
