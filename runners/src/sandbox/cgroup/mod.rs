//! The limits of a whole container, where cgroups for them can really be made.
//!
//! What is mounted says little: on a mixed host a controller may be under version 1 though version 2 is
//! mounted too, and a folder may exist that one may not write. So for each controller a child is made and
//! bounded once, and only what worked is used. Children lie below this process's own cgroups, so that the
//! limits set on the service hold for its containers as well.

mod places;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The beginning of every child's name.
pub const PREFIX: &str = "whipstitch-";
/// The time over which a share of processors is counted, in microseconds.
const PERIOD: u64 = 100_000;

/// What is bounded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Controller {
    Memory,
    Pids,
    Cpu,
}

impl Controller {
    const ALL: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

    /// The kernel's name.
    const fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
        }
    }
}

/// Which interface the files have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Version {
    One,
    Two,
}

/// How much a container may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bounds {
    pub memory_bytes: u64,
    pub tasks: u64,
    /// `None` where it may have every processor.
    pub cpu_percent: Option<u64>,
}

/// Where children can be made, for each controller that works.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Place {
    seats: Vec<Seat>,
}

/// One folder of cgroups, and what it bounds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Seat {
    version: Version,
    folder: PathBuf,
    controllers: Vec<Controller>,
}

impl Place {
    /// Looks for places by making and removing children.
    pub fn find() -> Self {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let mut place = Self::default();
        for controller in Controller::ALL {
            let found =
                places::candidates(&mounts, &own, controller).into_iter().find(|(version, folder)| {
                    let controllers = vec![controller];
                    Seat { version: *version, folder: folder.clone(), controllers }.works()
                });
            let Some((version, folder)) = found else { continue };
            match place.seats.iter_mut().find(|seat| seat.folder == folder) {
                Some(seat) => seat.controllers.push(controller),
                None => place.seats.push(Seat { version, folder, controllers: vec![controller] }),
            }
        }
        place
    }

    /// The interface that holds this controller's limit; `None` where none does.
    pub fn version(&self, controller: Controller) -> Option<Version> {
        self.seat(controller).map(|seat| seat.version)
    }

    /// Where this controller's children are made.
    pub fn folder(&self, controller: Controller) -> Option<&Path> {
        self.seat(controller).map(|seat| seat.folder.as_path())
    }

    fn seat(&self, controller: Controller) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.controllers.contains(&controller))
    }

    /// A child whose name nothing else has and begins with `name`; it bounds nothing that needs no bound.
    pub fn child(&self, name: &str, bounds: Bounds) -> Child {
        let unique = uuid::Uuid::new_v4().simple();
        let name = format!("{PREFIX}{name}-{unique}");
        let needed = |controller: &Controller| *controller != Controller::Cpu || bounds.cpu_percent.is_some();
        let part = |seat: &Seat| {
            let controllers: Vec<_> = seat.controllers.iter().copied().filter(needed).collect();
            let (version, folder) = (seat.version, seat.folder.join(&name));
            (!controllers.is_empty()).then_some(Seat { version, folder, controllers })
        };
        Child { parts: self.seats.iter().filter_map(part).collect(), bounds }
    }

    /// Removes what a crashed process left of the children whose names begin with `name`.
    pub fn remove_leftovers(&self, name: &str) -> io::Result<()> {
        let beginning = format!("{PREFIX}{name}");
        for seat in &self.seats {
            for entry in fs::read_dir(&seat.folder)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with(&beginning) {
                    remove(&entry.path())?;
                }
            }
        }
        Ok(())
    }
}

/// A child that the launcher is to make: a folder in each place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Child {
    parts: Vec<Seat>,
    bounds: Bounds,
}

