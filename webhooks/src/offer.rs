//! The verified patch of a run, when it has one that a person may still authorize.

use jobs::authorization::PushResult;
use jobs::clock::Millis;
use jobs::digest::Digest;
use jobs::forge::PushTarget;
use jobs::id::{AuthorizationId, CommitId, TreeId};
use jobs::job::ForkPatch;
use jobs::message::{MessageBody, MessageState};
use jobs::run::{Outcome, RunState};
use jobs::step::{Output, StepState};
use jobs::store::RunView;
use jobs::store::receipts::ReceiptKind;
use jobs::verdict::{Checked, NamedTest, Verdict};

/// A verified patch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Digest of the git patch, which a person authorizes.
    pub patch: Digest,
    /// Digest of the same change as whole files, which a push writes.
    pub changeset: Digest,
    /// The tree that was verified.
    pub tree: TreeId,
    /// Digest of the receipt that seals the run.
    pub seal: Digest,
    /// Every path that the run's changes touched.
    pub paths: Vec<String>,
}

/// Why there is nothing to authorize.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoOffer {
    #[error("the run has not ended yet")]
    NotFinished,
    #[error("the run ended as `{0}`, so there is no verified patch")]
    NotSucceeded(&'static str),
    #[error("everything was green, so there is nothing to apply")]
    NothingToRepair,
    #[error("the run's receipts are not complete")]
    NoReceipts,
    #[error("the patch cannot be pushed: {0}")]
    Nowhere(String),
    #[error("the patch was declined by `{0}`; ask for a new run")]
    Declined(String),
    #[error("the patch was applied already, as commit {0}")]
    Applied(CommitId),
}

/// What the last verification of a run found.
pub struct LastVerified<'a> {
    pub checked: &'a Checked,
    pub verdict: &'a Verdict,
    pub patch: Option<Digest>,
    pub changeset: Option<Digest>,
    /// The tests that were red and green on the unchanged tree.
    pub flaky: &'a [NamedTest],
}

/// The last verification that was done, if any.
pub fn last_verified(view: &RunView) -> Option<LastVerified<'_>> {
    view.steps.iter().rev().find_map(|step| match &step.state {
        StepState::Done { output } => match output.as_ref() {
            Output::Verified { checked, verdict, patch, changeset, flaky } => {
                Some(LastVerified { checked, verdict, patch: *patch, changeset: *changeset, flaky })
            }
            Output::Provisioned { .. }
            | Output::Bootstrapped { .. }
            | Output::Navigated { .. }
            | Output::Baseline { .. }
            | Output::Proposed { .. }
            | Output::Applied { .. }
            | Output::Governed { .. } => None,
        },
        StepState::Begun | StepState::Failed { .. } => None,
    })
}

/// The patch that the run verified, whatever became of it since.
pub fn verified(view: &RunView) -> Result<Offer, NoOffer> {
    match &view.run.state {
        RunState::Queued | RunState::Running { .. } | RunState::Suspended { .. } => {
            return Err(NoOffer::NotFinished);
        }
        RunState::Finished { outcome: outcome @ (Outcome::Failed { .. } | Outcome::Halted { .. }) } => {
            return Err(NoOffer::NotSucceeded(outcome.name()));
        }
        RunState::Finished { outcome: Outcome::Succeeded } => {}
    }
    let repaired = last_verified(view).filter(|last| *last.verdict == Verdict::Repaired);
    let Some((patch, changeset)) = repaired.and_then(|last| last.patch.zip(last.changeset)) else {
        return Err(NoOffer::NothingToRepair);
    };
    let seal = view.receipts.iter().rev().find(|receipt| receipt.kind == ReceiptKind::Seal);
    let (paths, tree) = applied(view);
    let (Some(seal), Some(tree)) = (seal, tree) else { return Err(NoOffer::NoReceipts) };
    Ok(Offer { patch, changeset, tree, seal: seal.signed.digest(), paths })
}

