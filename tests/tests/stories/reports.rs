//! Reports: within the forge's limits, through its failures, each exactly once.

use e2e::github::{Answered, Failure, Fault, SimulatedGitHub};
use e2e::scripted::Script;
use e2e::story::{FULL, On, START, World};
use jobs::clock::ManualClock;
use jobs::run::{Failure as RunFailure, Outcome, Phase};
use webhooks::forge::MAX_TEXT_BYTES;

fn failed() -> Outcome {
    Outcome::Failed { failure: RunFailure::NotRepaired("nothing more to propose".into()) }
}

fn fail(world: &World, method: &'static str, path: &str, times: usize, failure: Failure) {
    world.github().fail(Fault { method, path: path.into(), times, failure });
}

/// How many remarks each request carried.
fn batches(world: &World) -> Vec<usize> {
    let sent = world.github().requests();
    let counts =
        sent.iter().filter(|request| request.path.contains("/check-runs") && request.method != "GET");
    let counts = counts.filter_map(|request| request.body["output"]["annotations"].as_array().map(Vec::len));
    counts.filter(|count| *count > 0).collect()
}

#[tokio::test]
async fn r1_a_text_beyond_the_limit_is_cut_by_bytes_with_closed_fences_and_a_pointer() {
    let world = World::new(On::GitHub).await.unwrap();
    world.say("ada", "/whipstitch fix").await;
    let files = (0..900).map(|at| {
        let path: &'static str = Box::leak(format!("src/{}/{at}.rs", "ü".repeat(40)).into_boxed_str());
        (path, Some("x\n"))
    });
    let run = world.run(Script::Repaired(files.collect())).await;
    world.settle().await;
    let check = world.check_on(&world.head());
    assert_eq!(check.state, "action_required");
    assert!(check.text.len() <= MAX_TEXT_BYTES && check.text.len() > 60_000, "{}", check.text.len());
    let pointer = format!("https://whipstitch.example/runs/{run}/bundle");
    let (body, end) = check.text.split_at(check.text.rfind("\n```\n").expect("the fence is closed"));
    assert!(end.contains(&pointer), "{end}");
    assert_eq!(body.matches("```").count(), 1);
}

#[tokio::test]
async fn r2_a_hundred_and_thirty_seven_remarks_go_out_in_three_batches() {
    let world = World::new(On::GitHub).await.unwrap();
    world.say("ada", "/whipstitch fix").await;
    // One more comes from the failing test.
    world.run(Script::Red { findings: 136, outcome: failed() }).await;
    world.settle().await;
    assert_eq!(batches(&world), [50, 50, 37]);
    let runs = world.github().check_runs(FULL, &world.head());
    assert_eq!(runs[0].annotations.len(), 137);
    let text = serde_json::to_string(&runs[0].annotations).unwrap();
    assert!(text.contains("[masked]") && !text.contains("a very secret value"));
}

#[tokio::test]
async fn r2_remarks_are_appended_once_when_answers_are_lost() {
    let world = World::new(On::GitHub).await.unwrap();
    world.say("ada", "/whipstitch fix").await;
    world.run(Script::Red { findings: 136, outcome: failed() }).await;
    for _ in 0..3 {
        fail(&world, "PATCH", "/check-runs/", 1, Failure::LostAnswer);
        world.settle().await;
        world.wait(40_000).await;
    }
    world.wait(300_000).await;
    let runs = world.github().check_runs(FULL, &world.head());
    assert_eq!(runs.len(), 1);
    let mut lines: Vec<_> = runs[0].annotations.iter().map(|mark| mark["message"].to_string()).collect();
    lines.sort();
    lines.dedup();
    assert_eq!((runs[0].annotations.len(), lines.len()), (137, 137));
    assert_eq!(runs[0].conclusion.as_deref(), Some("failure"));
}

