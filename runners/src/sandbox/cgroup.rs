//! The memory limit of a whole container, where a cgroup for it can really be made.
//!
//! What is mounted says little: on a mixed host the memory controller may be under version 1 though
//! version 2 is mounted too, and a folder may exist that one may not write. So a child is made and bounded
//! once, and only what worked is used. Children lie below this process's own cgroup, so that the limits
//! set on the service hold for its containers as well.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The beginning of every child's name.
pub const PREFIX: &str = "whipstitch-";

/// Where children can be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub version: Version,
    pub folder: PathBuf,
}

/// Which interface the files have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Version {
    One,
    Two,
}

/// A child that the launcher is to make.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Child {
    pub version: Version,
    pub folder: PathBuf,
}

/// A child that exists.
pub struct Made {
    child: Child,
}

/// Lets the one thread of a process in.
pub struct Door(fs::File);

impl Door {
    pub fn enter(mut self) -> io::Result<()> {
        self.0.write_all(b"0")
    }
}

impl Place {
    /// Looks for a place by making and removing a child.
    pub fn find() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        candidates(&mounts, &own).into_iter().find(Self::works)
    }

    fn works(&self) -> bool {
        let child = self.child("probe");
        match child.make(64 << 20) {
            Ok(made) => {
                made.remove();
                true
            }
            Err(_) => {
                drop(fs::remove_dir(&child.folder));
                false
            }
        }
    }

    /// A child whose name nothing else has and begins with `name`.
    pub fn child(&self, name: &str) -> Child {
        let unique = uuid::Uuid::new_v4().simple();
        Child { version: self.version, folder: self.folder.join(format!("{PREFIX}{name}-{unique}")) }
    }

    /// Removes what a crashed process left of the children whose names begin with `name`.
    pub fn remove_leftovers(&self, name: &str) -> io::Result<()> {
        let beginning = format!("{PREFIX}{name}");
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&beginning) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

impl Child {
    pub fn make(&self, memory_bytes: u64) -> io::Result<Made> {
        fs::create_dir(&self.folder)?;
        let write = |file: &str, text: &str| fs::write(self.folder.join(file), text);
        match self.version {
            Version::One => {
                write("memory.limit_in_bytes", &memory_bytes.to_string())?;
                // Where swap is counted, it must not become a second helping.
                optional(write("memory.memsw.limit_in_bytes", &memory_bytes.to_string()))?;
            }
            Version::Two => {
                write("memory.max", &memory_bytes.to_string())?;
                optional(write("memory.swap.max", "0"))?;
                optional(write("memory.oom.group", "1"))?;
            }
        }
        Ok(Made { child: self.clone() })
    }
}

impl Made {
    /// The way in for a process itself, opened before that process loses its rights. A lone thread that
    /// moves itself need not wait until no process of the machine forks, which takes milliseconds. Version
    /// 2 moves whole processes only.
    pub fn door(&self) -> io::Result<Option<Door>> {
        match self.child.version {
            Version::One => {
                let file = fs::OpenOptions::new().write(true).open(self.child.folder.join("tasks"))?;
                Ok(Some(Door(file)))
            }
            Version::Two => Ok(None),
        }
    }

    /// Puts another process in.
    pub fn join(&self, process: i32) -> io::Result<()> {
        fs::write(self.child.folder.join("cgroup.procs"), process.to_string())
    }

    /// Whether the kernel has ended a process of it for its memory.
    pub fn has_killed(&self) -> bool {
        let file = match self.child.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        fs::read_to_string(self.child.folder.join(file)).is_ok_and(|text| has_killed(&text))
    }

    /// Removes it. One that cannot be removed yet is left to `remove_leftovers`.
    pub fn remove(self) {
        drop(remove(&self.child.folder));
    }
}

fn has_killed(text: &str) -> bool {
    text.lines()
        .filter_map(|line| line.strip_prefix("oom_kill "))
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

/// This process's own cgroups with a memory controller, version 1 first; on version 2 the one above as
/// well, because processes may not lie in a cgroup that gives controllers to its children.
fn candidates(mountinfo: &str, own: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for mount in mountinfo.lines().filter_map(Mount::parse) {
        let version = match mount.kind {
            "cgroup" if mount.options.split(',').any(|option| option == "memory") => Version::One,
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let Some(path) = own_path(own, version) else { continue };
        let Ok(below) = Path::new(path).strip_prefix(mount.root) else { continue };
        let folder = Path::new(mount.point).join(below);
        if version == Version::Two
            && let Some(above) = folder.parent().filter(|above| above.starts_with(mount.point))
        {
            places.push(Place { version, folder: above.to_owned() });
        }
        places.push(Place { version, folder });
    }
    places.sort_by_key(|place| place.version == Version::Two);
    places
}

fn own_path(own: &str, version: Version) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let right = match version {
            Version::One => controllers.split(',').any(|name| name == "memory"),
            Version::Two => controllers.is_empty(),
        };
        right.then_some(path)
    })
}

/// One line of `/proc/self/mountinfo`, see proc_pid_mountinfo(5).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let kind = right.next()?;
        Some(Self { root, point, kind, options: right.nth(1)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "\
30 24 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
31 24 0:27 / /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory
32 24 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    #[test]
    fn memory_is_sought_under_version_one_first() {
        let own = "4:memory:/service/one\n1:cpu:/\n0::/service.scope/main\n";
        let folders: Vec<_> = candidates(MIXED, own).into_iter().map(|place| place.folder).collect();
        let expected = [
            "/sys/fs/cgroup/memory/service/one",
            "/sys/fs/cgroup/unified/service.scope",
            "/sys/fs/cgroup/unified/service.scope/main",
        ];
        assert_eq!(folders, expected.map(PathBuf::from));
    }

    #[test]
    fn nothing_is_made_above_the_mount() {
        let mounts = "32 24 0:28 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        let places = candidates(mounts, "0::/pod\n");
        assert_eq!(places, [Place { version: Version::Two, folder: "/sys/fs/cgroup".into() }]);
    }

    #[test]
    fn an_end_for_memory_is_read_from_either_version() {
        assert!(has_killed("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"));
        assert!(has_killed("low 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n"));
        assert!(!has_killed("oom_kill_disable 1\nunder_oom 0\noom_kill 0\n"));
    }
}
