//! What CTest prints: who begins, who ended how, the summary and the list of what failed.

use std::collections::BTreeMap;

use jobs::verdict::TestState;

use crate::reports::junit;
use crate::reports::reading::Input;
use crate::reports::text;

/// A test that was announced by its number.
#[derive(Default)]
pub(super) struct Started {
    pub name: String,
    /// The state, and CTest's own words for it.
    pub result: Option<(TestState, String)>,
    pub output: String,
}

/// A place in a source file.
pub(super) struct Place {
    pub path: String,
    pub line: u32,
    pub column: Option<u32>,
}

/// What was read.
#[derive(Default)]
pub(super) struct Console {
    pub tests: BTreeMap<u32, Started>,
    /// Failed, and of how many.
    pub summary: Option<(u64, u64)>,
    /// CTest says that there is nothing to run, or was only asked what there is.
    pub nothing: bool,
    pub build_errors: Vec<(Place, String)>,
    pub build_stopped: bool,
    current: Option<u32>,
    begun: bool,
    /// It was only asked what there is.
    listed: bool,
}

impl Console {
    pub fn read(input: &Input<'_>) -> Self {
        let mut console = Self::default();
        for line in input.lines() {
            console.line(line);
        }
        console.nothing |= console.listed && console.tests.is_empty();
        console
    }

    fn line(&mut self, line: &str) {
        if let Some((number, name)) = start_line(line) {
            self.begun = true;
            let test = self.tests.entry(number).or_default();
            if test.name.is_empty() {
                test.name = name.to_owned();
            }
            self.current = None;
            return;
        }
        if self.result_line(line) || self.list_line(line) {
            return;
        }
        if let Some(summary) = summary_of(line) {
            self.summary = Some(summary);
            self.current = None;
            return;
        }
        if line.starts_with("No tests were found!!!") {
            self.nothing = true;
        } else if !self.begun {
            self.listed |= line.starts_with("Total Tests: ") || line.trim() == r#""kind" : "ctestInfo","#;
            self.build_line(line);
        }
        if let Some(test) = self.current.and_then(|number| self.tests.get_mut(&number)) {
            junit::append(&mut test.output, line);
            test.output.push('\n');
        }
    }

    /// ` 2/19 Test  #2: fails ....***Failed    0.00 sec`; the last result of a number stands.
    fn result_line(&mut self, line: &str) -> bool {
        let Some((number, rest)) = numbered(line) else { return false };
        let Some(test) = self.tests.get_mut(&number) else { return false };
        let Some(after) = rest.strip_prefix(test.name.as_str()) else { return false };
        let Some(dots) = after.strip_prefix(' ').filter(|dots| dots.starts_with('.')) else { return false };
        let status = dots.trim_start_matches('.');
        let Some(result) = state_of(status) else { return false };
        test.output.clear();
        test.result = Some(result);
        self.current = Some(number);
        true
    }

    /// `\t  3 - segfaults (SEGFAULT)`, under "The following tests FAILED:".
    fn list_line(&mut self, line: &str) -> bool {
        let Some(rest) = line.strip_prefix('\t') else { return false };
        let (number, rest) = text::leading_number(rest.trim_start());
        let (Some(number), Some(rest)) = (number, rest.strip_prefix(" - ")) else { return false };
        let Some(test) = self.tests.get_mut(&number) else { return false };
        let Some(after) = rest.strip_prefix(test.name.as_str()) else { return false };
        // Labels may follow the reason.
        let reason = after
            .trim_start()
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .map(|(reason, _)| reason);
        let Some(reason) = reason else { return false };
        if reason != "Skipped" && reason != "Disabled" {
            test.result = Some((TestState::Failed, reason.to_owned()));
        }
        true
    }

