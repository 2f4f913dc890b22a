//! Parts of the kernel that a build has no use for, and that escapes are made of.

use std::io;
use std::time::Duration;

use super::raw::{Child, at, call, close, in_child, minus, room};
use super::{Facts, Outcome, Probe, all_refused, short};

const GROUP: &str = "kernel";

pub const PROBES: &[Probe] = &[
    Probe::quick(GROUP, "io-uring", "no ring of requests, which passes by every filter", io_uring),
    Probe::quick(GROUP, "programs-in-the-kernel", "no program runs within the kernel", bpf),
    Probe::quick(GROUP, "performance-events", "no performance counter can be opened", perf),
    Probe::quick(GROUP, "page-faults", "no page fault can be held up", userfaultfd),
    Probe::quick(GROUP, "keyrings", "no keyring, which belongs to a user and to no namespace", keyrings),
    Probe::quick(GROUP, "tracing", "no process can be traced", tracing),
    Probe::whole(
        GROUP,
        "memory-of-others",
        "no other process's memory or descriptor is taken",
        memory_of_others,
    ),
    Probe::whole(GROUP, "modules", "no module can be loaded or removed", modules),
    Probe::whole(
        GROUP,
        "another-kernel",
        "no other kernel can be loaded, and no restart made",
        another_kernel,
    ),
    Probe::whole(GROUP, "swap-and-accounts", "no swap, quota or accounting can be set", swap),
    Probe::whole(GROUP, "clock", "the machine's clock cannot be set", clock),
    Probe::whole(GROUP, "names-of-the-machine", "its names cannot be set", names),
    Probe::whole(GROUP, "ports", "no hardware port can be used", ports),
    Probe::whole(GROUP, "watching-files", "nobody else's file access can be watched", fanotify),
    Probe::whole(
        GROUP,
        "secret-memory",
        "no memory can be hidden from the kernel's own limits",
        secret_memory,
    ),
    Probe::whole(GROUP, "pages-of-others", "no pages can be moved between memories", pages),
    Probe::whole(GROUP, "old-interface", "the interface of 32-bit programs is closed", old_interface),
    Probe::whole(GROUP, "third-interface", "the mixed interface of x86-64 is closed", third_interface),
    Probe::whole(GROUP, "segments", "no table of segments can be changed", segments),
    Probe::whole(GROUP, "handles", "no handle of a file is told", handles),
    Probe::whole(GROUP, "log-and-tables", "the kernel's log and name tables cannot be asked", log_and_tables),
];

fn opened(answer: io::Result<i64>) -> io::Result<()> {
    answer.map(close)
}

fn did(answer: io::Result<i64>) -> io::Result<()> {
    answer.map(drop)
}

fn io_uring(_: &Facts) -> Outcome {
    let mut parameters = [0_u8; 120];
    let place = room(&mut parameters);
    all_refused([
        ("setup", opened(call(libc::SYS_io_uring_setup, &[8, place]))),
        ("enter", did(call(libc::SYS_io_uring_enter, &[minus(1), 0, 0, 0, 0, 0]))),
        ("register", did(call(libc::SYS_io_uring_register, &[minus(1), 0, 0, 0]))),
    ])
}

/// An array of one entry, and a program of none.
fn bpf(_: &Facts) -> Outcome {
    let mut map = [0_u8; 128];
    for (place, word) in [2_u32, 4, 8, 1].into_iter().enumerate() {
        map[place * 4..place * 4 + 4].copy_from_slice(&word.to_ne_bytes());
    }
    all_refused([
        ("map", opened(call(libc::SYS_bpf, &[0, at(&map), map.len() as u64]))),
        ("program", opened(call(libc::SYS_bpf, &[5, at(&map), map.len() as u64]))),
        ("link by name", opened(call(libc::SYS_bpf, &[7, at(&map), map.len() as u64]))),
    ])
}

fn perf(_: &Facts) -> Outcome {
    // `struct perf_event_attr`: kind and size, then the event; the last word excludes the kernel itself.
    let attributes = |exclude: u64| {
        let mut bytes = [0_u8; 128];
        bytes[..4].copy_from_slice(&1_u32.to_ne_bytes());
        bytes[4..8].copy_from_slice(&128_u32.to_ne_bytes());
        bytes[40..48].copy_from_slice(&exclude.to_ne_bytes());
        bytes
    };
    let (all, own) = (attributes(0), attributes(0x63));
    let open = |bytes: &[u8]| opened(call(libc::SYS_perf_event_open, &[at(bytes), 0, minus(1), minus(1), 0]));
    all_refused([("with the kernel", open(&all)), ("of itself", open(&own))])
}

