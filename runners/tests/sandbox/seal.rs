//! The way out while it is open, and the proof that it is closed.

use std::path::Path;
use std::time::Duration;

use runners::egress::{EgressBounds, EgressPolicy, EgressWindow, Sealed};
use runners::sandbox::{Cause, SandboxError};

use super::container::{Fixture, fixture, python};

/// Asks the proxy for a host and prints the first line of its answer.
const ASK: &str = r#"
proxy = socket.create_connection(('127.0.0.1', 3128), 5)
proxy.sendall(b'CONNECT not-admitted.example:443 HTTP/1.1\r\nHost: not-admitted.example:443\r\n\r\n')
print(proxy.recv(200).decode().splitlines()[0])
"#;

async fn window(folder: &Path) -> EgressWindow {
    let bounds = EgressBounds {
        window: Duration::from_secs(60),
        bytes_down: 1 << 20,
        bytes_up: 1 << 20,
        tunnel_up: 1 << 16,
        tunnels: 8,
    };
    let allowed = ["registry.example:443".parse().unwrap()].into();
    let policy = EgressPolicy { allowed, ..EgressPolicy::of(bounds) };
    EgressWindow::open(folder, policy).await.unwrap()
}

async fn fixture_with_window() -> Option<(Fixture, EgressWindow)> {
    let mut fixture = fixture()?;
    let folder = fixture.folder.path().join("egress");
    fixture.spec.egress = Some(folder.clone());
    Some((fixture, window(&folder).await))
}

#[tokio::test]
async fn the_forwarder_reaches_the_window_and_says_when_it_is_sealed() {
    let Some((fixture, window)) = fixture_with_window().await else { return };
    let mut container = fixture.container().await;
    let exit = container.exec(python(ASK)).await.unwrap();
    let answer = String::from_utf8_lossy(&exit.stdout);
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer} {}", String::from_utf8_lossy(&exit.stderr));
    assert_eq!(window.lines().len(), 1);

    let sealed = window.seal().await;
    let exit = container.exec(python(ASK)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&exit.stdout), "HTTP/1.1 503 Egress-Sealed\n");

    let report = container.seal(&sealed).await.unwrap();
    let proxy = report.tests.iter().find(|test| test.name == "proxy").unwrap();
    assert!(proxy.evidence.contains("503 Egress-Sealed"), "{}", proxy.evidence);
    let exit = container.exec(python("print(os.path.exists('/run/egress'))")).await.unwrap();
    assert_eq!(exit.stdout, b"False\n");
}

#[tokio::test]
async fn a_window_that_is_still_open_is_no_seal() {
    let Some((fixture, window)) = fixture_with_window().await else { return };
    let mut container = fixture.container().await;
    let error = container.seal(&Sealed::never_opened()).await.unwrap_err();
    let SandboxError::NotSealed(why) = error else { panic!("{error}") };
    assert!(why.starts_with("proxy"), "{why}");
    window.seal().await;
}

#[tokio::test]
async fn the_report_tells_what_was_dialled_and_what_the_kernel_answered() {
    let Some(fixture) = fixture() else { return };
    let report = fixture.container().await.seal(&Sealed::never_opened()).await.unwrap();
    assert!(report.sealed());
    let network = report.tests.iter().take(9);
    let said: Vec<_> = network.map(|test| format!("{}: {}", test.name, test.evidence)).collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    interfaces: up: lo
    ipv4: 1.1.1.1:443: Network is unreachable; 8.8.8.8:53: Network is unreachable; 169.254.169.254:80: Network is unreachable; 10.0.0.1:80: Network is unreachable; 192.168.0.1:80: Network is unreachable; 203.0.113.1:443: Network is unreachable
    ipv6: [2606:4700:4700::1111]:443: Network is unreachable; [2001:4860:4860::8888]:53: Network is unreachable; [fd00:ec2::254]:80: Network is unreachable
    dns: 1.1.1.1:53: Network is unreachable; 169.254.169.253:53: Network is unreachable
    proxy: socket: No such file or directory; forwarder: Connection refused
    vsock: Operation not permitted
    socket-families: Operation not permitted
    netlink: Operation not permitted
    raw-sockets: Operation not permitted
    ");
}

#[tokio::test]
async fn no_descriptor_of_the_maker_is_inside() {
    let Some((fixture, window)) = fixture_with_window().await else { return };
    let program = r#"
for number in range(256):
    try:
        print(number, os.readlink(f'/proc/self/fd/{number}').split(':')[0])
    except FileNotFoundError:
        pass
"#;
    let exit = fixture.exec(python(program)).await;
    assert_eq!(exit.cause, Cause::Exited(0));
    assert_eq!(String::from_utf8_lossy(&exit.stdout), "0 /dev/null\n1 pipe\n2 pipe\n");
    window.seal().await;
}
