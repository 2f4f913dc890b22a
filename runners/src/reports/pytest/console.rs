//! What pytest prints: the summary line, the short summary, the sections of failures, verbose lines, banners.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jobs::verdict::{Counts, TestFailure, TestState};

use super::super::junit;
use super::super::reading::Input;
use super::super::text;

mod summary;

pub(super) use summary::Summary;

const KEPT: usize = 100_000;
const SECTION_LINES: usize = 200;

/// Everything that a console says.
#[derive(Default)]
pub(super) struct Console {
    pub summary: Option<Summary>,
    pub tests: BTreeMap<String, TestState>,
    pub failures: Vec<TestFailure>,
    /// Files that lines name, for turning dotted names back into paths.
    pub files: BTreeSet<String>,
    /// What stands between `!!!` and `!!!`.
    pub banners: Vec<String>,
    /// Tests to run, by the `collected` line.
    pub selected: Option<u64>,
    pub coverage_gate: Option<String>,
    /// A test that verbose output began and did not end.
    begun: Option<String>,
    progress: BTreeMap<char, u64>,
    /// `path:line: message` of `--tb=line`.
    line_places: Vec<(String, u32, String)>,
}

/// One `FAILED` or `ERROR` line of the short summary.
struct Short {
    id: String,
    message: String,
    state: TestState,
}

/// One section of tracebacks, by its title.
struct Section {
    title: String,
    lines: Vec<String>,
}

impl Console {
    /// Reads stdout; pytest writes nothing of this to stderr.
    pub fn read(input: &Input<'_>) -> Self {
        let mut console = Self::default();
        let lines: Vec<&str> = input.stdout.lines().collect();
        console.summary = summary::find(&lines);
        let shorts = console.short_summary(&lines);
        let mut sections = sections(&lines);
        for line in &lines {
            console.line(line);
        }
        for short in &shorts {
            console.tests.insert(short.id.clone(), short.state);
            if let Some(file) = short.id.split("::").next() {
                console.files.insert(file.to_owned());
            }
        }
        console.failures = shorts
            .into_iter()
            .filter(|short| matches!(short.state, TestState::Failed | TestState::Errored))
            .map(|short| failure(short, &mut sections))
            .collect();
        console
    }

    fn line(&mut self, line: &str) {
        if self.selected.is_none() {
            self.selected = summary::selected(line);
        }
        if let Some(inner) = line.strip_prefix("!!!").and_then(|rest| rest.strip_suffix("!!!")) {
            let words = inner.trim_matches('!').trim();
            if !words.is_empty() && self.banners.len() < 20 {
                self.banners.push(words.to_owned());
            }
        } else if line.starts_with("INTERNALERROR>") {
            if self.banners.is_empty() {
                self.banners.push("internal error".to_owned());
            }
        } else if (line.starts_with("FAIL Required test coverage")
            || line.starts_with("ERROR: Coverage failure"))
            && self.coverage_gate.is_none()
        {
            self.coverage_gate = Some(text::cut(line, 300));
        } else {
            self.verbose_line(line);
            if line.starts_with('/')
                && self.line_places.len() < 1_000
                && let Some((at, words)) =
                    text::position(line).and_then(|at| Some((at, at.rest.strip_prefix(": ")?)))
            {
                self.line_places.push((at.path.to_owned(), at.line, words.to_owned()));
            }
        }
    }

    /// `path::test STATUS [ 33%]`, or with xdist `[gw0] [ 33%] STATUS path::test`.
    fn verbose_line(&mut self, line: &str) {
        if self.tests.len() >= KEPT {
            return;
        }
        if line.starts_with("[gw") {
            let Some((_, rest)) = line.split_once("%] ") else { return };
            let Some((word, id)) = rest.split_once(' ') else { return };
            if let (Some(state), true) = (status(word), id.contains(".py")) {
                self.tests.insert(id.trim_end().to_owned(), state);
            }
            return;
        }
        let Some((file, _)) = line.split_once(".py") else { return };
        if file.contains(['"', '\'', '(', '>']) || file.starts_with(' ') {
            return;
        }
        if line[file.len()..].starts_with(".py::") {
            self.files.insert(format!("{file}.py"));
            for word in ["PASSED", "FAILED", "SKIPPED", "XFAIL", "XPASS", "ERROR", "RERUN"] {
                let Some((id, after)) = line.rsplit_once(&format!(" {word}")) else { continue };
                let trimmed = after.trim_start();
                if trimmed.is_empty() || trimmed.starts_with(['[', '(']) {
                    if let Some(state) = status(word) {
                        self.tests.insert(id.trim_end().to_owned(), state);
                    }
                    self.begun = None;
                    return;
                }
            }
            let id = line.trim_end();
            if !id.contains(" - ") && !id.contains(": ") {
                self.begun = Some(id.to_owned());
            }
        } else if let Some(letters) = line[file.len()..].strip_prefix(".py ") {
            self.files.insert(format!("{file}.py"));
            let letters = letters.split(['[', '+', '~']).next().unwrap_or_default().trim();
            if letters.chars().all(|letter| ".FEsxXR".contains(letter)) {
                for letter in letters.chars() {
                    *self.progress.entry(letter).or_default() += 1;
                }
            }
        }
    }