/// The commit that an authorized push of the run's patch made.
pub fn pushed(view: &RunView) -> Option<&CommitId> {
    view.authorizations.iter().find_map(|recorded| match &recorded.result {
        Some(PushResult::Pushed { commit }) => Some(commit),
        Some(PushResult::Refused { .. } | PushResult::Uncertain { .. } | PushResult::Declined { .. })
        | None => None,
    })
}

/// The patch that may be authorized now.
pub fn open(view: &RunView) -> Result<Offer, NoOffer> {
    let offer = verified(view)?;
    for recorded in &view.authorizations {
        match &recorded.result {
            Some(PushResult::Pushed { commit }) => return Err(NoOffer::Applied(commit.clone())),
            Some(PushResult::Declined { by }) => return Err(NoOffer::Declined(by.clone())),
            Some(PushResult::Refused { .. } | PushResult::Uncertain { .. }) | None => {}
        }
    }
    match target(view) {
        PushTarget::Branch { .. } | PushTarget::Fork { .. } | PushTarget::NewPullRequest { .. } => Ok(offer),
        PushTarget::Nowhere { why } => Err(NoOffer::Nowhere(why)),
    }
}

/// Where the patch goes now. A fork that has refused a push is not asked again, where the policy names
/// another way.
pub fn target(view: &RunView) -> PushTarget {
    let job = view.job();
    let refused = view.authorizations.iter().find_map(|recorded| match &recorded.result {
        Some(PushResult::Refused { why }) if recorded.spent_at.is_some() => Some(why.clone()),
        Some(
            PushResult::Refused { .. }
            | PushResult::Pushed { .. }
            | PushResult::Uncertain { .. }
            | PushResult::Declined { .. },
        )
        | None => None,
    });
    match (&job.push_target, job.guard.fork_patch, refused, &job.base_branch) {
        (PushTarget::Fork { .. }, ForkPatch::PullRequest, Some(_), Some(base)) => {
            PushTarget::NewPullRequest { base: base.clone() }
        }
        (PushTarget::Fork { .. }, ForkPatch::Suggestion, Some(why), _) => PushTarget::Nowhere { why },
        (target, _, _, _) => target.clone(),
    }
}

/// The number of the pull request that was opened for the pushed patch, where one was.
pub fn opened(view: &RunView) -> Option<i64> {
    view.outbox.iter().find_map(|message| match (&message.body, &message.state) {
        (MessageBody::Push { .. }, MessageState::Sent { external_id }) => {
            external_id.split_once(OPENED)?.1.parse().ok()
        }
        (
            MessageBody::Push { .. }
            | MessageBody::CheckRun { .. }
            | MessageBody::Comment { .. }
            | MessageBody::PolicyFault { .. },
            MessageState::Pending | MessageState::Sent { .. } | MessageState::Dead { .. },
        ) => None,
    })
}

/// Between the commit and the number of its pull request, in what the outbox keeps of a push.
pub(crate) const OPENED: &str = " in pull request ";

/// A recorded yes whose push has neither happened nor become impossible.
pub fn awaiting_push(view: &RunView, now: Millis) -> Option<&AuthorizationId> {
    let waiting = view.authorizations.iter().find(|recorded| match &recorded.result {
        None => recorded.spent_at.is_some() || recorded.authorization.expires_at > now,
        Some(PushResult::Uncertain { .. }) => true,
        Some(PushResult::Pushed { .. } | PushResult::Refused { .. } | PushResult::Declined { .. }) => false,
    });
    waiting.map(|recorded| &recorded.authorization.id)
}

/// The paths of every applied change, and the tree that the last one left.
fn applied(view: &RunView) -> (Vec<String>, Option<TreeId>) {
    let (mut paths, mut tree) = (Vec::new(), None);
    for step in &view.steps {
        if let StepState::Done { output } = &step.state
            && let Output::Applied { tree_after, files, .. } = output.as_ref()
        {
            paths.extend(files.iter().map(|file| file.path.clone()));
            tree = Some(tree_after.clone());
        }
    }
    paths.sort();
    paths.dedup();
    (paths, tree)
}
