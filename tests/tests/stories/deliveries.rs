//! Deliveries: forged, doubled, replayed, late, out of order and strange.

use e2e::github::{Answered, Failure, Fault, INSTALLATION};
use e2e::scripted::Script;
use e2e::story::{FULL, On, Post, START, World, each_forge};
use jobs::run::{HaltReason, Outcome, RunState};
use jobs::store::Db;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use webhooks::admission;

#[tokio::test]
async fn d1_only_the_right_signature_of_the_raw_bytes_opens_the_door() {
    each_forge(async |world| {
        let right = world.comment("ada", "/whipstitch fix");
        let mut changed = right.clone();
        changed.body.push(b'\n');
        assert_eq!(world.send(&changed).await, 401);
        let wrong = right.with("x-hub-signature-256", &format!("sha256={}", "0".repeat(64)));
        assert_eq!(world.send(&wrong).await, 401);
        world.settle().await;
        assert!(world.runs().await.is_empty());
        world.deliver(&right).await;
        assert_eq!(world.runs().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn d2_no_signature_or_an_old_one_is_401_and_nothing_is_kept() {
    each_forge(async |world| {
        let right = world.comment("ada", "/whipstitch fix");
        let none = right.without("x-hub-signature-256");
        assert_eq!(world.send(&none).await, 401);
        assert_eq!(
            world.send(&none.with("x-hub-signature", "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59")).await,
            401
        );
        world.settle().await;
        assert!(world.runs().await.is_empty());
        // The same id is new to the store, so nothing of the refused requests was kept.
        assert_eq!(world.send(&right).await, 202);
    })
    .await;
}

#[tokio::test]
async fn d3_a_form_and_a_body_over_the_limit_are_refused() {
    let world = World::new(On::GitHub).await.unwrap();
    let right = world.comment("ada", "/whipstitch fix");
    assert_eq!(world.send(&right.with("content-type", "application/x-www-form-urlencoded")).await, 415);
    // The announced length is enough for a no; nothing of the body is waited for.
    let mut connection = tokio::net::TcpStream::connect(world.door()).await.unwrap();
    let request = "POST /webhooks/github HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                   content-length: 25000001\r\n\r\n{";
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert_eq!(world.send(&right).await, 202, "the door is still open");
}

#[tokio::test]
async fn d4_the_answer_comes_before_any_call_to_the_forge() {
    let world = World::new(On::GitHub).await.unwrap();
    let before = world.github().requests().len();
    assert_eq!(world.send(&world.comment("ada", "/whipstitch fix")).await, 202);
    assert_eq!(world.github().requests().len(), before, "the forge was not asked anything");
    world.settle().await;
    assert_eq!(world.runs().await.len(), 1, "and what was answered was durable");
}

#[tokio::test]
async fn d5_the_same_delivery_on_two_replicas_makes_one_job() {
    each_forge(async |world| {
        let post = world.comment("ada", "/whipstitch fix");
        let (first, second) = tokio::join!(world.send(&post), world.send(&post));
        let mut answers = [first, second];
        answers.sort_unstable();
        assert_eq!(answers, [200, 202]);
        // A second replica decides beside the first, on the same database.
        let url = format!("sqlite://{}", world.folder.path().join("whipstitch.db").display());
        let db = Db::open(&url).await.unwrap();
        let (forges, clock) = (world.admission.forges.clone(), world.admission.clock.clone());
        let other = admission::Context::new(db, forges, clock, "another replica");
        let (one, two) = tokio::join!(admission::work_one(&world.admission), admission::work_one(&other));
        let decided = [one.unwrap(), two.unwrap()];
        assert_eq!(decided.iter().filter(|done| **done != admission::Worked::Nothing).count(), 1);
        world.settle().await;
        assert_eq!(world.runs().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn d6_a_redelivery_after_a_failure_before_admission_is_processed() {
    let world = World::new(On::GitHub).await.unwrap();
    let post = world.comment("ada", "/whipstitch fix");
    world.github().fail(Fault {
        method: "GET",
        path: "/collaborators/".into(),
        times: 6,
        failure: Failure::Answer(Answered::server_error(502)),
    });
    world.deliver(&post).await;
    world.wait(600_000).await;
    assert!(world.runs().await.is_empty());
    assert!(world.reply().contains("could not check"), "{}", world.reply());
    assert_eq!(world.send(&post).await, 202, "it failed, so it is new again");
    world.settle().await;
    assert_eq!(world.runs().await.len(), 1);
}

#[tokio::test]
async fn d7_the_same_body_under_a_fresh_id_makes_no_second_job() {
    each_forge(async |world| {
        let post = world.comment("ada", "/whipstitch fix");
        world.deliver(&post).await;
        world.run(Script::Clean).await;
        world.deliver(&post.under_a_fresh_id()).await;
        assert_eq!(world.runs().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn d7_a_replayed_yes_or_no_decides_nothing_again_and_is_not_answered() {
    each_forge(async |world| {
        for words in ["/whipstitch apply", "/whipstitch reject"] {
            world.say("ada", "/whipstitch fix").await;
            world.run(Script::repaired()).await;
            world.settle().await;
            let post = world.comment("grace", words);
            world.deliver(&post).await;
            let head = world.head();
            world.deliver(&post.under_a_fresh_id()).await;
            assert_eq!(world.head(), head);
            assert!(world.replies().is_empty(), "{:?}", world.replies());
        }
    })
    .await;
}

#[tokio::test]
async fn sixty_forged_replayed_and_renamed_deliveries_make_exactly_one_job() {
    each_forge(async |world| {
        let post = world.comment("ada", "/whipstitch fix");
        for at in 0..20 {
            let wrong = post.under_a_fresh_id().with("x-hub-signature-256", &format!("sha256={at:064x}"));
            assert_eq!(world.send(&wrong).await, 401);
        }
        assert_eq!(world.send(&post).await, 202);
        for _ in 1..20 {
            assert_eq!(world.send(&post).await, 200);
        }
        for _ in 0..20 {
            assert_eq!(world.send(&post.under_a_fresh_id()).await, 202);
        }
        world.settle().await;
        assert_eq!(world.runs().await.len(), 1);
        assert_eq!(world.checks_on(&world.head()).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn d8_what_was_missed_in_an_hour_of_downtime_is_taken_in_with_the_roles_of_now() {
    let world = World::new(On::GitHub).await.unwrap();
    let app = world.app.clone().unwrap();
    // Before the kept time, one that arrived, and two that were never sent because nobody answered.
    world.comment("ada", "/whipstitch status");
    world.clock.advance(5 * 86_400_000);
    world.deliver(&world.comment("ada", "/whipstitch verify")).await;
    world.comment("ada", "/whipstitch fix");
    world.clock.advance(1_000);
    world.comment("rita", "/whipstitch try");
    for _ in 0..130 {
        world.github().event("star", &json!({ "action": "created" }));
    }
    world.set_role("rita", jobs::forge::Role::Write);
    world.clock.advance(3_600_000);
    let since = START + 3 * 86_400_000;
    let swept = app.sweep(&world.db, &world.ingest, since).await.unwrap();
    assert_eq!((swept.listed, swept.taken), (3, 2));
    world.settle().await;
    let runs = world.runs().await;
    let who: Vec<_> = runs.iter().rev().map(|run| run.job.request.actor.login.as_str()).collect();
    assert_eq!(who, ["ada", "ada"], "{:?}", world.replies());
    let reply = world.reply();
    assert!(reply.contains("@rita") && reply.contains("is already at work on this commit"), "{reply}");
    let again = app.sweep(&world.db, &world.ingest, since).await.unwrap();
    assert_eq!(again.taken, 0);
    world.settle().await;
    assert_eq!(world.runs().await.len(), 2);
}

#[tokio::test]
async fn d8_a_sweep_that_breaks_off_takes_the_rest_in_later() {
    let world = World::new(On::GitHub).await.unwrap();
    let app = world.app.clone().unwrap();
    world.comment("ada", "/whipstitch verify");
    world.comment("ada", "/whipstitch fix");
    // The list and the first delivery are given, the second is not.
    let limited = Failure::Answer(Answered::secondary_limit(None));
    let newest = world.github().delivery_numbers()[0];
    let path = format!("/app/hook/deliveries/{newest}");
    world.github().fail(Fault { method: "GET", path, times: 1, failure: limited });
    assert!(app.sweep(&world.db, &world.ingest, START - 1).await.is_err());
    world.settle().await;
    assert_eq!(world.runs().await.len(), 1);
    assert_eq!(app.sweep(&world.db, &world.ingest, START - 1).await.unwrap().taken, 1);
    world.settle().await;
    assert_eq!(world.runs().await.len(), 2);
}

#[tokio::test]
async fn d9_a_job_is_about_the_head_of_now_and_a_closed_pull_request_gets_none() {
    each_forge(async |world| {
        let asked = world.comment("ada", "/whipstitch fix");
        let late = world.push("pub fn one() -> u32 { 3 }\n");
        world.deliver(&asked).await;
        assert_eq!(
            world.runs().await[0].job.head.to_string(),
            world.head(),
            "not the head of the comment's time"
        );
        // The event about that push comes late: the run is already about the new head.
        world.deliver(&late).await;
        assert_eq!(world.runs().await[0].halt, None);
        let closed = world.close();
        world.say("ada", "/whipstitch verify").await;
        assert!(world.reply().contains("it is closed"), "{}", world.reply());
        world.deliver(&closed).await;
        world.deliver(&late.under_a_fresh_id()).await;
        let halt = world.runs().await[0].halt.clone().expect("it was asked to stop");
        assert_eq!(halt.reason, HaltReason::Cancelled("the pull request was closed".into()));
        assert_eq!(world.runs().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn d9_a_late_report_of_a_state_of_the_past_does_not_stay() {
    each_forge(async |world| {
        let head = world.head();
        world.say("ada", "/whipstitch fix").await;
        let work = world.start().await;
        // A sender takes the message "in progress" and stalls until its lease is over.
        let stalled = jobs::store::outbox::claim(&world.db, "stalled", 1, START).await.unwrap().unwrap();
        work.finish(Script::repaired()).await;
        world.clock.advance(10);
        world.settle().await;
        assert_eq!(world.check_on(&head).state, "action_required");
        let late = jobs::store::outbox::sent(&world.db, &stalled, "1", START).await;
        assert!(late.is_err(), "the stalled sender has lost its message");
        world.settle().await;
        assert_eq!(world.check_on(&head).state, "action_required");
    })
    .await;
}

#[tokio::test]
async fn d10_strange_payloads_are_taken_and_ignored() {
    let world = World::new(On::GitHub).await.unwrap();
    let whole = json!({ "id": INSTALLATION });
    let repository = json!({ "name": "anvil", "full_name": FULL, "owner": null });
    let payloads = [
        ("issue_comment", json!(null)),
        ("issue_comment", json!({})),
        ("issue_comment", json!({ "action": "created", "comment": null, "issue": null, "sender": null })),
        ("issue_comment", json!({ "action": "dreamt", "comment": {} })),
        ("check_run", json!({ "action": "requested_action", "check_run": { "id": "9999999999999" } })),
        (
            "pull_request",
            json!({ "action": "closed", "number": "5", "repository": repository, "installation": whole }),
        ),
        (
            "pull_request",
            json!({ "action": "synchronize", "number": 9_007_199_254_740_991_i64, "repository": repository, "installation": whole }),
        ),
        ("star", json!({ "action": "created", "starred_at": null })),
        ("an_event_of_tomorrow", json!([1, 2, 3])),
        ("ping", json!({ "zen": "x", "hook_id": 1 })),
    ];
    for (event, payload) in &payloads {
        let post = Post::of_github(&world.github().event(event, payload));
        assert_eq!(world.send(&post).await, 202, "{event} {payload}");
    }
    world.settle().await;
    assert!(world.runs().await.is_empty());
}

#[tokio::test]
async fn a_push_in_the_middle_of_a_run_supersedes_it() {
    each_forge(async |world| {
        let tested = world.head();
        world.say("ada", "/whipstitch fix").await;
        let work = world.start().await;
        world.deliver(&world.push("pub fn one() -> u32 { 9 }\n")).await;
        let halt = world.runs().await[0].halt.clone().expect("it was asked to stop");
        assert!(matches!(halt.reason, HaltReason::Superseded(_)), "{halt:?}");
        work.end(Outcome::Halted { reason: halt.reason, requeue_recommended: false }).await;
        world.settle().await;
        let check = world.check_on(&tested);
        assert_eq!(
            (check.state.as_str(), check.title.as_str()),
            ("cancelled", "Superseded: the pull request moved on")
        );
        assert!(world.checks_on(&world.head()).is_empty());
        assert!(matches!(world.state().await, RunState::Finished { .. }));
    })
    .await;
}
