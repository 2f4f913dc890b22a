//! What a reader gathers from one run, and the one rule by which it is judged.

use std::collections::BTreeMap;

use jobs::check::{Check, Tool, ToolKind};
use jobs::verdict::{CheckOutcome, Counts, Diagnostic, Report, Severity, TestCase, TestFailure, TestState};

use super::{Ended, Kept, RawOutput};
use super::{absent, text};

/// More tests, failures or diagnostics than this are counted but not kept.
const KEPT_TESTS: usize = 200_000;
const KEPT_FAILURES: usize = 1_000;
const KEPT_DIAGNOSTICS: usize = 10_000;
const NAME_BYTES: usize = 1_000;
const MESSAGE_BYTES: usize = 1_000;
const EXCERPT_BYTES: usize = 4_000;
const DIAGNOSTIC_BYTES: usize = 2_000;
const KEPT_NOTES: usize = 50;

/// One run's bytes, cleaned once for every reader.
pub(super) struct Input<'a> {
    pub check: &'a Check,
    pub raw: &'a RawOutput,
    pub stdout: String,
    pub stderr: String,
}

impl<'a> Input<'a> {
    pub fn new(check: &'a Check, raw: &'a RawOutput) -> Self {
        Self { check, raw, stdout: text::clean(&raw.stdout), stderr: text::clean(&raw.stderr) }
    }

    /// Both consoles, what is on stderr last.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.stdout.lines().chain(self.stderr.lines())
    }

    /// A path as the repository knows it.
    pub fn path(&self, path: &str) -> String {
        text::repository_path(&self.raw.root, &self.check.directory, path)
    }

    /// The kept report files whose base name is accepted, in the order of their paths.
    pub fn files(&self, accept: impl Fn(&str) -> bool) -> Vec<(&str, &[u8])> {
        let mut files: Vec<(&str, &[u8])> = self
            .raw
            .files
            .iter()
            .filter(|(path, bytes)| accept(path) && !bytes.is_empty())
            .map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
            .collect();
        files.sort_unstable();
        files
    }

    /// Whether a signal, ours or its own, ended the command.
    pub fn died(&self) -> bool {
        self.raw.ended == Ended::Killed || self.raw.exit_code.is_none_or(|code| !(0..=128).contains(&code))
    }

    /// Whether the process died of a signal that its own code raises (not one that others send).
    pub fn crashed(&self) -> bool {
        self.raw.ended == Ended::ByItself
            && matches!(
                self.raw.exit_code,
                Some(132 | 134..=136 | 138 | 139 | 159 | -11 | -8 | -7 | -6 | -5 | -4)
            )
    }

    pub fn exit_is_zero(&self) -> bool {
        self.raw.exit_code == Some(0) && self.raw.ended == Ended::ByItself
    }

    fn whole(&self) -> bool {
        self.raw.kept == Kept::Whole && text::fits(&self.raw.stdout) && text::fits(&self.raw.stderr)
    }

    /// How the command left, in words.
    pub fn exit_words(&self) -> String {
        match (self.raw.ended, self.raw.exit_code) {
            (Ended::Killed, _) => "it was killed at a limit".to_owned(),
            (Ended::ByItself, None) => "a signal ended it".to_owned(),
            (Ended::ByItself, Some(code)) if code > 128 => {
                format!("it left with exit code {code}, as after signal {}", code - 128)
            }
            (Ended::ByItself, Some(code)) => format!("it left with exit code {code}"),
        }
    }
}

/// What is known about tests having been executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Executed {
    /// Nothing tells.
    #[default]
    Unknown,
    /// The tool says that nothing was there to execute, or that all was skipped.
    Nothing,
    /// At least one test was executed, or a diagnostics tool has looked at its files.
    Some,
}

/// The corpus's three words, and why `passed` may prove nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Word {
    Passed,
    /// Exit 0, nothing wrong, but no test was executed.
    PassedNothing,
    Failed,
    #[default]
    Error,
}

/// What one run says, as far as a reader has understood it.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub tool: Tool,
    pub tests: BTreeMap<String, TestState>,
    pub counts: Counts,
    /// Counts that only some tools have (`xfailed`, `todo`, `warnings`).
    pub extra: BTreeMap<&'static str, u64>,
    pub failures: Vec<TestFailure>,
    pub diagnostics: Vec<Diagnostic>,
    pub executed: Executed,
    /// A test is known to have failed though no count says so (a crash that names its test).
    pub failed: bool,
    /// The tool says that something is wrong beside failing tests: it does not build, cannot be collected, is under a threshold.
    pub broken: Vec<String>,
    /// Why nothing can be concluded: no summary, a cut report, a wrong call.
    pub open: Vec<String>,
    pub notes: Vec<String>,
    pub word: Word,
    /// How often an id occurred, where occurrences are kept apart.
    repeated: BTreeMap<String, u64>,
    /// The output is of a kind that its reader does not know.
    unsupported: Option<String>,
    outcome: Option<CheckOutcome>,
}

