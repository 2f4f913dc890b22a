//! Workers wait for rows without asking the database all the time.
//!
//! A committed write rings a topic, in this process and, by LISTEN/NOTIFY, on the other nodes of a
//! PostgreSQL database. Register, then look, then wait: what was written between looking
//! and waiting has rung already. A ring is a hint and may be missed (another process on SQLite, a lost
//! connection), so every wait has an end after which the worker looks again.

use std::time::Duration;

use sqlx::postgres::{PgListener, PgPool};
use sqlx::{PgConnection, Postgres};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The one channel on which nodes tell each other; its payload is topic and teller.
const CHANNEL: &str = "whipstitch";
/// How long the listener waits after the server could not be reached.
const RECONNECT: Duration = Duration::from_secs(1);

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
    /// Tells what this process said itself from what others say.
    teller: uuid::Uuid,
    deliveries: watch::Sender<u64>,
    runs: watch::Sender<u64>,
    outbox: watch::Sender<u64>,
}

impl Bells {
    pub(super) fn new() -> Self {
        Self {
            teller: uuid::Uuid::new_v4(),
            deliveries: watch::Sender::new(0),
            runs: watch::Sender::new(0),
            outbox: watch::Sender::new(0),
        }
    }

    pub(super) fn ring(&self, topic: Topic) {
        self.bell(topic).send_modify(|rung| *rung = rung.wrapping_add(1));
    }

    pub(super) fn waiter(&self, topic: Topic) -> Waiter {
        Waiter { bell: self.bell(topic).subscribe() }
    }

    /// Says to the other nodes, once the transaction of `connection` is committed, that `topic` rang.
    pub(super) async fn tell_others(
        &self,
        connection: &mut PgConnection,
        topic: Topic,
    ) -> Result<(), sqlx::Error> {
        let payload = format!("{} {}", topic.name(), self.teller);
        let told = sqlx::query::<Postgres>("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(payload);
        told.execute(connection).await.map(|_| ())
    }

    /// Rings what another node said. What is not understood rings nothing.
    fn hear(&self, payload: &str) {
        let Some((name, teller)) = payload.split_once(' ') else { return };
        if teller == self.teller.to_string() {
            return;
        }
        if let Some(topic) = Topic::ALL.into_iter().find(|topic| topic.name() == name) {
            self.ring(topic);
        }
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

/// Listens for other nodes until it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    task: JoinHandle<()>,
}

impl Listener {
    /// Listens on a connection of its own.
    pub(super) async fn start(pool: &PgPool, bells: Bells) -> Result<Self, sqlx::Error> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(CHANNEL).await?;
        Ok(Self { task: tokio::spawn(listen(listener, bells)) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(mut listener: PgListener, bells: Bells) {
    loop {
        match listener.try_recv().await {
            Ok(Some(told)) => bells.hear(told.payload()),
            // The connection was lost, and with it perhaps a ring: everyone looks again.
            Ok(None) => Topic::ALL.into_iter().for_each(|topic| bells.ring(topic)),
            Err(sqlx::Error::PoolClosed) => return,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot hear the other nodes");
                tokio::time::sleep(RECONNECT).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
