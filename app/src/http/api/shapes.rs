//! The JSON of a verdict and of a run. `openapi.json` describes these members; the two change together.
//!
//! Words that come from a repository, a tool or a forge are masked as they are in the check run.

use jobs::clock::Millis;
use jobs::digest::Digest;
use jobs::forge::Subject;
use jobs::id::CommitId;
use jobs::job::Goal;
use jobs::run::{Failure, HaltReason, Outcome, RunState};
use jobs::store::RunView;
use jobs::store::receipts::ReceiptKind;
use jobs::verdict::{CheckOutcome, Checked};
use serde::Serialize;
use webhooks::forge::{CheckRun, CheckStatus};
use webhooks::report::{self, Mask};
use webhooks::{links, offer};

use crate::service::Service;
use crate::show::{check_of, pushed_check_of};

/// What is known of a commit.
#[derive(Serialize)]
pub struct Verdict {
    repository: String,
    commit: String,
    #[serde(flatten)]
    check: Check,
    run: Run,
}

/// One run.
#[derive(Serialize)]
pub struct Run {
    id: String,
    repository: String,
    subject: &'static str,
    number: Option<i64>,
    commit: String,
    base: String,
    goal: &'static str,
    requested_by: RequestedBy,
    agent: &'static str,
    state: &'static str,
    phase: Option<&'static str>,
    outcome: Option<End>,
    #[serde(flatten)]
    check: Check,
    checks: Vec<Reading>,
    patch: Option<Patch>,
    pushed_commit: Option<String>,
    receipts: Option<Receipts>,
    links: Links,
    created_at: String,
    started_at: Option<String>,
    finished_at: Option<String>,
}

/// The check run's own fields, the same as the forge shows them.
#[derive(Serialize)]
struct Check {
    status: &'static str,
    conclusion: Option<&'static str>,
    title: String,
    summary: String,
}

#[derive(Serialize)]
struct RequestedBy {
    login: String,
    role: &'static str,
    origin: String,
}

#[derive(Serialize)]
struct End {
    is: &'static str,
    kind: Option<&'static str>,
    why: Option<String>,
    requeue_recommended: bool,
}

#[derive(Serialize)]
struct Reading {
    name: String,
    before: Option<&'static str>,
    after: Option<&'static str>,
}

#[derive(Serialize)]
struct Patch {
    digest: String,
    tree: String,
    paths: Vec<String>,
    waits_for_authorization: bool,
}

#[derive(Serialize)]
struct Receipts {
    count: u32,
    seal: String,
    key_id: String,
}

#[derive(Serialize)]
struct Links {
    page: Option<String>,
    bundle: Option<String>,
}

impl Verdict {
    /// The verdict of `view` on `commit`: the run's own commit, or the one that its push made.
    pub fn of(service: &Service, view: &RunView, commit: &CommitId) -> Self {
        let check = match view.job().head == *commit {
            true => check_of(service, view),
            false => pushed_check_of(service, view).unwrap_or_else(|| check_of(service, view)),
        };
        Self {
            repository: view.job().repository.to_string(),
            commit: commit.to_string(),
            check: Check::of(check),
            run: Run::of(service, view),
        }
    }
}

impl Run {
    /// All that is told of a run.
    pub fn of(service: &Service, view: &RunView) -> Self {
        let (job, run, mask) = (view.job(), &view.run, service.mask());
        let subject = match job.subject {
            Subject::PullRequest { .. } => "pull_request",
            Subject::Issue { .. } => "issue",
            Subject::Checkout => "checkout",
        };
        let phase = match &run.state {
            RunState::Running { phase } => Some(phase.name()),
            RunState::Queued | RunState::Suspended { .. } | RunState::Finished { .. } => None,
        };
        Self {
            id: run.id.to_string(),
            repository: job.repository.to_string(),
            subject,
            number: job.subject.number(),
            commit: job.head.to_string(),
            base: job.base.to_string(),
            goal: match job.goal {
                Goal::Repair => "repair",
                Goal::Verify => "verify",
            },
            requested_by: RequestedBy {
                login: job.request.actor.login.clone(),
                role: job.request.role.name(),
                origin: job.request.origin.clone(),
            },
            agent: job.agent.name(),
            state: run.state.name(),
            phase,
            outcome: match &run.state {
                RunState::Finished { outcome } => Some(End::of(outcome, &mask)),
                RunState::Queued | RunState::Running { .. } | RunState::Suspended { .. } => None,
            },
            check: Check::of(check_of(service, view)),
            checks: readings(view, &mask),
            patch: Patch::of(service, view, &mask),
            pushed_commit: offer::pushed(view).map(ToString::to_string),
            receipts: Receipts::of(view),
            links: Links {
                page: links::run(&service.public_url, &run.id),
                bundle: links::bundle(&service.public_url, &run.id),
            },
            created_at: time(run.created_at),
            started_at: run.started_at.map(time),
            finished_at: run.finished_at.map(time),
        }
    }
}

