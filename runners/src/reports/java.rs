//! What Surefire and Gradle share: JUnit XML of Java tests, stack traces and javac's lines.

use std::collections::BTreeSet;

use jobs::verdict::{Counts, Diagnostic, Severity, TestFailure, TestState};

use super::junit::{self, Case};
use super::reading::{Input, Reading};
use super::text;

/// Whether an error and a failed assertion are told apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Errors {
    Apart,
    AreFailures,
}

/// Takes every XML report in; tells whether there was one.
pub(super) fn take_reports(
    reading: &mut Reading,
    input: &Input<'_>,
    build_folder: &str,
    errors: Errors,
) -> bool {
    let mut any = false;
    for (path, bytes) in input.files(|path| path.ends_with(".xml")) {
        let document = junit::parse(bytes);
        if !document.is_junit {
            continue;
        }
        any = true;
        if !document.whole {
            reading.open(format!("{path} is cut"));
        }
        let module = module_of(path, build_folder);
        for case in &document.cases {
            take_case(reading, module, case, errors);
        }
        let bad = document.cases.iter().filter(|case| case.trouble().is_some()).count() as u64;
        let declared =
            document.declared.failed.unwrap_or_default().max(document.declared.errors.unwrap_or_default());
        if declared > 0 && bad == 0 {
            reading.broken(format!("{path} declares failures that none of its cases has"));
        }
    }
    if any {
        reading.counts = Counts {
            passed: Some(reading.count_of(&[TestState::Passed])),
            failed: Some(reading.count_of(&[TestState::Failed])),
            skipped: Some(reading.count_of(&[TestState::Skipped])),
            errors: Some(reading.count_of(&[TestState::Errored])),
        };
    }
    any
}

fn take_case(reading: &mut Reading, module: &str, case: &Case, errors: Errors) {
    let name = match case.name.as_str() {
        name if name.is_empty() || name == case.class => case.class.clone(),
        name => format!("{}.{name}", case.class),
    };
    let state = match (case.state(), errors) {
        (TestState::Errored, Errors::AreFailures) => TestState::Failed,
        (state, _) => state,
    };
    let id = reading.distinct_test(&in_module(module, &name), state);
    if let Some(trouble) = case.trouble() {
        let first = junit::first_line("", &trouble.text);
        let kind = short_name(&trouble.kind);
        let message = match (trouble.message.trim(), kind) {
            ("", _) => first,
            (message, kind) if kind.is_empty() || message.contains(kind) => message.to_owned(),
            (message, kind) => format!("{kind}: {message}"),
        };
        reading.failure(failure(&id, &case.class, message, trouble.text.clone()));
    }
    if case.retried > 0 && case.trouble().is_none() {
        reading.note(format!("{id} passed only when it was tried again"));
    }
}

/// A failure with its place: the frame of its own class.
pub(super) fn failure(id: &str, class: &str, message: String, trace: String) -> TestFailure {
    let place = frame_of(&trace, class);
    TestFailure {
        name: id.to_owned(),
        file: place.map(|(file, _)| file.to_owned()),
        line: place.map(|(_, line)| line),
        message,
        excerpt: trace,
    }
}

/// The module's folder as a prefix of a test's id, so that two modules may have the same class.
pub(super) fn in_module(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// What stands before the build folder in a report's path.
fn module_of<'a>(path: &'a str, build_folder: &str) -> &'a str {
    match path.find(build_folder) {
        Some(at) => path[..at].trim_end_matches('/'),
        None => "",
    }
}

fn short_name(class: &str) -> &str {
    class.rsplit(['.', '$']).next().unwrap_or(class)
}