#[tokio::test]
async fn r3_buttons_are_held_to_the_limits_before_they_are_sent() {
    let world = World::new(On::GitHub).await.unwrap();
    world.say("ada", "/whipstitch fix").await;
    world.run(Script::repaired()).await;
    world.settle().await;
    let actions = &world.github().check_runs(FULL, &world.head())[0].actions;
    assert_eq!(actions.len(), 3);
    for action in actions {
        for (member, limit) in [("label", 20), ("description", 40), ("identifier", 20)] {
            assert!(action[member].as_str().unwrap().chars().count() <= limit, "{action}");
        }
    }
}

#[tokio::test]
async fn r4_a_long_job_is_told_with_a_fresh_token() {
    let world = World::new(On::GitHub).await.unwrap();
    world.say("ada", "/whipstitch fix").await;
    let work = world.start().await;
    world.settle().await;
    let minted = |world: &World| {
        let sent = world.github().requests();
        sent.iter().filter(|request| request.path.contains("/access_tokens")).count()
    };
    let before = minted(&world);
    world.clock.advance(75 * 60_000);
    work.finish(Script::repaired()).await;
    world.settle().await;
    assert!(minted(&world) > before);
    assert_eq!(world.check_on(&world.head()).state, "action_required");
    let refused = world.github().requests().into_iter().filter(|request| request.status == 401).count();
    assert_eq!(refused, 0, "an old token was not even tried");
}

#[tokio::test]
async fn r5_a_clock_that_is_off_by_ninety_seconds_does_no_harm() {
    for off in [-90_000, 90_000, -1_200_000, 1_200_000] {
        let forges_clock = ManualClock::at(START + off);
        let github = SimulatedGitHub::start(std::sync::Arc::new(forges_clock)).unwrap();
        github.seed_repository(FULL, &[("Cargo.toml", "[package]\n")]).unwrap();
        github.set_role(FULL, "ada", "write").unwrap();
        let (number, head) = github.open_pull(FULL, FULL, "author", &[("a", Some("b\n"))]).unwrap();
        let world = World::on_github(github, ManualClock::at(START), number).await.unwrap();
        world.say("ada", "/whipstitch fix").await;
        assert_eq!(world.runs().await.len(), 1, "off by {off} ms: {:?}", world.replies());
        assert_eq!(world.check_on(&head).state, "queued");
    }
}

#[tokio::test]
async fn r6_a_limited_report_waits_as_it_is_told_and_is_posted_once() {
    for (failure, wait) in [
        (Answered::secondary_limit(None), 60_000),
        (Answered::secondary_limit(Some(30)), 30_000),
        (Answered::too_many(20), 20_000),
        (Answered::server_error(500), 4_000),
    ] {
        let world = World::new(On::GitHub).await.unwrap();
        fail(&world, "POST", "/check-runs", 1, Failure::Answer(failure.clone()));
        world.say("ada", "/whipstitch fix").await;
        let head = world.head();
        let asked = world.github().requests().len();
        world.wait(wait - 1_000).await;
        assert_eq!(world.github().requests().len(), asked, "{failure:?}: nothing is sent before its time");
        assert!(world.checks_on(&head).is_empty());
        world.wait(2_000).await;
        assert_eq!(world.check_on(&head).state, "queued", "{failure:?}");
    }
}

#[tokio::test]
async fn r6_a_report_whose_answer_is_lost_is_not_doubled() {
    let world = World::new(On::GitHub).await.unwrap();
    fail(&world, "POST", "/check-runs", 1, Failure::LostAnswer);
    world.say("ada", "/whipstitch fix").await;
    world.wait(10_000).await;
    assert_eq!(world.check_on(&world.head()).state, "queued");
    fail(&world, "POST", "/issues/", 1, Failure::LostAnswer);
    world.say("ada", "/whipstitch help").await;
    world.wait(10_000).await;
    assert_eq!(world.replies().len(), 1, "{:?}", world.replies());
}

