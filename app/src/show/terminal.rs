//! The terminal: live progress of a run, and its check run at the end.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use console::style;
use indicatif::{ProgressBar, ProgressStyle};
use jobs::run::{Outcome, Phase};
use runners::progress::{Happening, Progress};
use webhooks::forge::{CheckRun, CheckStatus};

use super::{diff_lines, status_word};
use crate::commands::{eprint, outcome_words};

/// Shows what a run does: one line that moves on a terminal, plain lines elsewhere.
pub struct Watcher {
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Default for Watcher {
    fn default() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {elapsed:>4} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, started: Instant::now() }
    }
}

impl Watcher {
    /// Shows one sign of life; gives the outcome when it is the last.
    pub fn see<'p>(&self, progress: &'p Progress) -> Option<&'p Outcome> {
        match &progress.what {
            Happening::Claimed { subject, .. } => {
                self.line(None, &format!("run {} for {subject}", progress.run))
            }
            Happening::Begun { phase, step, .. } => self.live(*phase, step.name()),
            Happening::Command { name, argv } => self.live_text(&format!("{name}: {argv}")),
            Happening::Done { phase, step, summary, .. } => {
                self.line(Some(*phase), &format!("{}: {summary}", step.name()))
            }
            Happening::Failed { phase, step, error, .. } => {
                self.line(Some(*phase), &format!("{} failed: {error}", step.name()))
            }
            Happening::Suspended { .. } => self.line(None, "suspended: a launch's result is unknown"),
            Happening::Finished { outcome } => {
                self.finish();
                self.line(None, outcome_words(outcome));
                return Some(outcome);
            }
        }
        None
    }

    /// Takes the moving line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn live(&self, phase: Phase, step: &str) {
        self.live_text(&format!("{:<10} {step}", phase.name()));
    }

    fn live_text(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    fn line(&self, phase: Option<Phase>, text: &str) {
        let phase = phase.map_or("", Phase::name);
        let line = format!("{:>6.1}s  {phase:<10} {text}", self.started.elapsed().as_secs_f64());
        match &self.bar {
            Some(bar) if !bar.is_finished() => bar.println(line),
            Some(_) | None => eprint(&format!("{line}\n")),
        }
    }
}

/// The check run as a person sees it on the forge, its markdown as text.
pub fn check_run(check: &CheckRun) -> String {
    let word = status_word(&check.status);
    let word = match &check.status {
        CheckStatus::Completed { conclusion: webhooks::forge::Conclusion::Failure, .. } => style(word).red(),
        CheckStatus::Completed { conclusion: webhooks::forge::Conclusion::Success, .. } => {
            style(word).green()
        }
        CheckStatus::Queued | CheckStatus::InProgress | CheckStatus::Completed { .. } => style(word).yellow(),
    };
    let mut text = format!(
        "{} {}   conclusion: {word}\n\n{}\n",
        style("check run").dim(),
        style(&check.title).bold(),
        check.summary.trim()
    );
    if let Some(more) = &check.text {
        text.push_str(&format!("\n{}\n", colored_diff(more.trim())));
    }
    if !check.actions.is_empty() {
        let labels: Vec<String> = check.actions.iter().map(|action| format!("[{}]", action.label)).collect();
        text.push_str(&format!("\nbuttons: {}\n", labels.join(" ")));
    }
    text
}

/// A text of others without what steers a terminal or turns the order of letters around.
pub fn inert(text: &str) -> String {
    let steers = |next: char| {
        (next.is_control() && !matches!(next, '\n' | '\t'))
            || matches!(next, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|next| if steers(next) { char::REPLACEMENT_CHARACTER } else { next }).collect()
}

/// Text in which the lines of a patch are coloured.
pub fn colored_diff(text: &str) -> String {
    let mut within = false;
    let mut lines = Vec::new();
    for line in diff_lines(text) {
        if line.text.starts_with("```") {
            within = line.text.ends_with("diff");
        }
        lines.push(match (within, line.class) {
            (true, "add") => style(line.text).green().to_string(),
            (true, "del") => style(line.text).red().to_string(),
            (true, "hunk") => style(line.text).cyan().to_string(),
            _ => line.text,
        });
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_repository_says_does_not_steer_the_terminal() {
        assert_eq!(inert("a\u{1b}[2J\u{202e}b\tc\nd"), "a\u{fffd}[2J\u{fffd}b\tc\nd");
    }
}
