//! Runs the installs of a plan through the window, seals it and proves the seal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jobs::step::Install;

use super::{
    BootstrapError, Bootstrapped, FailedInstall, Input, InstallStep, download_hosts, give_to, lockfiles,
};
use crate::egress::{EgressWindow, Sealed, refusals};
use crate::progress::{Happening, line_of};
use crate::sandbox::{
    Bind, Cause, Command, Container, ContainerLimits, ContainerSpec, EGRESS_PROXY, Exit, SandboxError,
};
use crate::workspace::materialize;

/// Where the certificates of this host appear within the window's container.
const CERTIFICATES: &str = "/opt/whipstitch/certificates.pem";
/// The bytes of a failed command's output that are told.
const SAID_BYTES: usize = 4000;

/// Fetches what the plan says and seals the window; where nothing is fetched there is no window at all.
pub async fn run(input: Input<'_>) -> Result<Bootstrapped, BootstrapError> {
    prepare_home(&input)?;
    materialize(input.tree, input.workspace, input.sandbox.owner())?;
    let (installs, sealed) = match input.plan.needs_window() {
        true => fetch(&input).await?,
        false => (prepare_offline(&input).await?, Sealed::never_opened()),
    };
    let binds = lockfiles::carried(input.workspace, &input.plan.steps);
    let mut container = input.sandbox.create(spec(&input, Way::Sealed(&binds))).await?;
    let seal = container.seal(&sealed).await;
    container.destroy().await?;
    let seal = seal?;
    if !seal.sealed() {
        let open: Vec<&str> =
            seal.tests.iter().filter(|test| !test.closed).map(|test| test.name.as_str()).collect();
        let which = if open.is_empty() { "no way out was tried".to_owned() } else { open.join(", ") };
        return Err(BootstrapError::NotSealed(which));
    }
    let egress = sealed.lines().to_vec();
    let mut notes = input.plan.notes.clone();
    notes.extend(input.toolchains.clients.notes.iter().cloned());
    Ok(Bootstrapped { installs, egress, seal, sealed, binds, notes })
}

/// How a container of Bootstrap reaches the outside.
enum Way<'a> {
    Window(&'a Path),
    /// Not at all, as every later container, with the folders that those have besides.
    Sealed(&'a [Bind]),
}

fn spec(input: &Input<'_>, way: Way<'_>) -> ContainerSpec {
    let mut environment = input.toolchains.environment.clone();
    let mut read_only = input.toolchains.binds.clone();
    let egress = match way {
        Way::Window(folder) => {
            environment.extend(window_environment(input));
            if let Some(host) = input.toolchains.clients.certificates.clone() {
                read_only.push(Bind { host, inside: PathBuf::from(CERTIFICATES) });
            }
            Some(folder.to_owned())
        }
        Way::Sealed(binds) => {
            read_only.extend(binds.iter().cloned());
            None
        }
    };
    ContainerSpec {
        run: input.run.clone(),
        workspace: input.workspace.to_owned(),
        home: input.home.to_owned(),
        read_only,
        environment,
        limits: ContainerLimits::of(input.limits),
        egress,
    }
}

/// How each client learns of the forwarder, of the certificates, and that it may look for a network.
fn window_environment(input: &Input<'_>) -> BTreeMap<String, String> {
    let mut set: Vec<(&str, &str)> =
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"].map(|name| (name, EGRESS_PROXY)).to_vec();
    set.extend([
        ("CARGO_NET_OFFLINE", "false"),
        ("CARGO_NET_RETRY", "1"),
        ("PIP_NO_INDEX", "0"),
        ("PIP_RETRIES", "1"),
        ("npm_config_offline", "false"),
        ("npm_config_fetch_retries", "1"),
    ]);
    if input.toolchains.clients.certificates.is_some() {
        let names = [
            "SSL_CERT_FILE",
            "CARGO_HTTP_CAINFO",
            "PIP_CERT",
            "REQUESTS_CA_BUNDLE",
            "NODE_EXTRA_CA_CERTS",
            "npm_config_cafile",
            "GIT_SSL_CAINFO",
            "CURL_CA_BUNDLE",
        ];
        set.extend(names.map(|name| (name, CERTIFICATES)));
    }
    let set = set.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    set.chain(input.toolchains.clients.environment.clone()).collect()
}

/// Makes the home with the settings files of the clients, before anything runs that could redirect a write.
fn prepare_home(input: &Input<'_>) -> Result<(), BootstrapError> {
    let owner = input.sandbox.owner();
    let make = |folder: &Path| -> Result<(), BootstrapError> {
        std::fs::create_dir_all(folder).map_err(home(folder))?;
        give_to(folder, owner).map_err(home(folder))
    };
    let is_new = !input.home.exists();
    make(input.home)?;
    if !is_new && std::fs::read_dir(input.home).map_err(home(input.home))?.next().is_some() {
        // A home that has been used is not written to from outside any more.
        return Ok(());
    }
    for file in &input.toolchains.clients.files {
        if let Some(parent) = file.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            make(&input.home.join(parent))?;
        }
        let path = input.home.join(&file.path);
        std::fs::write(&path, &file.content).map_err(home(&path))?;
        give_to(&path, owner).map_err(home(&path))?;
    }
    Ok(())
}

fn home(path: &Path) -> impl FnOnce(std::io::Error) -> BootstrapError + use<> {
    let what = path.display().to_string();
    move |source| BootstrapError::Home { what, source }
}

