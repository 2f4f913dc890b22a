//! The one way out of a container: a broker on a unix socket, open for a while, then sealed for good.
//!
//! The container has no interface but loopback. During the egress window a forwarder inside passes
//! connections to the broker's socket. Clients that can be told of a registry's route have the broker ask
//! for them, by GET and HEAD alone; for the others it lets through TLS to the exact hosts and ports on its
//! list. It resolves names itself, refuses addresses that are not public unless the operator trusts their
//! network, and counts every byte. [`EgressWindow::seal`] consumes the window: there is no way
//! back, and the value that it gives is what later phases ask for as proof.

mod address;
mod broker;
mod cache;
mod client;
mod dial;
mod hello;
mod ledger;
mod model;
mod registry;
mod request;
mod routes;
mod tunnel;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jobs::step::EgressLine;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use broker::Broker;
use ledger::Ledger;
use registry::Registries;
use routes::Routes;
use tunnel::{Budget, Budgets, Tunnels};

pub use address::{Network, NotANetwork};
pub use dial::UpstreamProxy;
pub use model::{ModelBounds, ModelCall, ModelKey, ModelRoute, ModelUse, ModelWindow, NotAModelRoute};
pub use registry::RegistryRoute;
pub use request::{HostPort, NotAHostPort};

/// The socket's name within the window's folder.
pub const SOCKET: &str = "egress.sock";

/// What the broker lets through, and how much of it.
#[derive(Clone, Debug)]
pub struct EgressPolicy {
    /// Hosts that a tunnel may lead to, for clients that cannot be told of a route.
    pub allowed: BTreeSet<HostPort>,
    /// Registries that the broker itself asks.
    pub registries: BTreeSet<RegistryRoute>,
    /// Where what registries gave is kept for later windows; `None` to keep nothing.
    pub cache: Option<PathBuf>,
    /// Networks whose addresses are taken though they are not public: mirrors in one's own network.
    pub trusted_networks: Vec<Network>,
    /// A proxy of the operator's that the broker itself must go through.
    pub upstream: Option<UpstreamProxy>,
    pub bounds: EgressBounds,
}

impl EgressPolicy {
    /// Lets nothing through.
    pub fn of(bounds: EgressBounds) -> Self {
        Self {
            allowed: BTreeSet::new(),
            registries: BTreeSet::new(),
            cache: None,
            trusted_networks: Vec::new(),
            upstream: None,
            bounds,
        }
    }
}

/// Bounds of one window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EgressBounds {
    /// How long the window may stand open.
    pub window: Duration,
    /// Bytes from outside, over the whole window.
    pub bytes_down: u64,
    /// Bytes to outside, over the whole window. Downloads need little; more is something else.
    pub bytes_up: u64,
    /// Bytes to outside in one tunnel.
    pub tunnel_up: u64,
    /// Tunnels at a time.
    pub tunnels: usize,
}

impl EgressBounds {
    /// The job's limits, with the fixed upload caps.
    pub fn of(limits: &jobs::job::Limits) -> Self {
        Self {
            window: Duration::from_secs(limits.egress_seconds),
            bytes_down: limits.egress_bytes,
            bytes_up: 1 << 20,
            tunnel_up: 64 << 10,
            tunnels: 64,
        }
    }
}

/// The window could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// The folder or the socket could not be made.
    #[error("cannot open the egress window at {folder}")]
    Open { folder: PathBuf, source: std::io::Error },
    /// The folder of what registries gave could not be made.
    #[error("cannot open the cache of registries at {folder}")]
    Cache { folder: PathBuf, source: std::io::Error },
    /// The broker's own client could not be made.
    #[error("cannot make the client that asks for a container")]
    Client { source: reqwest::Error },
    /// The operator's model route cannot be used.
    #[error(transparent)]
    Model(#[from] NotAModelRoute),
}

/// An open window. Dropping it closes it too; only `seal` gives the proof.
#[derive(Debug)]
pub struct EgressWindow {
    folder: PathBuf,
    ledger: Arc<Ledger>,
    closed: CancellationToken,
    accepting: Option<JoinHandle<()>>,
}

impl EgressWindow {
    /// Opens a window whose socket lies in `folder`, which is made and belongs to this window alone.
    pub async fn open(folder: &Path, policy: EgressPolicy) -> Result<Self, EgressError> {
        let failed = |source| EgressError::Open { folder: folder.to_owned(), source };
        let listener = broker::listen(folder).map_err(failed)?;
        let (ledger, closed) = (Arc::new(Ledger::default()), CancellationToken::new());
        let bounds = policy.bounds;
        let budgets = Budgets { up: Budget::of(bounds.bytes_up), down: Budget::of(bounds.bytes_down) };
        let budgets = Arc::new(budgets);
        let registries = Registries::open(&policy, Arc::clone(&budgets)).await?;
        let broker = Arc::new(Broker {
            tunnels: Some(Tunnels::new(&policy, budgets)),
            routes: Routes::Registries(registries),
            ledger: Arc::clone(&ledger),
            window: policy.bounds.window,
            connections: policy.bounds.tunnels,
            closed: closed.clone(),
        });
        let accepting = Some(tokio::spawn(broker.accept(listener)));
        Ok(Self { folder: folder.to_owned(), ledger, closed, accepting })
    }

    /// The folder to mount read-only into the container.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names the command on whose behalf connections are made from now on.
    pub fn asked_by(&self, command: &str) {
        self.ledger.asked_by(command);
    }

    /// What has been asked for up to now.
    pub fn lines(&self) -> Vec<EgressLine> {
        self.ledger.lines()
    }

    /// Closes the window for good: no new connection, live tunnels cut, the socket gone.
    pub async fn seal(mut self) -> Sealed {
        self.closed.cancel();
        if let Some(accepting) = self.accepting.take()
            && let Err(error) = accepting.await
        {
            tracing::error!(%error, "the egress broker ended by a panic; its window is closed all the same");
        }
        self.remove_socket();
        Sealed { lines: self.ledger.lines() }
    }

    fn remove_socket(&self) {
        if let Err(error) = std::fs::remove_file(self.folder.join(SOCKET))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot remove the closed egress socket; nothing listens on it");
        }
    }
}

impl Drop for EgressWindow {
    fn drop(&mut self) {
        self.closed.cancel();
        self.remove_socket();
    }
}

/// The proof that a run's window is closed for good, with what passed it.
#[derive(Debug)]
pub struct Sealed {
    lines: Vec<EgressLine>,
}

impl Sealed {
    /// The proof for a run that never opened a window.
    pub fn never_opened() -> Self {
        Self { lines: Vec::new() }
    }

    /// What was asked for while the window stood open.
    pub fn lines(&self) -> &[EgressLine] {
        &self.lines
    }
}

/// The refusals among `lines` as sentences for a step's error.
pub fn refusals(lines: &[EgressLine]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for line in lines {
        if let Some(why) = &line.refused {
            let path = line.path.as_deref().unwrap_or_default();
            let sentence =
                format!("egress refused {}:{}{path} to `{}`: {why}", line.host, line.port, line.asked_by);
            if !said.contains(&sentence) {
                said.push(sentence);
            }
        }
    }
    said
}

#[cfg(test)]
mod tests;
