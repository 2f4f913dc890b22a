//! Tests that a patch takes away, renames, empties or makes hold always.
//!
//! In a file of tests every line that is gone is something that a test did; a test that must say something
//! else is for a person to change. New tests and new lines are free, but for what undoes a test.

use std::collections::BTreeMap;

use super::diff::{FileDiff, Line, Side};
use super::patterns::squeeze;
use super::regions::lines_of_tests;
use super::{FlagKind, PatchFacts, rebound};

/// Whether a path is one of tests, of what they read, or of what they are compared with.
pub(super) fn is_test_path(path: &str) -> bool {
    let path = path.to_lowercase();
    let folders = [
        "test",
        "tests",
        "testing",
        "testdata",
        "spec",
        "specs",
        "__tests__",
        "__snapshots__",
        "snapshots",
        "e2e",
    ];
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
    if folder
        .split('/')
        .any(|part| folders.contains(&part) || part.ends_with("tests") || part.ends_with(".tests"))
    {
        return true;
    }
    let stem = name.split('.').next().unwrap_or(name);
    name == "conftest.py"
        || name == "tests.rs"
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
        || stem.ends_with("_spec")
        || [".test.", ".spec.", ".snap"].iter().any(|part| name.contains(part))
        || [".java", ".kt", ".cs", ".fs", ".groovy", ".scala"].iter().any(|end| {
            name.strip_suffix(end).is_some_and(|stem| {
                stem.ends_with("test")
                    || stem.ends_with("tests")
                    || stem.ends_with("spec")
                    || stem.starts_with("test")
            })
        })
}

/// Flags what a patch does to the tests of one file.
pub(super) fn look(facts: &mut PatchFacts, file: &FileDiff) {
    let old_is_test = file.old_path.as_deref().is_some_and(is_test_path);
    if old_is_test && file.deleted {
        facts.flag(FlagKind::TestDeleted, file, None, "the file is deleted");
        return;
    }
    if old_is_test && file.renamed() {
        let old = file.old_path.clone().unwrap_or_default();
        facts.flag(FlagKind::TestDeleted, file, None, &format!("it was {old}"));
    }
    if old_is_test && file.binary {
        facts.flag(FlagKind::TestWeakened, file, None, "a binary file of the tests is changed");
    }
    let lines = in_tests(file, old_is_test || is_test_path(file.path()));
    deleted_tests(facts, file);
    changed_lines(facts, file, &lines);
    undone_tests(facts, file, &lines);
    rebound::look(facts, file, &lines);
}

/// The lines that belong to tests: all of a file of tests, or the parts of another that are tests.
fn in_tests(file: &FileDiff, whole: bool) -> Vec<&Line> {
    if whole {
        return file.lines.iter().filter(|line| line.side != Side::Header).collect();
    }
    if [".rs", ".py"].iter().any(|end| file.path().ends_with(end)) {
        return lines_of_tests(file);
    }
    Vec::new()
}

/// What names a test in a line: a function, a title, or an attribute before a function.
fn test_named(path: &str, text: &str) -> Option<String> {
    let text = text.trim();
    let after = |word: &str| text.strip_prefix(word);
    let name_of = |rest: &str| {
        rest.split(|next: char| !next.is_alphanumeric() && next != '_').next().map(str::to_owned)
    };
    let ends = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
    if ends(&[".py"]) {
        let function = after("def ").or_else(|| after("async def ")).filter(|rest| rest.starts_with("test"));
        return function
            .or_else(|| after("class ").filter(|rest| rest.starts_with("Test")))
            .and_then(name_of);
    }
    if ends(&[".go"]) {
        let rest = after("func ")?;
        return ["Test", "Fuzz", "Example", "Benchmark"]
            .iter()
            .any(|word| rest.starts_with(word))
            .then(|| name_of(rest))?;
    }
    if ends(&[".rs"]) {
        let attributes =
            ["#[test]", "#[tokio::test", "#[rstest", "#[case", "#[test_case", "#[async_std::test"];
        return attributes.iter().find(|word| text.starts_with(**word)).map(|word| (*word).to_owned());
    }
    if ends(&[".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts"]) {
        return ["it(", "test(", "describe(", "it.each", "test.each"].iter().find_map(|word| {
            let rest = after(word)?;
            let quote = rest.find(['"', '\'', '`'])?;
            Some(squeeze(&rest[quote + 1..]))
        });
    }
    let words: &[&str] = if ends(&[".java", ".kt", ".groovy", ".scala"]) {
        &[
            "@Test",
            "@ParameterizedTest",
            "@RepeatedTest",
            "@TestFactory",
            "@ValueSource",
            "@CsvSource",
            "@MethodSource",
        ]
    } else if ends(&[".cs", ".fs", ".vb"]) {
        &["[Fact", "[Theory", "[Test", "[InlineData", "[DataRow", "[TestCase", "[DataTestMethod"]
    } else if ends(&[".c", ".cc", ".cpp", ".cxx"]) {
        return ["TEST(", "TEST_F(", "TEST_P(", "TEST_CASE(", "BOOST_AUTO_TEST_CASE("]
            .iter()
            .any(|word| text.starts_with(word))
            .then(|| squeeze(text));
    } else if ends(&["CMakeLists.txt", ".cmake"]) {
        let squeezed = squeeze(text);
        return ["add_test(", "gtest_discover_tests(", "catch_discover_tests("]
            .iter()
            .any(|word| squeezed.starts_with(word))
            .then_some(squeezed);
    } else {
        &[]
    };
    words.iter().find(|word| text.starts_with(**word)).map(|word| (*word).to_owned())
}

