//! What the container's processes may ask of the kernel: bounds, no privileges, Landlock, seccomp.

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::Failed;
use super::plan::Plan;
use crate::sandbox::cgroup::Controller;
use crate::sandbox::seccomp;

/// Folders in which the container may write, as Landlock sees it; the mounts say the same.
const WRITABLE: [&str; 6] = ["/workspace", "/home", "/tmp", "/dev", "/proc", "/run"];
/// The newest rules that are asked for; an older kernel holds as many of them as it knows.
const RULES: ABI = ABI::V6;
/// Where a cgroup counts processes it says what it refused; this limit, which says nothing, lies above it.
const ABOVE_THE_CGROUP: u64 = 64;

/// One byte is the only limit by which the kernel neither writes a core file nor starts the host's handler of
/// cores, which would read as root what the container has prepared; at zero it still starts the handler.
const CORE_BYTES: u64 = 1;

/// Confines this process and all that it will start. Threads that exist already are not confined by
/// Landlock and seccomp.
pub fn apply(plan: &Plan) -> Result<(), Failed> {
    bound(plan)?;
    drop_privileges()?;
    if plan.landlock {
        restrict_files().map_err(Failed::to("apply Landlock"))?;
    }
    for filter in seccomp::programs().map_err(Failed::to("compile the seccomp policy"))? {
        seccompiler::apply_filter(&filter)
            .map_err(io::Error::other)
            .map_err(Failed::to("apply the seccomp policy"))?;
    }
    Ok(())
}

fn bound(plan: &Plan) -> Result<(), Failed> {
    let limits = &plan.limits;
    let counted = plan.cgroup.bounds(Controller::Pids);
    let tasks = plan.tasks().saturating_add(if counted { ABOVE_THE_CGROUP } else { 0 });
    let mut bounds = vec![
        (Resource::Nproc, tasks),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Core, CORE_BYTES),
        (Resource::Memlock, 64 << 10),
        (Resource::Msgqueue, 64 << 10),
        (Resource::Rtprio, 0),
        (Resource::Nice, 0),
        (Resource::Sigpending, 4096),
    ];
    if !plan.cgroup.bounds(Controller::Memory) {
        // Without a cgroup this is the hard bound of one process; the launcher's watch bounds the sum.
        bounds.push((Resource::Data, limits.memory_bytes));
    }
    for (resource, wanted) in bounds {
        let allowed = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Some(wanted.min(allowed));
        rustix::process::setrlimit(resource, Rlimit { current: limit, maximum: limit })
            .map_err(Failed::to(format!("bound {resource:?}")))?;
    }
    Ok(())
}

fn drop_privileges() -> Result<(), Failed> {
    rustix::thread::clear_ambient_capability_set().map_err(Failed::to("clear ambient capabilities"))?;
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The kernel knows no further capability.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(Failed::to("bound its capabilities")(error)),
        }
    }
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
    .map_err(Failed::to("drop its capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(Failed::to("forbid new privileges"))
}

fn restrict_files() -> io::Result<()> {
    let all = AccessFs::from_all(RULES);
    let mut rules = Ruleset::default()
        .handle_access(all)
        .map_err(io::Error::other)?
        .scope(Scope::from_all(RULES))
        .map_err(io::Error::other)?
        .create()
        .map_err(io::Error::other)?;
    let root = PathFd::new("/").map_err(io::Error::other)?;
    rules = rules.add_rule(PathBeneath::new(root, AccessFs::from_read(RULES))).map_err(io::Error::other)?;
    for path in WRITABLE {
        if let Ok(folder) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(folder, all)).map_err(io::Error::other)?;
        }
    }
    let status = rules.restrict_self().map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    Ok(())
}
