//! Maven Surefire: the XML report of every module, the console's totals, and Maven's last word.
//!
//! No XML is written for a fork that crashed, and a green last word says nothing with
//! `maven.test.failure.ignore`, so each witness can only make the reading worse.

use jobs::verdict::{Counts, TestState};

use super::java::{self, CompileErrors, Errors};
use super::reading::{Executed, Input, Reading};
use super::text;

/// What the console says.
#[derive(Default)]
struct Console {
    /// The totals of all modules: run, failures, errors, skipped.
    totals: Option<[u64; 4]>,
    /// In the block of results, whose last line of totals is the true one.
    block: Option<Option<[u64; 4]>>,
    tests: Vec<Told>,
    open: Option<Told>,
    last_word: Option<bool>,
    no_tests: bool,
    does_not_compile: bool,
    fork_died: Option<String>,
}

/// A failing test with its stack.
struct Told {
    class: String,
    name: String,
    state: TestState,
    trace: String,
}

/// Reads one run of `mvn`.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let mut console = Console::default();
    let mut compile_errors = CompileErrors::default();
    for line in input.lines() {
        console.line(line);
        if console.does_not_compile {
            compile_errors.maven(&mut reading, input, line);
        }
    }
    console.close_block();
    console.tests.extend(console.open.take());
    let reports = java::take_reports(&mut reading, input, "target/", Errors::Apart);
    let counts = console.counts();
    if !reports {
        for told in &console.tests {
            let name = if told.name.is_empty() {
                told.class.clone()
            } else {
                format!("{}.{}", told.class, told.name)
            };
            let known = reading.tests.contains_key(&name);
            reading.test(&name, told.state);
            if !known {
                let mut lines = told.trace.lines();
                let message = lines.next().unwrap_or_default().trim();
                let more = lines.next().unwrap_or_default().trim();
                let message =
                    if message.ends_with(':') { format!("{message} {more}") } else { message.to_owned() };
                reading.failure(java::failure(&name, &told.class, message, told.trace.clone()));
            }
        }
        reading.counts = counts.unwrap_or_default();
    } else if let Some(counts) = counts {
        reading.second("the console", counts);
    }
    conclude(&mut reading, input, &console, reports);
    reading
}

fn conclude(reading: &mut Reading, input: &Input<'_>, console: &Console, reports: bool) {
    let nothing = Counts { passed: Some(0), failed: Some(0), skipped: Some(0), errors: Some(0) };
    if let Some(why) = &console.fork_died {
        reading.open(format!("a test process ended early: {why}"));
        if !reports && console.totals.is_none_or(|[run, ..]| run == 0) {
            reading.counts = Counts::default();
        }
    }
    if console.does_not_compile {
        reading.broken("Maven reports a compilation error");
        if !reports && console.totals.is_none() {
            reading.counts = Counts { errors: None, ..nothing };
        }
    }
    if input.exit_is_zero() && console.last_word == Some(false) {
        reading.open("Maven says BUILD FAILURE though it left with exit code 0");
    }
    let ran = |counts: &Counts| {
        [counts.passed, counts.failed, counts.errors].into_iter().flatten().any(|count| count > 0)
    };
    reading.executed = if ran(&reading.counts) {
        Executed::Some
    } else if reports || console.no_tests || console.totals.is_some() || console.last_word == Some(true) {
        if !reports && console.totals.is_none() && console.fork_died.is_none() && !console.does_not_compile {
            reading.counts = nothing;
        }
        Executed::Nothing
    } else {
        Executed::Unknown
    };
}

impl Console {
    fn line(&mut self, line: &str) {
        let (level, body) = level_of(line);
        if let Some(header) = failing_test(level, body) {
            self.tests.extend(self.open.replace(header));
            return;
        }
        if line.trim().is_empty() || (level.is_some() && body.starts_with("Tests run:")) {
            self.tests.extend(self.open.take());
        }
        if let Some(told) = &mut self.open {
            if told.trace.len() < 16_000 {
                told.trace.push_str(line);
                told.trace.push('\n');
            }
            return;
        }
        if level.is_some() {
            self.levelled(body);
        }
    }

    /// A line that Maven itself marked with its level.
    fn levelled(&mut self, body: &str) {
        match body.trim_end() {
            "Results:" | "Results :" => self.open_block(),
            "Failures:" | "Errors:" | "Failed tests:" | "Tests in error:" if self.block.is_none() => {
                self.open_block()
            }
            "BUILD SUCCESS" => self.last_word = Some(self.last_word.unwrap_or(true)),
            "BUILD FAILURE" => self.last_word = Some(false),
            "Tests are skipped." | "No tests to run." => self.no_tests = true,
            "COMPILATION ERROR :" => self.does_not_compile = true,
            other => self.sentence(other),
        }
    }

