//! The page of a run: its state, steps, patch and receipts, and the two buttons for who may press them.

use std::path::{Component, Path as FilePath};
use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use jobs::forge::Account;
use jobs::run::RunState;
use jobs::step::StepState;
use jobs::store::RunView;
use jobs::store::receipts::ReceiptKind;
use runners::executor::bundle as bundles;
use webhooks::authorize::{authorize, decline};
use webhooks::offer;

use super::{Fault, RunPath, page, session, view_of};
use crate::service::Service;
use crate::show::{DiffLine, check_of, diff_lines, patch_of, status_word, step_summary, utc};

struct StepRow {
    name: &'static str,
    iteration: u32,
    state: &'static str,
    text: String,
    at: String,
}

struct ReceiptRow {
    seq: u32,
    kind: &'static str,
    digest: String,
    at: String,
}

#[derive(Template)]
#[template(path = "pages/run.html")]
struct RunPage {
    id: String,
    repository: String,
    number: String,
    head: String,
    actor: String,
    agent: &'static str,
    title: String,
    status: String,
    is_running: bool,
    steps: Vec<StepRow>,
    diff: Vec<DiffLine>,
    receipts: Vec<ReceiptRow>,
    bundle: String,
    verify: String,
    has_bundle: bool,
    offer: Offer,
}

/// What the buttons' place says.
enum Offer {
    Open { login: String },
    SignIn,
    Pushed { commit: String },
    Waiting,
    None,
}

pub async fn show(
    State(service): State<Arc<Service>>,
    Path(run): RunPath,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let view = view_of(&service, &run).await?;
    let account = session::account(&service, &headers)?;
    let check = check_of(&service, &view);
    let bundle = service.bundle(&view.run.id);
    let patch = patch_of(&service, &view).unwrap_or_default();
    page(&RunPage {
        id: view.run.id.to_string(),
        repository: view.job().repository.to_string(),
        number: view.job().subject.number().map_or(String::new(), |number| format!("#{number}")),
        head: view.job().head.as_str().chars().take(12).collect(),
        actor: view.job().request.actor.login.clone(),
        agent: view.job().agent.name(),
        title: check.title.clone(),
        status: status_word(&check.status).to_owned(),
        is_running: !matches!(check.status, webhooks::forge::CheckStatus::Completed { .. }),
        steps: steps(&view),
        diff: diff_lines(&service.mask().apply(&String::from_utf8_lossy(&patch))),
        receipts: receipts(&view),
        verify: format!("whipstitch verify {} {}", bundle.display(), service.trust.arguments()),
        has_bundle: bundle.is_dir() || matches!(view.run.state, RunState::Finished { .. }),
        bundle: bundle.display().to_string(),
        offer: offer_of(&service, &view, account),
    })
}

fn offer_of(service: &Service, view: &RunView, account: Option<Account>) -> Offer {
    if let Some(commit) = offer::pushed(view) {
        return Offer::Pushed { commit: commit.to_string() };
    }
    if offer::open(view).is_err() {
        return Offer::None;
    }
    if offer::awaiting_push(view, service.clock.now()).is_some() {
        return Offer::Waiting;
    }
    match (account, view.job().repository.forge) {
        (Some(account), jobs::forge::ForgeKind::Local) => Offer::Open { login: account.login },
        (None, jobs::forge::ForgeKind::Local) => Offer::SignIn,
        (_, jobs::forge::ForgeKind::Github) => Offer::None,
    }
}

fn steps(view: &RunView) -> Vec<StepRow> {
    let row = |step: &jobs::store::steps::Step| {
        let (state, text) = match &step.state {
            StepState::Begun => ("begun", String::new()),
            StepState::Done { output } => ("done", step_summary(output)),
            StepState::Failed { error } => ("failed", error.clone()),
        };
        StepRow { name: step.kind.name(), iteration: step.iteration, state, text, at: utc(step.at) }
    };
    // What has an end needs no line for its beginning.
    let ended = |step: &jobs::store::steps::Step| {
        view.steps
            .iter()
            .any(|other| other.seq > step.seq && (other.kind, other.iteration) == (step.kind, step.iteration))
    };
    view.steps.iter().filter(|step| step.state != StepState::Begun || !ended(step)).map(row).collect()
}

