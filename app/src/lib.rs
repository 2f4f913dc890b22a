//! The executable `whipstitch`: its command line, its configuration, its wiring and its pages.
//!
//! Invariants held here:
//! - This crate wires and shows; a rule about repairs, admission or receipts has its home elsewhere.
//! - No secret is printed or logged; the process refuses to start without a webhook secret.
//! - A page shows only what is escaped, and changes something only for a person whose session says who they are.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cli;
pub mod commands;
pub mod config;
pub mod demo;
mod engine;
mod github_app;
pub mod http;
pub mod keys;
mod models;
pub mod service;
pub mod show;
