//! One story in real processes: the service, the simulated GitHub with real git over HTTP, a sealed
//! repair, and everything by webhooks: refused, run, superseded, run again, refused, applied.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use e2e::github::{APP_ID, CheckRun, HEAD_BRANCH, SimulatedGitHub, WEBHOOK_SECRET};
use jobs::artifacts::Artifacts;
use jobs::clock::SystemClock;

const FULL: &str = "acme/fares";
/// Looks at the forge, two a second; a repair on a busy machine takes its time.
const PATIENCE: usize = 800;

struct Service {
    child: Child,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The service as the app of this GitHub, whose webhooks it takes from now on.
fn serve(folder: &std::path::Path, github: &SimulatedGitHub) -> Service {
    std::fs::write(folder.join("app.pem"), github.private_key()).unwrap();
    std::fs::write(folder.join("hook"), WEBHOOK_SECRET).unwrap();
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ndata_folder = \"data\"\npublic_url = \"https://repair.example.org\"\n[github]\napp_id = {APP_ID}\nprivate_key_file = \"app.pem\"\nwebhook_secret_file = \"hook\"\napi_url = \"{}\"\n",
        github.api()
    );
    std::fs::write(folder.join("whipstitch.toml"), config).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_whipstitch"))
        .arg("serve")
        .current_dir(folder)
        .env("WHIPSTITCH_LOG", "warn")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap();
    github.set_webhook(format!("{address}/webhooks/github").parse().unwrap());
    Service { child }
}

fn seed(github: &SimulatedGitHub, policy: &str) -> (i64, String) {
    github
        .seed_repository(
            FULL,
            &[
                ("Cargo.toml", include_str!("../demo/fares/base/Cargo.toml")),
                ("Cargo.lock", include_str!("../demo/fares/base/Cargo.lock")),
                ("src/lib.rs", include_str!("../demo/fares/base/src/lib.rs")),
                ("tests/fares.rs", include_str!("../demo/fares/base/tests/fares.rs")),
                (".github/whipstitch.toml", policy),
            ],
        )
        .unwrap();
    for (login, role) in [("maud", "maintain"), ("rita", "read"), ("walt", "write")] {
        github.set_role(FULL, login, role).unwrap();
    }
    let head = [
        ("src/lib.rs", Some(include_str!("../demo/fares/head/src/lib.rs"))),
        ("tests/fares.rs", Some(include_str!("../demo/fares/head/tests/fares.rs"))),
    ];
    github.open_pull(FULL, FULL, "author", &head).unwrap()
}

async fn say(github: &SimulatedGitHub, number: i64, login: &str, words: &str) {
    let comment = github.comment(FULL, number, login, words).unwrap();
    assert_eq!(github.send(&comment).await.unwrap().status, 202);
}

/// Looks again and again until there is what is looked for.
async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut looks = tokio::time::interval(Duration::from_millis(500));
    for _ in 0..PATIENCE {
        looks.tick().await;
        if let Some(found) = look() {
            return found;
        }
    }
    panic!("waited for {what} in vain");
}

fn check_on(github: &SimulatedGitHub, commit: &str) -> Option<CheckRun> {
    let mut checks = github.check_runs(FULL, commit);
    assert!(checks.len() <= 1, "one check run per head: {checks:#?}");
    checks.pop()
}

async fn concluded(github: &SimulatedGitHub, commit: &str, conclusion: &str) -> CheckRun {
    let concluded = |check: &CheckRun| check.conclusion.as_deref() == Some(conclusion);
    until(conclusion, || check_on(github, commit).filter(concluded)).await
}

/// Writes a check run's words where a reader wants to render and look at them.
fn show(name: &str, check: &CheckRun) {
    let Ok(folder) = std::env::var("WHIPSTITCH_SHOWN") else { return };
    let text = format!("# {}\n\n{}\n\n{}\n", check.title, check.summary, check.text);
    std::fs::write(std::path::Path::new(&folder).join(name), text).unwrap();
}

