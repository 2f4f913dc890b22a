//! Ways out over a network, a socket of the host or the hypervisor.

use std::ffi::CString;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, socket};

use super::raw::{at, call, close};
use super::{Facts, Outcome, Probe, all_refused, none_open, refused, short};
use crate::egress::SOCKET;
use crate::sandbox::init::forward;
use crate::sandbox::sys;

const GROUP: &str = "network";

pub const PROBES: &[Probe] = &[
    Probe::quick(GROUP, "interfaces", "no interface but loopback is up", interfaces),
    Probe::quick(GROUP, "ipv4", "no address of IPv4 is reached", |_| dial(&IPV4)),
    Probe::quick(GROUP, "ipv6", "no address of IPv6 is reached", |_| dial(&IPV6)),
    Probe::quick(GROUP, "dns", "no question reaches a resolver", dns),
    Probe::quick(GROUP, "proxy", "no egress window answers", proxy),
    Probe::quick(GROUP, "vsock", "no socket to the hypervisor can be made", vsock),
    Probe::quick(GROUP, "socket-families", "no socket of another family can be made", families),
    Probe::quick(GROUP, "netlink", "the kernel's message sockets are closed but for routes", netlink),
    Probe::quick(GROUP, "raw-sockets", "no raw packet can be sent", raw_sockets),
    Probe::whole(GROUP, "vsock-connect", "the hypervisor answers no connection", vsock_connect),
    Probe::whole(GROUP, "socket-upper-half", "bits that the kernel ignores open no family", upper_half),
    Probe::whole(GROUP, "socket-pairs", "pairs can be made of local sockets alone", socket_pairs),
    Probe::whole(GROUP, "transports", "no transport but TCP, UDP and echo requests", transports),
    Probe::whole(GROUP, "names", "no name of another host is resolved", names),
    Probe::whole(GROUP, "udp", "no datagram leaves", udp),
    Probe::whole(GROUP, "host-loopback", "a listener on the host's loopback is not reached", host_loopback),
    Probe::whole(
        GROUP,
        "host-abstract-socket",
        "an abstract socket of the host is not reached",
        abstract_socket,
    ),
    Probe::whole(GROUP, "host-path-socket", "no socket file of the host is reached", path_socket),
    Probe::whole(GROUP, "interface-setup", "no interface or address can be added", interface_setup),
    Probe::whole(GROUP, "packet-filters", "the host's packet filter cannot be asked", packet_filters),
];

/// A dial that a sealed container answers at once; one that is still open then would have gone somewhere.
const PATIENCE: Duration = Duration::from_secs(2);
/// Addresses that are dialled: resolvers known everywhere, so that an open way would be found open, a
/// cloud's metadata service, private networks, and a documentation network.
const IPV4: [&str; 6] =
    ["1.1.1.1:443", "8.8.8.8:53", "169.254.169.254:80", "10.0.0.1:80", "192.168.0.1:80", "203.0.113.1:443"];
const IPV6: [&str; 3] = ["[2606:4700:4700::1111]:443", "[2001:4860:4860::8888]:53", "[fd00:ec2::254]:80"];
const RESOLVERS: [&str; 2] = ["1.1.1.1:53", "169.254.169.253:53"];
/// A question for the address of `example.com`.
const QUESTION: &[u8] =
    b"\x57\x53\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01";

/// Some kernels put tunnel devices into every namespace; one that is down leads nowhere.
fn interfaces(_: &Facts) -> Outcome {
    let list = match std::fs::read_to_string("/proc/self/net/dev") {
        Ok(list) => list,
        Err(error) => return Outcome::NotTried(format!("cannot list them: {error}")),
    };
    let names = list.lines().skip(2).filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
    let mut up = Vec::new();
    for interface in names {
        match is_up(interface) {
            Ok(true) => up.push(interface),
            Ok(false) => {}
            Err(error) => return Outcome::NotTried(format!("cannot look at {interface}: {error}")),
        }
    }
    let said = format!("up: {}", up.join(", "));
    if up == ["lo"] { Outcome::Contained(said) } else { Outcome::Leak(said) }
}

fn is_up(interface: &str) -> io::Result<bool> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let flags = sys::interface_flags(socket, &CString::new(interface)?)?;
    Ok(i32::from(flags) & libc::IFF_UP != 0)
}

fn dial(addresses: &[&str]) -> Outcome {
    let (mut open, mut answers): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for address in addresses {
        let answer = match address.parse::<SocketAddr>() {
            Ok(address) => TcpStream::connect_timeout(&address, PATIENCE),
            Err(error) => return Outcome::NotTried(format!("{address}: {error}")),
        };
        match answer {
            Ok(_) => open.push(format!("{address}: connected")),
            // An answer from afar is a way out too, even a refusal; so only the kernel's own count.
            Err(error) if !is_unreachable(&error) => open.push(format!("{address}: {}", short(&error))),
            Err(error) => answers.push(format!("{address}: {}", short(&error))),
        }
    }
    none_open(&open, answers.join("; "))
}

