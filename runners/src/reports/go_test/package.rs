//! The account of one package: which tests were announced, what each printed and how it ended.

use std::collections::BTreeMap;

use jobs::verdict::{TestFailure, TestState};

use super::console::printed_result;
use crate::reports::junit;
use crate::reports::reading::Input;
use crate::reports::text;

/// How a package ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Ok,
    Failed,
    /// It, or what it imports, does not build.
    Unbuilt,
    NoTests,
}

#[derive(Default)]
struct Test {
    running: bool,
    state: Option<TestState>,
    /// A result that stands behind other text in one line: it counts when nothing better comes.
    glued: Option<TestState>,
    output: String,
}

/// What is known of one package.
#[derive(Default)]
pub(super) struct Package {
    pub name: Option<String>,
    /// Tests say when they begin, so that only these can end.
    pub announced: bool,
    tests: BTreeMap<String, Test>,
    order: Vec<String>,
    pub current: Option<String>,
    /// Panic and stack, or what else belongs to no test.
    crash: String,
    crashed: bool,
    last_line: String,
    decoys: Vec<String>,
    end: Option<End>,
    nothing_to_run: bool,
    unbuilt: bool,
    /// Before 1.20 an event names the wrong test once a `=== CONT` stood behind other text: from, to.
    moved: Option<(String, String)>,
}

/// One test that has a result.
pub(super) struct Settled {
    pub name: String,
    pub state: TestState,
    pub output: String,
    /// The panic that ended it.
    pub crash: Option<String>,
}

/// A package's result.
pub(super) struct Account {
    pub end: Option<End>,
    pub tests: Vec<Settled>,
    pub unresolved: Vec<String>,
    pub decoys: Vec<String>,
    pub announced: bool,
    pub nothing_to_run: bool,
    pub last_words: String,
}

impl Package {
    /// A package whose tests are told by events.
    pub fn announced(name: &str) -> Self {
        Self { name: Some(name.to_owned()), announced: true, ..Self::default() }
    }

    pub fn ended(&self) -> bool {
        self.end.is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.tests.is_empty() && !self.crashed
    }

    pub fn says_unbuilt(&self) -> bool {
        self.unbuilt
    }

    pub fn any_running(&self) -> bool {
        self.announced && self.current.is_some() && self.tests.values().any(|test| test.running)
    }

    pub fn last_line(&self) -> &str {
        &self.last_line
    }

    pub fn knows(&self, name: &str) -> bool {
        self.tests.contains_key(name)
    }

    pub fn run(&mut self, name: &str) {
        self.announced = true;
        if !self.tests.contains_key(name) {
            self.order.push(name.to_owned());
        }
        self.tests.entry(name.to_owned()).or_default().running = true;
        self.current = Some(name.to_owned());
    }

    /// A result; of several for one test the worst stands.
    pub fn result(&mut self, name: &str, state: TestState) {
        if self.announced && !self.tests.contains_key(name) {
            if self.decoys.len() < 20 {
                self.decoys.push(name.to_owned());
            }
            return;
        }
        if !self.tests.contains_key(name) {
            self.order.push(name.to_owned());
        }
        let test = self.tests.entry(name.to_owned()).or_default();
        test.running = false;
        test.state = Some(worse(test.state, state));
        self.current = Some(name.to_owned());
    }

    /// Takes a result back that turned out to be printed.
    pub fn withdraw(&mut self, name: &str) {
        self.tests.remove(name);
        self.order.retain(|known| known != name);
        self.decoys.push(name.to_owned());
        self.current = None;
    }

    /// A result behind other text in its line.
    pub fn glued(&mut self, name: &str, state: TestState) {
        if let Some(test) = self.tests.get_mut(name) {
            test.glued = Some(worse(test.glued, state));
        }
    }

    /// What an event says was printed.
    pub fn event_output(&mut self, test: Option<&str>, output: &str) {
        let line = output.trim_end();
        if let Some(result) = printed_result(line)
            && !result.before.trim().is_empty()
        {
            self.glued(result.name, result.state);
        }
        self.current = test.map(str::to_owned);
        if let Some((before, _, next)) = super::console::announcement(line) {
            let behind = test.filter(|_| !before.is_empty() && self.tests.contains_key(next));
            self.moved = behind.map(|test| (test.to_owned(), next.to_owned()));
            return;
        }
        if let Some((from, to)) = &self.moved
            && test == Some(from)
        {
            self.current = Some(to.clone());
        }
        let frame = line.starts_with("=== ") || line.trim_start().starts_with("--- ");
        if !frame {
            self.print(&text::clean(output.as_bytes()));
        }
    }

