//! The launcher and first process of an embedded container: this executable, started again.
//!
//! The launcher is single-threaded and has an empty environment. As root it lays out the container's
//! root first, with root's reach, and then gives everything up; as another user it does the same
//! within the new user namespace. The first process takes all rights away from itself before it
//! starts anything of the repository's, reaps what is orphaned, and when it ends the kernel ends
//! every other process of the container before anyone is told.

mod filters;
mod forward;
mod layout;
mod selftest;
mod spec;

use std::ffi::{CString, OsStr};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;

pub(super) use filters::programs as system_call_programs;
pub use selftest::Finding as SelfTestFinding;
pub use spec::{Launch, Payload, Rlimits, RootBind, Writable};

/// The name under which the executable is started as a launcher.
pub const NAME: &str = "whipstitch-sandbox";
/// The launcher's inherited descriptors: its instructions, the line that ends the container when it
/// is closed, and where the result is written.
pub const SPEC_FD: RawFd = 3;
pub const CONTROL_FD: RawFd = 4;
pub const STATUS_FD: RawFd = 5;
/// The user and group inside every container.
pub const INSIDE_ID: u32 = 1000;

/// Becomes a container's launcher when the process was started as one, and then never returns.
///
/// Call it first in `main`, before any thread is started.
pub fn maybe_run() {
    let mut arguments = std::env::args_os();
    if arguments.next().as_deref() != Some(OsStr::new(NAME)) {
        return;
    }
    let code = match launch() {
        Ok(()) => 0,
        Err(failure) => {
            report(&Told::Failed { stage: failure.stage.to_owned(), why: failure.source.to_string() });
            1
        }
    };
    // SAFETY: ends this single-threaded process without running anything else.
    unsafe { libc::_exit(code) }
}

/// What the container tells its maker.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "told")]
pub enum Told {
    /// It could not be made.
    Failed {
        stage: String,
        why: String,
    },
    /// The program could not be started in it.
    NotStarted {
        program: String,
        why: String,
    },
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
}

/// A step of the set-up that failed.
pub(super) struct Failure {
    stage: &'static str,
    source: std::io::Error,
}

/// Names the step that an error belongs to.
pub(super) fn at<T>(stage: &'static str, result: std::io::Result<T>) -> Result<T, Failure> {
    result.map_err(|source| Failure { stage, source })
}

/// The result of a system call that returns -1 on failure.
pub(super) fn checked(result: libc::c_long) -> std::io::Result<libc::c_long> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}

/// A C string; a NUL within is an error.
pub(super) fn c_string(text: impl AsRef<[u8]>) -> std::io::Result<CString> {
    CString::new(text.as_ref()).map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidInput, error))
}

fn report(told: &Told) {
    let Ok(mut line) = serde_json::to_vec(told) else { return };
    line.push(b'\n');
    // SAFETY: writes from a live buffer to a descriptor; a failure leaves the reader without a line.
    unsafe { libc::write(STATUS_FD, line.as_ptr().cast(), line.len()) };
}

fn launch() -> Result<(), Failure> {
    let mut go = [0];
    // SAFETY: reads one byte into a live buffer. An end of file says that the maker is gone.
    if unsafe { libc::read(CONTROL_FD, go.as_mut_ptr().cast(), 1) } != 1 {
        return Ok(());
    }
    // SAFETY: the descriptor was handed to this process for this use alone.
    let mut file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(SPEC_FD) });
    let mut text = Vec::new();
    at("read the instructions", file.read_to_end(&mut text))?;
    drop(file);
    let launch: Launch = at("read the instructions", serde_json::from_slice(&text).map_err(Into::into))?;
    // SAFETY: takes no pointers.
    let privileged = unsafe { libc::geteuid() } == 0;
    if privileged {
        at("leave the host's mounts", checked(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into()))?;
        at("keep mounts private", layout::make_private())?;
        layout::build(&launch)?;
    }
    let (mut released, mut release) = at("make a pipe", std::io::pipe())?;
    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP
        | libc::SIGCHLD;
    // SAFETY: without a stack this is a fork of a single-threaded process.
    let child =
        at("make the namespaces", checked(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) }))?;
    if child == 0 {
        drop(release);
        let mut byte = [0];
        let result = at("wait for the id map", released.read_exact(&mut byte))
            .and_then(|()| first_process(&launch, privileged));
        if let Err(failure) = result {
            report(&Told::Failed { stage: failure.stage.to_owned(), why: failure.source.to_string() });
        }
        // SAFETY: ends the container's first process; the kernel ends the others.
        unsafe { libc::_exit(1) }
    }
    drop(released);
    let child = i32::try_from(child).unwrap_or(-1);
    let mapped = map_ids(child, &launch).and_then(|()| at("release the container", release.write_all(&[1])));
    if mapped.is_err() {
        // SAFETY: the child is ours and not yet reaped.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
    watch(child)?;
    mapped
}

