//! `cargo test`: the blocks that each test binary prints, matched with the binaries that cargo names.
//!
//! A test can print anything between `running N tests` and its `test result:` line. A result line is
//! believed only when its numbers add up to N; of several, the worst stands. A block without one means that
//! the process died or left on its own, and cargo's `error: test failed` overrules any line that says ok.

use std::collections::BTreeSet;

use jobs::verdict::{Counts, Severity, TestFailure, TestState};

use super::reading::{Executed, Input, Reading};
use super::rust_console;
use super::text;

mod blocks;
mod libtest_json;

use blocks::{Block, Stated};

/// Reads one run of `cargo test`.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let compiled = rust_console::parse(input, input.lines());
    for diagnostic in compiled.diagnostics {
        reading.diagnostic(diagnostic);
    }
    let mut run = blocks::parse(&input.stdout, &input.stderr);
    libtest_json::parse(&input.raw.stdout, &mut run);
    let cargo = Cargo::read(input);
    let ran = !run.blocks.is_empty();
    if !ran && !cargo.test_failed {
        read_unstarted(&mut reading, input, &compiled.bare_errors, compiled.could_not_compile);
        return reading;
    }
    let names = block_names(&run);
    let mut totals = Totals::default();
    for (block, name) in run.blocks.iter().zip(&names) {
        take_block(&mut reading, input, block, name, &mut totals);
    }
    tell_returned_error(&mut reading, input);
    judge_blocks(&mut reading, input, &run.blocks, &cargo, &totals);
    reading
}

/// Before 1.66 what a test returns as its error is printed to stderr, past the harness. Where one such line
/// stands there and one test failed by what it returned, they belong together.
fn tell_returned_error(reading: &mut Reading, input: &Input<'_>) {
    let by_return = |failure: &&mut TestFailure| {
        failure.excerpt.contains("the test returned a termination value with a non-zero status code")
    };
    let mut errors = input.stderr.lines().filter(|line| line.starts_with("Error: "));
    let (Some(error), None) = (errors.next(), errors.next()) else { return };
    let mut failures = reading.failures.iter_mut().filter(by_return);
    if let (Some(failure), None) = (failures.next(), failures.next()) {
        failure.message = text::cut(&format!("{error}\n{}", failure.message), 1_000);
    }
}

/// The blocks of a libtest-like JSON stream.
pub(super) fn libtest_blocks(stdout: &[u8]) -> blocks::Run {
    let mut run = blocks::Run::default();
    libtest_json::parse(stdout, &mut run);
    run
}

/// Adds blocks that no cargo line names to a reading.
pub(super) fn take_blocks(reading: &mut Reading, input: &Input<'_>, run: &blocks::Run) {
    let mut totals = Totals::default();
    for block in &run.blocks {
        take_block(reading, input, block, "", &mut totals);
    }
    if totals.unfinished > 0 {
        reading.open("a suite began and never gave its result");
    }
}

pub(super) use blocks::tell;

/// What cargo itself says about the run.
struct Cargo {
    /// `error: test failed, to rerun pass ..` or its like.
    test_failed: bool,
    /// `(signal: 6, SIGABRT: ..)`.
    signal: Option<String>,
    /// `(exit status: 1)` of a test binary.
    exit_status: Option<String>,
    /// Tests that a crash names on the console.
    crashed: Vec<String>,
}

impl Cargo {
    fn read(input: &Input<'_>) -> Self {
        let mut cargo = Self { test_failed: false, signal: None, exit_status: None, crashed: Vec::new() };
        for line in input.lines() {
            if line.starts_with("error: test failed")
                || line.starts_with("error: doctest failed")
                || line.starts_with("error: bench failed")
                || (line.starts_with("error: ") && line.ends_with(" failed:") && line.contains(" target"))
            {
                cargo.test_failed = true;
            } else if line.trim_start().starts_with("process didn't exit successfully") {
                let reason = line.rsplit_once('(').map(|(_, end)| end.trim_end_matches(')').to_owned());
                match reason {
                    Some(reason) if reason.starts_with("signal") => cargo.signal = Some(reason),
                    other => cargo.exit_status = other,
                }
            } else if let Some(rest) = line.strip_prefix("thread '")
                && let Some((name, rest)) = rest.split_once('\'')
                && rest.contains("has overflowed its stack")
                && cargo.crashed.len() < 100
            {
                cargo.crashed.push(name.to_owned());
            }
        }
        cargo
    }
}

#[derive(Default)]
struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
    filtered: u64,
    unfinished: usize,
}

/// No test binary ran: it did not compile, or cargo was called wrongly.
fn read_unstarted(reading: &mut Reading, input: &Input<'_>, bare: &[String], could_not_compile: bool) {
    let errors = reading.diagnostics.iter().any(|found| found.severity == Severity::Error);
    if errors || could_not_compile {
        reading.broken("the tests do not compile, so none ran");
        reading.counts = Counts { passed: Some(0), failed: Some(0), skipped: Some(0), errors: None };
    } else if !bare.is_empty() {
        for error in bare {
            reading.broken(format!("cargo: {error}"));
        }
    } else if input.lines().any(|line| line.trim_start().starts_with("Finished ")) {
        reading.executed = Executed::Nothing;
        reading.counts = Counts { passed: Some(0), failed: Some(0), skipped: Some(0), errors: Some(0) };
    }
}

