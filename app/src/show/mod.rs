//! What people read of a run, in the terminal and on the page.

mod terminal;

use jobs::clock::Millis;
use jobs::step::Output;
use jobs::store::RunView;
use jobs::verdict::{CheckOutcome, Checked, Verdict};
use webhooks::forge::{CheckRun, CheckStatus};
use webhooks::{offer, report};

use crate::service::Service;

pub use terminal::{Watcher, check_run, colored_diff, inert};

/// A larger patch is not shown.
const MOST_PATCH_BYTES: u64 = 4 << 20;

/// A moment as people read it.
pub fn utc(at: Millis) -> String {
    match jiff::Timestamp::from_millisecond(at) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => "at an unknown time".to_owned(),
    }
}

/// The check run as the forge is told it.
pub fn check_of(service: &Service, view: &RunView) -> CheckRun {
    with_material(service, view, |material| report::check_run(view, material))
}

/// The check run of the commit that the run's push made, as the forge is told it.
pub fn pushed_check_of(service: &Service, view: &RunView) -> Option<CheckRun> {
    with_material(service, view, |material| report::pushed_check_run(view, material))
}

fn with_material<T>(service: &Service, view: &RunView, render: impl FnOnce(&report::Material<'_>) -> T) -> T {
    let (key_id, mask) = (report::key_id(view), service.mask());
    render(&report::Material {
        patch: patch_of(service, view),
        key_id: key_id.as_deref(),
        public_url: Some(&service.public_url),
        head: None,
        mask: &mask,
        now: service.clock.now(),
    })
}

/// The last verified patch.
pub fn patch_of(service: &Service, view: &RunView) -> Option<Vec<u8>> {
    let digest = offer::last_verified(view)?.patch?;
    service.artifacts.get_bounded(digest, MOST_PATCH_BYTES).ok()
}

/// The word for where a check run stands: its conclusion once it is completed.
pub const fn status_word(status: &CheckStatus) -> &'static str {
    match status {
        CheckStatus::Queued => "queued",
        CheckStatus::InProgress => "in_progress",
        CheckStatus::Completed { conclusion, .. } => conclusion.name(),
    }
}

/// One line on what a step left.
pub fn step_summary(output: &Output) -> String {
    match output {
        Output::Provisioned { files, bytes, .. } => format!("{files} files, {bytes} bytes"),
        Output::Bootstrapped { installs, egress, seal } => {
            let refused = egress.iter().filter(|line| line.refused.is_some()).count();
            let window = match (installs.len(), egress.len()) {
                (0, 0) => "nothing to install, no window opened".to_owned(),
                (installs, lines) => format!("{installs} installs, {lines} connections, {refused} refused"),
            };
            let closed = seal.tests.iter().filter(|test| test.closed).count();
            format!("{window}; sealed, {closed} of {} ways out tried and found closed", seal.tests.len())
        }
        Output::Navigated { languages, omitted, map } => {
            let named: Vec<String> =
                languages.iter().map(|found| format!("{} {}", found.language, found.files)).collect();
            let omitted =
                if omitted.is_empty() { String::new() } else { format!("; omitted: {}", omitted.join(", ")) };
            let map = map.as_ref().map_or(String::new(), |map| {
                format!(
                    "; {} definitions mapped, {} files read, {} known",
                    map.definitions, map.read, map.kept
                )
            });
            format!("{}{omitted}{map}", named.join(", "))
        }
        Output::Baseline { checked } => checks(checked),
        Output::Proposed { note, patch, .. } => match (patch, note.is_empty()) {
            (None, true) => "nothing proposed".to_owned(),
            (None, false) => format!("nothing proposed: {note}"),
            (Some(_), true) => "a change was proposed".to_owned(),
            (Some(_), false) => note.clone(),
        },
        Output::Applied { files, .. } => {
            let (added, removed) = files.iter().fold((0, 0), |(added, removed), file| {
                (added + file.added_lines, removed + file.removed_lines)
            });
            format!("{} files, +{added} -{removed}", files.len())
        }
        Output::Verified { checked, verdict, .. } => {
            format!("{}: {}", verdict_words(verdict), checks(checked))
        }
        Output::Governed { go, why, .. } => format!("{}: {why}", if *go { "go on" } else { "stop" }),
    }
}

/// A verdict in one or two words.
pub const fn verdict_words(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::NothingToRepair => "nothing to repair",
        Verdict::Repaired => "repaired",
        Verdict::NotRepaired(_) => "not repaired",
        Verdict::Refused(_) => "not believed",
        Verdict::Inconclusive(_) => "inconclusive",
    }
}

/// A check's outcome in one word.
pub const fn outcome_word(outcome: &CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Passed => "green",
        CheckOutcome::Failed => "red",
        CheckOutcome::Inconclusive(_) => "inconclusive",
        CheckOutcome::Unsupported(_) => "unsupported",
    }
}

fn checks(checked: &Checked) -> String {
    let words: Vec<String> = checked
        .checks
        .iter()
        .map(|check| format!("{} {}", check.name, outcome_word(&check.report.outcome)))
        .collect();
    words.join(", ")
}

/// One line of a patch and what it is.
pub struct DiffLine {
    pub class: &'static str,
    pub text: String,
}

/// A patch by lines.
pub fn diff_lines(patch: &str) -> Vec<DiffLine> {
    let class = |line: &str| match line.as_bytes().first() {
        _ if line.starts_with("+++") || line.starts_with("---") || line.starts_with("diff ") => "file",
        Some(b'+') => "add",
        Some(b'-') => "del",
        Some(b'@') => "hunk",
        Some(_) | None => "same",
    };
    patch.lines().map(|line| DiffLine { class: class(line), text: line.to_owned() }).collect()
}
