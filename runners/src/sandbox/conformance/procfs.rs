//! What /proc and /sys tell of the host, and what they would change in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};

use sha2::{Digest as _, Sha256};

use super::{Facts, Outcome, Probe, all_refused, none_open};

const GROUP: &str = "proc";

pub const PROBES: &[Probe] = &[
    Probe::quick(GROUP, "kernel-settings", "no setting of the kernel can be written", settings),
    Probe::quick(GROUP, "first-process", "the first process shows no environment of the host", first_process),
    Probe::whole(GROUP, "kernel-memory", "no memory of the machine can be read", memory),
    Probe::whole(GROUP, "kernel-addresses", "no address of the kernel is told", addresses),
    Probe::whole(GROUP, "kernel-log", "the kernel's log cannot be read", log),
    Probe::whole(GROUP, "kernel-tables", "keys, timers and allocations of the kernel are hidden", tables),
    Probe::whole(GROUP, "environments", "no process inside has a variable of the host's", environments),
    Probe::whole(
        GROUP,
        "memory-of-the-first",
        "the first process's memory cannot be opened",
        memory_of_the_first,
    ),
    Probe::whole(GROUP, "executables", "no running executable can be written", executables),
    Probe::whole(GROUP, "victim-score", "no process can make itself a later victim", victim_score),
    Probe::whole(GROUP, "id-maps", "the maps of users and groups are written once", id_maps),
    Probe::whole(GROUP, "sysfs", "nothing of /sys can be written", sysfs),
    Probe::whole(GROUP, "firmware", "firmware and debug files cannot be read", firmware),
    Probe::whole(GROUP, "cgroup-files", "no cgroup file can be written", cgroup_files),
];

/// Opens for writing and writes nothing.
fn opens(path: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}

fn settings(_: &Facts) -> Outcome {
    let files = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hotplug",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/ns_last_pid",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sys/fs/suid_dumpable",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sysrq-trigger",
        "/proc/irq/default_smp_affinity",
        "/proc/bus/pci/00/00.0",
        "/proc/acpi/wakeup",
        "/proc/scsi/scsi",
        "/proc/fs/nfsd",
        "/proc/mtrr",
    ];
    all_refused(files.map(|path| (path, opens(path))))
}

fn first_process(_: &Facts) -> Outcome {
    match fs::read("/proc/1/environ") {
        Ok(text) if text.is_empty() => Outcome::Contained("it is empty".to_owned()),
        Ok(text) => {
            let names = names_of(&text);
            // What a container engine itself sets for every container.
            let engine = ["PATH", "HOME", "HOSTNAME", "TERM", "container", "LANG"];
            let other: Vec<_> = names.iter().filter(|name| !engine.contains(&name.as_str())).collect();
            none_open(&other, names.join(", "))
        }
        Err(error) => Outcome::Contained(super::short(&error)),
    }
}

fn entries_of(environment: &[u8]) -> impl Iterator<Item = &[u8]> {
    environment.split(|&byte| byte == 0).filter(|entry| !entry.is_empty())
}

fn names_of(environment: &[u8]) -> Vec<String> {
    let name = |entry: &[u8]| {
        let name = entry.split(|&byte| byte == b'=').next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    };
    entries_of(environment).map(name).collect()
}

/// Reads a few bytes that say something: zeroes alone are a mask.
fn tells(path: &str) -> io::Result<()> {
    let mut first = [0; 64];
    let length = File::open(path)?.read(&mut first)?;
    if first[..length].iter().any(|&byte| byte != 0) { Ok(()) } else { Err(io::Error::other("empty")) }
}

fn memory(_: &Facts) -> Outcome {
    let files = [
        "/proc/kcore",
        "/dev/mem",
        "/dev/kmem",
        "/dev/port",
        "/proc/kpagecount",
        "/proc/kpageflags",
        "/proc/kpagecgroup",
    ];
    all_refused(files.map(|path| (path, tells(path))))
}

/// A line of zeroes is what the kernel shows to those who may not know.
fn addresses(_: &Facts) -> Outcome {
    let mut open = Vec::new();
    for path in ["/proc/kallsyms", "/proc/modules", "/proc/self/stack", "/proc/timer_list"] {
        let Ok(text) = fs::read_to_string(path) else { continue };
        let is_address = |word: &str| {
            word.trim_start_matches("0x").len() == 16
                && word.trim_start_matches("0x").chars().all(|c| c.is_ascii_hexdigit())
                && word.contains(|c: char| c.is_ascii_hexdigit() && c != '0')
        };
        if text.split_whitespace().any(is_address) {
            open.push(path);
        }
    }
    none_open(&open, "none is shown")
}

fn log(_: &Facts) -> Outcome {
    let mut text = [0_u8; 256];
    let place = super::raw::room(&mut text);
    let asked = super::raw::call(libc::SYS_syslog, &[3, place, text.len() as u64]).map(drop);
    let open = |path: &str| {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(io::Error::from)?;
        let mut line = [0; 64];
        match rustix::io::read(&file, &mut line[..])? {
            0 => Err(io::Error::other("empty")),
            _ => Ok(()),
        }
    };
    all_refused([("syslog", asked), ("/proc/kmsg", open("/proc/kmsg")), ("/dev/kmsg", open("/dev/kmsg"))])
}