    /// gcc's and clang's errors of `ctest --build-and-test`, and the builder's last word.
    fn build_line(&mut self, line: &str) {
        if line.starts_with("gmake: ***")
            || line.starts_with("make: ***")
            || line.starts_with("ninja: build stopped")
        {
            self.build_stopped = true;
        }
        let Some(at) = text::position(line) else { return };
        let message = [": error: ", ": fatal error: "].iter().find_map(|word| at.rest.strip_prefix(word));
        if let Some(message) = message.filter(|_| self.build_errors.len() < 10_000) {
            let place = Place { path: at.path.to_owned(), line: at.line, column: at.column };
            self.build_errors.push((place, message.to_owned()));
        }
    }
}

/// `    Start  2: fails`.
fn start_line(line: &str) -> Option<(u32, &str)> {
    let rest = line.strip_prefix("    ")?.trim_start().strip_prefix("Start ")?;
    let (number, rest) = text::leading_number(rest.trim_start());
    Some((number?, rest.strip_prefix(": ")?))
}

/// ` 2/19 Test  #2: rest`, without the fraction for a test that is tried again.
fn numbered(line: &str) -> Option<(u32, &str)> {
    let line = line.trim_start();
    let rest = match text::leading_number(line) {
        (Some(_), rest) => text::leading_number(rest.strip_prefix('/')?).1.trim_start(),
        (None, rest) => rest,
    };
    let rest = rest.strip_prefix("Test")?.trim_start().strip_prefix('#')?;
    let (number, rest) = text::leading_number(rest);
    Some((number?, rest.strip_prefix(": ")?))
}

/// What stands behind the dots.
fn state_of(status: &str) -> Option<(TestState, String)> {
    if let Some(rest) = status.trim_start().strip_prefix("Passed ") {
        return rest.trim_end().ends_with("sec").then(|| (TestState::Passed, "Passed".to_owned()));
    }
    let (before, after) = status.split_once("***")?;
    let after = after.trim_end();
    let words = after.strip_suffix("sec").map_or(after, |head| {
        head.trim_end().trim_end_matches(|digit: char| digit.is_ascii_digit() || digit == '.').trim_end()
    });
    let words = format!(
        "{}{}",
        if before.trim().is_empty() { String::new() } else { format!("{} ", before.trim()) },
        words
    );
    let skipped = words == "Skipped" || words == "Not Run (Disabled)";
    Some((if skipped { TestState::Skipped } else { TestState::Failed }, words))
}

/// `50% tests passed, 1 tests failed out of 2`, and since 4.x `100% tests passed out of 2`.
fn summary_of(line: &str) -> Option<(u64, u64)> {
    let (percent, rest) = text::leading_count(line);
    let rest = rest.strip_prefix("% tests passed").filter(|_| percent.is_some())?;
    if let Some(total) = rest.strip_prefix(" out of ") {
        return Some((0, total.trim().parse().ok()?));
    }
    let (failed, rest) = text::leading_count(rest.strip_prefix(", ")?);
    let total =
        rest.strip_prefix(" tests failed out of ").or_else(|| rest.strip_prefix(" test failed out of "))?;
    Some((failed?, total.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
        for (status, state, words) in [
            ("   Passed    0.00 sec", TestState::Passed, "Passed"),
            ("***Failed    0.00 sec", TestState::Failed, "Failed"),
            ("***Exception: SegFault  0.00 sec", TestState::Failed, "Exception: SegFault"),
            ("Child aborted***Exception:   0.00 sec", TestState::Failed, "Child aborted Exception:"),
            ("***Not Run (Disabled)   0.00 sec", TestState::Skipped, "Not Run (Disabled)"),
            ("***Not Run   0.00 sec", TestState::Failed, "Not Run"),
            (
                "***Failed  Required regular expression not found. Regex=[x",
                TestState::Failed,
                "Failed  Required regular expression not found. Regex=[x",
            ),
        ] {
            assert_eq!(state_of(status), Some((state, words.to_owned())), "{status}");
        }
        assert_eq!(state_of(" nonsense"), None);
    }

    #[test]
    fn summaries_of_all_versions_are_read() {
        assert_eq!(summary_of("50% tests passed, 1 tests failed out of 2"), Some((1, 2)));
        assert_eq!(summary_of("100% tests passed out of 2"), Some((0, 2)));
        assert_eq!(summary_of("% tests passed out of 2"), None);
    }
}
