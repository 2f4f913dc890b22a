//! What CI reads: the JSON of `/api/v1`, over HTTP, about runs in every state; and schemathesis, which
//! holds the answers to the description that the service itself serves.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use app::config::Config;
use app::service::Service;
use e2e::scripted::Script;
use e2e::story::{On, World};
use jobs::run::{Failure, HaltReason, Outcome, Phase};
use jobs::store::Ingest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use webhooks::receive::Door;

const TOKEN: &str = "a read token that only tests know";

/// The service's HTTP side over a story's rows; no worker of it runs.
struct Api {
    base: String,
    stop: CancellationToken,
}

impl Api {
    async fn over(world: &World) -> Self {
        let folder = world.folder.path();
        std::fs::write(folder.join("webhook.secret"), "a local secret").unwrap();
        std::fs::write(folder.join("read.token"), TOKEN).unwrap();
        let mut config = Config::of_folder(folder);
        config.server.read_token_file = Some(folder.join("read.token"));
        let service = Arc::new(Service::open(config).await.unwrap());
        let (ingest, _task) = Ingest::start(service.db.clone());
        let door = Door::new(Vec::new(), ingest, Arc::clone(&service.clock));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/api/v1", listener.local_addr().unwrap());
        let (router, stop) = (app::http::router(service, door), CancellationToken::new());
        tokio::spawn(app::http::serve(listener, router, stop.clone()));
        Self { base, stop }
    }

