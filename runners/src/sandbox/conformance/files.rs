//! The host's files, and what of the container's own must not change.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};

use super::{Facts, Outcome, Probe, all_refused, none_open, refused, short};
use crate::sandbox::{HOME, WORKSPACE};

const GROUP: &str = "files";

pub const PROBES: &[Probe] = &[
    Probe::quick(GROUP, "root-read-only", "nothing can be made in the root or in /etc", root),
    Probe::quick(GROUP, "programs-read-only", "nothing can be made beside the system's programs", programs),
    Probe::whole(GROUP, "canary-file", "a file of the host that was not given is out of reach", canary_file),
    Probe::whole(GROUP, "secret-files", "no file of accounts, keys or credentials can be read", secrets),
    Probe::whole(GROUP, "host-folders", "folders of the host's people and services show nothing", folders),
    Probe::whole(GROUP, "link-out", "a link out of the workspace leads nowhere", link_out),
    Probe::whole(GROUP, "root-is-the-top", "no path leads above the root", top),
    Probe::whole(GROUP, "program-hard-link", "a program cannot be linked into the workspace", hard_link),
    Probe::whole(GROUP, "program-change", "a program cannot be changed, renamed or given new bits", change),
    Probe::whole(GROUP, "loader-preload", "no library can be put before every program", preload),
    Probe::whole(GROUP, "device-nodes", "no device node can be made and opened", device_nodes),
    Probe::whole(GROUP, "device-list", "no disk, memory, terminal or hypervisor has a node", device_list),
    Probe::whole(
        GROUP,
        "inherited-descriptors",
        "no descriptor was inherited but the three streams",
        descriptors,
    ),
    Probe::whole(GROUP, "process-roots", "no process shows another root", process_roots),
    Probe::whole(
        GROUP,
        "mount-bits",
        "where one may write, set-user-id bits and devices mean nothing",
        mount_bits,
    ),
    Probe::whole(GROUP, "set-user-id", "a program's set-user-id bit gives no other user", set_user_id),
];

fn make(path: &str) -> io::Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    if made.is_ok() {
        drop(fs::remove_file(path));
    }
    made.map(drop)
}

fn root(_: &Facts) -> Outcome {
    all_refused(["/.probe", "/etc/.probe", "/var/.probe", "/opt/.probe"].map(|path| (path, make(path))))
}

fn programs(_: &Facts) -> Outcome {
    let places = ["/usr/bin/.probe", "/usr/lib/.probe", "/usr/local/bin/.probe", "/usr/sbin/.probe"];
    all_refused(places.map(|path| (path, make(path))))
}

fn canary_file(facts: &Facts) -> Outcome {
    match fs::read_to_string(&facts.canary_file) {
        Ok(text) if text.contains(&facts.canary) => Outcome::Leak("the canary was read".to_owned()),
        Ok(_) => Outcome::Contained("another file lies there".to_owned()),
        Err(error) => Outcome::Contained(short(&error)),
    }
}

/// Whether a file can be opened and says something.
fn speaks(path: &str) -> io::Result<()> {
    let mut first = [0];
    match File::open(path)?.read(&mut first)? {
        0 => Err(io::Error::other("empty")),
        _ => Ok(()),
    }
}

fn secrets(_: &Facts) -> Outcome {
    let files = [
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/sudoers",
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/ssh/ssh_host_rsa_key",
        "/etc/ssl/private/ssl-cert-snakeoil.key",
        "/etc/machine-id",
        "/etc/fstab",
        "/root/.bashrc",
        "/root/.profile",
        "/root/.ssh/id_ed25519",
        "/root/.ssh/authorized_keys",
        "/root/.cargo/credentials.toml",
        "/root/.netrc",
        "/root/.npmrc",
        "/root/.git-credentials",
        "/root/.aws/credentials",
        "/root/.docker/config.json",
        "/root/.kube/config",
        "/var/lib/dpkg/status",
        "/var/log/wtmp",
        "/run/secrets/kubernetes.io/serviceaccount/token",
    ];
    all_refused(files.map(|path| (path, speaks(path))))
}

