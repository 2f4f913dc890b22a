//! The container's file systems: an empty root that gets only what the plan names.
//!
//! Host paths are opened with all the reach of the user who asked: as root by the launcher, since root
//! loses its reach within the user namespace; as another user by the first process, which alone may mount.
//! Everything is made by the user inside, who owns the new root.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    move_mount, open_tree, unmount,
};

use super::Failed;
use super::plan::Plan;
use crate::sandbox::sys::{self, Forbid};

/// Where the new root is put together; every host has it, and the mount lies in our namespace alone.
const STAGE: &str = "/tmp";
/// The only device nodes.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// Parts of /proc through which the kernel itself would be changed.
const READ_ONLY: [&str; 6] = ["sys", "irq", "bus", "fs", "sysrq-trigger", "acpi"];
/// Files of /proc which tell of the host or its memory.
const HIDDEN: [&str; 14] = [
    "kcore",
    "keys",
    "key-users",
    "kallsyms",
    "timer_list",
    "kpagecount",
    "kpagecgroup",
    "kpageflags",
    "sched_debug",
    "latency_stats",
    "kmsg",
    "modules",
    "vmallocinfo",
    "slabinfo",
];
/// Bytes of a scratch file system for which there is one inode.
const BYTES_PER_INODE: u64 = 8192;

/// Host trees, detached, in the order of the plan's mounts, and then the device nodes.
pub struct Trees {
    mounts: Vec<OwnedFd>,
    devices: Vec<OwnedFd>,
}

/// Opens every host path that is to appear inside. This process's mounts are its own from here on, so that
/// nothing that is mounted below one of them shows on the host.
pub fn open(plan: &Plan) -> Result<Trees, Failed> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(Failed::to("cut its mounts off from the host's"))?;
    let mut mounts = Vec::with_capacity(plan.mounts.len());
    for mount in &plan.mounts {
        let what = if mount.writable { Forbid::setuid_and_devices() } else { Forbid::writing() };
        mounts.push(detached(&mount.host, what)?);
    }
    let device = |name: &&str| detached(&Path::new("/dev").join(name), Forbid::setuid());
    let devices = DEVICES.iter().map(device).collect::<Result<_, _>>()?;
    Ok(Trees { mounts, devices })
}

fn detached(path: &Path, what: Forbid) -> Result<OwnedFd, Failed> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let flags = flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let tree = open_tree(CWD, path, flags).map_err(Failed::to(format!("open {}", path.display())))?;
    sys::forbid(&tree, what).map_err(Failed::to(format!("restrict {}", path.display())))?;
    Ok(tree)
}

/// Puts the root together and makes it the root.
pub fn build(plan: &Plan, trees: Trees) -> Result<(), Failed> {
    tmpfs(Path::new(STAGE), "size=4m,nr_inodes=4096,mode=0755")?;
    for folder in ["dev", "proc", "tmp", "run", "etc", "var", "workspace"] {
        make_folder(&inside(folder))?;
    }
    for (at, text) in &plan.files {
        make_parent(&inside(at))?;
        fs::write(inside(at), text).map_err(Failed::to(format!("write {}", at.display())))?;
    }
    for (at, target) in &plan.links {
        make_parent(&inside(at))?;
        std::os::unix::fs::symlink(target, inside(at))
            .map_err(Failed::to(format!("link {}", at.display())))?;
    }
    for (mount, tree) in plan.mounts.iter().zip(&trees.mounts) {
        attach(tree, &inside(&mount.inside))?;
    }
    devices(&trees.devices)?;
    let scratch = plan.limits.scratch_bytes;
    let inodes = (scratch / BYTES_PER_INODE).max(1024);
    let options = format!("size={scratch},nr_inodes={inodes},mode=1777");
    tmpfs(&inside("tmp"), &options)?;
    tmpfs(&inside("dev/shm"), &options)?;
    // The kernel admits a new /proc only while a whole one is in sight, so it comes before the root's change.
    proc(&trees.devices)?;
    enter()
}

fn inside(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    Path::new(STAGE).join(path.strip_prefix("/").unwrap_or(path))
}

fn tmpfs(at: &Path, options: &str) -> Result<(), Failed> {
    let options = std::ffi::CString::new(options).map_err(Failed::to("read a mount's options"))?;
    mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))
        .map_err(Failed::to(format!("mount a scratch file system at {}", at.display())))
}

fn devices(trees: &[OwnedFd]) -> Result<(), Failed> {
    for (name, tree) in DEVICES.iter().zip(trees) {
        attach(tree, &inside("dev").join(name))?;
    }
    let links = [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")];
    for (name, target) in links {
        std::os::unix::fs::symlink(target, inside("dev").join(name))
            .map_err(Failed::to(format!("link /dev/{name}")))?;
    }
    make_folder(&inside("dev/shm"))
}

fn proc(devices: &[OwnedFd]) -> Result<(), Failed> {
    let at = inside("proc");
    mount("proc", &at, "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)
        .map_err(Failed::to("mount /proc"))?;
    for name in READ_ONLY {
        let path = at.join(name);
        if path.exists() {
            attach_over(&detached(&path, Forbid::writing())?, &path)?;
        }
    }
    let null = devices.first().ok_or(io::ErrorKind::NotFound).map_err(Failed::to("find /dev/null"))?;
    for name in HIDDEN {
        let path = at.join(name);
        if path.exists() {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let copy = open_tree(null, "", flags | OpenTreeFlags::AT_EMPTY_PATH)
                .map_err(Failed::to("copy /dev/null"))?;
            attach_over(&copy, &path)?;
        }
    }
    Ok(())
}

/// Makes the staged tree the root, lets go of the old one, and closes the new one for writing.
fn enter() -> Result<(), Failed> {
    rustix::process::chdir(STAGE).map_err(Failed::to("go to the new root"))?;
    rustix::process::pivot_root(".", ".").map_err(Failed::to("change the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(Failed::to("let go of the host's root"))?;
    rustix::process::chdir("/").map_err(Failed::to("go to the new root"))?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount_remount("/", flags, c"").map_err(Failed::to("close the root for writing"))
}

fn attach(tree: impl AsFd, at: &Path) -> Result<(), Failed> {
    let stat = rustix::fs::fstat(&tree).map_err(Failed::to("look at a mount"))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        make_folder(at)?;
    } else {
        make_file(at)?;
    }
    attach_over(tree, at)
}

fn attach_over(tree: impl AsFd, at: &Path) -> Result<(), Failed> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", CWD, at, flags).map_err(Failed::to(format!("mount {}", at.display())))
}

fn make_parent(at: &Path) -> Result<(), Failed> {
    at.parent().map_or(Ok(()), make_folder)
}

fn make_folder(at: &Path) -> Result<(), Failed> {
    fs::create_dir_all(at).map_err(Failed::to(format!("make the folder {}", at.display())))
}

fn make_file(at: &Path) -> Result<(), Failed> {
    if at.exists() {
        return Ok(());
    }
    make_parent(at)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(CWD, at, flags, Mode::from_raw_mode(0o644))
        .map_err(Failed::to(format!("make the file {}", at.display())))?;
    Ok(())
}
