//! `serve`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::{load, print};
use crate::cli::ConfigFile;
use crate::service::Service;

pub async fn run(arguments: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = load(arguments.config.as_deref())?;
    let filter = tracing_subscriber::EnvFilter::try_from_env("WHIPSTITCH_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let address = config.server.listen;
    let service = Arc::new(Service::open(config).await?);
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; set server.listen to a free address"))?;
    print(&format!("listening on http://{}\n", listener.local_addr()?));
    let cancel = CancellationToken::new();
    let (progress, _) = broadcast::channel(1024);
    let stopping = tokio::spawn(cancel_at_signal(cancel.clone()));
    let served = service.serve(listener, None, progress, cancel.clone()).await;
    cancel.cancel();
    stopping.await?;
    served.map(|()| ExitCode::SUCCESS)
}

/// Cancels at the first signal to stop, or when the token is cancelled otherwise.
pub async fn cancel_at_signal(cancel: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        () = cancel.cancelled() => {}
    }
    cancel.cancel();
}
