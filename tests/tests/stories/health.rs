//! What `doctor --github` finds: each thing that keeps the app from its work is named with what to do.

use std::sync::Arc;

use e2e::github::{self, Answered, Failure, Fault, SimulatedGitHub};
use e2e::story::{On, START, World};
use jobs::clock::ManualClock;
use webhooks::github::{Finding, GitHub, GitHubConfig, Health};

async fn health(world: &World) -> Vec<Finding> {
    world.app.as_ref().expect("the story is on GitHub").health().await
}

fn lines(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let health = match finding.health {
            Health::Good => "good",
            Health::Weak => "weak",
            Health::Bad => "bad",
        };
        format!("{health} {}: {}\n  -> {}", finding.name, finding.found, finding.advice)
            .trim_end_matches("\n  -> ")
            .to_owned()
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn an_app_that_can_do_its_work_is_found_well() {
    let world = World::new(On::GitHub).await.unwrap();
    let comment = world.github().comment(e2e::story::FULL, world.number, "ada", "hello").unwrap();
    assert_eq!(world.github().send(&comment).await.unwrap().status, 202);
    insta::assert_snapshot!(lines(&health(&world).await));
}

#[tokio::test]
async fn what_was_not_granted_and_what_does_not_arrive_is_named_with_what_to_do() {
    let world = World::new(On::GitHub).await.unwrap();
    world.github().grant("checks", None);
    world.github().grant("contents", Some(github::Level::Read));
    world.github().grant("actions", Some(github::Level::Read));
    world.github().unsubscribe("check_suite");
    world.github().set_webhook(format!("http://{}/elsewhere", world.door()).parse().unwrap());
    let comment = world.github().comment(e2e::story::FULL, world.number, "ada", "hello").unwrap();
    assert_eq!(world.github().send(&comment).await.unwrap().status, 404);
    insta::assert_snapshot!(lines(&health(&world).await));
}

#[tokio::test]
async fn a_wrong_key_a_wrong_id_and_a_wrong_clock_are_told_apart() {
    let forges_clock = ManualClock::at(START);
    let github = SimulatedGitHub::start(Arc::new(forges_clock)).unwrap();
    let app = |app_id: i64, key: &str, now: i64| {
        let config = GitHubConfig {
            api: github.api(),
            web: github.web(),
            app_id,
            private_key: key.to_owned().into(),
            webhook_secret: github::WEBHOOK_SECRET.into(),
        };
        GitHub::new(config, Arc::new(ManualClock::at(now))).unwrap()
    };
    let other_key = github::other_key();
    let found = app(github::APP_ID, &other_key, START).health().await;
    assert_eq!((found.len(), found[0].health), (1, Health::Bad));
    assert!(found[0].advice.contains("make a new private key"), "{found:?}");
    let found = app(5, github.private_key(), START).health().await;
    assert!(found[0].advice.contains("there is no app with this id"), "{found:?}");
    let found = app(github::APP_ID, github.private_key(), START - 1_200_000).health().await;
    let clock = found.iter().find(|finding| finding.name == "clock").unwrap();
    assert_eq!(
        (clock.health, clock.found.as_str()),
        (Health::Weak, "this machine is -1200 s off GitHub's time")
    );
    assert!(lines(&found).contains("bad installation: the app is installed nowhere"), "{found:?}");
    github.fail(Fault {
        method: "GET",
        path: "/api/v3/app".into(),
        times: 1,
        failure: Failure::Answer(Answered::server_error(502)),
    });
    let found = app(github::APP_ID, github.private_key(), START).health().await;
    assert!(found[0].advice.contains("reaches github.api_url"), "{found:?}");
}
