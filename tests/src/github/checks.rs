//! Check runs, with the limits that GitHub documents.

use serde_json::{Value, json};

use super::APP_ID;
use super::access::time;
use super::server::{Call, Reply};
use super::state::CheckRun;

pub(super) fn answer(call: &Call<'_>) -> Result<Reply, Reply> {
    match (call.method, call.rest.as_slice()) {
        ("POST", ["check-runs"]) => create(call),
        ("GET", ["check-runs", id]) => with_run(call, id, |run| Ok(shown(run))),
        ("PATCH", ["check-runs", id]) => {
            let now = call.shared.now();
            with_run(call, id, |run| {
                change(run, call.body, now)?;
                run.updates += 1;
                Ok(shown(run))
            })
        }
        ("GET", ["check-runs", id, "annotations"]) => {
            with_run(call, id, |run| Ok(Value::Array(run.annotations.clone())))
        }
        _ => Err(Reply::error(404, "Not Found")),
    }
}

/// `GET commits/{ref}/check-runs`.
pub(super) fn list(call: &Call<'_>) -> Result<Reply, Reply> {
    let ["commits", commit, "check-runs"] = call.rest.as_slice() else {
        return Err(Reply::error(404, "Not Found"));
    };
    let state = call.shared.state();
    let repository =
        state.repositories.get(&call.repository).ok_or_else(|| Reply::error(404, "Not Found"))?;
    let commit = repository
        .git
        .resolve(commit)?
        .ok_or_else(|| Reply::error(422, &format!("No commit found for SHA: {commit}")))?;
    let ours = call.query("app_id").is_none_or(|id| id == APP_ID.to_string());
    let mut runs: Vec<&CheckRun> = repository
        .check_runs
        .iter()
        .rev()
        .filter(|run| ours && run.head_sha == commit)
        .filter(|run| call.query("check_name").is_none_or(|name| name == run.name))
        .filter(|run| call.query("status").is_none_or(|status| status == run.status))
        .collect();
    if call.query("filter") != Some("all") {
        let mut seen = std::collections::BTreeSet::new();
        runs.retain(|run| seen.insert(&run.name));
    }
    let total = runs.len();
    let (page, headers) = call.page(runs.into_iter().map(shown).collect());
    Ok(Reply { status: 200, headers, body: json!({ "total_count": total, "check_runs": page }) })
}

fn create(call: &Call<'_>) -> Result<Reply, Reply> {
    let now = call.shared.now();
    let mut state = call.shared.state();
    let id = state.new_id();
    let repository =
        state.repositories.get_mut(&call.repository).ok_or_else(|| Reply::error(404, "Not Found"))?;
    let head = call.body["head_sha"].as_str().unwrap_or_default();
    if head.len() != 40 || repository.git.kind(head)?.as_deref() != Some("commit") {
        return Err(Reply::error(422, &format!("No commit found for SHA: {head}")));
    }
    let mut run = CheckRun {
        id,
        name: String::new(),
        head_sha: head.to_owned(),
        external_id: String::new(),
        status: "queued".to_owned(),
        conclusion: None,
        started_at: None,
        completed_at: None,
        details_url: None,
        title: String::new(),
        summary: String::new(),
        text: String::new(),
        annotations: Vec::new(),
        actions: Vec::new(),
        updates: 0,
    };
    change(&mut run, call.body, now)?;
    let body = shown(&run);
    repository.check_runs.push(run);
    Ok(Reply::json(201, body))
}

fn with_run(
    call: &Call<'_>,
    id: &str,
    work: impl FnOnce(&mut CheckRun) -> Result<Value, Reply>,
) -> Result<Reply, Reply> {
    let mut state = call.shared.state();
    let repository =
        state.repositories.get_mut(&call.repository).ok_or_else(|| Reply::error(404, "Not Found"))?;
    let found = repository.check_runs.iter_mut().find(|run| run.id.to_string() == id);
    Ok(Reply::json(200, work(found.ok_or_else(|| Reply::error(404, "Not Found"))?)?))
}

/// Puts a request's members over the check run; annotations are appended.
fn change(run: &mut CheckRun, body: &Value, now: i64) -> Result<(), Reply> {
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    let set = |field: &mut String, value: Option<String>| {
        if let Some(value) = value {
            *field = value;
        }
    };
    set(&mut run.name, text("name"));
    set(&mut run.external_id, text("external_id"));
    set(&mut run.status, text("status"));
    run.started_at = text("started_at").or(run.started_at.take());
    run.details_url = text("details_url").or(run.details_url.take());
    if let Some(url) = &run.details_url
        && !(url.starts_with("https://") || url.starts_with("http://"))
    {
        return Err(Reply::invalid("details_url must use the http or https scheme"));
    }
    match text("conclusion") {
        Some(conclusion) => {
            run.status = "completed".to_owned();
            run.completed_at = text("completed_at").or_else(|| Some(time(now)));
            run.conclusion = Some(conclusion);
        }
        None if run.status == "completed" && body["status"].is_string() => {
            return Err(Reply::invalid("conclusion is required when the status is completed"));
        }
        None if body["status"].is_string() => (run.conclusion, run.completed_at) = (None, None),
        None => {}
    }
    let output = &body["output"];
    if output.is_object() {
        let part = |name: &str| output[name].as_str().map(str::to_owned);
        if part("title").is_none_or(|title| title.is_empty()) {
            return Err(Reply::invalid("output.title is missing"));
        }
        set(&mut run.title, part("title"));
        set(&mut run.summary, part("summary"));
        set(&mut run.text, part("text"));
        for annotation in output["annotations"].as_array().into_iter().flatten() {
            check_annotation(annotation)?;
            run.annotations.push(annotation.clone());
        }
    }
    if let Some(actions) = body["actions"].as_array() {
        run.actions = actions.clone();
    }
    Ok(())
}

fn check_annotation(annotation: &Value) -> Result<(), Reply> {
    let line = |name: &str| annotation[name].as_i64().unwrap_or(0);
    if line("start_line") < 1 || line("end_line") < line("start_line") {
        return Err(Reply::invalid("an annotation's lines are out of order"));
    }
    let one_line = line("start_line") == line("end_line");
    if !one_line && annotation.get("start_column").is_some() {
        return Err(Reply::invalid("columns need a single line"));
    }
    if annotation["path"].as_str().is_none_or(str::is_empty) {
        return Err(Reply::invalid("an annotation has no path"));
    }
    let size = |name: &str| annotation[name].as_str().map_or(0, str::len);
    if size("message") > 64 << 10 || size("raw_details") > 64 << 10 {
        return Err(Reply::invalid("an annotation's message is over 64 KB"));
    }
    if annotation["title"].as_str().is_some_and(|title| title.chars().count() > 255) {
        return Err(Reply::invalid("an annotation's title is over 255 characters"));
    }
    Ok(())
}

pub(super) fn shown(run: &CheckRun) -> Value {
    json!({
        "id": run.id,
        "name": run.name,
        "head_sha": run.head_sha,
        "external_id": run.external_id,
        "status": run.status,
        "conclusion": run.conclusion,
        "started_at": run.started_at,
        "completed_at": run.completed_at,
        "details_url": run.details_url,
        "html_url": format!("http://127.0.0.1/runs/{}", run.id),
        "app": { "id": APP_ID, "slug": "whipstitch-test" },
        "pull_requests": [],
        "output": {
            "title": run.title,
            "summary": run.summary,
            "text": run.text,
            "annotations_count": run.annotations.len(),
        },
    })
}
