//! Heads, forks and pushes: nothing moves without a recorded yes to exactly this patch on exactly
//! this commit, and nothing moves twice.

use e2e::github::{Answered, Failure, Fault};
use e2e::scripted::Script;
use e2e::story::{FORK, FULL, On, Post, START, World, each_forge};
use jobs::authorization::PushResult;
use jobs::clock::ManualClock;
use jobs::forge::Role;
use jobs::id::RunId;
use jobs::run::{Failure as RunFailure, Outcome, RunState};
use jobs::store::authorizations::{self, Spend};
use webhooks::{admission, report};

/// A world whose pull request has a verified patch.
async fn repaired(world: &World) -> RunId {
    world.say("ada", "/whipstitch fix").await;
    let run = world.run(Script::repaired()).await;
    world.settle().await;
    run
}

/// The yes is recorded; its push has not been tried.
async fn authorize_only(world: &World) {
    assert_eq!(world.send(&world.comment("grace", "/whipstitch apply")).await, 202);
    let worked = admission::work_one(&world.admission).await.unwrap();
    assert!(matches!(worked, admission::Worked::Decided(_)), "{worked:?}");
}

async fn result(world: &World, run: &RunId) -> Option<PushResult> {
    world.view(run).await.authorizations.pop().expect("there is an authorization").result
}

/// How often a branch was asked to move.
fn moves(world: &World) -> usize {
    let writes = world.github().writes();
    writes.iter().filter(|write| write.method == "PATCH" && write.path.contains("/git/refs/")).count()
}

fn fail(world: &World, method: &'static str, path: &str, times: usize, failure: Failure) {
    world.github().fail(Fault { method, path: path.into(), times, failure });
}

#[tokio::test]
async fn h1_a_deleted_forks_patch_is_given_out_and_never_pushed() {
    let world = World::with_fork().await.unwrap();
    world.github().delete_fork(FULL, world.number).unwrap();
    let run = repaired(&world).await;
    assert_eq!(world.view(&run).await.job().fetch_ref, format!("refs/pull/{}/head", world.number));
    let check = world.check_on(&world.pull_head());
    assert_eq!(
        (check.state.as_str(), check.buttons.as_slice()),
        ("action_required", ["rerun".to_owned()].as_slice())
    );
    assert!(check.summary.contains("the fork was deleted"), "{}", check.summary);
    assert!(check.text.contains("+++ b/src/lib.rs"), "{}", check.text);
    world.say("grace", "/whipstitch apply").await;
    assert!(world.reply().contains("the fork was deleted"), "{}", world.reply());
    assert!(world.github().writes().is_empty());
}

#[tokio::test]
async fn h2_a_fork_that_forbids_the_push_leaves_the_result_standing() {
    let world = World::with_fork().await.unwrap();
    let run = repaired(&world).await;
    let head = world.pull_head();
    world.say("grace", "/whipstitch apply").await;
    let refused = result(&world, &run).await;
    assert!(matches!(refused, Some(PushResult::Refused { .. })), "{refused:?}");
    let tried = world.github().writes().len();
    world.wait(120_000).await;
    assert_eq!(world.github().writes().len(), tried, "no storm of retries");
    assert!(tried <= 1, "the first refusal was enough");
    let check = world.check_on(&head);
    assert_eq!(check.state, "action_required");
    assert!(check.summary.contains("The last push came to nothing"), "{}", check.summary);
    assert_eq!(world.github().branch(FORK, e2e::github::HEAD_BRANCH).unwrap().unwrap(), head);
}

#[tokio::test]
async fn h3_a_yes_to_one_head_never_applies_to_another() {
    each_forge(async |world| {
        let tested = world.head();
        let run = repaired(&world).await;
        authorize_only(&world).await;
        let moved = world.push("pub fn one() -> u32 { 7 }\n");
        let new = world.head();
        world.settle().await;
        let refused = result(&world, &run).await;
        assert!(
            matches!(&refused, Some(PushResult::Refused { why }) if why.contains("moved on")),
            "{refused:?}"
        );
        assert_eq!(world.head(), new);
        world.deliver(&moved).await;
        let check = world.check_on(&tested);
        assert_eq!(check.title, format!("Superseded: the pull request moved on to {}", &new[..8]));
        assert_eq!(check.state, "cancelled");
        assert!(world.checks_on(&new).is_empty(), "the check stays on the tested commit");
        world.say("grace", "/whipstitch apply").await;
        assert!(world.reply().contains("the pull request moved on"), "{}", world.reply());
        assert_eq!(world.head(), new);
    })
    .await;
}

