//! The push of a verified patch that a person authorized: the one place that spends an authorization.
//!
//! The order is fixed: receipt of the yes, all checks once more as of now, spending (the durable
//! intent), one push that expects the authorized head, its result, receipt of the push. A spent
//! authorization without a result is never pushed again: a look at the branch decides what it was.

use std::time::Duration;

use jobs::authorization::PushResult;
use jobs::changeset::ChangesetFiles;
use jobs::clock::Millis;
use jobs::fault;
use jobs::forge::{ForgeKind, Subject};
use jobs::id::{AuthorizationId, CommitId, RunId};
use jobs::store::RunView;
use jobs::store::authorizations::{self, Recorded, Spend, SpendError};

use super::receipted::{self, Made};
use super::{Context, LEASE, Trouble};
use crate::authorize;
use crate::forge::{
    Commit, Destination, DestinationKind, Forge, ForgeError, NewPullRequest, Posted, PushError, PushOutcome,
    PushRequest,
};
use crate::offer::{self, Offer};
use crate::protected;
use crate::text::one_line;

/// A larger changeset is not read; the limits of a job are far lower.
const MOST_CHANGESET_BYTES: u64 = 256 << 20;
/// Commits that a look-up goes back from the branch's head.
const MOST_LOOKED_AT: usize = 20;
/// What the outbox keeps as the forge's id where nothing was pushed.
const NOTHING: &str = "nothing was pushed";

/// One push, with all that it needs.
struct Case<'a> {
    cx: &'a Context,
    forge: &'a dyn Forge,
    view: RunView,
    recorded: Recorded,
    offer: Offer,
    destination: Destination,
}

/// Brings an authorization to its result; gives the pushed commit's id.
pub(super) async fn push(
    cx: &Context,
    forge: &dyn Forge,
    run: &RunId,
    id: &AuthorizationId,
) -> Result<String, Trouble> {
    let view = super::view(cx, run).await?;
    let found = authorizations::find(&cx.db, id).await?;
    let recorded = found.ok_or_else(|| Trouble::Never(format!("there is no authorization {id}")))?;
    let offer = match offer::verified(&view) {
        Ok(offer) => offer,
        Err(why) => return refuse_early(cx, id, why.to_string()).await,
    };
    let target = offer::target(&view);
    let Some(destination) = Destination::of_target(&view.job().repository, &target, run) else {
        return refuse_early(cx, id, "the patch cannot be pushed anywhere".to_owned()).await;
    };
    let case = Case { cx, forge, view, recorded, offer, destination };
    let receipt = receipted::authorize(cx, &case.view, &case.recorded.authorization, &case.offer).await?;
    match case.result().await? {
        PushResult::Pushed { commit } => {
            let made = Made { branch: &case.destination.branch, commit: &commit, offer: &case.offer };
            receipted::pushed(cx, &case.view, &case.recorded.authorization, receipt, made).await?;
            let opened = case.open_pull_request().await?;
            // The check run shows the receipts' end, so it is told after they are complete.
            jobs::store::outbox::refresh(&cx.db, run, cx.clock.now()).await?;
            Ok(match opened {
                Some(opened) => format!("{commit}{}{}", offer::OPENED, opened.id),
                None => commit.to_string(),
            })
        }
        PushResult::Refused { .. } | PushResult::Declined { .. } => Ok(NOTHING.to_owned()),
        PushResult::Uncertain { why } => {
            Err(Trouble::Later { why, wait: Duration::from_millis(LEASE as u64) })
        }
    }
}

async fn refuse_early(cx: &Context, id: &AuthorizationId, why: String) -> Result<String, Trouble> {
    authorizations::settle(&cx.db, id, &PushResult::Refused { why }, cx.clock.now()).await?;
    Ok(NOTHING.to_owned())
}

