//! Whether what somebody asked for becomes a job: a pure decision over what the forge says now.
//!
//! Policy and checks come from the base branch's commit, the role from the forge's own answer, the
//! head from the pull request as it is now. Nothing is believed of a payload but who sent it, where,
//! and which words.

mod actions;
mod base;
mod commands;
mod flood;
mod reply;
mod request;
mod trigger;
mod work;

use jobs::check::Check;
use jobs::digest::Digest;
use jobs::forge::{Account, PullRequest, PullRequestState, PushTarget, Repository, Role, Subject};
use jobs::id::{CommitId, TreeId};
use jobs::job::{AgentSpec, ForkPatch, Goal, JobSpec, Request};
use jobs::policy::Policy;
use jobs::store::RunSummary;

pub(crate) use actions::Button;
pub use work::{Context, Worked, work, work_one};

/// What somebody asked for, in whatever way.
#[derive(Clone, Debug)]
pub struct Asked {
    pub wish: Wish,
    pub trigger: Trigger,
    pub repository: Repository,
    pub subject: Subject,
    pub actor: Account,
    /// The app that asks, where no person does.
    pub app: Option<i64>,
    /// The comment or click: `comment/123`.
    pub origin: String,
    /// Digest of the words as they were admitted.
    pub text: Digest,
}

/// In which way it was asked; the base branch's policy can switch each off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trigger {
    Comment,
    Label(String),
    FailedCheckSuite,
    /// The button or link of a check run that there is already.
    Rerun,
}

/// The kinds of run that may be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// A repair whose patch waits for a yes.
    Fix,
    /// A repair whose patch can only be read.
    Try,
    /// Only what is red.
    Verify,
}

impl Wish {
    /// The verb of the comment.
    pub const fn verb(self) -> &'static str {
        match self {
            Wish::Fix => "fix",
            Wish::Try => "try",
            Wish::Verify => "verify",
        }
    }

    const fn goal(self) -> Goal {
        match self {
            Wish::Fix | Wish::Try => Goal::Repair,
            Wish::Verify => Goal::Verify,
        }
    }
}

/// What the forge says now about the place where it was asked.
#[derive(Clone, Debug)]
pub struct Found {
    pub role: Role,
    pub place: Place,
    /// The tree of the commit that is to be repaired.
    pub tree: TreeId,
    /// The base branch's policy, with the operator's bounds.
    pub policy: Policy,
    /// What the policy names, or what was found in the base commit.
    pub checks: Vec<Check>,
    /// The agent that the operator has set in the policy's place.
    pub agent: Option<AgentSpec>,
    /// Runs on the same pull request or issue that have not ended.
    pub unfinished: Vec<RunSummary>,
}

/// What is to be repaired, as the forge shows it now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    PullRequest(PullRequest),
    /// An issue is about the default branch.
    Issue {
        state: PullRequestState,
        branch: String,
        head: CommitId,
    },
}

impl Place {
    const fn state(&self) -> PullRequestState {
        match self {
            Place::PullRequest(pull_request) => pull_request.state,
            Place::Issue { state, .. } => *state,
        }
    }

    const fn head(&self) -> &CommitId {
        match self {
            Place::PullRequest(pull_request) => &pull_request.head,
            Place::Issue { head, .. } => head,
        }
    }

    fn is_by(&self, account: &Account) -> bool {
        match self {
            Place::PullRequest(pull_request) => {
                pull_request.author.as_ref().is_some_and(|author| author.id == account.id)
            }
            Place::Issue { .. } => false,
        }
    }

    /// Where the patch of a repair goes. One for a fork that takes no push goes by the policy.
    fn push_target(&self, fork_patch: ForkPatch) -> PushTarget {
        match self {
            Place::PullRequest(pull_request) => match (&pull_request.push_target, fork_patch) {
                (PushTarget::Nowhere { .. }, ForkPatch::PullRequest) => {
                    PushTarget::NewPullRequest { base: pull_request.base_branch.clone() }
                }
                (target, _) => target.clone(),
            },
            Place::Issue { branch, .. } => PushTarget::NewPullRequest { base: branch.clone() },
        }
    }
}

/// The decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    Admit {
        spec: Box<JobSpec>,
        /// The same for the same request, whatever delivery brought it.
        semantic_key: String,
    },
    /// Told to who asked, in these words.
    Refuse(Refused),
}

