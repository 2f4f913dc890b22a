//! Where a run stands, as people are told: its state, and what was decided on its patch since.

use jobs::authorization::PushResult;
use jobs::clock::Millis;
use jobs::forge::PushTarget;
use jobs::id::CommitId;
use jobs::run::{Failure, HaltReason, Outcome, Phase, RunState, Suspension};
use jobs::store::RunView;

use crate::forge::{CheckStatus, Conclusion};
use crate::offer::{self, NoOffer, Offer};

/// Where a run stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Queued,
    Working(Phase),
    /// Somebody asked that it ends, and it has not ended yet.
    Stopping,
    Suspended(Suspension),
    /// Every check was seen to pass before anything was changed.
    Clean,
    /// A verified patch, and what a person can do with it.
    Repaired(Offer, Patch),
    /// It ended well by its own account, yet no check was seen to pass.
    Unproven,
    Failed(Failure),
    Halted {
        reason: HaltReason,
        requeue: bool,
    },
}

/// What became of a verified patch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Patch {
    /// It waits for a yes. The last yes may have come to nothing, with the reason.
    Waits {
        refused: Option<String>,
    },
    /// It can be read, not pushed.
    Unpushable(String),
    /// The pull request moved on to this commit.
    Superseded(CommitId),
    /// A yes is recorded and its push is on its way.
    Authorized {
        by: String,
    },
    /// Whether the push arrived is not known.
    UncertainPush(String),
    Pushed {
        by: String,
        commit: CommitId,
    },
    Declined {
        by: String,
    },
}

/// Reads the standing off a run. `head` is what the pull request shows now, where that is known.
pub(super) fn of(view: &RunView, head: Option<&CommitId>, now: Millis) -> Standing {
    match &view.run.state {
        RunState::Queued | RunState::Running { .. } if view.run.halt.is_some() => Standing::Stopping,
        RunState::Queued => Standing::Queued,
        RunState::Running { phase } => Standing::Working(*phase),
        RunState::Suspended { why } => Standing::Suspended(why.clone()),
        RunState::Finished { outcome: Outcome::Failed { failure } } => Standing::Failed(failure.clone()),
        RunState::Finished { outcome: Outcome::Halted { reason, requeue_recommended } } => {
            Standing::Halted { reason: reason.clone(), requeue: *requeue_recommended }
        }
        RunState::Finished { outcome: Outcome::Succeeded } => succeeded(view, head, now),
    }
}

fn succeeded(view: &RunView, head: Option<&CommitId>, now: Millis) -> Standing {
    match offer::verified(view) {
        Ok(offer) => {
            let patch = patch(view, head, now);
            Standing::Repaired(offer, patch)
        }
        Err(NoOffer::NothingToRepair) => {
            let seen = super::evidence::last(view).is_some_and(|checked| checked.all_passed());
            if seen { Standing::Clean } else { Standing::Unproven }
        }
        Err(
            NoOffer::NotFinished
            | NoOffer::NotSucceeded(_)
            | NoOffer::NoReceipts
            | NoOffer::Nowhere(_)
            | NoOffer::Declined(_)
            | NoOffer::Applied(_),
        ) => Standing::Unproven,
    }
}

fn patch(view: &RunView, head: Option<&CommitId>, now: Millis) -> Patch {
    let mut refused = None;
    for recorded in &view.authorizations {
        let by = recorded.authorization.actor.login.clone();
        match &recorded.result {
            Some(PushResult::Pushed { commit }) => return Patch::Pushed { by, commit: commit.clone() },
            Some(PushResult::Declined { .. }) => return Patch::Declined { by },
            Some(PushResult::Uncertain { why }) => return Patch::UncertainPush(why.clone()),
            Some(PushResult::Refused { why }) => refused = Some(why.clone()),
            None => {}
        }
    }
    if let Some(waiting) = offer::awaiting_push(view, now) {
        let by = view.authorizations.iter().find(|recorded| recorded.authorization.id == *waiting);
        let by = by.map(|recorded| recorded.authorization.actor.login.clone()).unwrap_or_default();
        return Patch::Authorized { by };
    }
    if let Some(head) = head.filter(|head| **head != view.job().head) {
        return Patch::Superseded(head.clone());
    }
    match offer::target(view) {
        PushTarget::Branch { .. } | PushTarget::Fork { .. } | PushTarget::NewPullRequest { .. } => {
            Patch::Waits { refused }
        }
        PushTarget::Nowhere { why } => Patch::Unpushable(why),
    }
}

impl Standing {
    /// The check run's status. No standing is a pass but the one where every check was seen to pass:
    /// the tested commit stays red when its repair is another commit.
    pub(super) fn status(&self, at: Millis) -> CheckStatus {
        let completed = |conclusion| CheckStatus::Completed { conclusion, at };
        match self {
            Standing::Queued => CheckStatus::Queued,
            Standing::Working(_) | Standing::Stopping => CheckStatus::InProgress,
            Standing::Suspended(_) => completed(Conclusion::ActionRequired),
            Standing::Clean => completed(Conclusion::Success),
            Standing::Repaired(_, patch) => completed(patch.conclusion()),
            Standing::Unproven | Standing::Failed(_) => completed(Conclusion::Failure),
            Standing::Halted { reason, .. } => completed(match reason {
                HaltReason::Governor(_) => Conclusion::Failure,
                HaltReason::Cancelled(_) | HaltReason::Superseded(_) => Conclusion::Cancelled,
                HaltReason::OutOfTime(_) => Conclusion::TimedOut,
            }),
        }
    }
}

impl Patch {
    const fn conclusion(&self) -> Conclusion {
        match self {
            Patch::Waits { .. }
            | Patch::Unpushable(_)
            | Patch::Authorized { .. }
            | Patch::UncertainPush(_) => Conclusion::ActionRequired,
            Patch::Superseded(_) => Conclusion::Cancelled,
            Patch::Pushed { .. } | Patch::Declined { .. } => Conclusion::Failure,
        }
    }
}
