//! Namespaces and mounts: with a user namespace of its own a program has every privilege over a part of the
//! kernel that was written for root alone.

use std::io;
use std::time::Duration;

use super::raw::{Child, at, call, clone_with, clone3_with, close, in_child, minus};
use super::{Facts, Outcome, Probe, all_refused, none_open, short};

const GROUP: &str = "namespaces";

pub const PROBES: &[Probe] = &[
    Probe::quick(GROUP, "user-namespace", "no user namespace can be made, by any call", user_namespace),
    Probe::quick(GROUP, "mount", "nothing can be mounted or unmounted", mounts),
    Probe::quick(GROUP, "new-mount-calls", "nor by the newer calls for mounts", new_mount_calls),
    Probe::quick(GROUP, "root-change", "the root cannot be changed", root_change),
    Probe::whole(GROUP, "namespaces-of-every-kind", "no namespace of any kind can be made", every_kind),
    Probe::whole(GROUP, "clone-of-every-kind", "nor with a new process", every_clone),
    Probe::whole(
        GROUP,
        "clone3-of-every-kind",
        "nor by the call whose flags no filter can read",
        every_clone3,
    ),
    Probe::whole(GROUP, "enter-namespace", "no namespace can be entered", enter),
    Probe::whole(
        GROUP,
        "namespace-then-netfilter",
        "no user namespace opens the packet filter",
        then_netfilter,
    ),
    Probe::whole(
        GROUP,
        "namespace-then-cgroups",
        "no user namespace opens the cgroup file system",
        then_cgroups,
    ),
    Probe::whole(GROUP, "file-handles", "no file can be opened by its number", file_handles),
];

const KINDS: [(&str, i32); 7] = [
    ("user", libc::CLONE_NEWUSER),
    ("mount", libc::CLONE_NEWNS),
    ("pid", libc::CLONE_NEWPID),
    ("net", libc::CLONE_NEWNET),
    ("ipc", libc::CLONE_NEWIPC),
    ("uts", libc::CLONE_NEWUTS),
    ("cgroup", libc::CLONE_NEWCGROUP),
];
/// The time namespace, whose flag clone(2) takes for a part of its signal.
const TIME: i32 = 0x80;

fn unshare(flags: i32) -> io::Result<()> {
    call(libc::SYS_unshare, &[flags as u64]).map(drop)
}

fn user_namespace(_: &Facts) -> Outcome {
    all_refused([
        ("unshare", unshare(libc::CLONE_NEWUSER)),
        ("clone", clone_with(libc::CLONE_NEWUSER)),
        ("clone3", clone3_with(libc::CLONE_NEWUSER)),
    ])
}

fn mounts(_: &Facts) -> Outcome {
    let mount = |kind: &[u8], flags: u64| {
        call(libc::SYS_mount, &[at(b"none\0"), at(b"/tmp\0"), at(kind), flags, 0]).map(drop)
    };
    let remount = libc::MS_REMOUNT | libc::MS_BIND;
    all_refused([
        ("tmpfs", mount(b"tmpfs\0", 0)),
        ("proc", mount(b"proc\0", 0)),
        ("overlay", mount(b"overlay\0", 0)),
        ("bind", mount(b"none\0", libc::MS_BIND)),
        ("remount", mount(b"none\0", remount)),
        ("unmount", call(libc::SYS_umount2, &[at(b"/proc/sys\0"), libc::MNT_DETACH as u64]).map(drop)),
    ])
}

fn new_mount_calls(_: &Facts) -> Outcome {
    let here = minus(100);
    let opened = |answer: io::Result<i64>| answer.map(close);
    let attributes = [0_u8; 32];
    all_refused([
        ("fsopen", opened(call(libc::SYS_fsopen, &[at(b"tmpfs\0"), 0]))),
        ("fspick", opened(call(libc::SYS_fspick, &[here, at(b"/\0"), 0]))),
        ("fsmount", opened(call(libc::SYS_fsmount, &[0, 0, 0]))),
        ("fsconfig", call(libc::SYS_fsconfig, &[0, 6, 0, 0, 0]).map(drop)),
        ("open_tree", opened(call(libc::SYS_open_tree, &[here, at(b"/\0"), 1]))),
        ("move_mount", call(libc::SYS_move_mount, &[here, at(b"/tmp\0"), here, at(b"/tmp\0"), 0]).map(drop)),
        (
            "mount_setattr",
            call(libc::SYS_mount_setattr, &[here, at(b"/\0"), 0, at(&attributes), 32]).map(drop),
        ),
    ])
}