fn is_unreachable(error: &io::Error) -> bool {
    let own = [libc::ENETUNREACH, libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT, libc::EACCES, libc::EPERM];
    error.raw_os_error().is_some_and(|number| own.contains(&number))
}

fn dns(_: &Facts) -> Outcome {
    let (mut open, mut answers) = (Vec::new(), Vec::new());
    for resolver in RESOLVERS {
        match send(QUESTION, resolver) {
            Ok(_) => open.push(format!("{resolver}: the question left")),
            Err(error) => answers.push(format!("{resolver}: {}", short(&error))),
        }
    }
    none_open(&open, answers.join("; "))
}

fn send(bytes: &[u8], to: &str) -> io::Result<usize> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.send_to(bytes, to))
}

/// The egress window's socket and the forwarder before it.
fn proxy(facts: &Facts) -> Outcome {
    let socket = match UnixStream::connect(format!("{}/{SOCKET}", forward::FOLDER)) {
        Ok(_) => return Outcome::Leak("the egress window's socket answers".to_owned()),
        Err(error) => short(&error),
    };
    match ask_forwarder() {
        Ok(answer) if facts.forwarded && answer.starts_with("HTTP/1.1 503 Egress-Sealed") => {
            Outcome::Contained(format!("socket: {socket}; forwarder: 503 Egress-Sealed"))
        }
        Ok(answer) => Outcome::Leak(format!("the forwarder answers {answer:?}")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Outcome::Contained(format!("socket: {socket}; forwarder: {}", short(&error)))
        }
        Err(error) => Outcome::Leak(format!("something listens: {}", short(&error))),
    }
}

fn ask_forwarder() -> io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, forward::PORT));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(200).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
}

/// Makes a socket by number and closes it again.
fn make(family: i32, kind: i32, protocol: i32) -> io::Result<()> {
    let word = |number: i32| u64::from(number.cast_unsigned());
    call(libc::SYS_socket, &[word(family), word(kind), word(protocol)]).map(close)
}

