//! Tunnels: `CONNECT` to a listed host, TLS for that host's name, and no more bytes than a download needs.
//!
//! What is said within TLS is not visible here, so this is the mode for clients that cannot be told of a
//! route. A budget that is spent cuts the tunnel.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::broker::{HEAD_TIME, refuse};
use super::dial;
use super::hello::{self, Hello};
use super::ledger::{Entry, Ledger};
use super::request::{self, HostPort, Refusal};
use super::{EgressPolicy, UpstreamProxy, address::Network};

/// What all tunnels of one window share.
#[derive(Debug)]
pub struct Tunnels {
    allowed: BTreeSet<HostPort>,
    trusted_networks: Vec<Network>,
    upstream: Option<UpstreamProxy>,
    /// Bytes to outside in one tunnel.
    tunnel_up: u64,
    budgets: Arc<Budgets>,
}

/// What may pass a window in either direction, over its tunnels and routes together.
#[derive(Debug)]
pub struct Budgets {
    pub up: Budget,
    pub down: Budget,
}

/// A bound of bytes, and what has been used of it.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    used: AtomicU64,
}

impl Budget {
    pub fn of(most: u64) -> Self {
        Self { most, used: AtomicU64::new(0) }
    }

    /// Counts bytes; false where they are more than may pass.
    pub fn take(&self, count: u64) -> bool {
        self.used.fetch_add(count, Ordering::Relaxed).saturating_add(count) <= self.most
    }

    pub fn is_spent(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.most
    }
}

impl Tunnels {
    pub fn new(policy: &EgressPolicy, budgets: Arc<Budgets>) -> Self {
        Self {
            allowed: policy.allowed.clone(),
            trusted_networks: policy.trusted_networks.clone(),
            upstream: policy.upstream.clone(),
            tunnel_up: policy.bounds.tunnel_up,
            budgets,
        }
    }

    /// Serves one connection whose request head is read.
    pub async fn serve(&self, mut client: UnixStream, head: &[u8], ledger: &Arc<Ledger>) {
        let target = match request::parse_connect(head) {
            Ok(target) => target,
            Err(refusal) => return refuse(&mut client, ledger.entry("", 0), refusal).await,
        };
        let mut entry = ledger.entry(target.host(), target.port());
        match self.admit(&target).await {
            Ok(server) => self.pass(client, server, &target, &mut entry).await,
            Err(refusal) => refuse(&mut client, entry, refusal).await,
        }
    }

    async fn admit(&self, target: &HostPort) -> Result<TcpStream, Refusal> {
        if !self.allowed.contains(target) {
            return Err(Refusal::not_allowed(
                "not on the list of hosts that the package clients' configuration names",
            ));
        }
        if self.budgets.down.is_spent() || self.budgets.up.is_spent() {
            return Err(Refusal::budget("the window's bytes are spent"));
        }
        dial::connect(target, &self.trusted_networks, self.upstream.as_ref()).await
    }

    async fn pass(
        &self,
        mut client: UnixStream,
        mut server: TcpStream,
        target: &HostPort,
        entry: &mut Entry,
    ) {
        if client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_err() {
            return;
        }
        let first = match timeout(HEAD_TIME, read_hello(&mut client, target)).await {
            Ok(Ok(first)) => first,
            Ok(Err(why)) => return entry.refused(why),
            Err(_) => return entry.refused("no TLS ClientHello in time"),
        };
        let over_up = |passed: u64, more: u64| {
            (!self.budgets.up.take(more) || passed > self.tunnel_up)
                .then_some("more was sent out than a download needs; cut")
        };
        let over_down = |_: u64, more: u64| {
            (!self.budgets.down.take(more)).then_some("the window's download budget is spent; cut")
        };
        let sent = first.len() as u64;
        entry.line.bytes_up = sent;
        // The first bytes may hold more than the ClientHello.
        if let Some(why) = over_up(sent, sent) {
            return entry.refused(why);
        }
        if server.write_all(&first).await.is_err() {
            return;
        }
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let outwards = copy(&mut from_client, &mut to_server, &mut entry.line.bytes_up, over_up);
        let inwards = copy(&mut from_server, &mut to_client, &mut entry.line.bytes_down, over_down);
        // Either direction's budget cuts the tunnel; the end of one direction alone does not.
        let ended = tokio::try_join!(outwards, inwards);
        if let Err(Cut(Some(why))) = ended {
            entry.refused(why);
        }
    }
}

/// Why a direction stopped before its end: a budget, or the connection broke.
struct Cut(Option<&'static str>);

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    passed: &mut u64,
    over: impl Fn(u64, u64) -> Option<&'static str>,
) -> Result<(), Cut> {
    let mut buffer = vec![0; 32 << 10];
    loop {
        let count = from.read(&mut buffer).await.map_err(|_| Cut(None))?;
        if count == 0 {
            return to.shutdown().await.map_err(|_| Cut(None));
        }
        *passed += count as u64;
        if let Some(why) = over(*passed, count as u64) {
            return Err(Cut(Some(why)));
        }
        to.write_all(&buffer[..count]).await.map_err(|_| Cut(None))?;
    }
}

async fn read_hello(client: &mut UnixStream, target: &HostPort) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match hello::read(&bytes) {
            Hello::Partial if bytes.len() > hello::MAX_HELLO => {
                return Err("the ClientHello is too large".to_owned());
            }
            Hello::Partial => {}
            Hello::For(name) if name == target.host() => return Ok(bytes),
            Hello::For(_) => return Err("the TLS server name is another than the target".to_owned()),
            Hello::Nameless => return Err("the ClientHello names no server".to_owned()),
            Hello::NotTls => return Err("what was sent is not TLS".to_owned()),
        }
        let count = client.read(&mut buffer).await.map_err(|_| "the connection broke".to_owned())?;
        if count == 0 {
            return Err("closed before a ClientHello".to_owned());
        }
        bytes.extend_from_slice(&buffer[..count]);
    }
}
