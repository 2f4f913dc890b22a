//! Group commit: many deliveries become durable by one sync of the disk, and each is answered only
//! after that.
//!
//! One task owns the queue. It takes what has gathered while the last commit was under way, writes it
//! in one transaction, and answers all. What cannot be made durable is answered with an error, which
//! the receiver turns into 503, so that the forge shows the delivery as failed.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::db::Db;
use super::deliveries::{self, Delivery, Prepared, Recorded};
use super::error::StoreError;

/// Deliveries of one transaction.
const BATCH: usize = 256;
/// Bytes of rows that may wait; more are refused rather than kept.
const WAITING_BYTES: usize = 128 << 20;
/// A larger body is read and packed beside the tasks that serve.
const LARGE: usize = 256 << 10;

/// A delivery is not durable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IngestError {
    /// Too much waits for the disk already.
    #[error("too many deliveries wait to be written; send this one again later")]
    Busy,
    /// The database refused; shared by all deliveries of the transaction.
    #[error("the delivery could not be made durable")]
    Database(#[source] Arc<StoreError>),
    /// The service is going down.
    #[error("the service is shutting down; send the delivery again later")]
    Closed,
}

type Answer = oneshot::Sender<Result<Recorded, IngestError>>;

struct Waiting {
    row: Prepared,
    answer: Answer,
    /// Given back when the delivery is answered.
    _space: tokio::sync::OwnedSemaphorePermit,
}

/// Records deliveries in groups. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ingest {
    queue: mpsc::Sender<Waiting>,
    space: Arc<Semaphore>,
}

/// The task that commits; await it after the last [`Ingest`] is dropped.
pub type IngestTask = JoinHandle<()>;

impl Ingest {
    /// Starts the committing task. It ends, all written, once every clone is dropped.
    pub fn start(db: Db) -> (Self, IngestTask) {
        let (queue, waiting) = mpsc::channel(BATCH * 4);
        let task = tokio::spawn(commit_all(db, waiting));
        (Self { queue, space: Arc::new(Semaphore::new(WAITING_BYTES)) }, task)
    }

    /// Returns once the delivery is durable, or with the reason why it is not known to be.
    pub async fn record(&self, delivery: Delivery) -> Result<Recorded, IngestError> {
        let row = prepare(delivery).await.ok_or(IngestError::Closed)?;
        let size = u32::try_from(row.size().clamp(1, WAITING_BYTES)).unwrap_or(u32::MAX);
        let space = Arc::clone(&self.space).try_acquire_many_owned(size).map_err(|_| IngestError::Busy)?;
        let (answer, answered) = oneshot::channel();
        self.queue.try_send(Waiting { row, answer, _space: space }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => IngestError::Busy,
            mpsc::error::TrySendError::Closed(_) => IngestError::Closed,
        })?;
        answered.await.unwrap_or(Err(IngestError::Closed))
    }
}

/// The row; `None` where the process ends meanwhile.
async fn prepare(delivery: Delivery) -> Option<Prepared> {
    if delivery.body.len() < LARGE {
        return Some(Prepared::of(&delivery));
    }
    tokio::task::spawn_blocking(move || Prepared::of(&delivery)).await.ok()
}

async fn commit_all(db: Db, mut waiting: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::with_capacity(BATCH);
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        match commit(&db, &batch).await {
            Ok(recorded) => {
                for (waiting, recorded) in batch.drain(..).zip(recorded) {
                    // Who asked may have hung up; the delivery is durable all the same.
                    let _ = waiting.answer.send(Ok(recorded));
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                tracing::error!(
                    deliveries = batch.len(),
                    error = &*error as &(dyn std::error::Error + 'static),
                    "deliveries could not be made durable"
                );
                for waiting in batch.drain(..) {
                    let _ = waiting.answer.send(Err(IngestError::Database(Arc::clone(&error))));
                }
            }
        }
    }
}

/// Writes the batch, and gives what became of each delivery in the batch's order.
async fn commit(db: &Db, batch: &[Waiting]) -> Result<Vec<Recorded>, StoreError> {
    let key = |place: usize| {
        let key = &batch[place].row.key;
        (key.forge, key.id.as_str())
    };
    let mut order: Vec<usize> = (0..batch.len()).collect();
    // Of deliveries with one key the first that came stays the first.
    order.sort_by(|left, right| key(*left).cmp(&key(*right)));
    order.dedup_by(|later, first| key(*later) == key(*first));
    let rows: Vec<&Prepared> = order.iter().map(|place| &batch[*place].row).collect();
    let mut tx = db.write().await?;
    let written = deliveries::record_all_in(&mut tx, &rows).await?;
    crate::fault::point("before-delivery-commit");
    tx.commit().await?;
    crate::fault::point("after-delivery-commit");
    let mut recorded = vec![Recorded::Known; batch.len()];
    for (place, is) in order.into_iter().zip(written) {
        recorded[place] = is;
    }
    Ok(recorded)
}

#[cfg(test)]
mod tests;
