//! The check run of a run: one place from which the forge, the page and the command line read the
//! same finished text.

use askama::Template;
use jobs::clock::Millis;
use jobs::id::CommitId;
use jobs::job::Goal;
use jobs::run::{Failure, HaltReason, Phase, RunState, Suspension};
use jobs::store::RunView;
use jobs::store::receipts::ReceiptKind;
use url::Url;

use super::evidence::{self, Line};
use super::mask::Mask;
use super::standing::{self, Patch, Standing};
use super::{annotations, cut};
use crate::admission::Button;
use crate::forge::{CheckAction, CheckRun, CheckStatus, Conclusion};
use crate::links;
use crate::text::{fence, one_line, within_characters};

/// How every check run of this app is called.
pub const NAME: &str = "whipstitch";
/// GitHub's limits for a button's texts, in characters.
const LABEL: usize = 20;
const DESCRIPTION: usize = 40;
/// Names that a list shows before it counts the rest.
const MOST_LISTED: usize = 25;

/// What the text needs beside the rows.
#[derive(Clone, Debug)]
pub struct Material<'a> {
    /// The verified patch; `None` where there is none, or where it cannot be read here.
    pub patch: Option<Vec<u8>>,
    /// The key that signed the run's seal ([`super::key_id`]); `None` before there is one.
    pub key_id: Option<&'a str>,
    /// Where people reach the dashboard.
    pub public_url: Option<&'a Url>,
    /// The commit that the pull request shows now, where that is known.
    pub head: Option<CommitId>,
    pub mask: &'a Mask,
    pub now: Millis,
}

/// The check run of the tested commit.
pub fn check_run(view: &RunView, material: &Material<'_>) -> CheckRun {
    let standing = standing::of(view, material.head.as_ref(), material.now);
    let marked = annotations::of(view, material.mask);
    let pointer = pointer(view, material);
    let summary = render(&Summary::of(view, &standing, marked.left_out, material));
    let text = render(&Text::of(view, &standing, material));
    CheckRun {
        external_id: view.run.id.to_string(),
        name: NAME.to_owned(),
        head: view.job().head.clone(),
        status: standing.status(view.run.finished_at.unwrap_or(view.run.updated_at)),
        title: material.mask.apply(&one_line(&title(view, &standing), 200)),
        summary: cut::to_limit(material.mask.apply(&summary), &pointer),
        text: Some(cut::to_limit(material.mask.apply(&text), &pointer))
            .filter(|text| !text.trim().is_empty()),
        annotations: marked.annotations,
        actions: actions(&standing),
        details_url: material.public_url.and_then(|base| links::run(base, &view.run.id)),
        started_at: view.run.started_at,
    }
}

/// The check run of the commit that an authorized push made, with the same receipts: its tree is the
/// one whose checks were seen to pass. `None` while nothing was pushed.
pub fn pushed_check_run(view: &RunView, material: &Material<'_>) -> Option<CheckRun> {
    let standing = standing::of(view, None, material.now);
    let Standing::Repaired(offer, Patch::Pushed { by, commit }) = &standing else { return None };
    let at = view.authorizations.iter().filter_map(|recorded| recorded.settled_at).max();
    let summary = render(&Pushed {
        by: one_line(by, 60),
        tested: short(&view.job().head),
        tree: offer.tree.as_str(),
        lines: evidence::lines(view),
        receipts: Receipts::of(view, material),
        run: About::of(view, material),
    });
    Some(CheckRun {
        external_id: format!("{}.pushed", view.run.id),
        head: commit.clone(),
        status: CheckStatus::Completed {
            conclusion: Conclusion::Success,
            at: at.unwrap_or(view.run.updated_at),
        },
        title: format!("Repaired, verified and pushed with the yes of {}", one_line(by, 60)),
        summary: cut::to_limit(material.mask.apply(&summary), &pointer(view, material)),
        text: None,
        annotations: Vec::new(),
        actions: Vec::new(),
        ..check_run(view, material)
    })
}

/// Where the whole of a text that was cut is found.
fn pointer(view: &RunView, material: &Material<'_>) -> String {
    match material.public_url.and_then(|base| links::bundle(base, &view.run.id)) {
        Some(url) => format!("The whole is in the run's bundle: {url}"),
        None => format!("The whole is in the bundle of run {}.", view.run.id),
    }
}

pub(super) fn short(commit: &CommitId) -> String {
    commit.as_str().chars().take(8).collect()
}

