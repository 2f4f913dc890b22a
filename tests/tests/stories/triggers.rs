//! What starts a run beside a comment in the conversation, and what ends one: labels, check suites,
//! reviews, apps, and the app's own reach; each switched by the base branch's policy.

use e2e::github::{APP_ID, ReviewPart, Suite};
use e2e::scripted::Script;
use e2e::story::{FULL, On, Post, World};
use jobs::run::{HaltReason, RunState};
use serde_json::{Value, json};

/// A world whose base branch has this policy.
async fn with_policy(policy: &str) -> World {
    let world = World::new(On::GitHub).await.unwrap();
    world.github().push_files(FULL, "main", &[(".github/whipstitch.toml", Some(policy))]).unwrap();
    world
}

async fn label(world: &World, login: &str, label: &str) {
    let delivery = world.github().label(FULL, world.number, login, label).unwrap();
    world.deliver(&Post::of_github(&delivery)).await;
}

async fn suite(world: &World, login: &str, suite: Suite<'_>) {
    let delivery = world.github().check_suite(FULL, world.number, login, suite).unwrap();
    world.deliver(&Post::of_github(&delivery)).await;
}

const FAILED: Suite<'_> = Suite { action: "completed", app: 15_368, conclusion: Some("failure") };

#[tokio::test]
async fn a_label_starts_a_run_where_the_policy_lists_it_for_one_who_may_ask() {
    let world = with_policy("[triggers]\nlabels = [\"repair me\"]\n").await;
    label(&world, "ada", "bug").await;
    assert!(
        world.runs().await.is_empty() && world.replies().is_empty(),
        "another label is nobody's business"
    );
    label(&world, "rita", "repair me").await;
    assert!(world.runs().await.is_empty());
    assert!(world.reply().contains("`rita` has the role `read`"), "{}", world.reply());
    let delivery = world.github().label(FULL, world.number, "ada", "Repair Me").unwrap();
    let post = Post::of_github(&delivery);
    world.deliver(&post).await;
    world.deliver(&post.under_a_fresh_id()).await;
    assert_eq!(world.runs().await.len(), 1, "the same body under a fresh id is the same wish");
    world.run(Script::repaired()).await;
    world.settle().await;
    label(&world, "ada", "repair me").await;
    assert_eq!(world.runs().await.len(), 2, "the label put on once more is another wish");
}

#[tokio::test]
async fn no_label_and_no_check_suite_starts_anything_by_default() {
    let world = World::new(On::GitHub).await.unwrap();
    label(&world, "ada", "repair me").await;
    suite(&world, "ada", FAILED).await;
    assert!(world.runs().await.is_empty() && world.replies().is_empty());
}

#[tokio::test]
async fn a_policy_can_switch_comments_off() {
    let world = with_policy("[triggers]\ncomment = false\nlabels = [\"repair me\"]\n").await;
    world.say("ada", "/whipstitch fix").await;
    assert!(world.reply().contains("does not let comments start a run"), "{}", world.reply());
    label(&world, "ada", "repair me").await;
    assert_eq!(world.runs().await.len(), 1);
}

#[tokio::test]
async fn a_check_suite_of_others_that_ends_red_starts_one_run_per_commit() {
    let world = with_policy("[triggers]\nfailed_check_suite = true\n").await;
    suite(&world, "ada", Suite { conclusion: Some("success"), ..FAILED }).await;
    suite(&world, "ada", Suite { app: APP_ID, ..FAILED }).await;
    suite(&world, "rita", FAILED).await;
    suite(&world, "dependabot[bot]", FAILED).await;
    assert!(world.runs().await.is_empty() && world.replies().is_empty(), "{:?}", world.replies());
    suite(&world, "ada", FAILED).await;
    suite(&world, "ada", Suite { app: 99, conclusion: Some("timed_out"), ..FAILED }).await;
    assert_eq!(world.runs().await.len(), 1);
    // A suite of a commit that was left behind says nothing about the head of now.
    let late = world.github().check_suite(FULL, world.number, "ada", FAILED).unwrap();
    world.deliver(&world.push("pub fn one() -> u32 { 3 }\n")).await;
    world.deliver(&Post::of_github(&late).under_a_fresh_id()).await;
    assert_eq!(world.runs().await.len(), 1);
}

#[tokio::test]
async fn all_of_the_apps_checks_are_run_again_for_one_who_may_ask() {
    let world = World::new(On::GitHub).await.unwrap();
    let again = Suite { action: "rerequested", app: APP_ID, conclusion: None };
    suite(&world, "ada", again).await;
    assert!(world.runs().await.is_empty(), "there was nothing to run again");
    world.say("ada", "/whipstitch verify").await;
    world.run(Script::Clean).await;
    world.settle().await;
    suite(&world, "rita", again).await;
    assert_eq!(world.runs().await.len(), 1);
    suite(&world, "grace", again).await;
    let runs = world.runs().await;
    assert_eq!((runs.len(), runs[0].job.request.actor.login.as_str()), (2, "grace"));
}

#[tokio::test]
async fn a_requested_check_suite_ends_what_works_on_a_commit_left_behind() {
    let world = World::new(On::GitHub).await.unwrap();
    world.say("ada", "/whipstitch fix").await;
    world.push("pub fn one() -> u32 { 3 }\n");
    suite(&world, "ada", Suite { action: "requested", app: APP_ID, conclusion: None }).await;
    let halt = world.runs().await[0].halt.clone().unwrap();
    assert!(matches!(halt.reason, HaltReason::Superseded(_)), "{halt:?}");
}

