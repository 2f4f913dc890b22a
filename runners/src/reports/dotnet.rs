//! `dotnet test`: the TRX file of every project and framework, the console's totals, and MSBuild's errors.
//!
//! The words are localised, so what counts on the console is where the numbers stand. Messages are printed
//! without indentation and can hold totals of their own; the last totals of a project are the true ones.

mod console;

use jobs::verdict::{Counts, Diagnostic, Severity, TestFailure, TestState};

use super::junit;
use super::reading::{Executed, Input, Reading};
use super::text;
use super::trx;
use console::Console;

/// Reads one run of `dotnet test`.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let console = Console::read(input);
    for found in &console.diagnostics {
        reading.diagnostic(Diagnostic { file: input.path(&found.file), ..found.clone() });
    }
    let reports = take_reports(&mut reading, input, &console);
    if reports == 0 {
        for told in &console.tests {
            let id = reading.distinct_test(&told.name, told.state);
            if told.state == TestState::Failed {
                reading.failure(failure(input, &id, &told.message, &told.trace));
            }
        }
        reading.counts = console.totals().unwrap_or_default();
    } else if let Some(totals) = console.totals() {
        reading.second("the console", totals);
    }
    conclude(&mut reading, input, &console, reports);
    reading
}

/// Takes every TRX file in; returns how many there were.
fn take_reports(reading: &mut Reading, input: &Input<'_>, console: &Console) -> usize {
    let mut taken = 0;
    for (path, bytes) in input.files(|path| path.ends_with(".trx")) {
        let document = trx::parse(bytes);
        if !document.is_trx {
            reading.open(format!("{path} is no TRX report"));
            continue;
        }
        taken += 1;
        if !document.whole {
            reading.open(format!("{path} is cut"));
        }
        let mut failed = false;
        for result in &document.results {
            let state = result.state();
            let id = reading.distinct_test(&result.name, state);
            if state == TestState::Failed {
                failed = true;
                reading.failure(failure(input, &id, &result.message, &result.trace));
            }
        }
        let complaint =
            document.run_errors.first().map(|text| text::cut(text.trim(), 300)).unwrap_or_default();
        match document.outcome.as_deref() {
            Some("Completed" | "Passed" | "Warning") => {}
            Some("Failed") if failed => {}
            Some(other) => reading.open(format!("the test run is told to be {other}: {complaint}")),
            None => reading.open(format!("{path} has no summary")),
        }
    }
    if taken > 0 && !(reading.tests.is_empty() && (console.aborted || !reading.open.is_empty())) {
        reading.counts = Counts { errors: Some(0), ..counted(reading) };
    }
    taken
}

fn counted(reading: &Reading) -> Counts {
    Counts {
        passed: Some(reading.count_of(&[TestState::Passed])),
        failed: Some(reading.count_of(&[TestState::Failed])),
        skipped: Some(reading.count_of(&[TestState::Skipped])),
        errors: Some(0),
    }
}

fn conclude(reading: &mut Reading, input: &Input<'_>, console: &Console, reports: usize) {
    let nothing = Counts { passed: Some(0), failed: Some(0), skipped: Some(0), errors: Some(0) };
    if console.aborted {
        reading.open("the test run was aborted");
    }
    let compile_error = reading.diagnostics.iter().any(|found| found.severity == Severity::Error);
    if compile_error {
        reading.broken("the sources do not compile");
    }
    for complaint in &console.complaints {
        reading.open(complaint.clone());
    }
    if (compile_error || !console.complaints.is_empty()) && reports == 0 && console.totals().is_none() {
        reading.counts = Counts { errors: None, ..nothing };
    }
    let told = reports.max(console.projects_told());
    if console.projects_begun() > told && !console.no_tests {
        reading.open(format!("{} test projects began and {told} have a result", console.projects_begun()));
    }
    if console.says_failed && input.exit_is_zero() && reading.counts.failed.unwrap_or_default() == 0 {
        reading.open("the console says that the test run failed");
    }
    let counts = &reading.counts;
    let ran = [counts.passed, counts.failed].into_iter().flatten().any(|count| count > 0);
    reading.executed = if ran {
        Executed::Some
    } else if console.no_tests || reports > 0 || console.totals().is_some() {
        if reading.open.is_empty() && reading.counts == Counts::default() {
            reading.counts = nothing;
        }
        Executed::Nothing
    } else {
        Executed::Unknown
    };
}

fn failure(input: &Input<'_>, id: &str, message: &str, trace: &str) -> TestFailure {
    let place = frame(input, trace);
    TestFailure {
        name: id.to_owned(),
        line: place.as_ref().map(|(_, line)| *line),
        file: place.map(|(file, _)| file),
        message: if message.trim().is_empty() {
            junit::first_line("", trace)
        } else {
            message.trim().to_owned()
        },
        excerpt: format!("{message}\n{trace}"),
    }
}

/// The first frame of the repository, or the first that has a place: `at X() in /path/File.cs:line 7`.
///
/// "at" and "in" are localised; `:line 7` is too, so only a colon, a word and a number are asked for.
fn frame(input: &Input<'_>, trace: &str) -> Option<(String, u32)> {
    let root = input.raw.root.trim_end_matches('/');
    let frames = || trace.lines().take(1_000).filter_map(place);
    let own = |path: &str| path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    let (file, line) = frames().find(|(path, _)| own(path)).or_else(|| frames().next())?;
    Some((input.path(file), line))
}

fn place(line: &str) -> Option<(&str, u32)> {
    let (head, word) = line.trim_end().rsplit_once(':')?;
    let number = word.split_whitespace().last()?.parse().ok()?;
    let start = head.rfind(") ").map(|at| at + 2)?;
    let path = head[start..].split_once(' ').map(|(_, path)| path)?;
    Some((path, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_in_any_language() {
        assert_eq!(place("   at A.B(Int32 n) in /s/T.cs:line 12"), Some(("/s/T.cs", 12)));
        assert_eq!(place("   bei A.B() in C:\\s x\\T.cs:Zeile 3"), Some(("C:\\s x\\T.cs", 3)));
        assert_eq!(place("   at System.X.Y()"), None);
        assert_eq!(place("what: 3"), None);
    }
}