fn vsock(_: &Facts) -> Outcome {
    all_refused([
        ("stream", make(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
        ("datagram", make(libc::AF_VSOCK, libc::SOCK_DGRAM, 0)),
        ("packets", make(libc::AF_VSOCK, libc::SOCK_SEQPACKET, 0)),
    ])
}

/// Even a refusal by the hypervisor is an answer of it.
fn vsock_connect(_: &Facts) -> Outcome {
    let socket = match call(libc::SYS_socket, &[libc::AF_VSOCK as u64, libc::SOCK_STREAM as u64, 0]) {
        Ok(socket) => socket,
        Err(error) => return Outcome::Contained(short(&error)),
    };
    let mut answers = Vec::new();
    for machine in [0_u32, 1, 2] {
        // `struct sockaddr_vm`: family, reserved, port 22, machine, four unused bytes.
        let mut address = [0_u8; 16];
        address[..2].copy_from_slice(&(libc::AF_VSOCK as u16).to_ne_bytes());
        address[4..8].copy_from_slice(&22_u32.to_ne_bytes());
        address[8..12].copy_from_slice(&machine.to_ne_bytes());
        let arguments = [socket.cast_unsigned(), at(&address), address.len() as u64];
        let answer = call(libc::SYS_connect, &arguments);
        answers.push(format!(
            "machine {machine}: {}",
            answer.map_or_else(|error| short(&error), |_| "connected".to_owned())
        ));
    }
    close(socket);
    Outcome::Leak(answers.join("; "))
}

/// Families by their numbers, many of which no library names.
fn families(_: &Facts) -> Outcome {
    const OTHERS: [(&str, i32, i32, i32); 16] = [
        ("packet", 17, 3, 0x300),
        ("algorithms", 38, 5, 0),
        ("tipc", 30, 2, 0),
        ("can", 29, 3, 1),
        ("bluetooth", 31, 3, 1),
        ("kernel connections", 41, 5, 0),
        ("express data path", 44, 3, 0),
        ("rds", 21, 5, 0),
        ("qualcomm", 42, 2, 0),
        ("near field", 39, 3, 0),
        ("x25", 9, 5, 0),
        ("smc", 43, 1, 0),
        ("phonet", 35, 2, 0),
        ("caif", 37, 5, 0),
        ("management", 45, 2, 0),
        ("ppp", 24, 1, 0),
    ];
    all_refused(OTHERS.map(|(name, family, kind, protocol)| (name, make(family, kind, protocol))))
}

fn netlink(_: &Facts) -> Outcome {
    const OTHERS: [(&str, i32); 8] = [
        ("socket diagnosis", 4),
        ("netfilter", 12),
        ("ipsec", 6),
        ("audit", 9),
        ("device events", 15),
        ("crypto", 21),
        ("generic", 16),
        ("scsi", 18),
    ];
    all_refused(OTHERS.map(|(name, protocol)| (name, make(libc::AF_NETLINK, libc::SOCK_RAW, protocol))))
}

fn raw_sockets(_: &Facts) -> Outcome {
    all_refused([
        ("icmp", make(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)),
        ("ip", make(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW)),
        ("icmp6", make(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6)),
        ("packet", make(libc::AF_PACKET, libc::SOCK_RAW, 0x300)),
        ("old packet", make(libc::AF_INET, 10, 0x300)),
    ])
}

fn upper_half(_: &Facts) -> Outcome {
    let odd = |family: u64, kind: u64| call(libc::SYS_socket, &[family, kind, 0]).map(close);
    let high = 1_u64 << 32;
    all_refused([
        ("family", odd(high | libc::AF_VSOCK as u64, libc::SOCK_STREAM as u64)),
        ("family, all bits", odd(!0 << 32 | libc::AF_VSOCK as u64, libc::SOCK_STREAM as u64)),
        ("kind", odd(libc::AF_INET as u64, high | libc::SOCK_RAW as u64)),
        ("kind with flags", odd(libc::AF_INET as u64, (libc::SOCK_RAW | libc::SOCK_CLOEXEC) as u64)),
    ])
}

fn socket_pairs(_: &Facts) -> Outcome {
    let pair = |family: i32, kind: i32| {
        let mut made = [0_u8; 8];
        let place = super::raw::room(&mut made);
        call(libc::SYS_socketpair, &[family as u64, kind as u64, 0, place]).map(drop)
    };
    all_refused([
        ("tipc", pair(30, libc::SOCK_SEQPACKET)),
        ("tipc datagrams", pair(30, libc::SOCK_RDM)),
        ("vsock", pair(libc::AF_VSOCK, libc::SOCK_STREAM)),
        ("internet", pair(libc::AF_INET, libc::SOCK_STREAM)),
    ])
}

fn transports(_: &Facts) -> Outcome {
    all_refused([
        ("sctp", make(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP)),
        ("dccp", make(libc::AF_INET, 6, 33)),
        ("udp-lite", make(libc::AF_INET, libc::SOCK_DGRAM, 136)),
        ("multipath", make(libc::AF_INET, libc::SOCK_STREAM, 262)),
        ("l2tp", make(libc::AF_INET, libc::SOCK_DGRAM, 115)),
        ("sctp over ipv6", make(libc::AF_INET6, libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP)),
    ])
}

fn names(_: &Facts) -> Outcome {
    use std::net::ToSocketAddrs as _;
    refused(("exfiltrated-data.example.com", 80).to_socket_addrs(), "a name was resolved")
}

fn udp(_: &Facts) -> Outcome {
    let sent = ["203.0.113.1:53", "169.254.169.254:80", "255.255.255.255:9", "224.0.0.251:5353"]
        .map(|to| (to, send(b"x", to).map(drop)));
    all_refused(sent)
}

fn host_loopback(facts: &Facts) -> Outcome {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, facts.tcp_port));
    refused(TcpStream::connect_timeout(&address, PATIENCE), "the host's listener answers")
}

fn abstract_socket(facts: &Facts) -> Outcome {
    let reached = std::os::unix::net::SocketAddr::from_abstract_name(&facts.abstract_socket)
        .and_then(|address| UnixStream::connect_addr(&address));
    refused(reached, "the host's listener answers")
}

fn path_socket(facts: &Facts) -> Outcome {
    let own = facts.path_socket.to_string_lossy().into_owned();
    let known = [
        own.as_str(),
        "/run/dbus/system_bus_socket",
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run/systemd/private",
        "/run/systemd/notify",
        "/dev/log",
    ];
    all_refused(known.map(|path| (path, UnixStream::connect(path).map(drop))))
}

fn interface_setup(_: &Facts) -> Outcome {
    let Ok(socket) = socket(AddressFamily::INET, SocketType::DGRAM, None) else {
        return Outcome::NotTried("no socket could be made".to_owned());
    };
    // Setting what is set already changes nothing, and needs the same privilege.
    let up = sys::interface_up(&socket, c"lo");
    let tun = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").map(drop);
    all_refused([("flags of lo", up), ("a tunnel device", tun)])
}

fn packet_filters(_: &Facts) -> Outcome {
    // `SO_GET_REPLACE`-like options (IPT_SO_GET_INFO, 64) need the privilege over the network.
    let Ok(socket) = call(libc::SYS_socket, &[libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0]) else {
        return Outcome::NotTried("no socket could be made".to_owned());
    };
    let (mut info, length) = ([0_u8; 84], 84_u32.to_ne_bytes());
    info[..6].copy_from_slice(b"filter");
    let arguments =
        [socket.cast_unsigned(), libc::IPPROTO_IP as u64, 64, super::raw::room(&mut info), at(&length)];
    let asked = call(libc::SYS_getsockopt, &arguments).map(drop);
    close(socket);
    all_refused([("filter table", asked), ("netfilter", make(libc::AF_NETLINK, libc::SOCK_RAW, 12))])
}
