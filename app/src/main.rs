//! The executable: becomes a container's first process when it is re-executed as one, else a command.

use clap::Parser as _;

fn main() -> std::process::ExitCode {
    // Must come before anything that starts a thread or reads the environment.
    runners::sandbox::init::maybe_run();
    app::commands::run(app::cli::Arguments::parse())
}
