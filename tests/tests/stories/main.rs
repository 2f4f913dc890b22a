//! Stories through the real door: what somebody does on a forge, and what the forge shows afterwards.
//! Their names begin with the case that they prove, where they prove one.
#![allow(clippy::unwrap_used)]

mod chaos;
mod commands;
mod comments;
mod deliveries;
mod forks;
mod health;
mod issues;
mod pushes;
mod read_only;
mod reports;
mod triggers;
mod truth;