#[tokio::test]
async fn r6_a_result_outlasts_an_hour_of_failures() {
    let world = World::new(On::GitHub).await.unwrap();
    let head = world.head();
    fail(&world, "", "check-runs", 10, Failure::Answer(Answered::server_error(503)));
    world.say("ada", "/whipstitch fix").await;
    world.run(Script::repaired()).await;
    for _ in 0..120 {
        world.clock.advance(30_000);
        world.settle().await;
    }
    assert!(world.checks_on(&head).is_empty(), "an hour is over");
    for _ in 0..120 {
        world.clock.advance(30_000);
        world.settle().await;
    }
    assert_eq!(world.check_on(&head).state, "action_required");
    assert_eq!(world.github().faults_left(), 0);
}

#[tokio::test]
async fn a_report_that_the_forge_refuses_for_good_is_dead_and_can_be_seen() {
    let world = World::new(On::GitHub).await.unwrap();
    let refusal = Answered { status: 403, headers: Vec::new(), message: "Resource not accessible".into() };
    fail(&world, "POST", "/check-runs", 1, Failure::Answer(refusal));
    world.say("ada", "/whipstitch fix").await;
    let run = e2e::story::newest(&world.runs().await).unwrap();
    let dead = world.view(&run).await.outbox.remove(0);
    assert!(matches!(dead.state, jobs::message::MessageState::Dead { .. }), "{dead:?}");
    assert!(dead.last_error.unwrap().contains("Resource not accessible"));
    // The next change of the run is told as a message of its own.
    world.run(Script::Clean).await;
    world.settle().await;
    assert_eq!(world.check_on(&world.head()).state, "success");
}

#[tokio::test]
async fn phases_that_follow_each_other_fast_are_told_as_one_and_the_end_at_once() {
    let world = World::new(On::GitHub).await.unwrap();
    world.say("ada", "/whipstitch fix").await;
    let work = world.start().await;
    world.settle().await;
    let updates = |world: &World| world.github().check_runs(FULL, &world.head())[0].updates;
    let before = updates(&world);
    for phase in [Phase::Bootstrap, Phase::Navigate, Phase::Edit] {
        work.enter(phase).await;
        world.settle().await;
    }
    assert_eq!(updates(&world), before, "steps wait for their pace");
    world.wait(4_000).await;
    assert_eq!(updates(&world), before + 1);
    assert!(world.check_on(&world.head()).title.starts_with("Edits"), "the last of them is told");
    work.enter(Phase::Verify).await;
    work.finish(Script::Clean).await;
    world.settle().await;
    assert_eq!(world.check_on(&world.head()).state, "success", "the end does not wait");
}

#[tokio::test]
async fn r6_an_installation_that_is_limited_is_left_alone_by_everybody_for_growing_times() {
    let world = World::new(On::GitHub).await.unwrap();
    fail(&world, "POST", "/check-runs", 2, Failure::Answer(Answered::secondary_limit(None)));
    world.say("ada", "/whipstitch fix").await;
    let asked = world.github().requests().len();
    world.say("grace", "/whipstitch help").await;
    world.wait(59_000).await;
    assert_eq!(world.github().requests().len(), asked, "nobody asks before the time is over");
    // The second limit in a row waits twice as long.
    world.wait(2_000).await;
    let asked = world.github().requests().len();
    world.wait(118_000).await;
    assert_eq!(world.github().requests().len(), asked);
    world.wait(10_000).await;
    assert_eq!(world.check_on(&world.head()).state, "queued");
    assert_eq!(world.replies().len(), 1);
}

#[tokio::test]
async fn a_spent_primary_limit_is_waited_for_without_a_refused_request() {
    let world = World::new(On::GitHub).await.unwrap();
    world.github().spend_rate_limit(600);
    world.say("ada", "/whipstitch fix").await;
    world.wait(590_000).await;
    assert!(world.checks_on(&world.head()).is_empty());
    world.wait(60_000).await;
    assert_eq!(world.check_on(&world.head()).state, "queued");
    let refused = world.github().requests().into_iter().filter(|request| request.status == 403);
    assert_eq!(refused.count(), 0, "GitHub never had to refuse");
}
