//! What forges are told: check runs, comments, and the pushes that people authorized.
//!
//! Everything goes through the outbox. A message is rendered from the rows of the moment in which it
//! is sent, so that a late sender tells the latest state; what the forge did not take waits there and
//! is tried again, and after the last attempt it is dead and can be seen.

mod annotations;
mod check;
mod cut;
mod evidence;
mod issue_comment;
mod mask;
mod policy_fault;
mod push;
mod receipted;
mod sealing;
mod standing;
mod suggestion;
#[cfg(test)]
mod tests;
mod words;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jobs::artifacts::Artifacts;
use jobs::clock::{Clock, Millis};
use jobs::forge::{CommentPlace, Subject};
use jobs::id::{CommitId, RunId};
use jobs::job::ForkPatch;
use jobs::message::{Address, MessageBody};
use jobs::store::outbox::{self, ClaimedMessage, Retried};
use jobs::store::{Db, RunView, StoreError, Topic, runs};
use receipts::Signer;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::forge::{CheckRun, Comment, Forge, ForgeError, Forges};
use crate::offer::{self, NoOffer};

pub use check::{Material, NAME, check_run, pushed_check_run};
pub use evidence::baseline;
pub use mask::Mask;
pub use receipted::key_id;

/// How long a message belongs to its sender.
pub const LEASE: Millis = 90_000;
/// A sender gives up before its lease ends, so that a message never has two senders at once.
const LONGEST_SEND: Duration = Duration::from_secs(75);
/// How long a worker waits for a ring before it looks again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The first wait after a failure; it doubles, and all waits together outlast an hour's outage.
const FIRST_WAIT: Millis = 4_000;
const LONGEST_WAIT: Millis = 1_800_000;
/// A larger patch is not shown, but pointed to.
const MOST_PATCH_BYTES: u64 = 4 << 20;

/// What reporting needs.
pub struct Context {
    pub db: Db,
    pub forges: Forges,
    pub artifacts: Artifacts,
    /// The folder of finished runs' bundles, each in a folder named by its run.
    pub bundles: PathBuf,
    /// Signs what people decided and what was pushed.
    pub signer: Arc<Signer>,
    pub clock: Arc<dyn Clock>,
    /// This process, as rows name it.
    pub node: String,
    /// Where people reach the dashboard.
    pub public_url: Option<Url>,
    /// What no report may show.
    pub mask: Mask,
}

/// What one round of the loop did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Worked {
    /// There was nothing to tell.
    Nothing,
    /// The forge has it, under this id.
    Told { external_id: String },
    /// It waits for its next attempt.
    Postponed,
    /// It will not be tried again by itself.
    Dead,
    /// Another sender took it over meanwhile.
    Lost,
}