    async fn ask(&self, path: &str, token: Option<&str>) -> (u16, Value) {
        let mut request = reqwest::Client::new().get(format!("{}{path}", self.base));
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn read(&self, path: &str) -> Value {
        let (status, body) = self.ask(path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn verdict_path(commit: &str) -> String {
    format!("/repos/acme/anvil/commits/{commit}/verdict")
}

/// The members that a CI job decides by.
fn gist(body: &Value) -> Value {
    json!([body["status"], body["conclusion"]])
}

#[tokio::test]
async fn ci_reads_the_verdict_of_a_commit_while_it_changes() {
    let world = World::new(On::Local).await.unwrap();
    let (api, head) = (Api::over(&world).await, world.head());
    let path = verdict_path(&head);
    assert_eq!(api.ask(&path, None).await.0, 404, "nobody has asked for anything");
    world.say("ada", "/whipstitch fix").await;
    let queued = api.read(&path).await;
    assert_eq!(gist(&queued), json!(["queued", null]));
    assert_eq!(queued["run"]["requested_by"]["login"], "ada");
    assert_eq!((&queued["run"]["outcome"], &queued["run"]["patch"]), (&Value::Null, &Value::Null));

    let work = world.start().await;
    work.enter(Phase::Edit).await;
    let working = api.read(&path).await;
    assert_eq!(gist(&working), json!(["in_progress", null]));
    assert_eq!((&working["run"]["state"], &working["run"]["phase"]), (&json!("running"), &json!("edit")));

    let run = work.finish(Script::repaired()).await;
    let repaired = api.read(&path).await;
    assert_eq!(gist(&repaired), json!(["completed", "action_required"]));
    let told = &repaired["run"];
    assert_eq!(told["id"], run.as_str());
    assert_eq!(
        told["outcome"],
        json!({ "is": "succeeded", "kind": null, "why": null, "requeue_recommended": false })
    );
    assert_eq!(told["patch"]["paths"], json!(["src/lib.rs"]));
    assert_eq!(told["patch"]["waits_for_authorization"], true);
    let readings = told["checks"].as_array().unwrap();
    assert!(
        !readings.is_empty()
            && readings.iter().all(|one| one["before"] == "failed" && one["after"] == "passed")
    );

    world.settle().await;
    world.say("grace", "/whipstitch apply").await;
    let pushed = world.head();
    assert_ne!(pushed, head);
    let on_pushed = api.read(&verdict_path(&pushed)).await;
    assert_eq!(gist(&on_pushed), json!(["completed", "success"]));
    assert_eq!(on_pushed["commit"], pushed);
    assert_eq!(on_pushed["run"]["pushed_commit"], pushed);
    assert_eq!(on_pushed["run"]["patch"]["waits_for_authorization"], false);
    assert_eq!(on_pushed["run"]["commit"], head, "the run is told as it is");
    assert_eq!(api.read(&format!("/runs/{run}")).await, on_pushed["run"]);
}

#[tokio::test]
async fn what_the_forge_shows_and_what_ci_reads_is_the_same() {
    let world = World::new(On::Local).await.unwrap();
    let api = Api::over(&world).await;
    world.say("ada", "/whipstitch fix").await;
    let why = "not a very secret value".to_owned();
    let outcome = Outcome::Failed { failure: Failure::NotRepaired(why) };
    world.run(Script::Red { findings: 2, outcome }).await;
    world.settle().await;
    let (shown, read) = (world.check_on(&world.head()), api.read(&verdict_path(&world.head())).await);
    assert_eq!(read["conclusion"], shown.state.as_str());
    assert_eq!(read["title"], shown.title.as_str());
    assert_eq!(read["run"]["outcome"]["kind"], "not-repaired");
}

#[tokio::test]
async fn a_repository_whose_pages_are_not_open_is_read_with_the_token_alone() {
    let world = World::new(On::GitHub).await.unwrap();
    let api = Api::over(&world).await;
    world.say("ada", "/whipstitch fix").await;
    let run = world.runs().await.remove(0).id;
    for path in [verdict_path(&world.head()), format!("/runs/{run}")] {
        let (status, hidden) = api.ask(&path, None).await;
        let (absent_status, absent) = api.ask(&path.replace(['0', '1'], "2"), None).await;
        assert_eq!((status, absent_status), (404, 404));
        assert_eq!(hidden, absent, "what may not be read looks like what is not there");
        for wrong in ["Bearer another", "Bearer", "Basic YTpi", &format!("Basic {TOKEN}"), ""] {
            assert_eq!(api.ask(&path, Some(wrong)).await.0, 401, "{wrong:?}");
        }
        assert_eq!(api.ask(&path, Some(&format!("bearer {TOKEN}"))).await.0, 200);
    }
}

#[tokio::test]
async fn what_has_not_the_form_of_an_id_is_400_and_nothing_can_be_changed() {
    let world = World::new(On::Local).await.unwrap();
    let api = Api::over(&world).await;
    let head = world.head();
    for path in [
        verdict_path(&head[..12]),
        verdict_path(&head.to_uppercase()),
        "/runs/1".to_owned(),
        "/runs/%ff".to_owned(),
    ] {
        let (status, body) = api.ask(&path, None).await;
        assert_eq!((status, body["message"].is_string()), (400, true), "{path}: {body}");
    }
    assert_eq!(api.ask("/nothing", None).await.0, 404);
    let answer = reqwest::Client::new().delete(format!("{}/openapi.json", api.base)).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers()["allow"].to_str().unwrap()), (405, "GET,HEAD"));
}

/// Runs in each of their ends, one that was pushed and one that works.
async fn every_state(world: &World) -> (Vec<String>, Vec<String>) {
    let mut commits = vec![world.head()];
    let failures: [fn(String) -> Failure; 7] = [
        Failure::Provision,
        Failure::Bootstrap,
        Failure::NotRepaired,
        Failure::Refused,
        Failure::Inconclusive,
        Failure::Agent,
        Failure::Internal,
    ];
    let halts: [fn(String) -> HaltReason; 4] =
        [HaltReason::Governor, HaltReason::Cancelled, HaltReason::Superseded, HaltReason::OutOfTime];
    let failed = failures.map(|failure| Outcome::Failed { failure: failure("why".into()) });
    let halted =
        halts.map(|reason| Outcome::Halted { reason: reason("why".into()), requeue_recommended: true });
    for outcome in failed.into_iter().chain(halted) {
        ask(world).await;
        world.run(Script::Red { findings: 1, outcome }).await;
        world.settle().await;
    }
    ask(world).await;
    world.run(Script::Clean).await;
    world.settle().await;
    for answer in ["/whipstitch reject", "/whipstitch apply"] {
        ask(world).await;
        world.run(Script::repaired()).await;
        world.settle().await;
        world.say("grace", answer).await;
    }
    commits.push(world.head());
    assert_ne!(commits[0], commits[1]);
    ask(world).await;
    world.start().await.enter(Phase::Repair).await;
    let mut runs: Vec<_> = world.runs().await.into_iter().map(|run| run.id.to_string()).collect();
    assert_eq!(runs.len(), 15, "{:?}", world.replies());
    runs.reverse();
    (runs, commits)
}

/// A fresh request; the flood guard lets it through after an hour.
async fn ask(world: &World) {
    world.clock.advance(3_600_000);
    world.say("ada", "/whipstitch fix").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_no_answer_that_the_description_does_not_allow() {
    let Some(peers) = e2e::peers::installed() else { return };
    let world = World::new(On::Local).await.unwrap();
    let api = Api::over(&world).await;
    let (runs, commits) = every_state(&world).await;
    let mut description = api.read("/openapi.json").await;
    let examples = |values: &[String]| -> Value {
        let named =
            values.iter().enumerate().map(|(at, value)| (format!("e{at}"), json!({ "value": value })));
        Value::Object(named.collect())
    };
    let paths = &mut description["paths"];
    paths["/runs/{id}"]["get"]["parameters"][0]["examples"] = examples(&runs);
    let verdict = &mut paths["/repos/{owner}/{repo}/commits/{sha}/verdict"]["get"]["parameters"];
    verdict[0]["examples"] = examples(&["acme".to_owned()]);
    verdict[1]["examples"] = examples(&["anvil".to_owned()]);
    verdict[2]["examples"] = examples(&commits);
    let file = world.folder.path().join("openapi.json");
    std::fs::write(&file, description.to_string()).unwrap();
    let (base, folder) = (api.base.clone(), world.folder.path().to_owned());
    let ran = tokio::task::spawn_blocking(move || {
        peers
            .pip("schemathesis")
            .args(["run", "--url", &base, "--phases", "examples,coverage,fuzzing", "--max-examples", "40"])
            .args(["--checks", "all", "--seed", "7", "--generation-database", "none", "--no-color"])
            .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
            .arg(file)
            .current_dir(folder)
            .output()
            .unwrap()
    });
    let ran = ran.await.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("3 selected") || said.contains("3 tested"), "{said}");
}
