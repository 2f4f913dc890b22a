//! Probes that use something up until they are stopped. Each is a command of its own, in a container of its
//! own, since the right end of some is the container's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::raw::{call, fork, touch_private, touch_shared};
use super::{Outcome, short};
use crate::sandbox::{Cause, ContainerLimits, HOME, WORKSPACE};

/// The bounds of a bomb's container: small, so that every bomb meets its own soon.
pub const LIMITS: ContainerLimits = ContainerLimits {
    memory_bytes: 256 << 20,
    processes: 48,
    file_bytes: 32 << 20,
    open_files: 256,
    scratch_bytes: 16 << 20,
    disk_bytes: 64 << 20,
    disk_files: 4_000,
    cpu_percent: 100,
};

/// One bomb.
pub struct Bomb {
    pub name: &'static str,
    pub rule: &'static str,
    /// Says what it reached, where nothing has ended it before.
    act: fn() -> Outcome,
    /// The ends that mean that the limit held; a bomb that ends by itself says so itself.
    pub ends: &'static [Cause],
    /// The finding of the capabilities that declares the limit where it cannot be enforced.
    pub declared_by: Option<&'static str>,
    /// The time that it may take and stay silent; the default is long enough for any.
    pub timeout: Duration,
    pub silence: Duration,
}

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(500);

impl Bomb {
    const fn new(name: &'static str, rule: &'static str, act: fn() -> Outcome) -> Self {
        Self { name, rule, act, ends: &[], declared_by: None, timeout: LONG, silence: LONG }
    }

    const fn ends_by(mut self, ends: &'static [Cause]) -> Self {
        self.ends = ends;
        self
    }

    const fn declared_by(mut self, finding: &'static str) -> Self {
        self.declared_by = Some(finding);
        self
    }
}

const MEMORY: &[Cause] = &[Cause::OutOfMemory];
const DISK: &[Cause] = &[Cause::Disk];

pub const BOMBS: &[Bomb] = &[
    Bomb::new("forks", "processes are bounded", forks).ends_by(&[Cause::Processes]),
    Bomb::new("threads", "threads are bounded", threads).ends_by(&[Cause::Processes]),
    Bomb::new("memory-private", "memory of a process is bounded", || memory(touch_private)).ends_by(MEMORY),
    Bomb::new("memory-shared", "memory that is shared is bounded", || memory(touch_shared)).ends_by(MEMORY),
    Bomb::new("memory-of-many", "memory of all processes together is bounded", memory_of_many)
        .ends_by(MEMORY),
    Bomb::new("memory-files", "files in memory are bounded", memory_files)
        .ends_by(&[Cause::OutOfMemory, Cause::Disk]),
    Bomb::new("pipes", "memory of pipes is bounded", pipes),
    Bomb::new("descriptors", "open files are bounded", descriptors),
    Bomb::new("file-size", "a file is bounded, with and without content", file_size).ends_by(DISK),
    Bomb::new("tmp-bytes", "bytes of /tmp are bounded", || fill("/tmp")).ends_by(DISK),
    Bomb::new("shm-bytes", "bytes of /dev/shm are bounded", || fill("/dev/shm")).ends_by(DISK),
    Bomb::new("tmp-files", "files in /tmp are bounded", || litter("/tmp")).ends_by(DISK),
    Bomb::new("workspace-bytes", "bytes of the workspace are bounded", || fill(WORKSPACE))
        .ends_by(DISK)
        .declared_by("disk limit"),
    Bomb::new("workspace-files", "files of the workspace are bounded", || litter(WORKSPACE))
        .ends_by(DISK)
        .declared_by("disk limit"),
    Bomb::new("home-bytes", "bytes of the home are bounded", || fill(HOME))
        .ends_by(DISK)
        .declared_by("disk limit"),
    Bomb::new("home-files", "files of the home are bounded", || litter(HOME))
        .ends_by(DISK)
        .declared_by("disk limit"),
    Bomb::new("processors", "processors are shared as was asked", processors).declared_by("processor limit"),
    Bomb::new("output", "what is printed is bounded", output).ends_by(&[Cause::OutputLimit]),
    Bomb { silence: SHORT, ..Bomb::new("silence", "silence is bounded", wait).ends_by(&[Cause::Silent]) },
    Bomb { timeout: SHORT, ..Bomb::new("time", "time is bounded, for one who ignores every signal", deaf) }
        .ends_by(&[Cause::TimedOut]),
];

