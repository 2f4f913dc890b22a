//! The real service without an app, set up through its page with the simulated GitHub: from the link
//! on the terminal to the first answered comment.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use e2e::github::{SimulatedGitHub, WEBHOOK_SECRET};
use jobs::clock::SystemClock;
use url::Url;

struct Service {
    child: Child,
    address: String,
    link: String,
}

impl Service {
    fn start(folder: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_whipstitch"))
            .arg("serve")
            .current_dir(folder)
            .env("WHIPSTITCH_LISTEN", "127.0.0.1:0")
            .env("WHIPSTITCH_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = || lines.next().unwrap().unwrap();
        let address = next().strip_prefix("listening on ").unwrap().to_owned();
        let link = next().rsplit(' ').next().unwrap().to_owned();
        Self { child, address, link }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

fn form(fields: &[(&str, String)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// The value of a form's hidden field or of its target.
fn attribute(page: &str, before: &str) -> String {
    let (_, rest) = page.split_once(before).unwrap_or_else(|| panic!("{before} is not in {page}"));
    let value = rest.split_once('"').unwrap().0;
    value.replace("&#34;", "\"").replace("&#38;", "&").replace("&amp;", "&").replace("&quot;", "\"")
}

#[tokio::test]
async fn a_maintainer_sets_the_app_up_in_the_browser_and_its_first_comment_is_answered() {
    let github = SimulatedGitHub::start(Arc::new(SystemClock)).unwrap();
    github.seed_repository("acme/anvil", &[("Cargo.toml", "[package]\nname = \"anvil\"\n")]).unwrap();
    let (number, _) = github.open_pull("acme/anvil", "acme/anvil", "author", &[("a", Some("b\n"))]).unwrap();
    github.set_role("acme/anvil", "ada", "write").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path());
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();

    // A webhook is not taken yet, and the page is not open to everybody.
    let hook = format!("{}/webhooks/github", service.address);
    assert_eq!(browser.post(&hook).body("{}").send().await.unwrap().status(), 404);
    assert_eq!(browser.get(format!("{}/setup", service.address)).send().await.unwrap().status(), 401);

    let opened = browser.get(&service.link).send().await.unwrap();
    let cookie = opened.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let page =
        browser.get(format!("{}/setup", service.address)).header("cookie", &cookie).send().await.unwrap();
    assert!(page.text().await.unwrap().contains("Set up the GitHub App"));
    let fields = [
        ("web", github.web().to_string()),
        ("organization", String::new()),
        ("public_url", service.address.clone()),
    ];
    let review = browser.post(format!("{}/setup/review", service.address)).header("cookie", &cookie);
    let review = review
        .header("origin", &service.address)
        .header("content-type", FORM)
        .body(form(&fields))
        .send()
        .await
        .unwrap();
    assert_eq!(review.status(), 200);
    let review = review.text().await.unwrap();

    // GitHub's page makes the app and sends the browser back.
    let (target, manifest) = (
        attribute(&review, "<form method=\"post\" action=\""),
        attribute(&review, "name=\"manifest\" value=\""),
    );
    let made = browser
        .post(&target)
        .header("content-type", FORM)
        .body(form(&[("manifest", manifest)]))
        .send()
        .await
        .unwrap();
    assert_eq!(made.status(), 302, "{}", made.text().await.unwrap());
    let back: Url = made.headers()["location"].to_str().unwrap().parse().unwrap();
    assert!(back.as_str().starts_with(&format!("{}/setup/done?", service.address)), "{back}");
    let stranger = browser.get(back.clone()).send().await.unwrap();
    assert_eq!(stranger.status(), 401, "only the browser that brought the key may end it");
    let done = browser.get(back).header("cookie", &cookie).send().await.unwrap();
    assert_eq!(done.status(), 200);
    let done = done.text().await.unwrap();
    assert!(done.contains("whipstitch-test") && done.contains("/installations/new"), "{done}");
    for secret in [WEBHOOK_SECRET, "PRIVATE KEY", "1726be1638095a19edd134c77bde3aa2ece1e5d8"] {
        assert!(!done.contains(secret), "a secret is shown");
    }
    assert_eq!(github.manifest().unwrap()["default_permissions"].as_object().unwrap().len(), 5);

    let home = folder.path().join("whipstitch-data/github-app");
    for entry in std::fs::read_dir(&home).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
    }

    // The same process serves the app from now on, once the set-up's connections are closed: no set-up page
    // any more, and the door is open.
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(100));
    let mut closed = None;
    for _ in 0..600 {
        looks.tick().await;
        let asked = browser.get(format!("{}/setup", service.address)).header("cookie", &cookie);
        closed = asked.send().await.ok().map(|answer| answer.status().as_u16());
        if closed == Some(404) {
            break;
        }
    }
    assert_eq!(closed, Some(404));
    let comment = github.comment("acme/anvil", number, "ada", "/whipstitch help").unwrap();
    assert_eq!(github.send(&comment).await.unwrap().status, 202);
    let told = || github.comments("acme/anvil", number).into_iter().find(|comment| comment.by_app);
    let mut reply = None;
    for _ in 0..600 {
        looks.tick().await;
        reply = told();
        if reply.is_some() {
            break;
        }
    }
    let reply = reply.expect("an answer came");
    assert!(reply.body.contains("`/whipstitch fix`"), "{}", reply.body);
}
