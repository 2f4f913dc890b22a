//! What a process inside may do with what it is: capabilities, users, limits, its place in the queue.

use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit};
use rustix::thread::CapabilitySet;

use super::raw::{at, call};
use super::{Facts, Outcome, Probe, all_refused, none_open};

const GROUP: &str = "privileges";

pub const PROBES: &[Probe] = &[
    Probe::quick(
        GROUP,
        "capabilities",
        "no process has a capability, and none can be given one",
        capabilities,
    ),
    Probe::quick(GROUP, "no-new-privileges", "no program can be given new privileges", no_new_privileges),
    Probe::quick(GROUP, "filter", "a filter of system calls is in force", filter),
    Probe::whole(GROUP, "become-root", "no other user can be become", become_root),
    Probe::whole(GROUP, "take-capabilities", "no capability can be taken back", take_capabilities),
    Probe::whole(GROUP, "host-groups", "no group of the host came along", host_groups),
    Probe::whole(GROUP, "real-time", "no process goes before all others", real_time),
    Probe::whole(GROUP, "raise-limits", "no limit can be raised", raise_limits),
    Probe::whole(GROUP, "core-files", "no core is handed to a program of the host", core_files),
    Probe::whole(GROUP, "locked-memory", "little memory can be locked", locked_memory),
    Probe::whole(GROUP, "limits-set", "files, processes and locks are bounded", limits_set),
    Probe::whole(GROUP, "filter-removal", "the filter stays", filter_removal),
];

/// A field of `/proc/self/status`.
fn status(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn capabilities(_: &Facts) -> Outcome {
    let mut open = Vec::new();
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        match status(set).map(|hex| u64::from_str_radix(&hex, 16)) {
            Some(Ok(0)) => {}
            Some(Ok(bits)) => open.push(format!("{set} {bits:#x}")),
            Some(Err(_)) | None => return Outcome::NotTried(format!("{set} cannot be read")),
        }
    }
    none_open(&open, "all five sets are empty")
}

fn no_new_privileges(_: &Facts) -> Outcome {
    match status("NoNewPrivs").as_deref() {
        Some("1") => Outcome::Contained("set".to_owned()),
        Some(other) => Outcome::Leak(other.to_owned()),
        None => Outcome::NotTried("it cannot be read".to_owned()),
    }
}

fn filter(_: &Facts) -> Outcome {
    match status("Seccomp").as_deref() {
        Some("2") => Outcome::Contained(format!(
            "{} in force",
            status("Seccomp_filters").unwrap_or_else(|| "filters".to_owned())
        )),
        Some(other) => Outcome::Leak(format!("mode {other}")),
        None => Outcome::NotTried("it cannot be read".to_owned()),
    }
}

fn become_root(_: &Facts) -> Outcome {
    let did = |number, arguments: &[u64]| call(number, arguments).map(drop);
    all_refused([
        ("setuid", did(libc::SYS_setuid, &[0])),
        ("setgid", did(libc::SYS_setgid, &[0])),
        ("setresuid", did(libc::SYS_setresuid, &[0, 0, 0])),
        ("setreuid", did(libc::SYS_setreuid, &[0, 0])),
        ("setgroups", did(libc::SYS_setgroups, &[1, at(&[0; 4])])),
        ("another user", did(libc::SYS_setuid, &[12345])),
    ])
}

fn take_capabilities(_: &Facts) -> Outcome {
    let wanted = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN | CapabilitySet::SYS_PTRACE;
    let sets = rustix::thread::CapabilitySets { effective: wanted, permitted: wanted, inheritable: wanted };
    let taken = rustix::thread::set_capabilities(None, sets).map_err(io::Error::from);
    let ambient = rustix::thread::configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)
        .map_err(io::Error::from);
    all_refused([("sets", taken), ("ambient", ambient)])
}

