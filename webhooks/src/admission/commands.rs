//! What becomes of a comment's commands.

use jobs::digest::Digest;
use jobs::event::{CommentEvent, SenderKind};
use jobs::forge::{Account, Repository, Role, Subject};
use jobs::id::{CommitId, RunId};
use jobs::job::JobSpec;
use jobs::policy::PolicyError;
use jobs::run::{HaltReason, RunState};
use jobs::store::deliveries::ClaimedDelivery;
use jobs::store::runs::{self, HaltRequest};
use jobs::store::{Accepted, Decision, RunSummary, StoreError, accept, outbox};

use super::flood::Flow;
use super::request::request;
use super::work::{Context, Decided, Trouble, answer_to, asked, policy_fault};
use super::{Asked, Trigger, Wish, reply};
use crate::authorize::{self, Refusal};
use crate::command::{self, Command, Fault};
use crate::offer;

/// Runs of one pull request that a command looks at.
const LATEST: u32 = 20;

/// What became of one command.
pub(super) enum Done {
    Admitted {
        spec: Box<JobSpec>,
        semantic_key: String,
    },
    Handled {
        what: String,
        answer: Option<String>,
    },
    Refused {
        why: String,
    },
    /// The base branch's policy cannot be read; that is said on `head`.
    PolicyFault {
        head: CommitId,
        fault: PolicyError,
    },
}

impl Done {
    fn refused(why: impl ToString) -> Self {
        Done::Refused { why: why.to_string() }
    }

    fn handled(what: String) -> Self {
        Done::Handled { what, answer: None }
    }
}

/// Decides a comment.
pub(super) async fn decide(
    cx: &Context,
    claimed: &ClaimedDelivery,
    event: &CommentEvent,
) -> Result<Decided, Trouble> {
    let commands = command::parse(&event.body);
    if matches!(&commands, Ok(commands) if commands.is_empty()) {
        return Ok(Decided::ignored("the comment holds no command"));
    }
    match event.sender_kind {
        SenderKind::Person => {}
        SenderKind::Bot => return by_app(cx, event, commands).await,
    }
    let login = &event.sender.login;
    // A delivery that waited for its forge was counted when it was first looked at.
    if claimed.attempts == 1 {
        match cx.flood().count(&event.repository, &event.sender, cx.clock.now()) {
            Flow::Heard => {}
            Flow::First => return Ok(refusal(event, "too many commands", reply::flooded(login))),
            Flow::More => return Ok(Decided::ignored("too many commands, and that was said")),
        }
    }
    match commands {
        Err(fault) => Ok(refusal(event, &fault.to_string(), reply::usage(login, &fault))),
        Ok(commands) => all(cx, event, &commands).await,
    }
}

/// An app may ask for a run where the base branch's policy lists it, and for nothing else. It is never
/// answered, so that no two apps can talk to each other for ever.
async fn by_app(
    cx: &Context,
    event: &CommentEvent,
    commands: Result<Vec<Command>, Fault>,
) -> Result<Decided, Trouble> {
    let ignored = || Ok(Decided::ignored("bots do not command"));
    let Some(_) = event.app else { return ignored() };
    let wish = match commands.as_deref() {
        Ok([Command::Fix]) => Wish::Fix,
        Ok([Command::Try]) => Wish::Try,
        Ok([Command::Verify]) => Wish::Verify,
        Ok(_) | Err(_) => return ignored(),
    };
    match cx.flood().count(&event.repository, &event.sender, cx.clock.now()) {
        Flow::Heard => {}
        Flow::First | Flow::More => return Ok(Decided::ignored("too many commands of an app")),
    }
    Ok(match run(cx, event, wish).await? {
        Done::Admitted { spec, semantic_key } => {
            Decided { decision: Decision::Admit { spec, semantic_key }, message: None }
        }
        Done::Handled { what, .. } => Decided::handled(what),
        Done::Refused { why } => Decided::ignored(why),
        Done::PolicyFault { fault, .. } => Decided::ignored(fault.to_string()),
    })
}

fn refusal(event: &CommentEvent, why: &str, answer: String) -> Decided {
    let message = answer_to(event, answer);
    Decided { decision: Decision::Refuse { why: why.to_owned() }, message: Some(message) }
}

/// The verbs of a comment's commands, for one who must be told that none was done.
pub(super) fn verbs(body: &str) -> Vec<&'static str> {
    command::parse(body).unwrap_or_default().iter().map(Command::verb).collect()
}

