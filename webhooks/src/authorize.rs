//! A person's yes to one patch on one commit: the one way in, for the button, the comment, the page
//! and the command line alike.
//!
//! The role is asked of the forge at this moment, and again at the push. Who cannot be checked is
//! not allowed.

use std::time::Duration;

use jobs::authorization::Authorization;
use jobs::clock::{Clock, Millis};
use jobs::forge::{Account, PullRequest, PullRequestState, Role, Subject};
use jobs::id::{AuthorizationId, CommitId, RunId};
use jobs::message::Address;
use jobs::store::authorizations::{self, Recording};
use jobs::store::{Db, RunView, StoreError, runs};

use crate::forge::{Forge, ForgeError};
use crate::offer::{self, NoOffer, Offer};
use crate::protected;

/// The yes is recorded, and its push is queued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Authorized {
    New(AuthorizationId),
    /// The same click again, or another yes whose push has not happened yet.
    Known(AuthorizationId),
}

/// Why a yes or a no is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no run {0}")]
    NoRun(RunId),
    #[error(transparent)]
    NoOffer(#[from] NoOffer),
    #[error("the run is not about a pull request or an issue")]
    NoPullRequest,
    #[error("it is closed")]
    Closed,
    #[error(
        "the pull request moved on to {now} while the patch is for {tested}; ask for a new run on the new head"
    )]
    HeadMoved { tested: CommitId, now: CommitId },
    #[error("`{login}` has the role `{has}` here, and `{least}` is the least that may authorize", has = has.name(), least = least.name())]
    Role { login: String, has: Role, least: Role },
    #[error("the base branch's policy does not let `{login}` apply a patch to their own pull request")]
    OwnPullRequest { login: String },
    #[error(
        "the patch touches {}, which the base branch's policy protects; make that change by hand",
        list(paths)
    )]
    Protected { paths: Vec<String> },
    #[error("could not check whether this is allowed, so it is not; try again later")]
    CouldNotCheck(#[source] ForgeError),
    #[error("could not keep the decision; try again later")]
    Store(#[from] StoreError),
}

impl Refusal {
    /// How long to wait before the same request has a chance; `None` when it has none.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Refusal::CouldNotCheck(error) => error.retry_after(),
            Refusal::Store(_) => Some(Duration::ZERO),
            Refusal::NoRun(_)
            | Refusal::NoOffer(_)
            | Refusal::NoPullRequest
            | Refusal::Closed
            | Refusal::HeadMoved { .. }
            | Refusal::Role { .. }
            | Refusal::OwnPullRequest { .. }
            | Refusal::Protected { .. } => None,
        }
    }
}

fn list(paths: &[String]) -> String {
    let shown: Vec<String> =
        paths.iter().take(5).map(|path| format!("`{}`", crate::text::one_line(path, 120))).collect();
    match paths.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Records `actor`'s yes to the run's verified patch, and queues its push.
///
/// `origin` names the comment or click; the same one again is `Known`.
pub async fn authorize(
    db: &Db,
    forge: &dyn Forge,
    run: &RunId,
    actor: &Account,
    origin: &str,
    clock: &dyn Clock,
) -> Result<Authorized, Refusal> {
    let view = runs::view(db, run).await?.ok_or_else(|| Refusal::NoRun(run.clone()))?;
    if let Some(id) = decided_by(&view, origin) {
        return Ok(Authorized::Known(id.clone()));
    }
    let offer = offer::open(&view)?;
    let role = allowed(forge, &view, actor, Purpose::Apply).await?;
    let protected =
        protected::touched(&view.job().guard.protected_paths, offer.paths.iter().map(String::as_str));
    if !protected.is_empty() {
        return Err(Refusal::Protected { paths: protected });
    }
    let now = clock.now();
    if let Some(id) = offer::awaiting_push(&view, now) {
        return Ok(Authorized::Known(id.clone()));
    }
    let yes = decision(&view, &offer, (actor, role), origin, now);
    let address = Address { repository: view.job().repository.clone(), subject: view.job().subject.clone() };
    match authorizations::record(db, &yes, address).await? {
        Recording::New => {
            tracing::info!(run.id = %run, actor = actor.login, "a patch was authorized");
            Ok(Authorized::New(yes.id))
        }
        Recording::Known { id } => Ok(Authorized::Known(id)),
    }
}

/// Records `actor`'s no to the run's verified patch, for good.
pub async fn decline(
    db: &Db,
    forge: &dyn Forge,
    run: &RunId,
    actor: &Account,
    origin: &str,
    clock: &dyn Clock,
) -> Result<(), Refusal> {
    let view = runs::view(db, run).await?.ok_or_else(|| Refusal::NoRun(run.clone()))?;
    if decided_by(&view, origin).is_some() {
        return Ok(());
    }
    let offer = match offer::open(&view) {
        Err(NoOffer::Declined(_)) => return Ok(()),
        other => other?,
    };
    let role = allowed(forge, &view, actor, Purpose::Decline).await?;
    authorizations::decline(db, &decision(&view, &offer, (actor, role), origin, clock.now())).await?;
    tracing::info!(run.id = %run, actor = actor.login, "a patch was declined");
    Ok(())
}

/// The actor's role now, if they may have the run's patch pushed as things stand now.
pub(crate) async fn may_apply(forge: &dyn Forge, view: &RunView, actor: &Account) -> Result<Role, Refusal> {
    allowed(forge, view, actor, Purpose::Apply).await
}

/// The decision on this run that the same comment or click brought before.
pub(crate) fn decided_by<'a>(view: &'a RunView, origin: &str) -> Option<&'a AuthorizationId> {
    let same = view.authorizations.iter().find(|recorded| recorded.authorization.origin == origin);
    same.map(|recorded| &recorded.authorization.id)
}

