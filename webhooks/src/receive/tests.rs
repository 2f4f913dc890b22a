use axum::http::Request;
use bytes::Bytes;
use futures_util::StreamExt as _;
use jobs::clock::ManualClock;
use jobs::store::{Db, deliveries};
use tower::ServiceExt as _;

use super::*;
use crate::local::{LocalForge, SignedDelivery};

struct World {
    _folder: tempfile::TempDir,
    db: Db,
    forge: LocalForge,
    router: Router,
}

async fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&format!("sqlite://{}", folder.path().join("db").display())).await.unwrap();
    let forge = LocalForge::open(folder.path().join("forge"), "It's a Secret to Everybody".into()).unwrap();
    let (ingest, _) = Ingest::start(db.clone());
    let inbound: Arc<dyn Inbound> = Arc::new(forge.clone());
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let router = router(Door::new(vec![(ForgeKind::Local, inbound)], ingest, clock));
    World { _folder: folder, db, forge, router }
}

impl World {
    async fn send(&self, request: Request<Body>) -> StatusCode {
        self.router.clone().oneshot(request).await.unwrap().status()
    }

    async fn deliver(&self, signed: &SignedDelivery) -> StatusCode {
        self.send(request(signed, Body::from(signed.body.clone()))).await
    }

    fn signed(&self, id: &str, body: &[u8]) -> SignedDelivery {
        self.forge.sign("ping", id, body.to_vec())
    }

    async fn stored(&self) -> Vec<deliveries::ClaimedDelivery> {
        let mut stored = Vec::new();
        while let Some(claimed) = deliveries::claim(&self.db, "test", 1_000, i64::MAX / 4).await.unwrap() {
            deliveries::fail(&self.db, &claimed.ticket, "counted", Vec::new(), 0).await.unwrap();
            stored.push(claimed);
        }
        stored
    }
}

fn door(world: &World) -> Door {
    let (ingest, _) = Ingest::start(world.db.clone());
    let inbound: Arc<dyn Inbound> = Arc::new(world.forge.clone());
    Door::new(vec![(ForgeKind::Local, inbound)], ingest, Arc::new(ManualClock::at(0)))
}

fn request(signed: &SignedDelivery, body: Body) -> Request<Body> {
    let mut request = Request::post("/webhooks/local").body(body).unwrap();
    *request.headers_mut() = signed.headers.clone();
    request
}

/// Something that is left to be decided, and so can be looked for.
const BODY: &[u8] = br#"{"kind":"pull-request","repository":{"forge":"local","owner":"a","name":"b","installation":0},"number":1,"change":"closed"}"#;

#[tokio::test]
async fn a_signed_delivery_is_durable_before_it_is_accepted() {
    let world = world().await;
    assert_eq!(world.deliver(&world.signed("one", BODY)).await, StatusCode::ACCEPTED);
    let stored = world.stored().await;
    assert_eq!(stored.len(), 1);
    assert!(matches!(stored[0].event, jobs::event::Event::PullRequest { number: 1, .. }));
    let body = deliveries::body(&world.db, &stored[0].ticket.key).await.unwrap();
    assert_eq!(body.unwrap(), BODY, "the raw bytes are kept");
}

#[tokio::test]
async fn d2_what_is_not_signed_is_401_and_leaves_nothing() {
    let world = world().await;
    let mut none = world.signed("one", BODY);
    none.headers.remove("x-hub-signature-256");
    let mut old = none.clone();
    old.headers.insert("x-hub-signature", "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59".parse().unwrap());
    let mut other = world.signed("one", BODY);
    other.body.push(b' ');
    for signed in [none, old, other] {
        assert_eq!(world.deliver(&signed).await, StatusCode::UNAUTHORIZED);
    }
    let mut nameless = world.signed("one", BODY);
    nameless.headers.remove("x-github-delivery");
    assert_eq!(world.deliver(&nameless).await, StatusCode::BAD_REQUEST);
    assert!(world.stored().await.is_empty());
}

