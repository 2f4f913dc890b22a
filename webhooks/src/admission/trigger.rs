//! What starts a run without a command, where the base branch's policy says so: a label, a check suite
//! of others that ended red. And what ends runs: that the app can reach a repository no more.

use jobs::digest::Digest;
use jobs::event::{
    AccessChange, CheckSuiteChange, CheckSuiteEvent, LabelEvent, PullRequestChange, SenderKind,
};
use jobs::forge::{Repository, Subject};
use jobs::run::HaltReason;
use jobs::store::deliveries::{self, ClaimedDelivery};
use jobs::store::runs::{self, HaltRequest};
use jobs::store::{Decision, outbox};

use super::commands::{Done, is_unfinished};
use super::request::request;
use super::work::{Context, Decided, Trouble, comment, policy_fault};
use super::{Asked, Trigger, Wish, actions, reply};

/// Runs that are looked through when an installation ends.
const MOST_RUNS: u32 = 1_000;

/// Decides a label. One that the policy does not list is nobody's business.
pub(super) async fn label(
    cx: &Context,
    claimed: &ClaimedDelivery,
    event: &LabelEvent,
) -> Result<Decided, Trouble> {
    match event.sender_kind {
        SenderKind::Person => {}
        SenderKind::Bot => return Ok(Decided::ignored("bots do not command")),
    }
    // The same label again is another wish, and the same body under another id is the same one.
    let body = deliveries::body(&cx.db, &claimed.ticket.key).await?.unwrap_or_default();
    let asked = Asked {
        wish: Wish::Fix,
        trigger: Trigger::Label(event.label.clone()),
        repository: event.repository.clone(),
        subject: event.subject.clone(),
        actor: event.sender.clone(),
        app: None,
        origin: format!("label/{}/{}", number(&event.subject), Digest::of(body).short()),
        text: Digest::of(&event.label),
    };
    let place = (&event.repository, &event.subject);
    Ok(match request(cx, asked).await? {
        Done::Refused { why } => {
            let answer = reply::refused(&event.sender.login, &[(Wish::Fix.verb(), why.clone())]);
            let message = comment(place.0, place.1, answer);
            Decided { decision: Decision::Refuse { why }, message: Some(message) }
        }
        done => decided(cx, place, done).await?,
    })
}

/// Decides a check suite.
pub(super) async fn check_suite(cx: &Context, event: &CheckSuiteEvent) -> Result<Decided, Trouble> {
    match event.change {
        CheckSuiteChange::Requested => moved(cx, event).await,
        CheckSuiteChange::Rerequested => again(cx, event).await,
        CheckSuiteChange::Failed => failed(cx, event).await,
    }
}

/// A commit was pushed: whatever works on a commit that was left behind ends.
async fn moved(cx: &Context, event: &CheckSuiteEvent) -> Result<Decided, Trouble> {
    let mut said = Decided::ignored("no pull request of this repository shows the commit");
    for number in &event.pull_requests {
        said = actions::pull_request(cx, &event.repository, *number, &PullRequestChange::HeadMoved).await?;
    }
    Ok(said)
}

/// The link "Re-run all checks": the newest run on the commit is asked for again.
async fn again(cx: &Context, event: &CheckSuiteEvent) -> Result<Decided, Trouble> {
    match event.sender_kind {
        SenderKind::Person => {}
        SenderKind::Bot => return Ok(Decided::ignored("bots do not command")),
    }
    let Some(run) = runs::of_head(&cx.db, &event.repository, &event.head).await? else {
        return Ok(Decided::ignored("no run is about this commit"));
    };
    let place = (&run.job.repository, &run.job.subject);
    Ok(match request(cx, actions::rerun(&event.sender, &run)).await? {
        Done::Refused { why } => {
            let answer = reply::refused(&event.sender.login, &[("rerun", why.clone())]);
            let message = comment(place.0, place.1, answer);
            Decided { decision: Decision::Refuse { why }, message: Some(message) }
        }
        done => decided(cx, place, done).await?,
    })
}

/// One run per commit, however many check suites of it end red. Nobody is told that nothing was
/// started, since nobody asked.
async fn failed(cx: &Context, event: &CheckSuiteEvent) -> Result<Decided, Trouble> {
    match event.sender_kind {
        SenderKind::Person => {}
        SenderKind::Bot => return Ok(Decided::ignored("bots do not command")),
    }
    let Some(number) = event.pull_requests.first() else {
        return Ok(Decided::ignored("the check suite names no pull request of this repository"));
    };
    let subject = Subject::PullRequest { number: *number };
    let asked = Asked {
        wish: Wish::Fix,
        trigger: Trigger::FailedCheckSuite,
        repository: event.repository.clone(),
        subject: subject.clone(),
        actor: event.sender.clone(),
        app: None,
        origin: format!("check-suite/{number}/{}", event.head),
        text: Digest::of("failed"),
    };
    Ok(match request(cx, asked).await? {
        Done::Admitted { spec, .. } if spec.head != event.head => {
            Decided::ignored("the pull request has moved on since")
        }
        Done::Refused { why } => Decided::ignored(why),
        Done::PolicyFault { fault, .. } => Decided::ignored(fault.to_string()),
        done @ (Done::Admitted { .. } | Done::Handled { .. }) => {
            decided(cx, (&event.repository, &subject), done).await?
        }
    })
}

async fn decided(
    cx: &Context,
    (repository, subject): (&Repository, &Subject),
    done: Done,
) -> Result<Decided, Trouble> {
    Ok(match done {
        Done::Admitted { spec, semantic_key } => {
            Decided { decision: Decision::Admit { spec, semantic_key }, message: None }
        }
        Done::Handled { what, .. } => Decided::ignored(what),
        Done::Refused { why } => Decided::ignored(why),
        Done::PolicyFault { head, fault } => {
            let said = Decided::handled(fault.to_string());
            let message = policy_fault(repository, subject, head, fault);
            outbox::enqueue(&cx.db, &message, cx.clock.now()).await?;
            said
        }
    })
}

/// Ends what works on repositories that the app can reach no more: nothing of it could be told.
pub(super) async fn access(
    cx: &Context,
    installation: i64,
    change: &AccessChange,
) -> Result<Decided, Trouble> {
    let repositories = match change {
        AccessChange::Gained => return Ok(Decided::handled("the app reaches more repositories")),
        AccessChange::Lost { repositories } => repositories,
    };
    let lost = |repository: &Repository| {
        let name = repository.to_string();
        repository.installation == installation
            && (repositories.is_empty() || repositories.iter().any(|lost| lost.eq_ignore_ascii_case(&name)))
    };
    let mut stopped = 0;
    for run in runs::list(&cx.db, MOST_RUNS).await? {
        if is_unfinished(&run) && lost(&run.job.repository) {
            let reason = HaltReason::Cancelled("the app was taken from the repository".to_owned());
            let request = HaltRequest { by: run.job.repository.forge.name().to_owned(), reason };
            runs::cancel(&cx.db, &run.id, &request, cx.clock.now()).await?;
            stopped += 1;
        }
    }
    Ok(Decided::handled(format!("the app reaches fewer repositories: asked {stopped} runs to stop")))
}

fn number(subject: &Subject) -> String {
    subject.number().map(|number| number.to_string()).unwrap_or_default()
}