fn map_ids(child: i32, launch: &Launch) -> Result<(), Failure> {
    let write = |name: &str, text: String| std::fs::write(format!("/proc/{child}/{name}"), text);
    at("write the id map", write("setgroups", "deny".to_owned()))?;
    at("write the id map", write("uid_map", format!("{INSIDE_ID} {} 1\n", launch.host_user)))?;
    at("write the id map", write("gid_map", format!("{INSIDE_ID} {} 1\n", launch.host_group)))
}

/// Waits until the container's first process is gone, and ends it when its maker is.
fn watch(child: i32) -> Result<(), Failure> {
    // SAFETY: the child is ours and not yet reaped, so that the id is its own.
    let pidfd = at("watch the container", checked(unsafe { libc::syscall(libc::SYS_pidfd_open, child, 0) }))?;
    let mut fds = [
        libc::pollfd { fd: CONTROL_FD, events: libc::POLLIN, revents: 0 },
        libc::pollfd { fd: i32::try_from(pidfd).unwrap_or(-1), events: libc::POLLIN, revents: 0 },
    ];
    loop {
        // SAFETY: two initialised entries, no time limit.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) };
        if ready < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
            continue;
        }
        if fds[0].revents != 0 || ready < 0 {
            // SAFETY: as above; the kernel ends all of its namespace with it.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        let mut status = 0;
        // SAFETY: waits for our own child; returns once its whole namespace is empty.
        at("wait for the container", checked(unsafe { libc::waitpid(child, &raw mut status, 0) }.into()))?;
        return Ok(());
    }
}

/// The container's first process: sets up the rest, gives up all rights, runs the payload.
fn first_process(launch: &Launch, privileged: bool) -> Result<(), Failure> {
    // SAFETY: plain system calls on ids; the thread is the only one.
    unsafe {
        at(
            "become the inner user",
            checked(libc::syscall(libc::SYS_setresgid, INSIDE_ID, INSIDE_ID, INSIDE_ID)),
        )?;
        at(
            "become the inner user",
            checked(libc::syscall(libc::SYS_setresuid, INSIDE_ID, INSIDE_ID, INSIDE_ID)),
        )?;
        at("die with the launcher", checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into()))?;
    }
    if !privileged {
        at("keep mounts private", layout::make_private())?;
        layout::build(launch)?;
    }
    layout::enter(launch)?;
    at("bring loopback up", layout::loopback_up())?;
    let name = b"whipstitch";
    // SAFETY: the pointer and length are of one live array.
    at("name the host", checked(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into()))?;
    let listener = match launch.egress {
        true => Some(at("listen for the egress window", forward::listen())?),
        false => None,
    };
    give_up_rights(launch)?;
    if let Some(listener) = listener
        && fork()? == 0
    {
        forward::serve(&listener);
    }
    match &launch.payload {
        Payload::SelfTest => {
            let found = serde_json::to_vec(&selftest::run()).unwrap_or_default();
            let mut stdout = std::io::stdout();
            at("tell the self-test", stdout.write_all(&found).and_then(|()| stdout.flush()))?;
            report(&Told::Exited { code: 0 });
            // SAFETY: ends the container.
            unsafe { libc::_exit(0) }
        }
        Payload::Program { argv, directory, environment } => {
            let child = fork()?;
            if child == 0 {
                start_program(argv, directory, environment);
            }
            reap_until(child)
        }
    }
}

fn fork() -> Result<i32, Failure> {
    // SAFETY: a fork of a single-threaded process.
    at("start a process", checked(unsafe { libc::fork() }.into())).map(|pid| i32::try_from(pid).unwrap_or(-1))
}