    /// The last short summary: its header, then `FAILED id - message` lines up to the summary line.
    fn short_summary(&self, lines: &[&str]) -> Vec<Short> {
        let end = self.summary.as_ref().map_or(lines.len(), |summary| summary.at);
        let start = lines[..end]
            .iter()
            .rposition(|line| line.starts_with('=') && line.contains(" short test summary info "));
        // Without a header (`-q` shows one too, but a cut output may not) nothing is named.
        let Some(start) = start else { return Vec::new() };
        lines[start + 1..end].iter().filter_map(|line| short(line)).take(KEPT).collect()
    }

    /// Counts from verbose lines or progress letters, for an output that has no summary.
    pub fn progress_counts(&self) -> Counts {
        let of = |letter: char, state: TestState| {
            let named = self.tests.values().filter(|&&known| known == state).count() as u64;
            Some(named.max(self.progress.get(&letter).copied().unwrap_or_default()))
        };
        if self.tests.is_empty() && self.progress.is_empty() {
            return Counts::default();
        }
        Counts {
            passed: of('.', TestState::Passed),
            failed: of('F', TestState::Failed),
            skipped: of('s', TestState::Skipped),
            errors: of('E', TestState::Errored),
        }
    }

    /// The line that `--tb=line` gives a failure, by its file and the first line of its message.
    pub fn line_style_place(&self, id: &str, message: &str) -> Option<u32> {
        let file = id.split("::").next()?;
        let first = message.lines().next()?;
        self.line_places.iter().find_map(|(path, line, words)| {
            (path.ends_with(file) && (first.starts_with(words) || words.starts_with(first))).then_some(*line)
        })
    }

    /// The test that was running when the process died, where that can be told.
    pub fn crash(&self, input: &Input<'_>) -> Option<TestFailure> {
        let by_signal = input.crashed();
        let lines: Vec<&str> = input.lines().collect();
        let fatal = lines.iter().position(|line| line.starts_with("Fatal Python error: "));
        let timeout = lines.iter().position(|line| {
            line.trim_start_matches(|next: char| next != '+').starts_with("++++")
                && line.contains("+ Timeout +")
        });
        let (at, message) = match (fatal, timeout) {
            (Some(at), _) if by_signal => (at, lines[at].to_owned()),
            (_, Some(at)) => (at, "Timeout: the test did not end in its time".to_owned()),
            (Some(_) | None, None) => {
                let id = self.begun.clone().filter(|_| by_signal)?;
                let message = format!("the process died while this test ran: {}", input.exit_words());
                return Some(named(id, None, message, String::new()));
            }
        };
        let frame = test_frame(input, &lines[at..]);
        let excerpt =
            lines[at..].iter().take(40).map(|line| text::cut(line, 300)).collect::<Vec<_>>().join("\n");
        match (self.begun.clone(), frame) {
            (Some(id), frame) => Some(named(id, frame.map(|(file, line, _)| (file, line)), message, excerpt)),
            (None, Some((file, line, function))) => {
                Some(named(format!("{file}::{function}"), Some((file, line)), message, excerpt))
            }
            (None, None) => None,
        }
    }
}

fn named(id: String, place: Option<(String, u32)>, message: String, excerpt: String) -> TestFailure {
    let file = id.split("::").next().map(str::to_owned);
    let (file, line) = match place {
        Some((path, line)) => (Some(path), Some(line)),
        None => (file, None),
    };
    TestFailure { name: id, file, line, message, excerpt }
}

/// The frame of a stack dump that lies in a test function: `File "..", line N(,) in test_x`.
fn test_frame(input: &Input<'_>, lines: &[&str]) -> Option<(String, u32, String)> {
    lines.iter().take(2_000).find_map(|line| {
        let rest = line.trim_start().strip_prefix("File \"")?;
        let (path, rest) = rest.split_once("\", line ")?;
        let (number, rest) = text::leading_number(rest);
        let function = rest.trim_start_matches(',').trim().strip_prefix("in ")?;
        let library = path.contains("site-packages") || path.contains("/lib/python") || path.starts_with('<');
        let test = function.starts_with("test") || text::base_name(path).starts_with("test_");
        (!library && test).then(|| Some((input.path(path), number?, function.to_owned())))?
    })
}

fn status(word: &str) -> Option<TestState> {
    match word {
        "PASSED" | "XPASS" => Some(TestState::Passed),
        "FAILED" => Some(TestState::Failed),
        "ERROR" => Some(TestState::Errored),
        "SKIPPED" => Some(TestState::Skipped),
        "XFAIL" => Some(TestState::ExpectedFailure),
        _ => None,
    }
}

/// One line of the short summary.
fn short(line: &str) -> Option<Short> {
    let (word, rest) = line.split_once(' ')?;
    let state = match word {
        "FAILED" => TestState::Failed,
        "ERROR" => TestState::Errored,
        "PASSED" | "XPASS" => TestState::Passed,
        "XFAIL" => TestState::ExpectedFailure,
        word if word.starts_with("SUBFAIL") => TestState::Failed,
        word if word.starts_with("SUBFAILED(") || word.starts_with("SUBFAILED[") => TestState::Failed,
        _ => return None,
    };
    let (id, message) = split_message(rest);
    Some(Short { id: id.to_owned(), message: message.to_owned(), state })
}