impl Reading {
    pub fn new(tool: Tool) -> Self {
        Self {
            tool,
            tests: BTreeMap::new(),
            counts: Counts::default(),
            extra: BTreeMap::new(),
            failures: Vec::new(),
            diagnostics: Vec::new(),
            executed: Executed::Unknown,
            failed: false,
            broken: Vec::new(),
            open: Vec::new(),
            notes: Vec::new(),
            word: Word::Error,
            repeated: BTreeMap::new(),
            unsupported: None,
            outcome: None,
        }
    }

    /// Adds a test; of two with one id the worse state stands.
    pub fn test(&mut self, id: &str, state: TestState) {
        if self.tests.len() >= KEPT_TESTS && !self.tests.contains_key(id) {
            self.open.push(format!("the report names more than {KEPT_TESTS} tests"));
            self.open.truncate(KEPT_NOTES);
            return;
        }
        let known = self.tests.entry(text::cut(id, NAME_BYTES)).or_insert(state);
        if gravity(state) > gravity(*known) {
            *known = state;
        }
    }

    /// Adds a test whose id may occur again within one run of its suite; each occurrence is kept apart.
    pub fn distinct_test(&mut self, id: &str, state: TestState) -> String {
        let name = text::cut(id, NAME_BYTES);
        // Counted on from the last time, since trying each number again makes many of one name slow.
        let mut number = self.repeated.get(&name).copied().unwrap_or_default();
        let free = loop {
            number += 1;
            let free = if number == 1 { name.clone() } else { format!("{name} #{number}") };
            if !self.tests.contains_key(&free) {
                break free;
            }
        };
        if self.repeated.len() < KEPT_TESTS || self.repeated.contains_key(&name) {
            self.repeated.insert(name, number);
        }
        self.test(&free, state);
        free
    }

    /// Adds a failing test, bounded.
    pub fn failure(&mut self, failure: TestFailure) {
        if self.failures.len() >= KEPT_FAILURES {
            self.note(format!("more than {KEPT_FAILURES} failures: the rest is counted, not listed"));
            return;
        }
        self.failures.push(TestFailure {
            name: text::cut(&failure.name, NAME_BYTES),
            file: failure.file.map(|file| text::cut(&file, NAME_BYTES)),
            line: failure.line,
            message: text::cut(failure.message.trim(), MESSAGE_BYTES),
            excerpt: text::cut(&failure.excerpt, EXCERPT_BYTES),
        });
    }

    /// Adds a finding, bounded.
    pub fn diagnostic(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() >= KEPT_DIAGNOSTICS {
            self.note(format!("more than {KEPT_DIAGNOSTICS} diagnostics: the rest is counted, not listed"));
            return;
        }
        self.diagnostics.push(Diagnostic {
            message: text::cut(&diagnostic.message, DIAGNOSTIC_BYTES),
            file: text::cut(&diagnostic.file, NAME_BYTES),
            ..diagnostic
        });
    }

