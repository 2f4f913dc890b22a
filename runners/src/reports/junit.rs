//! JUnit XML: what most frameworks can write, and the generic reader for those without one of their own.

use jobs::verdict::{Counts, TestFailure, TestState};

use super::reading::{Executed, Input, Reading};
use super::text;
use super::xml::{self, Node};

/// More test cases than this in one document are not kept.
const CASES: usize = 200_000;
/// Of a longer text the beginning and the end are kept: the end says where it happened.
const HEAD_BYTES: usize = 12 * 1024;
const TAIL_BYTES: usize = 4 * 1024;

/// One `testcase`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Case {
    pub suite: String,
    pub class: String,
    pub name: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// CTest's `status` and GoogleTest's `status`/`result`.
    pub status: Option<String>,
    pub failures: Vec<Trouble>,
    pub errors: Vec<Trouble>,
    pub skipped: Option<Trouble>,
    /// Failures of tries after which it was tried again.
    pub retried: usize,
    /// What the test printed, on both streams.
    pub output: String,
}

impl Case {
    /// The state without any tool's own reading of it.
    pub fn state(&self) -> TestState {
        if !self.failures.is_empty() {
            TestState::Failed
        } else if !self.errors.is_empty() {
            TestState::Errored
        } else if self.skipped.is_some() {
            TestState::Skipped
        } else {
            TestState::Passed
        }
    }

    /// The first failure or error.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.failures.first().or(self.errors.first())
    }
}

/// A `failure`, `error` or `skipped` element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trouble {
    pub message: String,
    pub kind: String,
    pub text: String,
}

/// One document.
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    pub cases: Vec<Case>,
    /// The innermost suites' own totals, added up.
    pub declared: Counts,
    pub declared_tests: Option<u64>,
    /// Suites that say that something went wrong outside of their cases.
    pub suite_errors: Vec<Trouble>,
    /// Whether the document could be read to its end.
    pub whole: bool,
    /// Whether its root is `testsuites` or `testsuite`.
    pub is_junit: bool,
    /// The name of the root element.
    pub root: String,
}

/// Reads a document; never fails, but says whether it was whole.
pub(super) fn parse(bytes: &[u8]) -> Document {
    let mut builder = Builder::default();
    let end = xml::walk(bytes, |node| builder.visit(node));
    builder.document.whole = end.is_ok();
    builder.document
}

#[derive(Default)]
struct Builder {
    document: Document,
    suites: Vec<Suite>,
    case: Option<Case>,
    trouble: Option<(Kind, Trouble)>,
    collecting_output: bool,
    seen_root: bool,
}

struct Suite {
    name: String,
    file: Option<String>,
    totals: Option<(u64, Counts)>,
    has_child: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Failure,
    Error,
    Skipped,
    Retried,
}

impl Builder {
    fn visit(&mut self, node: Node<'_>) {
        match node {
            Node::Open(element) => self.open(&element),
            Node::Close(name) => self.close(&name),
            Node::Text(text) => self.text(&text),
        }
    }

    fn open(&mut self, element: &xml::Element<'_>) {
        let name = element.name.as_str();
        if !self.seen_root {
            self.seen_root = true;
            self.document.is_junit = matches!(name, "testsuites" | "testsuite" | "testrun");
            self.document.root = text::cut(name, 100);
        }
        match name {
            "testsuite" => self.open_suite(element),
            "testcase" => self.open_case(element),
            "failure" => self.open_trouble(Kind::Failure, element),
            "error" => self.open_trouble(Kind::Error, element),
            "skipped" | "ignored" | "disabled" => self.open_trouble(Kind::Skipped, element),
            "rerunFailure" | "rerunError" | "flakyFailure" | "flakyError" => {
                self.open_trouble(Kind::Retried, element);
            }
            "system-out" | "system-err" => self.collecting_output = true,
            _ => {}
        }
    }

    fn open_suite(&mut self, element: &xml::Element<'_>) {
        if let Some(parent) = self.suites.last_mut() {
            parent.has_child = true;
        }
        let totals = element.count("tests").map(|tests| {
            let skipped = element.count("skipped").or_else(|| element.count("disabled"));
            let counts = Counts {
                passed: None,
                failed: element.count("failures"),
                skipped,
                errors: element.count("errors"),
            };
            (tests, counts)
        });
        self.suites.push(Suite {
            name: element.attribute("name").unwrap_or_default(),
            file: element.attribute("file").or_else(|| element.attribute("filepath")),
            totals,
            has_child: false,
        });
    }

    fn open_case(&mut self, element: &xml::Element<'_>) {
        let suite = self.suites.last();
        self.case = Some(Case {
            suite: suite.map(|suite| suite.name.clone()).unwrap_or_default(),
            class: element.attribute("classname").unwrap_or_default(),
            name: element.attribute("name").unwrap_or_default(),
            file: element.attribute("file").or_else(|| suite.and_then(|suite| suite.file.clone())),
            line: element.count("line").and_then(|line| u32::try_from(line).ok()),
            status: element.attribute("status").or_else(|| element.attribute("result")),
            ..Case::default()
        });
    }

