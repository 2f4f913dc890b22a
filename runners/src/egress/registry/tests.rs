//! Registry routes through the window's socket, against registries on loopback.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};

use super::*;
use crate::egress::{EgressBounds, EgressWindow, SOCKET, refusals};

/// A registry whose answers are made from the request.
struct Upstream {
    host: HostPort,
    asked: Arc<AtomicUsize>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

type Said = Response<Full<Bytes>>;

async fn upstream(answer: impl Fn(&Request<Incoming>) -> Said + Clone + Send + 'static) -> Upstream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("localhost:{}", listener.local_addr().unwrap().port()).parse().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (answer, count) = (answer.clone(), Arc::clone(&count));
            let serve = service_fn(move |request| {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = answer(&request);
                async move { Ok::<_, std::convert::Infallible>(answer) }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), serve),
            );
        }
    });
    Upstream { host, asked, serving }
}

fn said(headers: &[(&'static str, &str)], body: impl Into<Bytes>) -> Said {
    let mut response = Response::new(Full::new(body.into()));
    for (name, value) in headers {
        response.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
    }
    response
}

struct World {
    folder: tempfile::TempDir,
    window: EgressWindow,
}

async fn window(folder: &Path, hosts: &[&HostPort], change: impl FnOnce(&mut EgressPolicy)) -> EgressWindow {
    let mut policy = EgressPolicy {
        registries: hosts.iter().map(|&host| RegistryRoute::plain(host.clone())).collect(),
        cache: Some(folder.join("cache")),
        trusted_networks: ["127.0.0.0/8", "::1"].map(|network| network.parse().unwrap()).to_vec(),
        ..EgressPolicy::of(EgressBounds::of(&jobs::job::Limits::default()))
    };
    change(&mut policy);
    EgressWindow::open(&folder.join("window"), policy).await.unwrap()
}

async fn world(hosts: &[&HostPort], change: impl FnOnce(&mut EgressPolicy)) -> World {
    let folder = tempfile::tempdir().unwrap();
    let window = window(folder.path(), hosts, change).await;
    World { folder, window }
}

async fn send(window: &EgressWindow, bytes: &str) -> String {
    let mut client = UnixStream::connect(window.folder().join(SOCKET)).await.unwrap();
    client.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn ask(window: &EgressWindow, method: &str, target: &str) -> String {
    send(window, &format!("{method} {target} HTTP/1.1\r\nhost: 127.0.0.1:3128\r\nconnection: close\r\n\r\n"))
        .await
}

fn path(host: &HostPort, rest: &str) -> String {
    format!("/registry/{host}{rest}")
}

fn status(answer: &str) -> &str {
    answer.lines().next().unwrap_or_default()
}

#[tokio::test]
async fn a_file_is_fetched_with_nothing_of_the_client_but_its_path_and_kinds() {
    let registry = upstream(|request| {
        let mut names: Vec<String> = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        names.retain(|name| !name.starts_with("host=") && !name.starts_with("user-agent=whipstitch/"));
        said(&[], format!("{} {} {}", request.method(), request.uri(), names.join(" ")))
    })
    .await;
    let world = world(&[&registry.host], |_| {}).await;
    let target = path(&registry.host, "/a/%40s%2fx-1.tgz?q=1");
    let answer = send(&world.window, &format!(
        "GET {target} HTTP/1.1\r\nhost: x\r\naccept: a/b\r\nauthorization: Basic c2VjcmV0\r\ncookie: a=b\r\nx-data: secret\r\nconnection: close\r\n\r\n"
    )).await;
    assert_eq!(status(&answer), "HTTP/1.1 200 OK");
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(body, "GET /a/%40s%2fx-1.tgz?q=1 accept=a/b");
    let sealed = world.window.seal().await;
    let line = &sealed.lines()[0];
    assert_eq!(line.path.as_deref(), Some("/a/%40s%2fx-1.tgz"));
    assert_eq!((line.digest, line.bytes_down), (Some(jobs::digest::Digest::of(body)), body.len() as u64));
    assert_eq!((line.refused.as_deref(), line.cached), (None, false));
}

#[tokio::test]
async fn a_registry_is_only_read_from_and_only_a_listed_one() {
    let registry = upstream(|_| said(&[], "")).await;
    let world = world(&[&registry.host], |_| {}).await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = ask(&world.window, method, &path(&registry.host, "/x")).await;
        assert_eq!(status(&answer), "HTTP/1.1 405 Egress-Read-Only", "{method}");
    }
    for (target, refused) in [
        ("/registry/evil.example/x".to_owned(), "403 Egress-Host-Not-Allowed"),
        ("/registry/".to_owned(), "403 Egress-Host-Not-Allowed"),
        ("/model/x/v1".to_owned(), "404 Egress-No-Such-Route"),
        ("/".to_owned(), "404 Egress-No-Such-Route"),
        (path(&registry.host, &format!("/{}", "a".repeat(3000))), "414 Egress-Path-Too-Long"),
    ] {
        let answer = ask(&world.window, "GET", &target).await;
        assert_eq!(status(&answer), format!("HTTP/1.1 {refused}"), "{target:.60}");
    }
    assert_eq!(registry.asked.load(Ordering::SeqCst), 0);
    let sealed = world.window.seal().await;
    assert!(
        refusals(sealed.lines())[0].starts_with(&format!("egress refused {}/x to", registry.host)),
        "{:?}",
        refusals(sealed.lines())
    );
}

#[tokio::test]
async fn addresses_of_hosts_with_a_route_are_changed_in_listings_alone() {
    let files = upstream(|_| said(&[], "file")).await;
    let named = format!("http://{}/", files.host);
    let page = move |request: &Request<Incoming>| {
        let kind = if request.uri().path() == "/page" {
            "application/vnd.pypi.simple.v1+json"
        } else {
            "application/octet-stream"
        };
        said(&[("content-type", kind)], format!("{{\"url\":\"{named}x.whl\"}}"))
    };
    let registry = upstream(page).await;
    let world = world(&[&registry.host, &files.host], |_| {}).await;
    let changed = ask(&world.window, "GET", &path(&registry.host, "/page")).await;
    assert!(
        changed.ends_with(&format!("{{\"url\":\"http://127.0.0.1:3128/registry/{}/x.whl\"}}", files.host)),
        "{changed}"
    );
    let same = ask(&world.window, "GET", &path(&registry.host, "/bytes")).await;
    assert!(same.ends_with(&format!("{{\"url\":\"http://{}/x.whl\"}}", files.host)), "{same}");
}

#[tokio::test]
async fn what_is_immutable_is_not_asked_for_again_and_what_has_a_tag_is_asked_whether_it_changed() {
    let registry = upstream(|request| match request.uri().path() {
        "/immutable" => said(&[("cache-control", "public, immutable, max-age=1")], "forever"),
        "/tagged" if request.headers().get("if-none-match").is_some_and(|tag| tag == "\"1\"") => {
            let mut response = said(&[], "");
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        "/tagged" => said(&[("etag", "\"1\"")], "for now"),
        _ => said(&[], "untagged"),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    for (round, asked) in [(0, 3), (1, 2)] {
        let before = registry.asked.load(Ordering::SeqCst);
        let window = window(folder.path(), &[&registry.host], |_| {}).await;
        for (rest, body) in [("/immutable", "forever"), ("/tagged", "for now"), ("/other", "untagged")] {
            let answer = ask(&window, "GET", &path(&registry.host, rest)).await;
            assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
        }
        let sealed = window.seal().await;
        let cached: Vec<bool> = sealed.lines().iter().map(|line| line.cached).collect();
        assert_eq!(cached, [round > 0, round > 0, false]);
        assert!(sealed.lines().iter().all(|line| line.digest.is_some()));
        assert_eq!(registry.asked.load(Ordering::SeqCst) - before, asked);
    }
}

#[tokio::test]
async fn bytes_that_changed_in_the_cache_are_cut_and_forgotten() {
    let registry = upstream(|_| said(&[("cache-control", "immutable")], "content")).await;
    let world = world(&[&registry.host], |_| {}).await;
    ask(&world.window, "GET", &path(&registry.host, "/x")).await;
    let bytes = world.folder.path().join("cache/bytes").join(jobs::digest::Digest::of("content").to_string());
    std::fs::write(&bytes, "cOntent").unwrap();
    ask(&world.window, "GET", &path(&registry.host, "/x")).await;
    assert!(world.window.lines()[1].refused.as_deref().unwrap().contains("other bytes"));
    let again = ask(&world.window, "GET", &path(&registry.host, "/x")).await;
    assert!(again.ends_with("content"), "{again}");
    assert_eq!(registry.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_redirect_is_followed_to_a_host_with_a_route_and_to_no_other() {
    let files = upstream(|_| said(&[], "file")).await;
    let (to, elsewhere) = (format!("http://{}/file", files.host), "http://evil.example/file");
    let registry = upstream(move |request| {
        let to = if request.uri().path() == "/good" { to.as_str() } else { elsewhere };
        let mut response = said(&[("location", to)], "");
        *response.status_mut() = StatusCode::FOUND;
        response
    })
    .await;
    let world = world(&[&registry.host, &files.host], |_| {}).await;
    let good = ask(&world.window, "GET", &path(&registry.host, "/good")).await;
    assert!(good.ends_with("file"), "{good}");
    let bad = ask(&world.window, "GET", &path(&registry.host, "/bad")).await;
    assert_eq!(status(&bad), "HTTP/1.1 403 Egress-Host-Not-Allowed");
    assert!(bad.contains("redirects to evil.example"), "{bad}");
}

#[tokio::test]
async fn a_registry_at_an_address_that_is_not_public_is_refused_unless_trusted() {
    let registry = upstream(|_| said(&[], "")).await;
    let world = world(&[&registry.host], |policy| policy.trusted_networks.clear()).await;
    let answer = ask(&world.window, "GET", &path(&registry.host, "/x")).await;
    assert_eq!(status(&answer), "HTTP/1.1 403 Egress-Address-Not-Allowed");
    assert_eq!(registry.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_budgets_hold_for_routes_too() {
    let registry = upstream(|_| said(&[], "0123456789")).await;
    let world = world(&[&registry.host], |policy| {
        (policy.bounds.bytes_down, policy.bounds.bytes_up) = (15, 10);
    })
    .await;
    assert!(ask(&world.window, "GET", &path(&registry.host, "/x")).await.ends_with("0123456789"));
    ask(&world.window, "GET", &path(&registry.host, "/x")).await;
    assert!(world.window.lines()[1].refused.as_deref().unwrap().contains("download budget"));
    let spent = ask(&world.window, "GET", &path(&registry.host, "/x")).await;
    assert_eq!(status(&spent), "HTTP/1.1 403 Egress-Budget-Spent");
}

#[tokio::test]
async fn several_requests_pass_over_one_connection() {
    let registry = upstream(|request| said(&[], request.uri().path().to_owned())).await;
    let world = world(&[&registry.host], |_| {}).await;
    let one = format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", path(&registry.host, "/one"));
    let two =
        format!("GET {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", path(&registry.host, "/two"));
    let answer = send(&world.window, &format!("{one}{two}")).await;
    assert!(answer.contains("/one") && answer.ends_with("/two"), "{answer}");
}

#[tokio::test]
async fn a_head_has_no_body_and_is_not_held() {
    let registry = upstream(|_| said(&[("cache-control", "immutable")], "content")).await;
    let world = world(&[&registry.host], |_| {}).await;
    let answer = ask(&world.window, "HEAD", &path(&registry.host, "/x")).await;
    assert_eq!(status(&answer), "HTTP/1.1 200 OK");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    assert!(ask(&world.window, "GET", &path(&registry.host, "/x")).await.ends_with("content"));
}
