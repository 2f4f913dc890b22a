//! The Git data API over the real repository: objects are written by git, refs move by its rules.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::server::{Call, Reply};
use super::state::Level;
use crate::git::{BareRepository, Recursion, TreeEntry};

pub(super) fn answer(call: &Call<'_>) -> Result<Reply, Reply> {
    let git = {
        let state = call.shared.state();
        let found = state.repositories.get(&call.repository);
        found.ok_or_else(|| Reply::error(404, "Not Found"))?.git.clone()
    };
    match (call.method, call.rest.as_slice()) {
        ("POST", ["git", "blobs"]) => blob(&git, call.body),
        ("POST", ["git", "trees"]) => tree(&git, call.body),
        ("POST", ["git", "commits"]) => commit(&git, call.body),
        ("GET", ["git", "commits", id]) => {
            let known = git.kind(id)?.as_deref() == Some("commit");
            if known { Ok(Reply::json(200, show_commit(&git, id)?)) } else { Err(missing()) }
        }
        ("GET", ["git", "trees", id]) => show_tree(&git, id),
        ("GET", ["git", "ref", name @ ..]) => show_ref(&git, &format!("refs/{}", name.join("/"))),
        ("POST", ["git", "refs"]) => make_ref(call, &git),
        ("PATCH", ["git", "refs", name @ ..]) => move_ref(call, &git, &name.join("/")),
        _ => Err(missing()),
    }
}

fn missing() -> Reply {
    Reply::error(404, "Not Found")
}

fn blob(git: &BareRepository, body: &Value) -> Result<Reply, Reply> {
    let content = body["content"].as_str().unwrap_or_default();
    let bytes = match body["encoding"].as_str() {
        Some("base64") => {
            STANDARD.decode(content).map_err(|_| Reply::invalid("content is not valid Base64"))?
        }
        _ => content.as_bytes().to_vec(),
    };
    let sha = git.write_blob(&bytes)?;
    Ok(Reply::json(201, json!({ "sha": sha, "url": "http://127.0.0.1/" })))
}

fn tree(git: &BareRepository, body: &Value) -> Result<Reply, Reply> {
    let mut entries = Vec::new();
    for entry in body["tree"].as_array().into_iter().flatten() {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let object = match (&entry["sha"], entry["content"].as_str()) {
            (Value::String(sha), None) => {
                if git.kind(sha)?.as_deref() != Some("blob") {
                    return Err(Reply::error(422, "tree.sha is not a valid blob"));
                }
                Some(sha.clone())
            }
            (Value::Null, Some(content)) => Some(git.write_blob(content.as_bytes())?),
            (Value::Null, None) if entry.get("sha").is_some() => None,
            _ => return Err(Reply::error(422, "Must supply either tree.sha or tree.content, not both.")),
        };
        entries.push(TreeEntry { path: text("path"), mode: text("mode"), object });
    }
    let base = body["base_tree"].as_str();
    if let Some(base) = base {
        match git.kind(base)?.as_deref() {
            Some("tree" | "commit") => {}
            _ => return Err(Reply::error(404, "Not Found")),
        }
    }
    let sha = git.make_tree(base, &entries)?;
    Ok(Reply::json(201, json!({ "sha": sha, "url": "http://127.0.0.1/", "truncated": false })))
}

