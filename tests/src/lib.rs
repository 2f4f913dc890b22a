//! What the tests of the whole need: real git, a simulated GitHub, stories, and the rules of the house.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod git;