/// Does every command in its order. The delivery is decided by the last admission, or as handled;
/// doing it all again after a crash changes nothing, since each effect has its own key.
async fn all(cx: &Context, event: &CommentEvent, commands: &[Command]) -> Result<Decided, Trouble> {
    let (mut refused, mut answers, mut said) = (Vec::new(), Vec::new(), Vec::new());
    let mut faulty = None;
    let mut admitted: Option<Decision> = None;
    for command in commands {
        match one(cx, event, command).await? {
            Done::Admitted { spec, semantic_key } => {
                if let Some(decision) = admitted.replace(Decision::Admit { spec, semantic_key }) {
                    let now = cx.clock.now();
                    accept(&cx.db, Accepted { delivery: None, decision, messages: Vec::new(), now }).await?;
                }
            }
            Done::Handled { what, answer } => {
                answers.extend(answer);
                said.push(what);
            }
            Done::Refused { why } => refused.push((command.verb(), why)),
            Done::PolicyFault { head, fault } => faulty = Some((head, fault)),
        }
    }
    if let Some((head, fault)) = faulty {
        said.push(fault.to_string());
        outbox::enqueue(
            &cx.db,
            &policy_fault(&event.repository, &event.subject, head, fault),
            cx.clock.now(),
        )
        .await?;
    }
    if !refused.is_empty() {
        answers.push(reply::refused(&event.sender.login, &refused));
    }
    let message = (!answers.is_empty()).then(|| answer_to(event, answers.join("\n\n")));
    let decision = admitted.unwrap_or_else(|| match (said.as_slice(), refused.as_slice()) {
        ([], [(_, why), ..]) => Decision::Refuse { why: why.clone() },
        (said, _) => Decision::Handle { what: said.join("; ") },
    });
    Ok(Decided { decision, message })
}

async fn one(cx: &Context, event: &CommentEvent, command: &Command) -> Result<Done, Trouble> {
    match command {
        Command::Help => {
            Ok(Done::Handled { what: "help".to_owned(), answer: Some(reply::help(&event.sender.login)) })
        }
        Command::Status => {
            let runs = latest(cx, &event.repository, &event.subject).await?;
            let answer = Some(reply::status(&runs[..runs.len().min(5)], cx.public_url.as_ref()));
            Ok(Done::Handled { what: "status".to_owned(), answer })
        }
        Command::Fix => run(cx, event, Wish::Fix).await,
        Command::Verify => run(cx, event, Wish::Verify).await,
        Command::Try => run(cx, event, Wish::Try).await,
        Command::Apply { receipt } => apply(cx, event, receipt.as_deref()).await,
        Command::Reject => reject(cx, event).await,
        Command::Cancel { run } => cancel(cx, event, run.as_ref()).await,
        Command::Resume { run } => resume(cx, event, run.as_ref()).await,
    }
}

async fn run(cx: &Context, event: &CommentEvent, wish: Wish) -> Result<Done, Trouble> {
    let asked = Asked {
        wish,
        trigger: Trigger::Comment,
        repository: event.repository.clone(),
        subject: event.subject.clone(),
        actor: event.sender.clone(),
        app: match event.sender_kind {
            SenderKind::Person => None,
            SenderKind::Bot => event.app,
        },
        origin: format!("{}/{}", event.place.name(), event.comment_id),
        text: Digest::of(&event.body),
    };
    request(cx, asked).await
}

async fn apply(cx: &Context, event: &CommentEvent, receipt: Option<&str>) -> Result<Done, Trouble> {
    let run = match offered(cx, event, receipt).await? {
        Ok(run) => run,
        Err(why) => return Ok(Done::Refused { why }),
    };
    authorize(cx, &run, &event.repository, &event.sender, &origin(event)).await
}

async fn reject(cx: &Context, event: &CommentEvent) -> Result<Done, Trouble> {
    let run = match offered(cx, event, None).await? {
        Ok(run) => run,
        Err(why) => return Ok(Done::Refused { why }),
    };
    decline(cx, &run, &event.repository, &event.sender, &origin(event)).await
}

/// Records a yes to a run's patch.
pub(super) async fn authorize(
    cx: &Context,
    run: &RunId,
    repository: &Repository,
    actor: &Account,
    origin: &str,
) -> Result<Done, Trouble> {
    let forge = match asked(cx.forges.of(repository))? {
        Ok(forge) => forge,
        Err(why) => return Ok(Done::Refused { why }),
    };
    let outcome = authorize::authorize(&cx.db, forge, run, actor, origin, cx.clock.as_ref()).await;
    settled(outcome.map(|_| format!("authorized the patch of run {run}")))
}

/// Records a no to a run's patch.
pub(super) async fn decline(
    cx: &Context,
    run: &RunId,
    repository: &Repository,
    actor: &Account,
    origin: &str,
) -> Result<Done, Trouble> {
    let forge = match asked(cx.forges.of(repository))? {
        Ok(forge) => forge,
        Err(why) => return Ok(Done::Refused { why }),
    };
    let outcome = authorize::decline(&cx.db, forge, run, actor, origin, cx.clock.as_ref()).await;
    settled(outcome.map(|()| format!("declined the patch of run {run}")))
}

fn settled(outcome: Result<String, Refusal>) -> Result<Done, Trouble> {
    match outcome {
        Ok(what) => Ok(Done::handled(what)),
        Err(Refusal::Store(error)) => Err(Trouble::Store(error)),
        Err(refusal) => match refusal.retry_after() {
            Some(wait) => Err(Trouble::Later { why: refusal.to_string(), wait }),
            None => Ok(Done::refused(refusal)),
        },
    }
}

