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

#[test]
fn what_git_stumbles_over_is_refused() {
    let lone = "diff --git a/a b/a\ndiff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n";
    let swapped = "diff --git a/a b/a\n+++ b/a\n--- /dev/null\nnew file mode 100644\n@@ -0,0 +1 @@\n+x\n";
    let late = "diff --git a/a b/a\n--- /dev/null\nnew file mode 100644\n+++ b/a\n@@ -0,0 +1 @@\n+x\n";
    let same_mode = "diff --git a/a b/a\nold mode 100644\nnew mode 100644\n";
    let damaged_way_back = "diff --git a/a b/a\nindex 0000000000000000000000000000000000000000..2e65efe2a145dda7ee51d1741299f848e5bf752e 100644\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 1\nHcmV?d00001\n\n";
    for (name, text) in [
        ("a lone first line", lone),
        ("the new name first", swapped),
        ("a mode after the names", late),
        ("a change to the same mode", same_mode),
        ("a damaged way back", damaged_way_back),
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{name}");
    }
}

#[test]
fn a_header_that_git_passes_over_makes_no_file() {
    // A carriage return is a part of the second name, so that there is no one name without further lines.
    let told = |patch: &str| parse(patch.as_bytes()).map(|files| files.len()).map_err(|error| error.why);
    assert!(told("diff --git a/e b/e\r\nold mode 100644\r\nnew mode 100755\r\n").is_err());
    assert!(told("diff --git a/e b/e\r\nnew file mode 100755\r\nindex 0000000..e69de29\r\n").is_err());
    let named = "diff --git a/e b/e\r\n--- a/e\r\n+++ b/e\r\n@@ -1 +1 @@\r\n-a\n+b\n";
    assert_eq!(told(named), Ok(1));
    // A last line that was cut off is text.
    assert!(told("diff --git a/e b/e\nnew file mode 100644").is_err());
    assert_eq!(told("diff --git a/e b/e\nnew file mode 100644\n"), Ok(1));
}
