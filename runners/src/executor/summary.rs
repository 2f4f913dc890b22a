//! One line for people about a step's output or a run's end.

use jobs::run::{Failure, HaltReason, Outcome};
use jobs::step::Output;
use jobs::verdict::{CheckOutcome, Checked, Verdict};

/// What a finished step left, in one line.
pub fn of(output: &Output) -> String {
    match output {
        Output::Provisioned { files, bytes, .. } => format!("{files} files, {bytes} bytes"),
        Output::Bootstrapped { installs, seal, .. } => {
            let closed = seal.tests.iter().filter(|test| test.closed).count();
            let installed = match installs.len() {
                0 => "nothing to install".to_owned(),
                1 => "1 install".to_owned(),
                count => format!("{count} installs"),
            };
            format!("{installed}; sealed, {closed} of {} ways out found closed", seal.tests.len())
        }
        Output::Navigated { languages, omitted, map } => {
            let known: Vec<_> =
                languages.iter().map(|found| format!("{} {}", found.files, found.language)).collect();
            let left = if omitted.is_empty() {
                String::new()
            } else {
                format!("; {} kinds of files left out", omitted.len())
            };
            let map = map.as_ref().map_or(String::new(), |map| {
                format!("; {} definitions mapped, {} files read", map.definitions, map.read)
            });
            format!("{}{left}{map}", known.join(", "))
        }
        Output::Baseline { checked } => of_checks(checked),
        Output::Proposed { patch: Some(_), note, .. } => first_line(note, "a patch"),
        Output::Proposed { patch: None, note, .. } => first_line(note, "nothing to propose"),
        Output::Applied { files, .. } => {
            let (added, removed) =
                files.iter().fold((0, 0), |(a, r), file| (a + file.added_lines, r + file.removed_lines));
            let unit = if files.len() == 1 { "file" } else { "files" };
            format!("{} {unit}, +{added} -{removed} lines", files.len())
        }
        Output::Verified { checked, verdict, .. } => {
            format!("{}; {}", of_checks(checked), of_verdict(verdict))
        }
        Output::Governed { why, .. } => why.clone(),
    }
}

/// How many checks passed, and which did not.
pub fn of_checks(checked: &Checked) -> String {
    let red: Vec<&str> = checked
        .checks
        .iter()
        .filter(|check| check.report.outcome != CheckOutcome::Passed)
        .map(|check| check.name.as_str())
        .collect();
    let all = checked.checks.len();
    match red.as_slice() {
        [] => format!("{all} of {all} checks passed"),
        red => format!("{} of {all} checks passed; red: {}", all - red.len(), red.join(", ")),
    }
}

/// The verdict in a word or two.
pub const fn of_verdict(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::NothingToRepair => "nothing to repair",
        Verdict::Repaired => "repaired",
        Verdict::NotRepaired(_) => "not repaired",
        Verdict::Refused(_) => "green, but not believed",
        Verdict::Inconclusive(_) => "inconclusive",
    }
}

/// The end of a run in a sentence.
pub fn of_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded => "every check is green".to_owned(),
        Outcome::Failed { failure } => match failure {
            Failure::Provision(why)
            | Failure::Bootstrap(why)
            | Failure::NotRepaired(why)
            | Failure::Refused(why)
            | Failure::Inconclusive(why)
            | Failure::Agent(why)
            | Failure::Internal(why) => format!("failed: {why}"),
        },
        Outcome::Halted { reason, .. } => match reason {
            HaltReason::Governor(why)
            | HaltReason::Cancelled(why)
            | HaltReason::Superseded(why)
            | HaltReason::OutOfTime(why) => format!("halted: {why}"),
        },
    }
}

fn first_line(text: &str, otherwise: &str) -> String {
    match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => line.trim().chars().take(200).collect(),
        None => otherwise.to_owned(),
    }
}
