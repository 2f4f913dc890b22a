//! Gradle: the XML report of every project, and a console that names what failed and little else.
//!
//! Without XML a green build proves nothing: a worker that halts with code 0 leaves BUILD SUCCESSFUL behind.

use jobs::verdict::{Counts, TestState};

use super::java::{self, CompileErrors, Errors};
use super::reading::{Executed, Input, Reading};
use super::text;

/// What the console says.
#[derive(Default)]
struct Console {
    tests: Vec<Told>,
    /// Whether the test of the line before still gets its trace.
    tracing: bool,
    /// The project whose tests run.
    project: String,
    /// Completed, failed and skipped, of all projects that had a failure.
    totals: Option<[u64; 3]>,
    /// Projects whose tests ran without a failure, so without totals.
    quiet_tasks: u64,
    /// Test tasks that had nothing to do.
    no_source: bool,
    up_to_date: bool,
    last_word: Option<bool>,
    failing_tests: bool,
    does_not_compile: bool,
    no_tests_found: bool,
    went_wrong: Vec<String>,
}

struct Told {
    project: String,
    /// From the class to the test.
    path: Vec<String>,
    state: TestState,
    trace: String,
}

/// Reads one run of `gradle`.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let mut console = Console::default();
    let mut compile_errors = CompileErrors::default();
    let mut wrong_next = false;
    for line in input.lines() {
        if wrong_next && !line.trim().is_empty() && console.went_wrong.len() < 20 {
            console.went_wrong.push(text::cut(line, 300));
        }
        wrong_next = line == "* What went wrong:";
        if !compile_errors.gradle(&mut reading, input, line) {
            console.line(line);
        }
    }
    let reports = java::take_reports(&mut reading, input, "build/", Errors::AreFailures);
    let counts = console.counts();
    if !reports {
        console.take_tests(&mut reading);
        reading.counts = counts;
        let named = reading.count_of(&[TestState::Failed]);
        if named > 0 {
            reading.counts.failed = Some(named.max(reading.counts.failed.unwrap_or_default()));
        }
    } else if console.totals.is_some() {
        reading.second("the console", Counts { passed: None, ..counts });
    }
    conclude(&mut reading, input, &console, reports);
    reading
}

fn conclude(reading: &mut Reading, input: &Input<'_>, console: &Console, reports: bool) {
    let nothing = Counts { passed: Some(0), failed: Some(0), skipped: Some(0), errors: Some(0) };
    let no_failure = reading.counts.failed.unwrap_or_default() == 0;
    if console.does_not_compile || !reading.diagnostics.is_empty() {
        reading.broken("the sources do not compile");
        if !reports && console.totals.is_none() && reading.tests.is_empty() {
            reading.counts = Counts { errors: None, ..nothing };
        }
    } else if console.failing_tests && no_failure {
        reading.broken("Gradle says that there were failing tests");
    } else if console.no_tests_found {
        reading.open("Gradle found no tests for the given filter");
        reading.counts = nothing;
    } else if !input.exit_is_zero() && no_failure {
        for why in &console.went_wrong {
            reading.note(why.clone());
        }
    }
    if input.exit_is_zero() && console.last_word == Some(false) {
        reading.open("Gradle says BUILD FAILED though it left with exit code 0");
    }
    let counts = &reading.counts;
    let ran = [counts.passed, counts.failed].into_iter().flatten().any(|count| count > 0);
    reading.executed = if ran {
        Executed::Some
    } else if reports || console.no_tests_found {
        Executed::Nothing
    } else if console.no_source && console.quiet_tasks == 0 && console.last_word == Some(true) {
        reading.counts = nothing;
        Executed::Nothing
    } else {
        if console.up_to_date {
            reading.open("a test task was up to date, so nothing ran; add `--rerun-tasks` to the check");
        }
        Executed::Unknown
    };
}

impl Console {
    fn line(&mut self, line: &str) {
        if let Some(task) = line.strip_prefix("> Task ").or_else(|| line.starts_with(':').then_some(line)) {
            self.task(task);
        } else if line.starts_with([' ', '\t']) || line.is_empty() {
            if let Some(told) = self.tests.last_mut().filter(|told| self.tracing && told.trace.len() < 16_000)
            {
                told.trace.push_str(line);
                told.trace.push('\n');
            }
            return;
        } else if let Some(told) = self.told(line) {
            if self.tests.len() < 200_000 {
                self.tests.push(told);
            }
            self.tracing = true;
            return;
        } else {
            self.sentence(line);
        }
        self.tracing = false;
    }

