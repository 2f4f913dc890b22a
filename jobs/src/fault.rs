//! Named points at which a test kills the process, to prove that a restart takes the run up rightly.
//!
//! Without the feature `fault-injection` a point is nothing. With it, the process whose environment
//! names the point in `WHIPSTITCH_FAULT` ends there by `SIGKILL`, as a power cut would end it.

/// The environment variable that names the point.
pub const VARIABLE: &str = "WHIPSTITCH_FAULT";

/// A point between two durable steps, by a name that is unique in the workspace.
#[cfg(not(feature = "fault-injection"))]
#[inline(always)]
pub fn point(_name: &'static str) {}

/// A point between two durable steps, by a name that is unique in the workspace.
#[cfg(feature = "fault-injection")]
pub fn point(name: &'static str) {
    if std::env::var_os(VARIABLE).is_some_and(|wanted| wanted == name) {
        let myself = rustix::process::getpid();
        if rustix::process::kill_process(myself, rustix::process::Signal::KILL).is_err() {
            std::process::abort();
        }
        // The signal is delivered before this call returns, or at the latest here.
        loop {
            std::thread::park();
        }
    }
}
