//! Webhooks: made from what happens here, signed, sent, kept, and listed for the app.

use anyhow::{Context as _, Result};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::access::time;
use super::conversation::{show_comment, show_pull, show_repository};
use super::server::Reply;
use super::state::{Comment, State};
use super::{APP_ID, INSTALLATION, Shared, SimulatedGitHub, WEBHOOK_SECRET, checks};

/// A webhook, as it was or will be sent.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// GitHub's number of this attempt.
    pub id: i64,
    /// The id in `X-GitHub-Delivery`; the same for each attempt.
    pub guid: String,
    pub event: String,
    pub body: String,
    /// The receiver's answer; `None` when it was not sent or nobody answered.
    pub status: Option<u16>,
    /// Milliseconds since 1970.
    pub at: i64,
}

impl Delivery {
    /// The value of `X-Hub-Signature-256`.
    pub fn signature(&self) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).expect("any key will do");
        mac.update(self.body.as_bytes());
        format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
    }
}

/// What happened to a check suite.
#[derive(Clone, Copy, Debug)]
pub struct Suite<'a> {
    /// `requested`, `rerequested`, `completed`.
    pub action: &'a str,
    /// The app that it belongs to.
    pub app: i64,
    pub conclusion: Option<&'a str>,
}

/// Where in a review something is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReviewPart {
    Summary,
    Line,
}

/// What the receiver answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub status: u16,
    pub text: String,
}

impl SimulatedGitHub {
    /// Where webhooks go.
    pub fn set_webhook(&self, url: url::Url) {
        self.shared.state().webhook = Some(url);
    }

    /// A person comments; the webhook is made but not sent.
    pub fn comment(&self, repository: &str, number: i64, login: &str, body: &str) -> Result<Delivery> {
        let mut state = self.shared.state();
        let id = state.new_id();
        let comment =
            Comment { id, number, author: login.to_owned(), by_app: false, body: body.to_owned(), edits: 0 };
        state.repositories.get_mut(repository).context("no such repository")?.comments.push(comment.clone());
        let comment = show_comment(&mut state, &comment);
        let mut payload = payload(&mut state, repository, login, "created")?;
        payload["comment"] = comment;
        payload["issue"] = issue(&mut state, repository, number)?;
        Ok(self.keep(&mut state, "issue_comment", &payload))
    }

    /// A person presses a button of a check run; the webhook is made but not sent.
    pub fn press(&self, repository: &str, check_run: i64, login: &str, identifier: &str) -> Result<Delivery> {
        let mut state = self.shared.state();
        let run = {
            let found = state.repositories.get(repository).context("no such repository")?;
            let run = found.check_runs.iter().find(|run| run.id == check_run);
            checks::shown(run.context("no such check run")?)
        };
        let mut payload = payload(&mut state, repository, login, "requested_action")?;
        payload["check_run"] = run;
        payload["requested_action"] = json!({ "identifier": identifier });
        Ok(self.keep(&mut state, "check_run", &payload))
    }

    /// Something happened to a pull request (`closed`, `synchronize`); the webhook is made but not sent.
    pub fn pull_request_event(&self, repository: &str, number: i64, action: &str) -> Result<Delivery> {
        let mut state = self.shared.state();
        let mut payload = payload(&mut state, repository, "octocat", action)?;
        payload["number"] = json!(number);
        payload["pull_request"] = show_pull(&mut state, repository, number)
            .map_err(|reply| anyhow::anyhow!("no pull request {number}: {}", reply.body))?;
        Ok(self.keep(&mut state, "pull_request", &payload))
    }

    /// A person puts a label on a pull request or issue; the webhook is made but not sent.
    pub fn label(&self, repository: &str, number: i64, login: &str, label: &str) -> Result<Delivery> {
        let mut state = self.shared.state();
        let mut payload = payload(&mut state, repository, login, "labeled")?;
        payload["label"] = json!({ "id": state.new_id(), "name": label });
        let found = state.repositories.get(repository).context("no such repository")?;
        let event = if found.pulls.contains_key(&number) {
            payload["number"] = json!(number);
            payload["pull_request"] = show_pull(&mut state, repository, number)
                .map_err(|reply| anyhow::anyhow!("no pull request {number}: {}", reply.body))?;
            "pull_request"
        } else {
            payload["issue"] = issue(&mut state, repository, number)?;
            "issues"
        };
        Ok(self.keep(&mut state, event, &payload))
    }

