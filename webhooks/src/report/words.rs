//! The first sentences of a check run: what happened, what it means, what to do next.

use jobs::forge::{PushTarget, Subject};
use jobs::job::{ForkPatch, Goal};
use jobs::run::{Failure, HaltReason, Suspension};
use jobs::store::RunView;

use super::check::short;
use super::standing::{Patch, Standing};
use crate::offer::{self, Offer};
use crate::text::one_line;

/// One paragraph each.
pub(super) fn lead(view: &RunView, standing: &Standing) -> Vec<String> {
    let id = &view.run.id;
    let say = |sentences: &[&str]| sentences.iter().map(|&sentence| sentence.to_owned()).collect();
    match standing {
        Standing::Queued => say(&["The run waits until a runner is free."]),
        Standing::Working(_) => say(&["The run is at work. This text follows it."]),
        Standing::Stopping => say(&["The run was asked to stop and ends as soon as its present step lets it."]),
        Standing::Suspended(Suspension::UncertainLaunch) => vec![
            "An agent was to be started, and whether it ran is not known. It is not started again by itself, because it might then act twice.".to_owned(),
            format!("Somebody with write access may comment `/whipstitch resume {id}` to go on without that launch, or cancel the run."),
        ],
        Standing::Suspended(Suspension::Requested) => {
            vec![format!("The run was suspended. Comment `/whipstitch resume {id}` to go on, or cancel it.")]
        }
        Standing::Clean => say(&["Every check passed on this commit as it is, so nothing was changed."]),
        Standing::Repaired(offer, patch) => repaired(view, offer, patch),
        Standing::Unproven => say(&[
            "The run ended, but no check was seen to pass on this commit, so this is no success.",
            "Run it again; if it stays so, look at the run's steps.",
        ]),
        Standing::Failed(failure) => failed(view, failure),
        Standing::Halted { reason, requeue } => halted(reason, *requeue),
    }
}

fn repaired(view: &RunView, offer: &Offer, patch: &Patch) -> Vec<String> {
    let proof =
        "What was red on this commit is green with the patch below; it was verified in a sealed container.";
    let seal: String = offer.seal.to_string().chars().take(12).collect();
    let (way, press) = match (offer::target(view), &view.job().subject) {
        (PushTarget::NewPullRequest { base }, Subject::Issue { .. }) => (
            format!("To have a pull request into `{}` opened with exactly this patch", one_line(&base, 120)),
            "press Apply on the check run or comment",
        ),
        (PushTarget::NewPullRequest { base }, Subject::PullRequest { .. } | Subject::Checkout) => (
            format!(
                "The fork takes no push. To have a pull request into `{}` opened with this commit and exactly this patch",
                one_line(&base, 120)
            ),
            "press Apply or comment",
        ),
        (PushTarget::Branch { .. } | PushTarget::Fork { .. } | PushTarget::Nowhere { .. }, _) => {
            ("To push exactly this patch".to_owned(), "press Apply or comment")
        }
    };
    let ask = format!(
        "**Nothing was pushed.** {way}, {press} `/whipstitch apply {seal}`. The least role that may do so is `{}`.",
        view.job().guard.least_role.name()
    );
    let mut said = vec![proof.to_owned()];
    match patch {
        Patch::Waits { refused } => {
            if let Some(why) = refused {
                said.push(format!("The last push came to nothing: {}.", sentence(why)));
            }
            said.push(ask);
        }
        Patch::Unpushable(why) => {
            said.push(format!("**Nothing was pushed**, and this patch cannot be: {}.", sentence(why)));
            said.push(match view.job().guard.fork_patch {
                ForkPatch::Suggestion => "Where it fits the diff it is suggested in a review. Else save the patch from the run's bundle and apply it with `git apply`.".to_owned(),
                ForkPatch::Artifact | ForkPatch::PullRequest => {
                    "Save the patch from the run's bundle and apply it with `git apply`.".to_owned()
                }
            });
        }
        Patch::Superseded(head) => {
            said.push(format!("The pull request moved on to `{}`, and the patch is for this commit alone, so it cannot be applied there. Comment `/whipstitch fix` for a run on the new head.", short(head)));
        }
        Patch::Authorized { by } => {
            said.push(format!("`{}` authorized it. The push is on its way.", one_line(by, 60)));
        }
        Patch::UncertainPush(why) => {
            said.push(format!(
                "The patch was authorized, and whether the push arrived is not known: {}.",
                sentence(why)
            ));
            said.push("It is not repeated. Look at the branch; this service looks again as well.".to_owned());
        }
        Patch::Pushed { by, commit } => {
            let where_to = match offer::opened(view) {
                Some(number) => format!(" in pull request #{number}"),
                None => String::new(),
            };
            said.push(format!(
                "With the yes of `{}` it was pushed as `{commit}`{where_to}. This commit itself stays red.",
                one_line(by, 60)
            ));
        }
        Patch::Declined { by } => {
            said.push(format!(
                "`{}` declined it, so it cannot be applied any more. This commit stays red.",
                one_line(by, 60)
            ));
        }
    }
    said
}

