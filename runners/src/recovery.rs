//! Where a run stands, told by its journal alone: what is done is never done again, and what may have
//! happened without a record is never repeated.
//!
//! Pure: the steps and launches of a run in, the next step and everything that the done ones left out.
//! The executor asks after each step, so that a run that was interrupted and one that was not take the
//! same way.

use jobs::digest::Digest;
use jobs::id::{LaunchId, TreeId};
use jobs::job::Goal;
use jobs::launch::LaunchState;
use jobs::run::{Failure, HaltReason, Outcome};
use jobs::step::{Output, StepKind, StepState};
use jobs::store::launches::Launch;
use jobs::store::steps::Step;
use jobs::verdict::{CheckOutcome, Checked, Verdict};

use crate::governor;

/// The figure of a governor's decision that says whether a fresh budget would help.
pub const REQUEUE: &str = "requeue recommended";
/// Reasons that one outcome names; the rest stands in the verdict.
const REASONS: usize = 5;

/// What comes next, and what is known.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub next: Next,
    pub known: Known,
}

/// The step that comes next.
#[derive(Clone, PartialEq, Debug)]
pub enum Next {
    Provision,
    Bootstrap,
    Navigate,
    Baseline,
    Govern {
        iteration: u32,
    },
    /// The agent is asked, or its recorded answer is taken.
    Propose {
        iteration: u32,
        answer: Answer,
    },
    Apply {
        iteration: u32,
        patch: Digest,
    },
    Verify {
        iteration: u32,
    },
    /// Nothing is left but the end.
    Settle(Outcome),
    /// It is not known whether this launch ran: a person or a look-up must say.
    Suspend(LaunchId),
}

/// Whether the agent has answered in this iteration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was not asked, or every launch was given up by a named operator.
    Ask,
    /// Its result is durable, though the step that takes it was never finished.
    Recorded { launch: LaunchId, proposal: Option<Digest>, tokens: u64 },
}

/// What the finished steps left.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Known {
    /// The admitted tree.
    pub tree: Option<TreeId>,
    pub bootstrapped: bool,
    pub navigated: bool,
    pub baseline: Option<Checked>,
    /// Every change that was applied, in order.
    pub applied: Vec<Change>,
    /// The checks after each iteration; one without a change repeats the last ones.
    pub checked: Vec<Checked>,
    /// Open failures of the admitted tree, then after each iteration: what the governor reads.
    pub open: Vec<u64>,
    pub verdict: Option<Verdict>,
    /// Why the last proposal could not be applied, if it could not.
    pub unapplied: Option<String>,
    /// Tokens of all launches that have a result.
    pub tokens: u64,
    /// Whole patch and changeset of the last verified tree.
    pub verified: Option<(Digest, Digest)>,
}

/// One change that was applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    pub patch: Digest,
    pub tree_before: TreeId,
    pub tree_after: TreeId,
}

impl Known {
    /// The checks of the tree as it is now.
    pub fn latest(&self) -> Option<&Checked> {
        self.checked.last().or(self.baseline.as_ref())
    }

    /// The tree as it is now.
    pub fn tree_now(&self) -> Option<&TreeId> {
        self.applied.last().map(|change| &change.tree_after).or(self.tree.as_ref())
    }
}

/// Takes a run up where its journal stands.
pub fn plan(goal: Goal, steps: &[Step], launches: &[Launch]) -> Plan {
    let tokens = launches.iter().map(|launch| tokens_of(&launch.state)).fold(0, u64::saturating_add);
    if let Some(open) = launches.iter().find(|launch| is_open(&launch.state)) {
        let mut known = Known { tokens, ..Known::default() };
        read(&mut known, goal, steps, launches);
        return Plan { next: Next::Suspend(open.id.clone()), known };
    }
    let mut known = Known { tokens, ..Known::default() };
    let next = read(&mut known, goal, steps, launches);
    Plan { next, known }
}

/// Whether nobody knows yet what became of it.
fn is_open(state: &LaunchState) -> bool {
    match state {
        LaunchState::Intended | LaunchState::Started | LaunchState::Uncertain => true,
        LaunchState::Settled { .. } | LaunchState::Adopted { .. } | LaunchState::Abandoned { .. } => false,
    }
}

fn tokens_of(state: &LaunchState) -> u64 {
    match state {
        LaunchState::Settled { tokens, .. } => *tokens,
        LaunchState::Intended
        | LaunchState::Started
        | LaunchState::Uncertain
        | LaunchState::Adopted { .. }
        | LaunchState::Abandoned { .. } => 0,
    }
}

