//! Asks every program that was found for its version, inside a container, where it will run.

use std::path::Path;
use std::time::Duration;

use jobs::id::RunId;

use super::Toolchains;
use crate::sandbox::{Cause, Command, ContainerLimits, ContainerSpec, Sandbox, SandboxError};

/// Fills in the versions of `toolchains`. A program that does not answer inside keeps `None`: it is one
/// that no command could use either. `folder` is an empty folder that this call has for itself.
pub async fn versions(
    toolchains: &mut Toolchains,
    sandbox: &dyn Sandbox,
    run: &RunId,
    folder: &Path,
) -> Result<(), SandboxError> {
    let make = |source| SandboxError::Create { what: "the folders of a look at versions".to_owned(), source };
    let (workspace, home) = (folder.join("workspace"), folder.join("home"));
    for part in [&workspace, &home] {
        std::fs::create_dir_all(part).map_err(make)?;
        crate::bootstrap::give_to(part, sandbox.owner()).map_err(make)?;
    }
    let mut container = sandbox
        .create(ContainerSpec {
            run: run.clone(),
            workspace,
            home,
            read_only: toolchains.binds.clone(),
            environment: toolchains.environment.clone(),
            limits: ContainerLimits::of(&jobs::job::Limits::default()),
            egress: None,
        })
        .await?;
    for tool in &mut toolchains.found {
        let mut command = Command::new(&question(&tool.name));
        command.timeout = Duration::from_secs(20);
        match container.exec(command).await {
            Ok(exit) if exit.cause == Cause::Exited(0) => {
                let said = if exit.stdout.is_empty() { exit.stderr } else { exit.stdout };
                tool.version = version_in(&String::from_utf8_lossy(&said));
            }
            Ok(_) | Err(SandboxError::NotStarted { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    container.destroy().await
}

fn question(name: &str) -> Vec<&str> {
    match name {
        "go" => vec!["go", "version"],
        "cargo-clippy" => vec!["cargo", "clippy", "--version"],
        "cargo-nextest" => vec!["cargo", "nextest", "--version"],
        "java" => vec!["java", "-version"],
        _ => vec![name, "--version"],
    }
}

/// The first word of the first lines that looks like a version.
fn version_in(said: &str) -> Option<String> {
    let words = said.lines().take(5).flat_map(str::split_whitespace);
    words
        .map(|word| word.trim_matches(|next: char| !next.is_ascii_alphanumeric()))
        .map(|word| word.strip_prefix("go").or_else(|| word.strip_prefix('v')).unwrap_or(word))
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'))
        .map(|word| {
            let plain = |next: &char| next.is_ascii_alphanumeric() || matches!(next, '.' | '-' | '+' | '_');
            word.chars().take_while(plain).take(40).collect()
        })
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn the_version_is_found_in_what_real_programs_say() {
        for (said, version) in [
            ("cargo 1.95.0 (abc 2026-03-01)\n", "1.95.0"),
            ("Python 3.11.7\n", "3.11.7"),
            ("v20.1.0\n", "20.1.0"),
            ("go version go1.19.8 linux/amd64\n", "1.19.8"),
            ("openjdk version \"17.0.15\" 2025-04-15\n", "17.0.15"),
            ("cc (Debian 12.2.0-14) 12.2.0\n", "12.2.0-14"),
            ("pytest 8.4.1\n", "8.4.1"),
            ("\u{1b}[1mApache Maven 3.8.7\u{1b}[m\n", "3.8.7"),
        ] {
            assert_eq!(version_in(said).as_deref(), Some(version), "{said}");
        }
        assert_eq!(version_in("no such command\n"), None);
    }
}
