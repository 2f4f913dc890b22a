//! System calls as a hostile program makes them: by number, past every library.
//!
//! Each is made by a process that exists for the probe alone, and nearly all are refused.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions};

/// Makes a system call. Arguments that are addresses come from [`at`] and [`room`], whose bytes the caller
/// keeps for the call.
pub fn call(number: libc::c_long, arguments: &[u64]) -> io::Result<i64> {
    let argument = |place: usize| arguments.get(place).copied().unwrap_or(0);
    // SAFETY: the kernel reads and writes at most the bytes that the caller has handed over, as each probe
    // states in its sizes; a call that would change this process's memory otherwise is made by no probe.
    let result = unsafe {
        libc::syscall(number, argument(0), argument(1), argument(2), argument(3), argument(4), argument(5))
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The address of bytes that the kernel reads.
pub fn at(bytes: &[u8]) -> u64 {
    bytes.as_ptr() as u64
}

/// The address of bytes that the kernel may write to.
pub fn room(bytes: &mut [u8]) -> u64 {
    bytes.as_mut_ptr() as u64
}

/// An argument that is a negative number.
pub fn minus(number: i64) -> u64 {
    (-number).cast_unsigned()
}

/// Closes a descriptor that a refused call gave after all.
pub fn close(descriptor: i64) {
    drop(call(libc::SYS_close, &[descriptor.cast_unsigned()]));
}

/// Makes a process with these flags of clone(2), which leaves at once.
pub fn clone_with(flags: i32) -> io::Result<()> {
    let flags = (flags | libc::SIGCHLD) as u64;
    gone(call(libc::SYS_clone, &[flags, 0, 0, 0, 0])?)
}

/// The same by clone3(2).
pub fn clone3_with(flags: i32) -> io::Result<()> {
    let mut arguments = [0_u64; 8];
    arguments[0] = flags as u64;
    arguments[4] = libc::SIGCHLD as u64;
    let bytes: Vec<u8> = arguments.iter().flat_map(|word| word.to_ne_bytes()).collect();
    gone(call(libc::SYS_clone3, &[at(&bytes), bytes.len() as u64])?)
}

/// The child leaves, the parent waits for it.
fn gone(child: i64) -> io::Result<()> {
    if child == 0 {
        leave();
    }
    let child = i32::try_from(child).ok().and_then(Pid::from_raw);
    rustix::process::waitpid(child, WaitOptions::empty())?;
    Ok(())
}

fn leave() -> ! {
    // SAFETY: ends this process and does nothing else.
    unsafe { libc::_exit(0) }
}

/// Forks; `None` in the child.
pub fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the probe has one thread, so that its copy is whole.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        child => Ok(Pid::from_raw(child)),
    }
}

/// What became of a child.
pub enum Child {
    Said(Vec<u8>),
    Killed(i32),
    Hung,
}

/// Runs `act` in a process of its own and gives what it says.
pub fn in_child(patience: Duration, act: impl FnOnce() -> Vec<u8>) -> io::Result<Child> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let Some(child) = fork()? else {
        drop(read);
        let said = act();
        drop(std::fs::File::from(write).write_all(&said));
        leave();
    };
    drop(write);
    let mut pipe = std::fs::File::from(read);
    let (end, mut said) = (Instant::now() + patience, Vec::new());
    loop {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now()));
        let left = left.map_err(io::Error::other)?;
        let ready = poll(&mut [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)], Some(&left));
        let mut chunk = [0; 4096];
        match ready {
            Ok(0) => {
                // One that has ended in between is what is wanted.
                let _ = rustix::process::kill_process(child, Signal::KILL);
                rustix::process::waitpid(Some(child), WaitOptions::empty())?;
                return Ok(Child::Hung);
            }
            Ok(_) => match pipe.read(&mut chunk)? {
                0 => break,
                length => said.extend_from_slice(&chunk[..length]),
            },
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let status = rustix::process::waitpid(Some(child), WaitOptions::empty())?;
    Ok(match status.and_then(|(_, status)| status.terminating_signal()) {
        Some(signal) => Child::Killed(signal),
        None => Child::Said(said),
    })
}

/// Asks for this process's id through the interface of 32-bit programs.
#[cfg(target_arch = "x86_64")]
pub fn process_by_old_interface() -> i64 {
    let result: i64;
    // SAFETY: `getpid` (20) of the old interface has no arguments; older kernels clear r8 to r11.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("rax") 20_i64 => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    result
}

/// Maps shared memory and touches all of it.
pub fn touch_shared(bytes: usize) -> io::Result<()> {
    touch(bytes, libc::MAP_SHARED | libc::MAP_ANONYMOUS)
}

/// Maps private memory and touches all of it; it stays until the process ends.
pub fn touch_private(bytes: usize) -> io::Result<()> {
    touch(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
}

fn touch(bytes: usize, flags: i32) -> io::Result<()> {
    // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
    let place =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    for offset in (0..bytes).step_by(4096) {
        // SAFETY: within the mapping, which nothing else uses.
        unsafe { place.cast::<u8>().add(offset).write_volatile(1) };
    }
    Ok(())
}

/// Makes this process deaf to a signal.
pub fn ignore(signal: rustix::process::Signal) {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
}