/// Why a message could not be told.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// It may be tried again after this time.
    #[error("{why}")]
    Later { why: String, wait: Duration },
    /// Trying again is no use.
    #[error("{0}")]
    Never(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ForgeError> for Trouble {
    fn from(error: ForgeError) -> Self {
        match error.retry_after() {
            Some(wait) => Trouble::Later { why: error.to_string(), wait },
            None => Trouble::Never(error.to_string()),
        }
    }
}

/// Tells forges what waits until it is cancelled.
pub async fn work(cx: &Context, cancel: &CancellationToken) {
    let mut waiter = cx.db.waiter(Topic::Outbox);
    while !cancel.is_cancelled() {
        match work_one(cx).await {
            Ok(Worked::Nothing) => {}
            Ok(Worked::Told { .. } | Worked::Postponed | Worked::Dead | Worked::Lost) => continue,
            Err(error) => {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::error!(error, "reports could not be sent");
            }
        }
        tokio::select! {
            () = cancel.cancelled() => {}
            () = waiter.wait(LOOK_AGAIN) => {}
        }
    }
}

/// Tells one message, if one waits.
pub async fn work_one(cx: &Context) -> Result<Worked, StoreError> {
    let Some(message) = outbox::claim(&cx.db, &cx.node, LEASE, cx.clock.now()).await? else {
        return Ok(Worked::Nothing);
    };
    let told = match tokio::time::timeout(LONGEST_SEND, tell(cx, &message)).await {
        Ok(told) => told,
        Err(_) => Err(Trouble::Later {
            why: format!("it took longer than {} s", LONGEST_SEND.as_secs()),
            wait: Duration::ZERO,
        }),
    };
    let kept = match told {
        Ok(external_id) => keep(cx, &message, external_id).await,
        Err(trouble) => put_back(cx, &message, trouble).await,
    };
    match kept {
        Err(StoreError::LeaseLost { .. }) => {
            // What was told late may have covered something newer, so the newest is told once more.
            if let MessageBody::CheckRun { run } = &message.body {
                outbox::refresh(&cx.db, run, cx.clock.now()).await?;
            }
            Ok(Worked::Lost)
        }
        other => other,
    }
}

async fn tell(cx: &Context, message: &ClaimedMessage) -> Result<String, Trouble> {
    let Address { repository, subject } = &message.address;
    let forge = cx.forges.of(repository)?;
    match &message.body {
        MessageBody::CheckRun { run } => check(cx, forge, run).await,
        MessageBody::Comment { body, reply_to, place } => {
            let key = match (reply_to, place) {
                (Some(id), CommentPlace::Conversation) => format!("reply/{id}"),
                (Some(id), CommentPlace::Line | CommentPlace::Review) => {
                    format!("reply/{}/{id}", place.name())
                }
                (None, _) => format!("message/{}", message.id),
            };
            let comment = Comment { key, body: cx.mask.apply(body) };
            Ok(forge.comment(repository, subject, &comment).await?.id)
        }
        MessageBody::PolicyFault { head, fault } => {
            let check = policy_fault::check_run(head, fault, &cx.mask, cx.clock.now());
            Ok(forge.put_check(repository, &check).await?.id)
        }
        MessageBody::Push { run, authorization } => push::push(cx, forge, run, authorization).await,
    }
}

/// Tells where the run stands, and the same on the commit that its push made.
async fn check(cx: &Context, forge: &dyn Forge, run: &RunId) -> Result<String, Trouble> {
    let view = view(cx, run).await?;
    let head = head_now(forge, &view).await?;
    let key_id = key_id(&view);
    let material = Material {
        patch: patch(cx, &view),
        key_id: key_id.as_deref(),
        public_url: cx.public_url.as_ref(),
        head,
        mask: &cx.mask,
        now: cx.clock.now(),
    };
    let repository = &view.job().repository;
    let check = check_run(&view, &material);
    let posted = forge.put_check(repository, &check).await?;
    if let Some(pushed) = pushed_check_run(&view, &material) {
        match forge.put_check(repository, &pushed).await {
            Ok(_) => {}
            // A fork's commit may be out of the app's sight; the tested commit has been told.
            Err(ForgeError::NotFound { .. } | ForgeError::Refused { .. }) => {
                tracing::warn!(run.id = %run, "the pushed commit takes no check run");
            }
            Err(error @ (ForgeError::RateLimited { .. } | ForgeError::Unavailable { .. })) => {
                return Err(error.into());
            }
        }
    }
    match &view.job().subject {
        Subject::Issue { .. } => tell_issue(cx, forge, &view, &check, posted.url.as_deref()).await?,
        Subject::PullRequest { number } => suggest(cx, forge, &view, *number, &material).await?,
        Subject::Checkout => {}
    }
    Ok(posted.id)
}

/// Keeps the one comment on an issue up to date: it shows the newest run.
async fn tell_issue(
    cx: &Context,
    forge: &dyn Forge,
    view: &RunView,
    check: &CheckRun,
    page: Option<&str>,
) -> Result<(), Trouble> {
    let job = view.job();
    let Some(number) = job.subject.number() else { return Ok(()) };
    let newest = runs::of_subject(&cx.db, &job.repository, number, 1).await?;
    if newest.first().is_none_or(|newest| newest.id != view.run.id) {
        return Ok(());
    }
    let comment = Comment { key: "issue".to_owned(), body: issue_comment::of(check, page) };
    forge.comment(&job.repository, &job.subject, &comment).await?;
    Ok(())
}

/// Suggests the patch in a review, where the base branch's policy wants that of a fork that takes no push.
async fn suggest(
    cx: &Context,
    forge: &dyn Forge,
    view: &RunView,
    number: i64,
    material: &Material<'_>,
) -> Result<(), Trouble> {
    let job = view.job();
    let (ForkPatch::Suggestion, Some(patch)) = (job.guard.fork_patch, &material.patch) else {
        return Ok(());
    };
    match offer::open(view) {
        Err(NoOffer::Nowhere(_)) if material.head.as_ref().is_none_or(|head| *head == job.head) => {}
        _ => return Ok(()),
    }
    let Some(suggestion) = suggestion::of(view, patch, &cx.mask) else { return Ok(()) };
    match forge.suggest(&job.repository, number, &suggestion).await {
        Ok(Some(_) | None) => Ok(()),
        Err(error) => match error.retry_after() {
            Some(wait) => Err(Trouble::Later { why: error.to_string(), wait }),
            // The patch stands in the check run all the same.
            None => {
                let why = error.to_string();
                tracing::warn!(run.id = %view.run.id, why, "the patch was not suggested");
                Ok(())
            }
        },
    }
}

async fn view(cx: &Context, run: &RunId) -> Result<RunView, Trouble> {
    let found = runs::view(&cx.db, run).await?;
    found.ok_or_else(|| Trouble::Never(format!("there is no run {run}")))
}

/// The pull request's head, asked only while a patch waits for it.
async fn head_now(forge: &dyn Forge, view: &RunView) -> Result<Option<CommitId>, Trouble> {
    let job = view.job();
    let (Subject::PullRequest { number }, Ok(_)) = (&job.subject, offer::open(view)) else {
        return Ok(None);
    };
    match forge.pull_request(&job.repository, *number).await {
        Ok(found) => Ok(Some(found.head)),
        Err(ForgeError::NotFound { .. } | ForgeError::Refused { .. }) => Ok(None),
        Err(error @ (ForgeError::RateLimited { .. } | ForgeError::Unavailable { .. })) => Err(error.into()),
    }
}

/// The verified patch, where there is one that can be shown.
fn patch(cx: &Context, view: &RunView) -> Option<Vec<u8>> {
    let offer = offer::verified(view).ok()?;
    match cx.artifacts.get_bounded(offer.patch, MOST_PATCH_BYTES) {
        Ok(patch) => Some(patch),
        Err(error) => {
            let error: &(dyn std::error::Error + 'static) = &error;
            tracing::warn!(run.id = %view.run.id, error, "the patch is not shown");
            None
        }
    }
}

async fn keep(cx: &Context, message: &ClaimedMessage, external_id: String) -> Result<Worked, StoreError> {
    outbox::sent(&cx.db, message, &external_id, cx.clock.now()).await?;
    tracing::info!(message.id = %message.id, kind = message.body.kind(), "the forge was told");
    Ok(Worked::Told { external_id })
}

async fn put_back(cx: &Context, message: &ClaimedMessage, trouble: Trouble) -> Result<Worked, StoreError> {
    let now = cx.clock.now();
    let (why, wait) = match trouble {
        Trouble::Never(why) => {
            tracing::error!(message.id = %message.id, kind = message.body.kind(), why, "a report is dead");
            outbox::dead(&cx.db, message, &why, now).await?;
            return Ok(Worked::Dead);
        }
        Trouble::Store(error @ (StoreError::LeaseLost { .. } | StoreError::FenceLost { .. })) => {
            return Err(error);
        }
        Trouble::Store(error) => (error.to_string(), Duration::ZERO),
        Trouble::Later { why, wait } => (why, wait),
    };
    let wait = Millis::try_from(wait.as_millis()).unwrap_or(Millis::MAX).max(backoff(message.attempts));
    match outbox::retry(&cx.db, message, &why, now.saturating_add(wait), now).await? {
        Retried::Postponed => {
            tracing::warn!(message.id = %message.id, why, wait_ms = wait, "a report waits");
            Ok(Worked::Postponed)
        }
        Retried::Dead => {
            tracing::error!(message.id = %message.id, why, "a report was given up");
            Ok(Worked::Dead)
        }
    }
}

/// The wait after the `attempts`th failure.
fn backoff(attempts: u32) -> Millis {
    let doubled = FIRST_WAIT.saturating_mul(1 << attempts.saturating_sub(1).min(20));
    doubled.min(LONGEST_WAIT)
}