    /// Something happened to a check suite on the head of a pull request; `app` is whose it is. The
    /// webhook is made but not sent.
    pub fn check_suite(
        &self,
        repository: &str,
        number: i64,
        login: &str,
        suite: Suite<'_>,
    ) -> Result<Delivery> {
        let mut state = self.shared.state();
        let mut payload = payload(&mut state, repository, login, suite.action)?;
        let pull = show_pull(&mut state, repository, number)
            .map_err(|reply| anyhow::anyhow!("no pull request {number}: {}", reply.body))?;
        // GitHub names no pull request of a fork here.
        let own = pull["head"]["repo"]["id"] == pull["base"]["repo"]["id"];
        let named = if own { json!([{ "number": number }]) } else { json!([]) };
        payload["check_suite"] = json!({
            "id": state.new_id(),
            "head_sha": pull["head"]["sha"],
            "status": if suite.conclusion.is_some() { "completed" } else { "queued" },
            "conclusion": suite.conclusion,
            "pull_requests": named,
            "app": { "id": suite.app },
        });
        Ok(self.keep(&mut state, "check_suite", &payload))
    }

    /// A person writes in a review: in its summary, or on a line. The webhook is made but not sent.
    pub fn review(
        &self,
        repository: &str,
        number: i64,
        login: &str,
        on: ReviewPart,
        body: &str,
    ) -> Result<Delivery> {
        let mut state = self.shared.state();
        let (action, event, member) = match on {
            ReviewPart::Summary => ("submitted", "pull_request_review", "review"),
            ReviewPart::Line => ("created", "pull_request_review_comment", "comment"),
        };
        let mut payload = payload(&mut state, repository, login, action)?;
        payload["pull_request"] = show_pull(&mut state, repository, number)
            .map_err(|reply| anyhow::anyhow!("no pull request {number}: {}", reply.body))?;
        payload[member] = json!({
            "id": state.new_id(), "body": body,
            "user": { "login": login, "id": state.user(login), "type": "User" },
        });
        Ok(self.keep(&mut state, event, &payload))
    }

    /// A branch moved; the webhook is made but not sent.
    pub fn push_event(&self, repository: &str, login: &str, branch: &str) -> Result<Delivery> {
        let mut state = self.shared.state();
        let mut payload = payload(&mut state, repository, login, "")?;
        payload.as_object_mut().context("a payload is an object")?.remove("action");
        payload["ref"] = json!(format!("refs/heads/{branch}"));
        Ok(self.keep(&mut state, "push", &payload))
    }

    /// The owner takes the app from a repository, or from everywhere; the webhook is made but not sent.
    pub fn take_away(&self, repository: Option<&str>) -> Delivery {
        let mut state = self.shared.state();
        let installation = json!({ "id": INSTALLATION });
        let sender = json!({ "login": "octocat", "id": state.user("octocat"), "type": "User" });
        let (event, payload) = match repository {
            Some(full) => (
                "installation_repositories",
                json!({
                    "action": "removed", "installation": installation, "sender": sender,
                    "repositories_removed": [{ "full_name": full }],
                }),
            ),
            None => (
                "installation",
                json!({ "action": "deleted", "installation": installation, "sender": sender }),
            ),
        };
        self.keep(&mut state, event, &payload)
    }

    /// A webhook with any payload; it is made but not sent.
    pub fn event(&self, event: &str, payload: &Value) -> Delivery {
        let mut state = self.shared.state();
        self.keep(&mut state, event, payload)
    }

    /// GitHub's numbers of the deliveries so far, newest first.
    pub fn delivery_numbers(&self) -> Vec<i64> {
        self.shared.state().deliveries.iter().map(|delivery| delivery.id).collect()
    }

    fn keep(&self, state: &mut State, event: &str, payload: &Value) -> Delivery {
        let delivery = Delivery {
            id: state.new_id(),
            guid: uuid::Uuid::new_v4().to_string(),
            event: event.to_owned(),
            body: payload.to_string(),
            status: None,
            at: self.shared.now(),
        };
        state.deliveries.push_front(delivery.clone());
        delivery
    }

