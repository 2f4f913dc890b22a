//! The rules of the house that no compiler holds. Each panic names the page that explains the rule.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const ARCHITECTURE: &str = "see docs/ARCHITECTURE.md";
const CONVENTIONS: &str = "see docs/CONVENTIONS.md";

/// The crates whose code runs in the service.
const CRATES: [&str; 5] = ["app", "webhooks", "runners", "jobs", "receipts"];

/// A file of Rust.
struct Source {
    /// From the root of the repository.
    path: String,
    /// All of it.
    text: String,
}

impl Source {
    /// Whether the whole file is tests.
    fn is_test(&self) -> bool {
        ["/tests/", "/benches/", "/tests.rs", "/testing.rs"].iter().any(|part| self.path.contains(part))
            || self.path.starts_with("tests/")
    }

    /// The file without its tests and comments; strings stay.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.text.find("#[cfg(test)]\nmod tests {").unwrap_or(self.text.len());
        let lines = self.text[..end].lines().enumerate();
        lines.filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(at, line)| (at + 1, line))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every file of Rust in these folders of the repository.
fn sources(folders: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !matches!(name.as_str(), "target" | "fixtures" | "corpus") {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

fn service() -> Vec<Source> {
    let found = sources(&CRATES);
    assert!(found.len() > 100, "the rules look at the real code");
    found
}

/// Lines of code, outside of `homes`, that `breaks` holds for.
fn offenders(found: &[Source], homes: &[&str], breaks: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for source in found.iter().filter(|source| !source.is_test()) {
        if homes.iter().any(|home| source.path.starts_with(home)) {
            continue;
        }
        let broken = source.code().filter(|(_, line)| breaks(line));
        lines.extend(broken.map(|(at, line)| format!("{}:{at}: {}", source.path, line.trim())));
    }
    lines
}

fn assert_none(offenders: &[String], rule: &str, page: &str) {
    assert!(offenders.is_empty(), "{rule}; {page}\n{}", offenders.join("\n"));
}

/// Whether `line` names something of the crate `name`.
fn names(line: &str, name: &str) -> bool {
    let path = format!("{name}::");
    line.match_indices(&path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | ':' | '"'))
    })
}

#[test]
fn each_heavy_dependency_has_one_home() {
    let homes: [(&str, &[&str]); 11] = [
        ("axum", &["webhooks/src/receive.rs", "app/src/http"]),
        ("octocrab", &["webhooks/src/github/"]),
        ("jsonwebtoken", &["webhooks/src/github/"]),
        ("hmac", &["webhooks/src/authenticate.rs"]),
        ("sqlx", &["jobs/src/store/"]),
        ("ed25519_dalek", &["receipts/src/"]),
        ("gix", &["runners/src/workspace/", "webhooks/src/local/"]),
        ("landlock", &["runners/src/sandbox/"]),
        ("tree_sitter", &["runners/src/navigate/"]),
        ("grep_searcher", &["runners/src/navigate/"]),
        ("bm25", &["runners/src/navigate/"]),
    ];
    let found = service();
    for (name, homes) in homes {
        let rule = format!("`{name}` is used outside of {}", homes.join(" and "));
        assert_none(&offenders(&found, homes, |line| names(line, name)), &rule, ARCHITECTURE);
        let inside = found.iter().filter(|source| homes.iter().any(|home| source.path.starts_with(home)));
        let used = inside.flat_map(|source| source.text.lines()).any(|line| names(line, name));
        assert!(used, "nothing uses `{name}` in its home any more; take it out of this list");
    }
}

