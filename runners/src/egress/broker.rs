//! The broker: takes connections on the window's socket, admits or refuses them, and counts.

use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobs::step::EgressLine;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::hello::{self, Hello};
use super::request::{self, HostPort, Refusal};
use super::{EgressPolicy, SOCKET, address};

/// How long a client may take for its request head and its ClientHello.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection outwards may take to stand.
const DIAL_TIME: Duration = Duration::from_secs(15);

/// A proxy that the operator's network requires, such as `proxy.example:3128`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamProxy {
    pub host: String,
    pub port: u16,
}

/// State that all connections of one window share.
#[derive(Debug)]
pub struct Broker {
    policy: EgressPolicy,
    closed: CancellationToken,
    up: AtomicU64,
    down: AtomicU64,
    asked_by: Mutex<String>,
    lines: Mutex<Vec<EgressLine>>,
}

/// The most audit lines that one window keeps; a client that loops on a refusal must not fill memory.
const MAX_LINES: usize = 10_000;

/// Makes the window's folder and listens on the socket in it.
///
/// The socket is bound through the folder's descriptor, so that a long path of the data folder does
/// not meet the kernel's limit for socket addresses.
pub fn listen(folder: &Path) -> std::io::Result<UnixListener> {
    std::fs::DirBuilder::new().recursive(true).mode(0o711).create(folder)?;
    let handle = std::fs::File::open(folder)?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", handle.as_raw_fd());
    match std::fs::remove_file(folder.join(SOCKET)) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    // The container's user is another than ours; only the folder's mount decides who sees the socket.
    std::fs::set_permissions(folder.join(SOCKET), std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// How a tunnel ended, for its audit line.
struct Passed {
    up: u64,
    down: u64,
    refused: Option<String>,
}

impl Broker {
    pub fn new(policy: EgressPolicy, closed: CancellationToken) -> Self {
        Self {
            policy,
            closed,
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            asked_by: Mutex::new(String::new()),
            lines: Mutex::new(Vec::new()),
        }
    }

    pub fn asked_by(&self, command: &str) {
        *hold(&self.asked_by) = command.to_owned();
    }

    pub fn lines(&self) -> Vec<EgressLine> {
        hold(&self.lines).clone()
    }

    /// Serves until the window closes or its time is over; returns when no connection is left.
    pub async fn accept(self: Arc<Self>, listener: UnixListener) {
        let tasks = TaskTracker::new();
        let places = Arc::new(Semaphore::new(self.policy.bounds.tunnels));
        let deadline = tokio::time::sleep(self.policy.bounds.window);
        tokio::pin!(deadline);
        loop {
            let accepted = tokio::select! {
                () = self.closed.cancelled() => break,
                () = &mut deadline => {
                    self.closed.cancel();
                    break;
                }
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection on the egress socket");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            // No place: the connection is dropped, and the client sees it closed.
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let broker = Arc::clone(&self);
            tasks.spawn(async move {
                let closed = broker.closed.clone();
                tokio::select! {
                    () = closed.cancelled() => {}
                    () = broker.serve(stream) => {}
                }
                drop(place);
            });
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn serve(&self, mut client: UnixStream) {
        let head = match timeout(HEAD_TIME, read_head(&mut client)).await {
            Ok(Ok(head)) => head,
            Ok(Err(refusal)) => return self.refuse(&mut client, None, refusal).await,
            Err(_) => {
                let slow =
                    Refusal { status: 408, phrase: "Egress-Slow", why: "no request in time".to_owned() };
                return self.refuse(&mut client, None, slow).await;
            }
        };
        let target = match request::parse_connect(&head) {
            Ok(target) => target,
            Err(refusal) => return self.refuse(&mut client, None, refusal).await,
        };
        match self.admit(&target).await {
            Ok(server) => {
                let mut audit =
                    Audit { broker: self, target: &target, passed: Passed { up: 0, down: 0, refused: None } };
                self.tunnel(client, server, &mut audit).await;
            }
            Err(refusal) => self.refuse(&mut client, Some(&target), refusal).await,
        }
    }

    async fn admit(&self, target: &HostPort) -> Result<TcpStream, Refusal> {
        if !self.policy.allowed.contains(target) {
            return Err(Refusal::not_allowed(
                "not on the list of hosts that the package clients' configuration names",
            ));
        }
        if self.over_budget() {
            return Err(budget("the window's bytes are spent"));
        }
        match &self.policy.upstream {
            Some(proxy) => dial_through(proxy, target).await,
            None => self.dial(target).await,
        }
    }

    async fn dial(&self, target: &HostPort) -> Result<TcpStream, Refusal> {
        let resolved = timeout(DIAL_TIME, tokio::net::lookup_host((target.host(), target.port()))).await;
        let addresses: Vec<SocketAddr> = match resolved {
            Ok(Ok(addresses)) => addresses.collect(),
            Ok(Err(error)) => return Err(unreachable(format!("its name cannot be resolved: {error}"))),
            Err(_) => return Err(unreachable("its name is not resolved in time".to_owned())),
        };
        let may: Vec<_> = addresses
            .iter()
            .copied()
            .filter(|found| address::may_dial(found.ip(), &self.policy.trusted_networks))
            .collect();
        if may.is_empty() {
            let shown: Vec<_> = addresses.iter().map(|found| found.ip().to_string()).collect();
            return Err(Refusal {
                status: 403,
                phrase: "Egress-Address-Not-Allowed",
                why: format!(
                    "resolves to {}, which is not public; a mirror's network must be listed in `trusted_networks`",
                    shown.join(", ")
                ),
            });
        }
        // The checked addresses themselves are dialled; the name is not asked again.
        connect(&may).await
    }

    async fn refuse(&self, client: &mut UnixStream, target: Option<&HostPort>, refusal: Refusal) {
        let (host, port) =
            target.map_or((String::new(), 0), |target| (target.host().to_owned(), target.port()));
        tracing::info!(host, port, why = refusal.why, "egress refused");
        self.record(host, port, Passed { up: 0, down: 0, refused: Some(refusal.why) });
        let answer = format!(
            "HTTP/1.1 {} {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            refusal.status, refusal.phrase
        );
        // A client that went away needs no answer; the audit line is written.
        let _ = timeout(HEAD_TIME, client.write_all(answer.as_bytes())).await;
        let _ = client.shutdown().await;
    }

    async fn tunnel(&self, mut client: UnixStream, mut server: TcpStream, audit: &mut Audit<'_>) {
        if client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_err() {
            return;
        }
        let first = match timeout(HEAD_TIME, read_hello(&mut client, audit.target)).await {
            Ok(Ok(first)) => first,
            Ok(Err(why)) => return audit.passed.refused = Some(why),
            Err(_) => return audit.passed.refused = Some("no TLS ClientHello in time".to_owned()),
        };
        let bounds = self.policy.bounds;
        let over_up = |passed: u64, total: u64| {
            (passed > bounds.tunnel_up || total > bounds.bytes_up)
                .then_some("more was sent out than a download needs; cut")
        };
        let over_down = |_: u64, total: u64| {
            (total > bounds.bytes_down).then_some("the window's download budget is spent; cut")
        };
        let sent = first.len() as u64;
        audit.passed.up = sent;
        let all = self.up.fetch_add(sent, Ordering::Relaxed) + sent;
        // The first bytes may hold more than the ClientHello.
        if let Some(why) = over_up(sent, all) {
            return audit.passed.refused = Some(why.to_owned());
        }
        if server.write_all(&first).await.is_err() {
            return;
        }
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let Passed { up, down, refused } = &mut audit.passed;
        let outwards = copy(&mut from_client, &mut to_server, up, &self.up, over_up);
        let inwards = copy(&mut from_server, &mut to_client, down, &self.down, over_down);
        // Either direction's budget cuts the tunnel; the end of one direction alone does not.
        let ended = tokio::try_join!(outwards, inwards);
        if let Err(Cut(why)) = ended {
            *refused = why.map(str::to_owned);
        }
    }

    fn over_budget(&self) -> bool {
        let bounds = self.policy.bounds;
        self.up.load(Ordering::Relaxed) >= bounds.bytes_up
            || self.down.load(Ordering::Relaxed) >= bounds.bytes_down
    }

    fn record(&self, host: String, port: u16, passed: Passed) {
        let mut lines = hold(&self.lines);
        if lines.len() < MAX_LINES {
            let asked_by = hold(&self.asked_by).clone();
            lines.push(EgressLine {
                host,
                port,
                refused: passed.refused,
                bytes_up: passed.up,
                bytes_down: passed.down,
                asked_by,
            });
        }
    }
}

/// Writes a tunnel's line when it ends, also when sealing cuts it.
struct Audit<'a> {
    broker: &'a Broker,
    target: &'a HostPort,
    passed: Passed,
}

impl Drop for Audit<'_> {
    fn drop(&mut self) {
        let passed =
            Passed { up: self.passed.up, down: self.passed.down, refused: self.passed.refused.take() };
        self.broker.record(self.target.host().to_owned(), self.target.port(), passed);
    }
}

/// Why a direction stopped before its end: a budget, or the connection broke.
struct Cut(Option<&'static str>);

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    passed: &mut u64,
    total: &AtomicU64,
    over: impl Fn(u64, u64) -> Option<&'static str>,
) -> Result<(), Cut> {
    let mut buffer = vec![0; 32 << 10];
    loop {
        let count = from.read(&mut buffer).await.map_err(|_| Cut(None))?;
        if count == 0 {
            return to.shutdown().await.map_err(|_| Cut(None));
        }
        *passed += count as u64;
        let all = total.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if let Some(why) = over(*passed, all) {
            return Err(Cut(Some(why)));
        }
        to.write_all(&buffer[..count]).await.map_err(|_| Cut(None))?;
    }
}

async fn read_head(client: &mut UnixStream) -> Result<Vec<u8>, Refusal> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let count = client.read(&mut buffer).await.map_err(|_| Refusal::bad("the connection broke"))?;
        if count == 0 {
            return Err(Refusal::bad("the request head is cut"));
        }
        head.extend_from_slice(&buffer[..count]);
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            // What follows the head before the answer is no TLS client's doing.
            return if end + 4 == head.len() {
                Ok(head)
            } else {
                Err(Refusal::bad("bytes after the request head"))
            };
        }
        if head.len() > request::MAX_HEAD {
            return Err(Refusal {
                status: 431,
                phrase: "Egress-Head-Too-Large",
                why: "the request head is too large".to_owned(),
            });
        }
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

async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, Refusal> {
    let mut last = "no address".to_owned();
    for address in addresses {
        match timeout(DIAL_TIME, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = "no answer in time".to_owned(),
        }
    }
    Err(unreachable(format!("it cannot be reached: {last}")))
}

/// Asks the operator's own proxy for the tunnel; that proxy resolves the name and has the last word.
async fn dial_through(proxy: &UpstreamProxy, target: &HostPort) -> Result<TcpStream, Refusal> {
    let found = tokio::net::lookup_host((proxy.host.as_str(), proxy.port)).await;
    let addresses: Vec<_> = found
        .map_err(|error| unreachable(format!("the operator's proxy cannot be resolved: {error}")))?
        .collect();
    let mut stream = connect(&addresses).await?;
    let ask = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let answer = async {
        stream.write_all(ask.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && head.len() < request::MAX_HEAD {
            head.push(stream.read_u8().await?);
        }
        Ok::<_, std::io::Error>(head)
    };
    let head = match timeout(DIAL_TIME, answer).await {
        Ok(Ok(head)) => head,
        Ok(Err(error)) => return Err(unreachable(format!("the operator's proxy broke off: {error}"))),
        Err(_) => return Err(unreachable("the operator's proxy gives no answer".to_owned())),
    };
    let status: Vec<u8> = head.split(|&byte| byte == b' ').nth(1).unwrap_or_default().to_vec();
    if status == b"200" {
        Ok(stream)
    } else {
        Err(unreachable(format!("the operator's proxy answers {}", String::from_utf8_lossy(&status))))
    }
}

fn unreachable(why: String) -> Refusal {
    Refusal { status: 502, phrase: "Egress-Unreachable", why }
}

fn budget(why: &str) -> Refusal {
    Refusal { status: 403, phrase: "Egress-Budget-Spent", why: why.to_owned() }
}

/// A panic elsewhere does not make the audit unreadable.
fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