fn commit(git: &BareRepository, body: &Value) -> Result<Reply, Reply> {
    let tree = body["tree"].as_str().unwrap_or_default();
    if git.kind(tree)?.as_deref() != Some("tree") {
        return Err(Reply::error(422, "Tree SHA does not exist"));
    }
    let parents: Vec<&str> =
        body["parents"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for parent in &parents {
        if git.kind(parent)?.as_deref() != Some("commit") {
            return Err(Reply::error(422, "Parent SHA does not exist or is not a commit object"));
        }
    }
    let id = git.make_commit(tree, &parents, body["message"].as_str().unwrap_or_default())?;
    Ok(Reply::json(201, show_commit(git, &id)?))
}

fn show_commit(git: &BareRepository, id: &str) -> Result<Value, Reply> {
    let commit = git.commit(id)?;
    let parents: Vec<Value> = commit.parents.iter().map(|sha| json!({ "sha": sha })).collect();
    Ok(json!({
        "sha": id,
        "tree": { "sha": commit.tree },
        "parents": parents,
        "message": commit.message,
        "verification": { "verified": true, "reason": "valid" },
    }))
}

fn show_tree(git: &BareRepository, id: &str) -> Result<Reply, Reply> {
    if !matches!(git.kind(id)?.as_deref(), Some("tree" | "commit")) {
        return Err(missing());
    }
    let entries: Vec<Value> = git
        .list_tree(id, Recursion::TopOnly)?
        .into_iter()
        .map(|[mode, kind, sha, path]| json!({ "mode": mode, "type": kind, "sha": sha, "path": path }))
        .collect();
    Ok(Reply::json(200, json!({ "sha": id, "tree": entries, "truncated": false })))
}

fn show_ref(git: &BareRepository, name: &str) -> Result<Reply, Reply> {
    let sha = git.resolve(name)?.ok_or_else(missing)?;
    Ok(Reply::json(200, json!({ "ref": name, "object": { "type": "commit", "sha": sha } })))
}

/// `POST git/refs`: a name that is free, a commit that is there, and workflow files only with their own
/// permission.
fn make_ref(call: &Call<'_>, git: &BareRepository) -> Result<Reply, Reply> {
    let text = |name: &str| call.body[name].as_str().unwrap_or_default();
    let (full, new) = (text("ref"), text("sha"));
    if !full.starts_with("refs/") || full.split('/').count() < 3 {
        return Err(Reply::error(
            422,
            "Reference name must start with 'refs/' and have at least two slashes",
        ));
    }
    if git.kind(new)?.as_deref() != Some("commit") {
        return Err(Reply::error(422, "Object does not exist"));
    }
    if git.resolve(full)?.is_some() {
        return Err(Reply::error(422, "Reference already exists"));
    }
    let main = git.resolve("refs/heads/main")?.ok_or_else(missing)?;
    let workflows = git.changed_paths(&main, new)?.iter().any(|path| path.starts_with(".github/workflows/"));
    if workflows && call.token.permissions.get("workflows") != Some(&Level::Write) {
        return Err(Reply::error(403, "Resource not accessible by integration"));
    }
    git.update_ref(full, new)?;
    Ok(Reply::json(201, json!({ "ref": full, "object": { "type": "commit", "sha": new } })))
}

/// `PATCH git/refs/{name}`: only forwards unless forced, never a protected branch, and workflow files
/// only with their own permission.
fn move_ref(call: &Call<'_>, git: &BareRepository, name: &str) -> Result<Reply, Reply> {
    let full = format!("refs/{name}");
    let new = call.body["sha"].as_str().unwrap_or_default();
    let old = git.resolve(&full)?.ok_or_else(|| Reply::error(422, "Reference does not exist"))?;
    if git.kind(new)?.as_deref() != Some("commit") {
        return Err(Reply::error(422, "Object does not exist"));
    }
    if call.body["force"] != json!(true) && !git.is_ancestor(&old, new)? {
        return Err(Reply::error(422, "Update is not a fast forward"));
    }
    let protected = {
        let state = call.shared.state();
        let branch = name.strip_prefix("heads/").unwrap_or(name);
        state.repositories.get(&call.repository).is_some_and(|found| found.protected.contains(branch))
    };
    if protected {
        return Err(Reply::error(
            422,
            "Repository rule violations found\n\nChanges must be made through a pull request.",
        ));
    }
    let workflows = git.changed_paths(&old, new)?.iter().any(|path| path.starts_with(".github/workflows/"));
    if workflows && call.token.permissions.get("workflows") != Some(&Level::Write) {
        return Err(Reply::error(403, "Resource not accessible by integration"));
    }
    if !git.compare_and_set_ref(&full, new, &old)? {
        return Err(Reply::error(409, "Reference cannot be updated"));
    }
    call.shared.state().follow_branches()?;
    Ok(Reply::json(200, json!({ "ref": full, "object": { "type": "commit", "sha": new } })))
}