fn replies(github: &SimulatedGitHub, number: i64) -> Vec<String> {
    let comments = github.comments(FULL, number).into_iter();
    comments.filter(|comment| comment.by_app).map(|comment| comment.body).collect()
}

#[tokio::test]
async fn a_repair_from_the_first_comment_to_the_pushed_commit_over_http() {
    let github = SimulatedGitHub::start(Arc::new(SystemClock)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let patch = include_str!("../demo/fares.patch");
    let patch = Artifacts::open(folder.path().join("data/artifacts")).unwrap().put(patch.as_bytes()).unwrap();
    let policy = format!(
        "[[checks]]\nname = \"tests\"\ntool = \"cargo-test\"\nrun = [\"cargo\", \"test\"]\n[agent]\nname = \"replay\"\npatch = \"{patch}\"\n"
    );
    let (number, first) = seed(&github, &policy);
    let _service = serve(folder.path(), &github);

    say(&github, number, "rita", "/whipstitch fix").await;
    let reply = until("a refusal", || replies(&github, number).pop()).await;
    assert!(reply.contains("`rita` has the role `read` here"), "{reply}");
    assert!(check_on(&github, &first).is_none());

    // The branch is rewritten while the first run is at work.
    say(&github, number, "walt", "/whipstitch fix").await;
    until("the first run", || check_on(&github, &first)).await;
    let main = github.branch(FULL, "main").unwrap().unwrap();
    github.force_branch(FULL, HEAD_BRANCH, &main).unwrap();
    let second = github
        .push_files(
            FULL,
            HEAD_BRANCH,
            &[
                ("src/lib.rs", Some(include_str!("../demo/fares/head/src/lib.rs"))),
                ("tests/fares.rs", Some(include_str!("../demo/fares/head/tests/fares.rs"))),
                ("README.md", Some("once more\n")),
            ],
        )
        .unwrap();
    let moved = github.pull_request_event(FULL, number, "synchronize").unwrap();
    assert_eq!(github.send(&moved).await.unwrap().status, 202);
    let superseded = concluded(&github, &first, "cancelled").await;
    assert!(superseded.title.starts_with("Superseded"), "{}", superseded.title);

    say(&github, number, "walt", "/whipstitch fix\n\nonce more").await;
    let waits = concluded(&github, &second, "action_required").await;
    assert_eq!(waits.actions.len(), 3);
    for part in ["sha256:", "Nothing was pushed", "/bundle"] {
        assert!(waits.summary.contains(part), "{part} is not in {}", waits.summary);
    }
    show("waits.md", &waits);

    let told = replies(&github, number).len();
    let press = github.press(FULL, waits.id, "rita", "apply").unwrap();
    assert_eq!(github.send(&press).await.unwrap().status, 202);
    let refused = until("a refusal", || replies(&github, number).get(told).cloned()).await;
    assert!(refused.contains("`rita` has the role `read` here"), "{refused}");
    assert!(github.writes().is_empty(), "nothing was tried without a yes");

    let press = github.press(FULL, waits.id, "maud", "apply").unwrap();
    assert_eq!(github.send(&press).await.unwrap().status, 202);
    let pushed =
        until("the push", || github.branch(FULL, HEAD_BRANCH).unwrap().filter(|head| *head != second)).await;
    let git = github.git(FULL).unwrap();
    let commit = git.commit(&pushed).unwrap();
    assert_eq!(commit.parents, std::slice::from_ref(&second));
    let green = concluded(&github, &pushed, "success").await;
    assert!(green.summary.contains(&commit.tree), "the tree is the verified one: {}", green.summary);
    let repaired = git.resolve(&format!("{pushed}:src/lib.rs")).unwrap().unwrap();
    assert!(String::from_utf8(git.blob(&repaired).unwrap()).unwrap().contains("if ride >= 4 {"));
    show("pushed.md", &green);
}
