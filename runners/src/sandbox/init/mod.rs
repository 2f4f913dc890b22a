//! The launcher: this executable run again with an empty environment, to make one container.
//!
//! It has one thread and stays outside: it clones the container's first process into fresh namespaces,
//! maps its user, bounds its memory, and ends it when the control socket closes, which happens at the
//! latest when the process that asked for it dies. It leaves only after the first process has been
//! reaped, and the kernel lets that happen only when no other process of the container is left.

mod confine;
mod control;
mod dials;
mod forward;
mod inside;
pub(crate) mod plan;
mod root;
mod watch;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use self::control::Control;
use self::plan::{INSIDE_ID, Plan, Report};
use super::cgroup;
use super::sys;

/// The first argument by which an executable knows that it is to be the launcher.
pub(crate) const ARGUMENT: &str = "whipstitch-sandbox-init";

/// How often it is looked whether the memory limit has been met.
const WATCH_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How much sooner than others the kernel ends a container when the host runs out of memory, see proc(5).
const VICTIM_SCORE: i32 = 500;

/// Becomes the launcher when this process was started as one, and then never returns.
///
/// To be called first in `main` of every executable that uses [`Embedded`](super::Embedded), before any
/// thread exists.
pub fn maybe_run() {
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|argument| argument == ARGUMENT) {
        let code = if launch().is_ok() { 0 } else { 1 };
        std::process::exit(code);
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
        Ok(out_of_memory) => Report::Gone { out_of_memory },
        Err(failed) => {
            control.tell(&failed.report())?;
            Report::Gone { out_of_memory: false }
        }
    };
    control.tell(&told)
}

/// Makes the container, waits for its end, and says whether it had used more memory than it may.
fn contain(control: &Control, plan: &Plan, streams: Vec<OwnedFd>) -> Result<bool, Failed> {
    let trees = if rustix::process::geteuid().is_root() { Some(open_as_root(plan)?) } else { None };
    let cgroup = plan.cgroup.as_ref().map(|child| child.make(plan.limits.memory_bytes)).transpose();
    let cgroup = cgroup.map_err(Failed::to("make the memory limit's cgroup"))?;
    let door = cgroup.as_ref().map_or(Ok(None), cgroup::Made::door);
    let door = door.map_err(Failed::to("open the memory limit's cgroup"))?;
    let (wait, go) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(Failed::to("make a pipe"))?;
    let side = sys::clone_into_namespaces().map_err(Failed::to("clone into new namespaces"))?;
    let sys::Side::Outside { init, pidfd } = side else {
        drop(go);
        inside::main(control, plan, inside::Inherited { streams, trees, released: wait, door });
    };
    drop((wait, streams, trees));
    let to_join = cgroup.as_ref().filter(|_| door.is_none());
    let released = release(plan, init, to_join, go);
    if released.is_err() {
        kill(&pidfd)?;
    }
    let watched = wait_for_end(control, plan, init, &pidfd, cgroup.as_ref())?;
    let killed_by_kernel = cgroup.as_ref().is_some_and(cgroup::Made::has_killed);
    if let Some(cgroup) = cgroup {
        cgroup.remove();
    }
    released.map(|()| watched || killed_by_kernel)
}

fn open_as_root(plan: &Plan) -> Result<root::Trees, Failed> {
    // A group of ours would still open files of this host to the container.
    rustix::thread::set_thread_groups(&[]).map_err(Failed::to("drop the supplementary groups"))?;
    sys::own_mounts().map_err(Failed::to("leave the host's mounts"))?;
    root::open(plan)
}

/// Maps the container's user and bounds its memory, and only then lets its first process go on.
fn release(plan: &Plan, init: Pid, cgroup: Option<&cgroup::Made>, go: OwnedFd) -> Result<(), Failed> {
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
    if let Some(cgroup) = cgroup {
        cgroup.join(id.get()).map_err(Failed::to("put it into the memory limit's cgroup"))?;
    }
    rustix::io::write(&go, b"g").map_err(Failed::to("release it"))?;
    Ok(())
}

/// Returns when the container's first process has been reaped; says whether the watch had to end it.
fn wait_for_end(
    control: &Control,
    plan: &Plan,
    init: Pid,
    pidfd: &OwnedFd,
    cgroup: Option<&cgroup::Made>,
) -> Result<bool, Failed> {
    // The kernel may end one process alone; what is left of the command is of no use to anyone.
    let is_over = || match cgroup {
        Some(cgroup) => cgroup.has_killed(),
        None => watch::memory_of_tree(init) > plan.limits.memory_bytes,
    };
    let mut over_limit = false;
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
            return Ok(over_limit);
        }
        if told_to_stop {
            asking = false;
            kill(pidfd)?;
        }
        if !over_limit && is_over() {
            over_limit = true;
            kill(pidfd)?;
        }
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
