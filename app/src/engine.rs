//! The runner of this node.

use std::sync::Arc;

use jobs::source::Source;
use runners::progress::Progress;
use tokio::sync::broadcast;

use crate::service::Service;

pub struct Engine;

impl Engine {
    pub async fn work(self: Arc<Self>, cancel: tokio_util::sync::CancellationToken) {
        cancel.cancelled().await;
    }
}

pub fn of(_: &Service, _: Arc<dyn Source>, _: broadcast::Sender<Progress>) -> anyhow::Result<Arc<Engine>> {
    anyhow::bail!("this version cannot run repairs")
}