impl Case<'_> {
    fn id(&self) -> &AuthorizationId {
        &self.recorded.authorization.id
    }

    /// The durable result, brought about where there is none yet.
    async fn result(&self) -> Result<PushResult, Trouble> {
        let result = match (&self.recorded.result, self.recorded.spent_at) {
            (Some(PushResult::Uncertain { .. }) | None, Some(spent_at)) => self.look_up(spent_at).await?,
            (None, None) => self.push_now().await?,
            // An uncertain result of an authorization that was never spent cannot have moved anything.
            (Some(PushResult::Uncertain { why }), None) => PushResult::Refused { why: why.clone() },
            (
                Some(
                    known @ (PushResult::Pushed { .. }
                    | PushResult::Refused { .. }
                    | PushResult::Declined { .. }),
                ),
                _,
            ) => return Ok(known.clone()),
        };
        let same = self.recorded.result.as_ref() == Some(&result);
        if !same {
            authorizations::settle(&self.cx.db, self.id(), &result, self.cx.clock.now()).await?;
            tell_log(&self.view.run.id, &result);
        }
        fault::point("after-push-settled");
        Ok(result)
    }

    async fn push_now(&self) -> Result<PushResult, Trouble> {
        let changeset = match self.checked().await? {
            Ok(changeset) => changeset,
            Err(why) => return Ok(PushResult::Refused { why }),
        };
        let head = match self.destination.kind {
            DestinationKind::Moved => match self.forge.branch_head(&self.destination.branch).await {
                Ok(Some(head)) => head,
                Ok(None) => {
                    return Ok(PushResult::Refused { why: "the branch does not exist any more".to_owned() });
                }
                Err(error) => return refused_or_later(error),
            },
            // The new branch begins at the very commit that was tested.
            DestinationKind::Made { .. } => self.view.job().head.clone(),
        };
        let now = self.cx.clock.now();
        let spend = Spend { id: self.id(), head: &head, patch: changeset.patch, now };
        let grant = match authorizations::spend(&self.cx.db, spend).await {
            Ok(grant) => grant,
            // Another sender was here meanwhile; the next look finds what it did.
            Err(SpendError::AlreadySpent) => {
                return Err(Trouble::Later {
                    why: SpendError::AlreadySpent.to_string(),
                    wait: Duration::ZERO,
                });
            }
            Err(SpendError::Store(error)) => return Err(error.into()),
            Err(
                error @ (SpendError::Unknown(_)
                | SpendError::Closed
                | SpendError::Expired
                | SpendError::HeadMoved { .. }
                | SpendError::OtherPatch { .. }),
            ) => return Ok(PushResult::Refused { why: error.to_string() }),
        };
        let request = match PushRequest::new(grant, self.destination.clone(), changeset, self.message()) {
            Ok(request) => request,
            Err(error) => return Ok(PushResult::Refused { why: error.to_string() }),
        };
        fault::point("before-push");
        let pushed = self.forge.push(request).await;
        fault::point("after-push");
        match pushed {
            Ok(PushOutcome::Pushed { commit }) => Ok(PushResult::Pushed { commit }),
            Ok(PushOutcome::Refused(refusal)) => Ok(PushResult::Refused { why: refusal.to_string() }),
            Err(PushError::NotDone { error, grant }) => {
                authorizations::give_back(&self.cx.db, *grant).await?;
                refused_or_later(error)
            }
            Err(PushError::Unknown(error)) => Ok(PushResult::Uncertain { why: error.to_string() }),
        }
    }

    /// What would be pushed, if all that allowed it still holds; else why not.
    async fn checked(&self) -> Result<Result<ChangesetFiles, String>, Trouble> {
        let yes = &self.recorded.authorization;
        let bytes = match self.cx.artifacts.get_bounded(self.offer.changeset, MOST_CHANGESET_BYTES) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(format!("the verified files cannot be read: {error}"))),
        };
        let changeset = match ChangesetFiles::from_bytes(&bytes) {
            Ok(changeset) => changeset,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if changeset.tree_before != self.view.job().tree || changeset.tree_after != self.offer.tree {
            return Ok(Err(
                "the verified files do not lead from the tested tree to the sealed one".to_owned()
            ));
        }
        let guarded = &self.view.job().guard.protected_paths;
        let paths = protected::touched(guarded, changeset.files.iter().map(|file| file.path.as_str()));
        if !paths.is_empty() {
            return Ok(Err(authorize::Refusal::Protected { paths }.to_string()));
        }
        match authorize::may_apply(self.forge, &self.view, &yes.actor).await {
            Ok(_) => Ok(Ok(changeset)),
            Err(refusal) => match refusal.retry_after() {
                Some(wait) => Err(Trouble::Later { why: refusal.to_string(), wait }),
                None => Ok(Err(refusal.to_string())),
            },
        }
    }

    /// What became of a push whose result is not known, read off the branch.
    async fn look_up(&self, spent_at: Millis) -> Result<PushResult, Trouble> {
        let uncertain = |why: String| PushResult::Uncertain { why };
        // No sender outlives its lease, so after it nothing of that push can arrive any more.
        let over = self.cx.clock.now() >= spent_at.saturating_add(LEASE);
        let lost = "the push did not arrive; authorize the patch again";
        let head = match (self.forge.branch_head(&self.destination.branch).await, &self.destination.kind) {
            (Ok(Some(head)), _) => head,
            (Ok(None), DestinationKind::Made { .. }) if over => {
                return Ok(PushResult::Refused { why: lost.to_owned() });
            }
            (Ok(None), DestinationKind::Made { .. }) => {
                return Ok(uncertain("the branch is not there yet".to_owned()));
            }
            (Ok(None), DestinationKind::Moved) => {
                return Ok(uncertain("the branch does not exist any more".to_owned()));
            }
            (Err(error), _) => return Ok(uncertain(error.to_string())),
        };
        match self.find_ours(&head).await {
            Ok(Some(commit)) => return Ok(PushResult::Pushed { commit }),
            Ok(None) => {}
            Err(error) => return Ok(uncertain(error.to_string())),
        }
        if over && head == *self.authorized_head() {
            return Ok(PushResult::Refused { why: lost.to_owned() });
        }
        Ok(uncertain(format!("the branch shows {head}, and no commit of this run was found in it")))
    }

    /// The commit of this very authorization among the branch's first parents.
    async fn find_ours(&self, head: &CommitId) -> Result<Option<CommitId>, ForgeError> {
        let mut next = Some(head.clone());
        for _ in 0..MOST_LOOKED_AT {
            let Some(id) = next.filter(|id| id != self.authorized_head()) else { break };
            let commit = self.forge.commit(&self.destination.branch.repository, &id).await?;
            if self.is_ours(&commit) {
                return Ok(Some(id));
            }
            next = commit.parents.into_iter().next();
        }
        Ok(None)
    }

    fn is_ours(&self, commit: &Commit) -> bool {
        commit.tree == self.offer.tree
            && commit.parents == [self.authorized_head().clone()]
            && commit.message.trim_end() == self.message().trim_end()
    }

    /// The pull request from the branch that the push has made, where it has made one.
    async fn open_pull_request(&self) -> Result<Option<Posted>, Trouble> {
        let DestinationKind::Made { base } = &self.destination.kind else { return Ok(None) };
        let job = self.view.job();
        let what = match &job.subject {
            Subject::Issue { number } => format!("Repair what is red in issue #{number}"),
            Subject::PullRequest { number } => format!("Repair pull request #{number}"),
            Subject::Checkout => "Repair".to_owned(),
        };
        let request = NewPullRequest {
            head: self.destination.branch.clone(),
            base: base.clone(),
            title: what,
            body: self.cx.mask.apply(&super::words::pull_request(&self.view, &self.offer, self.login())),
        };
        match self.forge.open_pull_request(&request).await {
            Ok(opened) => Ok(Some(opened)),
            Err(error) => match error.retry_after() {
                Some(wait) => Err(Trouble::Later { why: error.to_string(), wait }),
                // The branch is there and says all; a person can open it.
                None => {
                    let (run, why) = (&self.view.run.id, error.to_string());
                    tracing::warn!(run.id = %run, why, "the pull request was not opened");
                    Ok(None)
                }
            },
        }
    }

    fn login(&self) -> String {
        one_line(&self.recorded.authorization.actor.login, 60)
    }

    fn authorized_head(&self) -> &CommitId {
        &self.recorded.authorization.head
    }

    /// The commit's message. Its trailers name run, seal and authorization, so that the commit can be
    /// told from every other, and held against the receipts.
    fn message(&self) -> String {
        let (job, yes) = (self.view.job(), &self.recorded.authorization);
        let what = match self.offer.paths.as_slice() {
            [path] => one_line(path, 40),
            paths => format!("{} files", paths.len()),
        };
        let login = self.login();
        let address = match job.repository.forge {
            ForgeKind::Github => format!("{}+{login}@users.noreply.github.com", yes.actor.id),
            ForgeKind::Local => format!("{login}@local.invalid"),
        };
        format!(
            "Repair {what}\n\nVerified by {} on top of {}, and pushed with the authorization of {login}.\n\n\
             Whipstitch-Run: {}\nWhipstitch-Receipt: sha256:{}\nWhipstitch-Authorization: {}\n\
             Co-authored-by: {login} <{address}>\n",
            super::evidence::count(job.checks.len(), "check"),
            yes.head,
            self.view.run.id,
            self.offer.seal,
            yes.id,
        )
    }
}

/// What the forge refuses is a result; what it cannot answer now is asked again.
fn refused_or_later(error: ForgeError) -> Result<PushResult, Trouble> {
    match error.retry_after() {
        Some(wait) => Err(Trouble::Later { why: error.to_string(), wait }),
        None => Ok(PushResult::Refused { why: error.to_string() }),
    }
}

fn tell_log(run: &RunId, result: &PushResult) {
    match result {
        PushResult::Pushed { commit } => tracing::info!(run.id = %run, %commit, "the patch was pushed"),
        PushResult::Refused { why } => tracing::warn!(run.id = %run, why, "the push was refused"),
        PushResult::Uncertain { why } => tracing::error!(run.id = %run, why, "a push is uncertain"),
        PushResult::Declined { .. } => tracing::info!(run.id = %run, "the patch was declined"),
    }
}
