//! GitHub's webhook payloads, read leniently: what is not there or has a new form is a reason to
//! ignore the event, never an error. Only members that a decision needs are looked at.
//!
//! Whoever acts is always the `sender`; nothing is ever taken from a comment's author.

use jobs::event::{
    AccessChange, CheckActionEvent, CheckSuiteChange, CheckSuiteEvent, CommentEvent, Event, LabelEvent,
    PullRequestChange, SenderKind,
};
use jobs::forge::{Account, CommentPlace, ForgeKind, Repository, Subject};
use serde_json::Value;

/// Pull requests of one check suite that are looked at.
const MOST_PULL_REQUESTS: usize = 10;

/// What the event `name` (the `X-GitHub-Event` header) with this body means to the app `app_id`.
pub fn parse(app_id: i64, name: &str, body: &[u8]) -> Event {
    let payload: Value = match serde_json::from_slice(body) {
        Ok(payload) => payload,
        Err(error) => return ignored(format!("the body is no JSON: {error}")),
    };
    let action = payload["action"].as_str().unwrap_or_default();
    let read = match (name, action) {
        ("ping", _) => Ok(Event::Ping),
        ("issue_comment", "created") => comment(app_id, &payload, CommentPlace::Conversation),
        ("pull_request_review_comment", "created") => comment(app_id, &payload, CommentPlace::Line),
        ("pull_request_review", "submitted") => comment(app_id, &payload, CommentPlace::Review),
        ("issue_comment" | "pull_request_review_comment" | "pull_request_review", "edited") => {
            Err("an edited comment starts nothing".to_owned())
        }
        ("issue_comment" | "pull_request_review_comment", "deleted") => {
            Err("a deleted comment changes nothing in what was admitted".to_owned())
        }
        ("check_run", "requested_action" | "rerequested") => check_action(app_id, &payload, action),
        ("pull_request", "closed") => pull_request(&payload, PullRequestChange::Closed),
        ("pull_request", "synchronize") => pull_request(&payload, PullRequestChange::HeadMoved),
        ("pull_request" | "issues", "labeled") => label(&payload),
        ("check_suite", "requested") => check_suite(app_id, &payload, CheckSuiteChange::Requested),
        ("check_suite", "rerequested") => check_suite(app_id, &payload, CheckSuiteChange::Rerequested),
        ("check_suite", "completed") => check_suite(app_id, &payload, CheckSuiteChange::Failed),
        ("push", _) => push(&payload),
        ("installation", "deleted" | "suspend") => access(&payload, Vec::new()),
        ("installation_repositories", "removed") => match removed(&payload) {
            names if names.is_empty() => Err("no repository was removed".to_owned()),
            names => access(&payload, names),
        },
        ("installation", "created" | "unsuspend" | "new_permissions_accepted")
        | ("installation_repositories", "added") => installation(&payload)
            .map(|installation| Event::Access { installation, change: AccessChange::Gained }),
        (_, "") => Err(format!("nothing is done on {}", word(name))),
        (_, _) => Err(format!("nothing is done on {} {}", word(name), word(action))),
    };
    read.unwrap_or_else(ignored)
}

fn ignored(why: String) -> Event {
    Event::Ignored { why }
}

/// A name from outside, fit for a counter's label: at most 40 of GitHub's own letters.
fn word(text: &str) -> String {
    let plain: String = text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect();
    if plain.is_empty() { "an unnamed event".to_owned() } else { plain }
}

type Read<T> = Result<T, String>;

fn comment(app_id: i64, payload: &Value, place: CommentPlace) -> Read<Event> {
    let (sender, sender_kind) = sender(payload)?;
    let (subject, comment) = match place {
        CommentPlace::Conversation => (issue(payload)?, &payload["comment"]),
        CommentPlace::Line => (pull_request_of(payload)?, &payload["comment"]),
        CommentPlace::Review => (pull_request_of(payload)?, &payload["review"]),
    };
    // An app that acts in a person's name is still an app.
    let by_app = &comment["performed_via_github_app"];
    let app = id(&by_app["id"]);
    if app == Some(app_id) {
        return Err("our own comments are never read".to_owned());
    }
    Ok(Event::Comment(CommentEvent {
        repository: repository(payload)?,
        subject,
        comment_id: id(&comment["id"]).ok_or("the comment has no id")?,
        body: comment["body"].as_str().ok_or("the comment has no text")?.to_owned(),
        sender,
        sender_kind: if by_app.is_object() { SenderKind::Bot } else { sender_kind },
        place,
        app,
    }))
}

/// The issue of a payload, which is a pull request where it says so.
fn issue(payload: &Value) -> Read<Subject> {
    let number = id(&payload["issue"]["number"]).ok_or("the issue has no number")?;
    Ok(if payload["issue"]["pull_request"].is_object() {
        Subject::PullRequest { number }
    } else {
        Subject::Issue { number }
    })
}

fn pull_request_of(payload: &Value) -> Read<Subject> {
    let number = id(&payload["number"]).or_else(|| id(&payload["pull_request"]["number"]));
    Ok(Subject::PullRequest { number: number.ok_or("the pull request has no number")? })
}

