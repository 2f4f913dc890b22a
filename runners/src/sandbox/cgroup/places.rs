//! Where this process's own cgroups lie, read from the tables of the kernel.

use std::path::{Path, PathBuf};

use super::{Controller, Version};

/// This process's own cgroups with a controller, version 1 first; on version 2 the one above as well,
/// because processes may not lie in a cgroup that gives controllers to its children.
pub fn candidates(mountinfo: &str, own: &str, controller: Controller) -> Vec<(Version, PathBuf)> {
    let mut places = Vec::new();
    for mount in mountinfo.lines().filter_map(Mount::parse) {
        let version = match mount.kind {
            "cgroup" if mount.options.split(',').any(|option| option == controller.name()) => Version::One,
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let Some(path) = own_path(own, version, controller) else { continue };
        let Ok(below) = Path::new(path).strip_prefix(mount.root) else { continue };
        let folder = Path::new(mount.point).join(below);
        if version == Version::Two
            && let Some(above) = folder.parent().filter(|above| above.starts_with(mount.point))
        {
            places.push((version, above.to_owned()));
        }
        places.push((version, folder));
    }
    places.sort_by_key(|&(version, _)| version);
    places
}

fn own_path(own: &str, version: Version, controller: Controller) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let right = match version {
            Version::One => controllers.split(',').any(|name| name == controller.name()),
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
30 24 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
31 24 0:27 / /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory
32 24 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
    const OWN: &str = "4:memory:/service/one\n1:cpu,cpuacct:/\n0::/service.scope/main\n";

    fn folders(mounts: &str, own: &str, controller: Controller) -> Vec<PathBuf> {
        candidates(mounts, own, controller).into_iter().map(|(_, folder)| folder).collect()
    }

    #[test]
    fn a_controller_is_sought_under_version_one_first() {
        let expected = [
            "/sys/fs/cgroup/memory/service/one",
            "/sys/fs/cgroup/unified/service.scope",
            "/sys/fs/cgroup/unified/service.scope/main",
        ];
        assert_eq!(folders(MIXED, OWN, Controller::Memory), expected.map(PathBuf::from));
        assert_eq!(folders(MIXED, OWN, Controller::Cpu)[0], PathBuf::from("/sys/fs/cgroup/cpu"));
        assert_eq!(folders(MIXED, OWN, Controller::Pids).len(), 2);
    }

    #[test]
    fn nothing_is_made_above_the_mount() {
        let mounts = "32 24 0:28 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        let found = candidates(mounts, "0::/pod\n", Controller::Memory);
        assert_eq!(found, [(Version::Two, "/sys/fs/cgroup".into())]);
    }
}