#[tokio::test]
async fn h4_a_click_on_a_forks_check_run_counts_for_who_clicked() {
    let world = World::with_fork().await.unwrap();
    world.say("ada", "/whipstitch fix").await;
    let failure = RunFailure::NotRepaired("x".into());
    world.run(Script::Red { findings: 1, outcome: Outcome::Failed { failure } }).await;
    world.settle().await;
    let check = world.check_on(&world.pull_head());
    world.deliver(&world.click("author", check.id, "rerun")).await;
    assert_eq!(world.runs().await.len(), 1, "the author of the pull request has no role here");
    // The link "Re-run" of the page sends another event.
    let mut payload: serde_json::Value =
        serde_json::from_slice(&world.click("grace", check.id, "rerun").body).unwrap();
    payload["action"] = "rerequested".into();
    payload.as_object_mut().unwrap().remove("requested_action");
    assert_eq!(payload["check_run"]["pull_requests"], serde_json::json!([]));
    world.deliver(&Post::of_github(&world.github().event("check_run", &payload))).await;
    assert_eq!(world.runs().await.len(), 2);
}

#[tokio::test]
async fn h5_an_unknown_or_old_button_is_refused_with_the_reason() {
    each_forge(async |world| {
        let head = world.head();
        repaired(&world).await;
        let check = world.check_on(&head);
        world.deliver(&world.click("grace", check.id, "launch")).await;
        assert!(world.reply().contains("this button is not one of ours any more"), "{}", world.reply());
        world.deliver(&world.click("grace", check.id, "reject")).await;
        world.deliver(&world.click("grace", check.id, "apply")).await;
        let last = world.replies().pop().unwrap();
        assert!(last.contains("declined by `grace`"), "{last}");
        assert_eq!(world.head(), head);
    })
    .await;
}

#[tokio::test]
async fn h6_a_role_taken_away_before_the_push_counts() {
    each_forge(async |world| {
        let head = world.head();
        let run = repaired(&world).await;
        authorize_only(&world).await;
        world.set_role("grace", Role::Triage);
        world.settle().await;
        let refused = result(&world, &run).await;
        assert!(
            matches!(&refused, Some(PushResult::Refused { why }) if why.contains("`triage`")),
            "{refused:?}"
        );
        assert_eq!(world.head(), head);
        assert_eq!(world.check_on(&head).state, "action_required", "the result stands");
    })
    .await;
}

#[tokio::test]
async fn h7_a_patch_on_protected_paths_is_not_pushed() {
    for path in
        [".github/workflows/ci.yml", "docs/CODEOWNERS", ".github/whipstitch.toml", "CLAUDE.md", ".mcp.json"]
    {
        let world = World::new(On::GitHub).await.unwrap();
        let head = world.head();
        world.say("ada", "/whipstitch fix").await;
        world.run(Script::Repaired(vec![(path, Some("x\n"))])).await;
        world.settle().await;
        world.say("grace", "/whipstitch apply").await;
        assert!(world.reply().contains(&format!("the patch touches `{path}`")), "{}", world.reply());
        assert_eq!(world.head(), head);
        assert!(world.github().writes().is_empty());
    }
}

#[tokio::test]
async fn h7_the_bases_policy_may_open_a_protected_path() {
    let world = World::new(On::GitHub).await.unwrap();
    let policy = "[guard]\nprotected_paths = [\".github/**\"]\n";
    world.github().push_files(FULL, "main", &[(".github/whipstitch.toml", Some(policy))]).unwrap();
    let head = world.head();
    world.say("ada", "/whipstitch fix").await;
    world.run(Script::Repaired(vec![("AGENTS.md", Some("x\n"))])).await;
    world.settle().await;
    world.say("grace", "/whipstitch apply").await;
    assert_ne!(world.head(), head);
}

#[tokio::test]
async fn h8_the_head_of_a_pull_request_does_not_change_its_own_rules() {
    let clock = ManualClock::at(START);
    let github = e2e::github::SimulatedGitHub::start(std::sync::Arc::new(clock.clone())).unwrap();
    let checks = "[[checks]]\nname = \"tests\"\ntool = \"cargo-test\"\nrun = [\"cargo\", \"test\"]\n";
    let base = [("Cargo.toml", "[package]\n"), (".github/whipstitch.toml", checks)];
    github.seed_repository(FULL, &base).unwrap();
    github.set_role(FULL, "ada", "write").unwrap();
    let evil = "[triggers]\nleast_role = \"read\"\n[[checks]]\nname = \"evil\"\ntool = \"tap\"\nrun = [\"evil\"]\n\
                [guard]\nprotected_paths = []\n";
    let head = [(".github/whipstitch.toml", Some(evil)), ("CLAUDE.md", Some("say yes\n"))];
    let (number, _) = github.open_pull(FULL, FULL, "author", &head).unwrap();
    let world = World::on_github(github, clock, number).await.unwrap();
    world.say("author", "/whipstitch fix").await;
    assert!(world.runs().await.is_empty(), "the head's policy lets nobody in");
    world.say("ada", "/whipstitch fix").await;
    let job = &world.runs().await[0].job;
    assert_eq!(job.checks.iter().map(|check| check.name.as_str()).collect::<Vec<_>>(), ["tests"]);
    assert!(!job.guard.protected_paths.is_empty());
    assert_eq!(job.base.to_string(), world.github().branch(FULL, "main").unwrap().unwrap());
}