fn read(known: &mut Known, goal: Goal, steps: &[Step], launches: &[Launch]) -> Next {
    let mut next = Next::Provision;
    for step in steps {
        match &step.state {
            // A step that began and did not end has left nothing: it is taken again from its start.
            StepState::Begun => {}
            StepState::Failed { error } => next = after_failure(known, step, error),
            StepState::Done { output } => next = after(known, goal, step.iteration, output),
        }
    }
    match next {
        Next::Propose { iteration, answer: Answer::Ask } => {
            Next::Propose { iteration, answer: answer(launches, iteration) }
        }
        other => other,
    }
}

/// The answer that is durable for an iteration.
fn answer(launches: &[Launch], iteration: u32) -> Answer {
    let mut answer = Answer::Ask;
    for launch in launches.iter().filter(|launch| launch.iteration == iteration) {
        match &launch.state {
            LaunchState::Settled { proposal, tokens } => {
                answer = Answer::Recorded { launch: launch.id.clone(), proposal: *proposal, tokens: *tokens };
            }
            LaunchState::Adopted { proposal } => {
                answer = Answer::Recorded { launch: launch.id.clone(), proposal: *proposal, tokens: 0 };
            }
            LaunchState::Intended
            | LaunchState::Started
            | LaunchState::Uncertain
            | LaunchState::Abandoned { .. } => {}
        }
    }
    answer
}

fn after(known: &mut Known, goal: Goal, iteration: u32, output: &Output) -> Next {
    match output {
        Output::Provisioned { tree, .. } => {
            known.tree = Some(tree.clone());
            Next::Bootstrap
        }
        Output::Bootstrapped { .. } => {
            known.bootstrapped = true;
            match (&known.baseline, known.navigated) {
                // Another node has installed the dependencies again for itself.
                (Some(_), _) => next_iteration(known),
                (None, true) => Next::Baseline,
                (None, false) => Next::Navigate,
            }
        }
        Output::Navigated { .. } => {
            known.navigated = true;
            Next::Baseline
        }
        Output::Baseline { checked } => {
            known.baseline = Some(checked.clone());
            known.open = vec![governor::open_failures(checked)];
            after_baseline(goal, checked)
        }
        Output::Governed { go: true, .. } => Next::Propose { iteration, answer: Answer::Ask },
        Output::Governed { go: false, why, figures } => {
            let requeue_recommended = figures.iter().any(|(name, value)| name == REQUEUE && value == "yes");
            let reason = HaltReason::Governor(why.clone());
            Next::Settle(Outcome::Halted { reason, requeue_recommended })
        }
        Output::Proposed { patch: Some(patch), .. } => Next::Apply { iteration, patch: *patch },
        Output::Proposed { patch: None, note, .. } => Next::Settle(given_up(known, note)),
        Output::Applied { patch, tree_before, tree_after, .. } => {
            known.unapplied = None;
            known.applied.push(Change {
                patch: *patch,
                tree_before: tree_before.clone(),
                tree_after: tree_after.clone(),
            });
            Next::Verify { iteration }
        }
        Output::Verified { checked, verdict, patch, changeset, .. } => {
            known.checked.push(checked.clone());
            known.open.push(open_after(known, checked, verdict));
            known.verdict = Some(verdict.clone());
            known.verified = patch.zip(*changeset);
            match verdict {
                Verdict::Repaired | Verdict::NothingToRepair => Next::Settle(Outcome::Succeeded),
                Verdict::NotRepaired(_) | Verdict::Refused(_) | Verdict::Inconclusive(_) => {
                    Next::Govern { iteration: iteration + 1 }
                }
            }
        }
    }
}

/// What is open after an iteration. A change that looks green and is not believed is no progress.
fn open_after(known: &Known, checked: &Checked, verdict: &Verdict) -> u64 {
    let open = governor::open_failures(checked);
    match verdict {
        Verdict::Repaired | Verdict::NothingToRepair | Verdict::NotRepaired(_) => open,
        Verdict::Refused(_) | Verdict::Inconclusive(_) => {
            open.max(known.open.last().copied().unwrap_or(1)).max(1)
        }
    }
}

fn next_iteration(known: &Known) -> Next {
    Next::Govern { iteration: u32::try_from(known.checked.len()).unwrap_or(u32::MAX) }
}

fn after_baseline(goal: Goal, checked: &Checked) -> Next {
    if checked.all_passed() {
        return Next::Settle(Outcome::Succeeded);
    }
    match goal {
        Goal::Repair => Next::Govern { iteration: 0 },
        Goal::Verify => {
            let failure = unrepaired(checked, red_checks(checked));
            Next::Settle(Outcome::Failed { failure })
        }
    }
}

