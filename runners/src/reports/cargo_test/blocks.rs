//! Cutting the output of test binaries into blocks, each from `running N tests` to its result line.

use std::collections::BTreeMap;

use crate::reports::text;

/// Lines of one test's captured output that are kept for its excerpt.
const STORY_LINES: usize = 60;
const STORY_LINE_BYTES: usize = 2_000;
const STORIES: usize = 1_000;
const KEPT_TESTS: usize = 200_000;

/// What a status word says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::reports) enum Stated {
    Ok,
    Ignored,
    Failed,
}

/// The numbers of one `test result:` line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::reports) struct Outcome {
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
pub(in crate::reports) struct Block {
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
    /// What was captured of a failing test.
    pub fn story(&self, name: &str) -> &[String] {
        self.stories.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn add_story(&mut self, name: &str, line: &str) {
        if self.stories.len() >= STORIES && !self.stories.contains_key(name) {
            return;
        }
        let story = self.stories.entry(name.to_owned()).or_default();
        if story.len() < STORY_LINES {
            story.push(text::cut(line, STORY_LINE_BYTES));
        }
    }

    pub fn state(&mut self, name: &str, stated: Stated) {
        if self.tests.len() < KEPT_TESTS || self.tests.contains_key(name) {
            let known = self.tests.entry(name.to_owned()).or_insert(stated);
            *known = (*known).max(stated);
        }
    }
}

/// Message and place of a failure.
pub(in crate::reports) struct Told {
    pub message: String,
    pub place: Option<(String, Option<u32>)>,
}

/// What a failing test's output says of its end.
pub(in crate::reports) fn tell(lines: &[String]) -> Told {
    let panic = lines.iter().enumerate().find_map(|(at, line)| panic_place(lines, at, line));
    let (message, place) = match panic {
        Some((message, file, line)) => (message, Some((file, line))),
        None => {
            let line = lines.iter().find(|line| line.starts_with("Error: ")).or_else(|| {
                lines.iter().find(|line| !line.trim().is_empty() && !line.starts_with("stderr:"))
            });
            (line.map(|line| line.trim().to_owned()).unwrap_or_default(), None)
        }
    };
    let unexpected =
        lines.iter().find(|line| line.starts_with("note: panic did not contain expected string"));
    let message = match unexpected {
        Some(note) if !message.starts_with(note.as_str()) => format!("{message}\n{note}"),
        Some(_) | None => message,
    };
    Told { message, place }
}

/// Message, file and line of a panic that the line announces, in the wording of before and after 1.73.
fn panic_place(lines: &[String], at: usize, line: &str) -> Option<(String, String, Option<u32>)> {
    if let Some(rest) = line.strip_prefix("note: test did not panic as expected at ") {
        let place = text::position(rest)?;
        return Some((line.to_owned(), place.path.to_owned(), Some(place.line)));
    }
    let start = line.find("thread '")?;
    let (_, rest) = line[start..].split_once(" panicked at ")?;
    let (message, place) = match rest.strip_prefix('\'') {
        Some(quoted) => quoted_panic(quoted, &lines[at + 1..])?,
        None => {
            let message = lines[at + 1..]
                .iter()
                .take(12)
                .take_while(|line| !line.starts_with("note: ") && !line.starts_with("stack backtrace:"))
                .map(|line| line.trim_end())
                .collect::<Vec<_>>()
                .join("\n");
            (message, text::position(rest)?)
        }
    };
    // A panic inside the test harness says nothing about the test's own place.
    let own = !place.path.starts_with("/rustc/") && !place.path.contains("/library/test/");
    own.then(|| (message, place.path.to_owned(), Some(place.line)))
}

/// `message', path:line:column`, the message perhaps over several lines.
fn quoted_panic<'l>(first: &'l str, more: &'l [String]) -> Option<(String, text::Position<'l>)> {
    let mut message = String::new();
    for line in std::iter::once(first).chain(more.iter().take(40).map(String::as_str)) {
        if let Some((end, place)) = line.rsplit_once("', ")
            && let Some(place) = text::position(place)
        {
            message.push_str(end);
            return Some((message, place));
        }
        message.push_str(line);
        message.push('\n');
    }
    None
}

