//! The limits where no cgroup can hold them: looking often, best effort.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::Pid;

/// The most processes that one look counts; their number is bounded by the process limit anyway.
const MAX_PROCESSES: usize = 20_000;

/// Bytes, and processes with their threads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Held {
    pub bytes: u64,
    pub tasks: u64,
}

/// What the process and its descendants hold. Memory that is shared may be mapped, held as a file that has no
/// name, or both; it counts once.
pub fn held_by_tree(init: Pid) -> Held {
    let (mut own, mut shared, mut tasks, mut files) = (0_u64, 0_u64, 0, BTreeMap::new());
    for process in tree(init) {
        let memory = memory_of(process);
        own = own.saturating_add(memory.own);
        shared = shared.saturating_add(memory.shared);
        tasks += threads_of(process);
        add_memory_files(process, &mut files);
    }
    let in_files = files.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    Held { bytes: own.saturating_add(shared.max(in_files)), tasks }
}

/// Bytes of each file of memfd_create(2) that the process has open, by inode.
fn add_memory_files(process: i32, files: &mut BTreeMap<u64, u64>) {
    const BLOCK: u64 = 512;
    for entry in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let is_memory = target.to_string_lossy().starts_with("/memfd:");
        if is_memory && let Ok(found) = fs::metadata(entry.path()) {
            files.insert(found.ino(), found.blocks() * BLOCK);
        }
    }
}

/// The process and its descendants. An orphan within a container becomes a child of the container's first
/// process, so that none is missed.
pub fn tree(init: Pid) -> Vec<i32> {
    let mut found = vec![init.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(&process) = found.get(next)
        && next < MAX_PROCESSES
    {
        next += 1;
        found.extend(children_of(process));
    }
    found
}

fn threads_of(process: i32) -> u64 {
    fs::read_dir(format!("/proc/{process}/task")).map_or(0, |threads| threads.count() as u64)
}

fn children_of(process: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        if let Ok(list) = fs::read_to_string(thread.path().join("children")) {
            children.extend(list.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
        }
    }
    children
}

/// Memory of one process.
struct Memory {
    own: u64,
    shared: u64,
}

/// The proportional share where the kernel shows it, so that shared pages count once; else what is its
/// own by the coarser count, which anyone may read.
fn memory_of(process: i32) -> Memory {
    if let Ok(rollup) = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))
        && let Some(all) = kilobytes(&rollup, "Pss:")
    {
        let shared = kilobytes(&rollup, "Pss_Shmem:").unwrap_or(0);
        return Memory { own: all.saturating_sub(shared), shared };
    }
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let part = |name| kilobytes(&status, name).unwrap_or(0);
    Memory { own: part("RssAnon:"), shared: part("RssShmem:") }
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_kilobytes_of_one_field() {
        let text = "Rss:  900 kB\nPss:                 512 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(kilobytes(text, "Pss:"), Some(512 << 10));
        assert_eq!(kilobytes(text, "Swap:"), None);
    }

    #[test]
    fn a_process_holds_memory_and_is_a_task() {
        let held = held_by_tree(rustix::process::getpid());
        assert!(held.bytes > 100_000 && held.tasks > 0);
    }
}