fn tables(_: &Facts) -> Outcome {
    let files = [
        "/proc/keys",
        "/proc/key-users",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/latency_stats",
        "/proc/vmallocinfo",
        "/proc/slabinfo",
        "/proc/iomem",
        "/proc/ioports",
        "/proc/pagetypeinfo",
    ];
    // Addresses that are all zeroes are what everyone sees of these two.
    let tells = |path: &str| -> io::Result<()> {
        let text = fs::read_to_string(path)?;
        let zeroes = |line: &str| {
            line.trim_start().starts_with("00000000-00000000") || line.trim_start().starts_with("0000-0000")
        };
        if text.trim().is_empty() || text.lines().all(zeroes) {
            return Err(io::Error::other("empty"));
        }
        Ok(())
    };
    all_refused(files.map(|path| (path, tells(path))))
}

fn environments(facts: &Facts) -> Outcome {
    let Ok(entries) = fs::read_dir("/proc") else { return Outcome::NotTried("no /proc".to_owned()) };
    let (mut open, mut read) = (Vec::new(), 0);
    for entry in entries.flatten() {
        let Ok(text) = fs::read(entry.path().join("environ")) else { continue };
        read += 1;
        for one in entries_of(&text) {
            let digest = hex::encode(Sha256::digest(one));
            if facts.environment.contains(&digest) {
                open.extend(names_of(one));
            }
        }
    }
    none_open(&open, format!("{read} read, {} of the host known", facts.environment.len()))
}

fn memory_of_the_first(_: &Facts) -> Outcome {
    if std::process::id() == 1 || parent_of_all_is_payload() {
        return Outcome::Contained("the first process is the payload's own".to_owned());
    }
    let read = File::open("/proc/1/mem").map(drop);
    let maps = tells("/proc/1/maps");
    let files = fs::read_dir("/proc/1/fd").map(drop);
    all_refused([
        ("mem", read),
        ("mem to write", opens("/proc/1/mem")),
        ("maps", maps),
        ("descriptors", files),
    ])
}

/// With an engine's container the command itself is the first process, and its own memory is no secret to it.
fn parent_of_all_is_payload() -> bool {
    fs::read_to_string("/proc/1/comm").is_ok_and(|name| name.trim() == "probe")
}

fn executables(_: &Facts) -> Outcome {
    let through_link = |path: &str| -> io::Result<()> {
        let open = File::open(path)?;
        use std::os::fd::AsRawFd as _;
        opens(&format!("/proc/self/fd/{}", open.as_raw_fd()))
    };
    all_refused([
        ("/proc/1/exe", opens("/proc/1/exe")),
        ("/proc/self/exe", opens("/proc/self/exe")),
        ("/proc/1/exe by descriptor", through_link("/proc/1/exe")),
        ("/proc/self/exe by descriptor", through_link("/proc/self/exe")),
    ])
}

fn victim_score(_: &Facts) -> Outcome {
    super::refused(fs::write("/proc/self/oom_score_adj", "-1000"), "the score was lowered")
}

fn id_maps(_: &Facts) -> Outcome {
    all_refused(["/proc/self/uid_map", "/proc/self/gid_map"].map(|path| (path, fs::write(path, "0 0 1\n"))))
}

/// Looks at everything within bounds, and opens what claims to be writable.
fn writable_below(top: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    const MOST_FOLDERS: usize = 4000;
    let (mut waiting, mut open, mut folders) = (vec![std::path::PathBuf::from(top)], Vec::new(), 0);
    while let Some(folder) = waiting.pop() {
        folders += 1;
        if folders > MOST_FOLDERS || open.len() > 3 {
            break;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            if kind.as_ref().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(path);
            } else if kind.is_ok_and(|kind| kind.is_file())
                && wanted(&entry.file_name().to_string_lossy())
                && opens(&path.to_string_lossy()).is_ok()
            {
                open.push(path.display().to_string());
            }
        }
    }
    open
}

fn sysfs(_: &Facts) -> Outcome {
    none_open(&writable_below("/sys", |_| true), "no file can be opened for writing")
}

fn firmware(_: &Facts) -> Outcome {
    let shows = |path: &str| -> io::Result<()> {
        match fs::read_dir(path)?.next() {
            Some(_) => Ok(()),
            None => Err(io::Error::other("empty")),
        }
    };
    let folders = [
        "/sys/firmware",
        "/sys/kernel/debug",
        "/sys/kernel/tracing",
        "/sys/kernel/security",
        "/sys/fs/bpf",
        "/sys/devices/virtual/powercap",
    ];
    all_refused(folders.map(|path| (path, shows(path))))
}

fn cgroup_files(_: &Facts) -> Outcome {
    const FILES: [&str; 8] = [
        "release_agent",
        "cgroup.procs",
        "tasks",
        "notify_on_release",
        "memory.limit_in_bytes",
        "memory.max",
        "pids.max",
        "devices.allow",
    ];
    let open = writable_below("/sys/fs/cgroup", |name| FILES.contains(&name));
    none_open(&open, "none can be opened for writing")
}
