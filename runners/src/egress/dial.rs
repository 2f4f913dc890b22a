//! Connections outwards: names are resolved here, and what was checked is what is dialled.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::address::{self, Network};
use super::request::{self, HostPort, Refusal};

/// How long a connection outwards may take to stand.
pub const DIAL_TIME: Duration = Duration::from_secs(15);

/// A proxy that the operator's network requires, such as `proxy.example:3128`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamProxy {
    pub host: String,
    pub port: u16,
}

/// Connects to a host, through the operator's proxy where there is one.
pub async fn connect(
    target: &HostPort,
    trusted: &[Network],
    upstream: Option<&UpstreamProxy>,
) -> Result<TcpStream, Refusal> {
    match upstream {
        Some(proxy) => through(proxy, target).await,
        // The checked addresses themselves are dialled; the name is not asked again.
        None => connect_to(&resolve(target.host(), target.port(), trusted).await?).await,
    }
}

/// The addresses of a name that may be dialled; refused where there is none.
pub async fn resolve(host: &str, port: u16, trusted: &[Network]) -> Result<Vec<SocketAddr>, Refusal> {
    let resolved = timeout(DIAL_TIME, tokio::net::lookup_host((host, port))).await;
    let addresses: Vec<SocketAddr> = match resolved {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => return Err(unreachable(format!("its name cannot be resolved: {error}"))),
        Err(_) => return Err(unreachable("its name is not resolved in time".to_owned())),
    };
    let (may, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|found| address::may_dial(found.ip(), trusted));
    if may.is_empty() {
        let shown: Vec<_> = other.iter().map(|found| found.ip().to_string()).collect();
        return Err(Refusal {
            status: 403,
            phrase: "Egress-Address-Not-Allowed",
            why: format!(
                "resolves to {}, which is not public; a mirror's network must be listed in `trusted_networks`",
                shown.join(", ")
            ),
        });
    }
    Ok(may)
}

async fn connect_to(addresses: &[SocketAddr]) -> Result<TcpStream, Refusal> {
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
async fn through(proxy: &UpstreamProxy, target: &HostPort) -> Result<TcpStream, Refusal> {
    let found = tokio::net::lookup_host((proxy.host.as_str(), proxy.port)).await;
    let addresses: Vec<_> = found
        .map_err(|error| unreachable(format!("the operator's proxy cannot be resolved: {error}")))?
        .collect();
    let mut stream = connect_to(&addresses).await?;
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

/// What cannot be reached, with the reason.
pub fn unreachable(why: String) -> Refusal {
    Refusal { status: 502, phrase: "Egress-Unreachable", why }
}
