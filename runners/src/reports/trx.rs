//! TRX, the result files of vstest and of the Microsoft testing platform.

use std::collections::BTreeMap;

use jobs::verdict::TestState;

use super::junit;
use super::xml::{self, Node};

/// More results than this in one document are not kept.
const RESULTS: usize = 200_000;

/// One `UnitTestResult`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub name: String,
    pub outcome: String,
    pub message: String,
    pub trace: String,
    test_id: String,
}

/// One document.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub results: Vec<Outcome>,
    /// `ResultSummary`: Completed, Failed, Aborted.
    pub outcome: Option<String>,
    /// What the run itself complains about.
    pub run_errors: Vec<String>,
    pub whole: bool,
    pub is_trx: bool,
}

impl Outcome {
    /// The state; an outcome that nobody knows is no pass.
    pub fn state(&self) -> TestState {
        match self.outcome.as_str() {
            "Passed" | "Completed" | "Warning" => TestState::Passed,
            "NotExecuted" | "NotRunnable" | "Pending" | "Inconclusive" | "Skipped" => TestState::Skipped,
            _ => TestState::Failed,
        }
    }
}

#[derive(Default)]
struct Builder {
    document: Document,
    /// Results that are open: rows of a data-driven test lie within its own.
    open: Vec<Outcome>,
    classes: BTreeMap<String, String>,
    definition: Option<String>,
    run_error: bool,
    collecting: Option<Target>,
    seen_root: bool,
}

#[derive(Clone, Copy)]
enum Target {
    Message,
    Trace,
    RunText,
}

/// Reads a document; never fails, but says whether it was whole.
pub(super) fn parse(bytes: &[u8]) -> Document {
    let mut builder = Builder::default();
    let end = xml::walk(bytes, |node| builder.visit(node));
    builder.document.whole = end.is_ok();
    builder.name_classes();
    builder.document
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
        let text = |name: &str| element.attribute(name).unwrap_or_default();
        let name = element.name.as_str();
        if !self.seen_root {
            self.seen_root = true;
            self.document.is_trx = name == "TestRun";
        }
        match name {
            "UnitTestResult" => self.open.push(Outcome {
                name: resolve_pairs(&text("testName")),
                outcome: text("outcome"),
                test_id: text("testId"),
                ..Outcome::default()
            }),
            "Message" if !self.open.is_empty() => self.collecting = Some(Target::Message),
            "StackTrace" => self.collecting = Some(Target::Trace),
            "UnitTest" => self.definition = element.attribute("id"),
            "TestMethod" => {
                if let (Some(id), Some(class)) = (self.definition.take(), element.attribute("className")) {
                    // Old writers give the assembly behind a comma.
                    let class = class.split(',').next().unwrap_or_default().trim().to_owned();
                    self.classes.insert(id, class);
                }
            }
            "ResultSummary" => self.document.outcome = element.attribute("outcome"),
            "RunInfo" => self.run_error = text("outcome") == "Error",
            "Text" if self.run_error => {
                self.collecting = Some(Target::RunText);
                if self.document.run_errors.len() < 100 {
                    self.document.run_errors.push(String::new());
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        let target = match (self.collecting, self.open.last_mut()) {
            (Some(Target::Message), Some(result)) => &mut result.message,
            (Some(Target::Trace), Some(result)) => &mut result.trace,
            (Some(Target::RunText), _) => match self.document.run_errors.last_mut() {
                Some(error) => error,
                None => return,
            },
            (Some(Target::Message | Target::Trace) | None, _) => return,
        };
        junit::append(target, text);
    }

    fn close(&mut self, name: &str) {
        match name {
            "UnitTestResult" => {
                if let Some(result) = self.open.pop().filter(|_| self.document.results.len() < RESULTS) {
                    self.document.results.push(result);
                }
            }
            "Message" | "StackTrace" | "Text" => self.collecting = None,
            "RunInfo" => self.run_error = false,
            _ => {}
        }
    }

    /// A bare method name gets its class, so that two classes may have the same method.
    fn name_classes(&mut self) {
        for result in &mut self.document.results {
            let head = result.name.split('(').next().unwrap_or_default();
            if let Some(class) = self.classes.get(&result.test_id).filter(|class| !class.is_empty())
                && !head.contains('.')
            {
                result.name = format!("{class}.{}", result.name);
            }
        }
    }
}

/// Old writers spell characters beyond the basic plane as two `\\uXXXX`.
fn resolve_pairs(name: &str) -> String {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("\\u") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let pair = unit(rest).zip(rest.get(6..).and_then(unit));
        let found = pair.and_then(|(high, low)| char::decode_utf16([high, low]).next()?.ok());
        match found.filter(|&found| found > '\u{ffff}') {
            Some(found) => {
                out.push(found);
                rest = &rest[12..];
            }
            None => {
                out.push_str("\\u");
                rest = &rest[2..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_outcome_is_no_pass() {
        for (outcome, state) in [
            ("Passed", TestState::Passed),
            ("NotExecuted", TestState::Skipped),
            ("Timeout", TestState::Failed),
            ("Aborted", TestState::Failed),
            ("", TestState::Failed),
            ("passed", TestState::Failed),
        ] {
            let outcome = Outcome { outcome: outcome.to_owned(), ..Outcome::default() };
            assert_eq!(outcome.state(), state, "{outcome:?}");
        }
    }

    #[test]
    fn escaped_pairs_become_characters_and_the_rest_stays() {
        assert_eq!(resolve_pairs(r"a \ud83c\udf89 b"), "a \u{1f389} b");
        for plain in [r"C:\users", r"\u0041\u0042", r"\ud83c", r"\ud83c\u0041", "\\uß123"] {
            assert_eq!(resolve_pairs(plain), plain);
        }
    }

    #[test]
    fn a_bare_method_is_named_with_its_class_and_a_cut_file_is_told() {
        let text = r#"<TestRun><Results><UnitTestResult testId="1" testName="Adds(1)" outcome="Passed"/></Results>
            <TestDefinitions><UnitTest id="1"><TestMethod className="A.B, C" name="Adds"/></UnitTest></TestDefinitions>
            <ResultSummary outcome="Completed"/></TestRun>"#;
        let document = parse(text.as_bytes());
        assert!(document.whole && document.is_trx);
        assert_eq!(document.results[0].name, "A.B.Adds(1)");
        assert!(!parse(&text.as_bytes()[..200]).whole);
    }
}