/// Tests that were named more often before than after.
fn deleted_tests(facts: &mut PatchFacts, file: &FileDiff) {
    let mut balance: BTreeMap<String, i64> = BTreeMap::new();
    for line in &file.lines {
        let step = match line.side {
            Side::Added => 1,
            Side::Removed => -1,
            Side::Context | Side::Header => continue,
        };
        if let Some(name) = test_named(file.path(), &line.text) {
            *balance.entry(name).or_default() += step;
        }
    }
    for (name, _) in balance.iter().filter(|(_, balance)| **balance < 0) {
        facts.flag(FlagKind::TestDeleted, file, None, name);
    }
}

/// Lines of tests that are gone, say something else, or stand deeper, where a condition decides over them.
fn changed_lines(facts: &mut PatchFacts, file: &FileDiff, lines: &[&Line]) {
    let indent = |line: &Line| line.text.len() - line.text.trim_start().len();
    let mut added: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for line in file.added() {
        added.entry(plain(&line.text)).or_default().push(indent(line));
    }
    let mut gone = |line: &Line| {
        let text = plain(&line.text);
        if text.is_empty() || is_aside(file.path(), line.text.trim()) {
            return;
        }
        let again = added.get_mut(&text).filter(|places| !places.is_empty());
        // The shallowest first: a line that moved within its block is not held against it.
        let place = again.and_then(|places| {
            let least = (0..places.len()).min_by_key(|&at| places[at])?;
            Some(places.swap_remove(least))
        });
        if place.is_none_or(|place| place > indent(line)) {
            facts.flag(FlagKind::TestWeakened, file, None, &line.text);
        }
    };
    for line in lines.iter().filter(|line| line.side == Side::Removed) {
        gone(line);
    }
    // Rust keeps unit tests beside the code, and a hunk need not show where they begin.
    if lines.is_empty() && file.path().ends_with(".rs") {
        for line in file.removed().filter(|line| {
            ["assert_eq!(", "assert_ne!("].iter().any(|word| line.text.trim().starts_with(word))
        }) {
            gone(line);
        }
    }
}

/// What a line says, without white space and a trailing comma.
fn plain(text: &str) -> String {
    let text: String = text.chars().filter(|next| !next.is_whitespace()).collect();
    text.trim_end_matches([',', ';']).to_owned()
}

/// Comments, imports and lone brackets assert nothing.
fn is_aside(path: &str, text: &str) -> bool {
    let comment = if path.ends_with(".py") || path.ends_with(".rb") {
        text.starts_with('#')
    } else {
        text.starts_with("//") || text.starts_with("* ")
    };
    let imports = ["import ", "from ", "use ", "using ", "#include", "package "];
    comment
        || imports.iter().any(|word| text.starts_with(word))
        || text.chars().all(|next| matches!(next, '{' | '}' | '(' | ')' | '[' | ']' | ';' | ','))
}

/// Added lines that undo a test though nothing of it is gone.
fn undone_tests(facts: &mut PatchFacts, file: &FileDiff, lines: &[&Line]) {
    let whole_lines = [
        "return",
        "return;",
        "returnnone",
        "returnok(())",
        "returnok(());",
        "pass",
        "return0;",
        "#if0",
        "/*",
    ];
    let always = [
        "asserttrue",
        "assert1",
        "assert!(true",
        "asserttrue(true",
        "assert.true(true",
        "assert.istrue(true",
        "expect(true).",
        "expect(1).tobe(1)",
        "ortrue",
        "||true",
        "iffalse",
        "if(false)",
        "if0:",
        "whilefalse",
        "exceptassertionerror",
        "except(assertionerror",
        "exceptexception",
        "exceptbaseexception",
        "except:",
        "contextlib.suppress",
        "catch(",
        "catch{",
    ];
    let is_always = |line: &str| {
        whole_lines.contains(&line)
            || always.iter().any(|word| match *word {
                // `assert True`, but not `self.assertTrue(x)`.
                "asserttrue" | "assert1" => {
                    line == *word
                        || line.starts_with(&format!("{word},"))
                        || line.starts_with(&format!("{word}#"))
                }
                _ => line.contains(word),
            })
    };
    // A file of tests that is new undoes nothing; what it shadows is seen by the tests' ids.
    if file.old_path.is_none() {
        return;
    }
    let removed =
        lines.iter().filter(|line| line.side == Side::Removed && is_always(&squeeze(&line.text))).count();
    let added = lines.iter().filter(|line| line.side == Side::Added && is_always(&squeeze(&line.text)));
    for line in added.skip(removed) {
        facts.flag(FlagKind::TestWeakened, file, Some(line.number), &line.text);
    }
}
