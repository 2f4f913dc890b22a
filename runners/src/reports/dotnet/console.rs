//! The console of vstest 15 to 17 and of the Microsoft testing platform, and MSBuild's lines.

use std::collections::{BTreeMap, BTreeSet};

use jobs::verdict::{Counts, Diagnostic, Severity, TestState};

use crate::reports::reading::Input;
use crate::reports::text;

/// Passed, failed, skipped.
type Totals = [u64; 3];

/// A test that the console names.
pub(super) struct Told {
    pub name: String,
    pub state: TestState,
    pub message: String,
    pub trace: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Part {
    #[default]
    Nothing,
    Message,
    Trace,
    Output,
}

/// What was read.
#[derive(Default)]
pub(super) struct Console {
    pub tests: Vec<Told>,
    pub diagnostics: Vec<Diagnostic>,
    seen: BTreeSet<String>,
    part: Part,
    /// Base names of the assemblies whose tests began, and how often.
    begun: BTreeMap<String, usize>,
    /// Totals in one line, by assembly and framework.
    lines: BTreeMap<String, Totals>,
    /// Totals in a block, one per project; the last of a project stands.
    blocks: Vec<Totals>,
    block_open: bool,
    spread: Option<Spread>,
    pub aborted: bool,
    pub no_tests: bool,
    pub says_failed: bool,
    pub complaints: Vec<String>,
}

/// Totals of which each number has its own line; the words' order is fixed, zero lines may be missing.
#[derive(Default)]
struct Spread {
    total: u64,
    rest: Totals,
}

impl Console {
    pub fn read(input: &Input<'_>) -> Self {
        let mut console = Self::default();
        for line in input.lines() {
            console.line(line);
        }
        console.close_spread();
        console
    }

    pub fn projects_begun(&self) -> usize {
        self.begun.values().sum()
    }

    pub fn projects_told(&self) -> usize {
        self.lines.len() + self.blocks.len()
    }

    pub fn totals(&self) -> Option<Counts> {
        let all: Vec<&Totals> = self.lines.values().chain(&self.blocks).collect();
        if all.is_empty() {
            return None;
        }
        let sum = |which: usize| all.iter().fold(0_u64, |sum, totals| sum.saturating_add(totals[which]));
        Some(Counts { passed: Some(sum(0)), failed: Some(sum(1)), skipped: Some(sum(2)), errors: Some(0) })
    }

    fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("Test run for ") {
            let path = rest.split('(').next().unwrap_or(rest).trim();
            *self.begun.entry(text::base_name(path).to_owned()).or_default() += 1;
            self.block_open = false;
            self.part = Part::Nothing;
            return;
        }
        if self.diagnostic(line) || self.spread_line(line) || self.totals_line(line) {
            return;
        }
        if let Some(told) = test_line(line) {
            if self.tests.len() < 200_000 {
                self.tests.push(told);
            }
            self.part = Part::Nothing;
            return;
        }
        self.sentence(line);
    }

    /// Totals that are complete in one line.
    fn totals_line(&mut self, line: &str) -> bool {
        if let Some(totals) = one_line_totals(line) {
            let assembly = line.rsplit(" - ").next().unwrap_or_default().trim().to_owned();
            let name = assembly.split(" (").next().unwrap_or_default();
            // What a message prints names no assembly whose tests began.
            if self.begun.is_empty() || self.begun.contains_key(name) {
                self.lines.insert(assembly, totals);
                self.part = Part::Nothing;
            }
            return true;
        }
        let Some(totals) = sentence_totals(line) else { return false };
        if self.block_open {
            self.blocks.pop();
        }
        self.blocks.push(totals);
        self.block_open = true;
        true
    }

    /// `Total tests: 2`, then `     Passed: 1`; or `Test run summary: Failed!`, then `  total: 5`.
    fn spread_line(&mut self, line: &str) -> bool {
        if let Some(spread) = &mut self.spread {
            let (word, number) = match line.trim().split_once(": ") {
                Some((word, number)) if line.starts_with(' ') => {
                    (word.to_ascii_lowercase(), number.trim().parse())
                }
                _ => (String::new(), Ok(0)),
            };
            match (word.as_str(), number) {
                ("total", Ok(number)) => spread.total = number,
                ("passed" | "succeeded", Ok(number)) => spread.rest[0] = number,
                ("failed", Ok(number)) => spread.rest[1] = number,
                ("skipped", Ok(number)) => spread.rest[2] = number,
                _ => {
                    self.close_spread();
                    return false;
                }
            }
            return true;
        }
        let total = line.strip_prefix("Total tests: ").and_then(|rest| rest.trim().parse().ok());
        if total.is_none() && !line.starts_with("Test run summary: ") {
            return false;
        }
        self.says_failed |= line.starts_with("Test run summary: Failed");
        self.no_tests |= line.starts_with("Test run summary: Zero tests ran");
        self.spread = Some(Spread { total: total.unwrap_or_default(), rest: [0; 3] });
        true
    }

    fn close_spread(&mut self) {
        let Some(spread) = self.spread.take() else { return };
        let sum = spread.rest.iter().fold(0_u64, |sum, more| sum.saturating_add(*more));
        if sum != spread.total || (spread.total == 0 && self.block_open) {
            return;
        }
        if self.block_open {
            self.blocks.pop();
        }
        self.blocks.push(spread.rest);
        self.block_open = true;
    }