    pub fn note(&mut self, note: impl Into<String>) {
        let note = text::cut(&note.into(), MESSAGE_BYTES);
        if self.notes.len() < KEPT_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub fn broken(&mut self, why: impl Into<String>) {
        push_reason(&mut self.broken, why.into());
    }

    pub fn open(&mut self, why: impl Into<String>) {
        push_reason(&mut self.open, why.into());
    }

    /// The output is of a kind that its reader does not know; `what` says which, and what to use instead.
    pub fn unsupported(&mut self, what: impl Into<String>) {
        self.unsupported.get_or_insert_with(|| text::cut(&what.into(), MESSAGE_BYTES));
    }

    /// How many of the named tests are in one of the states.
    pub fn count_of(&self, states: &[TestState]) -> u64 {
        self.tests.values().filter(|state| states.contains(state)).count() as u64
    }

    /// Takes a second witness in: the worst stands, and a disagreement is told.
    pub fn second(&mut self, name: &str, counts: Counts) {
        for (what, own, other) in [
            ("passed", &mut self.counts.passed, counts.passed),
            ("failed", &mut self.counts.failed, counts.failed),
            ("skipped", &mut self.counts.skipped, counts.skipped),
            ("errors", &mut self.counts.errors, counts.errors),
        ] {
            match (*own, other) {
                (Some(ours), Some(theirs)) if ours != theirs => {
                    let note = format!("the report says {ours} {what}, {name} says {theirs}");
                    if what == "failed" || what == "errors" {
                        *own = Some(ours.max(theirs));
                    }
                    if self.notes.len() < KEPT_NOTES {
                        self.notes.push(note);
                    }
                }
                (None, theirs) => *own = theirs,
                (Some(_), _) => {}
            }
        }
    }

    /// The rule: what failed is failed; what died, broke or is unclear is no pass; exit 0 needs a witness.
    pub fn judge(mut self, input: &Input<'_>) -> Self {
        let kind = self.tool.kind();
        let error_findings =
            self.diagnostics.iter().filter(|found| found.severity == Severity::Error).count() as u64;
        if kind == ToolKind::Diagnostics {
            self.count_findings(error_findings);
        }
        let red = self.failed
            || self.counts.failed.is_some_and(|failed| failed > 0)
            || self.count_of(&[TestState::Failed]) > 0
            || (kind == ToolKind::Diagnostics
                && self.broken.is_empty()
                && (error_findings > 0 || self.counts.errors.is_some_and(|errors| errors > 0)));
        if kind == ToolKind::Tests && self.counts.errors.is_some_and(|errors| errors > 0) {
            let errors = self.counts.errors.unwrap_or_default();
            self.broken(format!("{errors} errors outside of a test's own body"));
        }
        if !input.whole() {
            self.open("the output was cut, so something may be missing");
        }
        let looked = self.executed == Executed::Some || input.exit_is_zero();
        let absent = if looked { None } else { absent::told(input) };
        let exit = input.exit_words();
        let (word, outcome) = if red {
            if input.exit_is_zero() {
                self.note("something failed though the command left with exit code 0");
            }
            (Word::Failed, CheckOutcome::Failed)
        } else if input.died() && (!input.crashed() || self.broken.is_empty()) {
            (Word::Error, CheckOutcome::Inconclusive(self.first_open(&exit)))
        } else if let Some(why) = absent {
            (Word::Error, CheckOutcome::Inconclusive(format!("{why}; {exit}")))
        } else if !self.broken.is_empty() {
            for why in self.broken.clone() {
                self.note(why);
            }
            (Word::Error, CheckOutcome::Failed)
        } else if let Some(what) = self.unsupported.take() {
            (Word::Error, CheckOutcome::Unsupported(what))
        } else if !self.open.is_empty() {
            (Word::Error, CheckOutcome::Inconclusive(self.first_open(&exit)))
        } else if !input.exit_is_zero() {
            self.judge_silent_exit(&exit)
        } else {
            self.judge_green(kind)
        };
        for why in std::mem::take(&mut self.open) {
            self.note(why);
        }
        self.word = word;
        self.outcome = Some(outcome);
        self
    }

    /// A non-zero exit that no count explains: a tool that has looked says no, one that has not says nothing.
    fn judge_silent_exit(&mut self, exit: &str) -> (Word, CheckOutcome) {
        match (self.tool.kind(), self.executed) {
            (ToolKind::Tests, Executed::Some) => {
                self.note(format!("every test that was reported passed, but {exit}"));
                (Word::Error, CheckOutcome::Failed)
            }
            (ToolKind::Diagnostics, Executed::Some) if !self.diagnostics.is_empty() => {
                self.note(format!("no finding is an error, but {exit}: its warnings count"));
                (Word::Failed, CheckOutcome::Failed)
            }
            (ToolKind::Tests, Executed::Nothing) => {
                (Word::Error, CheckOutcome::Inconclusive(format!("no test was executed and {exit}")))
            }
            (ToolKind::Diagnostics, _) | (ToolKind::Tests, Executed::Unknown) => {
                (Word::Error, CheckOutcome::Inconclusive(format!("nothing in its output tells why {exit}")))
            }
        }
    }

    fn judge_green(&mut self, kind: ToolKind) -> (Word, CheckOutcome) {
        match self.executed {
            Executed::Some => (Word::Passed, CheckOutcome::Passed),
            Executed::Nothing => {
                let why = match kind {
                    ToolKind::Tests => "no test was executed, which proves nothing",
                    ToolKind::Diagnostics => "no file was looked at, which proves nothing",
                };
                (Word::PassedNothing, CheckOutcome::Inconclusive(why.to_owned()))
            }
            Executed::Unknown => {
                let why = "it left with exit code 0, but no report or summary says what was executed";
                (Word::Error, CheckOutcome::Inconclusive(why.to_owned()))
            }
        }
    }

    fn count_findings(&mut self, errors: u64) {
        let warnings =
            self.diagnostics.iter().filter(|found| found.severity == Severity::Warning).count() as u64;
        self.extra.entry("warnings").or_insert(warnings);
        let counted = self.counts.errors.unwrap_or_default().max(errors);
        self.counts.errors = Some(counted);
    }

    fn first_open(&self, exit: &str) -> String {
        match self.open.first() {
            Some(why) => format!("{why}; {exit}"),
            None => exit.to_owned(),
        }
    }

    /// The value that rows keep and pages show.
    pub fn into_report(self) -> Report {
        Report {
            tool: self.tool,
            outcome: self
                .outcome
                .unwrap_or_else(|| CheckOutcome::Inconclusive("it was not judged".to_owned())),
            counts: self.counts,
            tests: self.tests.into_iter().map(|(id, state)| TestCase { id, state }).collect(),
            failures: self.failures,
            diagnostics: self.diagnostics,
            notes: self.notes,
        }
    }
}

fn push_reason(reasons: &mut Vec<String>, why: String) {
    let why = text::cut(&why, MESSAGE_BYTES);
    if reasons.len() < KEPT_NOTES && !reasons.contains(&why) {
        reasons.push(why);
    }
}

/// How bad a state is when one id has two.
fn gravity(state: TestState) -> u8 {
    match state {
        TestState::Passed => 0,
        TestState::Skipped => 1,
        TestState::ExpectedFailure => 2,
        TestState::Errored => 3,
        TestState::Failed => 4,
    }
}
