//! The container's file system, interfaces and limits.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use super::{Failure, Launch, Rlimits, at, c_path, c_string, checked, raw};

/// What no repository may see of the kernel: folders that become read-only, files that become empty.
const READ_ONLY_PROC: [&str; 5] = ["sys", "irq", "bus", "fs", "sysrq-trigger"];
const EMPTY_PROC: [&str; 8] =
    ["kcore", "keys", "kallsyms", "timer_list", "kpagecount", "kpageflags", "sched_debug", "key-users"];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// Keeps every later mount of this namespace to itself.
pub fn make_private() -> io::Result<()> {
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, None)
}

/// Mounts everything that comes from the host below the stage, and makes it the current folder.
pub fn build(launch: &Launch) -> Result<(), Failure> {
    let stage = at("find the stage", c_path(&launch.stage))?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    at(
        "make the root",
        mount(Some(c"tmpfs"), &stage, Some(c"tmpfs"), flags, Some("mode=0755,size=4m,nr_inodes=8k")),
    )?;
    at("enter the stage", std::env::set_current_dir(&launch.stage))?;
    for folder in ["proc", "tmp", "dev/shm", "etc", "run/egress", "workspace", "home/whipstitch"] {
        at("make the root's folders", fs::create_dir_all(folder))?;
    }
    write_accounts()?;
    for device in DEVICES {
        let place = format!("dev/{device}");
        at("make devices", fs::write(&place, b""))?;
        at("make devices", bind(Path::new(&format!("/dev/{device}")), Path::new(&place)))?;
    }
    for (name, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")]
    {
        at("make devices", std::os::unix::fs::symlink(target, format!("dev/{name}")))?;
    }
    let mut binds: Vec<_> = launch.read_only.iter().collect();
    binds.sort();
    for found in binds {
        let place = below(&found.inside);
        at("bind what is read-only", place_for(&found.host, &place))?;
        at("bind what is read-only", bind(&found.host, &place))?;
        at("bind what is read-only", restrict(&place, READ_ONLY, true))?;
    }
    for found in &launch.writable {
        let place = below(&found.inside);
        at("bind what is writable", place_for(&found.host, &place))?;
        at("bind what is writable", bind(&found.host, &place))?;
        at(
            "bind what is writable",
            restrict(&place, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, true),
        )?;
    }
    Ok(())
}

/// A made-up account, so that programs that ask who they are get an answer.
fn write_accounts() -> Result<(), Failure> {
    let files = [
        (
            "etc/passwd",
            "root:x:0:0:root:/nonexistent:/bin/false\nwhipstitch:x:1000:1000:whipstitch:/home/whipstitch:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
        ),
        ("etc/group", "root:x:0:\nwhipstitch:x:1000:\nnogroup:x:65534:\n"),
        ("etc/hosts", "127.0.0.1 localhost whipstitch\n::1 localhost\n"),
        ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ];
    files.iter().try_for_each(|(path, text)| at("write accounts", fs::write(path, text)))
}

/// An inside path relative to the stage.
fn below(inside: &Path) -> PathBuf {
    inside.strip_prefix("/").unwrap_or(inside).to_owned()
}

/// Makes the place that a bind covers, unless it is there.
fn place_for(host: &Path, place: &Path) -> io::Result<()> {
    if place.symlink_metadata().is_ok() {
        return Ok(());
    }
    if fs::metadata(host)?.is_dir() {
        return fs::create_dir_all(place);
    }
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(place, b"")
}

/// Makes the stage the root, with its own `/proc` and scratch space.
pub fn enter(launch: &Launch) -> Result<(), Failure> {
    at("enter the root", own_the_root())?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    at("mount /proc", mount(Some(c"proc"), c"proc", Some(c"proc"), flags, None))?;
    for name in READ_ONLY_PROC {
        let place = PathBuf::from("proc").join(name);
        if place.exists() {
            at("mask /proc", bind(&place, &place).and_then(|()| restrict(&place, READ_ONLY, false)))?;
        }
    }
    for name in EMPTY_PROC {
        let place = PathBuf::from("proc").join(name);
        if place.exists() {
            at("mask /proc", bind(Path::new("dev/null"), &place))?;
        }
    }
    let options = format!("mode=1777,size={},nr_inodes=100k", launch.scratch_bytes);
    for place in [c"tmp", c"dev/shm"] {
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        at("mount scratch space", mount(Some(c"tmpfs"), place, Some(c"tmpfs"), flags, Some(&options)))?;
    }
    // SAFETY: exchanges this namespace's root for the current folder; both names are of it.
    unsafe {
        at("change the root", checked(libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr())))?;
        at("leave the host's root", checked(libc::umount2(c".".as_ptr(), libc::MNT_DETACH).into()))?;
    }
    at("enter the root", std::env::set_current_dir("/"))?;
    at("close the root", restrict(Path::new("/"), READ_ONLY, false))
}