impl Bomb {
    pub fn act(&self) -> Outcome {
        (self.act)()
    }
}

/// Far more than any bound of [`LIMITS`].
const MANY: u64 = 2_000;
const MUCH: u64 = 1 << 30;

fn stopped(at: impl std::fmt::Display, error: &io::Error) -> Outcome {
    Outcome::Contained(format!("{at}: {}", short(error)))
}

/// The children end with the container at the latest.
fn forks() -> Outcome {
    for number in 0..MANY {
        match fork() {
            Ok(Some(_)) => {}
            Ok(None) => {
                std::thread::sleep(LONG);
                std::process::exit(0);
            }
            Err(error) => return stopped(format!("{number} processes"), &error),
        }
    }
    Outcome::Leak(format!("{MANY} processes"))
}

fn threads() -> Outcome {
    for number in 0..MANY {
        let made = std::thread::Builder::new().stack_size(64 << 10).spawn(|| std::thread::sleep(LONG));
        if let Err(error) = made {
            return stopped(format!("{number} threads"), &error);
        }
    }
    Outcome::Leak(format!("{MANY} threads"))
}

fn memory(touch: fn(usize) -> io::Result<()>) -> Outcome {
    const PIECE: usize = 32 << 20;
    for piece in 0..MUCH / PIECE as u64 {
        if let Err(error) = touch(PIECE) {
            return stopped(format!("{} MiB", piece * 32), &error);
        }
    }
    Outcome::Leak(format!("{} MiB touched", MUCH >> 20))
}

/// Each alone stays within what one process may have.
fn memory_of_many() -> Outcome {
    let mut children = Vec::new();
    for _ in 0..8 {
        match fork() {
            Ok(Some(child)) => children.push(child),
            Ok(None) => {
                let code = if touch_shared(80 << 20).is_ok() { 0 } else { 1 };
                std::thread::sleep(Duration::from_secs(3));
                std::process::exit(code);
            }
            Err(error) => return stopped("processes", &error),
        }
    }
    let ended = |child| rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
    let touched = children.into_iter().filter_map(|child| ended(child).ok().flatten());
    let touched = touched.filter(|(_, status)| status.exit_status() == Some(0)).count();
    match touched {
        8 => Outcome::Leak("640 MiB touched by 8 processes".to_owned()),
        fewer => Outcome::Contained(format!("{fewer} of 8 processes had their memory")),
    }
}

fn memory_files() -> Outcome {
    let mut held = Vec::new();
    let piece = vec![1_u8; 1 << 20];
    for number in 0..MUCH >> 24 {
        let made =
            rustix::fs::memfd_create("probe", rustix::fs::MemfdFlags::CLOEXEC).map_err(io::Error::from);
        let written = made.and_then(|file| {
            let mut file = File::from(file);
            for _ in 0..16 {
                file.write_all(&piece)?;
            }
            held.push(file);
            Ok(())
        });
        if let Err(error) = written {
            return stopped(format!("{} MiB", number * 16), &error);
        }
    }
    Outcome::Leak(format!("{} MiB in files of memory", MUCH >> 20))
}

fn pipes() -> Outcome {
    let mut held = Vec::new();
    for number in 0..MANY {
        let made = rustix::pipe::pipe().map_err(io::Error::from).and_then(|(read, write)| {
            let sized = rustix::pipe::fcntl_setpipe_size(&write, 1 << 20).map_err(io::Error::from);
            held.push((read, write));
            sized
        });
        if let Err(error) = made {
            return stopped(format!("{number} pipes of 1 MiB"), &error);
        }
    }
    Outcome::Leak(format!("{MANY} pipes of 1 MiB"))
}