fn userfaultfd(_: &Facts) -> Outcome {
    all_refused([
        ("any", opened(call(libc::SYS_userfaultfd, &[0]))),
        ("of the user's own", opened(call(libc::SYS_userfaultfd, &[1]))),
    ])
}

fn keyrings(_: &Facts) -> Outcome {
    let session = minus(3);
    all_refused([
        ("session", did(call(libc::SYS_keyctl, &[0, session, 1]))),
        ("user's", did(call(libc::SYS_keyctl, &[0, minus(4), 1]))),
        ("add", did(call(libc::SYS_add_key, &[at(b"user\0"), at(b"probe\0"), at(b"x"), 1, session]))),
        ("request", did(call(libc::SYS_request_key, &[at(b"user\0"), at(b"probe\0"), 0, session]))),
    ])
}

/// Asked of the parent and of no process, so that a success would be noticed and nothing be stopped.
fn tracing(_: &Facts) -> Outcome {
    const SEIZE: u64 = 0x4206;
    let parent = rustix::process::getppid().map_or(1, |parent| parent.as_raw_nonzero().get() as u64);
    all_refused([
        ("seize", did(call(libc::SYS_ptrace, &[SEIZE, parent, 0, 0]))),
        ("trace me", did(call(libc::SYS_ptrace, &[0, 0, 0, 0]))),
    ])
}

fn memory_of_others(_: &Facts) -> Outcome {
    let parent = rustix::process::getppid().map_or(1, |parent| parent.as_raw_nonzero().get() as u64);
    let mut taken = [0_u8; 16];
    let mut local = Vec::new();
    local.extend_from_slice(&room(&mut taken).to_ne_bytes());
    local.extend_from_slice(&16_u64.to_ne_bytes());
    let vector = at(&local);
    let handle = call(libc::SYS_pidfd_open, &[parent, 0]);
    let stolen = handle.and_then(|handle| {
        let stolen = call(libc::SYS_pidfd_getfd, &[handle.cast_unsigned(), 0, 0]);
        close(handle);
        stolen
    });
    all_refused([
        ("read", did(call(libc::SYS_process_vm_readv, &[parent, vector, 1, vector, 1, 0]))),
        ("write", did(call(libc::SYS_process_vm_writev, &[parent, vector, 1, vector, 1, 0]))),
        ("descriptor", opened(stolen)),
        ("compare", did(call(libc::SYS_kcmp, &[parent, parent, 0, 0, 0]))),
        ("advise", did(call(libc::SYS_process_madvise, &[minus(1), vector, 1, 4, 0]))),
    ])
}

fn modules(_: &Facts) -> Outcome {
    all_refused([
        ("load", did(call(libc::SYS_init_module, &[at(b"x"), 1, at(b"\0")]))),
        ("load a file", did(call(libc::SYS_finit_module, &[0, at(b"\0"), 0]))),
        ("remove", did(call(libc::SYS_delete_module, &[at(b"no_such_module\0"), 0]))),
    ])
}

/// Magic numbers that are wrong: where the call is open, the kernel says so and does nothing.
fn another_kernel(_: &Facts) -> Outcome {
    let closed = |answer: io::Result<i64>| match answer {
        Err(error) if [Some(libc::EPERM), Some(libc::ENOSYS)].contains(&error.raw_os_error()) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    };
    all_refused([
        ("kexec", closed(call(libc::SYS_kexec_load, &[0, 0, 0, 0xffff]))),
        ("kexec of a file", closed(call(libc::SYS_kexec_file_load, &[minus(1), minus(1), 0, 0, 0xffff]))),
        ("restart", closed(call(libc::SYS_reboot, &[0, 0, 0, 0]))),
    ])
}

fn swap(_: &Facts) -> Outcome {
    all_refused([
        ("swap on", did(call(libc::SYS_swapon, &[at(b"/no/such\0"), 0]))),
        ("swap off", did(call(libc::SYS_swapoff, &[at(b"/no/such\0")]))),
        ("accounts", did(call(libc::SYS_acct, &[at(b"/no/such\0")]))),
        ("quota", did(call(libc::SYS_quotactl, &[0x800007 << 8, at(b"/no/such\0"), 0, 0]))),
    ])
}

/// Sets nothing: the times are not valid, and the privilege is asked for first.
fn clock(_: &Facts) -> Outcome {
    let closed = |answer: io::Result<i64>| match answer {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    };
    let never = [0xff_u8; 16];
    let mut adjust = [0_u8; 208];
    adjust[..4].copy_from_slice(&0x8000_u32.to_ne_bytes());
    all_refused([
        ("clock", closed(call(libc::SYS_clock_settime, &[0, at(&never)]))),
        ("time of day", closed(call(libc::SYS_settimeofday, &[at(&never), 0]))),
        ("adjustment", closed(call(libc::SYS_adjtimex, &[room(&mut adjust)]).or_else(deny_read_only))),
    ])
}