fn label(payload: &Value) -> Read<Event> {
    let (sender, sender_kind) = sender(payload)?;
    let subject = if payload["issue"].is_object() { issue(payload)? } else { pull_request_of(payload)? };
    let label = payload["label"]["name"].as_str().ok_or("the label has no name")?.to_owned();
    Ok(Event::Label(LabelEvent { repository: repository(payload)?, subject, label, sender, sender_kind }))
}

fn check_suite(app_id: i64, payload: &Value, change: CheckSuiteChange) -> Read<Event> {
    let suite = &payload["check_suite"];
    let ours = id(&suite["app"]["id"]).is_some_and(|owner| owner == app_id);
    match (change, ours) {
        (CheckSuiteChange::Failed, true) => return Err("it is our own check suite".to_owned()),
        (CheckSuiteChange::Requested | CheckSuiteChange::Rerequested, false) => {
            return Err("the check suite belongs to another app".to_owned());
        }
        (CheckSuiteChange::Failed, false)
        | (CheckSuiteChange::Requested | CheckSuiteChange::Rerequested, true) => {}
    }
    let red = matches!(suite["conclusion"].as_str(), Some("failure" | "timed_out" | "startup_failure"));
    if change == CheckSuiteChange::Failed && !red {
        return Err("the check suite did not end red".to_owned());
    }
    let (sender, sender_kind) = sender(payload)?;
    let head = suite["head_sha"].as_str().and_then(|head| head.parse().ok());
    let listed = suite["pull_requests"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Event::CheckSuite(CheckSuiteEvent {
        repository: repository(payload)?,
        change,
        head: head.ok_or("the check suite names no commit")?,
        pull_requests: listed
            .iter()
            .filter_map(|pull| id(&pull["number"]))
            .take(MOST_PULL_REQUESTS)
            .collect(),
        sender,
        sender_kind,
    }))
}

fn push(payload: &Value) -> Read<Event> {
    let branch = payload["ref"].as_str().and_then(|name| name.strip_prefix("refs/heads/"));
    let branch = branch.ok_or("no branch was pushed to")?.to_owned();
    Ok(Event::Push { repository: repository(payload)?, branch })
}

fn access(payload: &Value, repositories: Vec<String>) -> Read<Event> {
    let change = AccessChange::Lost { repositories };
    Ok(Event::Access { installation: installation(payload)?, change })
}

/// `owner/name` of what the app may no longer reach.
fn removed(payload: &Value) -> Vec<String> {
    let listed = payload["repositories_removed"].as_array().map(Vec::as_slice).unwrap_or_default();
    listed.iter().filter_map(|entry| entry["full_name"].as_str()).map(str::to_owned).collect()
}

fn installation(payload: &Value) -> Read<i64> {
    Ok(id(&payload["installation"]["id"]).ok_or("the event names no installation")?)
}

fn check_action(app_id: i64, payload: &Value, action: &str) -> Read<Event> {
    let check_run = &payload["check_run"];
    if id(&check_run["app"]["id"]).is_some_and(|owner| owner != app_id) {
        return Err("the check run belongs to another app".to_owned());
    }
    let (sender, sender_kind) = sender(payload)?;
    let asked = if action == "rerequested" {
        "rerun"
    } else {
        payload["requested_action"]["identifier"].as_str().ok_or("the button has no identifier")?
    };
    Ok(Event::CheckAction(CheckActionEvent {
        repository: repository(payload)?,
        check_run_id: id(&check_run["id"]).ok_or("the check run has no id")?,
        external_id: check_run["external_id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned),
        action: asked.to_owned(),
        sender,
        sender_kind,
    }))
}

fn pull_request(payload: &Value, change: PullRequestChange) -> Read<Event> {
    let number = pull_request_of(payload)?.number().ok_or("the pull request has no number")?;
    Ok(Event::PullRequest { repository: repository(payload)?, number, change })
}

fn sender(payload: &Value) -> Read<(Account, SenderKind)> {
    let sender = &payload["sender"];
    let account = Account {
        id: id(&sender["id"]).ok_or("the event has no sender")?,
        login: sender["login"].as_str().ok_or("the sender has no login")?.to_owned(),
    };
    let person = sender["type"].as_str().is_none_or(|kind| kind == "User");
    let bot = !person || account.login.ends_with("[bot]");
    Ok((account, if bot { SenderKind::Bot } else { SenderKind::Person }))
}

fn repository(payload: &Value) -> Read<Repository> {
    let repository = &payload["repository"];
    let name = repository["name"].as_str().ok_or("the event names no repository")?;
    let full_name = repository["full_name"].as_str().and_then(|full| full.split_once('/'));
    let owner = repository["owner"]["login"]
        .as_str()
        .or(full_name.map(|(owner, _)| owner))
        .ok_or("the repository has no owner")?;
    if !is_name(owner) || !is_name(name) {
        return Err("the repository's name has characters that GitHub does not use".to_owned());
    }
    let installation = id(&payload["installation"]["id"])
        .ok_or("the event names no installation of the app, so nothing may be asked")?;
    Ok(Repository { forge: ForgeKind::Github, owner: owner.to_owned(), name: name.to_owned(), installation })
}

/// Whether `text` may be an owner or a repository: it becomes part of a path.
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
        && text.len() <= 100
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// An id or number: a positive integer, or its digits in a string.
fn id(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok()).filter(|id| *id > 0)
}

#[cfg(test)]
mod tests;
