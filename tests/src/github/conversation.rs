//! Repositories, pull requests, comments, collaborators and file contents.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::APP_ID;
use super::server::{Call, Reply};
use super::state::{Comment, Repository, State, Visibility};

/// The contents API gives no more than this as base64.
const MAX_CONTENT: usize = 1 << 20;

pub(super) fn answer(call: &Call<'_>) -> Result<Reply, Reply> {
    let mut state = call.shared.state();
    match (call.method, call.rest.as_slice()) {
        ("GET", []) => Ok(Reply::json(200, show_repository(&state, &call.repository)?)),
        ("GET", ["collaborators", login, "permission"]) => permission(&mut state, call, login),
        ("GET", ["contents", path @ ..]) => contents(found(&state, call)?, call, &path.join("/")),
        ("GET", ["issues", number]) => {
            let number: i64 = number.parse().map_err(|_| missing())?;
            let issue = found(&state, call)?.issues.get(&number).ok_or_else(missing)?;
            let shown = if issue.open { "open" } else { "closed" };
            Ok(Reply::json(200, json!({ "number": number, "title": issue.title, "state": shown })))
        }
        ("GET", ["issues", number, "comments"]) => {
            let number: i64 = number.parse().map_err(|_| missing())?;
            let shown: Vec<Comment> = found(&state, call)?
                .comments
                .iter()
                .filter(|comment| comment.number == number)
                .cloned()
                .collect();
            let shown = shown.iter().map(|comment| show_comment(&mut state, comment)).collect();
            let (page, headers) = call.page(shown);
            Ok(Reply { status: 200, headers, body: Value::Array(page) })
        }
        ("POST", ["issues", number, "comments"]) => comment(&mut state, call, number),
        ("PATCH", ["issues", "comments", id]) => edit_comment(&mut state, call, id),
        _ => Err(missing()),
    }
}

fn missing() -> Reply {
    Reply::error(404, "Not Found")
}

fn found<'a>(state: &'a State, call: &Call<'_>) -> Result<&'a Repository, Reply> {
    state.repositories.get(&call.repository).ok_or_else(missing)
}

pub(super) fn show_repository(state: &State, full: &str) -> Result<Value, Reply> {
    let repository = state.repositories.get(full).ok_or_else(missing)?;
    let (owner, name) = full.split_once('/').ok_or_else(missing)?;
    Ok(json!({
        "id": repository.id,
        "name": name,
        "full_name": full,
        "private": repository.visibility == Visibility::Private,
        "owner": { "login": owner, "id": state.users.get(owner), "type": "Organization" },
        "default_branch": repository.default_branch,
        "archived": repository.archived,
    }))
}

/// The role that a person has; on a public repository everybody reads.
fn permission(state: &mut State, call: &Call<'_>, login: &str) -> Result<Reply, Reply> {
    let id = *state.users.get(login).ok_or_else(missing)?;
    let repository = found(state, call)?;
    let role = match (repository.roles.get(login), repository.visibility) {
        (Some(role), _) => role.as_str(),
        (None, Visibility::Public) => "read",
        (None, Visibility::Private) => "none",
    };
    let coarse = match role {
        "admin" => "admin",
        "maintain" | "write" => "write",
        "none" => "none",
        _ => "read",
    };
    let body = json!({
        "permission": coarse,
        "role_name": role,
        "user": { "login": login, "id": id, "type": "User" },
    });
    Ok(Reply::json(200, body))
}

