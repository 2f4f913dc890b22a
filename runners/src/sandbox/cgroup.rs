//! Control groups, where this process may really make one: the bound on what a container's processes
//! use together. Found out by making a child, not by what is mounted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How limits on a whole container are enforced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tier {
    V2(PathBuf),
    V1 {
        memory: PathBuf,
        pids: PathBuf,
    },
    /// Limits of single processes alone.
    Rlimits,
}

impl Tier {
    /// The name in seal reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Tier::V2(_) => "cgroup-v2",
            Tier::V1 { .. } => "cgroup-v1",
            Tier::Rlimits => "rlimits",
        }
    }

    /// The best tier in which a group could be made just now.
    pub fn find() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let candidates = [v2(&own), v1(&own)];
        candidates.into_iter().flatten().find(Tier::works).unwrap_or(Tier::Rlimits)
    }

    fn works(&self) -> bool {
        Group::make(self, 64 << 20, 16).is_ok()
    }
}

fn v2(own: &str) -> Option<Tier> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let folder = Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/'));
    folder.join("cgroup.controllers").exists().then_some(Tier::V2(folder))
}

fn v1(own: &str) -> Option<Tier> {
    let of = |controller: &str| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let names = parts.next()?;
            let path = parts.next()?;
            let folder = Path::new("/sys/fs/cgroup").join(controller).join(path.trim_start_matches('/'));
            names.split(',').any(|name| name == controller).then_some(folder)
        })
    };
    Some(Tier::V1 { memory: of("memory")?, pids: of("pids")? })
}

/// The groups of one container.
#[derive(Debug)]
pub struct Group {
    folders: Vec<PathBuf>,
    /// The file that counts processes ended for want of memory.
    kills: Option<PathBuf>,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Group {
    /// Makes a group with these bounds.
    pub fn make(tier: &Tier, memory: u64, processes: u64) -> io::Result<Self> {
        let name = format!("whipstitch-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut group = Self { folders: Vec::new(), kills: None };
        let made = match tier {
            Tier::Rlimits => Ok(()),
            Tier::V2(parent) => group.add(parent.join(&name)).and_then(|folder| {
                group.kills = Some(folder.join("memory.events"));
                fs::write(folder.join("memory.max"), memory.to_string())?;
                fs::write(folder.join("pids.max"), processes.to_string())
            }),
            Tier::V1 { memory: parent, pids } => group.add(parent.join(&name)).and_then(|folder| {
                group.kills = Some(folder.join("memory.oom_control"));
                fs::write(folder.join("memory.limit_in_bytes"), memory.to_string())?;
                let folder = group.add(pids.join(&name))?;
                fs::write(folder.join("pids.max"), processes.to_string())
            }),
        };
        made.map(|()| group)
    }

    fn add(&mut self, folder: PathBuf) -> io::Result<PathBuf> {
        fs::create_dir(&folder)?;
        self.folders.push(folder.clone());
        Ok(folder)
    }

    /// Puts a process in; its later children are in it too.
    pub fn join(&self, process: u32) -> io::Result<()> {
        self.folders.iter().try_for_each(|folder| fs::write(folder.join("cgroup.procs"), process.to_string()))
    }

    /// How many processes the kernel has ended here for want of memory.
    pub fn memory_kills(&self) -> u64 {
        let Some(text) = self.kills.as_ref().and_then(|file| fs::read_to_string(file).ok()) else { return 0 };
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    /// Gives the group back; its processes are gone by then.
    fn drop(&mut self) {
        for folder in &self.folders {
            if let Err(error) = fs::remove_dir(folder)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "cannot remove a control group");
            }
        }
    }
}
