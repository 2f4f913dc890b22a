//! What Jest prints for people: suites with their marks, bullets for failures, a summary of four lines.

use jobs::verdict::{Counts, TestFailure, TestState};

use super::super::reading::{Executed, Input, Reading};
use super::super::text;

const BULLETS: usize = 2_000;
const BULLET_LINES: usize = 80;
const KEPT_TESTS: usize = 200_000;

/// The numbers of one summary.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    pub failed_suites: u64,
    passed: u64,
    failed: u64,
    skipped: u64,
    todo: u64,
    total: u64,
}

impl Summary {
    pub fn counts(&self) -> Counts {
        Counts {
            passed: Some(self.passed),
            failed: Some(self.failed),
            skipped: Some(self.skipped),
            errors: None,
        }
    }
}

/// Everything that a console says.
#[derive(Default)]
pub(super) struct Console {
    pub summary: Option<Summary>,
    pub thresholds: Vec<String>,
    pub validation: Vec<String>,
    bullets: Vec<Bullet>,
    tests: Vec<(String, TestState)>,
    no_tests: bool,
}

/// A `●` with what stands below it.
struct Bullet {
    file: String,
    title: String,
    lines: Vec<String>,
}

impl Console {
    /// Reads both streams; people's text is on stderr unless it was merged.
    pub fn read(input: &Input<'_>) -> Self {
        let mut console = Self::default();
        for stream in [&input.stdout, &input.stderr] {
            let lines: Vec<&str> = stream.lines().collect();
            let summary = lines
                .windows(3)
                .filter(|window| window[2].starts_with("Snapshots:"))
                .filter_map(|window| summary(window[0], window[1]))
                .max_by_key(|found| (found.failed_suites + found.failed, found.total));
            if summary.is_some() {
                console.summary = summary;
            }
            console.walk(&lines);
        }
        console
    }

    fn walk(&mut self, lines: &[&str]) {
        let mut file = String::new();
        let mut marks: Option<Vec<(usize, String)>> = None;
        let mut bullet: Option<Bullet> = None;
        for line in lines {
            if line.starts_with("Summary of all failing tests") {
                break;
            }
            if let Some(path) = suite_line(line) {
                self.keep(bullet.take());
                file = path;
                marks = Some(Vec::new());
                continue;
            }
            if let Some(title) = line.strip_prefix("  ● ").filter(|_| !file.is_empty()) {
                self.keep(bullet.take());
                marks = None;
                bullet = Some(Bullet { file: file.clone(), title: title.to_owned(), lines: Vec::new() });
            } else if line.starts_with("Test Suites:") || line.starts_with("PASS ") {
                self.keep(bullet.take());
            } else if let Some(bullet) = &mut bullet {
                if bullet.lines.len() < BULLET_LINES {
                    bullet.lines.push((*line).to_owned());
                }
            } else if line.trim().is_empty() {
                marks = None;
            } else if let Some(stack) = &mut marks {
                self.mark(&file, stack, line);
            }
            self.other(line);
        }
        self.keep(bullet);
    }

    fn other(&mut self, line: &str) {
        if line.starts_with("Jest: ") && line.contains("threshold") {
            if self.thresholds.len() < 20 {
                self.thresholds.push(line.to_owned());
            }
        } else if line.starts_with("● Validation Error") || line.starts_with("● Multiple configurations")
        {
            if self.validation.len() < 5 {
                self.validation.push(line.trim_start_matches('●').trim().to_owned());
            }
        } else if line.starts_with("No tests found") {
            self.no_tests = true;
        }
    }

    fn keep(&mut self, bullet: Option<Bullet>) {
        let Some(bullet) = bullet else { return };
        let other = bullet.title == "Console"
            || bullet.title.starts_with(' ')
            || bullet.title.starts_with("process.exit");
        if !other && self.bullets.len() < BULLETS {
            self.bullets.push(bullet);
        }
    }

    /// A line of the verbose tree: a title with a mark, or a group's title.
    fn mark(&mut self, file: &str, stack: &mut Vec<(usize, String)>, line: &str) {
        let words = line.trim_start();
        let depth = line.len() - words.len();
        if depth == 0 {
            return;
        }
        while stack.last().is_some_and(|(known, _)| *known >= depth) {
            stack.pop();
        }
        let (state, title) = match words.split_once(' ') {
            Some(("✓" | "√", title)) => (TestState::Passed, title),
            Some(("✕" | "×", title)) => (TestState::Failed, title),
            Some(("○", title)) => (TestState::Skipped, title.strip_prefix("skipped ").unwrap_or(title)),
            Some(("✎", title)) => (TestState::Skipped, title.strip_prefix("todo ").unwrap_or(title)),
            Some(_) | None => {
                if stack.len() < 50 {
                    stack.push((depth, words.to_owned()));
                }
                return;
            }
        };
        let mut name = String::new();
        for (_, group) in stack.iter() {
            name.push_str(group);
            name.push_str(" › ");
        }
        name.push_str(without_time(title));
        if self.tests.len() < KEPT_TESTS {
            self.tests.push((format!("{file}::{name}"), state));
        }
    }