fn folders(_: &Facts) -> Outcome {
    let shows = |path: &str| -> io::Result<()> {
        match fs::read_dir(path)?
            .flatten()
            .find(|entry| !HOME.ends_with(&*entry.file_name().to_string_lossy()))
        {
            Some(_) => Ok(()),
            None => Err(io::Error::other("empty")),
        }
    };
    let places = ["/root", "/home", "/boot", "/var/lib", "/var/log", "/srv", "/mnt", "/media", "/var/spool"];
    all_refused(places.map(|path| (path, shows(path))))
}

fn link_out(facts: &Facts) -> Outcome {
    let link = format!("{WORKSPACE}/.probe-link");
    if let Err(error) = symlink(&facts.canary_file, &link) {
        return Outcome::NotTried(format!("no link could be made: {error}"));
    }
    let read = fs::read_to_string(&link);
    drop(fs::remove_file(&link));
    match read {
        Ok(text) if text.contains(&facts.canary) => Outcome::Leak("the canary was read".to_owned()),
        Ok(_) => Outcome::Contained("another file lies there".to_owned()),
        Err(error) => Outcome::Contained(short(&error)),
    }
}

fn top(_: &Facts) -> Outcome {
    let place = |path: &str| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let far = format!("{WORKSPACE}/{}", "../".repeat(64));
    match (place("/"), place(&far), place("/..")) {
        (Ok(root), Ok(far), Ok(above)) if root == far && root == above => {
            Outcome::Contained("it ends at the root".to_owned())
        }
        (Ok(_), Ok(_), Ok(_)) => Outcome::Leak("another folder lies above".to_owned()),
        (root, far, above) => Outcome::NotTried(format!("{root:?} {far:?} {above:?}")),
    }
}

fn hard_link(_: &Facts) -> Outcome {
    let at = format!("{WORKSPACE}/.probe-hard-link");
    let linked = fs::hard_link("/usr/bin/env", &at);
    drop(fs::remove_file(&at));
    refused(linked, "a program was linked")
}

/// Writes nothing: each attempt sets what is there already, or only opens.
fn change(_: &Facts) -> Outcome {
    let program = "/usr/bin/env";
    let mode = fs::metadata(program).map(|found| found.permissions());
    let bits = mode.and_then(|mode| fs::set_permissions(program, mode));
    let opened = OpenOptions::new().write(true).open(program).map(drop);
    let renamed = fs::rename(program, "/usr/bin/.probe-renamed");
    if renamed.is_ok() {
        drop(fs::rename("/usr/bin/.probe-renamed", program));
    }
    let owner = std::os::unix::fs::chown(program, Some(0), Some(0));
    all_refused([("bits", bits), ("content", opened), ("name", renamed), ("owner", owner)])
}

fn preload(_: &Facts) -> Outcome {
    all_refused([("/etc/ld.so.preload", make("/etc/ld.so.preload"))])
}

fn device_nodes(_: &Facts) -> Outcome {
    let mut attempts = Vec::new();
    for folder in ["/tmp", WORKSPACE, HOME, "/dev/shm"] {
        for (kind, major, minor) in [
            (FileType::CharacterDevice, 1, 1),
            (FileType::BlockDevice, 254, 0),
            (FileType::CharacterDevice, 10, 200),
        ] {
            let path = format!("{folder}/.probe-node");
            let device = rustix::fs::makedev(major, minor);
            let made =
                rustix::fs::mknodat(CWD, path.as_str(), kind, Mode::RUSR, device).map_err(io::Error::from);
            let opened = made.and_then(|()| File::open(&path).map(drop));
            drop(fs::remove_file(&path));
            attempts.push((folder, opened));
        }
    }
    all_refused(attempts)
}

