//! nextest's own lines: a status word, a time in brackets, a binary and a test.

use std::collections::BTreeMap;

use jobs::verdict::{Counts, TestState};

use super::super::reading::{Input, Reading};
use super::super::text;

const KEPT: usize = 200_000;
const STORY_LINES: usize = 120;

/// `10 tests run: 3 passed (1 flaky), 7 failed, 2 skipped`.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    run: u64,
    planned: Option<u64>,
    passed: u64,
    failed: u64,
    flaky: u64,
    skipped: u64,
}

impl Summary {
    pub fn counts(&self) -> Counts {
        Counts {
            passed: Some(self.passed),
            failed: Some(self.failed),
            skipped: Some(self.skipped),
            errors: Some(0),
        }
    }

    /// What a reader should know beside the counts.
    pub fn notes(&self, reading: &mut Reading) {
        if self.flaky > 0 {
            reading.extra.insert("flaky", self.flaky);
            reading.note(format!("{} tests passed only after a retry", self.flaky));
        }
        if let Some(planned) = self.planned.filter(|planned| *planned > self.run) {
            reading.open(format!("{} of {planned} tests were run", self.run));
        }
    }
}

/// Everything that the console says.
#[derive(Default)]
pub(super) struct Console {
    pub summary: Option<Summary>,
    tests: BTreeMap<(String, String), TestState>,
    /// Status words other than `FAIL`: a signal, a timeout.
    words: BTreeMap<(String, String), String>,
    stories: BTreeMap<(String, String), Vec<String>>,
    /// What libtest tells of a test by its name alone, on the stream that nextest does not write to.
    loose: BTreeMap<String, Vec<String>>,
}

impl Console {
    /// Reads both streams; nextest writes to stderr unless it was merged.
    pub fn read(input: &Input<'_>) -> Self {
        let mut console = Self::default();
        for stream in [&input.stdout, &input.stderr] {
            console.stream(stream);
        }
        console
    }

    fn stream(&mut self, stream: &str) {
        let mut current: Option<(String, String)> = None;
        let mut after_summary = false;
        let mut loose: Option<&str> = None;
        for line in stream.lines() {
            if current.is_none() {
                self.loose_line(&mut loose, line);
            }
            if let Some(summary) = summary(line) {
                // What tests print is indented by four; the real line by five, and it is the last.
                self.summary = Some(summary);
                after_summary = true;
                current = None;
                continue;
            }
            if let Some((status, word, key)) = status_line(line) {
                let settled = after_summary || !matches!(status, Status::Try);
                if let Some(state) = status.state().filter(|_| settled) {
                    self.note_test(&key, state);
                }
                if status.failing() && word != "FAIL" && !word.ends_with(" FAIL") && self.words.len() < 2_000
                {
                    self.words.insert(key.clone(), word.to_owned());
                }
                // Without capture the output stands before the status, after `START`.
                current = status.tells().then_some(key).filter(|_| !after_summary);
                continue;
            }
            if let Some(key) = &current
                && (self.stories.len() < 2_000 || self.stories.contains_key(key))
            {
                let story = self.stories.entry(key.clone()).or_default();
                if story.len() < STORY_LINES {
                    let line = line.strip_prefix("    ").unwrap_or(line);
                    story.push(text::cut(line, 2_000));
                }
            }
        }
    }

    fn loose_line<'l>(&mut self, open: &mut Option<&'l str>, line: &'l str) {
        let header =
            line.trim_start().strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if header.is_some() {
            *open = header;
        } else if line.is_empty() {
            *open = None;
        } else if let Some(name) = open
            && (self.loose.len() < 2_000 || self.loose.contains_key(*name))
        {
            let story = self.loose.entry((*name).to_owned()).or_default();
            if story.len() < STORY_LINES {
                story.push(text::cut(line, 2_000));
            }
        }
    }

    fn note_test(&mut self, key: &(String, String), state: TestState) {
        if self.tests.len() < KEPT || self.tests.contains_key(key) {
            self.tests.insert(key.clone(), state);
        }
    }

    /// Makes a reading of the console alone.
    pub fn fill(&self, reading: &mut Reading, input: &Input<'_>) {
        for ((binary, name), state) in &self.tests {
            reading.test(&format!("{binary}::{name}"), *state);
            if *state == TestState::Failed {
                let mut story =
                    self.stories.get(&(binary.clone(), name.clone())).cloned().unwrap_or_default();
                story.extend(self.loose.get(name).cloned().unwrap_or_default());
                let mut failure = super::failure(input, name, &story, "the test failed");
                if let Some(word) = self.words.get(&(binary.clone(), name.clone())) {
                    failure.message = format!("{word}: {}", failure.message);
                }
                reading.failure(failure);
            }
        }
        match &self.summary {
            Some(summary) => reading.counts = summary.counts(),
            None => {
                if !self.tests.is_empty() {
                    reading.open("nextest printed no summary");
                    reading.counts.passed = Some(reading.count_of(&[TestState::Passed]));
                }
            }
        }
    }
}