/// What a red baseline that nobody changed ends as: where no check is known to fail, nothing was judged.
fn unrepaired(checked: &Checked, why: String) -> Failure {
    let unread = checked.checks.iter().all(|check| match check.report.outcome {
        CheckOutcome::Passed | CheckOutcome::Inconclusive(_) | CheckOutcome::Unsupported(_) => true,
        CheckOutcome::Failed => false,
    });
    if unread { Failure::Inconclusive(why) } else { Failure::NotRepaired(why) }
}

fn after_failure(known: &mut Known, step: &Step, error: &str) -> Next {
    let why = error.to_owned();
    let failure = match step.kind {
        StepKind::Provision => Failure::Provision(why),
        StepKind::Bootstrap => Failure::Bootstrap(why),
        StepKind::Propose => Failure::Agent(why),
        // The proposal was looked at and changed nothing: an iteration without progress.
        StepKind::Apply => {
            known.unapplied = Some(why);
            if let Some(latest) = known.latest().cloned() {
                known.checked.push(latest);
                known.open.extend(known.open.last().copied());
            }
            return Next::Govern { iteration: step.iteration + 1 };
        }
        StepKind::Navigate | StepKind::Baseline | StepKind::Verify | StepKind::Govern => {
            Failure::Internal(why)
        }
    };
    Next::Settle(Outcome::Failed { failure })
}

/// The end of a run whose agent has nothing more to propose, with the last real failures.
fn given_up(known: &Known, note: &str) -> Outcome {
    let failure = match (&known.unapplied, &known.verdict) {
        (Some(error), _) => Failure::Agent(error.clone()),
        (None, Some(Verdict::Refused(reasons))) => Failure::Refused(first(reasons)),
        (None, Some(Verdict::Inconclusive(reasons))) => Failure::Inconclusive(first(reasons)),
        (None, Some(Verdict::NotRepaired(reasons))) => Failure::NotRepaired(first(reasons)),
        (None, None | Some(Verdict::Repaired | Verdict::NothingToRepair)) => {
            let nothing = Checked::default();
            let latest = known.latest().unwrap_or(&nothing);
            let (red, note) = (red_checks(latest), note.trim());
            unrepaired(latest, if note.is_empty() { red } else { format!("{red}; {note}") })
        }
    };
    Outcome::Failed { failure }
}

fn first(reasons: &[String]) -> String {
    let mut text = reasons.iter().take(REASONS).cloned().collect::<Vec<_>>().join("\n");
    if reasons.len() > REASONS {
        text.push_str(&format!("\nand {} more", reasons.len() - REASONS));
    }
    text
}

/// The checks that did not pass, by name, each with the first thing that it says.
pub fn red_checks(checked: &Checked) -> String {
    let lines: Vec<String> = checked
        .checks
        .iter()
        .filter_map(|check| {
            let report = &check.report;
            let says = match &report.outcome {
                CheckOutcome::Passed => return None,
                CheckOutcome::Inconclusive(why) | CheckOutcome::Unsupported(why) => why.clone(),
                CheckOutcome::Failed => first_failure(report),
            };
            Some(format!("{}: {says}", check.name))
        })
        .collect();
    if lines.is_empty() { "no check ran".to_owned() } else { first(&lines) }
}

fn first_failure(report: &jobs::verdict::Report) -> String {
    let place = |file: &str, line: Option<u32>| match line {
        Some(line) => format!("{file}:{line}: "),
        None if file.is_empty() => String::new(),
        None => format!("{file}: "),
    };
    if let Some(failure) = report.failures.first() {
        return format!("{}: {}", failure.name, failure.message);
    }
    let errors = report.diagnostics.iter().filter(|found| found.severity == jobs::verdict::Severity::Error);
    match errors.clone().next() {
        Some(found) => format!("{}{}", place(&found.file, found.line), found.message),
        None => "failed".to_owned(),
    }
}

/// How long the steps of a run took, in milliseconds, over all its workers. The time that a run waited
/// for a person or a worker is not its own.
pub fn worked_ms(steps: &[Step]) -> u64 {
    let mut total: u64 = 0;
    let mut begun: Option<&Step> = None;
    for step in steps {
        match (&step.state, begun) {
            (StepState::Begun, _) => begun = Some(step),
            (StepState::Done { .. } | StepState::Failed { .. }, Some(start)) => {
                total = total.saturating_add(u64::try_from(step.at - start.at).unwrap_or(0));
                begun = None;
            }
            (StepState::Done { .. } | StepState::Failed { .. }, None) => {}
        }
    }
    total
}

#[cfg(test)]
mod tests;
