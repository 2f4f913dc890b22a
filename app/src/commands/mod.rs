//! What each command does. Exit codes: 0 done, 1 failed, 2 usage, 3 halted or unsealed, 4 uncertain.

pub mod apply;
mod check_config;
mod control;
mod doctor;
mod export;
mod fix;
mod keys;
mod outbox;
mod read;
mod repository;
pub mod serve;
mod status;
pub mod verify;

use std::io::Write as _;
use std::process::ExitCode;

pub use status::{outcome_words, state as state_words};

use crate::cli::{Arguments, Command, Place};
use crate::config::{Config, Fault};

/// What is wrong with how a command was called; exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Runs the command and gives its exit code.
pub fn run(arguments: Arguments) -> ExitCode {
    match dispatch(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            eprint(&format!("error: {error:#}\n"));
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Read(arguments) => read::run(&arguments),
        Command::Keys(arguments) => keys::run(&arguments),
        Command::CheckConfig(arguments) => check_config::run(&arguments),
        Command::Demo(arguments) => blocking(crate::demo::run(&arguments)),

        Command::Serve(arguments) => blocking(serve::run(&arguments)),

        Command::Fix(arguments) => blocking(fix::run(arguments)),
        Command::Doctor(arguments) => blocking(doctor::run(&arguments)),
        Command::Receipts(crate::cli::Receipts::Export(arguments)) => blocking(export::run(&arguments)),
        Command::Status(arguments) => blocking(status::run(&arguments)),
        Command::Outbox(arguments) => blocking(outbox::run(&arguments)),
        Command::Apply(arguments) => blocking(apply::run(&arguments)),
        Command::Cancel(arguments) => blocking(control::cancel(&arguments)),
        Command::Resume(arguments) => blocking(control::resume(&arguments)),
    }
}

fn blocking(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    // Fails only when a provider was installed before, which serves as well.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

/// Prints to standard output. Whoever closed it does not want the rest.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Prints to standard error.
pub fn eprint(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The configuration of the service that a command is about.
pub fn config_at(place: &Place) -> anyhow::Result<Config> {
    match &place.dir {
        Some(folder) => Ok(Config::of_folder(folder)),
        None => load(place.file.config.as_deref()),
    }
}

/// Reads the configuration, or says everything that is wrong with it.
fn load(file: Option<&std::path::Path>) -> anyhow::Result<Config> {
    Config::load(file, variable).map_err(|faults| {
        let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
        Usage(format!("the configuration cannot be used:\n  {}", lines.join("\n  "))).into()
    })
}

/// The id of a run as a person gave it.
fn run_id(text: &str) -> anyhow::Result<jobs::id::RunId> {
    text.parse().map_err(|error| Usage(format!("{error}; `whipstitch status` lists the runs")).into())
}