/// Why it does not become a job; a sentence for who asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    #[error("`{login}` has the role `{has}` here, and `{least}` is the least that may ask for a run", has = has.name(), least = least.name())]
    Role { login: String, has: Role, least: Role },
    #[error("the base branch's policy does not list app {0} under `triggers.apps`")]
    App(i64),
    #[error("the base branch's policy does not let comments start a run")]
    Comments,
    #[error("the base branch's policy does not let the label `{0}` start a run")]
    Label(String),
    #[error("the base branch's policy does not let a failed check suite start a run")]
    CheckSuites,
    #[error("it is closed")]
    Closed,
    #[error(
        "no checks were found on the base branch; name some in `.github/whipstitch.toml` there, so that red and green mean something"
    )]
    NoChecks,
    #[error("run `{0}` is already at work on this commit")]
    AtWork(jobs::id::RunId),
}

/// Decides whether what was asked becomes a job.
pub fn admit(asked: &Asked, found: Found) -> Admission {
    match refusal(asked, &found) {
        Some(refused) => Admission::Refuse(refused),
        None => {
            let semantic_key = semantic_key(asked);
            Admission::Admit { spec: Box::new(spec(asked, found)), semantic_key }
        }
    }
}

fn refusal(asked: &Asked, found: &Found) -> Option<Refused> {
    let triggers = &found.policy.triggers;
    if let Some(app) = asked.app {
        if !triggers.apps.contains(&app) {
            return Some(Refused::App(app));
        }
    } else if found.role < triggers.least_role
        && !(found.place.is_by(&asked.actor) && triggers.author_may_ask)
    {
        let (login, has, least) = (asked.actor.login.clone(), found.role, triggers.least_role);
        return Some(Refused::Role { login, has, least });
    }
    let listed = |label: &String| triggers.labels.iter().any(|listed| listed.eq_ignore_ascii_case(label));
    match &asked.trigger {
        Trigger::Comment if !triggers.comment => return Some(Refused::Comments),
        Trigger::Label(label) if !listed(label) => return Some(Refused::Label(label.clone())),
        Trigger::FailedCheckSuite if !triggers.failed_check_suite => return Some(Refused::CheckSuites),
        Trigger::Comment | Trigger::Label(_) | Trigger::FailedCheckSuite | Trigger::Rerun => {}
    }
    if found.place.state() == PullRequestState::Closed {
        return Some(Refused::Closed);
    }
    if found.checks.is_empty() {
        return Some(Refused::NoChecks);
    }
    let at_work = found.unfinished.iter().find(|run| {
        run.job.head == *found.place.head()
            && run.job.goal == asked.wish.goal()
            && run.halt.is_none()
            && run.job.request.origin != asked.origin
    });
    at_work.map(|run| Refused::AtWork(run.id.clone()))
}

fn spec(asked: &Asked, found: Found) -> JobSpec {
    let push_target = match asked.wish {
        Wish::Fix | Wish::Verify => found.place.push_target(found.policy.guard.fork_patch),
        Wish::Try => PushTarget::Nowhere {
            why: "it comes from a rehearsal (`try`); ask for a `fix` to get one that can be applied"
                .to_owned(),
        },
    };
    let (head, base, base_branch, fetch_ref) = match found.place {
        Place::PullRequest(PullRequest { number, head, base, base_branch, .. }) => {
            (head, base, base_branch, format!("refs/pull/{number}/head"))
        }
        Place::Issue { branch, head, .. } => {
            let fetch_ref = format!("refs/heads/{branch}");
            (head.clone(), head, branch, fetch_ref)
        }
    };
    JobSpec {
        repository: asked.repository.clone(),
        subject: asked.subject.clone(),
        goal: asked.wish.goal(),
        head,
        tree: found.tree,
        base,
        fetch_ref,
        push_target,
        base_branch: Some(base_branch),
        checks: found.checks,
        limits: found.policy.limits,
        agent: found.agent.unwrap_or(found.policy.agent),
        guard: found.policy.guard,
        request: Request {
            actor: asked.actor.clone(),
            role: found.role,
            origin: asked.origin.clone(),
            text: asked.text,
        },
    }
}

/// Installation, repository, comment or click, and the words: what makes two requests the same.
fn semantic_key(asked: &Asked) -> String {
    let Asked { wish, repository, origin, text, .. } = asked;
    format!(
        "{}/{}/{}/{origin}/{}/{text}",
        repository.forge.name(),
        repository.installation,
        repository.to_string().to_lowercase(),
        wish.verb()
    )
}

#[cfg(test)]
mod tests;