impl Check {
    fn of(check: CheckRun) -> Self {
        let (status, conclusion) = match &check.status {
            CheckStatus::Queued => ("queued", None),
            CheckStatus::InProgress => ("in_progress", None),
            CheckStatus::Completed { conclusion, .. } => ("completed", Some(conclusion.name())),
        };
        Self { status, conclusion, title: check.title, summary: check.summary }
    }
}

impl End {
    fn of(outcome: &Outcome, mask: &Mask) -> Self {
        let (kind, why, requeue_recommended) = match outcome {
            Outcome::Succeeded => (None, None, false),
            Outcome::Failed { failure } => {
                let (kind, why) = match failure {
                    Failure::Provision(why) => ("provision", why),
                    Failure::Bootstrap(why) => ("bootstrap", why),
                    Failure::NotRepaired(why) => ("not-repaired", why),
                    Failure::Refused(why) => ("refused", why),
                    Failure::Inconclusive(why) => ("inconclusive", why),
                    Failure::Agent(why) => ("agent", why),
                    Failure::Internal(why) => ("internal", why),
                };
                (Some(kind), Some(why), false)
            }
            Outcome::Halted { reason, requeue_recommended } => {
                let (kind, why) = match reason {
                    HaltReason::Governor(why) => ("governor", why),
                    HaltReason::Cancelled(why) => ("cancelled", why),
                    HaltReason::Superseded(why) => ("superseded", why),
                    HaltReason::OutOfTime(why) => ("out-of-time", why),
                };
                (Some(kind), Some(why), *requeue_recommended)
            }
        };
        Self { is: outcome.name(), kind, why: why.map(|why| mask.apply(why)), requeue_recommended }
    }
}

/// Each admitted check with what it said before and after.
fn readings(view: &RunView, mask: &Mask) -> Vec<Reading> {
    let (before, after) = (report::baseline(view), offer::last_verified(view).map(|last| last.checked));
    let said = |checked: Option<&Checked>, name: &str| {
        let result = checked?.checks.iter().find(|result| result.name == name)?;
        Some(match &result.report.outcome {
            CheckOutcome::Passed => "passed",
            CheckOutcome::Failed => "failed",
            CheckOutcome::Inconclusive(_) => "inconclusive",
            CheckOutcome::Unsupported(_) => "unsupported",
        })
    };
    let reading = |name: &String| Reading {
        name: mask.apply(name),
        before: said(before, name),
        after: said(after, name),
    };
    view.job().checks.iter().map(|check| reading(&check.name)).collect()
}

impl Patch {
    fn of(service: &Service, view: &RunView, mask: &Mask) -> Option<Self> {
        let verified = offer::verified(view).ok()?;
        let waits = offer::open(view).is_ok() && offer::awaiting_push(view, service.clock.now()).is_none();
        Some(Self {
            digest: named(verified.patch),
            tree: verified.tree.to_string(),
            paths: verified.paths.iter().map(|path| mask.apply(path)).collect(),
            waits_for_authorization: waits,
        })
    }
}

impl Receipts {
    fn of(view: &RunView) -> Option<Self> {
        let seal = view.receipts.iter().rev().find(|receipt| receipt.kind == ReceiptKind::Seal)?;
        let key_id = webhooks::report::key_id(view)?;
        Some(Self { count: seal.seq, seal: named(seal.signed.digest()), key_id })
    }
}

fn named(digest: Digest) -> String {
    format!("sha256:{digest}")
}

/// RFC 3339 in UTC.
fn time(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