/// A group that has no number inside is shown as the one of nobody; what it opens is bounded by the mounts.
fn host_groups(_: &Facts) -> Outcome {
    const NOBODY: u32 = 65_534;
    let own = rustix::process::getegid().as_raw();
    let Ok(groups) = rustix::process::getgroups() else {
        return Outcome::NotTried("they cannot be listed".to_owned());
    };
    let other: Vec<String> = groups
        .iter()
        .map(|group| group.as_raw())
        .filter(|&group| group != own && group != NOBODY)
        .map(|group| group.to_string())
        .collect();
    none_open(&other, format!("{} listed", groups.len()))
}

fn real_time(_: &Facts) -> Outcome {
    let priority = 50_i32.to_ne_bytes();
    let nicer = (-10_i64).cast_unsigned();
    all_refused([
        ("first in, first out", call(libc::SYS_sched_setscheduler, &[0, 1, at(&priority)]).map(drop)),
        ("round robin", call(libc::SYS_sched_setscheduler, &[0, 2, at(&priority)]).map(drop)),
        ("nice", call(libc::SYS_setpriority, &[0, 0, nicer]).map(drop)),
        ("disk first", call(libc::SYS_ioprio_set, &[1, 0, 1 << 13]).map(drop)),
    ])
}

fn raise_limits(_: &Facts) -> Outcome {
    let resources = [
        ("processes", Resource::Nproc),
        ("files", Resource::Nofile),
        ("file size", Resource::Fsize),
        ("locked memory", Resource::Memlock),
        ("core", Resource::Core),
    ];
    all_refused(resources.map(|(name, resource)| {
        let wanted = match rustix::process::getrlimit(resource).maximum {
            Some(maximum) => Some(maximum + 1),
            // What has no limit cannot be raised, and is told by another probe.
            None => return (name, Err(io::Error::other("unlimited"))),
        };
        let limit = Rlimit { current: wanted, maximum: wanted };
        (name, rustix::process::setrlimit(resource, limit).map_err(io::Error::from))
    }))
}

/// With a limit of one byte or more the kernel starts the host's handler; at one byte it writes nothing, and
/// it starts none only for a limit of exactly one.
fn core_files(_: &Facts) -> Outcome {
    let handled = fs::read_to_string("/proc/sys/kernel/core_pattern").is_ok_and(|text| text.starts_with('|'));
    let maximum = rustix::process::getrlimit(Resource::Core).maximum;
    let said = format!("limit {}", maximum.map_or("none".to_owned(), |bytes| bytes.to_string()));
    match maximum {
        Some(1) => Outcome::Contained(said),
        Some(_) | None if !handled => Outcome::Contained(format!("{said}; the host has no handler")),
        Some(_) | None => Outcome::Leak(format!("{said}; the host has a handler")),
    }
}

fn locked_memory(_: &Facts) -> Outcome {
    const MOST: u64 = 8 << 20;
    match rustix::process::getrlimit(Resource::Memlock).maximum {
        Some(bytes) if bytes <= MOST => Outcome::Contained(format!("{} KiB", bytes >> 10)),
        Some(bytes) => Outcome::Leak(format!("{} KiB", bytes >> 10)),
        None => Outcome::Leak("no bound".to_owned()),
    }
}

fn limits_set(facts: &Facts) -> Outcome {
    let mut open = Vec::new();
    for (name, resource, most) in [
        ("files", Resource::Nofile, facts.open_files),
        ("processes", Resource::Nproc, facts.processes * 4 + 512),
    ] {
        match rustix::process::getrlimit(resource).maximum {
            Some(maximum) if maximum <= most => {}
            // An engine bounds processes by their cgroup; the bomb shows whether it does.
            None if name == "processes" => {}
            Some(maximum) => open.push(format!("{name}: {maximum}")),
            None => open.push(format!("{name}: none")),
        }
    }
    none_open(&open, "as they were asked for")
}

/// A program may add a filter; none may take one away, or go back to no filter.
fn filter_removal(_: &Facts) -> Outcome {
    let disabled = call(libc::SYS_prctl, &[libc::PR_SET_SECCOMP as u64, 0, 0, 0, 0]).map(drop);
    let privileges = call(libc::SYS_prctl, &[libc::PR_SET_NO_NEW_PRIVS as u64, 0, 0, 0, 0]).map(drop);
    all_refused([("filter", disabled), ("no new privileges", privileges)])
}