/// What a status word means.
#[derive(Clone, Copy)]
enum Status {
    Passed,
    Failed,
    /// A try after which another may follow.
    Try,
    /// It begins now, and its output follows.
    Start,
    /// Still running, or only told.
    Told,
}

impl Status {
    fn state(self) -> Option<TestState> {
        match self {
            Status::Passed => Some(TestState::Passed),
            Status::Failed | Status::Try => Some(TestState::Failed),
            Status::Start | Status::Told => None,
        }
    }

    fn failing(self) -> bool {
        match self {
            Status::Failed | Status::Try => true,
            Status::Passed | Status::Start | Status::Told => false,
        }
    }

    fn tells(self) -> bool {
        match self {
            Status::Failed | Status::Try | Status::Start => true,
            Status::Passed | Status::Told => false,
        }
    }
}

/// `FAIL [   0.007s] ( 1/10) many tests::eq_fails`.
fn status_line(line: &str) -> Option<(Status, &str, (String, String))> {
    let (word, rest) = line.split_once(" [")?;
    if !word.starts_with(' ') {
        return None;
    }
    let word = word.trim();
    let status = match word {
        "PASS" | "LEAK" => Status::Passed,
        "FAIL" | "TIMEOUT" | "ABORT" | "LEAK-FAIL" | "EXECFAIL" | "XFAIL" | "FAIL + LEAK" | "FL+LK" => {
            Status::Failed
        }
        _ if word.starts_with("SIG") || word.starts_with("ABORT") => Status::Failed,
        "START" => Status::Start,
        "SLOW" | "TERMINATING" | "TRMNTG" | "RETRY" | "SKIP" | "KILLING" | "DELAY" => Status::Told,
        _ if word.starts_with("FLAKY ") => Status::Passed,
        _ if word.starts_with("TRY ") => match word.rsplit(' ').next().unwrap_or_default() {
            "PASS" | "LEAK" => Status::Passed,
            "SLOW" | "TERMINATING" | "TRMNTG" => Status::Told,
            _ => Status::Try,
        },
        _ => return None,
    };
    let (time, rest) = rest.split_once(']')?;
    if !time.trim_end().ends_with('s') && !matches!(status, Status::Start) {
        return None;
    }
    let mut rest = rest.trim_start();
    if let Some(inner) = rest.strip_prefix('(') {
        rest = inner.split_once(')')?.1.trim_start();
    }
    let (binary, name) = rest.split_once(' ')?;
    Some((status, word, (binary.to_owned(), name.trim().to_owned())))
}

/// `     Summary [   0.038s] 10 tests run: 3 passed, 7 failed, 2 skipped`.
fn summary(line: &str) -> Option<Summary> {
    let rest = line.strip_prefix("     Summary [")?;
    let rest = rest.split_once(']')?.1.trim_start();
    let (head, list) = rest.split_once(" run: ")?;
    let (run, head) = text::leading_count(head);
    let mut summary = Summary { run: run?, ..Summary::default() };
    if let Some(planned) = head.strip_prefix('/') {
        summary.planned = text::leading_count(planned).0;
    }
    // `1 passed (1 flaky), 1 failed (1 due to being leaky)`: what is in brackets is part of the number before it.
    for part in list.split(['(', ',']) {
        let (count, word) = text::leading_count(part.trim());
        let Some(count) = count else { continue };
        match word.trim().trim_end_matches(')') {
            "passed" => summary.passed = count,
            "failed" | "timed out" | "exec failed" => summary.failed += count,
            "skipped" => summary.skipped = count,
            "flaky" => summary.flaky = count,
            _ => {}
        }
    }
    Some(summary)
}
