//! The loop that decides deliveries: claim, ask the forge, decide, keep the decision.
//!
//! A delivery whose forge is out of reach waits and is tried again; after the last attempt it counts
//! as failed, is answered "could not check", and a redelivery of the forge revives it.

use std::sync::Arc;
use std::time::Duration;

use jobs::clock::{Clock, Millis};
use jobs::event::{CommentEvent, Event, SenderKind};
use jobs::forge::{CommentPlace, Repository, Subject};
use jobs::id::CommitId;
use jobs::job::{AgentSpec, Limits};
use jobs::message::{Address, MessageBody};
use jobs::policy::PolicyError;
use jobs::store::deliveries::{self, ClaimedDelivery};
use jobs::store::outbox::NewMessage;
use jobs::store::{Acceptance, Accepted, Db, Decision, StoreError, Topic, accept};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::base::Policies;
use super::flood::Flood;
use super::{actions, commands, reply, trigger};
use crate::forge::{ForgeError, Forges};

/// A decision takes some calls to the forge, each bounded in time.
const LEASE: Millis = 120_000;
/// After so many attempts a delivery counts as failed.
const MOST_ATTEMPTS: u32 = 6;
/// How long a worker waits for a ring before it looks again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What deciding needs.
pub struct Context {
    pub db: Db,
    pub forges: Forges,
    pub clock: Arc<dyn Clock>,
    /// This process, as rows name it.
    pub node: String,
    /// The agent that the operator has set in the place of every policy's.
    pub agent: Option<AgentSpec>,
    /// The operator's bounds, above which no policy goes.
    pub caps: Limits,
    /// Where people reach the dashboard.
    pub public_url: Option<Url>,
    flood: Flood,
    policies: Policies,
}

impl Context {
    /// A context without an agent of the operator's, with the default bounds and no dashboard.
    pub fn new(db: Db, forges: Forges, clock: Arc<dyn Clock>, node: &str) -> Self {
        Self {
            db,
            forges,
            clock,
            node: node.to_owned(),
            agent: None,
            caps: Limits::default(),
            public_url: None,
            flood: Flood::default(),
            policies: Policies::default(),
        }
    }

    pub(super) fn flood(&self) -> &Flood {
        &self.flood
    }

    pub(super) fn policies(&self) -> &Policies {
        &self.policies
    }
}

/// What one round of the loop did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Worked {
    /// There was no delivery to decide.
    Nothing,
    Decided(Acceptance),
    /// The forge is out of reach; the delivery waits.
    Postponed,
    /// It was tried often enough.
    GivenUp,
}

/// A decision with what is told to the place it is about.
#[derive(Debug)]
pub(super) struct Decided {
    pub decision: Decision,
    pub message: Option<NewMessage>,
}

impl Decided {
    pub(super) fn ignored(why: impl Into<String>) -> Self {
        Self { decision: Decision::Ignore { why: why.into() }, message: None }
    }

    pub(super) fn handled(what: impl Into<String>) -> Self {
        Self { decision: Decision::Handle { what: what.into() }, message: None }
    }
}

/// Why a delivery cannot be decided now.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("{why}")]
    Later { why: String, wait: Duration },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A forge's answer, where "no" and "never" are answers as well.
pub(super) fn asked<T>(answer: Result<T, ForgeError>) -> Result<Result<T, String>, Trouble> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(error) => match error.retry_after() {
            Some(wait) => Err(Trouble::Later { why: error.to_string(), wait }),
            None => Ok(Err(error.to_string())),
        },
    }
}

/// A comment on a pull request or issue.
pub(super) fn comment(repository: &Repository, subject: &Subject, body: String) -> NewMessage {
    let place = CommentPlace::Conversation;
    message(repository, subject, MessageBody::Comment { body, reply_to: None, place })
}

/// The answer to a comment; it takes the place of an earlier answer to the same one.
pub(super) fn answer_to(event: &CommentEvent, body: String) -> NewMessage {
    let (reply_to, place) = (Some(event.comment_id), event.place);
    message(&event.repository, &event.subject, MessageBody::Comment { body, reply_to, place })
}

/// The check run that says what is wrong with the base branch's policy. It is one for each commit and
/// fault, however often it is told.
pub(super) fn policy_fault(
    repository: &Repository,
    subject: &Subject,
    head: CommitId,
    fault: PolicyError,
) -> NewMessage {
    message(repository, subject, MessageBody::PolicyFault { head, fault })
}

fn message(repository: &Repository, subject: &Subject, body: MessageBody) -> NewMessage {
    let address = Address { repository: repository.clone(), subject: subject.clone() };
    NewMessage { address, body, not_before: 0 }
}