/// Everything that the test binaries printed.
#[derive(Debug, Default)]
pub(in crate::reports) struct Run {
    pub blocks: Vec<Block>,
    /// The binaries that cargo names on stderr, in order.
    pub binaries: Vec<String>,
}

/// Cuts both streams; stderr is read for the names of binaries alone.
pub(super) fn parse(stdout: &str, stderr: &str) -> Run {
    let mut run = Run::default();
    let lines: Vec<&str> = stdout.lines().collect();
    let mut binary = None;
    let mut start = 0;
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = binary_name(line) {
            binary = Some(name.clone());
            run.binaries.push(name);
            continue;
        }
        let open = run.blocks.last().is_some_and(|block| block.result.is_none());
        if let Some(announced) = announced(line) {
            // While a block is open only a new binary's name on the same stream makes this a header.
            let fresh = binary.is_some() && run.blocks.last().is_none_or(|block| block.binary != binary);
            if !open || fresh {
                finish(&mut run, &lines[start..at]);
                start = at + 1;
                run.blocks.push(Block { announced, binary: binary.clone(), ..Block::default() });
                continue;
            }
        }
        let Some(block) = run.blocks.last_mut() else { continue };
        if let Some(outcome) = outcome(line) {
            let worse = block.result.is_none_or(|known| outcome.failed > known.failed);
            if outcome.total() == block.announced && worse {
                block.result = Some(outcome);
            }
        }
    }
    finish(&mut run, &lines[start..]);
    run.binaries.extend(stderr.lines().filter_map(binary_name));
    run
}

/// Reads the lines of the last block: statuses, then stories, then the names of what failed.
fn finish(run: &mut Run, lines: &[&str]) {
    let Some(block) = run.blocks.last_mut() else { return };
    // A test can print `failures:` as well; the real list is the last.
    let names = lines.iter().rposition(|line| *line == "failures:");
    if let Some(names) = names {
        let listed = lines[names + 1..].iter().map_while(|line| {
            line.strip_prefix("    ").filter(|name| !name.starts_with(' ') && !name.is_empty())
        });
        block.failed_names = listed.take(KEPT_TESTS).map(str::to_owned).collect();
    }
    let told = &lines[..names.unwrap_or(lines.len())];
    let first_story = told.iter().position(|line| story_header(line).is_some()).unwrap_or(told.len());
    statuses(block, &told[..first_story]);
    let mut story: Option<&str> = None;
    for line in &told[first_story..] {
        match (story_header(line), story) {
            (Some(name), _) => story = Some(name),
            (None, Some(name)) => block.add_story(name, line),
            (None, None) => {}
        }
    }
}

/// The lines before the stories: statuses, and whatever tests print uncaptured.
fn statuses(block: &mut Block, lines: &[&str]) {
    let mut panicking: Option<&str> = None;
    let mut error: Option<&str> = None;
    for line in lines {
        let status = line.starts_with("test ");
        if let Some(rest) = line.strip_prefix("thread '") {
            panicking = rest.split_once('\'').map(|(name, _)| name);
        } else if line.is_empty() || status {
            panicking = None;
        }
        if let Some(name) = panicking {
            block.add_story(name, line);
        } else if line.starts_with("Error: ") {
            error = Some(line);
        }
        if status {
            test_line(block, line, &mut error);
        }
    }
}

/// `test name ... status`, with the error that was printed just before it.
fn test_line(block: &mut Block, line: &str, error: &mut Option<&str>) {
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
        "FAILED" => {
            block.state(name, Stated::Failed);
            if !block.stories.contains_key(name)
                && let Some(error) = error.take()
            {
                block.add_story(name, error);
            }
        }
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
