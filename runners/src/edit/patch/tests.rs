//! Patches as git and diff write them, and what is refused.

use super::*;

fn paths(text: &str) -> Vec<String> {
    parse(text.as_bytes()).unwrap().iter().map(|file| file.action.path().to_string()).collect()
}

#[test]
fn git_and_plain_headers_are_read() {
    let plain = "--- a/one.txt\t2026-01-01\n+++ b/one.txt\t2026-01-01\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(paths(plain), ["one.txt"]);
    let spaces = "diff --git a/a b.txt b/a b.txt\n--- a/a b.txt\t\n+++ b/a b.txt\t\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(paths(spaces), ["a b.txt"]);
    let quoted = "diff --git \"a/gr\\303\\266.txt\" \"b/gr\\303\\266.txt\"\n--- \"a/gr\\303\\266.txt\"\n+++ \"b/gr\\303\\266.txt\"\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(paths(quoted), ["grö.txt"]);
    let renamed = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n";
    assert!(matches!(parse(renamed.as_bytes()).unwrap()[0].action, Action::Rename { .. }));
}

#[test]
fn a_last_line_without_a_line_end_is_kept_so() {
    let text =
        "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n";
    let files = parse(text.as_bytes()).unwrap();
    let Body::Hunks(hunks) = &files[0].body else { panic!("hunks") };
    let lines: Vec<(Mark, &[u8])> =
        hunks[0].lines.iter().map(|(mark, text)| (*mark, text.as_ref())).collect();
    assert_eq!(lines, [(Mark::Remove, b"a".as_slice()), (Mark::Add, b"b".as_slice())]);
}

#[test]
fn damage_is_refused_with_its_line() {
    for (text, line) in [
        ("no patch at all\n", 1),
        ("@@ -1 +1 @@\n-a\n+b\n", 1),
        ("--- a/a\n+++ b/a\n@@ -1,3 +1 @@\n-a\n+b\n", 3),
        ("--- a/../a\n+++ b/../a\n@@ -1 +1 @@\n-a\n+b\n", 1),
    ] {
        let error = parse(text.as_bytes()).unwrap_err();
        assert!(error.line >= line && !error.why.is_empty(), "{text:?}: {error}");
    }
}