/// The newest run of the pull request whose patch may be decided on, by its seal's first digits
/// where some are given; or the one that this very comment has decided on before.
async fn offered(
    cx: &Context,
    event: &CommentEvent,
    receipt: Option<&str>,
) -> Result<Result<RunId, String>, Trouble> {
    let mut nearest = None;
    for run in latest(cx, &event.repository, &event.subject).await? {
        let Some(view) = runs::view(&cx.db, &run.id).await? else { continue };
        if authorize::decided_by(&view, &origin(event)).is_some() {
            return Ok(Ok(run.id));
        }
        let named = |seal: String| receipt.is_none_or(|prefix| seal.starts_with(prefix));
        match offer::open(&view) {
            Ok(offer) if named(offer.seal.to_string()) => return Ok(Ok(run.id)),
            Ok(_) => {}
            Err(why) => nearest = nearest.or(Some(why.to_string())),
        }
    }
    Ok(Err(match (receipt, nearest) {
        (Some(prefix), _) => format!("no verified patch here has a seal that begins with `{prefix}`"),
        (None, Some(why)) => why,
        (None, None) => "there was no run here yet".to_owned(),
    }))
}

async fn cancel(cx: &Context, event: &CommentEvent, named: Option<&RunId>) -> Result<Done, Trouble> {
    let runs = match chosen(cx, event, named, is_unfinished, "there is no run to cancel").await? {
        Ok(runs) => runs,
        Err(why) => return Ok(Done::Refused { why }),
    };
    let own = runs.iter().all(|run| run.job.request.actor.id == event.sender.id);
    if !own && let Some(why) = not_allowed(cx, event).await? {
        return Ok(Done::Refused { why });
    }
    stop(cx, &runs, &event.sender.login).await?;
    Ok(Done::handled(format!("asked {} runs to stop", runs.len())))
}

/// Asks runs to end as cancelled by `login`.
pub(super) async fn stop(cx: &Context, runs: &[RunSummary], login: &str) -> Result<(), StoreError> {
    let reason = HaltReason::Cancelled(format!("cancelled by {login}"));
    let request = HaltRequest { by: login.to_owned(), reason };
    for run in runs {
        runs::cancel(&cx.db, &run.id, &request, cx.clock.now()).await?;
    }
    Ok(())
}

async fn resume(cx: &Context, event: &CommentEvent, named: Option<&RunId>) -> Result<Done, Trouble> {
    let runs = match chosen(cx, event, named, is_suspended, "there is no suspended run").await? {
        Ok(runs) => runs,
        Err(why) => return Ok(Done::Refused { why }),
    };
    if let Some(why) = not_allowed(cx, event).await? {
        return Ok(Done::Refused { why });
    }
    for run in &runs {
        match runs::resume(&cx.db, &run.id, &event.sender.login, cx.clock.now()).await {
            // Somebody else resumed or ended it in between.
            Ok(()) | Err(StoreError::Illegal(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Done::handled(format!("resumed {} runs", runs.len())))
}

/// The runs of this pull request that a command means.
async fn chosen(
    cx: &Context,
    event: &CommentEvent,
    named: Option<&RunId>,
    fits: impl Fn(&RunSummary) -> bool,
    none: &str,
) -> Result<Result<Vec<RunSummary>, String>, Trouble> {
    let mut runs = latest(cx, &event.repository, &event.subject).await?;
    runs.retain(|run| fits(run) && named.is_none_or(|named| *named == run.id));
    Ok(match (runs.is_empty(), named) {
        (false, _) => Ok(runs),
        (true, None) => Err(format!("{none} here")),
        (true, Some(run)) => Err(format!("{none} `{run}` here")),
    })
}

/// Why the sender may not steer runs of others; `None` when they may.
async fn not_allowed(cx: &Context, event: &CommentEvent) -> Result<Option<String>, Trouble> {
    let forge = match asked(cx.forges.of(&event.repository))? {
        Ok(forge) => forge,
        Err(why) => return Ok(Some(why)),
    };
    let has = match asked(forge.permission(&event.repository, &event.sender).await)? {
        Ok(role) => role,
        Err(why) => return Ok(Some(why)),
    };
    let (login, least) = (event.sender.login.clone(), Role::Write);
    Ok((has < least).then(|| Refusal::Role { login, has, least }.to_string()))
}

pub(super) async fn latest(
    cx: &Context,
    repository: &Repository,
    subject: &Subject,
) -> Result<Vec<RunSummary>, StoreError> {
    match subject.number() {
        Some(number) => runs::of_subject(&cx.db, repository, number, LATEST).await,
        None => Ok(Vec::new()),
    }
}

/// Whether a run has not ended.
pub(super) fn is_unfinished(run: &RunSummary) -> bool {
    match run.state {
        RunState::Queued | RunState::Running { .. } | RunState::Suspended { .. } => true,
        RunState::Finished { .. } => false,
    }
}

fn is_suspended(run: &RunSummary) -> bool {
    match run.state {
        RunState::Suspended { .. } => true,
        RunState::Queued | RunState::Running { .. } | RunState::Finished { .. } => false,
    }
}

/// What names a decision made by this comment; comments of two forges may have the same number.
fn origin(event: &CommentEvent) -> String {
    format!("{}/{}/{}", event.repository.forge.name(), event.place.name(), event.comment_id)
}
