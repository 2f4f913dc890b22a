//! Reading what tests and compilers really said, and comparing two readings.
//!
//! Bytes in, values out: nothing here runs a command, opens a file or waits. Whatever a check printed or
//! wrote is hostile, so every reader is linear in its input and keeps a bounded part of it.
//!
//! Three witnesses speak for one run: its report files, its console and its exit code. The worst of
//! them stands, and a disagreement is told in the report's notes:
//! - a test or finding that failed anywhere makes the outcome `Failed`, whatever the exit code is;
//! - a non-zero exit, a kill or a truncation is never a pass;
//! - exit 0 is a pass only with a report or summary that says that at least one test was executed,
//!   or, for a diagnostics tool, with the form of output that it has when it has looked.

mod absent;
mod cargo_json;
mod cargo_test;
pub mod command;
pub mod compare;
mod ctest;
mod dotnet;
mod eslint;
pub mod files;
mod go_test;
mod go_vet;
mod gradle;
mod java;
mod jest;
pub mod json;
mod junit;
mod nextest;
pub mod patch_facts;
mod pyright;
mod pytest;
mod reading;
mod ruff;
mod rust_console;
mod sarif;
mod surefire;
mod tap;
mod text;
mod trx;
mod tsc;
mod xml;

pub use command::{PreparedCheck, command};
pub use compare::{compare, tests_to_rerun};
pub use json::{read_json, unknown_tool_json};
pub use patch_facts::PatchFacts;

use jobs::check::{Check, Tool};
use jobs::verdict::Report;

use reading::Reading;

/// Whether the command ended by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ended {
    /// It left with its exit code, or died of a signal of its own making.
    #[default]
    ByItself,
    /// We ended it: its time, its silence, its memory or its output was over a limit.
    Killed,
}

/// Whether the kept output is all that was printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kept {
    /// Every byte is there.
    #[default]
    Whole,
    /// Something was left out.
    Truncated,
}

/// What is known of one run of one check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawOutput {
    /// The exit code; `None` when a signal ended it. A shell's 128 + signal is understood too.
    pub exit_code: Option<i32>,
    pub ended: Ended,
    pub kept: Kept,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Report files of this run: path relative to the check's directory, and content.
    pub files: Vec<(String, Vec<u8>)>,
    /// The repository's root as the command saw it, to make paths relative.
    pub root: String,
}

impl Default for RawOutput {
    fn default() -> Self {
        Self {
            exit_code: None,
            ended: Ended::ByItself,
            kept: Kept::Whole,
            stdout: Vec::new(),
            stderr: Vec::new(),
            files: Vec::new(),
            root: "/workspace".to_owned(),
        }
    }
}

/// What one run of one check said, by its tool's reader.
pub fn read(check: &Check, raw: &RawOutput) -> Report {
    judged(check, raw).into_report()
}

/// The judged reading, with what only the machine-readable form shows.
fn judged(check: &Check, raw: &RawOutput) -> Reading {
    let input = reading::Input::new(check, raw);
    let reading = match check.tool {
        Tool::Pytest => pytest::read(&input),
        Tool::CargoTest => cargo_test::read(&input),
        Tool::CargoNextest => nextest::read(&input),
        Tool::Jest => jest::read(&input),
        Tool::GoTest => go_test::read(&input),
        Tool::Surefire => surefire::read(&input),
        Tool::Gradle => gradle::read(&input),
        Tool::DotnetTest => dotnet::read(&input),
        Tool::Ctest => ctest::read(&input),
        Tool::Pyright => pyright::read(&input),
        Tool::Tsc => tsc::read(&input),
        Tool::CargoCheck => cargo_json::read(&input),
        Tool::Clippy => cargo_json::read(&input),
        Tool::GoVet => go_vet::read(&input),
        Tool::Eslint => eslint::read(&input),
        Tool::Ruff => ruff::read(&input),
        Tool::Junit => junit::read(&input),
        Tool::Tap => tap::read(&input),
        Tool::Sarif => sarif::read(&input),
    };
    reading.judge(&input)
}

#[cfg(test)]
mod tests;
