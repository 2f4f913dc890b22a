//! Pull requests that the app lists and opens, their files, and its reviews with suggestions.

use serde_json::{Value, json};

use super::SimulatedGitHub;
use super::conversation::show_pull;
use super::server::{Call, Reply};
use super::state::{Pull, Review};

/// GitHub gives no patch for larger files.
const MAX_PATCH: usize = 1 << 20;

impl SimulatedGitHub {
    /// The app's reviews of a pull request, oldest first.
    pub fn reviews(&self, repository: &str, number: i64) -> Vec<Review> {
        let state = self.shared.state();
        let reviews = state.repositories.get(repository).map(|found| found.reviews.as_slice());
        reviews.unwrap_or_default().iter().filter(|review| review.number == number).cloned().collect()
    }

    /// A pull request as the REST API shows it.
    pub fn pull(&self, repository: &str, number: i64) -> Option<Value> {
        show_pull(&mut self.shared.state(), repository, number).ok()
    }
}

fn missing() -> Reply {
    Reply::error(404, "Not Found")
}

fn number_of(text: &str) -> Result<i64, Reply> {
    text.parse().map_err(|_| missing())
}

pub(super) fn answer(call: &Call<'_>) -> Result<Reply, Reply> {
    match (call.method, call.rest.as_slice()) {
        ("GET", ["pulls"]) => list(call),
        ("POST", ["pulls"]) => open(call),
        ("GET", ["pulls", number]) => {
            let number = number_of(number)?;
            Ok(Reply::json(200, show_pull(&mut call.shared.state(), &call.repository, number)?))
        }
        ("GET", ["pulls", number, "files"]) => files(call, number_of(number)?),
        ("GET", ["pulls", number, "reviews"]) => {
            let (number, state) = (number_of(number)?, call.shared.state());
            let found = state.repositories.get(&call.repository).ok_or_else(missing)?;
            let reviews = found.reviews.iter().filter(|review| review.number == number);
            let (page, headers) = call.page(reviews.map(show_review).collect());
            Ok(Reply { status: 200, headers, body: Value::Array(page) })
        }
        ("POST", ["pulls", number, "reviews"]) => review(call, number_of(number)?),
        _ => Err(missing()),
    }
}

fn list(call: &Call<'_>) -> Result<Reply, Reply> {
    let mut state = call.shared.state();
    let found = state.repositories.get(&call.repository).ok_or_else(missing)?;
    let numbers: Vec<i64> = found.pulls.keys().rev().copied().collect();
    let mut shown = Vec::new();
    for number in numbers {
        let pull = show_pull(&mut state, &call.repository, number)?;
        let head = format!(
            "{}:{}",
            pull["head"]["repo"]["owner"]["login"].as_str().unwrap_or_default(),
            pull["head"]["ref"].as_str().unwrap_or_default()
        );
        let in_state = match call.query("state").unwrap_or("open") {
            "all" => true,
            wanted => pull["state"] == wanted,
        };
        if in_state && call.query("head").is_none_or(|wanted| wanted == head) {
            shown.push(pull);
        }
    }
    let (page, headers) = call.page(shown);
    Ok(Reply { status: 200, headers, body: Value::Array(page) })
}

fn open(call: &Call<'_>) -> Result<Reply, Reply> {
    let text = |name: &str| call.body[name].as_str().unwrap_or_default().to_owned();
    let (head, base) = (text("head"), text("base"));
    let mut state = call.shared.state();
    let found = state.repositories.get_mut(&call.repository).ok_or_else(missing)?;
    for (branch, field) in [(&head, "head"), (&base, "base")] {
        if found.git.resolve(&format!("refs/heads/{branch}"))?.is_none() {
            return Err(Reply::invalid(&format!("PullRequest {field} invalid")));
        }
    }
    let same = |pull: &Pull| pull.open && pull.head_branch == head && pull.base_branch == base;
    if found.pulls.values().any(same) {
        return Err(Reply::invalid(&format!("A pull request already exists for {head}.")));
    }
    let number = found.pulls.keys().chain(found.issues.keys()).max().copied().unwrap_or(0) + 1;
    let pull = Pull {
        title: text("title"),
        author: Some("whipstitch-test[bot]".to_owned()),
        open: true,
        head_repository: Some(call.repository.clone()),
        head_branch: head,
        base_branch: base,
        maintainer_can_modify: true,
        body: text("body"),
    };
    found.pulls.insert(number, pull);
    state.follow_branches()?;
    Ok(Reply::json(201, show_pull(&mut state, &call.repository, number)?))
}

fn files(call: &Call<'_>, number: i64) -> Result<Reply, Reply> {
    let state = call.shared.state();
    let found = state.repositories.get(&call.repository).ok_or_else(missing)?;
    let pull = found.pulls.get(&number).ok_or_else(missing)?;
    let head = found.git.resolve(&format!("refs/pull/{number}/head"))?.ok_or_else(missing)?;
    let base = found.git.resolve(&format!("refs/heads/{}", pull.base_branch))?.ok_or_else(missing)?;
    let mut shown = Vec::new();
    for path in found.git.changed_paths(&base, &head)? {
        let patch = found.git.diff_of(&base, &head, &path)?;
        // The file's head is not part of what GitHub shows, the hunks are.
        let hunks =
            patch.find("@@ ").map(|at| patch[at..].to_owned()).filter(|patch| patch.len() < MAX_PATCH);
        shown.push(json!({ "filename": path, "status": "modified", "patch": hunks }));
    }
    let (page, headers) = call.page(shown);
    Ok(Reply { status: 200, headers, body: Value::Array(page) })
}

fn review(call: &Call<'_>, number: i64) -> Result<Reply, Reply> {
    let Reply { body: files, .. } = files(call, number)?;
    let mut state = call.shared.state();
    let id = state.new_id();
    let found = state.repositories.get_mut(&call.repository).ok_or_else(missing)?;
    let comments = call.body["comments"].as_array().cloned().unwrap_or_default();
    for comment in &comments {
        let file = files.as_array().into_iter().flatten().find(|file| file["filename"] == comment["path"]);
        let patch = file.and_then(|file| file["patch"].as_str()).unwrap_or_default();
        let lines = ["start_line", "line"].iter().filter_map(|name| comment[name].as_u64());
        if !lines.clone().all(|line| shows(patch, line)) || lines.count() == 0 {
            return Err(Reply::error(422, "Unprocessable Entity: Line could not be resolved"));
        }
    }
    let body = call.body["body"].as_str().unwrap_or_default().to_owned();
    let review = Review { id, number, body, comments };
    let reply = Reply::json(200, show_review(&review));
    found.reviews.push(review);
    Ok(reply)
}

/// Whether a patch shows this line of the new side.
fn shows(patch: &str, line: u64) -> bool {
    let mut at = 0;
    for text in patch.lines() {
        if let Some(head) = text.strip_prefix("@@ -") {
            let new = head.split('+').nth(1).unwrap_or_default();
            let first: String = new.chars().take_while(char::is_ascii_digit).collect();
            at = first.parse().unwrap_or(0);
        } else if !text.starts_with('-') {
            if at == line {
                return true;
            }
            at += 1;
        }
    }
    false
}

fn show_review(review: &Review) -> Value {
    json!({
        "id": review.id,
        "body": review.body,
        "user": { "login": "whipstitch-test[bot]", "type": "Bot" },
        "state": "COMMENTED",
        "html_url": format!("http://127.0.0.1/reviews/{}", review.id),
    })
}
