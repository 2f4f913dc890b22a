//! Holding a run: the heartbeat that keeps the lease, and the one word on why it must stop.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jobs::clock::{Clock, Millis};
use jobs::id::{Fence, RunId};
use jobs::store::{Db, StoreError, Topic, runs};
use tokio_util::sync::CancellationToken;

use super::Interrupt;

/// How long a worker may be silent before another takes its run.
pub const LEASE_MS: Millis = 60_000;
/// The lease is renewed three times in its life, and the wish to halt is looked for as often as it rings.
const BEAT: Duration = Duration::from_secs(20);

/// Why the run must stop, once it must. The first reason counts, but for a lost lease, which the store
/// tells every later write anyway.
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    reason: Arc<OnceLock<Interrupt>>,
    /// Ends the checks and installs of the run.
    pub token: CancellationToken,
    /// Ends an agent at work. The end of this process does not: its answer is waited for, since a
    /// launch without an answer stops the run.
    pub agent: CancellationToken,
}

impl Interrupts {
    /// Stops the run for this reason, if nothing stopped it before.
    pub fn raise(&self, why: Interrupt) {
        match &why {
            Interrupt::Shutdown => {}
            Interrupt::LeaseLost | Interrupt::Halt(_) | Interrupt::OutOfTime { .. } => self.agent.cancel(),
        }
        if self.reason.set(why).is_ok() {
            self.token.cancel();
        }
    }

    /// The reason, once there is one.
    pub fn raised(&self) -> Option<&Interrupt> {
        self.reason.get()
    }
}

/// What the heartbeat needs.
pub struct Heartbeat {
    pub db: Db,
    pub run: RunId,
    pub fence: Fence,
    pub clock: Arc<dyn Clock>,
    pub interrupts: Interrupts,
    /// When the run's own time is over.
    pub deadline: Millis,
    pub limit_ms: u64,
    pub shutdown: CancellationToken,
}

impl Heartbeat {
    /// Beats until `stop`. The caller joins it.
    pub async fn beat(self, stop: CancellationToken) {
        let mut bell = self.db.waiter(Topic::Runs);
        let mut shutting_down = false;
        loop {
            if self.once().await == Beat::Lost {
                return;
            }
            let left = u64::try_from(self.deadline - self.clock.now()).unwrap_or(0);
            if left == 0 {
                self.interrupts.raise(Interrupt::OutOfTime { limit_ms: self.limit_ms });
            }
            let pause = BEAT.min(Duration::from_millis(left.max(50)));
            tokio::select! {
                () = stop.cancelled() => return,
                () = bell.wait(pause) => {}
                () = self.shutdown.cancelled(), if !shutting_down => {
                    shutting_down = true;
                    self.interrupts.raise(Interrupt::Shutdown);
                }
            }
        }
    }

    async fn once(&self) -> Beat {
        match runs::heartbeat(&self.db, &self.run, self.fence, LEASE_MS, self.clock.now()).await {
            Ok(pulse) => {
                if let Some(halt) = pulse.halt {
                    self.interrupts.raise(Interrupt::Halt(halt));
                }
                Beat::Held
            }
            Err(StoreError::FenceLost { .. }) => {
                self.interrupts.raise(Interrupt::LeaseLost);
                Beat::Lost
            }
            Err(error) => {
                // The lease outlives a short failure; when it does not, the next beat says so.
                tracing::warn!(run.id = %self.run, error = &error as &dyn std::error::Error, "cannot renew the lease");
                Beat::Held
            }
        }
    }
}

/// What a beat found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beat {
    Held,
    Lost,
}