/// The id and the message: the first ` - ` that no bracket of the id encloses.
fn split_message(rest: &str) -> (&str, &str) {
    let mut depth = 0_i32;
    let mut fallback = None;
    for (at, next) in rest.char_indices() {
        match next {
            '[' => depth += 1,
            ']' => depth -= 1,
            ' ' if rest[at..].starts_with(" - ") => {
                if depth <= 0 {
                    return (&rest[..at], &rest[at + 3..]);
                }
                if rest[..at].ends_with(']') {
                    fallback = Some(at);
                }
            }
            _ => {}
        }
    }
    match fallback {
        Some(at) => (&rest[..at], &rest[at + 3..]),
        None => (rest, ""),
    }
}

/// The sections between `___ title ___` lines, by title; several tests may share one.
fn sections(lines: &[&str]) -> BTreeMap<String, VecDeque<Section>> {
    let mut found: BTreeMap<String, VecDeque<Section>> = BTreeMap::new();
    let mut current: Option<Section> = None;
    let mut total = 0;
    for line in lines {
        let title = line
            .strip_prefix("___")
            .and_then(|rest| rest.strip_suffix("___"))
            .map(|inner| inner.trim_matches('_').trim())
            .filter(|title| !title.is_empty());
        let ends = line.starts_with("====") && line.ends_with("====");
        if title.is_some() || ends {
            if let Some(section) = current.take() {
                found.entry(section.title.clone()).or_default().push_back(section);
            }
            total += 1;
            if total > KEPT {
                break;
            }
            current = title.map(|title| Section { title: title.to_owned(), lines: Vec::new() });
        } else if let Some(section) = &mut current
            && section.lines.len() < SECTION_LINES
        {
            section.lines.push((*line).to_owned());
        }
    }
    found
}

/// A failing test with the place and words of its section.
fn failure(short: Short, sections: &mut BTreeMap<String, VecDeque<Section>>) -> TestFailure {
    let file = short.id.split("::").next().unwrap_or_default().to_owned();
    let dotted = short.id.split_once("::").map(|(_, rest)| rest.replace("::", ".")).unwrap_or_default();
    let titles = [
        dotted.clone(),
        format!("ERROR at setup of {dotted}"),
        format!("ERROR at teardown of {dotted}"),
        format!("ERROR collecting {}", short.id),
        format!("[doctest] {dotted}"),
    ];
    let section = titles
        .iter()
        .filter(|title| !title.is_empty())
        .find_map(|title| sections.get_mut(title).and_then(VecDeque::pop_front));
    let text = section.map(|section| section.lines.join("\n")).unwrap_or_default();
    let place = if short.id.contains("::") { raised_at(&text) } else { syntax_place(&text, &file) };
    let message = error_lines(&text)
        .filter(|lines| !lines.is_empty())
        .unwrap_or_else(|| junit::first_line(&short.message, &text));
    let (file, line) = match place {
        Some((path, line)) => (path, Some(line)),
        None => (file, None),
    };
    TestFailure { name: short.id, file: Some(file), line, message, excerpt: text }
}

/// The last `path:line: Error` of a traceback that lies in the project, or the last of all.
pub(super) fn raised_at(text: &str) -> Option<(String, u32)> {
    let places: Vec<(String, u32)> = text
        .lines()
        .take_while(|line| !line.starts_with("-----") || !line.contains("Captured "))
        .filter_map(|line| {
            if line.starts_with([' ', '>', '\t']) || line.starts_with("E  ") {
                return None;
            }
            let at = text::position(line)?;
            (at.rest.starts_with(':') && at.path.contains('.') && !at.path.contains("://"))
                .then(|| (at.path.to_owned(), at.line))
        })
        .collect();
    let own = places.iter().rev().find(|(path, _)| !library(path));
    own.or(places.last()).cloned()
}

fn library(path: &str) -> bool {
    path.contains("site-packages")
        || path.contains("/lib/python")
        || path.contains("dist-packages")
        || path.starts_with('<')
}

/// Where a file cannot be imported: its own syntax error, or the line of the file that was running.
pub(super) fn syntax_place(text: &str, file: &str) -> Option<(String, u32)> {
    let name = text::base_name(file);
    let syntax = text.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once("File \"")?;
        let (path, rest) = rest.split_once("\", line ")?;
        let (number, _) = text::leading_number(rest);
        (text::base_name(path) == name).then(|| Some((file.to_owned(), number?)))?
    });
    syntax.or_else(|| {
        text.lines().find_map(|line| {
            let at = text::position(line)?;
            (text::base_name(at.path) == name).then(|| (file.to_owned(), at.line))
        })
    })
}

/// The `E   ` lines of a traceback, without their mark.
pub(super) fn error_lines(text: &str) -> Option<String> {
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("E   ").or_else(|| line.strip_prefix("E  ")))
        .take(12)
        .map(str::trim)
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