    /// A line that somebody printed, its line end included where it has one.
    pub fn print(&mut self, output: &str) {
        let line = output.trim_end();
        if line.starts_with("panic: ") || line.starts_with("fatal error: ") {
            self.crashed = true;
        }
        if self.crashed {
            junit::append(&mut self.crash, output);
        }
        if line.ends_with("[build failed]") || line.ends_with("[setup failed]") {
            self.unbuilt |= self.current.is_none();
        }
        self.nothing_to_run |= self.current.is_none() && line.ends_with("[no tests to run]");
        if !line.trim().is_empty() {
            self.last_line = text::cut(line, 300);
        }
        if let Some(test) = self.current.as_ref().and_then(|name| self.tests.get_mut(name)) {
            junit::append(&mut test.output, output);
        }
    }

    pub fn end(&mut self, end: End) {
        self.end = Some(end);
    }

    pub fn end_empty(&mut self) {
        self.nothing_to_run = true;
        self.end = Some(End::Ok);
    }

    /// Every test's result, and what has none.
    pub fn settle(mut self) -> Account {
        for test in self.tests.values_mut().filter(|test| test.state.is_none()) {
            test.state = test.glued;
        }
        let failed = self.end == Some(End::Failed);
        let guilty = if failed && self.crashed { self.guilty() } else { None };
        let mut tests = Vec::new();
        let mut unresolved = Vec::new();
        for name in self.order {
            let Some(test) = self.tests.remove(&name) else { continue };
            let crash = (guilty.as_deref() == Some(&name)).then(|| self.crash.clone());
            let state = if crash.is_some() { Some(TestState::Failed) } else { test.state };
            match state {
                Some(state) => tests.push(Settled { name, state, output: test.output, crash }),
                None => unresolved.push(name),
            }
        }
        Account {
            end: self.end,
            tests,
            unresolved,
            decoys: self.decoys,
            announced: self.announced,
            nothing_to_run: self.nothing_to_run,
            last_words: self.last_line,
        }
    }

    /// The test that a panic ended: named by the stack among those without a result, or the last of them.
    fn guilty(&self) -> Option<String> {
        let named = |name: &&String| {
            let function = name.split('/').next().unwrap_or(name);
            [".func", "("].iter().any(|after| self.crash.contains(&format!(".{function}{after}")))
        };
        let open = || self.order.iter().rev().filter(|name| self.tests[*name].state.is_none()).take(100);
        let failed = || {
            let failed = |name: &&String| self.tests[*name].state == Some(TestState::Failed);
            self.order.iter().rev().filter(failed).take(100)
        };
        open().find(named).or_else(|| open().next()).or_else(|| failed().find(named)).cloned()
    }
}

fn worse(known: Option<TestState>, other: TestState) -> TestState {
    match (known, other) {
        (Some(TestState::Failed), _) | (_, TestState::Failed) => TestState::Failed,
        (_, other) => other,
    }
}

/// The failure of one test: where `t.Error` was called, or where the panic was raised.
pub(super) fn failure(input: &Input<'_>, id: &str, test: &Settled) -> TestFailure {
    if let Some(crash) = &test.crash {
        let first = crash.lines().next().unwrap_or_default();
        let message = first.strip_prefix("panic: ").unwrap_or(first);
        let place = stack_place(input, crash);
        return TestFailure {
            name: id.to_owned(),
            line: place.as_ref().map(|(_, line)| *line),
            file: place.map(|(file, _)| file),
            message: message.to_owned(),
            excerpt: format!("{}{crash}", test.output),
        };
    }
    let place = test.output.lines().take(2_000).find_map(reported_at);
    TestFailure {
        name: id.to_owned(),
        file: place.map(|(file, ..)| input.path(file)),
        line: place.map(|(_, line, _)| line),
        message: match place {
            Some((.., message)) if !message.trim().is_empty() => message.to_owned(),
            Some(_) | None => test.output.lines().map(str::trim).take(20).collect::<Vec<_>>().join(" "),
        },
        excerpt: test.output.clone(),
    }
}

/// `file.go:12: message`, behind whatever the test has printed before it in that line.
fn reported_at(line: &str) -> Option<(&str, u32, &str)> {
    let end = line.find(".go:")? + 3;
    let start = line[..end].rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let found = text::position(&line[start..])?;
    let message = found.rest.strip_prefix(':')?;
    found.path.ends_with(".go").then_some((found.path, found.line, message))
}

/// The innermost frame of a stack that is the repository's own.
fn stack_place(input: &Input<'_>, crash: &str) -> Option<(String, u32)> {
    let frames = || {
        crash
            .lines()
            .take(500)
            .filter(|line| line.starts_with('\t'))
            .filter_map(|line| text::position(line.trim()))
    };
    let root = input.raw.root.trim_end_matches('/');
    let own = |path: &str| path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    let library = |path: &str| {
        ["/src/testing/", "/src/runtime/", "/src/time/"].iter().any(|part| path.contains(part))
            || path.starts_with('_')
    };
    frames()
        .find(|frame| own(frame.path) && !library(frame.path))
        .or_else(|| frames().find(|frame| !library(frame.path) && frame.path.ends_with(".go")))
        .map(|frame| (input.path(frame.path), frame.line))
}
