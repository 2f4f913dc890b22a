//! The model route from within a real container: the answer comes, the key does not.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use common::{fresh, fresh_with, sandbox};
use jobs::job::Limits;
use runners::egress::{ModelBounds, ModelCall, ModelKey, ModelRoute, ModelWindow};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const KEY: &str = "sk-canary-7d1f0c";

/// Asks the model as an agent would, and prints status and body.
const ASK: &str = r#"
import http.client
at = http.client.HTTPConnection('127.0.0.1', 3128, timeout=10)
at.request('POST', '/model/provider/v1/messages', b'{}', {'content-type': 'application/json'})
answer = at.getresponse()
print(answer.status, answer.reason, answer.read().decode())
"#;

/// Looks for the key in everything that a process inside can read: environments, arguments and descriptors
/// of every process, and every file outside of the system's programs.
const SEARCH: &str = r#"
import os
key = b'sk-canary-' + b'7d1f0c'
found, looked = [], 0
def look(path):
    global looked
    try:
        with open(path, 'rb') as file:
            looked += 1
            if key in file.read(1 << 20):
                found.append(path)
    except OSError:
        pass
for process in filter(str.isdigit, os.listdir('/proc')):
    for name in ('environ', 'cmdline', 'maps', 'comm'):
        look(f'/proc/{process}/{name}')
    try:
        for number in os.listdir(f'/proc/{process}/fd'):
            target = os.readlink(f'/proc/{process}/fd/{number}')
            if target.startswith('/') and not target.startswith('/proc'):
                look(target)
    except OSError:
        pass
for top in ('/workspace', '/home', '/run', '/tmp', '/etc', '/opt', '/root', '/var/tmp'):
    for folder, _, names in os.walk(top):
        for name in names:
            look(os.path.join(folder, name))
print(looked > 5, found)
"#;

/// A provider that answers one call only where the key is shown.
async fn provider(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.windows(6).any(|bytes| bytes == b"\r\n\r\n{}") {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0);
        request.extend_from_slice(&buffer[..count]);
    }
    let shown = String::from_utf8(request).unwrap().contains(&format!("authorization: Bearer {KEY}\r\n"));
    let body = if shown { r#"{"usage":{"output_tokens":3}}"# } else { "no key" };
    let answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_agent_asks_the_model_and_no_process_or_file_of_its_container_holds_the_key() {
    let Some(sandbox) = sandbox() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port()).parse().unwrap();
    let provider = tokio::spawn(provider(listener));
    let folder = tempfile::tempdir().unwrap();
    let route = ModelRoute {
        name: "provider".to_owned(),
        upstream,
        key: Some(ModelKey {
            header: "authorization".to_owned(),
            prefix: "Bearer ".to_owned(),
            secret: KEY.to_owned().into(),
        }),
        calls: vec![ModelCall::post("/v1/messages")],
        headers: Vec::new(),
    };
    assert_eq!(route.base_url(), "http://127.0.0.1:3128/model/provider");
    let bounds = ModelBounds::of(&Limits::default());
    let window = ModelWindow::open(&folder.path().join("model"), vec![route], bounds, None).await.unwrap();

    let mut agents = fresh_with(&sandbox, |spec| spec.egress = Some(window.folder().to_owned())).await;
    assert_eq!(agents.python(ASK).await, r#"200 OK {"usage":{"output_tokens":3}}"#);
    provider.await.unwrap();
    assert_eq!(agents.python(SEARCH).await, "True []");

    // Every other container, Verify's among them, is made without the window's folder.
    let mut other = fresh(&sandbox).await;
    let refused = "import socket\ntry:\n  socket.create_connection(('127.0.0.1', 3128), 5)\nexcept OSError as error:\n  print(error)";
    assert_eq!(other.python(refused).await, "[Errno 111] Connection refused");

    let (lines, used) = window.close().await;
    assert_eq!((lines.len(), used.calls, used.tokens), (1, 1, 3));
    assert!(agents.python(ASK).await.starts_with("503 Egress-Sealed"));
}