fn title(view: &RunView, standing: &Standing) -> String {
    match standing {
        Standing::Queued => "Waits for a free runner".to_owned(),
        Standing::Stopping => "Was asked to stop".to_owned(),
        Standing::Working(phase) => format!("{} ({} of 6)", doing(*phase), place(*phase)),
        Standing::Suspended(Suspension::UncertainLaunch) => {
            "Waits for a decision: whether the agent ran is not known".to_owned()
        }
        Standing::Suspended(Suspension::Requested) => "Suspended, waits to be resumed".to_owned(),
        Standing::Clean => "Nothing to repair: every check passes".to_owned(),
        Standing::Repaired(offer, patch) => match patch {
            Patch::Waits { .. } => {
                format!("Repaired: a verified patch of {} waits for a yes", files(offer.paths.len()))
            }
            Patch::Unpushable(_) => "Repaired: the verified patch is to be taken by hand".to_owned(),
            Patch::Superseded(head) => {
                format!("Superseded: the pull request moved on to {}", short(head))
            }
            Patch::Authorized { by } => format!("Authorized by {by}; the push is on its way"),
            Patch::UncertainPush(_) => "Whether the push arrived is not known".to_owned(),
            Patch::Pushed { commit, .. } => format!("Repaired by commit {}", short(commit)),
            Patch::Declined { by } => format!("The verified patch was declined by {by}"),
        },
        Standing::Unproven => "Ended without proof that the checks pass".to_owned(),
        Standing::Failed(failure) => failed(view, failure),
        Standing::Halted { reason, .. } => match reason {
            HaltReason::Governor(_) => "Halted: going on would not pay".to_owned(),
            HaltReason::Cancelled(_) => "Cancelled".to_owned(),
            HaltReason::Superseded(_) => "Superseded: the pull request moved on".to_owned(),
            HaltReason::OutOfTime(_) => "Halted: the time for this run is spent".to_owned(),
        },
    }
}

fn failed(view: &RunView, failure: &Failure) -> String {
    match failure {
        Failure::Provision(_) => "Failed: the repository could not be fetched",
        Failure::Bootstrap(_) => "Failed: dependencies or the sealed container could not be set up",
        Failure::NotRepaired(_) => match view.job().goal {
            Goal::Repair => "Not repaired: some checks are still red",
            Goal::Verify => "Some checks are red",
        },
        Failure::Refused(_) => "Not accepted: it looks green, but is not believed",
        Failure::Inconclusive(_) => "No conclusion: a check could not be read",
        Failure::Agent(_) => "Failed: the agent made no usable proposal",
        Failure::Internal(_) => "Failed: something went wrong in this service",
    }
    .to_owned()
}

fn files(number: usize) -> String {
    evidence::count(number, "file")
}

const fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Provision => "Fetches the commit",
        Phase::Bootstrap => "Installs dependencies, then seals the container",
        Phase::Navigate => "Looks through the repository",
        Phase::Edit => "Edits",
        Phase::Verify => "Runs the checks",
        Phase::Repair => "Repairs what is still red",
    }
}

fn place(phase: Phase) -> usize {
    Phase::ALL.iter().position(|other| *other == phase).map_or(0, |at| at + 1)
}

/// At most three, and each within GitHub's limits.
fn actions(standing: &Standing) -> Vec<CheckAction> {
    let buttons: &[Button] = match standing {
        Standing::Queued | Standing::Working(_) => &[Button::Cancel],
        Standing::Stopping => &[],
        Standing::Suspended(_) => &[Button::Cancel],
        Standing::Repaired(_, Patch::Waits { .. }) => &[Button::Apply, Button::Reject, Button::Rerun],
        Standing::Repaired(_, Patch::Authorized { .. } | Patch::Pushed { .. } | Patch::Superseded(_)) => &[],
        Standing::Clean
        | Standing::Repaired(_, Patch::Unpushable(_) | Patch::UncertainPush(_) | Patch::Declined { .. })
        | Standing::Unproven
        | Standing::Failed(_)
        | Standing::Halted { .. } => &[Button::Rerun],
    };
    buttons.iter().map(|button| action(*button)).collect()
}

fn action(button: Button) -> CheckAction {
    let (label, description) = match button {
        Button::Apply => ("Apply", "Push the verified patch to the branch"),
        Button::Reject => ("Reject", "Decline the patch for good"),
        Button::Rerun => ("Re-run", "Ask for the same again"),
        Button::Cancel => ("Cancel", "Stop this run"),
    };
    CheckAction {
        label: within_characters(label, LABEL),
        description: within_characters(description, DESCRIPTION),
        identifier: within_characters(button.identifier(), LABEL),
    }
}

#[derive(Template)]
#[template(path = "check/summary.md")]
struct Summary<'a> {
    lead: Vec<String>,
    lines: Vec<Line>,
    green_again: Listed,
    red_now: Listed,
    flaky: Listed,
    reasons: Vec<String>,
    left_out: Option<String>,
    seal: Vec<String>,
    receipts: Option<Receipts<'a>>,
    run: About,
}