pub(super) fn show_pull(state: &mut State, full: &str, number: i64) -> Result<Value, Reply> {
    let repository = state.repositories.get(full).ok_or_else(missing)?;
    let pull = repository.pulls.get(&number).ok_or_else(missing)?.clone();
    let head = repository.git.resolve(&format!("refs/pull/{number}/head"))?.ok_or_else(missing)?;
    let base = repository.git.resolve(&format!("refs/heads/{}", pull.base_branch))?;
    let head_repository = match &pull.head_repository {
        Some(name) => show_repository(state, name)?,
        None => Value::Null,
    };
    let author = pull
        .author
        .as_deref()
        .map(|login| json!({ "login": login, "id": state.user(login), "type": "User" }));
    let base_repository = show_repository(state, full)?;
    Ok(json!({
        "number": number,
        "state": if pull.open { "open" } else { "closed" },
        "title": pull.title,
        "body": pull.body,
        "user": author,
        "maintainer_can_modify": pull.maintainer_can_modify,
        "head": { "ref": pull.head_branch, "sha": head, "repo": head_repository },
        "base": { "ref": pull.base_branch, "sha": base, "repo": base_repository },
    }))
}

fn contents(repository: &Repository, call: &Call<'_>, path: &str) -> Result<Reply, Reply> {
    let commit = call.query("ref").unwrap_or(&repository.default_branch);
    let git = &repository.git;
    let object = git.resolve(&format!("{commit}:{path}"))?.ok_or_else(missing)?;
    if git.kind(&object)?.as_deref() == Some("tree") {
        let entries = git.list_tree(&object, crate::git::Recursion::TopOnly)?;
        let shown = entries.into_iter().map(|[_, _, sha, name]| json!({ "name": name, "sha": sha }));
        return Ok(Reply::json(200, shown.collect()));
    }
    let bytes = git.blob(&object)?;
    let (encoding, content) = if bytes.len() > MAX_CONTENT {
        ("none", String::new())
    } else {
        let digits = STANDARD.encode(&bytes);
        let lines: Vec<&str> =
            digits.as_bytes().chunks(60).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        ("base64", lines.join("\n"))
    };
    let body = json!({
        "type": "file", "path": path, "sha": object, "size": bytes.len(),
        "encoding": encoding, "content": content,
    });
    Ok(Reply::json(200, body))
}

fn comment(state: &mut State, call: &Call<'_>, number: &str) -> Result<Reply, Reply> {
    let number: i64 = number.parse().map_err(|_| missing())?;
    let id = state.new_id();
    let body = checked_text(call.body)?;
    let repository = state.repositories.get_mut(&call.repository).ok_or_else(missing)?;
    if !repository.pulls.contains_key(&number) && !repository.issues.contains_key(&number) {
        return Err(missing());
    }
    let comment =
        Comment { id, number, author: "whipstitch-test[bot]".to_owned(), by_app: true, body, edits: 0 };
    repository.comments.push(comment.clone());
    Ok(Reply::json(201, show_comment(state, &comment)))
}

fn edit_comment(state: &mut State, call: &Call<'_>, id: &str) -> Result<Reply, Reply> {
    let body = checked_text(call.body)?;
    let repository = state.repositories.get_mut(&call.repository).ok_or_else(missing)?;
    let comment = repository.comments.iter_mut().find(|comment| comment.id.to_string() == id);
    let comment = comment.ok_or_else(missing)?;
    comment.body = body;
    comment.edits += 1;
    let comment = comment.clone();
    Ok(Reply::json(200, show_comment(state, &comment)))
}

fn checked_text(body: &Value) -> Result<String, Reply> {
    let text = body["body"].as_str().unwrap_or_default();
    match text.chars().count() {
        0 => Err(Reply::invalid("body can't be blank")),
        1..=65_536 => Ok(text.to_owned()),
        _ => Err(Reply::invalid("body is too long (maximum is 65536 characters)")),
    }
}

pub(super) fn show_comment(state: &mut State, comment: &Comment) -> Value {
    let kind = if comment.by_app { "Bot" } else { "User" };
    json!({
        "id": comment.id,
        "html_url": format!("http://127.0.0.1/comments/{}", comment.id),
        "body": comment.body,
        "user": { "login": comment.author, "id": state.user(&comment.author), "type": kind },
        "author_association": "NONE",
        "performed_via_github_app": if comment.by_app { json!({ "id": APP_ID }) } else { Value::Null },
    })
}
