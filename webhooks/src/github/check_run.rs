//! Check runs: found by our external id, else created; annotations appended exactly once.

use jobs::clock::Millis;
use jobs::forge::Repository;
use serde_json::{Value, json};

use super::GitHub;
use super::client::Request;
use super::credentials::Use;
use super::error::ApiError;
use super::read::unreadable;
use super::route::{self, Listing};
use crate::forge::{ANNOTATION_BATCH, Annotation, CheckRun, CheckStatus, Posted};

/// A check run that GitHub already has.
struct Existing {
    id: i64,
    /// Annotations that it already shows; they are the first of ours, in order.
    annotations: usize,
    url: Option<String>,
}

impl GitHub {
    pub(super) async fn put_check_run(
        &self,
        repository: &Repository,
        check: &CheckRun,
    ) -> Result<Posted, ApiError> {
        let existing = match self.find_check_run(repository, check).await? {
            Some(existing) => {
                let rest = check.annotations.get(existing.annotations..).unwrap_or_default();
                let batch = &rest[..rest.len().min(ANNOTATION_BATCH)];
                self.update(repository, check, existing.id, batch).await?;
                Existing { annotations: existing.annotations + batch.len(), ..existing }
            }
            None => self.create(repository, check).await?,
        };
        let rest = check.annotations.get(existing.annotations..).unwrap_or_default();
        for batch in rest.chunks(ANNOTATION_BATCH) {
            self.update(repository, check, existing.id, batch).await?;
        }
        Ok(Posted { id: existing.id.to_string(), url: existing.url })
    }

    async fn find_check_run(
        &self,
        repository: &Repository,
        check: &CheckRun,
    ) -> Result<Option<Existing>, ApiError> {
        let path = route::of(
            repository,
            &format!(
                "/commits/{}/check-runs?app_id={}&check_name={}&filter=all",
                check.head,
                self.credentials.app_id(),
                route::escape(&check.name)
            ),
        );
        let what = format!("the check runs of {} in {repository}", check.head);
        let list = Listing { path: &path, member: Some("check_runs"), what: &what };
        route::find_in_pages(&self.credentials, repository, Use::Checks, list, |run| {
            let ours = run["external_id"].as_str() == Some(&check.external_id)
                && run["app"]["id"].as_i64().is_none_or(|app| app == self.credentials.app_id());
            if ours { existing(run) } else { None }
        })
        .await
    }

    async fn create(&self, repository: &Repository, check: &CheckRun) -> Result<Existing, ApiError> {
        let what = format!("a check run on {} in {repository}", check.head);
        let batch = &check.annotations[..check.annotations.len().min(ANNOTATION_BATCH)];
        let mut body = body(check, batch);
        body["head_sha"] = json!(check.head.as_str());
        let request = Request::create(route::of(repository, "/check-runs"), body, &what);
        let created = self.ask(repository, Use::Checks, request).await?;
        let created = existing(&created).ok_or_else(|| unreadable(&what, "it names no id"))?;
        Ok(Existing { annotations: batch.len(), ..created })
    }

    async fn update(
        &self,
        repository: &Repository,
        check: &CheckRun,
        id: i64,
        annotations: &[Annotation],
    ) -> Result<(), ApiError> {
        let what = format!("check run {id} of {repository}");
        let path = route::of(repository, &format!("/check-runs/{id}"));
        let request = Request::change(path, body(check, annotations), what);
        self.ask(repository, Use::Checks, request).await.map(drop)
    }
}

fn existing(run: &Value) -> Option<Existing> {
    Some(Existing {
        id: run["id"].as_i64()?,
        annotations: run["output"]["annotations_count"].as_u64().and_then(|n| n.try_into().ok()).unwrap_or(0),
        url: run["html_url"].as_str().map(str::to_owned),
    })
}

/// The body of a request that shows all of `check` and appends `annotations`.
fn body(check: &CheckRun, annotations: &[Annotation]) -> Value {
    let mut body = json!({
        "name": check.name,
        "external_id": check.external_id,
        "output": {
            "title": check.title,
            "summary": check.summary,
            "text": check.text.as_deref().unwrap_or_default(),
            "annotations": annotations.iter().map(annotation).collect::<Vec<_>>(),
        },
        "actions": check.actions.iter().map(|action| json!({
            "label": action.label,
            "description": action.description,
            "identifier": action.identifier,
        })).collect::<Vec<_>>(),
    });
    match &check.status {
        CheckStatus::Queued => body["status"] = json!("queued"),
        CheckStatus::InProgress => body["status"] = json!("in_progress"),
        CheckStatus::Completed { conclusion, at } => {
            body["status"] = json!("completed");
            body["conclusion"] = json!(conclusion.name());
            body["completed_at"] = time(*at);
        }
    }
    if let Some(at) = check.started_at {
        body["started_at"] = time(at);
    }
    if let Some(url) = &check.details_url {
        body["details_url"] = json!(url);
    }
    body
}

fn annotation(annotation: &Annotation) -> Value {
    let mut value = json!({
        "path": annotation.path,
        "start_line": annotation.start_line,
        "end_line": annotation.end_line,
        "annotation_level": annotation.level.name(),
        "message": annotation.message,
    });
    if let Some(title) = &annotation.title {
        value["title"] = json!(title);
    }
    value
}

/// RFC 3339 in whole seconds; a time that no calendar has is left out.
fn time(at: Millis) -> Value {
    match jiff::Timestamp::from_second(at.div_euclid(1000)) {
        Ok(at) => json!(at.to_string()),
        Err(_) => Value::Null,
    }
}
