//! Named points at which a test kills the process, to prove that a restart takes the run up rightly.
//!
//! Without the feature `fault-injection` a point is nothing. With it, the process whose environment
//! names the point in `WHIPSTITCH_FAULT` ends there by `SIGKILL`, as a power cut would end it; and a task
//! that runs under a `Script` does at each point what the script says, so that one process can play many.

/// The environment variable that names the point.
pub const VARIABLE: &str = "WHIPSTITCH_FAULT";

/// A point between two durable steps, by a name that is unique in the workspace.
#[cfg(not(feature = "fault-injection"))]
#[inline(always)]
pub fn point(_name: &'static str) {}

/// A point between two durable steps, by a name that is unique in the workspace.
#[cfg(feature = "fault-injection")]
pub fn point(name: &'static str) {
    if script::is_playing() {
        // A point does nothing that could fail; what it can do is to be the last.
        let _ = script::reach(name);
        return;
    }
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

/// The moment before a transaction begins: a database may be slow, and may refuse.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn turn(_name: &'static str) -> std::future::Ready<std::io::Result<()>> {
    std::future::ready(Ok(()))
}

/// A moment at which the connection to the database may break.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn reach(_name: &'static str) -> std::io::Result<()> {
    Ok(())
}

#[cfg(feature = "fault-injection")]
pub use script::{Crashed, Fate, Script, play};
#[cfg(feature = "fault-injection")]
pub(crate) use script::{reach, turn};

#[cfg(feature = "fault-injection")]
mod script {
    use std::future::Future;
    use std::io;
    use std::pin::Pin;
    use std::sync::Arc;

    tokio::task_local! {
        static SCRIPT: Arc<dyn Script>;
    }

    /// What happens to a task at its points.
    pub trait Script: Send + Sync {
        /// The task is at a point, or at the begin or the end of a commit.
        fn reach(&self, point: &'static str) -> Fate;

        /// The task is about to begin a transaction; others may have their turn before it goes on.
        fn turn(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    }

    /// What happens there.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Fate {
        Pass,
        /// The connection to the database breaks, where there is one; nothing happens elsewhere.
        Fail,
        /// The task ends by unwinding with [`Crashed`]: nothing that it would have done is done.
        Crash,
    }

    /// What a task that was crashed unwinds with.
    #[derive(Debug)]
    pub struct Crashed(pub &'static str);

    /// Runs a task under a script. What it spawns is not under it.
    pub async fn play<T>(script: Arc<dyn Script>, task: impl Future<Output = T>) -> T {
        SCRIPT.scope(script, task).await
    }

    pub(super) fn is_playing() -> bool {
        SCRIPT.try_with(|_| ()).is_ok()
    }

    fn script() -> Option<Arc<dyn Script>> {
        SCRIPT.try_with(Arc::clone).ok()
    }

    pub(crate) fn reach(name: &'static str) -> io::Result<()> {
        match script().map_or(Fate::Pass, |script| script.reach(name)) {
            Fate::Pass => Ok(()),
            Fate::Fail => Err(io::Error::other(format!("the connection broke ({name})"))),
            Fate::Crash => std::panic::resume_unwind(Box::new(Crashed(name))),
        }
    }

    pub(crate) async fn turn(name: &'static str) -> io::Result<()> {
        let Some(script) = script() else { return Ok(()) };
        script.turn().await;
        reach(name)
    }
}
