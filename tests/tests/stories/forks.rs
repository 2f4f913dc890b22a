//! Pull requests from forks: read through the base's own ref, pushed to only where the fork allows it,
//! and else given out as the base branch's policy says.

use e2e::github::Level;
use e2e::scripted::Script;
use e2e::story::{FORK, FULL, On, World};
use jobs::authorization::PushResult;

/// A pull request from a fork that lets nobody push, under this policy.
async fn closed_fork(policy: &str) -> World {
    let world = World::with_fork().await.unwrap();
    world.github().forbid_maintainers(FULL, world.number).unwrap();
    world.github().push_files(FULL, "main", &[(".github/whipstitch.toml", Some(policy))]).unwrap();
    world
}

async fn repaired(world: &World) -> jobs::id::RunId {
    world.say("ada", "/whipstitch fix").await;
    let run = world.run(Script::repaired()).await;
    world.settle().await;
    run
}

#[tokio::test]
async fn without_a_policy_the_patch_is_an_artifact() {
    let world = closed_fork("").await;
    repaired(&world).await;
    let check = world.check_on(&world.pull_head());
    assert_eq!(
        (check.state.as_str(), check.buttons.as_slice()),
        ("action_required", ["rerun".to_owned()].as_slice())
    );
    assert!(check.summary.contains("git apply"), "{}", check.summary);
    assert!(check.text.contains("+pub fn one() -> u32 { 1 }"), "{}", check.text);
    assert!(world.github().reviews(FULL, world.number).is_empty());
}

#[tokio::test]
async fn a_patch_that_fits_the_diff_is_suggested_once_in_a_review() {
    let world = closed_fork("[guard]\nfork_patch = \"suggestion\"\n").await;
    repaired(&world).await;
    world.say("grace", "/whipstitch status").await;
    world.wait(60_000).await;
    let reviews = world.github().reviews(FULL, world.number);
    assert_eq!(reviews.len(), 1);
    let comment = &reviews[0].comments[0];
    assert_eq!((comment["path"].as_str(), comment["line"].as_i64()), (Some("src/lib.rs"), Some(1)));
    assert_eq!(comment["body"], "```suggestion\npub fn one() -> u32 { 1 }\n```");
    assert!(reviews[0].body.contains("**all** of these changes"), "{}", reviews[0].body);
    assert!(world.github().writes().is_empty());
}

#[tokio::test]
async fn a_patch_beyond_the_diff_is_not_suggested_and_stays_an_artifact() {
    let world = closed_fork("[guard]\nfork_patch = \"suggestion\"\n").await;
    world.say("ada", "/whipstitch fix").await;
    let elsewhere = vec![("Cargo.toml", Some("[package]\nname = \"bellows\"\n"))];
    world.run(Script::Repaired(elsewhere)).await;
    world.settle().await;
    assert!(world.github().reviews(FULL, world.number).is_empty());
    assert!(world.check_on(&world.pull_head()).text.contains("+name = \"bellows\""));
}

#[tokio::test]
async fn where_the_policy_says_so_a_yes_opens_a_pull_request_from_the_apps_own_branch() {
    let world = closed_fork("[guard]\nfork_patch = \"pull-request\"\n").await;
    let head = world.pull_head();
    let run = repaired(&world).await;
    let check = world.check_on(&head);
    assert!(check.buttons.contains(&"apply".to_owned()), "{check:?}");
    assert!(check.summary.contains("The fork takes no push"), "{}", check.summary);
    world.deliver(&world.click("grace", check.id, "apply")).await;
    let commit = world.github().branch(FULL, &format!("whipstitch/{run}")).unwrap().unwrap();
    assert_eq!(world.git().commit(&commit).unwrap().parents, std::slice::from_ref(&head));
    let pull = world.github().pull(FULL, world.number + 1).unwrap();
    assert_eq!(pull["base"]["ref"], "main");
    assert_eq!(
        world.github().branch(FORK, e2e::github::HEAD_BRANCH).unwrap().unwrap(),
        head,
        "the fork is as it was"
    );
    assert!(world.check_on(&head).summary.contains(&format!("in pull request #{}", world.number + 1)));
}

#[tokio::test]
async fn h2_a_fork_that_refuses_is_not_asked_again_and_the_next_yes_opens_a_pull_request() {
    let world = World::with_fork().await.unwrap();
    let policy = "[guard]\nfork_patch = \"pull-request\"\n";
    world.github().push_files(FULL, "main", &[(".github/whipstitch.toml", Some(policy))]).unwrap();
    let head = world.pull_head();
    let run = repaired(&world).await;
    world.say("grace", "/whipstitch apply").await;
    let refused = world.view(&run).await.authorizations.pop().unwrap().result;
    assert!(matches!(refused, Some(PushResult::Refused { .. })), "{refused:?}");
    assert!(world.check_on(&head).summary.contains("The last push came to nothing"));
    world.say("grace", "/whipstitch apply\n\nonce more").await;
    let pushed = world.view(&run).await.authorizations.pop().unwrap().result;
    assert!(matches!(pushed, Some(PushResult::Pushed { .. })), "{pushed:?}");
    assert!(world.github().pull(FULL, world.number + 1).is_some());
}

#[tokio::test]
async fn a_workflow_file_needs_its_own_permission_even_where_the_policy_opens_it() {
    let open = "[guard]\nprotected_paths = []\n";
    let workflow = || Script::Repaired(vec![(".github/workflows/ci.yml", Some("on: push\n"))]);
    for (level, pushed) in [(None, false), (Some(Level::Write), true)] {
        let world = World::new(On::GitHub).await.unwrap();
        world.github().grant("workflows", level);
        world.github().push_files(FULL, "main", &[(".github/whipstitch.toml", Some(open))]).unwrap();
        world.say("ada", "/whipstitch fix").await;
        let run = world.run(workflow()).await;
        world.settle().await;
        world.say("grace", "/whipstitch apply").await;
        let result = world.view(&run).await.authorizations.pop().unwrap().result;
        match (pushed, &result) {
            (true, Some(PushResult::Pushed { .. })) => {}
            (false, Some(PushResult::Refused { why })) => {
                assert!(why.contains("permission"), "{why}");
                let check = world.check_on(&world.head());
                assert!(check.text.contains("+on: push"), "the patch stands: {}", check.text);
            }
            other => panic!("{other:?}"),
        }
    }
}