/// The window's whole life.
async fn fetch(input: &Input<'_>) -> Result<(Vec<Install>, Sealed), BootstrapError> {
    let mut policy = input.policy.clone();
    policy.allowed.extend(download_hosts::of(input.toolchains, &policy, &input.plan.steps).await);
    let window = EgressWindow::open(input.socket_folder, policy).await?;
    let mut container = match input.sandbox.create(spec(input, Way::Window(window.folder()))).await {
        Ok(container) => container,
        Err(error) => {
            window.seal().await;
            return Err(error.into());
        }
    };
    let outcome = install_all(input, Some(&window), container.as_mut()).await;
    // Whatever the installs left running ends here, before the window is told to be closed.
    let ended = container.destroy().await;
    let sealed = window.seal().await;
    ended?;
    Ok((outcome?, sealed))
}

/// Runs steps that fetch nothing in a container without a way out.
async fn prepare_offline(input: &Input<'_>) -> Result<Vec<Install>, BootstrapError> {
    if input.plan.is_empty() {
        return Ok(Vec::new());
    }
    let mut container = input.sandbox.create(spec(input, Way::Sealed(&[]))).await?;
    let outcome = install_all(input, None, container.as_mut()).await;
    container.destroy().await?;
    outcome
}

async fn install_all(
    input: &Input<'_>,
    window: Option<&EgressWindow>,
    container: &mut dyn Container,
) -> Result<Vec<Install>, BootstrapError> {
    let mut installs = Vec::new();
    let end = Instant::now() + input.policy.bounds.window;
    for step in &input.plan.steps {
        if input.cancel.is_cancelled() {
            return Err(BootstrapError::Cancelled);
        }
        let line = shown(step);
        if let Some(window) = window {
            window.asked_by(&line);
        }
        (input.progress)(Happening::Command { name: step.family.name().to_owned(), argv: line.clone() });
        let exit = match container.exec(command(input, step, end)).await {
            Ok(exit) => exit,
            Err(SandboxError::NotStarted { program, why }) => {
                let ended = format!("did not start: {program}: {why}");
                return Err(failed(installs, window, line, ended, &[]));
            }
            Err(error) => return Err(error.into()),
        };
        installs.push(Install {
            directory: step.directory.clone(),
            argv: step.argv.clone(),
            exit_code: match exit.cause {
                Cause::Exited(code) => Some(code),
                Cause::Signalled(_)
                | Cause::TimedOut
                | Cause::Silent
                | Cause::OutputLimit
                | Cause::OutOfMemory
                | Cause::Processes
                | Cause::Disk
                | Cause::Cancelled => None,
            },
            duration_ms: u64::try_from(exit.duration.as_millis()).unwrap_or(u64::MAX),
            changed_lockfiles: lockfiles::changed(input.workspace, input.tree, step),
        });
        match exit.cause {
            Cause::Exited(0) => {}
            Cause::Cancelled => return Err(BootstrapError::Cancelled),
            cause => return Err(failed(installs, window, line, ended(cause), &said(&exit))),
        }
    }
    Ok(installs)
}

fn command(input: &Input<'_>, step: &InstallStep, end: Instant) -> Command {
    let left = end.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
    Command {
        argv: step.argv.clone(),
        directory: step.directory.clone(),
        environment: step.environment.clone(),
        stdin: Vec::new(),
        timeout: left,
        silence: left,
        max_output_bytes: 4 << 20,
        cancel: input.cancel.clone(),
    }
}

/// A command as people read it: a program that is given in the command itself is only called by its kind.
fn shown(step: &InstallStep) -> String {
    let words: Vec<String> = step
        .argv
        .iter()
        .map(|word| if word.contains('\n') { "<script>".to_owned() } else { word.clone() })
        .collect();
    line_of(&words)
}

fn failed(
    installs: Vec<Install>,
    window: Option<&EgressWindow>,
    command: String,
    ended: String,
    said: &[u8],
) -> BootstrapError {
    let egress = window.map(EgressWindow::lines).unwrap_or_default();
    let refusals = refusals(&egress);
    let said = String::from_utf8_lossy(said).trim().to_owned();
    BootstrapError::Install(Box::new(FailedInstall { installs, egress, command, ended, refusals, said }))
}

fn ended(cause: Cause) -> String {
    match cause {
        Cause::Exited(code) => format!("exited with code {code}"),
        Cause::Signalled(signal) => format!("was ended by signal {signal}"),
        Cause::TimedOut => "took longer than the egress window may stand open".to_owned(),
        Cause::Silent => "was silent for too long".to_owned(),
        Cause::OutputLimit => "printed more than it may".to_owned(),
        Cause::OutOfMemory => "used more memory than it may".to_owned(),
        Cause::Processes => "started more processes than it may".to_owned(),
        Cause::Disk => "wrote more than it may".to_owned(),
        Cause::Cancelled => "was cancelled".to_owned(),
    }
}

/// The end of what a command said: clients tell their trouble last, and on either stream.
fn said(exit: &Exit) -> Vec<u8> {
    let tail = |bytes: &[u8]| bytes[bytes.len().saturating_sub(SAID_BYTES / 2)..].to_vec();
    let mut said = tail(&exit.stdout);
    said.extend(tail(&exit.stderr));
    said
}
