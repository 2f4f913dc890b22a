//! The launcher: this executable run again with an empty environment, to make one container.
//!
//! It has one thread and stays outside: it clones the container's first process into fresh namespaces,
//! maps its user, bounds what it may use, and ends it when the control socket closes, which happens at the
//! latest when the process that asked for it dies. It leaves only after the first process has been
//! reaped, and the kernel lets that happen only when no other process of the container is left.

mod confine;
mod control;
mod disk;
pub(crate) mod forward;
mod inside;
mod meter;
pub(crate) mod plan;
mod root;
mod watch;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use self::control::Control;
use self::disk::DiskWatch;
use self::plan::{INSIDE_ID, Met, Plan, Report};
use super::cgroup::{self, Controller};
use super::{conformance, sys};

/// The first argument by which an executable knows that it is to be the launcher.
pub(crate) const ARGUMENT: &str = "whipstitch-sandbox-init";

/// How often it is looked whether a limit has been met that nothing else tells of.
const WATCH_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How much sooner than others the kernel ends a container when the host runs out of memory, see proc(5).
const VICTIM_SCORE: i32 = 500;

/// Becomes the launcher, or the conformance suite's probe, when this process was started as one, and then
/// never returns.
///
/// To be called first in `main` of every executable that uses [`Embedded`](super::Embedded), before any
/// thread exists.
pub fn maybe_run() {
    let mut arguments = std::env::args_os().skip(1);
    let Some(first) = arguments.next() else { return };
    if first == ARGUMENT {
        let code = if launch().is_ok() { 0 } else { 1 };
        std::process::exit(code);
    }
    if first == conformance::ARGUMENT {
        let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
        std::process::exit(conformance::probe_main(&words));
    }
}

/// A step of making a container that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub(crate) struct Failed {
    what: String,
    source: io::Error,
}

impl Failed {
    /// To be used as `.map_err(Failed::to("set the host name"))`.
    pub(crate) fn to<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        |source| Self { what: what.into(), source: source.into() }
    }

    fn report(&self) -> Report {
        Report::Failed { what: format!("{self}: {}", self.source), errno: self.source.raw_os_error() }
    }
}

fn launch() -> io::Result<()> {
    sys::close_from(3)?;
    let (control, plan, streams) = Control::receive()?;
    let told = match contain(&control, &plan, streams) {
        Ok(met) => Report::Gone(met),
        Err(failed) => {
            control.tell(&failed.report())?;
            Report::Gone(Met::default())
        }
    };
    control.tell(&told)
}

/// Makes the container, waits for its end, and says which of its limits it had met.
fn contain(control: &Control, plan: &Plan, streams: Vec<OwnedFd>) -> Result<Met, Failed> {
    let trees = if rustix::process::geteuid().is_root() { Some(open_as_root(plan)?) } else { None };
    let cgroup = plan.cgroup.make().map_err(Failed::to("make its cgroups"))?;
    let door = cgroup.door().map_err(Failed::to("open its cgroups"))?;
    let (wait, go) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(Failed::to("make a pipe"))?;
    let side = sys::clone_into_namespaces().map_err(Failed::to("clone into new namespaces"))?;
    let sys::Side::Outside { init, pidfd } = side else {
        drop(go);
        inside::main(control, plan, inside::Inherited { streams, trees, released: wait, door });
    };
    drop((wait, streams, trees, door));
    let released = release(plan, init, &cgroup, go);
    if released.is_err() {
        kill(&pidfd)?;
    }
    let mut met = wait_for_end(control, plan, init, &pidfd, &cgroup)?;
    met.memory |= cgroup.has_killed();
    met.processes |= cgroup.has_refused();
    cgroup.remove();
    released.map(|()| met)
}

fn open_as_root(plan: &Plan) -> Result<root::Trees, Failed> {
    // A group of ours would still open files of this host to the container.
    rustix::thread::set_thread_groups(&[]).map_err(Failed::to("drop the supplementary groups"))?;
    sys::own_mounts().map_err(Failed::to("leave the host's mounts"))?;
    root::open(plan)
}

/// Maps the container's user, and only then lets its first process go on.
fn release(plan: &Plan, init: Pid, cgroup: &cgroup::Made, go: OwnedFd) -> Result<(), Failed> {
    let id = init.as_raw_nonzero();
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/{id}/{file}"), text).map_err(Failed::to(format!("write its {file}")))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{INSIDE_ID} {} 1\n", plan.host_ids.0))?;
    write("gid_map", format!("{INSIDE_ID} {} 1\n", plan.host_ids.1))?;
    // When the host itself runs out of memory, the container goes before what serves others.
    let score = fs::read_to_string(format!("/proc/{id}/oom_score_adj")).unwrap_or_default();
    let score = score.trim().parse().unwrap_or(0).max(VICTIM_SCORE);
    write("oom_score_adj", score.to_string())?;
    cgroup.join(id.get()).map_err(Failed::to("put it into its cgroups"))?;
    rustix::io::write(&go, b"g").map_err(Failed::to("release it"))?;
    Ok(())
}

/// Returns when the container's first process has been reaped; says what the watch has seen, and ended it for.
fn wait_for_end(
    control: &Control,
    plan: &Plan,
    init: Pid,
    pidfd: &OwnedFd,
    cgroup: &cgroup::Made,
) -> Result<Met, Failed> {
    let writable = plan.mounts.iter().filter(|mount| mount.writable).map(|mount| mount.host.as_path());
    let limit = disk::Use { bytes: plan.limits.disk_bytes, files: plan.limits.disk_files };
    let mut disk = DiskWatch::begin(writable, limit);
    let mut met = Met::default();
    let mut asking = true;
    loop {
        let mut polled = vec![PollFd::new(pidfd, PollFlags::IN)];
        if asking {
            polled.push(PollFd::from_borrowed_fd(control.socket(), PollFlags::IN | PollFlags::RDHUP));
        }
        match poll(&mut polled, Some(&WATCH_EVERY)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failed::to("wait for the container")(error)),
        }
        let ended = !polled[0].revents().is_empty();
        let told_to_stop = polled.get(1).is_some_and(|entry| !entry.revents().is_empty());
        if ended {
            reap(pidfd)?;
            return Ok(met);
        }
        if told_to_stop {
            asking = false;
            kill(pidfd)?;
        }
        if asking {
            look(plan, init, cgroup, &mut met);
            met.disk |= disk.is_over(init);
            if met.memory || met.disk {
                asking = false;
                kill(pidfd)?;
            }
        }
    }
}

/// What the kernel does not end a container for, or tells nobody of.
fn look(plan: &Plan, init: Pid, cgroup: &cgroup::Made, met: &mut Met) {
    let (memory, pids) = (plan.cgroup.bounds(Controller::Memory), plan.cgroup.bounds(Controller::Pids));
    // The kernel may end one process alone; what is left of the command is of no use to anyone.
    met.memory |= cgroup.has_killed();
    if !memory || !pids {
        let held = watch::held_by_tree(init);
        met.memory |= !memory && held.bytes > plan.limits.memory_bytes;
        met.processes |= !pids && held.tasks >= plan.tasks();
    }
}

fn kill(pidfd: &OwnedFd) -> Result<(), Failed> {
    match rustix::process::pidfd_send_signal(pidfd, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Failed::to("end the container")(error)),
    }
}

fn reap(pidfd: &OwnedFd) -> Result<(), Failed> {
    use std::os::fd::AsFd as _;
    rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)
        .map_err(Failed::to("reap the container"))?;
    Ok(())
}