    fn open_trouble(&mut self, kind: Kind, element: &xml::Element<'_>) {
        self.trouble = Some((
            kind,
            Trouble {
                message: element.attribute("message").unwrap_or_default(),
                kind: element.attribute("type").unwrap_or_default(),
                text: String::new(),
            },
        ));
    }

    fn text(&mut self, text: &str) {
        let target = match (&mut self.trouble, &mut self.case) {
            (Some((_, trouble)), _) => &mut trouble.text,
            (None, Some(case)) if self.collecting_output => &mut case.output,
            (None, _) => return,
        };
        append(target, text);
    }

    fn close(&mut self, name: &str) {
        match name {
            "testsuite" => self.close_suite(),
            "testcase" => {
                if let Some(case) = self.case.take()
                    && self.document.cases.len() < CASES
                {
                    self.document.cases.push(case);
                }
            }
            "system-out" | "system-err" => self.collecting_output = false,
            "failure" | "error" | "skipped" | "ignored" | "disabled" | "rerunFailure" | "rerunError"
            | "flakyFailure" | "flakyError" => self.close_trouble(),
            _ => {}
        }
    }

    fn close_suite(&mut self) {
        let Some(suite) = self.suites.pop() else { return };
        let (false, Some((tests, counts))) = (suite.has_child, suite.totals) else { return };
        let document = &mut self.document;
        document.declared_tests = Some(document.declared_tests.unwrap_or_default().saturating_add(tests));
        add(&mut document.declared.failed, counts.failed);
        add(&mut document.declared.skipped, counts.skipped);
        add(&mut document.declared.errors, counts.errors);
    }

    fn close_trouble(&mut self) {
        let Some((kind, trouble)) = self.trouble.take() else { return };
        match (&mut self.case, kind) {
            (Some(case), Kind::Failure) => case.failures.push(trouble),
            (Some(case), Kind::Error) => case.errors.push(trouble),
            (Some(case), Kind::Skipped) => case.skipped = Some(trouble),
            (Some(case), Kind::Retried) => case.retried += 1,
            (None, Kind::Failure | Kind::Error) => {
                if self.document.suite_errors.len() < 1_000 {
                    self.document.suite_errors.push(trouble);
                }
            }
            (None, Kind::Skipped | Kind::Retried) => {}
        }
    }
}

fn add(total: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *total = Some(total.unwrap_or_default().saturating_add(more));
    }
}

/// Appends to a text of which the beginning and the end are kept.
pub(super) fn append(target: &mut String, more: &str) {
    target.push_str(more);
    if target.len() <= 2 * (HEAD_BYTES + TAIL_BYTES) {
        return;
    }
    let mut head = HEAD_BYTES;
    while !target.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = target.len() - TAIL_BYTES;
    while !target.is_char_boundary(tail) {
        tail += 1;
    }
    target.replace_range(head..tail, "\n…\n");
}

/// Adds a document's cases to a reading, counts included; `id` names a case.
pub(super) fn take(
    reading: &mut Reading,
    input: &Input<'_>,
    document: &Document,
    id: impl Fn(&Case) -> String,
) {
    for case in &document.cases {
        let state = case.state();
        let id = reading.distinct_test(&id(case), state);
        if matches!(state, TestState::Failed | TestState::Errored) {
            reading.failure(failure(input, &id, case));
        }
    }
    for trouble in &document.suite_errors {
        reading.broken(format!("a suite reports an error: {}", first_line(&trouble.message, &trouble.text)));
    }
    if document.suite_errors.is_empty() && !declared_agrees(document) {
        reading.note("a suite's own totals are higher than what its cases show");
        reading.broken("a suite declares failures that none of its cases has");
    }
}

/// Whether no suite declares more failures and errors than its cases have.
fn declared_agrees(document: &Document) -> bool {
    let of = |pick: fn(&Case) -> bool| document.cases.iter().filter(|case| pick(case)).count() as u64;
    let bad = of(|case| !case.failures.is_empty() || !case.errors.is_empty());
    let troubles = of(|case| !case.failures.is_empty())
        + of(|case| !case.errors.is_empty())
        + document.cases.iter().map(|case| (case.failures.len() + case.errors.len()) as u64).sum::<u64>();
    let declared = document
        .declared
        .failed
        .unwrap_or_default()
        .saturating_add(document.declared.errors.unwrap_or_default());
    declared <= bad.max(troubles)
}

