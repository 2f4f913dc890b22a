//! The console of `go test`, with and without `-v`, and what the compiler and vet print before it.

use jobs::verdict::TestState;

use super::package::{End, Package};
use crate::reports::text;

/// A place in a source file.
pub(super) struct Place {
    pub path: String,
    pub line: u32,
    pub column: Option<u32>,
}

/// What was read so far.
#[derive(Default)]
pub(super) struct Console {
    pub done: Vec<Package>,
    package: Package,
    /// Lines are of the compiler: a `# package` line came, and nothing of a test yet.
    building: bool,
    pub build_errors: Vec<(Place, String)>,
    /// What the go command itself complains about.
    pub complaints: Vec<String>,
    /// Without `-v`, the result that the line before printed.
    tentative: Option<String>,
}

/// A `--- PASS: Name (0.00s)` in a line.
pub(super) struct Printed<'a> {
    pub before: &'a str,
    pub state: TestState,
    pub name: &'a str,
}

/// The result at the end of a line, with what stands before it.
pub(super) fn printed_result(line: &str) -> Option<Printed<'_>> {
    let (start, state) = [
        ("--- PASS: ", TestState::Passed),
        ("--- FAIL: ", TestState::Failed),
        ("--- SKIP: ", TestState::Skipped),
    ]
    .into_iter()
    .filter_map(|(word, state)| line.rfind(word).map(|at| (at, state)))
    .max_by_key(|&(at, _)| at)?;
    let (name, time) = line[start + 10..].trim_end().strip_suffix("s)")?.rsplit_once(" (")?;
    let timed = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let named = !name.is_empty() && !name.contains(char::is_whitespace);
    (timed && named).then_some(Printed { before: &line[..start], state, name })
}

/// `=== RUN   Name` and its like, perhaps behind text without a line end.
pub(super) fn announcement(line: &str) -> Option<(&str, &str, &str)> {
    if line.starts_with(' ') {
        return None;
    }
    ["=== RUN   ", "=== CONT  ", "=== PAUSE ", "=== NAME  "].into_iter().find_map(|word| {
        let at = line.rfind(word)?;
        let name = line[at + word.len()..].trim_end();
        (!name.contains(char::is_whitespace)).then_some((&line[..at], word, name))
    })
}

impl Console {
    pub fn line(&mut self, line: &str) {
        let tentative = self.tentative.take();
        if let Some((before, word, name)) = announcement(line) {
            self.announce(before, word, name);
            return;
        }
        if let Some(result) = printed_result(line)
            && self.take_result(line, &result)
        {
            return;
        }
        if let Some(name) = tentative.filter(|_| line == "PASS" || line.starts_with("ok  \t")) {
            // A binary that says PASS has no failing test: the line before was printed by a test.
            self.package.withdraw(&name);
        }
        if self.package_line(line) || self.compiler_line(line) {
            return;
        }
        self.package.print(&format!("{line}\n"));
    }

    fn announce(&mut self, before: &str, word: &str, name: &str) {
        self.building = false;
        if !before.is_empty() {
            self.package.print(before);
        }
        match word {
            "=== RUN   " => self.package.run(name),
            "=== PAUSE " => self.package.current = None,
            _ if name.is_empty() => self.package.current = None,
            _ if self.package.knows(name) => self.package.current = Some(name.to_owned()),
            _ => {}
        }
    }

    /// Takes a result; false when it is no more than a printed line.
    fn take_result(&mut self, line: &str, result: &Printed<'_>) -> bool {
        let spaces = result.before.len();
        let nested = !result.before.is_empty() && result.before.bytes().all(|byte| byte == b' ');
        let depth = result.name.matches('/').count();
        let fits = match (result.before.is_empty(), nested) {
            (true, _) => true,
            (false, true) => spaces.is_multiple_of(4) && spaces / 4 <= depth && self.has_parent(result.name),
            (false, false) => is_function(result.name),
        };
        let announced = self.package.announced;
        if !fits || (announced && !self.package.knows(result.name)) {
            if announced && result.before.is_empty() {
                self.package.result(result.name, result.state);
            }
            return false;
        }
        self.building = false;
        if announced && !result.before.is_empty() && !nested {
            self.package.print(result.before);
        }
        if !announced && !nested {
            self.tentative = Some(result.name.to_owned()).filter(|_| line.starts_with("---"));
        }
        self.package.result(result.name, result.state);
        true
    }

    fn has_parent(&self, name: &str) -> bool {
        name.match_indices('/').any(|(at, _)| self.package.knows(&name[..at]))
    }

    /// `ok`, `FAIL` and `?` lines, which end a package.
    fn package_line(&mut self, line: &str) -> bool {
        let rest = |start: &str| line.strip_prefix(start).filter(|rest| !rest.is_empty());
        if let Some(rest) = rest("ok  \t") {
            if self.package.any_running() {
                return false;
            }
            self.close(rest, if rest.contains("[no tests to run]") { None } else { Some(End::Ok) });
        } else if let Some(rest) = rest("FAIL\t") {
            let unbuilt = rest.ends_with("[build failed]") || rest.ends_with("[setup failed]");
            let explained = ["exit status ", "signal: ", "FAIL", "panic: "]
                .iter()
                .any(|start| self.package.last_line().starts_with(start));
            if self.package.any_running() && !explained {
                return false;
            }
            self.close(rest, Some(if unbuilt { End::Unbuilt } else { End::Failed }));
        } else if let Some(rest) = rest("?   \t") {
            if self.package.any_running() || !rest.contains("[no test files]") {
                return false;
            }
            self.close(rest, Some(End::NoTests));
        } else {
            return false;
        }
        true
    }

    fn close(&mut self, rest: &str, end: Option<End>) {
        let name = rest.split(['\t', ' ']).next().unwrap_or(rest);
        let mut package = std::mem::take(&mut self.package);
        package.name = Some(text::cut(name, 500));
        match end {
            Some(end) => package.end(end),
            None => package.end_empty(),
        }
        self.building = false;
        self.done.push(package);
    }

    /// What the go command, the compiler and vet print.
    fn compiler_line(&mut self, line: &str) -> bool {
        if self.package.any_running() {
            return false;
        }
        if line.starts_with("# ") {
            self.building = true;
            return true;
        }
        let complaint =
            ["go: cannot find", "go: no such", "go: errors parsing", "no Go files in", "flag provided"]
                .iter()
                .any(|start| line.starts_with(start));
        if complaint && self.complaints.len() < 20 {
            self.complaints.push(text::cut(line, 300));
        }
        self.building && self.build_line(line)
    }

    /// One line of a build's output; tells whether it names a place.
    pub fn build_line(&mut self, line: &str) -> bool {
        let line = line.strip_prefix("vet: ").unwrap_or(line);
        let Some(at) = text::position(line).filter(|at| at.path.ends_with(".go")) else { return false };
        let Some(message) = at.rest.strip_prefix(": ") else { return false };
        if self.build_errors.len() < 10_000 {
            let place = Place { path: at.path.to_owned(), line: at.line, column: at.column };
            self.build_errors.push((place, message.to_owned()));
        }
        true
    }

    /// The package that has no end, when something is known of it.
    pub fn finish(&mut self) -> Option<Package> {
        let package = std::mem::take(&mut self.package);
        (!package.is_empty()).then_some(package)
    }
}

/// Whether a name is one that `go test` runs.
fn is_function(name: &str) -> bool {
    ["Test", "Example", "Fuzz", "Benchmark"].iter().any(|start| name.starts_with(start))
}