#[tokio::test]
async fn d3_a_body_over_the_limit_is_413_whatever_it_announces() {
    let world = world().await;
    let mut announced = world.signed("one", BODY);
    announced.headers.insert(CONTENT_LENGTH, "25000001".parse().unwrap());
    assert_eq!(world.deliver(&announced).await, StatusCode::PAYLOAD_TOO_LARGE);
    // Chunked without end: the reader stops at the limit and takes no more chunks.
    let taken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let endless = futures_util::stream::repeat(Bytes::from(vec![b'x'; 100_000])).map(move |chunk| {
        counted.fetch_add(chunk.len(), std::sync::atomic::Ordering::SeqCst);
        Ok::<_, std::convert::Infallible>(chunk)
    });
    let request = request(&world.signed("two", BODY), Body::from_stream(endless));
    assert_eq!(world.send(request).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(taken.load(std::sync::atomic::Ordering::SeqCst) <= MAX_BODY_BYTES + 200_000);
    assert!(world.stored().await.is_empty());
}

#[tokio::test]
async fn d3_a_body_of_the_largest_size_is_taken() {
    let world = world().await;
    let body = format!("{{\"kind\":\"ping\",\"x\":\"{}\"}}", "x".repeat(MAX_BODY_BYTES - 22));
    assert_eq!(body.len(), MAX_BODY_BYTES);
    assert_eq!(world.deliver(&world.signed("one", body.as_bytes())).await, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn d3_a_body_that_does_not_arrive_is_408() {
    let world = world().await;
    let mut door = door(&world);
    door.read_time = Duration::from_millis(1);
    let stalled = futures_util::stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from_static(b"{"))])
        .chain(futures_util::stream::pending());
    let request = request(&world.signed("one", BODY), Body::from_stream(stalled));
    let answer = router(door).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn d3_a_body_that_breaks_off_is_400() {
    let world = world().await;
    let broken = futures_util::stream::iter([
        Ok(Bytes::from_static(b"{")),
        Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)),
    ]);
    let request = request(&world.signed("one", BODY), Body::from_stream(broken));
    assert_eq!(world.send(request).await, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn d3_a_form_is_415() {
    let world = world().await;
    for kind in [Some("application/x-www-form-urlencoded"), Some("text/json"), Some(""), None] {
        let mut signed = world.signed("one", BODY);
        signed.headers.remove(CONTENT_TYPE);
        if let Some(kind) = kind {
            signed.headers.insert(CONTENT_TYPE, kind.parse().unwrap());
        }
        assert_eq!(world.deliver(&signed).await, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind:?}");
    }
    let mut signed = world.signed("one", BODY);
    signed.headers.insert(CONTENT_TYPE, "Application/JSON; charset=utf-8".parse().unwrap());
    assert_eq!(world.deliver(&signed).await, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn d3_bodies_that_wait_do_not_fill_the_memory() {
    let world = world().await;
    let mut door = door(&world);
    door.space = Arc::new(Semaphore::new(BODY.len() - 1));
    let signed = world.signed("one", BODY);
    let answer = router(door).oneshot(request(&signed, Body::from(BODY))).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()[RETRY_AFTER], "30");
}

#[tokio::test]
async fn d4_what_cannot_be_made_durable_is_503() {
    let world = world().await;
    // The committing task is gone, as after a panic or at the end of the process.
    let inbound: Arc<dyn Inbound> = Arc::new(world.forge.clone());
    let (dead, dead_task) = Ingest::start(world.db.clone());
    dead_task.abort();
    assert!(dead_task.await.unwrap_err().is_cancelled());
    let door = Door::new(vec![(ForgeKind::Local, inbound)], dead, Arc::new(ManualClock::at(0)));
    let signed = world.signed("one", BODY);
    let answer = router(door).oneshot(request(&signed, Body::from(BODY))).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(world.stored().await.is_empty());
}

#[tokio::test]
async fn d5_the_same_delivery_twice_at_once_is_one() {
    let world = world().await;
    let signed = world.signed("one", BODY);
    let (first, second) = tokio::join!(world.deliver(&signed), world.deliver(&signed));
    let mut answers = [first, second];
    answers.sort();
    assert_eq!(answers, [StatusCode::OK, StatusCode::ACCEPTED]);
    assert_eq!(world.stored().await.len(), 1);
}

#[tokio::test]
async fn d6_a_redelivery_of_what_failed_before_admission_is_new_again() {
    let world = world().await;
    let signed = world.signed("one", BODY);
    assert_eq!(world.deliver(&signed).await, StatusCode::ACCEPTED);
    assert_eq!(world.stored().await.len(), 1, "counting marks it failed");
    assert_eq!(world.deliver(&signed).await, StatusCode::ACCEPTED);
    assert_eq!(world.stored().await.len(), 1);
}

#[tokio::test]
async fn another_forge_or_method_has_no_door() {
    let world = world().await;
    let signed = world.signed("one", BODY);
    let mut elsewhere = request(&signed, Body::from(BODY));
    *elsewhere.uri_mut() = "/webhooks/github".parse().unwrap();
    assert_eq!(world.send(elsewhere).await, StatusCode::NOT_FOUND);
    let mut read = request(&signed, Body::empty());
    *read.method_mut() = axum::http::Method::GET;
    assert_eq!(world.send(read).await, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn d10_no_authentic_body_is_answered_with_5xx() {
    let world = world().await;
    for (at, body) in ["", "null", "[]", "{}", "\u{0}", "{\"kind\":\"comment\"}", "[[[["].iter().enumerate() {
        let signed = world.signed(&at.to_string(), body.as_bytes());
        assert_eq!(world.deliver(&signed).await, StatusCode::ACCEPTED, "{body:?}");
    }
}
