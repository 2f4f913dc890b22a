//! The window through its socket, against a server on loopback.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};

use super::*;

struct World {
    _folder: tempfile::TempDir,
    window: EgressWindow,
    server: TcpListener,
    port: u16,
}

async fn world(trusted: &[&str], change: impl FnOnce(&mut EgressPolicy)) -> World {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let mut policy = EgressPolicy {
        allowed: [format!("localhost:{port}").parse().unwrap()].into(),
        trusted_networks: trusted.iter().map(|network| network.parse().unwrap()).collect(),
        ..EgressPolicy::of(EgressBounds::of(&jobs::job::Limits::default()))
    };
    change(&mut policy);
    let window = EgressWindow::open(&folder.path().join("egress"), policy).await.unwrap();
    window.asked_by("a test");
    World { _folder: folder, window, server, port }
}

impl World {
    async fn client(&self) -> UnixStream {
        UnixStream::connect(self.window.folder().join(SOCKET)).await.unwrap()
    }

    /// Sends a CONNECT and returns the status line.
    async fn ask(&self, target: &str) -> (UnixStream, String) {
        let mut client = self.client().await;
        client.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        let status = String::from_utf8(head).unwrap().lines().next().unwrap().to_owned();
        (client, status)
    }

    async fn refusal(self) -> String {
        let sealed = self.window.seal().await;
        sealed.lines().last().unwrap().refused.clone().unwrap()
    }
}

#[tokio::test]
async fn a_listed_host_is_reached_and_every_byte_is_counted() {
    let world = world(&["127.0.0.0/8", "::1"], |_| {}).await;
    let (mut client, status) = world.ask(&format!("localhost:{}", world.port)).await;
    assert_eq!(status, "HTTP/1.1 200 Connection established");
    let hello = hello::sample("localhost");
    client.write_all(&hello).await.unwrap();
    let (mut served, _) = world.server.accept().await.unwrap();
    let mut got = vec![0; hello.len()];
    served.read_exact(&mut got).await.unwrap();
    assert_eq!(got, hello);
    served.write_all(b"answer").await.unwrap();
    drop(served);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
    drop(client);
    let sealed = world.window.seal().await;
    let line = &sealed.lines()[0];
    assert_eq!(
        (line.host.as_str(), line.refused.as_deref(), line.asked_by.as_str()),
        ("localhost", None, "a test")
    );
    assert_eq!((line.bytes_up, line.bytes_down), (hello.len() as u64, 6));
}

#[tokio::test]
async fn an_unlisted_host_and_an_unlisted_port_are_refused_by_name() {
    for target in ["evil.example:443", "localhost:1"] {
        let world = world(&["127.0.0.0/8"], |_| {}).await;
        let (_client, status) = world.ask(target).await;
        assert_eq!(status, "HTTP/1.1 403 Egress-Host-Not-Allowed");
        let sealed = world.window.seal().await;
        assert_eq!(refusals(sealed.lines()).len(), 1);
        assert!(refusals(sealed.lines())[0].starts_with(&format!("egress refused {target} to `a test`")));
    }
}

#[tokio::test]
async fn a_listed_host_at_a_private_address_is_refused_unless_trusted() {
    let world = world(&[], |_| {}).await;
    let (_client, status) = world.ask(&format!("localhost:{}", world.port)).await;
    assert_eq!(status, "HTTP/1.1 403 Egress-Address-Not-Allowed");
    assert!(world.refusal().await.contains("trusted_networks"));
}

#[tokio::test]
async fn a_tunnel_must_be_tls_for_the_host_that_was_asked_for() {
    for (first, why) in [
        (hello::sample("other.example"), "the TLS server name is another than the target"),
        (b"SSH-2.0-client\r\n".to_vec(), "what was sent is not TLS"),
        (hello::sample("localhost")[..40].to_vec(), "closed before a ClientHello"),
    ] {
        let world = world(&["127.0.0.0/8", "::1"], |_| {}).await;
        let (mut client, _) = world.ask(&format!("localhost:{}", world.port)).await;
        client.write_all(&first).await.unwrap();
        client.shutdown().await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty());
        assert_eq!(world.refusal().await, why);
    }
}

#[tokio::test]
async fn an_upload_beyond_the_cap_is_cut() {
    let world = world(&["127.0.0.0/8", "::1"], |policy| policy.bounds.tunnel_up = 1000).await;
    let (mut client, _) = world.ask(&format!("localhost:{}", world.port)).await;
    client.write_all(&hello::sample("localhost")).await.unwrap();
    let (_served, _) = world.server.accept().await.unwrap();
    client.write_all(&[1; 2000]).await.unwrap();
    let mut rest = Vec::new();
    // The cut may arrive as an end or as a reset.
    let _ = client.read_to_end(&mut rest).await;
    assert!(world.refusal().await.contains("more was sent out"));
}

#[tokio::test]
async fn a_download_beyond_the_budget_is_cut() {
    let world = world(&["127.0.0.0/8", "::1"], |policy| policy.bounds.bytes_down = 1000).await;
    let (mut client, _) = world.ask(&format!("localhost:{}", world.port)).await;
    client.write_all(&hello::sample("localhost")).await.unwrap();
    let (mut served, _) = world.server.accept().await.unwrap();
    let _ = served.write_all(&[1; 5000]).await;
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest).await;
    assert!(rest.len() <= 1000);
    assert!(world.refusal().await.contains("download budget"));
}

#[tokio::test]
async fn sealing_cuts_a_live_tunnel_and_nothing_listens_afterwards() {
    let world = world(&["127.0.0.0/8", "::1"], |_| {}).await;
    let (mut client, _) = world.ask(&format!("localhost:{}", world.port)).await;
    client.write_all(&hello::sample("localhost")).await.unwrap();
    let (_served, _) = world.server.accept().await.unwrap();
    let path = world.window.folder().join(SOCKET);
    let sealed = world.window.seal().await;
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    assert_eq!(sealed.lines().len(), 1);
    assert!(UnixStream::connect(&path).await.is_err());
}

#[tokio::test]
async fn the_window_closes_by_itself_when_its_time_is_over() {
    let world = world(&["127.0.0.0/8"], |policy| policy.bounds.window = Duration::ZERO).await;
    let mut client = world.client().await;
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn an_endless_head_and_bytes_after_the_head_are_refused() {
    let world = world(&["127.0.0.0/8"], |_| {}).await;
    for (bytes, status) in [
        (vec![b'a'; request::MAX_HEAD + 2000], "HTTP/1.1 431"),
        (b"CONNECT localhost:1 HTTP/1.1\r\n\r\nmore".to_vec(), "HTTP/1.1 400"),
    ] {
        let mut client = world.client().await;
        let _ = client.write_all(&bytes).await;
        let mut answer = vec![0; status.len()];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), status);
    }
}
