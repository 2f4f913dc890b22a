//! The inner end of the egress window: passes loopback connections to the broker's socket, and says
//! so itself once the window is sealed.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The window's folder, inside.
pub const FOLDER: &str = "/run/egress";
const PORT: u16 = 3128;
const SEALED: &[u8] = b"HTTP/1.1 503 Egress-Sealed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Listens before the program starts, so that its first connection is not refused.
pub fn listen() -> io::Result<TcpListener> {
    TcpListener::bind(("127.0.0.1", PORT))
}

/// Serves until the container ends.
pub fn serve(listener: &TcpListener) -> ! {
    for fd in [0, 1, 2] {
        // SAFETY: the program's inputs and outputs are not this process's business.
        unsafe { libc::close(fd) };
    }
    loop {
        let Ok((client, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        // A connection that gets no thread is closed, which its client sees.
        let _ = std::thread::Builder::new().stack_size(128 << 10).spawn(move || pass(client));
    }
}

fn pass(mut client: TcpStream) {
    let socket = format!("{FOLDER}/{}", crate::egress::SOCKET);
    let Ok(broker) = UnixStream::connect(socket) else {
        let _ = client.set_read_timeout(Some(Duration::from_secs(2)));
        let mut request = [0; 4096];
        let _ = client.read(&mut request);
        let _ = client.write_all(SEALED);
        return;
    };
    let (Ok(mut up_from), Ok(mut up_to)) = (client.try_clone(), broker.try_clone()) else { return };
    let up = std::thread::Builder::new().stack_size(128 << 10).spawn(move || {
        let _ = io::copy(&mut up_from, &mut up_to);
        let _ = up_to.shutdown(Shutdown::Write);
    });
    let mut down_from = broker;
    let _ = io::copy(&mut down_from, &mut client);
    let _ = client.shutdown(Shutdown::Both);
    if let Ok(up) = up {
        let _ = up.join();
    }
}
