//! Cutting the output of test binaries into blocks, each from `running N tests` to its result line.

use std::collections::BTreeMap;

use crate::reports::text;

/// Lines of one test's captured output that are kept for its excerpt.
const STORY_LINES: usize = 60;
const KEPT_TESTS: usize = 200_000;

/// What a status word says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stated {
    Ok,
    Ignored,
    Failed,
}

/// The numbers of one `test result:` line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    pub ok: Stated,
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
    pub measured: u64,
    pub filtered: u64,
}

impl Outcome {
    fn total(&self) -> u64 {
        self.passed.saturating_add(self.failed).saturating_add(self.ignored).saturating_add(self.measured)
    }
}

/// One test binary's output.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub announced: u64,
    pub result: Option<Outcome>,
    pub tests: BTreeMap<String, Stated>,
    pub failed_names: Vec<String>,
    /// `test name ... ` without a status word: the test that was running.
    pub begun: Option<String>,
    /// The binary, where cargo named it on the same stream.
    pub binary: Option<String>,
    pub stories: BTreeMap<String, Vec<String>>,
}

impl Block {
    /// Message, excerpt and place of a failing test, from what was captured of it.
    pub fn story(&self, name: &str) -> (String, String, Option<(String, Option<u32>)>) {
        let empty = Vec::new();
        let lines = self.stories.get(name).unwrap_or(&empty);
        let place = lines.iter().enumerate().find_map(|(at, line)| panic_place(lines, at, line));
        let (message, place) = match place {
            Some((message, file, line)) => (message, Some((file, line))),
            None => {
                let line = lines.iter().find(|line| !line.trim().is_empty() && !line.starts_with("stderr:"));
                (line.map(|line| line.trim().to_owned()).unwrap_or_default(), None)
            }
        };
        let substring =
            lines.iter().find(|line| line.starts_with("note: panic did not contain expected string"));
        let message = match substring {
            Some(note) => format!("{message}\n{note}"),
            None => message,
        };
        (message, lines.join("\n"), place)
    }

    pub fn add_story(&mut self, name: &str, lines: Vec<String>) {
        if self.stories.len() < 1_000 {
            self.stories.entry(name.to_owned()).or_default().extend(lines);
        }
    }

    pub fn state(&mut self, name: &str, stated: Stated) {
        if self.tests.len() < KEPT_TESTS || self.tests.contains_key(name) {
            let known = self.tests.entry(name.to_owned()).or_insert(stated);
            *known = (*known).max(stated);
        }
    }
}

/// Message, file and line of a panic that the line announces, in the wording of before and after 1.73.
fn panic_place(lines: &[String], at: usize, line: &str) -> Option<(String, String, Option<u32>)> {
    if let Some(rest) = line.strip_prefix("note: test did not panic as expected at ") {
        let place = text::position(rest)?;
        return Some((line.to_owned(), place.path.to_owned(), Some(place.line)));
    }
    if line.starts_with("note: test did not panic as expected") {
        return Some((line.to_owned(), String::new(), None)).filter(|(_, file, _)| !file.is_empty());
    }
    let start = line.find("thread '")?;
    let (_, rest) = line[start..].split_once(" panicked at ")?;
    if let Some(quoted) = rest.strip_prefix('\'') {
        let (message, place) = quoted.rsplit_once("', ")?;
        let place = text::position(place)?;
        return Some((message.to_owned(), place.path.to_owned(), Some(place.line)));
    }
    let place = text::position(rest)?;
    let message = lines[at + 1..]
        .iter()
        .take(12)
        .take_while(|line| !line.starts_with("note: ") && !line.starts_with("stack backtrace:"))
        .map(|line| line.trim_end())
        .collect::<Vec<_>>()
        .join("\n");
    Some((message, place.path.to_owned(), Some(place.line)))
}

/// Everything that the test binaries printed.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub blocks: Vec<Block>,
    /// The binaries that cargo names on stderr, in order.
    pub binaries: Vec<String>,
}

/// Where in a block a line stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Tests,
    Story(String),
    Names,
}

/// Cuts both streams; stderr is read for the names of binaries alone.
pub(super) fn parse(stdout: &str, stderr: &str) -> Run {
    let mut run = Run::default();
    let mut cutter = Cutter { binary: None, place: Place::Tests, failures_seen: false };
    for line in stdout.lines() {
        cutter.line(&mut run, line);
    }
    run.binaries.extend(stderr.lines().filter_map(binary_name));
    run
}

struct Cutter {
    binary: Option<String>,
    place: Place,
    failures_seen: bool,
}

impl Cutter {
    fn line(&mut self, run: &mut Run, line: &str) {
        if let Some(binary) = binary_name(line) {
            self.binary = Some(binary.clone());
            run.binaries.push(binary);
            return;
        }
        let open = run.blocks.last().is_some_and(|block| block.result.is_none());
        if let Some(announced) = announced(line) {
            // While a block is open only a new binary's name on the same stream makes this a header.
            let fresh =
                self.binary.is_some() && run.blocks.last().is_none_or(|block| block.binary != self.binary);
            if !open || fresh {
                run.blocks.push(Block { announced, binary: self.binary.clone(), ..Block::default() });
                self.place = Place::Tests;
                self.failures_seen = false;
                return;
            }
        }
        let Some(block) = run.blocks.last_mut() else { return };
        if let Some(outcome) = outcome(line) {
            if outcome.total() == block.announced {
                let worse = block.result.is_none_or(|known| outcome.failed > known.failed);
                if worse {
                    block.result = Some(outcome);
                }
                self.place = Place::Tests;
                return;
            }
        }
        self.inside(block, line);
    }

