//! Tries every way out from inside a finished container, and says what the kernel answered.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use jobs::step::SealTest;
use rustix::net::{AddressFamily, SocketType, socket};

use super::forward;
use super::plan::Report;
use crate::egress::SOCKET;
use crate::sandbox::sys;

/// A dial that a sealed container answers at once; one that is still open then would have gone somewhere.
const PATIENCE: Duration = Duration::from_secs(2);
/// Addresses that are dialled: resolvers known everywhere, so that an open way would be found open, a
/// cloud's metadata service, and a documentation network.
const IPV4: [&str; 4] = ["1.1.1.1:443", "8.8.8.8:53", "169.254.169.254:80", "203.0.113.1:443"];
const IPV6: [&str; 2] = ["[2606:4700:4700::1111]:443", "[2001:4860:4860::8888]:53"];
const RESOLVERS: [&str; 2] = ["1.1.1.1:53", "169.254.169.253:53"];
/// A question for the address of `example.com`.
const QUESTION: &[u8] =
    b"\x57\x53\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01";

/// Writes the tests' results to the first of `streams` as one JSON text.
pub fn report(streams: Vec<OwnedFd>, forwarded: bool) -> Report {
    let Some(output) = streams.into_iter().next() else {
        return Report::NotStarted { why: "there is no stream for the results".to_owned() };
    };
    let tests =
        vec![interfaces(), dial("ipv4", &IPV4), dial("ipv6", &IPV6), dns(), proxy(forwarded), vsock()];
    let written = serde_json::to_vec(&tests)
        .map_err(std::io::Error::from)
        .and_then(|text| File::from(output).write_all(&text));
    match written {
        Ok(()) => Report::Exited(0),
        Err(error) => Report::NotStarted { why: format!("the results cannot be written: {error}") },
    }
}

fn test(name: &str, closed: bool, evidence: impl Into<String>) -> SealTest {
    SealTest { name: name.to_owned(), closed, evidence: evidence.into() }
}

/// Some kernels put tunnel devices into every namespace; one that is down leads nowhere.
fn interfaces() -> SealTest {
    let name = "interfaces";
    let list = match std::fs::read_to_string("/proc/self/net/dev") {
        Ok(list) => list,
        Err(error) => return test(name, false, format!("cannot list them: {error}")),
    };
    let names = list.lines().skip(2).filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
    let mut up = Vec::new();
    for interface in names {
        match is_up(interface) {
            Ok(true) => up.push(interface),
            Ok(false) => {}
            Err(error) => return test(name, false, format!("cannot look at {interface}: {error}")),
        }
    }
    test(name, up == ["lo"], format!("up: {}", up.join(", ")))
}

fn is_up(interface: &str) -> std::io::Result<bool> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let flags = sys::interface_flags(socket, &CString::new(interface)?)?;
    Ok(i32::from(flags) & libc::IFF_UP != 0)
}

fn dial(name: &str, addresses: &[&str]) -> SealTest {
    let mut evidence = Vec::new();
    let mut closed = true;
    for address in addresses {
        let answer = match address.parse::<SocketAddr>() {
            Ok(address) => TcpStream::connect_timeout(&address, PATIENCE),
            Err(error) => return test(name, false, format!("{address}: {error}")),
        };
        match answer {
            Ok(_) => {
                closed = false;
                evidence.push(format!("{address}: connected"));
            }
            // An answer from afar is a way out too, even a refusal; so only the kernel's own count.
            Err(error) => {
                closed &= is_unreachable(&error);
                evidence.push(format!("{address}: {error}"));
            }
        }
    }
    test(name, closed, evidence.join("; "))
}

fn is_unreachable(error: &std::io::Error) -> bool {
    let own = [libc::ENETUNREACH, libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT, libc::EACCES, libc::EPERM];
    error.raw_os_error().is_some_and(|number| own.contains(&number))
}

fn dns() -> SealTest {
    let mut evidence = Vec::new();
    let mut closed = true;
    for resolver in RESOLVERS {
        let sent =
            UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.send_to(QUESTION, resolver));
        match sent {
            Ok(_) => {
                closed = false;
                evidence.push(format!("{resolver}: the question left"));
            }
            Err(error) => evidence.push(format!("{resolver}: {error}")),
        }
    }
    test("dns", closed, evidence.join("; "))
}

/// The egress window's socket and the forwarder before it.
fn proxy(forwarded: bool) -> SealTest {
    let socket = match UnixStream::connect(format!("{}/{SOCKET}", forward::FOLDER)) {
        Ok(_) => return test("proxy", false, "the egress window's socket answers"),
        Err(error) => error,
    };
    match ask_forwarder() {
        Ok(answer) if forwarded && answer.starts_with("HTTP/1.1 503 Egress-Sealed") => {
            test("proxy", true, format!("socket: {socket}; forwarder: 503 Egress-Sealed"))
        }
        Ok(answer) => test("proxy", false, format!("the forwarder answers {answer:?}")),
        Err(error) => test(
            "proxy",
            error.kind() == std::io::ErrorKind::ConnectionRefused,
            format!("socket: {socket}; forwarder: {error}"),
        ),
    }
}

fn ask_forwarder() -> std::io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, forward::PORT));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(200).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
}

fn vsock() -> SealTest {
    let family = AddressFamily::from_raw(libc::AF_VSOCK as u16);
    match socket(family, SocketType::STREAM, None) {
        Ok(_) => test("vsock", false, "a socket of AF_VSOCK could be made"),
        Err(error) => test("vsock", true, format!("socket(AF_VSOCK): {error}")),
    }
}
