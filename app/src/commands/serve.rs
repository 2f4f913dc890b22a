//! `serve`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::{load, print};
use crate::cli::{Role, Serve};
use crate::config::Config;
use crate::service::{Service, node};

pub async fn run(arguments: &Serve) -> anyhow::Result<ExitCode> {
    let config = load(arguments.file.config.as_deref())?;
    let filter = tracing_subscriber::EnvFilter::try_from_env("WHIPSTITCH_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let cancel = CancellationToken::new();
    let stopping = tokio::spawn(cancel_at_signal(cancel.clone()));
    let served = match arguments.role {
        Role::Runner => drive(config, &cancel).await,
        Role::Web | Role::All => serve(arguments, config, &cancel).await,
    };
    cancel.cancel();
    stopping.await?;
    served.map(|()| ExitCode::SUCCESS)
}

/// Serves until it is cancelled; with what the set-up page has kept from the moment on that it did.
async fn serve(arguments: &Serve, mut config: Config, cancel: &CancellationToken) -> anyhow::Result<()> {
    let listener = listen(config.server.listen)?;
    print(&format!("listening on http://{}\n", listener.local_addr()?));
    loop {
        config.server.listen = listener.local_addr()?;
        let mut service = Service::open(config).await?;
        let setup = service.offer_setup()?;
        if let Some(setup) = &setup {
            print(&format!("no GitHub App is configured; set one up at {}\n", setup.link()));
        }
        let (stage, (progress, _)) = (cancel.child_token(), broadcast::channel(1024));
        let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
        let (service, stop) = (Arc::new(service), stage.clone());
        let serving = async move {
            match arguments.role {
                Role::Web => service.serve_web(listener, stop).await,
                Role::Runner | Role::All => service.serve(listener, None, progress, stop).await,
            }
        };
        let kept = async {
            if let Some(setup) = setup {
                tokio::select! {
                    () = setup.kept() => stage.cancel(),
                    () = stage.cancelled() => {}
                }
            }
        };
        let (served, ()) = tokio::join!(serving, kept);
        served?;
        if cancel.is_cancelled() {
            break;
        }
        config = load(arguments.file.config.as_deref())?;
    }
    Ok(())
}

/// Drives runs for the nodes that take webhooks, until it is cancelled.
async fn drive(config: Config, cancel: &CancellationToken) -> anyhow::Result<()> {
    let service = Service::open(config).await?;
    let (progress, _) = broadcast::channel(1024);
    let driving = Arc::new(service).drive(progress, cancel.clone());
    print(&format!("driving runs as {}\n", node()));
    driving.await
}

fn listen(address: std::net::SocketAddr) -> anyhow::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address}; set server.listen to a free address"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
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