    fn inside(&mut self, block: &mut Block, line: &str) {
        if line == "failures:" || line == "successes:" {
            self.place = if self.failures_seen || line == "successes:" { Place::Names } else { Place::Tests };
            if line == "failures:" {
                // The names come after the stories; a printed list before them is replaced by the real one.
                self.failures_seen = true;
                self.place = Place::Names;
                block.failed_names.clear();
            } else {
                self.place = Place::Tests;
            }
            return;
        }
        if let Some(name) = story_header(line) {
            self.place = Place::Story(name.to_owned());
            return;
        }
        match &self.place {
            Place::Story(name) => {
                let name = name.clone();
                let story = block.stories.entry(name).or_default();
                if story.len() < STORY_LINES {
                    story.push(line.to_owned());
                }
            }
            Place::Names => {
                if let Some(name) = line.strip_prefix("    ").filter(|name| !name.starts_with(' ')) {
                    if block.failed_names.len() < 100_000 {
                        block.failed_names.push(name.to_owned());
                    }
                }
            }
            Place::Tests => test_line(block, line),
        }
    }
}

/// `test name ... status`.
fn test_line(block: &mut Block, line: &str) {
    if let Some(rest) = line.strip_prefix("thread '").or_else(|| line.trim_start().strip_prefix("thread '")) {
        // Uncaptured panics are told as they happen; they are kept for the tests that they name.
        if let Some((name, _)) = rest.split_once('\'') {
            block.add_story(name, vec![line.to_owned()]);
            block.begun = block.begun.take();
        }
        return;
    }
    let Some(rest) = line.strip_prefix("test ") else { return };
    let Some((name, status)) =
        rest.rsplit_once(" ... ").or_else(|| rest.strip_suffix(" ...").map(|name| (name, "")))
    else {
        return;
    };
    let name = name
        .strip_suffix(" - should panic")
        .or_else(|| name.strip_suffix(" - compile fail"))
        .or_else(|| name.strip_suffix(" - compile"))
        .unwrap_or(name);
    let word = status.split([' ', ',']).next().unwrap_or_default();
    match word {
        "ok" => block.state(name, Stated::Ok),
        "FAILED" => block.state(name, Stated::Failed),
        "ignored" => block.state(name, Stated::Ignored),
        "" => block.begun = Some(name.to_owned()),
        _ => {}
    }
}

/// N of `running N tests`.
fn announced(line: &str) -> Option<u64> {
    let (count, rest) = text::leading_count(line.strip_prefix("running ")?);
    matches!(rest, " test" | " tests").then_some(count?)
}

/// The numbers of `test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; ..`.
fn outcome(line: &str) -> Option<Outcome> {
    let rest = line.strip_prefix("test result: ")?;
    let (word, rest) = rest.split_once(". ")?;
    let ok = match word {
        "ok" => Stated::Ok,
        "FAILED" => Stated::Failed,
        _ => return None,
    };
    let mut numbers = [None::<u64>; 5];
    for part in rest.split("; ") {
        let (count, what) = text::leading_count(part.trim());
        let slot = match what.trim() {
            "passed" => 0,
            "failed" => 1,
            "ignored" => 2,
            "measured" => 3,
            "filtered out" => 4,
            _ => continue,
        };
        numbers[slot] = count;
    }
    let [Some(passed), Some(failed), Some(ignored), Some(measured), filtered] = numbers else { return None };
    let outcome = Outcome { ok, passed, failed, ignored, measured, filtered: filtered.unwrap_or_default() };
    // The word and the numbers must say the same.
    ((ok == Stated::Failed) == (failed > 0)).then_some(outcome)
}

/// The test that `---- name stdout ----` is about.
fn story_header(line: &str) -> Option<&str> {
    let inner = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    inner.strip_suffix(" stdout").or_else(|| inner.strip_suffix(" stderr"))
}

/// A stable name of the binary that cargo says it runs.
fn binary_name(line: &str) -> Option<String> {
    let trimmed = line.trim_start();
    if trimmed.len() == line.len() {
        return None;
    }
    if let Some(name) = trimmed.strip_prefix("Doc-tests ") {
        return Some(format!("{} (doc)", name.trim()));
    }
    let rest = trimmed.strip_prefix("Running ")?;
    let (source, executable) = match rest.rsplit_once(" (") {
        Some((source, executable)) => (source, executable.trim_end_matches(')')),
        None => ("", rest),
    };
    if !executable.contains('/') && !executable.contains('\\') {
        return None;
    }
    let file = text::base_name(executable.trim().trim_matches('`'));
    let stem = file.strip_suffix(".exe").unwrap_or(file);
    let name = stem.rsplit_once('-').map_or(stem, |(name, _)| name);
    let source = source.strip_prefix("unittests ").unwrap_or(source);
    Some(if source.is_empty() { name.to_owned() } else { format!("{name} ({source})") })
}
