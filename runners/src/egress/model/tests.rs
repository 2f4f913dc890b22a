//! The model route through its socket, against a provider on loopback.

use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::mpsc;

use super::*;

const KEY: &str = "sk-canary-of-the-key";

/// What the provider got.
#[derive(Debug)]
struct Got {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

struct World {
    _folder: tempfile::TempDir,
    window: ModelWindow,
    got: mpsc::UnboundedReceiver<Got>,
    provider: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.provider.abort();
    }
}

type Said = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;

fn said(text: &str) -> Response<Said> {
    Response::new(Full::new(Bytes::from(text.to_owned())).boxed())
}

/// A provider that answers by the path.
fn answer(path: &str) -> Response<Said> {
    match path {
        "/base/v1/moved" => {
            let mut response = said("");
            *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
            response.headers_mut().insert("location", HeaderValue::from_static("http://evil.example/"));
            response
        }
        "/base/v1/silent" => said("no usage here at all"),
        "/base/v1/stream" => {
            let events =
                ["data: {\"usage\":{\"input_tokens\":40,\"output_to", "kens\":2}}\n\n", "data: [DONE]\n\n"];
            let frames = events.map(|event| Ok(Frame::data(Bytes::from(event))));
            let mut response = Response::new(StreamBody::new(futures_util::stream::iter(frames)).boxed());
            response.headers_mut().insert("content-type", HeaderValue::from_static("text/event-stream"));
            response.headers_mut().insert("set-cookie", HeaderValue::from_static("a=b"));
            response
        }
        _ => said(r#"{"usage":{"input_tokens":60,"output_tokens":40}}"#),
    }
}

async fn world(change: impl FnOnce(&mut ModelRoute, &mut ModelBounds)) -> World {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, got) = mpsc::unbounded_channel();
    let provider = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let tell = tell.clone();
            let serve = service_fn(move |request: http::Request<Incoming>| {
                let tell = tell.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let shown = |(name, value): (&HeaderName, &HeaderValue)| {
                        (name.to_string(), value.to_str().unwrap().to_owned())
                    };
                    let _ = tell.send(Got {
                        line: format!("{} {}", head.method, head.uri),
                        headers: head.headers.iter().map(shown).collect(),
                        body: String::from_utf8(body.to_vec()).unwrap(),
                    });
                    Ok::<_, std::convert::Infallible>(answer(head.uri.path()))
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), serve),
            );
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let mut route = ModelRoute {
        name: "provider".to_owned(),
        upstream: format!("http://127.0.0.1:{port}/base").parse().unwrap(),
        key: Some(ModelKey {
            header: "x-api-key".to_owned(),
            prefix: String::new(),
            secret: KEY.to_owned().into(),
        }),
        calls: ["/v1/messages", "/v1/stream", "/v1/moved", "/v1/silent"].map(ModelCall::post).to_vec(),
        headers: vec!["provider-version".to_owned()],
    };
    let mut bounds = ModelBounds::of(&jobs::job::Limits::default());
    change(&mut route, &mut bounds);
    let window = ModelWindow::open(&folder.path().join("model"), vec![route], bounds, None).await.unwrap();
    window.asked_by("an agent");
    World { _folder: folder, window, got, provider }
}

