//! What becomes of a click on a check run, and of a pull request that was closed or moved on.

use jobs::digest::Digest;
use jobs::event::{CheckActionEvent, PullRequestChange, SenderKind};
use jobs::forge::{Account, PullRequestState, Repository, Role, Subject};
use jobs::id::RunId;
use jobs::job::Goal;
use jobs::run::{HaltReason, Outcome, RunState};
use jobs::store::deliveries::{self, ClaimedDelivery};
use jobs::store::runs::{self, HaltRequest};
use jobs::store::{Decision, RunSummary, StoreError, outbox};

use super::commands::{self, Done, is_unfinished, latest};
use super::request::request;
use super::work::{Context, Decided, Trouble, asked, comment, policy_fault};
use super::{Asked, Trigger, Wish, reply};
use crate::authorize::Refusal;

/// What the buttons of a check run are called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Button {
    Apply,
    Reject,
    Rerun,
    Cancel,
}

impl Button {
    pub(crate) const ALL: [Button; 4] = [Button::Apply, Button::Reject, Button::Rerun, Button::Cancel];

    /// The identifier that a click brings back.
    pub(crate) const fn identifier(self) -> &'static str {
        match self {
            Button::Apply => "apply",
            Button::Reject => "reject",
            Button::Rerun => "rerun",
            Button::Cancel => "cancel",
        }
    }
}

/// Decides a click. Who clicked is authorized, never the pull request's author.
pub(super) async fn click(
    cx: &Context,
    claimed: &ClaimedDelivery,
    event: &CheckActionEvent,
) -> Result<Decided, Trouble> {
    match event.sender_kind {
        SenderKind::Person => {}
        SenderKind::Bot => return Ok(Decided::ignored("bots do not command")),
    }
    let Some(run) = clicked_run(cx, event).await? else {
        return Ok(Decided::ignored("the check run belongs to no run that is known here"));
    };
    let asked_for = Button::ALL.into_iter().find(|button| button.identifier() == event.action);
    let Some(button) = asked_for else {
        return Ok(refusal(event, &run, "click", "this button is not one of ours any more".to_owned()));
    };
    let origin = origin(cx, claimed, event).await?;
    let (actor, repository) = (&event.sender, &run.job.repository);
    let done = match button {
        Button::Apply => commands::authorize(cx, &run.id, repository, actor, &origin).await?,
        Button::Reject => commands::decline(cx, &run.id, repository, actor, &origin).await?,
        Button::Rerun => request(cx, rerun(&event.sender, &run)).await?,
        Button::Cancel => cancel(cx, event, &run).await?,
    };
    Ok(match done {
        Done::Admitted { spec, semantic_key } => {
            Decided { decision: Decision::Admit { spec, semantic_key }, message: None }
        }
        Done::Handled { what, .. } => Decided::handled(what),
        Done::Refused { why } => refusal(event, &run, button.identifier(), why),
        Done::PolicyFault { head, fault } => {
            let said = Decided::handled(fault.to_string());
            let message = policy_fault(repository, &run.job.subject, head, fault);
            outbox::enqueue(&cx.db, &message, cx.clock.now()).await?;
            said
        }
    })
}

/// The run that the check run stands for, by the id under which the forge keeps it or by ours; it
/// must be of the same repository.
async fn clicked_run(cx: &Context, event: &CheckActionEvent) -> Result<Option<RunSummary>, StoreError> {
    let kept = runs::by_check_run(&cx.db, event.repository.forge, &event.check_run_id.to_string()).await?;
    let named = || event.external_id.as_deref().and_then(run_of_external_id);
    let Some(id) = kept.or_else(named) else { return Ok(None) };
    let found = runs::find(&cx.db, &id).await?;
    Ok(found.filter(|run| is_same(&run.job.repository, &event.repository)))
}

/// The run that an external id of ours names.
fn run_of_external_id(external_id: &str) -> Option<RunId> {
    external_id.split('.').next()?.parse().ok()
}

/// Forges do not tell names apart by case.
fn is_same(one: &Repository, other: &Repository) -> bool {
    one.forge == other.forge
        && one.owner.eq_ignore_ascii_case(&other.owner)
        && one.name.eq_ignore_ascii_case(&other.name)
}