/// Puts a copy of the current folder's mounts over it, which this namespace may move, and enters it.
fn own_the_root() -> io::Result<()> {
    let flags = libc::OPEN_TREE_CLONE | libc::AT_RECURSIVE as libc::c_uint | libc::OPEN_TREE_CLOEXEC;
    // SAFETY: plain system calls with live strings; the descriptor is owned at once.
    unsafe {
        let tree = checked(libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c".".as_ptr(), flags))?;
        let tree = OwnedFd::from_raw_fd(i32::try_from(tree).unwrap_or(-1));
        const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
        checked(libc::syscall(
            libc::SYS_move_mount,
            raw(&tree),
            c"".as_ptr(),
            libc::AT_FDCWD,
            c".".as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        ))?;
        checked(libc::fchdir(raw(&tree)).into())?;
    }
    Ok(())
}

fn bind(host: &Path, place: &Path) -> io::Result<()> {
    mount(Some(&c_path(host)?), &c_path(place)?, None, libc::MS_BIND | libc::MS_REC, None)
}

/// Adds attributes to a mount, and to all below it when `below` says so.
fn restrict(place: &Path, attributes: u64, below: bool) -> io::Result<()> {
    let change = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = if below { libc::AT_RECURSIVE } else { 0 };
    let path = c_path(place)?;
    // SAFETY: the structure and its size belong together; the path is a live string.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&str>,
) -> io::Result<()> {
    let options = options.map(c_string).transpose()?;
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    let data = pointer(options.as_deref()).cast();
    // SAFETY: every pointer is null or a live string.
    checked(unsafe { libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, data) }.into())
        .map(drop)
}

/// Brings the one interface up.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: an interface request whose name and flags are initialised, on a socket that is closed again.
    unsafe {
        let socket = checked(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())?;
        let socket = OwnedFd::from_raw_fd(i32::try_from(socket).unwrap_or(-1));
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        checked(libc::ioctl(raw(&socket), libc::SIOCSIFFLAGS, &raw const request).into())?;
    }
    Ok(())
}

/// Sets the limits of this process and of all that it starts.
pub fn set_limits(limits: &Rlimits) -> io::Result<()> {
    let pairs = [
        (libc::RLIMIT_NPROC, limits.processes),
        (libc::RLIMIT_NOFILE, limits.open_files),
        (libc::RLIMIT_FSIZE, limits.file_bytes),
        (libc::RLIMIT_DATA, limits.data_bytes),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_MEMLOCK, 64 << 10),
        (libc::RLIMIT_MSGQUEUE, 0),
        (libc::RLIMIT_RTPRIO, 0),
    ];
    for (resource, most) in pairs {
        let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: reads and writes one initialised structure.
        unsafe {
            checked(libc::getrlimit(resource, &raw mut now).into())?;
            let most = most.min(now.rlim_max);
            let wanted = libc::rlimit { rlim_cur: most, rlim_max: most };
            checked(libc::setrlimit(resource, &raw const wanted).into())?;
        }
    }
    Ok(())
}