fn receipts(view: &RunView) -> Vec<ReceiptRow> {
    let kind = |kind: ReceiptKind| match kind {
        ReceiptKind::Open => "open",
        ReceiptKind::Apply => "apply",
        ReceiptKind::Seal => "seal",
        ReceiptKind::Authorize => "authorize",
        ReceiptKind::Push => "push",
    };
    let row = |receipt: &jobs::store::receipts::Receipt| ReceiptRow {
        seq: receipt.seq,
        kind: kind(receipt.kind),
        digest: receipt.signed.digest().to_string(),
        at: utc(receipt.at),
    };
    view.receipts.iter().map(row).collect()
}

/// The bundle's one file.
pub async fn bundle(State(service): State<Arc<Service>>, Path(run): RunPath) -> Result<Response, Fault> {
    file_of(&service, &run, "run.receipts").await
}

/// One file of the bundle: a receipt, a signature, a diff, the journal.
pub async fn bundle_file(
    State(service): State<Arc<Service>>,
    Path((run, file)): Path<(String, String)>,
) -> Result<Response, Fault> {
    file_of(&service, &run, &file).await
}

async fn file_of(service: &Service, run: &str, file: &str) -> Result<Response, Fault> {
    let view = view_of(service, run).await?;
    let mut parts = FilePath::new(file).components();
    let (Some(Component::Normal(_)), None) = (parts.next(), parts.next()) else {
        return Err(Fault::NotFound);
    };
    let folder = service.bundle(&view.run.id);
    if !folder.is_dir() && matches!(view.run.state, RunState::Finished { .. }) {
        // The run was driven by another node, whose folder this is not.
        let places = (folder.as_path(), folder.as_path());
        let made =
            bundles::from_store(&service.db, &service.artifacts, &service.signer, places, &view.run.id);
        made.await.map_err(|error| Fault::Unavailable(error.into()))?;
    }
    let bytes = tokio::fs::read(folder.join(file)).await.map_err(|_| Fault::NotFound)?;
    let disposition = format!("attachment; filename=\"{}\"", file.replace(['"', '\\'], ""));
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, bytes).into_response())
}

pub async fn apply(
    State(service): State<Arc<Service>>,
    Path(run): RunPath,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let (view, account) = acting(&service, &run, &headers).await?;
    let forge =
        service.forges.of(&view.job().repository).map_err(|error| Fault::Refused(error.to_string()))?;
    let origin = "the run's page";
    authorize(&service.db, forge, &view.run.id, &account, origin, service.clock.as_ref())
        .await
        .map_err(|refusal| Fault::Refused(refusal.to_string()))?;
    Ok(back(&view))
}

pub async fn reject(
    State(service): State<Arc<Service>>,
    Path(run): RunPath,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let (view, account) = acting(&service, &run, &headers).await?;
    let forge =
        service.forges.of(&view.job().repository).map_err(|error| Fault::Refused(error.to_string()))?;
    decline(&service.db, forge, &view.run.id, &account, "the run's page", service.clock.as_ref())
        .await
        .map_err(|refusal| Fault::Refused(refusal.to_string()))?;
    Ok(back(&view))
}

/// The run and who acts on it. The role is asked of the forge later, at the deed itself.
async fn acting(service: &Service, run: &str, headers: &HeaderMap) -> Result<(RunView, Account), Fault> {
    session::same_site(headers)?;
    let account = session::account(service, headers)?.ok_or(Fault::NotSignedIn)?;
    Ok((view_of(service, run).await?, account))
}

fn back(view: &RunView) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, format!("/runs/{}", view.run.id))]).into_response()
}