fn root_change(_: &Facts) -> Outcome {
    all_refused([
        ("pivot_root", call(libc::SYS_pivot_root, &[at(b"/tmp\0"), at(b"/tmp\0")]).map(drop)),
        ("chroot", call(libc::SYS_chroot, &[at(b"/tmp\0")]).map(drop)),
    ])
}

fn every_kind(_: &Facts) -> Outcome {
    let kinds = KINDS.into_iter().chain([("time", TIME)]);
    all_refused(kinds.map(|(name, flag)| (name, unshare(flag))))
}

fn every_clone(_: &Facts) -> Outcome {
    all_refused(KINDS.map(|(name, flag)| (name, clone_with(flag))))
}

fn every_clone3(_: &Facts) -> Outcome {
    let kinds = KINDS.into_iter().chain([("time", TIME)]);
    all_refused(kinds.map(|(name, flag)| (name, clone3_with(flag))))
}

fn enter(_: &Facts) -> Outcome {
    let mut attempts = Vec::new();
    for name in ["user", "mnt", "net", "pid", "ipc", "uts", "cgroup"] {
        for process in ["self", "1"] {
            let entered = std::fs::File::open(format!("/proc/{process}/ns/{name}")).and_then(|file| {
                use std::os::fd::AsRawFd as _;
                call(libc::SYS_setns, &[file.as_raw_fd() as u64, 0]).map(drop)
            });
            attempts.push((name, entered));
        }
    }
    all_refused(attempts)
}

/// Takes the way of many published escapes in a process of its own.
fn chain(act: impl FnOnce() -> io::Result<()>) -> Outcome {
    let tried = in_child(Duration::from_secs(5), || match act() {
        Ok(()) => b"open".to_vec(),
        Err(error) => short(&error).into_bytes(),
    });
    match tried {
        Ok(Child::Said(said)) if said == b"open" => Outcome::Leak("the chain led through".to_owned()),
        Ok(Child::Said(said)) => Outcome::Contained(String::from_utf8_lossy(&said).into_owned()),
        Ok(Child::Killed(signal)) => Outcome::Contained(format!("ended by signal {signal}")),
        Ok(Child::Hung) => Outcome::NotTried("it hung".to_owned()),
        Err(error) => Outcome::NotTried(short(&error)),
    }
}

fn then_netfilter(_: &Facts) -> Outcome {
    chain(|| {
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWNET)?;
        let arguments = [libc::AF_NETLINK as u64, libc::SOCK_RAW as u64, libc::NETLINK_NETFILTER as u64];
        call(libc::SYS_socket, &arguments).map(drop)
    })
}

fn then_cgroups(_: &Facts) -> Outcome {
    chain(|| {
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP)?;
        let mount =
            |kind: &[u8]| call(libc::SYS_mount, &[at(b"none\0"), at(b"/tmp\0"), at(kind), 0, 0]).map(drop);
        mount(b"cgroup2\0").or_else(|_| mount(b"cgroup\0"))
    })
}

/// Inode 2 is the root of most file systems of a disk.
fn file_handles(_: &Facts) -> Outcome {
    let mut handle = Vec::new();
    for word in [8_u32, 1, 2, 0] {
        handle.extend_from_slice(&word.to_ne_bytes());
    }
    let mut open = Vec::new();
    let mut answer = String::new();
    for folder in ["/usr", "/", "/workspace", "/etc"] {
        let Ok(file) = std::fs::File::open(folder) else { continue };
        use std::os::fd::AsRawFd as _;
        match call(libc::SYS_open_by_handle_at, &[file.as_raw_fd() as u64, at(&handle), 0]) {
            Ok(descriptor) => {
                close(descriptor);
                open.push(folder);
            }
            Err(error) => answer = short(&error),
        }
    }
    none_open(&open, answer)
}
