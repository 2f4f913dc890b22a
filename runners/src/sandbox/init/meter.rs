//! Sees whether a scratch file system of the container has been full, so that the cause of a failure can be
//! told: a program that is refused a byte cleans up and says something of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// File systems with an end of their own.
const PLACES: [&str; 2] = ["/tmp", "/dev/shm"];
/// How often it is looked.
const EVERY: Duration = Duration::from_millis(20);

/// Looks until the container ends.
pub struct Meter {
    full: Arc<AtomicBool>,
}

impl Meter {
    /// Starts looking, in a thread of this process. Where none can be started, the end alone is looked at.
    pub fn start() -> Self {
        let full = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&full);
        let look = move || {
            while !seen.load(Ordering::Relaxed) {
                thread::sleep(EVERY);
                seen.fetch_or(any_full(), Ordering::Relaxed);
            }
        };
        drop(thread::Builder::new().stack_size(64 << 10).spawn(look));
        Self { full }
    }

    pub fn has_been_full(&self) -> bool {
        self.full.load(Ordering::Relaxed) || any_full()
    }
}

fn any_full() -> bool {
    PLACES.iter().any(|place| is_full(Path::new(place)))
}

/// Without a block or without a name left.
fn is_full(place: &Path) -> bool {
    rustix::fs::statvfs(place).is_ok_and(|found| {
        found.f_blocks > 0 && (found.f_bfree == 0 || (found.f_files > 0 && found.f_ffree == 0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_counts_nothing_is_not_full() {
        assert!(!is_full(Path::new("/proc")));
    }
}
