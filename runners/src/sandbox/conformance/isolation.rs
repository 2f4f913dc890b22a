//! Other processes, users and machines: what a container must not see or reach of them.

use std::fs;
use std::io;

use rustix::process::{Pid, Signal};

use super::raw::{at, call, room};
use super::{Facts, Outcome, Probe, all_refused, none_open, refused};

const GROUP: &str = "isolation";

pub const PROBES: &[Probe] = &[
    Probe::whole(GROUP, "own-namespaces", "every namespace is another than the host's", own_namespaces),
    Probe::whole(GROUP, "user-is-nobody", "no user inside is the host's root", user_is_nobody),
    Probe::whole(GROUP, "processes-seen", "no process of the host is seen", processes_seen),
    Probe::whole(GROUP, "signals", "no process of the host gets a signal", signals),
    Probe::whole(GROUP, "host-limits", "no limit of a process of the host is read or set", host_limits),
    Probe::whole(GROUP, "host-name", "the host's name is not told", host_name),
    Probe::whole(GROUP, "shared-memory", "no shared memory of the host is attached", shared_memory),
    Probe::whole(GROUP, "message-queues", "no message queue of the host is seen", message_queues),
    Probe::whole(GROUP, "terminal-input", "no keystroke can be put into a terminal", terminal_input),
    Probe::whole(GROUP, "terminal", "there is no controlling terminal", terminal),
];

fn own_namespaces(facts: &Facts) -> Outcome {
    let (mut same, mut seen) = (Vec::new(), 0);
    for (name, host) in &facts.namespaces {
        match fs::read_link(format!("/proc/self/ns/{name}")) {
            Ok(own) if own.to_string_lossy() == *host => same.push(name.clone()),
            Ok(_) => seen += 1,
            Err(error) => return Outcome::NotTried(format!("{name}: {error}")),
        }
    }
    if seen + same.len() < 7 {
        return Outcome::NotTried(format!("only {} were compared", seen + same.len()));
    }
    none_open(&same, format!("{seen} of its own"))
}

/// Each line maps a first id inside to a first id of the namespace above, and says how many follow.
fn user_is_nobody(_: &Facts) -> Outcome {
    let mut open = Vec::new();
    for file in ["/proc/self/uid_map", "/proc/self/gid_map"] {
        let Ok(map) = fs::read_to_string(file) else { return Outcome::NotTried(format!("no {file}")) };
        for line in map.lines() {
            let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
            if let (Some(inside), Some(0)) = (numbers.next(), numbers.next()) {
                open.push(format!("{inside} inside is 0 above ({file})"));
            }
        }
    }
    none_open(&open, format!("user {}", rustix::process::geteuid().as_raw()))
}

/// A container has a handful of processes with small numbers of its own.
fn processes_seen(facts: &Facts) -> Outcome {
    let Ok(entries) = fs::read_dir("/proc") else { return Outcome::NotTried("no /proc".to_owned()) };
    let numbers: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_string_lossy().parse().ok()).collect();
    let said = format!("{} seen", numbers.len());
    let own = fs::read_link("/proc/self/ns/pid").map(|own| own.to_string_lossy().into_owned());
    let shared = own.is_ok_and(|own| facts.namespaces.get("pid") == Some(&own));
    if numbers.len() > 25 || shared { Outcome::Leak(said) } else { Outcome::Contained(said) }
}

fn signals(facts: &Facts) -> Outcome {
    let Some(host) = Pid::from_raw(facts.host_process) else {
        return Outcome::NotTried("no process of the host is known".to_owned());
    };
    // The number may be that of a process inside; its executable tells the two apart.
    if fs::metadata(format!("/proc/{}", facts.host_process)).is_ok() {
        return Outcome::Contained("the number is one of ours".to_owned());
    }
    let asked = rustix::process::test_kill_process(host).map_err(io::Error::from);
    let stopped = rustix::process::kill_process(host, Signal::CONT).map_err(io::Error::from);
    all_refused([("test", asked), ("continue", stopped)])
}

fn host_limits(facts: &Facts) -> Outcome {
    if fs::metadata(format!("/proc/{}", facts.host_process)).is_ok() {
        return Outcome::Contained("the number is one of ours".to_owned());
    }
    let mut limit = [0_u8; 16];
    let arguments = [facts.host_process as u64, libc::RLIMIT_NOFILE as u64, 0, room(&mut limit)];
    let read = call(libc::SYS_prlimit64, &arguments).map(drop);
    let scheduled = call(libc::SYS_sched_getscheduler, &[facts.host_process as u64]).map(drop);
    all_refused([("limit", read), ("scheduler", scheduled)])
}

fn host_name(facts: &Facts) -> Outcome {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name == facts.host_name { Outcome::Leak(name) } else { Outcome::Contained(name) }
}

fn shared_memory(facts: &Facts) -> Outcome {
    let got = call(libc::SYS_shmget, &[facts.memory_key as u64, 4096, 0]);
    refused(got, "the host's segment was found")
}

fn message_queues(_: &Facts) -> Outcome {
    let listed = fs::read_dir("/dev/mqueue").map(|entries| entries.count()).unwrap_or(0);
    if listed > 0 { Outcome::Leak(format!("{listed} queues")) } else { Outcome::Contained("none".to_owned()) }
}

fn terminal_input(_: &Facts) -> Outcome {
    const INSERT: u64 = 0x5412;
    const CONSOLE: u64 = 0x541C;
    let key = [b'x'];
    let paste = [3_u8, 0, 0, 0];
    let high = 1_u64 << 32;
    all_refused([
        ("insert", call(libc::SYS_ioctl, &[0, INSERT, at(&key)]).map(drop)),
        ("insert, upper half set", call(libc::SYS_ioctl, &[0, high | INSERT, at(&key)]).map(drop)),
        ("console", call(libc::SYS_ioctl, &[0, CONSOLE, at(&paste)]).map(drop)),
        ("insert by the second stream", call(libc::SYS_ioctl, &[2, INSERT, at(&key)]).map(drop)),
    ])
}

fn terminal(_: &Facts) -> Outcome {
    let opened = fs::File::open("/dev/tty").map(drop);
    let group = call(libc::SYS_ioctl, &[0, libc::TIOCGPGRP, 0]).map(drop);
    all_refused([("/dev/tty", opened), ("group", group)])
}
