//! System calls of the sandbox that no dependency wraps, each as a safe function.
//!
//! This is the sandbox's only file with `unsafe` code. Every call hands the kernel values that live on
//! the caller's stack for as long as the call takes.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::process::Pid;

/// Every namespace that a container has of its own.
const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// Which of the two processes this is after [`clone_into_namespaces`].
pub enum Side {
    Outside { init: Pid, pidfd: OwnedFd },
    Inside,
}

/// Forks, the child being the first process of fresh namespaces of every kind.
///
/// Only for a process with one thread: the child goes on with a copy of its memory, and a lock that
/// another thread held would stay locked for ever.
pub fn clone_into_namespaces() -> io::Result<Side> {
    let mut pidfd: libc::c_int = -1;
    let arguments = CloneArguments {
        flags: NAMESPACES | libc::CLONE_PIDFD as u64,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArguments::default()
    };
    // SAFETY: no memory is shared (no CLONE_VM) and no stack given, so this is a fork; the structure and
    // the descriptor's place outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) };
    match result {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Inside),
        pid => {
            // SAFETY: the kernel has just made this descriptor for us and nobody else holds it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let init = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let init = init.ok_or_else(|| io::Error::other("the kernel gave no process id"))?;
            Ok(Side::Outside { init, pidfd })
        }
    }
}

/// Gives this process a mount namespace of its own.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: a plain flag; the process has one thread, which holds no memory that this could change.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `struct clone_args` of clone3(2), first version.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// What a mount forbids, beyond what it forbids already.
#[derive(Clone, Copy)]
pub struct Forbid(u64);

impl Forbid {
    const READ_ONLY: u64 = 0x1;
    const NO_SETUID: u64 = 0x2;
    const NO_DEVICES: u64 = 0x4;

    pub fn setuid_and_devices() -> Self {
        Self(Self::NO_SETUID | Self::NO_DEVICES)
    }

    pub fn writing() -> Self {
        Self(Self::READ_ONLY | Self::NO_SETUID | Self::NO_DEVICES)
    }

    /// For a device node itself, which `no devices` would close.
    pub fn setuid() -> Self {
        Self(Self::NO_SETUID)
    }
}

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
#[derive(Default)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Changes what the mount `tree` (and, when a detached tree, each mount below it) forbids.
pub fn forbid(tree: impl AsFd, what: Forbid) -> io::Result<()> {
    let attributes = MountAttributes { set: what.0, ..MountAttributes::default() };
    // SAFETY: the path is an empty constant and the structure outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes every descriptor from `first` on. The caller owns none of them as a value.
pub fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: plain integers; the contract above says that no value owns what is closed.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The flags (`IFF_UP`, ...) of a network interface of this namespace.
pub fn interface_flags(socket: impl AsFd, name: &CStr) -> io::Result<i16> {
    let mut request = interface_request(name)?;
    // SAFETY: the request is a whole `ifreq` that outlives the call; the kernel writes the flags into it.
    let result =
        unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: after SIOCGIFFLAGS the flags are the union's valid part.
    Ok(unsafe { request.ifr_ifru.ifru_flags })
}

/// Sets an interface up.
pub fn interface_up(socket: impl AsFd, name: &CStr) -> io::Result<()> {
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the request is a whole `ifreq` that outlives the call.
    let result =
        unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn interface_request(name: &CStr) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.to_bytes_with_nul();
    if bytes.len() > request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (place, &byte) in request.ifr_name.iter_mut().zip(bytes) {
        *place = byte as libc::c_char;
    }
    Ok(request)
}

/// The version of Landlock's interface that the kernel offers; `None` when it has none or it is off.
pub fn landlock_abi() -> Option<u32> {
    const VERSION: u32 = 1;
    // SAFETY: a null attribute of size zero with this flag only asks for the version.
    let result = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    u32::try_from(result).ok().filter(|&version| version > 0)
}