/// What an account wants to decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Apply,
    Decline,
}

/// The actor's role now, if it is enough, the subject is open and a pull request shows the tested head.
async fn allowed(
    forge: &dyn Forge,
    view: &RunView,
    actor: &Account,
    purpose: Purpose,
) -> Result<Role, Refusal> {
    let (job, guard) = (view.job(), &view.job().guard);
    let has = forge.permission(&job.repository, actor).await.map_err(Refusal::CouldNotCheck)?;
    if has < guard.least_role {
        return Err(Refusal::Role { login: actor.login.clone(), has, least: guard.least_role });
    }
    match &job.subject {
        Subject::PullRequest { number } => {
            let found = forge.pull_request(&job.repository, *number).await;
            let pull_request = found.map_err(Refusal::CouldNotCheck)?;
            is_open(pull_request.state)?;
            match purpose {
                Purpose::Decline => {}
                Purpose::Apply => may_apply_to(&pull_request, view, actor)?,
            }
        }
        // The patch becomes a pull request of its own, on the commit that was tested, so that nothing
        // that was pushed since is touched by it.
        Subject::Issue { number } => {
            let issue = forge.issue(&job.repository, *number).await.map_err(Refusal::CouldNotCheck)?;
            is_open(issue.state)?;
        }
        Subject::Checkout => return Err(Refusal::NoPullRequest),
    }
    Ok(has)
}

const fn is_open(state: PullRequestState) -> Result<(), Refusal> {
    match state {
        PullRequestState::Open => Ok(()),
        PullRequestState::Closed => Err(Refusal::Closed),
    }
}

/// Whether the pull request still shows the tested head, and is not the actor's own where that counts.
fn may_apply_to(pull_request: &PullRequest, view: &RunView, actor: &Account) -> Result<(), Refusal> {
    let (job, guard) = (view.job(), &view.job().guard);
    let own = pull_request.author.as_ref().is_some_and(|author| author.id == actor.id);
    if own && !guard.author_may_apply {
        return Err(Refusal::OwnPullRequest { login: actor.login.clone() });
    }
    if pull_request.head != job.head {
        return Err(Refusal::HeadMoved { tested: job.head.clone(), now: pull_request.head.clone() });
    }
    Ok(())
}

fn decision(
    view: &RunView,
    offer: &Offer,
    (actor, role): (&Account, Role),
    origin: &str,
    now: Millis,
) -> Authorization {
    let hours = Millis::from(view.job().guard.authorization_hours);
    Authorization {
        id: AuthorizationId::fresh(now),
        run: view.run.id.clone(),
        actor: actor.clone(),
        role,
        origin: origin.to_owned(),
        head: view.job().head.clone(),
        patch: offer.patch,
        created_at: now,
        expires_at: now.saturating_add(hours.saturating_mul(3_600_000)),
    }
}