impl World {
    /// Sends bytes as a client within a container would, and reads to the end.
    async fn send(&self, bytes: &str) -> String {
        let mut client = UnixStream::connect(self.window.folder().join(SOCKET)).await.unwrap();
        client.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn post(&self, path: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1:3128\r\ncontent-length: {length}\r\n{headers}");
        self.send(&format!("{head}connection: close\r\n\r\n{body}")).await
    }
}

fn status(answer: &str) -> &str {
    answer.lines().next().unwrap_or_default()
}

#[tokio::test]
async fn a_listed_call_is_built_anew_with_the_key_and_the_listed_headers_alone() {
    let mut world = world(|_, _| {}).await;
    let headers = "content-type: application/json\r\nprovider-version: 7\r\nx-api-key: own\r\nauthorization: Bearer own\r\n\
        cookie: a=b\r\nx-forwarded-for: 1.2.3.4\r\naccept-encoding: gzip\r\n";
    let answer = world.post("/model/provider/v1/messages?beta=true", headers, "{}").await;
    assert_eq!(status(&answer), "HTTP/1.1 200 OK");
    assert!(!answer.contains(KEY), "{answer}");
    let got = world.got.recv().await.unwrap();
    assert_eq!((got.line.as_str(), got.body.as_str()), ("POST /base/v1/messages?beta=true", "{}"));
    let mut names: Vec<&str> = got.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["accept", "content-length", "content-type", "host", "provider-version", "user-agent", "x-api-key"]
    );
    assert!(got.headers.iter().any(|(name, value)| name == "x-api-key" && value == KEY), "{got:?}");
    let (lines, used) = std::mem::replace(&mut world.window, closed().await).close().await;
    assert_eq!((used.calls, used.tokens, used.estimated_tokens), (1, 100, 0));
    let line = &lines[0];
    assert_eq!((line.host.as_str(), line.path.as_deref()), ("127.0.0.1", Some("/v1/messages")));
    assert_eq!((line.bytes_up, line.asked_by.as_str()), (2, "an agent"));
    let body = r#"{"usage":{"input_tokens":60,"output_tokens":40}}"#;
    assert_eq!(line.digest, Some(jobs::digest::Digest::of(body)));
}

/// A window that stands for nothing, to take another out of its world.
async fn closed() -> ModelWindow {
    let folder = tempfile::tempdir().unwrap();
    let bounds = ModelBounds::of(&jobs::job::Limits::default());
    ModelWindow::open(&folder.path().join("none"), Vec::new(), bounds, None).await.unwrap()
}

#[tokio::test]
async fn an_answer_is_streamed_and_its_cookies_stay_outside() {
    let world = world(|_, _| {}).await;
    let answer = world.post("/model/provider/v1/stream", "", "{}").await;
    assert!(answer.contains("content-type: text/event-stream") && answer.contains("[DONE]"), "{answer}");
    assert!(!answer.contains("set-cookie"), "{answer}");
    assert_eq!(world.window.used().tokens, 42);
}