impl<'a> Summary<'a> {
    fn of(view: &RunView, standing: &Standing, left_out: usize, material: &'a Material<'_>) -> Self {
        let change = evidence::change(view);
        let ended = matches!(view.run.state, RunState::Finished { .. });
        Self {
            lead: super::words::lead(view, standing),
            lines: if evidence::baseline(view).is_some() { evidence::lines(view) } else { Vec::new() },
            green_again: Listed::of(change.green_again),
            flaky: Listed::of(change.flaky),
            red_now: Listed::of(if ended { change.red_now } else { Vec::new() }),
            reasons: if ended { evidence::reasons(view) } else { Vec::new() },
            seal: super::sealing::lines(view),
            left_out: (left_out > 0).then(|| evidence::count(left_out, "finding")),
            receipts: Receipts::of(view, material),
            run: About::of(view, material),
        }
    }
}

/// The first of many names, and how many more there are.
struct Listed {
    names: Vec<String>,
    more: usize,
}

impl Listed {
    fn of(mut names: Vec<String>) -> Self {
        let more = names.len().saturating_sub(MOST_LISTED);
        names.truncate(MOST_LISTED);
        Self { names, more }
    }
}

#[derive(Template)]
#[template(path = "check/pushed.md")]
struct Pushed<'a> {
    by: String,
    tested: String,
    tree: &'a str,
    lines: Vec<Line>,
    receipts: Option<Receipts<'a>>,
    run: About,
}

/// The evidence that a reader can check without trusting this service.
struct Receipts<'a> {
    seal: String,
    seal_line: String,
    head: String,
    count: u32,
    key_id: Option<&'a str>,
    bundle: Option<String>,
}

impl<'a> Receipts<'a> {
    fn of(view: &RunView, material: &'a Material<'_>) -> Option<Self> {
        let seal = view.receipts.iter().rev().find(|receipt| receipt.kind == ReceiptKind::Seal)?;
        let before = view.receipts.iter().rfind(|receipt| receipt.seq < seal.seq);
        Some(Self {
            seal: seal.signed.digest().to_string(),
            seal_line: String::from_utf8_lossy(&seal.signed.bytes).replace('`', "'"),
            head: before.map(|receipt| receipt.signed.digest().to_string()).unwrap_or_default(),
            count: seal.seq,
            key_id: material.key_id,
            bundle: material.public_url.and_then(|base| links::bundle(base, &view.run.id)),
        })
    }
}

/// Who asked for what.
struct About {
    id: String,
    page: Option<String>,
    actor: String,
    role: &'static str,
    origin: String,
    agent: &'static str,
    base: String,
}

impl About {
    fn of(view: &RunView, material: &Material<'_>) -> Self {
        let job = view.job();
        Self {
            id: view.run.id.to_string(),
            page: material.public_url.and_then(|base| links::run(base, &view.run.id)),
            actor: one_line(&job.request.actor.login, 60),
            role: job.request.role.name(),
            origin: one_line(&job.request.origin, 80),
            agent: job.agent.name(),
            base: short(&job.base),
        }
    }
}

#[derive(Template)]
#[template(path = "check/text.md")]
struct Text {
    diff: Option<Fenced>,
    failures: Vec<Excerpt>,
    more: usize,
}

struct Fenced {
    fence: String,
    body: String,
}

struct Excerpt {
    name: String,
    fenced: Fenced,
}

impl Fenced {
    fn of(text: &str) -> Self {
        let body = text.trim_end_matches('\n').to_owned();
        Self { fence: fence(&body), body }
    }
}

/// Failing tests whose words are shown.
const MOST_EXCERPTS: usize = 10;

impl Text {
    fn of(view: &RunView, standing: &Standing, material: &Material<'_>) -> Self {
        let diff = match standing {
            Standing::Repaired(..) => {
                material.patch.as_ref().map(|patch| Fenced::of(&String::from_utf8_lossy(patch)))
            }
            Standing::Queued
            | Standing::Working(_)
            | Standing::Stopping
            | Standing::Suspended(_)
            | Standing::Clean
            | Standing::Unproven
            | Standing::Failed(_)
            | Standing::Halted { .. } => None,
        };
        let ended = matches!(view.run.state, RunState::Finished { .. });
        let last = evidence::last(view).filter(|_| ended && diff.is_none());
        let failures: Vec<_> = last
            .into_iter()
            .flat_map(|checked| &checked.checks)
            .flat_map(|result| &result.report.failures)
            .collect();
        let excerpts = failures.iter().take(MOST_EXCERPTS).map(|failure| Excerpt {
            name: one_line(&failure.name, 160),
            fenced: Fenced::of(if failure.excerpt.trim().is_empty() {
                &failure.message
            } else {
                &failure.excerpt
            }),
        });
        Self { diff, failures: excerpts.collect(), more: failures.len().saturating_sub(MOST_EXCERPTS) }
    }
}

fn render(template: &impl Template) -> String {
    // These templates write into a string and call nothing that can fail.
    template.render().expect("a template of plain values renders").trim().to_owned()
}