#[test]
fn crates_import_only_what_the_architecture_allows() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("receipts", [].as_slice()),
        ("jobs", &["receipts"]),
        ("webhooks", &["jobs", "receipts"]),
        ("runners", &["jobs", "receipts"]),
        ("app", &["webhooks", "runners", "jobs", "receipts"]),
    ]);
    for (name, allowed) in allowed {
        let manifest = std::fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        for line in dependencies.lines() {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let ours = CRATES.contains(&dependency);
            assert!(
                !ours || allowed.contains(&dependency),
                "`{name}` must not import `{dependency}`; {ARCHITECTURE}"
            );
            let free = ["tokio", "sqlx", "http", "axum", "jiff", "getrandom", "rand", "uuid", "reqwest"];
            assert!(
                name != "receipts" || !free.contains(&dependency),
                "`receipts` has no {dependency}: bytes in, verdict out; {ARCHITECTURE}"
            );
        }
    }
}

#[test]
fn processes_are_started_in_the_sandbox_alone() {
    let starts = |line: &str| {
        line.contains("process::Command") || line.contains("process::{") && line.contains("Command")
    };
    let lines = offenders(&service(), &["runners/src/sandbox/"], starts);
    assert_none(&lines, "a process is started outside of runners/src/sandbox", ARCHITECTURE);
}

#[test]
fn unsafe_code_is_in_the_sandbox_alone() {
    let is_unsafe = |line: &str| {
        ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|form| line.contains(form))
    };
    let lines = offenders(&service(), &["runners/src/sandbox/", "runners/src/bin/"], is_unsafe);
    assert_none(&lines, "unsafe code is outside of runners/src/sandbox", CONVENTIONS);
}

#[test]
fn only_the_push_spends_an_authorization_and_only_it_may_write_contents() {
    let found = service();
    let spends = |line: &str| line.contains("authorizations::spend") || line.contains("PushRequest::new(");
    let lines =
        offenders(&found, &["webhooks/src/report/push.rs", "jobs/src/store/authorizations.rs"], spends);
    assert_none(&lines, "an authorization is spent outside of the push", ARCHITECTURE);
    let homes = ["webhooks/src/github/push.rs", "webhooks/src/github/credentials.rs"];
    let lines = offenders(&found, &homes, |line| line.contains("Use::Push"));
    assert_none(&lines, "a token that may write contents is asked for outside of the push", ARCHITECTURE);
    let lines =
        offenders(&found, &["jobs/src/authorization.rs", "jobs/src/store/authorizations.rs"], |line| {
            line.contains("PushGrant::of")
        });
    assert_none(&lines, "a grant is made without spending an authorization", ARCHITECTURE);
}

#[test]
fn a_file_has_one_subject_and_a_size_that_can_be_read() {
    const MOST: usize = 600;
    for source in service().iter().filter(|source| source.path.contains("/src/")) {
        let end = source.text.find("#[cfg(test)]\nmod tests {").unwrap_or(source.text.len());
        let lines = source.text[..end].lines().count();
        assert!(lines <= MOST, "{} has {lines} lines, split it by subject; {CONVENTIONS}", source.path);
    }
}

#[test]
fn every_file_says_on_top_what_it_is_for() {
    for source in service().iter().filter(|source| source.path.contains("/src/") && !source.is_test()) {
        let first = source.text.lines().next().unwrap_or_default();
        assert!(first.starts_with("//!"), "{} has no module comment on top; {CONVENTIONS}", source.path);
    }
}

#[test]
fn no_log_call_shows_a_secret_or_a_body() {
    let forbidden = [
        "secret",
        "token",
        "password",
        "private_key",
        "expose_",
        "authorization_header",
        "body",
        "email",
        "headers",
    ];
    let mut lines = Vec::new();
    for source in service().iter().filter(|source| !source.is_test()) {
        for level in ["error", "warn", "info", "debug", "trace"] {
            for (at, _) in source.text.match_indices(&format!("tracing::{level}!(")) {
                let call = call(&source.text[at..]);
                // What stands in quotes is a sentence for people; fields and values are outside.
                let outside: String = call.split('"').step_by(2).collect();
                let words = outside.split(|c: char| !c.is_alphanumeric() && c != '_');
                let shown =
                    words.filter(|word| forbidden.iter().any(|part| word.to_lowercase().contains(part)));
                let kind_only = call.contains("body.kind()");
                lines.extend(
                    shown
                        .filter(|word| !(kind_only && *word == "body"))
                        .map(|word| format!("{}: `{word}` in {call}", source.path)),
                );
            }
        }
    }
    assert_none(&lines, "a log call may show what must not be logged", CONVENTIONS);
}