#[tokio::test]
async fn commands_in_reviews_and_on_lines_are_heard_and_answered_apart() {
    let world = World::new(On::GitHub).await.unwrap();
    for on in [ReviewPart::Summary, ReviewPart::Line] {
        let delivery =
            world.github().review(FULL, world.number, "ada", on, "see below\n\n/whipstitch help").unwrap();
        world.deliver(&Post::of_github(&delivery)).await;
    }
    assert_eq!(world.replies().len(), 2);
    let delivery =
        world.github().review(FULL, world.number, "ada", ReviewPart::Line, "/whipstitch fix").unwrap();
    world.deliver(&Post::of_github(&delivery)).await;
    let runs = world.runs().await;
    assert!(runs[0].job.request.origin.starts_with("line-comment/"), "{:?}", runs[0].job.request);
}

#[tokio::test]
async fn c6_an_app_is_heard_only_where_the_policy_lists_its_id_and_never_authorizes() {
    let by_app = |world: &World, id: i64, words: &str| {
        let comment = world.comment("helper[bot]", words);
        let mut payload: Value = serde_json::from_slice(&comment.body).unwrap();
        payload["comment"]["performed_via_github_app"] = json!({ "id": id, "slug": "helper" });
        Post::of_github(&world.github().event("issue_comment", &payload))
    };
    let world = with_policy("[triggers]\napps = [77]\n").await;
    world.deliver(&by_app(&world, 78, "/whipstitch fix")).await;
    world.deliver(&by_app(&world, APP_ID, "/whipstitch fix")).await;
    assert!(world.runs().await.is_empty(), "a like name is no listed id, and we are not heard by ourselves");
    world.deliver(&by_app(&world, 77, "/whipstitch fix")).await;
    assert_eq!(world.runs().await.len(), 1);
    let run = world.run(Script::repaired()).await;
    world.settle().await;
    world.set_role("helper[bot]", jobs::forge::Role::Admin);
    world.deliver(&by_app(&world, 77, "/whipstitch apply")).await;
    assert!(world.view(&run).await.authorizations.is_empty());
    assert!(world.replies().is_empty(), "apps are not answered");
}

#[tokio::test]
async fn runs_end_where_the_app_is_taken_away() {
    for place in [Some(FULL), None] {
        let world = World::new(On::GitHub).await.unwrap();
        world.say("ada", "/whipstitch fix").await;
        world.deliver(&Post::of_github(&world.github().take_away(Some("acme/other")))).await;
        assert_eq!(world.runs().await[0].halt, None);
        world.deliver(&Post::of_github(&world.github().take_away(place))).await;
        let halt = world.runs().await[0].halt.clone().unwrap();
        assert_eq!(halt.reason, HaltReason::Cancelled("the app was taken from the repository".to_owned()));
    }
}

#[tokio::test]
async fn a_push_to_the_base_lets_go_of_the_policy_and_the_next_run_has_the_new_one() {
    let world = with_policy("[limits]\niterations = 2\n").await;
    let limits = async |world: &World| world.runs().await[0].job.limits.max_iterations;
    world.say("ada", "/whipstitch fix").await;
    assert_eq!(limits(&world).await, 2);
    let reads = |world: &World| {
        let asked = world.github().requests();
        asked.iter().filter(|request| request.path.contains("/contents/.github")).count()
    };
    let before = reads(&world);
    world.say("ada", "/whipstitch verify").await;
    assert_eq!(reads(&world), before, "what a commit says is read once");
    let changed = [(".github/whipstitch.toml", Some("[limits]\niterations = 4\n"))];
    world.github().push_files(FULL, "main", &changed).unwrap();
    let pushed = world.github().push_event(FULL, "ada", "main").unwrap();
    world.deliver(&Post::of_github(&pushed)).await;
    world.say("grace", "/whipstitch verify").await;
    assert!(reads(&world) > before);
    world.say("grace", "/whipstitch status").await;
}

#[tokio::test]
async fn a_faulty_policy_is_told_once_on_the_check_run_with_its_line_and_column() {
    let world = with_policy("[limits]\niterations = \"five\"\n").await;
    world.say("ada", "/whipstitch fix").await;
    world.say("grace", "/whipstitch verify").await;
    label(&world, "ada", "repair me").await;
    let check = world.check_on(&world.head());
    assert_eq!(check.state, "failure");
    assert!(check.title.contains(".github/whipstitch.toml:2:14"), "{}", check.title);
    insta::assert_snapshot!(check.summary);
    let marks = &world.github().check_runs(FULL, &world.head())[0].annotations;
    assert_eq!(marks.len(), 1, "{marks:?}");
    assert_eq!((&marks[0]["path"], &marks[0]["start_line"]), (&json!(".github/whipstitch.toml"), &json!(2)));
    assert!(world.runs().await.is_empty() && world.replies().is_empty(), "{:?}", world.replies());
    // Mended, it is another commit of the base, and the same words start a run.
    world
        .github()
        .push_files(FULL, "main", &[(".github/whipstitch.toml", Some("[limits]\niterations = 5\n"))])
        .unwrap();
    world.say("ada", "/whipstitch fix").await;
    assert_eq!(world.runs().await.len(), 1);
    assert_eq!(world.state().await, RunState::Queued);
}