    /// Makes a reading of the console alone.
    pub fn fill(&self, reading: &mut Reading, input: &Input<'_>) {
        for (id, state) in &self.tests {
            reading.distinct_test(id, *state);
        }
        let mut broken_suites = 0;
        for bullet in &self.bullets {
            let body = bullet.lines.join("\n");
            if bullet.title == "Test suite failed to run" {
                broken_suites += 1;
                let file = input.path(&bullet.file);
                reading.failure(super::suite_failure(&file, &body));
                continue;
            }
            let file = input.path(&bullet.file);
            if self.tests.is_empty() {
                reading.test(&format!("{}::{}", bullet.file, bullet.title), TestState::Failed);
            }
            reading.failure(TestFailure {
                name: bullet.title.clone(),
                line: super::frame_in(&body, &file),
                file: Some(file),
                message: before_picture(&bullet.lines),
                excerpt: body,
            });
        }
        let Some(summary) = &self.summary else {
            if self.no_tests {
                reading.executed = Executed::Nothing;
                reading.counts =
                    Counts { passed: Some(0), failed: Some(0), skipped: Some(0), errors: Some(0) };
            } else if !self.validation.is_empty() {
                reading.counts = Counts { passed: Some(0), failed: Some(0), skipped: Some(0), errors: None };
            } else {
                reading.open("Jest printed no summary");
            }
            return;
        };
        reading.counts = Counts { errors: Some(broken_suites), ..summary.counts() };
        if summary.todo > 0 {
            reading.extra.insert("todo", summary.todo);
        }
        if summary.failed_suites > 0 && summary.failed == 0 && broken_suites == 0 {
            reading.broken("suites failed though no test did");
        }
        let ran = summary.passed + summary.failed;
        reading.executed = if ran > 0 { Executed::Some } else { Executed::Nothing };
    }
}

/// The words of a failure before the picture of the code and the stack.
fn before_picture(lines: &[String]) -> String {
    let words: Vec<&str> = lines
        .iter()
        .map(|line| line.trim())
        .take_while(|line| !line.starts_with("at ") && !line.starts_with("> ") && !is_picture(line))
        .filter(|line| !line.is_empty())
        .take(12)
        .collect();
    words.join("\n")
}

fn is_picture(line: &str) -> bool {
    let (number, rest) = text::leading_number(line);
    number.is_some() && rest.starts_with(" |")
}

/// The path of `FAIL name path (1.2 s)`.
fn suite_line(line: &str) -> Option<String> {
    let line = if line.starts_with(' ') { line.strip_prefix(' ')? } else { line };
    let rest = line.strip_prefix("FAIL ").or_else(|| line.strip_prefix("PASS "))?;
    let rest = without_time(rest.trim());
    let path = if rest.contains(' ') && !rest.contains('/') {
        rest
    } else {
        rest.rsplit(' ').next().unwrap_or(rest)
    };
    (path.contains('.')).then(|| path.to_owned())
}

/// A title without ` (3 ms)` or ` (1.2 s)` at its end.
fn without_time(title: &str) -> &str {
    let timed = title.rsplit_once(" (").filter(|(_, end)| {
        end.strip_suffix(" ms)").or_else(|| end.strip_suffix(" s)")).is_some_and(|time| {
            !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    });
    timed.map_or(title, |(title, _)| title).trim_end()
}

/// `Test Suites: ..` with the `Tests: ..` line after it.
fn summary(suites: &str, tests: &str) -> Option<Summary> {
    let suites = suites.strip_prefix("Test Suites:")?;
    let tests = tests.strip_prefix("Tests:")?;
    let mut found = Summary::default();
    for (count, word) in numbers(suites) {
        if word == "failed" {
            found.failed_suites = count;
        }
    }
    for (count, word) in numbers(tests) {
        match word {
            "failed" => found.failed = count,
            "passed" => found.passed = count,
            "skipped" => found.skipped = count,
            "todo" => found.todo = count,
            "total" => found.total = count,
            _ => {}
        }
    }
    Some(found)
}

fn numbers(list: &str) -> impl Iterator<Item = (u64, &str)> {
    list.split(", ").filter_map(|part| {
        let (count, word) = text::leading_count(part.trim());
        Some((count?, word.trim().split(' ').next()?))
    })
}