    fn sentence(&mut self, body: &str) {
        if let Some(totals) = totals_of(body) {
            if let Some(block) = &mut self.block {
                *block = Some(totals);
            }
        } else if body.starts_with("---") || body.starts_with("Failed to execute goal") {
            self.close_block();
        }
        if body.contains("Compilation failure") && body.starts_with("Failed to execute goal") {
            self.does_not_compile = true;
        }
        if body.contains("No tests were executed!") {
            self.no_tests = true;
        }
        let died = [
            "There was a timeout or other error in the fork",
            "The forked VM terminated without",
            "Crashed tests:",
            "ExecutionException The forked VM",
            "Error occurred in starting fork",
            "There was an error in the forked process",
        ];
        if self.fork_died.is_none() && died.iter().any(|words| body.contains(words)) {
            self.fork_died = Some(text::cut(body, 300));
        }
    }

    fn open_block(&mut self) {
        self.close_block();
        self.block = Some(None);
    }

    /// The last totals of a block are its true ones: what messages print stands before them.
    fn close_block(&mut self) {
        if let Some(Some(totals)) = self.block.take() {
            let sum = self.totals.get_or_insert([0; 4]);
            for (sum, more) in sum.iter_mut().zip(totals) {
                *sum = sum.saturating_add(more);
            }
        }
    }

    fn counts(&self) -> Option<Counts> {
        let [run, failures, errors, skipped] = self.totals?;
        let passed = run.saturating_sub(failures).saturating_sub(errors).saturating_sub(skipped);
        Some(Counts {
            passed: Some(passed),
            failed: Some(failures),
            skipped: Some(skipped),
            errors: Some(errors),
        })
    }
}

/// The level that Maven puts before a line.
fn level_of(line: &str) -> (Option<&str>, &str) {
    for level in ["[INFO]", "[ERROR]", "[WARNING]", "[WARN]"] {
        if let Some(rest) = line.strip_prefix(level) {
            return (Some(level), rest.strip_prefix(' ').unwrap_or(rest));
        }
    }
    (None, line)
}

/// `Tests run: 4, Failures: 1, Errors: 0, Skipped: 0` and nothing more.
fn totals_of(body: &str) -> Option<[u64; 4]> {
    let mut rest = body;
    let mut counts = [0; 4];
    for (count, word) in counts.iter_mut().zip(["Tests run: ", ", Failures: ", ", Errors: ", ", Skipped: "]) {
        let (number, after) = text::leading_count(rest.strip_prefix(word)?);
        *count = number?;
        rest = after;
    }
    (rest.trim().is_empty() || rest.trim_start().starts_with(", Flakes: ")).then_some(counts)
}

/// `name(Class)  Time elapsed: 0.1 s  <<< FAILURE!`, or `Class.name -- Time elapsed: ..` since 3.0.
fn failing_test(level: Option<&str>, body: &str) -> Option<Told> {
    level.filter(|&level| level == "[ERROR]")?;
    let (head, state) =
        match (body.trim_end().strip_suffix("<<< FAILURE!"), body.trim_end().strip_suffix("<<< ERROR!")) {
            (Some(head), _) => (head, TestState::Failed),
            (None, Some(head)) => (head, TestState::Errored),
            (None, None) => return None,
        };
    if head.starts_with("Tests run:") {
        return None;
    }
    let (title, old) = match (head.rsplit_once(" -- Time elapsed: "), head.rsplit_once("  Time elapsed: ")) {
        (Some((title, _)), _) => (title, false),
        (None, Some((title, _))) => (title, true),
        (None, None) => return None,
    };
    let (class, name) = match title.strip_suffix(')').and_then(|title| title.rsplit_once('(')).filter(|_| old)
    {
        Some((name, class)) => (class, name),
        None if old => (title, ""),
        None => class_and_method(title),
    };
    Some(Told { class: class.to_owned(), name: name.to_owned(), state, trace: String::new() })
}

/// The class ends at the last dot before the method, which may have parameters with dots.
fn class_and_method(title: &str) -> (&str, &str) {
    let end = title.find(['(', '[', '{', ' ']).unwrap_or(title.len());
    match title[..end].rfind('.') {
        Some(at) if title[at + 1..].starts_with(|first: char| first.is_uppercase()) => (title, ""),
        Some(at) => (&title[..at], &title[at + 1..]),
        None => (title, ""),
    }
}