/// The failure that a case shows, with the place that its text names.
pub(super) fn failure(input: &Input<'_>, name: &str, case: &Case) -> TestFailure {
    let trouble = case.trouble().cloned().unwrap_or_default();
    let (file, line) = match place_in(&trouble.text) {
        Some((file, line)) => (Some(input.path(file)), Some(line)),
        None => (case.file.as_deref().map(|file| input.path(file)), case.line),
    };
    TestFailure {
        name: name.to_owned(),
        file,
        line,
        message: first_line(&trouble.message, &trouble.text),
        excerpt: trouble.text,
    }
}

/// The message, or the first line with words of the text.
pub(super) fn first_line(message: &str, text: &str) -> String {
    let message = message.trim();
    if !message.is_empty() {
        return message.to_owned();
    }
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// The first `path.ext:line` in a text, as stack traces of most languages write it.
pub(super) fn place_in(text: &str) -> Option<(&str, u32)> {
    text.lines().take(200).find_map(|line| {
        let mut words = line.split([' ', '(', ')', '\t', '"', '\'', '[', ']']);
        words.find_map(|word| {
            let found = text::position(word)?;
            let name = text::base_name(found.path);
            let extension = name.rsplit_once('.').map(|(stem, extension)| (stem.is_empty(), extension));
            let code = extension.is_some_and(|(empty, extension)| {
                !empty
                    && extension.len() <= 5
                    && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
                    && extension.bytes().any(|byte| byte.is_ascii_alphabetic())
            });
            code.then_some((found.path, found.line))
        })
    })
}

/// The generic reader: any framework that writes JUnit XML.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let files = input.files(|path| path.ends_with(".xml"));
    if files.is_empty() {
        reading.open("no JUnit report file was written; name its path in the check's `reports`");
        return reading;
    }
    for (path, bytes) in files {
        let document = parse(bytes);
        match (document.is_junit, other_format(&document.root)) {
            (true, _) => {}
            (false, Some(format)) => {
                reading.unsupported(format!("{path} is {format}; let the framework write JUnit XML instead"));
                continue;
            }
            (false, None) => {
                reading.open(format!("{path} is no JUnit report"));
                continue;
            }
        }
        if !document.whole {
            reading.open(format!("{path} is cut"));
        }
        let cases = document.cases.into_iter().map(by_status).collect();
        let document = Document { cases, ..document };
        if document.declared_tests.is_some_and(|declared| declared > document.cases.len() as u64) {
            reading.note(format!("{path} declares more tests than it lists"));
        }
        take(&mut reading, input, &document, generic_id);
    }
    count_states(&mut reading);
    reading
}

/// Formats of other frameworks that are XML too, by their root elements.
fn other_format(root: &str) -> Option<&'static str> {
    match root {
        "assemblies" | "assembly" => Some("in xUnit.net's own format"),
        "test-run" | "test-results" => Some("in NUnit's own format"),
        "TestRun" => Some("a TRX report, which the tool `dotnet-test` reads"),
        "checkstyle" => Some("a Checkstyle report; for a linter use SARIF and the tool `sarif`"),
        "testng-results" => Some("in TestNG's own format"),
        "coverage" => Some("a coverage report"),
        _ => None,
    }
}

/// A case whose attribute, not an element, says how it ended: GoogleTest, CTest and others.
fn by_status(mut case: Case) -> Case {
    let status = case.status.as_deref().unwrap_or_default().to_ascii_lowercase();
    match status.as_str() {
        "fail" | "failed" | "failure" | "timeout" | "crashed" if case.failures.is_empty() => {
            case.failures.push(Trouble { message: format!("its status is {status}"), ..Trouble::default() });
        }
        "error" | "errored" | "broken" if case.errors.is_empty() => {
            case.errors.push(Trouble { message: format!("its status is {status}"), ..Trouble::default() });
        }
        "notrun" | "skipped" | "suppressed" | "disabled" | "ignored" | "pending" | "todo"
            if case.skipped.is_none() =>
        {
            case.skipped = Some(Trouble::default());
        }
        _ => {}
    }
    case
}

/// Counts from the named tests' states.
pub(super) fn count_states(reading: &mut Reading) {
    reading.counts = Counts {
        passed: Some(reading.count_of(&[TestState::Passed])),
        failed: Some(reading.count_of(&[TestState::Failed])),
        skipped: Some(reading.count_of(&[TestState::Skipped])),
        errors: Some(reading.count_of(&[TestState::Errored])),
    };
    let executed = reading.tests.values().any(|&state| state != TestState::Skipped);
    reading.executed = if executed { Executed::Some } else { Executed::Nothing };
}

/// The class, or the suite without one, and the name.
pub(super) fn generic_id(case: &Case) -> String {
    let group = if case.class.is_empty() { &case.suite } else { &case.class };
    match (&case.file, group.is_empty()) {
        (Some(file), true) => format!("{file}::{}", case.name),
        (_, true) => case.name.clone(),
        (_, false) => format!("{group}::{}", case.name),
    }
}
