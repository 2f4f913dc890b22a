//! Tries every way out from inside, after all rights were given up.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::checked;

/// One way out and what the kernel answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    pub name: String,
    pub closed: bool,
    pub evidence: String,
}

/// Addresses that are reserved for documentation: nobody is there, and no packet may leave for them.
const IPV4: &str = "192.0.2.1:443";
const IPV6: &str = "[2001:db8::1]:443";
const RESOLVER: &str = "192.0.2.53:53";
const PROXY: &str = "127.0.0.1:3128";
const AF_VSOCK: libc::c_int = 40;

/// All findings, in a fixed order.
pub fn run() -> Vec<Finding> {
    let no_route = [libc::ENETUNREACH, libc::EADDRNOTAVAIL, libc::EHOSTUNREACH, libc::EAFNOSUPPORT];
    vec![
        interfaces(),
        refused("ipv4", dial(IPV4), &no_route),
        refused("ipv6", dial(IPV6), &no_route),
        refused("dns", ask(RESOLVER), &no_route),
        proxy(),
        refused("vsock", vsock(), &[libc::EPERM, libc::EAFNOSUPPORT]),
    ]
}

fn refused(name: &str, tried: io::Result<()>, closed: &[i32]) -> Finding {
    let (closed, evidence) = match tried {
        Ok(()) => (false, "it went through".to_owned()),
        Err(error) => {
            (error.raw_os_error().is_some_and(|number| closed.contains(&number)), error.to_string())
        }
    };
    Finding { name: name.to_owned(), closed, evidence }
}

fn interfaces() -> Finding {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let mut names: Vec<&str> =
        text.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim).collect();
    names.sort_unstable();
    let evidence = format!("interfaces: {}", names.join(", "));
    Finding { name: "interfaces".to_owned(), closed: names == ["lo"], evidence }
}

fn dial(address: &str) -> io::Result<()> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    TcpStream::connect_timeout(&address, Duration::from_millis(300)).map(drop)
}

fn ask(resolver: &str) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(resolver)?;
    socket.send(b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01").map(drop)
}

fn proxy() -> Finding {
    let socket = Path::new(super::forward::FOLDER).join(crate::egress::SOCKET);
    if socket.symlink_metadata().is_ok() {
        return Finding {
            name: "proxy".to_owned(),
            closed: false,
            evidence: "the window's socket is there".to_owned(),
        };
    }
    refused("proxy", dial(PROXY), &[libc::ECONNREFUSED])
}

fn vsock() -> io::Result<()> {
    // SAFETY: makes a socket and closes it.
    unsafe {
        let socket = checked(libc::socket(AF_VSOCK, libc::SOCK_STREAM, 0).into())?;
        libc::close(i32::try_from(socket).unwrap_or(-1));
    }
    Ok(())
}
