//! Words in code that silence a finding, set a test aside or pretend to be a report.
//!
//! A line is compared without white space and in lower case, so that neither hides a word. Of each word only
//! what a patch adds beyond what it takes away from the same file counts.

use super::diff::{FileDiff, Line};
use super::test_code::is_test_path;
use super::{FlagKind, PatchFacts};

/// Where a word means what it says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum In {
    /// Any file but prose.
    Code,
    /// Files whose name ends so.
    Files(&'static [&'static str]),
    /// Files of tests.
    Tests,
}

pub(super) const PYTHON: In = In::Files(&[".py", ".pyi", ".pyx"]);
pub(super) const RUST: In = In::Files(&[".rs"]);
pub(super) const SCRIPT: In =
    In::Files(&[".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte"]);
pub(super) const GO: In = In::Files(&[".go"]);
pub(super) const JVM: In = In::Files(&[".java", ".kt", ".kts", ".groovy", ".scala"]);
const DOTNET: In = In::Files(&[".cs", ".fs", ".vb", ".csproj", ".fsproj", ".props", ".targets"]);
pub(super) const NATIVE: In = In::Files(&[".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"]);
pub(super) const CMAKE: In = In::Files(&["cmakelists.txt", ".cmake"]);

/// A word without white space, in lower case, and where it counts.
pub(super) type Word = (&'static str, In);

const SUPPRESSIONS: &[Word] = &[
    ("#noqa", In::Code),
    (":noqa", In::Code),
    ("type:ignore", In::Code),
    ("pyright:ignore", In::Code),
    ("#pyright:", PYTHON),
    ("#mypy:", PYTHON),
    ("pylint:disable", In::Code),
    ("pragma:nocover", In::Code),
    ("#nosec", PYTHON),
    ("no_type_check", PYTHON),
    ("filterwarnings(", PYTHON),
    ("simplefilter(", PYTHON),
    ("[allow(", RUST),
    ("[expect(", RUST),
    ("[warn(", RUST),
    (",allow(", RUST),
    (",expect(", RUST),
    ("--cap-lints", In::Code),
    ("@ts-ignore", In::Code),
    ("@ts-expect-error", In::Code),
    ("@ts-nocheck", In::Code),
    ("eslint-disable", In::Code),
    ("/*eslint", SCRIPT),
    ("tslint:disable", In::Code),
    ("biome-ignore", In::Code),
    ("istanbulignore", In::Code),
    ("c8ignore", In::Code),
    ("v8ignore", In::Code),
    ("//nolint", GO),
    ("//lint:ignore", GO),
    ("@suppresswarnings", JVM),
    ("@suppress(", JVM),
    ("//noinspection", In::Code),
    ("nosonar", In::Code),
    ("suppressfbwarnings", JVM),
    ("#pragmawarningdisable", DOTNET),
    ("suppressmessage(", DOTNET),
    ("<nowarn>", DOTNET),
    ("#nullabledisable", DOTNET),
    ("nolint", NATIVE),
    ("diagnosticignored", NATIVE),
];

const SET_ASIDE: &[Word] = &[
    ("mark.skip", PYTHON),
    ("mark.xfail", PYTHON),
    ("pytest.skip(", PYTHON),
    ("pytest.xfail(", PYTHON),
    ("importorskip(", PYTHON),
    ("unittest.skip", PYTHON),
    ("@skip", PYTHON),
    ("expectedfailure", PYTHON),
    ("skiptest", PYTHON),
    ("collect_ignore", PYTHON),
    ("__test__=", PYTHON),
    ("#[ignore", RUST),
    (",ignore)]", RUST),
    (",ignore=", RUST),
    ("#[should_panic", RUST),
    ("cfg(any())", RUST),
    ("cfg(false)", RUST),
    ("cfg(not(test))", RUST),
    ("cfg(not(all()))", RUST),
    ("required-features", In::Code),
    (".skip(", SCRIPT),
    (".skipif(", SCRIPT),
    (".runif(", SCRIPT),
    (".only(", SCRIPT),
    (".only.each", SCRIPT),
    (".todo(", SCRIPT),
    (".failing(", SCRIPT),
    (".fails(", SCRIPT),
    (".skip(", GO),
    (".skipf(", GO),
    (".skipnow(", GO),
    ("testing.short()", GO),
    ("//go:buildignore", GO),
    ("//+buildignore", GO),
    ("@disabled", JVM),
    ("@ignore", JVM),
    ("@enabledif", JVM),
    ("@enabledon", JVM),
    ("assumetrue(", JVM),
    ("assumefalse(", JVM),
    ("assumethat(", JVM),
    ("skip=\"", DOTNET),
    ("[ignore", DOTNET),
    ("[explicit", DOTNET),
    ("assert.inconclusive(", DOTNET),
    ("assert.ignore(", DOTNET),
    ("gtest_skip(", NATIVE),
    ("disabledtrue", CMAKE),
    ("disabledon", CMAKE),
    ("will_fail", CMAKE),
    ("skip_return_code", CMAKE),
    ("skip_regular_expression", CMAKE),
];

/// Functions of JavaScript frameworks that begin a word: `xit(`, but not `exit(`.
const SET_ASIDE_CALLS: &[&str] = &["xit(", "xtest(", "xdescribe(", "fit(", "fdescribe(", "ftest("];

const FAKE_REPORTS: &[Word] = &[
    ("testresult:", In::Code),
    ("testspassed", In::Code),
    ("passed,0failed", In::Code),
    ("buildsuccess", In::Code),
    ("testrunsuccessful", In::Code),
    ("testrunsummary:", In::Code),
    ("<testsuite", In::Code),
    ("<testcase", In::Code),
    ("<unittestresult", In::Code),
    ("---pass:", In::Code),
    ("junitxml", In::Code),
    ("junit.xml", In::Code),
    (".trx", In::Code),
    (".whipstitch", In::Code),
    ("surefire-reports", In::Code),
    ("test-results/", In::Code),
    ("numpassedtests", In::Code),
    ("testsuites:", In::Code),
];

/// Flags what a file's added lines say.
pub(super) fn look(facts: &mut PatchFacts, file: &FileDiff) {
    let path = file.path().to_lowercase();
    let report_folders = [".whipstitch-reports/", "surefire-reports/", "build/test-results/"];
    if report_folders.iter().any(|folder| path.contains(folder)) {
        facts.flag(FlagKind::FakeReport, file, None, "it is a place where reports are written");
    }
    if [".md", ".rst", ".adoc"].iter().any(|end| path.ends_with(end)) {
        return;
    }
    let added: Vec<(&Line, String)> = file.added().map(|line| (line, squeeze(&line.text))).collect();
    let removed: Vec<String> = file.removed().map(|line| squeeze(&line.text)).collect();
    let tests = is_test_path(&path);
    for (kind, words) in [
        (FlagKind::Suppression, SUPPRESSIONS),
        (FlagKind::TestSetAside, SET_ASIDE),
        (FlagKind::FakeReport, FAKE_REPORTS),
    ] {
        for (word, _) in words.iter().filter(|(_, place)| counts_in(*place, &path, tests)) {
            surplus(facts, file, kind, (&added, &removed), |line| line.contains(*word));
        }
    }
    if counts_in(SCRIPT, &path, tests) {
        for call in SET_ASIDE_CALLS {
            surplus(facts, file, FlagKind::TestSetAside, (&added, &removed), |line| begins_word(line, call));
        }
    }
    if counts_in(RUST, &path, tests) {
        // An attribute may be broken over lines.
        let broken = |line: &str| line.starts_with("allow(") || line.starts_with("expect(");
        surplus(facts, file, FlagKind::Suppression, (&added, &removed), broken);
    }
    let says_passed = |line: &str| {
        line.match_indices("passedin").any(|(at, word)| {
            line[at + word.len()..].starts_with(|next: char| next.is_ascii_digit() || next == '{')
        })
    };
    surplus(facts, file, FlagKind::FakeReport, (&added, &removed), says_passed);
}

pub(super) fn counts_in(place: In, path: &str, tests: bool) -> bool {
    match place {
        In::Code => true,
        In::Files(ends) => ends.iter().any(|end| path.ends_with(end)),
        In::Tests => tests,
    }
}

/// Flags the added lines that match beyond as many as were taken away.
pub(super) fn surplus(
    facts: &mut PatchFacts,
    file: &FileDiff,
    kind: FlagKind,
    (added, removed): (&[(&Line, String)], &[String]),
    matches: impl Fn(&str) -> bool,
) {
    let balanced = removed.iter().filter(|line| matches(line)).count();
    let fresh = added.iter().filter(|(_, text)| matches(text));
    // A line that is still there word by word is not the new one.
    let mut left: Vec<&(&Line, String)> = fresh.collect();
    if left.len() <= balanced {
        return;
    }
    left.sort_by_key(|(_, text)| !removed.contains(text));
    for (line, _) in left.into_iter().skip(balanced) {
        facts.flag(kind, file, Some(line.number), &line.text);
    }
}

/// Whether the call begins a word of the line.
fn begins_word(line: &str, call: &str) -> bool {
    line.match_indices(call).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !matches!(before, '.' | '_' | '$'))
    })
}

/// A line without white space, in lower case.
pub(super) fn squeeze(line: &str) -> String {
    line.chars().filter(|next| !next.is_whitespace()).flat_map(char::to_lowercase).collect()
}