/// One prefix per block: the binary that cargo named for it, or its number where the two lists do not match.
fn block_names(run: &blocks::Run) -> Vec<String> {
    let paired =
        run.blocks.iter().all(|block| block.binary.is_some()) || run.blocks.len() == run.binaries.len();
    run.blocks
        .iter()
        .enumerate()
        .map(|(number, block)| match (&block.binary, paired) {
            (Some(binary), _) => binary.clone(),
            (None, true) => run.binaries.get(number).cloned().unwrap_or_default(),
            (None, false) => format!("binary {}", number + 1),
        })
        .collect()
}

fn take_block(reading: &mut Reading, input: &Input<'_>, block: &Block, binary: &str, totals: &mut Totals) {
    match block.result {
        Some(result) => {
            totals.passed += result.passed;
            totals.failed += result.failed;
            totals.ignored += result.ignored;
            totals.filtered += result.filtered;
        }
        None => {
            totals.unfinished += 1;
            totals.passed += block.tests.values().filter(|&&state| state == Stated::Ok).count() as u64;
        }
    }
    let listed: BTreeSet<&String> = block.failed_names.iter().collect();
    let id = |name: &str| if binary.is_empty() { name.to_owned() } else { format!("{binary}::{name}") };
    for (name, &stated) in &block.tests {
        let state = match stated {
            Stated::Ok => TestState::Passed,
            Stated::Ignored => TestState::Skipped,
            Stated::Failed => TestState::Failed,
        };
        // A printed line can name a test that does not exist; the list at the end has the last word.
        let imaginary = state == TestState::Failed && !listed.is_empty() && !listed.contains(&name);
        if !imaginary {
            reading.test(&id(name), state);
        }
    }
    for name in listed {
        reading.test(&id(name), TestState::Failed);
        let story = block.story(name);
        let told = tell(story);
        let (file, line) = match told.place {
            Some((file, line)) => (Some(input.path(&file)), line),
            None => (None, None),
        };
        let file = file.or_else(|| doctest_file(name).map(|file| input.path(file)));
        reading.failure(TestFailure {
            name: name.clone(),
            file,
            line,
            message: told.message,
            excerpt: story.join("\n"),
        });
    }
}

/// The file in a doctest's name: `src/lib.rs - half (line 3)`.
fn doctest_file(name: &str) -> Option<&str> {
    let (file, rest) = name.split_once(" - ")?;
    (file.ends_with(".rs") && rest.contains("(line ")).then_some(file)
}

fn judge_blocks(reading: &mut Reading, input: &Input<'_>, blocks: &[Block], cargo: &Cargo, totals: &Totals) {
    let complete = totals.unfinished == 0;
    let liar = complete && cargo.test_failed && totals.failed == 0;
    reading.counts = Counts {
        passed: Some(totals.passed),
        failed: (complete && !liar || totals.failed > 0).then_some(totals.failed),
        skipped: complete.then_some(totals.ignored),
        errors: (complete && !liar).then_some(0),
    };
    reading.extra.insert("filtered", totals.filtered);
    if totals.failed > 0 {
        reading.failed = true;
    }
    if liar {
        reading.failed = true;
        let how = cargo.exit_status.clone().unwrap_or_default();
        reading
            .note(format!("cargo says that a test binary failed ({how}), though every result line says ok"));
    }
    if complete {
        let ran = totals.passed + totals.failed;
        reading.executed = if ran > 0 { Executed::Some } else { Executed::Nothing };
        return;
    }
    if cargo.test_failed && cargo.signal.is_some() {
        reading.failed = true;
        name_the_crash(reading, input, blocks, cargo);
    } else {
        reading.open("a test binary began and never gave its result: it was stopped or left by itself");
    }
}

/// A crash leaves no result; the test that was begun last, or that the crash names, is the one.
fn name_the_crash(reading: &mut Reading, input: &Input<'_>, blocks: &[Block], cargo: &Cargo) {
    let signal = cargo.signal.clone().unwrap_or_default();
    let begun = blocks.iter().filter(|block| block.result.is_none()).filter_map(|block| block.begun.clone());
    let names: BTreeSet<String> = cargo.crashed.iter().cloned().chain(begun).collect();
    if names.is_empty() {
        reading.note(format!("a test binary died of {signal}; which test did it is not told"));
    }
    let excerpt: String = input.stderr.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().fold(
        String::new(),
        |mut text, line| {
            text.push_str(&text::cut(line, 300));
            text.push('\n');
            text
        },
    );
    for name in names {
        reading.failure(TestFailure {
            name,
            file: None,
            line: None,
            message: format!("the test's process died: {signal}"),
            excerpt: excerpt.clone(),
        });
    }
}