    /// Sends a webhook to the configured address and keeps the answer.
    pub async fn send(&self, delivery: &Delivery) -> Result<Delivered> {
        let url = self.shared.state().webhook.clone().context("no webhook address is set")?;
        let response = reqwest::Client::new()
            .post(url)
            .header("content-type", "application/json")
            .header("user-agent", "GitHub-Hookshot/simulated")
            .header("x-github-delivery", &delivery.guid)
            .header("x-github-event", &delivery.event)
            .header("x-hub-signature-256", delivery.signature())
            .body(delivery.body.clone())
            .send()
            .await?;
        let answered = Delivered { status: response.status().as_u16(), text: response.text().await? };
        let mut state = self.shared.state();
        if let Some(kept) = state.deliveries.iter_mut().find(|kept| kept.id == delivery.id) {
            kept.status = Some(answered.status);
        }
        Ok(answered)
    }
}

fn payload(state: &mut State, repository: &str, login: &str, action: &str) -> Result<Value> {
    let shown = show_repository(state, repository)
        .map_err(|reply| anyhow::anyhow!("no repository {repository}: {}", reply.body))?;
    let kind = if login.ends_with("[bot]") { "Bot" } else { "User" };
    Ok(json!({
        "action": action,
        "repository": shown,
        "installation": { "id": INSTALLATION },
        "sender": { "login": login, "id": state.user(login), "type": kind },
    }))
}

fn issue(state: &mut State, repository: &str, number: i64) -> Result<Value> {
    let found = state.repositories.get(repository).context("no such repository")?;
    if found.pulls.contains_key(&number) {
        return Ok(
            json!({ "number": number, "state": "open", "pull_request": { "url": "http://127.0.0.1/" } }),
        );
    }
    let title = found.issues.get(&number).context("no such issue or pull request")?;
    Ok(json!({ "number": number, "state": "open", "title": title.title }))
}

/// `GET app/hook/deliveries`, one delivery, and a new attempt.
pub(super) fn answer(shared: &Shared, method: &str, rest: &[&str], query: &str) -> Result<Reply, Reply> {
    let missing = || Reply::error(404, "Not Found");
    let state = shared.state();
    let find = |id: &str| state.deliveries.iter().find(|kept| kept.id.to_string() == id).ok_or_else(missing);
    match (method, rest) {
        ("GET", []) => {
            let pairs: Vec<(String, String)> =
                url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
            let number = |name: &str| {
                pairs
                    .iter()
                    .find(|(given, _)| given == name)
                    .and_then(|(_, value)| value.parse::<usize>().ok())
            };
            let (from, size) =
                (number("cursor").unwrap_or(0), number("per_page").unwrap_or(30).clamp(1, 100));
            let shown: Vec<Value> =
                state.deliveries.iter().skip(from).take(size).map(|kept| show(kept, Detail::Short)).collect();
            let link = format!("<http://127.0.0.1/next?cursor={}>; rel=\"next\"", from + size);
            let headers =
                if from + size < state.deliveries.len() { vec![("link", link)] } else { Vec::new() };
            Ok(Reply { status: 200, headers, body: Value::Array(shown) })
        }
        ("GET", [id]) => Ok(Reply::json(200, show(find(id)?, Detail::Whole))),
        ("POST", [id, "attempts"]) => find(id).map(|_| Reply::json(202, json!({}))),
        _ => Err(missing()),
    }
}

enum Detail {
    Short,
    Whole,
}

fn show(delivery: &Delivery, detail: Detail) -> Value {
    let payload: Value = serde_json::from_str(&delivery.body).unwrap_or(Value::Null);
    let mut shown = json!({
        "id": delivery.id,
        "guid": delivery.guid,
        "delivered_at": time(delivery.at),
        "redelivery": false,
        "status": if delivery.status.is_some() { "OK" } else { "failed to connect to host" },
        "status_code": delivery.status.unwrap_or(0),
        "event": delivery.event,
        "action": payload["action"],
        "installation_id": payload["installation"]["id"],
        "app_id": APP_ID,
    });
    match detail {
        Detail::Short => {}
        Detail::Whole => {
            let headers = json!({
                "X-GitHub-Delivery": delivery.guid,
                "X-GitHub-Event": delivery.event,
                "X-Hub-Signature-256": delivery.signature(),
            });
            shown["request"] = json!({ "headers": headers, "payload": payload });
        }
    }
    shown
}