/// A macro call up to the parenthesis that closes it.
fn call(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return &text[..=at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    text
}

#[test]
fn no_test_is_ignored_and_nothing_is_left_to_do() {
    let folders: Vec<&str> = CRATES.iter().copied().chain(["tests"]).collect();
    for source in sources(&folders).iter().filter(|source| source.path != "tests/tests/tidy.rs") {
        for (at, line) in source.text.lines().enumerate() {
            let place = format!("{}:{}", source.path, at + 1);
            assert!(!line.trim_start().starts_with("#[ignore"), "{place} ignores a test; {CONVENTIONS}");
            for word in ["todo!(", "unimplemented!(", "// TODO", "// FIXME", "// XXX"] {
                assert!(!line.contains(word), "{place} holds `{word}`; {CONVENTIONS}");
            }
        }
    }
}

/// The cases that users of services like this one were bitten by: kind, and how many there are. Deliveries,
/// commands, heads and pushes, reports, truth.
const CASES: [(char, usize); 5] = [('d', 10), ('c', 10), ('h', 8), ('r', 6), ('t', 7)];

#[test]
fn each_case_has_a_story_through_the_door_that_is_named_for_it() {
    let stories = sources(&["tests/tests/stories"]);
    assert!(stories.len() > 5, "the rule looks at the real stories");
    let lines: Vec<&str> = stories.iter().flat_map(|source| source.text.lines()).collect();
    let mut missing = Vec::new();
    for (kind, most) in CASES {
        for number in 1..=most {
            let begins = format!("async fn {kind}{number}_");
            let told =
                lines.windows(2).any(|pair| pair[0] == "#[tokio::test]" && pair[1].starts_with(&begins));
            if !told {
                missing.push(format!("{kind}{number}"));
            }
        }
    }
    assert_none(&missing, "a case has no story", CONVENTIONS);
}

#[test]
fn state_machines_have_no_arm_for_whatever_else() {
    for path in
        ["jobs/src/run.rs", "jobs/src/launch.rs", "jobs/src/message.rs", "webhooks/src/report/standing.rs"]
    {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        let source = Source { path: path.to_owned(), text };
        let wild = source.code().find(|(_, line)| line.trim_start().starts_with("_ =>"));
        assert_eq!(wild, None, "{path} matches a state with `_`; {CONVENTIONS}");
    }
}

#[test]
fn stories_and_unit_tests_do_not_sleep() {
    let folders = ["app", "webhooks", "jobs", "receipts", "tests/tests"];
    for source in sources(&folders).iter().filter(|source| source.is_test()) {
        // This file names the words; the others watch processes of their own, whose clock is the system's.
        let watches = ["app/tests/recovery.rs", "app/tests/processes/"];
        if source.path == "tests/tests/tidy.rs" || watches.iter().any(|path| source.path.starts_with(path)) {
            continue;
        }
        let slept = source
            .text
            .lines()
            .position(|line| line.contains("thread::sleep(") || line.contains("time::sleep("));
        assert_eq!(slept, None, "{} sleeps instead of owning the clock; {CONVENTIONS}", source.path);
    }
}

#[test]
fn migrations_keep_to_what_both_databases_have() {
    let folder = root().join("migrations");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap().to_uppercase();
        for word in ["AUTOINCREMENT", "SERIAL", "NOW()", "BOOLEAN", "JSONB", "DATETIME"] {
            assert!(
                !text.contains(word),
                "{} uses {word}, which one database lacks; {ARCHITECTURE}",
                path.display()
            );
        }
        seen += 1;
    }
    assert!(seen > 0, "there are migrations");
}