    /// `:b:test FAILED`: the project whose tests are told next, and what became of them.
    fn task(&mut self, task: &str) {
        let (path, state) = task.trim_end().split_once(' ').unwrap_or((task.trim_end(), ""));
        let Some((project, name)) = path.rsplit_once(':') else { return };
        self.project = project.trim_start_matches(':').replace(':', "/");
        if !name.ends_with("est") && !name.to_ascii_lowercase().contains("test") {
            return;
        }
        let compiles = ["compile", "process", "class"]
            .iter()
            .any(|part| name.contains(part) || name.ends_with("Classes"));
        if compiles {
            return;
        }
        match state {
            "NO-SOURCE" | "SKIPPED" => self.no_source = true,
            "UP-TO-DATE" => self.up_to_date = true,
            "FAILED" => {}
            _ => self.quiet_tasks += 1,
        }
    }

    /// `Class > name FAILED`, with any number of names between.
    fn told(&self, line: &str) -> Option<Told> {
        if line.starts_with('>') {
            return None;
        }
        let (title, state) = [
            (" FAILED", TestState::Failed),
            (" PASSED", TestState::Passed),
            (" SKIPPED", TestState::Skipped),
        ]
        .into_iter()
        .find_map(|(word, state)| Some((line.trim_end().strip_suffix(word)?, state)))?;
        let path: Vec<String> = title.split(" > ").take(20).map(str::to_owned).collect();
        let whole = path.len() > 1 && path.iter().all(|name| !name.is_empty());
        whole.then(|| Told { project: self.project.clone(), path, state, trace: String::new() })
    }

    fn sentence(&mut self, line: &str) {
        if let Some(totals) = totals_of(line) {
            let sum = self.totals.get_or_insert([0; 3]);
            for (sum, more) in sum.iter_mut().zip(totals) {
                *sum = sum.saturating_add(more);
            }
        }
        self.failing_tests |=
            line.starts_with("> There were failing tests") || line.starts_with("There were failing tests");
        self.does_not_compile |=
            line.starts_with("> Compilation failed;") || line.starts_with("> Compilation error");
        self.no_tests_found |= line.starts_with("> No tests found for given includes");
        if line.starts_with("BUILD SUCCESSFUL") {
            self.last_word = Some(self.last_word.unwrap_or(true));
        } else if line.starts_with("BUILD FAILED") {
            self.last_word = Some(false);
        }
    }

    /// What passed is known only when no other project was silent.
    fn counts(&self) -> Counts {
        let named = |state| self.tests.iter().filter(|told| told.state == state).count() as u64;
        match self.totals {
            Some([run, failed, skipped]) => {
                let tasks = self.quiet_tasks > 0;
                Counts {
                    passed: (!tasks).then(|| run.saturating_sub(failed).saturating_sub(skipped)),
                    failed: Some(failed),
                    skipped: Some(skipped),
                    errors: Some(0),
                }
            }
            None if self.tests.is_empty() => Counts::default(),
            None => Counts {
                passed: Some(named(TestState::Passed)).filter(|&passed| passed > 0),
                failed: Some(named(TestState::Failed)),
                skipped: None,
                errors: Some(0),
            },
        }
    }

    fn take_tests(&self, reading: &mut Reading) {
        for told in &self.tests {
            let id = reading.distinct_test(&java::in_module(&told.project, &told.path.join(".")), told.state);
            if told.state == TestState::Failed {
                reading.failure(told.failure(&id));
            }
        }
    }
}

impl Told {
    fn failure(&self, id: &str) -> jobs::verdict::TestFailure {
        let class = self.path.first().map(String::as_str).unwrap_or_default();
        let first = self.trace.lines().next().unwrap_or_default().trim();
        let mut failure = java::failure(id, class, first.to_owned(), self.trace.clone());
        // The short form is `exception at File.java:12`.
        let short = first.rsplit_once(" at ").and_then(|(_, place)| text::position(place));
        if let (None, Some(at)) = (&failure.file, short.filter(|at| at.rest.is_empty())) {
            failure.file = Some(at.path.to_owned());
            failure.line = Some(at.line);
        }
        failure
    }
}

/// `15 tests completed, 9 failed, 2 skipped`.
fn totals_of(line: &str) -> Option<[u64; 3]> {
    let (run, rest) = text::leading_count(line);
    let rest = rest.strip_prefix(" tests completed").or_else(|| rest.strip_prefix(" test completed"))?;
    let mut totals = [run?, 0, 0];
    for part in rest.split(", ").skip(1) {
        let (count, word) = text::leading_count(part);
        match word.trim() {
            "failed" => totals[1] = count?,
            "skipped" => totals[2] = count?,
            _ => return None,
        }
    }
    Some(totals)
}