#[tokio::test]
async fn what_is_not_listed_is_refused_and_reaches_nobody() {
    let mut world = world(|_, _| {}).await;
    for path in [
        "/model/provider/v1/files",
        "/model/provider/v1/messages/",
        "/model/provider/v1/../v1/messages",
        "/model/provider/v1/%6dessages",
        "/model/provider//v1/messages",
        "/model/other/v1/messages",
        "/registry/provider/v1/messages",
        "/",
    ] {
        let answer = world.post(path, "", "").await;
        let refused = ["HTTP/1.1 403 Egress-Call-Not-Allowed", "HTTP/1.1 404 Egress-No-Such-Route"];
        assert!(refused.contains(&status(&answer)), "{path}: {answer}");
    }
    let get =
        world.send("GET /model/provider/v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert_eq!(status(&get), "HTTP/1.1 403 Egress-Call-Not-Allowed");
    for other in [
        "CONNECT provider.example:443 HTTP/1.1\r\n\r\n",
        "POST http://127.0.0.1/model/provider/v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    ] {
        assert_eq!(status(&world.send(other).await), "HTTP/1.1 403 Egress-Host-Not-Allowed", "{other}");
    }
    assert!(world.got.try_recv().is_err(), "nothing was sent");
    assert!(world.window.lines().iter().all(|line| line.refused.is_some()));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let world = world(|_, _| {}).await;
    let answer = world.post("/model/provider/v1/moved", "", "").await;
    assert_eq!(status(&answer), "HTTP/1.1 502 Egress-Unreachable");
    assert!(!answer.contains("evil.example"), "{answer}");
}

#[tokio::test]
async fn a_spent_budget_of_tokens_calls_or_bytes_lets_no_further_call_out() {
    type Change = fn(&mut ModelBounds);
    let changes: [(Change, &str); 4] = [
        (|bounds| bounds.tokens = 100, "tokens"),
        (|bounds| bounds.calls = 1, "calls"),
        (|bounds| bounds.bytes_up = 3, "bytes"),
        (|bounds| bounds.bytes_down = 48, "bytes"),
    ];
    for (change, spent) in changes {
        let mut world = world(|_, bounds| change(bounds)).await;
        let first = world.post("/model/provider/v1/messages", "", "{}").await;
        assert_eq!(status(&first), "HTTP/1.1 200 OK", "{spent}");
        let second = world.post("/model/provider/v1/messages", "", "{}").await;
        assert_eq!(status(&second), "HTTP/1.1 403 Egress-Budget-Spent");
        assert!(second.contains(&format!("budget of {spent} is spent")), "{second}");
        world.got.recv().await.unwrap();
        assert!(world.got.try_recv().is_err(), "{spent}");
    }
}

#[tokio::test]
async fn an_answer_beyond_the_bytes_is_cut_and_a_body_beyond_them_is_not_sent() {
    let world = world(|_, bounds| (bounds.bytes_down, bounds.call_bytes) = (20, 10)).await;
    let answer = world.post("/model/provider/v1/messages", "", "{}").await;
    assert!(!answer.contains("output_tokens"), "{answer}");
    assert!(world.window.lines()[0].refused.as_deref().unwrap().contains("budget of bytes"));
    let large = world.post("/model/provider/v1/messages", "", "01234567890").await;
    assert_eq!(status(&large), "HTTP/1.1 413 Egress-Too-Large");
}

#[tokio::test]
async fn tokens_that_nobody_tells_are_estimated_from_the_bytes() {
    let world = world(|_, _| {}).await;
    world.post("/model/provider/v1/silent", "", "01234567890123456789").await;
    let used = world.window.used();
    assert_eq!((used.tokens, used.estimated_tokens), (10, 10));
}

#[tokio::test]
async fn a_closed_window_answers_nobody() {
    let mut world = world(|_, _| {}).await;
    let path = world.window.folder().join(SOCKET);
    std::mem::replace(&mut world.window, closed().await).close().await;
    assert!(UnixStream::connect(&path).await.is_err());
}

#[test]
fn a_route_that_could_lead_elsewhere_is_refused_before_it_is_opened() {
    let route = |change: fn(&mut ModelRoute)| {
        let mut route = ModelRoute {
            name: "provider".to_owned(),
            upstream: "https://models.example/v1".parse().unwrap(),
            key: None,
            calls: vec![ModelCall::get("/models")],
            headers: Vec::new(),
        };
        change(&mut route);
        route.check()
    };
    assert!(route(|_| {}).is_ok());
    assert!(route(|route| route.upstream = "http://localhost:8000".parse().unwrap()).is_ok());
    let wrong: [fn(&mut ModelRoute); 9] = [
        |route| route.name = "a/b".to_owned(),
        |route| route.upstream = "http://models.example".parse().unwrap(),
        |route| route.upstream = "https://user:x@models.example".parse().unwrap(),
        |route| route.upstream = "https://models.example/?key=x".parse().unwrap(),
        |route| route.calls.clear(),
        |route| route.calls.push(ModelCall::post("/v1/../files")),
        |route| route.headers.push("Authorization".to_owned()),
        |route| route.headers.push("not a name".to_owned()),
        |route| {
            let secret = "line\nbreak".to_owned().into();
            route.key = Some(ModelKey { header: "x".to_owned(), prefix: String::new(), secret });
        },
    ];
    for (at, change) in wrong.into_iter().enumerate() {
        assert!(route(change).is_err(), "{at}");
    }
}

#[test]
fn a_route_never_shows_its_key() {
    let key = ModelKey { header: "x".to_owned(), prefix: String::new(), secret: KEY.to_owned().into() };
    assert!(!format!("{key:?}").contains(KEY));
}
