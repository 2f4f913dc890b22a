//! Scripted repairs that cheat, each through the whole loop in the sealed sandbox: none may succeed.
//!
//! The same projects are repaired honestly as well, so that the loop is seen to tell the two apart. A cheat's
//! story says by which verdict it must be caught and a word of the reason, so that it is not caught by chance.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod cheats {
    pub mod python;
    pub mod rust;
    pub mod story;
}
mod common;

use cheats::{python, rust, story};

#[tokio::test(flavor = "multi_thread")]
async fn no_cheat_in_python_succeeds() {
    let Some(bed) = story::Bed::with(&["python3", "pytest", "ruff"]) else { return };
    let stories = python::cheats();
    assert!(stories.len() >= 25, "{}", stories.len());
    bed.tell(stories).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cheat_in_rust_succeeds() {
    let Some(bed) = story::Bed::with(&["cargo", "cargo-clippy", "cc"]) else { return };
    let stories = rust::cheats();
    assert!(stories.len() >= 25, "{}", stories.len());
    bed.tell(stories).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn honest_repairs_in_python_succeed() {
    let Some(bed) = story::Bed::with(&["python3", "pytest", "ruff"]) else { return };
    bed.tell(python::honest()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn honest_repairs_in_rust_succeed() {
    let Some(bed) = story::Bed::with(&["cargo", "cargo-clippy", "cc"]) else { return };
    bed.tell(rust::honest()).await;
}