fn refusal(event: &CheckActionEvent, run: &RunSummary, verb: &'static str, why: String) -> Decided {
    let answer = reply::refused(&event.sender.login, &[(verb, why.clone())]);
    let message = comment(&run.job.repository, &run.job.subject, answer);
    Decided { decision: Decision::Refuse { why }, message: Some(message) }
}

/// What names this click: the same body under another delivery id is the same click.
async fn origin(
    cx: &Context,
    claimed: &ClaimedDelivery,
    event: &CheckActionEvent,
) -> Result<String, StoreError> {
    let body = deliveries::body(&cx.db, &claimed.ticket.key).await?.unwrap_or_default();
    let forge = event.repository.forge.name();
    Ok(format!("{forge}/check-action/{}/{}", event.check_run_id, Digest::of(body).short()))
}

/// The same again, as somebody else may wish it.
pub(super) fn rerun(actor: &Account, run: &RunSummary) -> Asked {
    let wish = match run.job.goal {
        Goal::Verify => Wish::Verify,
        Goal::Repair => Wish::Fix,
    };
    Asked {
        wish,
        trigger: Trigger::Rerun,
        repository: run.job.repository.clone(),
        subject: run.job.subject.clone(),
        actor: actor.clone(),
        app: None,
        // Each run is run again once; its successor has a button of its own.
        origin: format!("rerun/{}", run.id),
        text: Digest::of("rerun"),
    }
}

async fn cancel(cx: &Context, event: &CheckActionEvent, run: &RunSummary) -> Result<Done, Trouble> {
    if !is_unfinished(run) {
        return Ok(Done::Refused { why: "the run has ended".to_owned() });
    }
    if run.job.request.actor.id != event.sender.id {
        let forge = match asked(cx.forges.of(&run.job.repository))? {
            Ok(forge) => forge,
            Err(why) => return Ok(Done::Refused { why }),
        };
        let has = match asked(forge.permission(&run.job.repository, &event.sender).await)? {
            Ok(has) => has,
            Err(why) => return Ok(Done::Refused { why }),
        };
        let (login, least) = (event.sender.login.clone(), Role::Write);
        if has < least {
            return Ok(Done::Refused { why: Refusal::Role { login, has, least }.to_string() });
        }
    }
    commands::stop(cx, std::slice::from_ref(run), &event.sender.login).await?;
    Ok(Done::Handled { what: format!("asked run {} to stop", run.id), answer: None })
}

/// Ends what works on a pull request that is closed, or on a head that it left behind. The pull
/// request is asked for again: events come late and out of order.
pub(super) async fn pull_request(
    cx: &Context,
    repository: &Repository,
    number: i64,
    change: &PullRequestChange,
) -> Result<Decided, Trouble> {
    let runs = latest(cx, repository, &Subject::PullRequest { number }).await?;
    if runs.is_empty() {
        return Ok(Decided::ignored("no run is about this pull request"));
    }
    let forge = match asked(cx.forges.of(repository))? {
        Ok(forge) => forge,
        Err(why) => return Ok(Decided::ignored(why)),
    };
    let now = match asked(forge.pull_request(repository, number).await)? {
        Ok(pull_request) => pull_request,
        Err(why) => return Ok(Decided::ignored(why)),
    };
    let mut stopped = 0;
    for run in runs {
        let reason = match (now.state, run.job.head == now.head) {
            (PullRequestState::Closed, _) => HaltReason::Cancelled("the pull request was closed".to_owned()),
            (PullRequestState::Open, false) => {
                HaltReason::Superseded(format!("the pull request moved on to {}", now.head))
            }
            (PullRequestState::Open, true) => continue,
        };
        if is_unfinished(&run) {
            let request = HaltRequest { by: repository.forge.name().to_owned(), reason };
            runs::cancel(&cx.db, &run.id, &request, cx.clock.now()).await?;
            stopped += 1;
        } else if run.state == (RunState::Finished { outcome: Outcome::Succeeded }) {
            // Its check run says from now on that the patch is for a head of the past.
            outbox::refresh(&cx.db, &run.id, cx.clock.now()).await?;
        }
    }
    let event = match change {
        PullRequestChange::Closed => "closed",
        PullRequestChange::HeadMoved => "head moved",
    };
    Ok(Decided::handled(format!("{event}: asked {stopped} runs to stop")))
}