/// Where the call may only read, nothing was set.
fn deny_read_only(error: io::Error) -> io::Result<i64> {
    match error.raw_os_error() {
        Some(libc::EINVAL) => Err(io::Error::from_raw_os_error(libc::EPERM)),
        _ => Err(error),
    }
}

fn names(_: &Facts) -> Outcome {
    all_refused([
        ("host", did(call(libc::SYS_sethostname, &[at(b"probe"), 5]))),
        ("domain", did(call(libc::SYS_setdomainname, &[at(b"probe"), 5]))),
    ])
}

#[cfg(target_arch = "x86_64")]
fn ports(_: &Facts) -> Outcome {
    all_refused([
        ("all", did(call(libc::SYS_iopl, &[3]))),
        ("one", did(call(libc::SYS_ioperm, &[0x80, 1, 1]))),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
fn ports(_: &Facts) -> Outcome {
    Outcome::Contained("this architecture has none".to_owned())
}

fn fanotify(_: &Facts) -> Outcome {
    all_refused([
        ("all", opened(call(libc::SYS_fanotify_init, &[0, 0]))),
        ("of the user's own", opened(call(libc::SYS_fanotify_init, &[0x200, 0]))),
    ])
}

fn secret_memory(_: &Facts) -> Outcome {
    super::refused(opened(call(libc::SYS_memfd_secret, &[0])), "a descriptor was made")
}

fn pages(_: &Facts) -> Outcome {
    all_refused([
        ("move", did(call(libc::SYS_move_pages, &[1, 0, 0, 0, 0, 0]))),
        ("migrate", did(call(libc::SYS_migrate_pages, &[1, 0, 0, 0]))),
    ])
}

#[cfg(target_arch = "x86_64")]
fn old_interface(_: &Facts) -> Outcome {
    let tried =
        in_child(Duration::from_secs(5), || super::raw::process_by_old_interface().to_string().into_bytes());
    match tried {
        Ok(Child::Killed(signal)) => Outcome::Contained(format!("ended by signal {signal}")),
        Ok(Child::Said(said)) => match String::from_utf8_lossy(&said).parse::<i64>() {
            Ok(answer) if answer < 0 => Outcome::Contained(format!("answered {answer}")),
            Ok(answer) => Outcome::Leak(format!("answered {answer}")),
            Err(error) => Outcome::NotTried(error.to_string()),
        },
        Ok(Child::Hung) => Outcome::NotTried("it hung".to_owned()),
        Err(error) => Outcome::NotTried(short(&error)),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn old_interface(_: &Facts) -> Outcome {
    Outcome::Contained("programs of 64 bits cannot use it on this architecture".to_owned())
}

#[cfg(target_arch = "x86_64")]
fn third_interface(_: &Facts) -> Outcome {
    const BIT: i64 = 0x4000_0000;
    let mixed = |number: i64, arguments: &[u64]| did(call(BIT | number, arguments));
    all_refused([
        ("process id", mixed(libc::SYS_getpid, &[])),
        ("hypervisor socket", mixed(libc::SYS_socket, &[40, 1, 0])),
        ("unshare", mixed(libc::SYS_unshare, &[libc::CLONE_NEWUSER as u64])),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
fn third_interface(_: &Facts) -> Outcome {
    Outcome::Contained("this architecture has none".to_owned())
}

#[cfg(target_arch = "x86_64")]
fn segments(_: &Facts) -> Outcome {
    let entry = [0_u8; 16];
    super::refused(did(call(libc::SYS_modify_ldt, &[0x11, at(&entry), 16])), "an entry was written")
}

#[cfg(not(target_arch = "x86_64"))]
fn segments(_: &Facts) -> Outcome {
    Outcome::Contained("this architecture has none".to_owned())
}

fn handles(_: &Facts) -> Outcome {
    let (mut handle, mut mount) = ([0_u8; 136], [0_u8; 4]);
    handle[..4].copy_from_slice(&128_u32.to_ne_bytes());
    let (handle, mount) = (room(&mut handle), room(&mut mount));
    let told = call(libc::SYS_name_to_handle_at, &[minus(100), at(b"/usr\0"), handle, mount, 0]);
    super::refused(did(told), "a handle was told")
}

fn log_and_tables(_: &Facts) -> Outcome {
    let mut text = [0_u8; 64];
    let place = room(&mut text);
    all_refused([
        ("log", did(call(libc::SYS_syslog, &[3, place, 64]))),
        ("size of the log", did(call(libc::SYS_syslog, &[10, 0, 0]))),
        ("name", did(call(libc::SYS_lookup_dcookie, &[0, place, 64]))),
    ])
}