    fn sentence(&mut self, line: &str) {
        let trimmed = line.trim();
        let part = match trimmed {
            "Error Message:" => Some(Part::Message),
            "Stack Trace:" => Some(Part::Trace),
            "Standard Output Messages:" | "Standard Error Messages:" => Some(Part::Output),
            _ => None,
        };
        if let Some(part) = part {
            self.part = part;
            return;
        }
        match trimmed {
            "Test Run Failed." => self.says_failed = true,
            "Test Run Aborted." => self.aborted = true,
            _ => {}
        }
        self.aborted |= line.starts_with("The active test run was aborted");
        self.no_tests |= line.starts_with("No test matches the given testcase filter")
            || line.starts_with("No test is available in ");
        if line.starts_with("MSBUILD : error ") && self.complaints.len() < 20 {
            self.complaints.push(text::cut(line, 300));
        }
        let part = self.part;
        if let Some(told) = self.tests.last_mut() {
            let target = match part {
                Part::Message => &mut told.message,
                Part::Trace => &mut told.trace,
                Part::Nothing | Part::Output => return,
            };
            if target.len() < 16_000 {
                target.push_str(line);
                target.push('\n');
            }
        }
    }

    /// `T.cs(3,38): error CS0029: message [project]`, each place once.
    fn diagnostic(&mut self, line: &str) -> bool {
        let line = line.trim();
        let found = [("): error ", Severity::Error), ("): warning ", Severity::Warning)]
            .into_iter()
            .find_map(|(word, severity)| line.split_once(word).map(|(head, rest)| (head, rest, severity)));
        let Some((head, rest, severity)) = found else { return false };
        let Some((path, place)) = head.rsplit_once('(') else { return false };
        let (row, column) = place.split_once(',').unwrap_or((place, ""));
        let (Ok(row), Some((code, message))) = (row.parse(), rest.split_once(": ")) else { return false };
        if path.is_empty() || code.contains(' ') || self.part != Part::Nothing {
            return false;
        }
        let message = match message.rsplit_once(" [") {
            Some((message, project)) if project.ends_with(']') => message,
            Some(_) | None => message,
        };
        if self.seen.len() < 10_000 && self.seen.insert(format!("{head} {code} {message}")) {
            self.diagnostics.push(Diagnostic {
                file: path.to_owned(),
                line: Some(row),
                column: column.split(',').next().and_then(|column| column.parse().ok()),
                severity,
                code: Some(code.to_owned()),
                message: message.to_owned(),
            });
        }
        true
    }
}

/// `Failed   Name`, `  Failed Name [3 ms]` and `failed Name (3ms)`.
fn test_line(line: &str) -> Option<Told> {
    let states = [
        ("Failed   ", TestState::Failed),
        ("Passed   ", TestState::Passed),
        ("Skipped  ", TestState::Skipped),
    ];
    let told = |name: &str, state| Told {
        name: name.trim().to_owned(),
        state,
        message: String::new(),
        trace: String::new(),
    };
    for (word, state) in states {
        if let Some(name) = line.strip_prefix(word).filter(|name| !name.trim().is_empty()) {
            return Some(told(name, state));
        }
        let short = word.trim();
        let indented = line
            .strip_prefix("  ")
            .and_then(|rest| rest.strip_prefix(short))
            .and_then(|rest| rest.strip_prefix(' '));
        if let Some(rest) = indented.filter(|rest| rest.ends_with(']')) {
            return rest.rsplit_once(" [").map(|(name, _)| told(name, state));
        }
        let lower = short.to_ascii_lowercase();
        let platform = line.strip_prefix(lower.as_str()).and_then(|rest| rest.strip_prefix(' '));
        if let Some((name, time)) = platform.and_then(|rest| rest.rsplit_once(" ("))
            && time.ends_with("s)")
        {
            return Some(told(name, state));
        }
    }
    None
}

/// `Total tests: 3. Passed: 1. Failed: 1. Skipped: 1.`
fn sentence_totals(line: &str) -> Option<Totals> {
    let mut rest = line;
    let mut numbers = [0; 4];
    for (number, word) in numbers.iter_mut().zip(["Total tests: ", " Passed: ", " Failed: ", " Skipped: "]) {
        let (found, after) = text::leading_count(rest.strip_prefix(word)?);
        *number = found?;
        rest = after.strip_prefix('.')?;
    }
    rest.trim().is_empty().then_some([numbers[1], numbers[2], numbers[3]])
}

/// `Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3, Duration: 5 ms - X.dll (net9.0)`.
///
/// The words are localised, the order is not: failed, passed, skipped and their sum.
fn one_line_totals(line: &str) -> Option<Totals> {
    let (head, assembly) = line.rsplit_once(" - ")?;
    if !assembly.contains(".dll") && !assembly.contains(".exe") {
        return None;
    }
    let mut numbers = Vec::new();
    for part in head.split(',').take(4) {
        let (_, number) = part.rsplit_once(':')?;
        numbers.push(number.trim().parse::<u64>().ok()?);
    }
    let [failed, passed, skipped, total] = numbers[..] else { return None };
    let sum = failed.checked_add(passed)?.checked_add(skipped)?;
    (sum == total).then_some([passed, failed, skipped])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_in_any_language() {
        let english = "Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3, Duration: 5 ms - X.dll (net9.0)";
        let german = "Fehler!      : Fehler:     1, erfolgreich:     2, übersprungen:     0, gesamt:     3, Dauer: 5 ms - X.dll (net9.0)";
        assert_eq!(one_line_totals(english), Some([2, 1, 0]));
        assert_eq!(one_line_totals(german), Some([2, 1, 0]));
        assert_eq!(one_line_totals("a: 1, b: 2, c: 3, d: 4 - X.dll"), None);
        assert_eq!(sentence_totals("Total tests: 3. Passed: 1. Failed: 1. Skipped: 1."), Some([1, 1, 1]));
    }
}
