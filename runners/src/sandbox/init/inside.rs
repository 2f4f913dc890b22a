//! The container's first process: builds it, confines itself, starts the program, and reaps.
//!
//! When it leaves, the kernel ends every other process of the container before it can be reaped.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};
use rustix::thread::{Gid, Uid};

use super::control::Control;
use super::meter::Meter;
use super::plan::{INSIDE_ID, Plan, Report, Work};
use super::{Failed, confine, forward, root};
use crate::sandbox::cgroup::Door;
use crate::sandbox::{conformance, sys};

/// The host name within every container.
const HOST_NAME: &[u8] = b"whipstitch";

/// What the first process has from the launcher.
pub struct Inherited {
    /// The program's.
    pub streams: Vec<OwnedFd>,
    /// What the launcher has opened of the host, if it was root.
    pub trees: Option<root::Trees>,
    /// Yields a byte when the launcher has mapped the user.
    pub released: OwnedFd,
    /// Leads into the cgroups, where the launcher has not put it in.
    pub door: Door,
}

/// Never returns; its exit ends the container.
pub fn main(control: &Control, plan: &Plan, inherited: Inherited) -> ! {
    let Inherited { streams, trees, released, door } = inherited;
    let told = match prepare(plan, trees, released, door) {
        Ok(()) => work(plan, streams),
        Err(failed) => failed.report(),
    };
    // When nobody listens any more there is nobody to tell; leaving ends the container either way.
    let code = if control.tell(&told).is_ok() { 0 } else { 1 };
    std::process::exit(code);
}

/// Everything up to a container in which code of strangers may run.
fn prepare(plan: &Plan, trees: Option<root::Trees>, released: OwnedFd, door: Door) -> Result<(), Failed> {
    door.enter().map_err(Failed::to("enter its cgroups"))?;
    await_release(&released)?;
    drop(released);
    let trees = trees.map_or_else(|| root::open(plan), Ok)?;
    become_inside_user()?;
    // Changing the user has cleared what was set before, so this comes after it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(Failed::to("bind its life to the launcher's"))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(Failed::to("close its memory"))?;
    root::build(plan, trees)?;
    rustix::system::sethostname(HOST_NAME).map_err(Failed::to("set the host name"))?;
    loopback_up()?;
    rustix::process::setsid().map_err(Failed::to("leave the session"))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    confine::apply(plan)?;
    if plan.forward {
        // Only now, for a thread that existed before would not be confined.
        forward::start()?;
    }
    Ok(())
}

/// Waits for the launcher, which dies or releases.
fn await_release(released: &OwnedFd) -> Result<(), Failed> {
    let mut byte = [0];
    match rustix::io::retry_on_intr(|| rustix::io::read(released, &mut byte)) {
        Ok(1) => Ok(()),
        Ok(_) => Err(Failed::to("wait for the launcher")(io::Error::from(io::ErrorKind::UnexpectedEof))),
        Err(error) => Err(Failed::to("wait for the launcher")(error)),
    }
}

fn become_inside_user() -> Result<(), Failed> {
    let (user, group) = (Uid::from_raw(INSIDE_ID), Gid::from_raw(INSIDE_ID));
    rustix::thread::set_thread_res_gid(group, group, group).map_err(Failed::to("become the group inside"))?;
    rustix::thread::set_thread_res_uid(user, user, user).map_err(Failed::to("become the user inside"))
}

fn loopback_up() -> Result<(), Failed> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(Failed::to("open a socket for the loopback interface"))?;
    sys::interface_up(&socket, c"lo").map_err(Failed::to("set the loopback interface up"))
}

fn work(plan: &Plan, streams: Vec<OwnedFd>) -> Report {
    match &plan.work {
        Work::SelfTest => self_test(streams, plan.forward),
        Work::Program { argv, directory, environment } => {
            let Some(mut command) = command(argv, streams) else {
                return Report::NotStarted { why: "it has no name".to_owned() };
            };
            if !directory.is_dir() {
                return Report::NotStarted { why: format!("there is no folder {}", directory.display()) };
            }
            command.env_clear().envs(environment).current_dir(directory);
            let meter = Meter::start();
            match command.spawn() {
                Ok(child) => {
                    // The streams that it holds would keep the program's pipes open.
                    drop(command);
                    reap(child.id(), &meter)
                }
                Err(error) => Report::NotStarted { why: why_not(&error, argv, environment.get("PATH")) },
            }
        }
    }
}

/// Writes the self-test's results to the first of `streams` as one JSON text.
fn self_test(streams: Vec<OwnedFd>, forwarded: bool) -> Report {
    let Some(output) = streams.into_iter().next() else {
        return Report::NotStarted { why: "there is no stream for the results".to_owned() };
    };
    let written = serde_json::to_vec(&conformance::self_test(forwarded))
        .map_err(io::Error::from)
        .and_then(|text| io::Write::write_all(&mut std::fs::File::from(output), &text));
    match written {
        Ok(()) => Report::Exited { code: 0, full: false },
        Err(error) => Report::NotStarted { why: format!("the results cannot be written: {error}") },
    }
}

/// The streams are standard output, standard error and, where there is any, standard input.
fn command(argv: &[String], streams: Vec<OwnedFd>) -> Option<Command> {
    let (program, arguments) = argv.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    let mut streams = streams.into_iter().map(Stdio::from);
    command.stdout(streams.next().unwrap_or_else(Stdio::null));
    command.stderr(streams.next().unwrap_or_else(Stdio::null));
    command.stdin(streams.next().unwrap_or_else(Stdio::null));
    Some(command)
}

fn why_not(error: &io::Error, argv: &[String], path: Option<&String>) -> String {
    let program = argv.first().map_or("", String::as_str);
    match (error.kind(), path) {
        (io::ErrorKind::NotFound, Some(path)) if !Path::new(program).is_absolute() => {
            format!("it is in no folder of the container's PATH ({path})")
        }
        _ => error.to_string(),
    }
}

/// Reaps whatever ends until the program itself has.
fn reap(program: u32, meter: &Meter) -> Report {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if is(process, program) => {
                if let Some(code) = status.exit_status() {
                    return Report::Exited { code, full: meter.has_been_full() };
                }
                if let Some(signal) = status.terminating_signal() {
                    return Report::Signalled { signal, full: meter.has_been_full() };
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Report::Failed {
                    what: format!("cannot wait for the program: {error}"),
                    errno: Some(error.raw_os_error()),
                };
            }
        }
    }
}

fn is(process: Pid, program: u32) -> bool {
    u32::try_from(process.as_raw_nonzero().get()) == Ok(program)
}