/// The first frame `at x//package.Class.method(File.java:12)` of a class, or of one nested in it.
pub(super) fn frame_of<'a>(trace: &'a str, class: &str) -> Option<(&'a str, u32)> {
    trace.lines().take(1_000).find_map(|line| {
        let frame = line.trim().strip_prefix("at ")?;
        let (method, place) = frame.strip_suffix(')')?.rsplit_once('(')?;
        let method = method.rsplit('/').next().unwrap_or(method);
        let own = method.strip_prefix(class)?.starts_with(['.', '$']);
        let (file, line) = place.rsplit_once(':')?;
        own.then_some((file, line.parse().ok()?))
    })
}

/// javac's and Maven's errors, each place once.
#[derive(Default)]
pub(super) struct CompileErrors {
    seen: BTreeSet<(String, u32, String)>,
}

impl CompileErrors {
    /// `[ERROR] path:[1,35] message`, as Maven prints it.
    pub fn maven(&mut self, reading: &mut Reading, input: &Input<'_>, line: &str) -> bool {
        let Some(rest) = line.strip_prefix("[ERROR] ") else { return false };
        let Some((path, rest)) = rest.split_once(":[") else { return false };
        let Some((place, message)) = rest.split_once("] ") else { return false };
        let Some((row, column)) = place.split_once(',') else { return false };
        let (Ok(row), Ok(column)) = (row.parse(), column.parse()) else { return false };
        self.take(reading, input, path, (row, Some(column)), message)
    }

    /// `path.java:1: error: message` of javac, and Kotlin's `e: path.kt: (1, 2): message`.
    pub fn gradle(&mut self, reading: &mut Reading, input: &Input<'_>, line: &str) -> bool {
        if let Some(rest) = line.strip_prefix("e: ") {
            return self.kotlin(reading, input, rest);
        }
        let Some(at) = text::position(line).filter(|at| is_source(at.path)) else { return false };
        let Some(message) = at.rest.strip_prefix(": error: ") else { return false };
        self.take(reading, input, at.path, (at.line, None), message)
    }

    fn kotlin(&mut self, reading: &mut Reading, input: &Input<'_>, rest: &str) -> bool {
        let rest = rest.strip_prefix("file://").unwrap_or(rest);
        if let Some((path, after)) = rest.split_once(": (") {
            let Some((place, message)) = after.split_once("): ") else { return false };
            let Some((row, column)) = place.split_once(", ") else { return false };
            let (Ok(row), Ok(column)) = (row.parse(), column.parse()) else { return false };
            return self.take(reading, input, path, (row, Some(column)), message);
        }
        let Some(at) = text::position(rest).filter(|at| is_source(at.path)) else { return false };
        self.take(reading, input, at.path, (at.line, at.column), at.rest.trim_start_matches(':').trim())
    }

    fn take(
        &mut self,
        reading: &mut Reading,
        input: &Input<'_>,
        path: &str,
        place: (u32, Option<u32>),
        message: &str,
    ) -> bool {
        let key = (path.to_owned(), place.0, message.to_owned());
        if self.seen.len() < 10_000 && self.seen.insert(key) {
            reading.diagnostic(Diagnostic {
                file: input.path(path),
                line: Some(place.0),
                column: place.1,
                severity: Severity::Error,
                code: None,
                message: message.to_owned(),
            });
        }
        true
    }
}

fn is_source(path: &str) -> bool {
    [".java", ".kt", ".kts", ".groovy", ".scala"].iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_is_the_tests_own() {
        let trace = "E: x\n\tat org.junit.Assert.fail(Assert.java:89)\n\tat app//a.OneTest$Inner.t(OneTest.java:12)\n";
        assert_eq!(frame_of(trace, "a.OneTest"), Some(("OneTest.java", 12)));
        assert_eq!(frame_of(trace, "a.One"), None);
        assert_eq!(frame_of("\tat a.OneTest.t(Native Method)", "a.OneTest"), None);
    }

    #[test]
    fn a_module_is_the_folder_before_its_build_folder() {
        assert_eq!(module_of("b/target/surefire-reports/TEST-x.xml", "target/"), "b");
        assert_eq!(module_of("target/surefire-reports/TEST-x.xml", "target/"), "");
    }
}