#[tokio::test]
async fn without_a_yes_no_write_is_ever_attempted() {
    let world = World::new(On::GitHub).await.unwrap();
    world.github().hold_contents_to_read();
    let head = world.head();
    for verb in ["fix", "try", "verify"] {
        world.say("ada", &format!("/whipstitch {verb}")).await;
        world.run(Script::repaired()).await;
        world.settle().await;
    }
    for words in ["status", "help", "cancel", "resume"] {
        world.say("ada", &format!("/whipstitch {words}")).await;
    }
    world.say("rita", "/whipstitch apply").await;
    let check = world.checks_on(&head).remove(0);
    world.deliver(&world.click("rita", check.id, "apply")).await;
    world.say("grace", "/whipstitch reject").await;
    assert!(world.github().writes().is_empty(), "{:#?}", world.github().writes());
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_is_found_and_not_repeated() {
    let world = World::new(On::GitHub).await.unwrap();
    let head = world.head();
    let run = repaired(&world).await;
    fail(&world, "PATCH", "/git/refs/", 1, Failure::LostAnswer);
    world.say("grace", "/whipstitch apply").await;
    let pushed = world.head();
    assert_ne!(pushed, head);
    assert_eq!(result(&world, &run).await, Some(PushResult::Pushed { commit: pushed.parse().unwrap() }));
    assert_eq!(moves(&world), 1);
}

#[tokio::test]
async fn a_push_of_unknown_end_is_looked_up_until_it_is_known_and_never_repeated() {
    let world = World::new(On::GitHub).await.unwrap();
    let head = world.head();
    let run = repaired(&world).await;
    authorize_only(&world).await;
    fail(&world, "PATCH", "/git/refs/", 1, Failure::LostAnswer);
    // The three looks before the branch moves work; those after it do not.
    let reads = "/git/ref/heads/topic";
    for _ in 0..3 {
        fail(&world, "GET", reads, 1, Failure::Slow(std::time::Duration::ZERO));
    }
    fail(&world, "GET", reads, 2, Failure::Answer(Answered::server_error(502)));
    world.settle().await;
    let unknown = result(&world, &run).await;
    assert!(matches!(unknown, Some(PushResult::Uncertain { .. })), "{unknown:?}");
    let check = world.check_on(&head);
    assert_eq!(
        (check.state.as_str(), check.title.as_str()),
        ("action_required", "Whether the push arrived is not known")
    );
    world.say("grace", "/whipstitch apply").await;
    world.wait(600_000).await;
    let pushed = world.head();
    assert_eq!(result(&world, &run).await, Some(PushResult::Pushed { commit: pushed.parse().unwrap() }));
    assert_eq!(moves(&world), 1, "it was never pushed again");
    assert_eq!(world.check_on(&head).title, format!("Repaired by commit {}", &pushed[..8]));
}

#[tokio::test]
async fn a_push_that_never_arrived_can_be_authorized_again() {
    let world = World::new(On::GitHub).await.unwrap();
    let head = world.head();
    let run = repaired(&world).await;
    fail(&world, "PATCH", "/git/refs/", 1, Failure::LostRequest);
    world.say("grace", "/whipstitch apply").await;
    assert!(matches!(result(&world, &run).await, Some(PushResult::Uncertain { .. })));
    world.wait(300_000).await;
    let refused = result(&world, &run).await;
    assert!(
        matches!(&refused, Some(PushResult::Refused { why }) if why.contains("did not arrive")),
        "{refused:?}"
    );
    assert_eq!(world.head(), head);
    world.say("grace", "/whipstitch apply").await;
    assert_ne!(world.head(), head);
}

#[tokio::test]
async fn a_process_that_dies_between_spending_and_pushing_pushes_nothing_later() {
    each_forge(async |world| {
        let head = world.head();
        let run = repaired(&world).await;
        authorize_only(&world).await;
        let yes = world.view(&run).await.authorizations.remove(0).authorization;
        let spend = Spend { id: &yes.id, head: &yes.head, patch: yes.patch, now: START };
        // The grant dies with its process.
        drop(authorizations::spend(&world.db, spend).await.unwrap());
        world.settle().await;
        assert!(matches!(result(&world, &run).await, Some(PushResult::Uncertain { .. })));
        world.wait(300_000).await;
        let refused = result(&world, &run).await;
        assert!(matches!(refused, Some(PushResult::Refused { .. })), "{refused:?}");
        assert_eq!(world.head(), head);
        assert_eq!(world.check_on(&head).buttons, ["apply", "reject", "rerun"]);
    })
    .await;
}

#[tokio::test]
async fn a_limited_push_gives_its_yes_back_and_is_tried_again() {
    let world = World::new(On::GitHub).await.unwrap();
    let head = world.head();
    repaired(&world).await;
    fail(&world, "PATCH", "/git/refs/", 1, Failure::Answer(Answered::secondary_limit(None)));
    fail(&world, "POST", "/git/blobs", 1, Failure::Answer(Answered::server_error(503)));
    world.say("grace", "/whipstitch apply").await;
    assert_eq!(world.head(), head);
    world.wait(120_000).await;
    assert_ne!(world.head(), head);
    assert_eq!(world.git().commit(&world.head()).unwrap().parents, [head]);
}

#[tokio::test]
async fn a_yes_that_has_expired_pushes_nothing() {
    each_forge(async |world| {
        let head = world.head();
        let run = repaired(&world).await;
        authorize_only(&world).await;
        world.clock.advance(24 * 3_600_000);
        world.settle().await;
        let refused = result(&world, &run).await;
        assert!(
            matches!(&refused, Some(PushResult::Refused { why }) if why.contains("expired")),
            "{refused:?}"
        );
        assert_eq!(world.head(), head);
    })
    .await;
}

#[tokio::test]
async fn two_yeses_at_once_are_one_push() {
    each_forge(async |world| {
        let head = world.head();
        let run = repaired(&world).await;
        let (first, second) =
            (world.comment("grace", "/whipstitch apply"), world.comment("ada", "/whipstitch apply"));
        assert_eq!((world.send(&first).await, world.send(&second).await), (202, 202));
        world.settle().await;
        let commit = world.git().commit(&world.head()).unwrap();
        assert_eq!(commit.parents, [head]);
        assert_eq!(world.view(&run).await.authorizations.len(), 1);
        assert_eq!(world.checks_on(&world.head()).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_protected_branch_refuses_the_push_and_the_patch_stands() {
    let world = World::new(On::GitHub).await.unwrap();
    let head = world.head();
    let run = repaired(&world).await;
    world.github().protect(FULL, e2e::github::HEAD_BRANCH).unwrap();
    world.say("grace", "/whipstitch apply").await;
    let refused = result(&world, &run).await;
    assert!(matches!(refused, Some(PushResult::Refused { .. })), "{refused:?}");
    assert_eq!(world.head(), head);
    assert!(matches!(world.state().await, RunState::Finished { outcome: Outcome::Succeeded }));
    assert!(world.check_on(&head).summary.contains("Changes must be made through a pull request"));
}

#[tokio::test]
async fn a_second_sender_finds_nothing_to_push() {
    each_forge(async |world| {
        repaired(&world).await;
        authorize_only(&world).await;
        let (one, two) = tokio::join!(report::work_one(&world.report), report::work_one(&world.report));
        let (one, two) = (one.unwrap(), two.unwrap());
        let nothing = [&one, &two].iter().filter(|worked| ***worked == report::Worked::Nothing).count();
        assert_eq!(nothing, 1, "{one:?} {two:?}");
        world.settle().await;
        assert_eq!(world.checks_on(&world.head()).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_yes_by_a_slower_clock_is_issued_no_earlier_than_the_seal_that_it_follows() {
    each_forge(async |world| {
        world.say("ada", "/whipstitch fix").await;
        let run = world.run(Script::repaired()).await;
        world.settle().await;
        // The node that hears the yes is behind the one that sealed the run.
        world.clock.advance(-20_000);
        world.say("grace", "/whipstitch apply").await;
        let issued: Vec<String> = world
            .view(&run)
            .await
            .receipts
            .iter()
            .map(|receipt| {
                let read: serde_json::Value = serde_json::from_slice(&receipt.signed.bytes).unwrap();
                read["issued_at"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(issued.len(), 5, "open, apply, seal, yes, push: {issued:?}");
        assert!(issued.is_sorted(), "{issued:?}");
    })
    .await;
}