impl Child {
    /// Makes all of it, or leaves nothing.
    pub fn make(&self) -> io::Result<Made> {
        let mut made = Made { parts: Vec::new() };
        for part in &self.parts {
            match part.make(&self.bounds) {
                Ok(()) => made.parts.push(part.clone()),
                Err(error) => {
                    drop(fs::remove_dir(&part.folder));
                    made.remove();
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Whether the kernel bounds this.
    pub fn bounds(&self, controller: Controller) -> bool {
        self.parts.iter().any(|part| part.controllers.contains(&controller))
    }
}

impl Seat {
    fn works(&self) -> bool {
        let bounds = Bounds { memory_bytes: 64 << 20, tasks: 16, cpu_percent: Some(50) };
        let name = format!("{PREFIX}probe-{}", uuid::Uuid::new_v4().simple());
        let child = Self { folder: self.folder.join(name), ..self.clone() };
        if self.version == Version::Two {
            // A delegated folder may be ours without handing its controllers on; where it is not, this fails.
            let wanted: String =
                self.controllers.iter().map(|controller| format!("+{} ", controller.name())).collect();
            drop(fs::write(self.folder.join("cgroup.subtree_control"), wanted.trim_end()));
        }
        let made = child.make(&bounds).is_ok();
        drop(fs::remove_dir(&child.folder));
        made
    }

    fn make(&self, bounds: &Bounds) -> io::Result<()> {
        fs::create_dir(&self.folder)?;
        self.controllers.iter().try_for_each(|controller| self.bound(*controller, bounds))
    }

    fn bound(&self, controller: Controller, bounds: &Bounds) -> io::Result<()> {
        let write = |file: &str, text: String| fs::write(self.folder.join(file), text);
        let memory = bounds.memory_bytes.to_string();
        match (controller, self.version) {
            (Controller::Memory, Version::One) => {
                write("memory.limit_in_bytes", memory.clone())?;
                // Where swap is counted, it must not become a second helping.
                optional(write("memory.memsw.limit_in_bytes", memory))
            }
            (Controller::Memory, Version::Two) => {
                write("memory.max", memory)?;
                optional(write("memory.swap.max", "0".to_owned()))?;
                optional(write("memory.oom.group", "1".to_owned()))
            }
            (Controller::Pids, _) => write("pids.max", bounds.tasks.to_string()),
            (Controller::Cpu, version) => {
                let Some(percent) = bounds.cpu_percent else { return Ok(()) };
                let quota = percent.max(1) * PERIOD / 100;
                match version {
                    Version::One => {
                        write("cpu.cfs_period_us", PERIOD.to_string())?;
                        write("cpu.cfs_quota_us", quota.to_string())
                    }
                    Version::Two => write("cpu.max", format!("{quota} {PERIOD}")),
                }
            }
        }
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap_or_default()
    }
}

/// A child that exists.
pub struct Made {
    parts: Vec<Seat>,
}

/// Lets the one thread of a process in.
pub struct Door(Vec<fs::File>);

impl Door {
    pub fn enter(self) -> io::Result<()> {
        self.0.into_iter().try_for_each(|mut file| file.write_all(b"0"))
    }
}

impl Made {
    /// The way in for a process itself, opened before that process loses its rights. A lone thread that
    /// moves itself need not wait until no process of the machine forks, which takes milliseconds. Version
    /// 2 moves whole processes only.
    pub fn door(&self) -> io::Result<Door> {
        let old = self.parts.iter().filter(|part| part.version == Version::One);
        let open = |part: &Seat| fs::OpenOptions::new().write(true).open(part.folder.join("tasks"));
        Ok(Door(old.map(open).collect::<io::Result<_>>()?))
    }

    /// Puts another process into what has no door.
    pub fn join(&self, process: i32) -> io::Result<()> {
        let new = self.parts.iter().filter(|part| part.version == Version::Two);
        for part in new {
            fs::write(part.folder.join("cgroup.procs"), process.to_string())?;
        }
        Ok(())
    }

    /// Whether the kernel has ended a process of it for its memory.
    pub fn has_killed(&self) -> bool {
        let file = |part: &Seat| match part.version {
            Version::One => part.read("memory.oom_control"),
            Version::Two => part.read("memory.events"),
        };
        self.of(Controller::Memory).is_some_and(|part| counted(&file(part), "oom_kill"))
    }

    /// Whether the kernel has refused it a process or a thread.
    pub fn has_refused(&self) -> bool {
        self.of(Controller::Pids).is_some_and(|part| counted(&part.read("pids.events"), "max"))
    }

    fn of(&self, controller: Controller) -> Option<&Seat> {
        self.parts.iter().find(|part| part.controllers.contains(&controller))
    }

    /// Removes it. What cannot be removed yet is left to `remove_leftovers`.
    pub fn remove(self) {
        for part in &self.parts {
            drop(remove(&part.folder));
        }
    }
}

fn counted(text: &str, name: &str) -> bool {
    text.lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .any(|count| count.trim().parse::<u64>().is_ok_and(|count| count > 0))
}

/// A file that this kernel need not have.
fn optional(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Ends what is still in it and removes it. The kernel gives an emptied cgroup free a little later.
fn remove(folder: &Path) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        match fs::remove_dir(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => end_processes(folder),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn end_processes(folder: &Path) {
    let Ok(list) = fs::read_to_string(folder.join("cgroup.procs")) else { return };
    for process in
        list.lines().filter_map(|line| line.parse().ok()).filter_map(rustix::process::Pid::from_raw)
    {
        // One that has ended in between is what is wanted.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_counted_is_read_from_either_version() {
        assert!(counted("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "oom_kill"));
        assert!(counted("low 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n", "oom_kill"));
        assert!(!counted("oom_kill_disable 1\nunder_oom 0\noom_kill 0\n", "oom_kill"));
        assert!(counted("max 3\n", "max") && !counted("max 0\n", "max"));
    }

    #[test]
    fn a_child_has_one_folder_for_each_place_and_none_for_what_needs_no_bound() {
        let seat = |folder: &str, controllers: &[Controller]| Seat {
            version: Version::One,
            folder: folder.into(),
            controllers: controllers.to_vec(),
        };
        let place = Place {
            seats: vec![seat("/m", &[Controller::Memory, Controller::Pids]), seat("/c", &[Controller::Cpu])],
        };
        let bounds = Bounds { memory_bytes: 1, tasks: 1, cpu_percent: None };
        let child = place.child("run", bounds);
        assert!(child.bounds(Controller::Pids) && !child.bounds(Controller::Cpu));
        assert_eq!(child.parts.len(), 1);
        let child = place.child("run", Bounds { cpu_percent: Some(50), ..bounds });
        assert_eq!(child.parts.len(), 2);
    }
}