/// Decides deliveries until it is cancelled.
pub async fn work(cx: &Context, cancel: &CancellationToken) {
    let mut waiter = cx.db.waiter(Topic::Deliveries);
    while !cancel.is_cancelled() {
        match work_one(cx).await {
            Ok(Worked::Nothing) => {}
            Ok(Worked::Decided(_) | Worked::Postponed | Worked::GivenUp) => continue,
            Err(error) => {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::error!(error, "deliveries could not be decided");
            }
        }
        tokio::select! {
            () = cancel.cancelled() => {}
            () = waiter.wait(LOOK_AGAIN) => {}
        }
    }
}

/// Decides one delivery, if one waits.
pub async fn work_one(cx: &Context) -> Result<Worked, StoreError> {
    let now = cx.clock.now();
    let Some(claimed) = deliveries::claim(&cx.db, &cx.node, LEASE, now).await? else {
        return Ok(Worked::Nothing);
    };
    match decide(cx, &claimed).await {
        Ok(decided) => {
            let acceptance = keep(cx, &claimed, decided).await?;
            Ok(Worked::Decided(acceptance))
        }
        Err(trouble) => postpone(cx, &claimed, trouble).await,
    }
}

async fn decide(cx: &Context, claimed: &ClaimedDelivery) -> Result<Decided, Trouble> {
    match &claimed.event {
        Event::Comment(comment) => commands::decide(cx, claimed, comment).await,
        Event::CheckAction(action) => actions::click(cx, claimed, action).await,
        Event::PullRequest { repository, number, change } => {
            actions::pull_request(cx, repository, *number, change).await
        }
        Event::Label(label) => trigger::label(cx, claimed, label).await,
        Event::CheckSuite(suite) => trigger::check_suite(cx, suite).await,
        Event::Push { repository, branch } => {
            let forgotten = cx.policies().forget(repository);
            Ok(Decided::handled(format!("{branch} moved: let go of {forgotten} policies")))
        }
        Event::Access { installation, change } => trigger::access(cx, *installation, change).await,
        Event::Ping => Ok(Decided::ignored("a sign of life")),
        Event::Ignored { why } => Ok(Decided::ignored(why)),
    }
}

async fn keep(cx: &Context, claimed: &ClaimedDelivery, decided: Decided) -> Result<Acceptance, StoreError> {
    let Decided { decision, message } = decided;
    let accepted = Accepted {
        delivery: Some(claimed.ticket.clone()),
        decision,
        messages: message.into_iter().collect(),
        now: cx.clock.now(),
    };
    let acceptance = accept(&cx.db, accepted).await?;
    let delivery = &claimed.ticket.key.id;
    match &acceptance {
        Acceptance::Queued { run, job } => {
            tracing::info!(delivery.id = delivery, run.id = %run, job.id = %job, "a run was admitted");
        }
        Acceptance::Duplicate { run } => {
            tracing::info!(delivery.id = delivery, run.id = %run, "a request was admitted before");
        }
        Acceptance::Decided => tracing::info!(delivery.id = delivery, "a delivery was decided"),
    }
    Ok(acceptance)
}

async fn postpone(cx: &Context, claimed: &ClaimedDelivery, trouble: Trouble) -> Result<Worked, StoreError> {
    let (why, wait) = match trouble {
        Trouble::Later { why, wait } => (why, wait),
        Trouble::Store(error @ (StoreError::LeaseLost { .. } | StoreError::FenceLost { .. })) => {
            return Err(error);
        }
        Trouble::Store(error) => (error.to_string(), Duration::ZERO),
    };
    let (now, ticket) = (cx.clock.now(), &claimed.ticket);
    if claimed.attempts >= MOST_ATTEMPTS {
        tracing::error!(delivery.id = ticket.key.id, why, "a delivery was given up");
        let message = could_not_check(&claimed.event);
        deliveries::fail(&cx.db, ticket, &why, message.into_iter().collect(), now).await?;
        return Ok(Worked::GivenUp);
    }
    let backoff = Duration::from_secs(1 << claimed.attempts.min(8));
    let wait = Millis::try_from(wait.max(backoff).as_millis()).unwrap_or(Millis::MAX);
    tracing::warn!(delivery.id = ticket.key.id, why, wait_ms = wait, "a delivery waits");
    deliveries::retry(&cx.db, ticket, &why, now.saturating_add(wait)).await?;
    Ok(Worked::Postponed)
}

/// Whoever asked by a command is told that nothing was done, and why.
fn could_not_check(event: &Event) -> Option<NewMessage> {
    let Event::Comment(asked) = event else { return None };
    match asked.sender_kind {
        SenderKind::Person => {}
        SenderKind::Bot => return None,
    }
    let verbs = commands::verbs(&asked.body);
    let why = "could not check with the forge whether this is allowed, so it is not; try again later";
    let refused: Vec<_> = verbs.into_iter().map(|verb| (verb, why.to_owned())).collect();
    let body = reply::refused(&asked.sender.login, &refused);
    Some(answer_to(asked, body))
}
