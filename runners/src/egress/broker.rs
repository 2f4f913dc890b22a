//! The broker: takes connections on a window's socket and gives each to a tunnel or to a route.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::SOCKET;
use super::ledger::{Entry, Ledger};
use super::request::{self, Refusal};
use super::routes::Routes;
use super::tunnel::Tunnels;

/// How long a client may take for its request head and its ClientHello.
pub const HEAD_TIME: Duration = Duration::from_secs(10);

/// What stands behind one window's socket.
#[derive(Debug)]
pub struct Broker {
    pub tunnels: Option<Tunnels>,
    pub routes: Routes,
    pub ledger: Arc<Ledger>,
    /// How long the window may stand open.
    pub window: Duration,
    /// Connections at a time.
    pub connections: usize,
    pub closed: CancellationToken,
}

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

impl Broker {
    /// Serves until the window closes or its time is over; returns when no connection is left.
    pub async fn accept(self: Arc<Self>, listener: UnixListener) {
        let tasks = TaskTracker::new();
        let places = Arc::new(Semaphore::new(self.connections));
        let deadline = tokio::time::sleep(self.window);
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
        let (bytes, end) = match timeout(HEAD_TIME, read_head(&mut client)).await {
            Ok(Ok(read)) => read,
            Ok(Err(refusal)) => return refuse(&mut client, self.ledger.entry("", 0), refusal).await,
            Err(_) => {
                let slow =
                    Refusal { status: 408, phrase: "Egress-Slow", why: "no request in time".to_owned() };
                return refuse(&mut client, self.ledger.entry("", 0), slow).await;
            }
        };
        if self.routes.take(&bytes[..end]) {
            return self.routes.serve(client, bytes, &self.ledger).await;
        }
        let refusal = match &self.tunnels {
            // What follows the head before the answer is no TLS client's doing.
            Some(_) if end < bytes.len() => Refusal::bad("bytes after the request head"),
            Some(tunnels) => return tunnels.serve(client, &bytes, &self.ledger).await,
            None => Refusal::not_allowed("only the model route is open, and this is no request to it"),
        };
        refuse(&mut client, self.ledger.entry("", 0), refusal).await;
    }
}

/// Answers with a refusal and nothing else.
pub async fn refuse(client: &mut UnixStream, mut entry: Entry, refusal: Refusal) {
    tracing::info!(host = entry.line.host, port = entry.line.port, why = refusal.why, "egress refused");
    entry.refused(refusal.why);
    drop(entry);
    let answer = format!(
        "HTTP/1.1 {} {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        refusal.status, refusal.phrase
    );
    // A client that went away needs no answer; the line is written.
    let _ = timeout(HEAD_TIME, client.write_all(answer.as_bytes())).await;
    let _ = client.shutdown().await;
}

/// The first bytes of a connection, and where its first request's head ends in them.
async fn read_head(client: &mut UnixStream) -> Result<(Vec<u8>, usize), Refusal> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let count = client.read(&mut buffer).await.map_err(|_| Refusal::bad("the connection broke"))?;
        if count == 0 {
            return Err(Refusal::bad("the request head is cut"));
        }
        head.extend_from_slice(&buffer[..count]);
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            return Ok((head, end + 4));
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
