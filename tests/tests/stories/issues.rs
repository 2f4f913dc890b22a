//! Issues: a run on the default branch, one comment that is kept up to date, and a pull request once a
//! person has authorized the patch.

use std::sync::Arc;

use e2e::github::{Failure, Fault, SimulatedGitHub};
use e2e::scripted::Script;
use e2e::story::{FULL, PEOPLE, START, World};
use jobs::clock::ManualClock;

/// A world whose story is about an issue.
async fn with_issue() -> World {
    let clock = ManualClock::at(START);
    let github = SimulatedGitHub::start(Arc::new(clock.clone())).unwrap();
    let files =
        [("Cargo.toml", "[package]\nname = \"anvil\"\n"), ("src/lib.rs", "pub fn one() -> u32 { 2 }\n")];
    github.seed_repository(FULL, &files).unwrap();
    for (login, role, _) in PEOPLE {
        github.set_role(FULL, login, role).unwrap();
    }
    let number = github.open_issue(FULL, "one is two").unwrap();
    World::on_github(github, clock, number).await.unwrap()
}

fn main(world: &World) -> String {
    world.github().branch(FULL, "main").unwrap().unwrap()
}

#[tokio::test]
async fn a_run_on_an_issue_stands_on_the_default_branch_and_in_one_comment() {
    let world = with_issue().await;
    world.say("ada", "/whipstitch fix").await;
    let run = &world.runs().await[0];
    assert_eq!((run.job.head.to_string(), run.job.fetch_ref.as_str()), (main(&world), "refs/heads/main"));
    assert_eq!(world.check_on(&main(&world)).state, "queued");
    assert!(world.reply().contains("is `queued`"), "{}", world.reply());
    world.run(Script::repaired()).await;
    world.settle().await;
    let check = world.check_on(&main(&world));
    assert_eq!((check.state.as_str(), check.buttons.len()), ("action_required", 3));
    let reply = world.reply();
    assert!(reply.contains("is `action_required`") && reply.contains("/whipstitch apply "), "{reply}");
    assert_eq!(webhooks::command::parse(&reply), Ok(Vec::new()), "the comment commands nothing");
    // Another run takes the comment over.
    world.say("grace", "/whipstitch verify").await;
    world.run(Script::Clean).await;
    world.settle().await;
    assert!(world.reply().contains("is `success`"), "{}", world.reply());
}

#[tokio::test]
async fn authorizing_an_issues_patch_opens_one_pull_request_and_moves_no_branch() {
    let world = with_issue().await;
    let before = main(&world);
    world.say("ada", "/whipstitch fix").await;
    let run = world.run(Script::repaired()).await;
    world.settle().await;
    world.say("rita", "/whipstitch apply").await;
    assert!(world.github().writes().is_empty(), "a reader authorizes nothing");
    // The default branch may move on meanwhile; the pull request begins at what was tested.
    world.github().push_files(FULL, "main", &[("README.md", Some("hello\n"))]).unwrap();
    let moved = main(&world);
    let failure = Failure::LostAnswer;
    world.github().fail(Fault { method: "POST", path: "/pulls".into(), times: 1, failure });
    world.say("grace", "/whipstitch apply").await;
    world.wait(120_000).await;
    assert_eq!(main(&world), moved, "nothing was pushed to the default branch");
    let branch = format!("whipstitch/{run}");
    let commit = world.github().branch(FULL, &branch).unwrap().unwrap();
    assert_eq!(world.git().commit(&commit).unwrap().parents, [before]);
    let pull = world.github().pull(FULL, world.number + 1).unwrap();
    assert_eq!((&pull["head"]["ref"], &pull["base"]["ref"]), (&branch.into(), &"main".into()));
    assert!(pull["body"].as_str().unwrap().contains(&format!("Fixes #{}", world.number)), "{pull}");
    assert_eq!(world.github().pull(FULL, world.number + 2), None, "it was opened once");
    let shown = world.replies().into_iter().find(|reply| reply.contains("pull request #")).unwrap();
    assert!(shown.contains(&format!("in pull request #{}", world.number + 1)), "{shown}");
    assert_eq!(world.check_on(&commit).state, "success");
}

#[tokio::test]
async fn a_closed_issue_starts_and_applies_nothing() {
    let world = with_issue().await;
    world.say("ada", "/whipstitch fix").await;
    world.run(Script::repaired()).await;
    world.settle().await;
    world.github().close_issue(FULL, world.number).unwrap();
    world.say("grace", "/whipstitch apply").await;
    world.say("ada", "/whipstitch fix").await;
    let closed = world.replies().iter().filter(|reply| reply.contains("it is closed")).count();
    assert_eq!((closed, world.runs().await.len()), (2, 1), "{:?}", world.replies());
    assert!(world.github().writes().is_empty());
}