fn device_list(_: &Facts) -> Outcome {
    let known = [
        "mem",
        "kmem",
        "port",
        "kmsg",
        "kvm",
        "fuse",
        "net/tun",
        "vsock",
        "vhost-vsock",
        "vhost-net",
        "loop-control",
        "loop0",
        "sda",
        "vda",
        "nvme0n1",
        "xvda",
        "dm-0",
        "mapper/control",
        "uinput",
        "input/event0",
        "dri/card0",
        "nvidia0",
        "tty0",
        "tty1",
        "ttyS0",
        "hpet",
        "rtc0",
        "watchdog",
        "cuse",
        "userfaultfd",
        "udmabuf",
        "vfio/vfio",
        "sev",
        "tpm0",
        "hwrng",
        "snapshot",
        "btrfs-control",
    ];
    let open = |name: &'static str| (name, File::open(Path::new("/dev").join(name)).map(drop));
    all_refused(known.map(open))
}

fn descriptors(_: &Facts) -> Outcome {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return Outcome::NotTried("cannot list them".to_owned());
    };
    let mut open = Vec::new();
    for entry in entries.flatten() {
        let number = entry.file_name().to_string_lossy().parse::<u32>().unwrap_or_default();
        let target = fs::read_link(entry.path()).unwrap_or_default().to_string_lossy().into_owned();
        // The listing itself, and the pipe by which this probe answers.
        let own = target.starts_with("/proc/") || target.starts_with("pipe:");
        if number > 2 && !own {
            open.push(format!("{number}: {target}"));
        }
    }
    none_open(&open, "none beyond the streams")
}

fn process_roots(facts: &Facts) -> Outcome {
    let Ok(entries) = fs::read_dir("/proc") else { return Outcome::NotTried("no /proc".to_owned()) };
    let relative = facts.canary_file.strip_prefix("/").unwrap_or(&facts.canary_file);
    let mut open = Vec::new();
    for entry in entries.flatten() {
        for door in ["root", "cwd"] {
            let path = entry.path().join(door).join(relative);
            if fs::read_to_string(&path).is_ok_and(|text| text.contains(&facts.canary)) {
                open.push(path.display().to_string());
            }
        }
    }
    none_open(&open, "no canary behind any")
}

/// Field six of each line of `/proc/self/mountinfo` holds the mount's own options.
fn mount_bits(_: &Facts) -> Outcome {
    let Ok(table) = fs::read_to_string("/proc/self/mountinfo") else {
        return Outcome::NotTried("no table of mounts".to_owned());
    };
    let mut open = Vec::new();
    let mut seen = 0;
    for line in table.lines() {
        let mut fields = line.split(' ').skip(4);
        let (Some(place), Some(options)) = (fields.next(), fields.next()) else { continue };
        let has = |word: &str| options.split(',').any(|option| option == word);
        // A device node is a mount of its own, and its use is to be a device.
        let is_file = fs::metadata(place).is_ok_and(|found| !found.is_dir());
        if has("ro") || place.starts_with("/proc") || is_file {
            continue;
        }
        seen += 1;
        if !(has("nosuid") && has("nodev")) {
            open.push(format!("{place} ({options})"));
        }
    }
    none_open(&open, format!("{seen} writable mounts"))
}

/// Copies a program, gives it the bit, and asks it who it is.
fn set_user_id(_: &Facts) -> Outcome {
    let own = rustix::process::geteuid().as_raw();
    let mut open = Vec::new();
    for program in ["/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/sudo", "/usr/bin/newgrp"] {
        let Ok(found) = fs::metadata(program) else { continue };
        if found.mode() & 0o4000 != 0 && found.uid() != own && !no_new_privileges() {
            open.push(program.to_owned());
        }
    }
    none_open(&open, "no new privileges for any program")
}

fn no_new_privileges() -> bool {
    rustix::thread::no_new_privs().unwrap_or(false)
}
