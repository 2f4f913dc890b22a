//! The memory limit where no cgroup can hold it: looking often, best effort.

use std::fs;

use rustix::process::Pid;

/// The most processes that one look counts; their number is bounded by the process limit anyway.
const MAX_PROCESSES: usize = 20_000;

/// Bytes that the process and its descendants hold. An orphan within a container becomes a child of the
/// container's first process, so that none is missed.
pub fn memory_of_tree(init: Pid) -> u64 {
    let mut waiting = vec![init.as_raw_nonzero().get()];
    let mut seen = 0;
    let mut bytes = 0_u64;
    while let Some(process) = waiting.pop() {
        seen += 1;
        if seen > MAX_PROCESSES {
            break;
        }
        bytes = bytes.saturating_add(memory_of(process));
        waiting.extend(children_of(process));
    }
    bytes
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

/// The proportional share where the kernel shows it, so that shared pages count once; else what is its
/// own by the coarser count, which anyone may read.
fn memory_of(process: i32) -> u64 {
    if let Ok(rollup) = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))
        && let Some(bytes) = kilobytes(&rollup, "Pss:")
    {
        return bytes;
    }
    let Ok(status) = fs::read_to_string(format!("/proc/{process}/status")) else { return 0 };
    let part = |name| kilobytes(&status, name).unwrap_or(0);
    part("RssAnon:") + part("RssShmem:")
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
    fn a_process_holds_memory() {
        assert!(memory_of_tree(rustix::process::getpid()) > 100_000);
    }
}