fn give_up_rights(launch: &Launch) -> Result<(), Failure> {
    at("set limits", layout::set_limits(&launch.limits))?;
    at("drop capabilities", filters::drop_capabilities())?;
    // SAFETY: plain flags of this process.
    unsafe {
        at("forbid new privileges", checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into()))?;
        at("hide the first process", checked(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0).into()))?;
    }
    at("restrict files", filters::restrict_files())?;
    at("restrict system calls", filters::restrict_system_calls())
}

/// Runs the program in the place of this process.
fn start_program(argv: &[String], directory: &str, environment: &[(String, String)]) -> ! {
    let program = argv.first().cloned().unwrap_or_default();
    let why = match exec(argv, directory, environment) {
        Ok(never) => match never {},
        Err(error) => error.to_string(),
    };
    report(&Told::NotStarted { program, why });
    // SAFETY: ends this process alone.
    unsafe { libc::_exit(127) }
}

fn exec(
    argv: &[String],
    directory: &str,
    environment: &[(String, String)],
) -> std::io::Result<std::convert::Infallible> {
    // SAFETY: plain system calls; every descriptor from 3 on is closed when the program starts.
    unsafe {
        checked(libc::setsid().into())?;
        checked(libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC))?;
    }
    std::env::set_current_dir(directory)
        .map_err(|error| std::io::Error::new(error.kind(), format!("the folder {directory}: {error}")))?;
    let words = argv.iter().map(c_string).collect::<std::io::Result<Vec<_>>>()?;
    let pairs = environment.iter().map(|(name, value)| c_string(format!("{name}={value}")));
    let pairs = pairs.collect::<std::io::Result<Vec<_>>>()?;
    let pointers = |texts: &[CString]| {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    let (word_pointers, pair_pointers) = (pointers(&words), pointers(&pairs));
    let mut error = std::io::Error::from(std::io::ErrorKind::NotFound);
    for candidate in candidates(argv.first().map_or("", String::as_str), environment) {
        let path = c_string(candidate)?;
        // SAFETY: all pointers are to live, NUL-terminated strings in null-terminated arrays.
        unsafe { libc::execve(path.as_ptr(), word_pointers.as_ptr(), pair_pointers.as_ptr()) };
        let found = std::io::Error::last_os_error();
        if found.kind() != std::io::ErrorKind::NotFound {
            error = found;
        }
    }
    Err(error)
}

/// Where a program's name may be found: itself when it has a slash, else along `PATH`.
fn candidates(program: &str, environment: &[(String, String)]) -> Vec<String> {
    if program.contains('/') || program.is_empty() {
        return vec![program.to_owned()];
    }
    let path = environment.iter().find(|(name, _)| name == "PATH").map_or("/usr/bin:/bin", |(_, path)| path);
    path.split(':').filter(|folder| !folder.is_empty()).map(|folder| format!("{folder}/{program}")).collect()
}

/// Reaps whatever ends until the payload does; then the container is over.
fn reap_until(payload: i32) -> Result<(), Failure> {
    // The payload alone holds the outputs open, so that they end with it and its children.
    for fd in [0, 1, 2] {
        // SAFETY: closes a descriptor that nothing here uses.
        unsafe { libc::close(fd) };
    }
    loop {
        let mut status = 0;
        // SAFETY: waits for any child of this process.
        let ended =
            at("wait for the program", checked(unsafe { libc::waitpid(-1, &raw mut status, 0) }.into()))?;
        if ended != i64::from(payload) {
            continue;
        }
        if libc::WIFSIGNALED(status) {
            report(&Told::Signalled { signal: libc::WTERMSIG(status) });
        } else {
            report(&Told::Exited { code: libc::WEXITSTATUS(status) });
        }
        // SAFETY: ends the first process and with it the container.
        unsafe { libc::_exit(0) }
    }
}

/// A path as a C string.
pub(super) fn c_path(path: &std::path::Path) -> std::io::Result<CString> {
    c_string(path.as_os_str().as_bytes())
}

/// A raw descriptor number, for calls that take one.
pub(super) fn raw(fd: &OwnedFd) -> RawFd {
    fd.as_raw_fd()
}
