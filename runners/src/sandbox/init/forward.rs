//! The forwarder to the egress window: what listens on loopback inside and passes connections to the
//! window's socket, or says by itself that the window is closed.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::Failed;
use crate::egress::SOCKET;

/// Where the window's folder is mounted.
pub const FOLDER: &str = "/run/egress";
/// The port of [`EGRESS_PROXY`](crate::sandbox::EGRESS_PROXY).
pub const PORT: u16 = 3128;
/// Connections at a time; each takes two threads.
const MAX_CONNECTIONS: usize = 64;
/// The most threads that there are.
pub const THREADS: u64 = 1 + 2 * MAX_CONNECTIONS as u64;
const STACK_BYTES: usize = 128 << 10;
/// The answer once the window is gone. Most clients show the reason phrase and nothing else.
const SEALED: &[u8] = b"HTTP/1.1 503 Egress-Sealed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Starts listening, in threads of this process, before any program can dial.
pub fn start() -> Result<(), Failed> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).map_err(Failed::to("listen for egress clients"))?;
    spawn(move || accept(&listener)).map_err(Failed::to("start the egress forwarder"))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().stack_size(STACK_BYTES).spawn(work).map(drop)
}

fn accept(listener: &TcpListener) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((client, _)) = listener.accept() else {
            // Out of descriptors, most likely: give running connections the time to end.
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let counted = Counted(Arc::clone(&open));
        // A thread that cannot start drops the client's connection, which the client sees.
        drop(spawn(move || {
            let _counted = counted;
            drop(serve(client));
        }));
    }
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(mut client: TcpStream) -> io::Result<()> {
    let Ok(broker) = UnixStream::connect(format!("{FOLDER}/{SOCKET}")) else {
        return refuse(&mut client);
    };
    let (mut from_client, mut to_broker) = (client.try_clone()?, broker.try_clone()?);
    spawn(move || {
        drop(io::copy(&mut from_client, &mut to_broker));
        drop(to_broker.shutdown(Shutdown::Write));
    })?;
    let mut broker = broker;
    let copied = io::copy(&mut broker, &mut client);
    client.shutdown(Shutdown::Both)?;
    broker.shutdown(Shutdown::Both)?;
    copied.map(drop)
}

/// Reads the request's head first, for a client whose data lies unread would see a reset, not the answer.
fn refuse(client: &mut TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut head = [0; 8192];
    let mut filled = 0;
    while filled < head.len() && !head[..filled].ends_with(b"\r\n\r\n") {
        match client.read(&mut head[filled..]) {
            Ok(0) | Err(_) => break,
            Ok(read) => filled += read,
        }
    }
    client.write_all(SEALED)?;
    client.shutdown(Shutdown::Write)
}