/// The text of the pull request that is opened with a patch.
pub(super) fn pull_request(view: &RunView, offer: &Offer, by: String) -> String {
    let job = view.job();
    let about = match &job.subject {
        Subject::Issue { number } => format!("Fixes #{number}.\n\n"),
        Subject::PullRequest { number } => {
            format!(
                "The commits of #{number}, whose branch takes no push, and one commit that repairs them.\n\n"
            )
        }
        Subject::Checkout => String::new(),
    };
    format!(
        "{about}What was red on `{}` is green with this patch; it was verified in a sealed container, and this pull request was opened with the yes of `{by}`.\n\nRun `{}`, sealed by receipt `sha256:{}`.",
        short(&job.head),
        view.run.id,
        offer.seal
    )
}

fn failed(view: &RunView, failure: &Failure) -> Vec<String> {
    let (what, why, next) = match failure {
        Failure::Provision(why) => (
            "The commit could not be fetched",
            why,
            "Check that the app may read the repository, then run it again.",
        ),
        Failure::Bootstrap(why) => (
            "The container could not be set up or sealed",
            why,
            "If a host is missing from the allowlist, the operator can add it; then run it again.",
        ),
        Failure::NotRepaired(why) => match view.job().goal {
            Goal::Repair => (
                "The agent had nothing more to propose while something was still red",
                why,
                "No patch is offered. What is still red stands below.",
            ),
            Goal::Verify => (
                "Not every check passes on this commit",
                why,
                "Comment `/whipstitch fix` to have it repaired.",
            ),
        },
        Failure::Refused(why) => (
            "The checks look green with the agent's change, but the change is not believed",
            why,
            "No patch is offered.",
        ),
        Failure::Inconclusive(why) => (
            "A check ended in a way from which nothing can be concluded",
            why,
            "Make the check's output readable, or run it again.",
        ),
        Failure::Agent(why) => (
            "The agent failed, or its proposal could not be applied",
            why,
            "Nothing was changed. Run it again or use another agent.",
        ),
        Failure::Internal(why) => (
            "Something went wrong in this service, not in your code",
            why,
            "Run it again; if it stays so, tell the operator.",
        ),
    };
    vec![format!("{what}: {}.", sentence(why)), next.to_owned()]
}

fn halted(reason: &HaltReason, requeue: bool) -> Vec<String> {
    let (what, why) = match reason {
        HaltReason::Governor(why) => ("The governor halted the run", why),
        HaltReason::Cancelled(why) => ("The run was cancelled", why),
        HaltReason::Superseded(why) => ("The run was ended because its commit is no longer the head", why),
        HaltReason::OutOfTime(why) => ("The run was halted because its time is spent", why),
    };
    let advice = if requeue {
        "Another run is recommended: it may well come further."
    } else {
        "Another run is not recommended: it would end the same way."
    };
    vec![format!("{what}: {}.", sentence(why)), advice.to_owned()]
}

/// A reason that may quote others, inert and without a final stop.
fn sentence(why: &str) -> String {
    let line = one_line(why, 600);
    let line = line.trim().trim_end_matches('.');
    if line.is_empty() { "no reason was given".to_owned() } else { format!("`{line}`") }
}