fn descriptors() -> Outcome {
    let mut held = Vec::new();
    for number in 0..70_000 {
        match File::open("/dev/null") {
            Ok(file) => held.push(file),
            Err(error) => return stopped(format!("{number} files"), &error),
        }
    }
    Outcome::Leak(format!("{} files", held.len()))
}

/// A file of a tebibyte without content takes no room here, and all of it in whatever copies it.
fn file_size() -> Outcome {
    let path = format!("{WORKSPACE}/sparse");
    let made = File::create(&path).and_then(|file| file.set_len(1 << 40));
    match made {
        Ok(()) => Outcome::Leak("1 TiB".to_owned()),
        Err(error) => stopped("1 TiB", &error),
    }
}

/// Many files, each smaller than a file may be.
fn fill(folder: &str) -> Outcome {
    const PIECES: u64 = 16;
    let piece = vec![1_u8; 1 << 20];
    let write = |number: u64| -> io::Result<()> {
        let mut file = File::create(Path::new(folder).join(format!("fill-{number}")))?;
        for _ in 0..PIECES {
            file.write_all(&piece)?;
        }
        Ok(())
    };
    let files = (LIMITS.disk_bytes >> 20) * 4 / PIECES;
    for number in 0..files {
        if let Err(error) = write(number) {
            return stopped(format!("{} MiB", number * PIECES), &error);
        }
    }
    Outcome::Leak(format!("{} MiB", files * PIECES))
}

fn litter(folder: &str) -> Outcome {
    let place = Path::new(folder).join("litter");
    if let Err(error) = fs::create_dir(&place) {
        return Outcome::NotTried(short(&error));
    }
    let files = LIMITS.disk_files * 3;
    for number in 0..files {
        let made = OpenOptions::new().write(true).create_new(true).open(place.join(number.to_string()));
        if let Err(error) = made {
            return stopped(format!("{number} files"), &error);
        }
    }
    Outcome::Leak(format!("{files} files"))
}

/// Four that never rest, on a share of one processor.
fn processors() -> Outcome {
    const TIME: Duration = Duration::from_millis(1500);
    const CHILDREN: u64 = 4;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if processors < 2 {
        return Outcome::Contained("the machine has one processor".to_owned());
    }
    let begun = Instant::now();
    let mut children = Vec::new();
    for _ in 0..CHILDREN {
        match fork() {
            Ok(Some(child)) => children.push(child),
            Ok(None) => {
                while begun.elapsed() < TIME {
                    std::hint::spin_loop();
                }
                std::process::exit(0);
            }
            Err(error) => return stopped("processes", &error),
        }
    }
    for child in children {
        // One that is gone already is what is wanted.
        let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
    }
    // `struct rusage` begins with the seconds and microseconds of the user's time and the kernel's.
    let mut usage = [0_u8; 144];
    let place = super::raw::room(&mut usage);
    if let Err(error) = call(libc::SYS_getrusage, &[(-1_i64).cast_unsigned(), place]) {
        return Outcome::NotTried(short(&error));
    }
    let word = |place: usize| {
        let bytes = usage.get(place * 8..place * 8 + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, i64::from_ne_bytes) as f64
    };
    let used = word(0) + word(2) + (word(1) + word(3)) / 1e6;
    let share = used / begun.elapsed().as_secs_f64();
    let said = format!("{share:.2} of {processors} processors used");
    if share < 1.3 { Outcome::Contained(said) } else { Outcome::Leak(said) }
}

fn output() -> Outcome {
    let line = [b'x'; 4096];
    let mut out = io::stdout().lock();
    for number in 0..MUCH >> 12 {
        if let Err(error) = out.write_all(&line) {
            return stopped(format!("{} KiB", number * 4), &error);
        }
    }
    Outcome::Leak("1 GiB was taken".to_owned())
}

fn wait() -> Outcome {
    std::thread::sleep(LONG);
    Outcome::Leak("a minute of silence".to_owned())
}

fn deaf() -> Outcome {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        super::raw::ignore(signal);
    }
    wait()
}
