//! Workers wait for rows without asking the database all the time.
//!
//! A committed write rings a topic. Register, then look, then wait: what was written between looking
//! and waiting has rung already. A ring is a hint and may be missed (another process on SQLite, a lost
//! connection), so every wait has an end after which the worker looks again.

use std::time::Duration;

use tokio::sync::watch;

/// What may have new work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topic {
    /// Deliveries to be admitted.
    Deliveries,
    /// Runs to be claimed, or asked to halt.
    Runs,
    /// Messages to be sent.
    Outbox,
}

impl Topic {
    pub(super) const ALL: [Topic; 3] = [Topic::Deliveries, Topic::Runs, Topic::Outbox];

    /// The name that other nodes hear.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Topic::Deliveries => "deliveries",
            Topic::Runs => "runs",
            Topic::Outbox => "outbox",
        }
    }
}

/// One bell per topic, shared by all clones of a `Db`.
#[derive(Clone, Debug)]
pub(super) struct Bells {
    deliveries: watch::Sender<u64>,
    runs: watch::Sender<u64>,
    outbox: watch::Sender<u64>,
}

impl Bells {
    pub(super) fn new() -> Self {
        Self { deliveries: watch::Sender::new(0), runs: watch::Sender::new(0), outbox: watch::Sender::new(0) }
    }

    pub(super) fn ring(&self, topic: Topic) {
        self.bell(topic).send_modify(|rung| *rung = rung.wrapping_add(1));
    }

    pub(super) fn waiter(&self, topic: Topic) -> Waiter {
        Waiter { bell: self.bell(topic).subscribe() }
    }

    fn bell(&self, topic: Topic) -> &watch::Sender<u64> {
        match topic {
            Topic::Deliveries => &self.deliveries,
            Topic::Runs => &self.runs,
            Topic::Outbox => &self.outbox,
        }
    }
}

/// Hears every ring since it was made.
#[derive(Debug)]
pub struct Waiter {
    bell: watch::Receiver<u64>,
}

impl Waiter {
    /// Returns at the next ring, or at once when there was one since the last wait, or after `longest`.
    pub async fn wait(&mut self, longest: Duration) {
        // An error says that every `Db` is gone; the caller's next look finds that out by itself.
        let _ = tokio::time::timeout(longest, self.bell.changed()).await;
    }
}
