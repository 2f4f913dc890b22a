//! Round trips, damage and refusals of patches on trees in memory.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::workspace::Entry;

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn tree(files: &[(&str, &[u8])]) -> Tree {
    let entries = files.iter().map(|(name, bytes)| (path(name), Entry::new(Mode::Regular, *bytes))).collect();
    Tree::new(entries, None).unwrap()
}

const NAMES: &[&str] = &["a.txt", "b c.txt", "d/e.rs", "d/f/g \"q\".md", "ünï.txt", "h.bin", "z/last"];

/// Content of text lines, with and without line ends, or of any bytes.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let line =
        proptest::sample::select(&["one\n", "two\n", "three\r\n", "\n", "  four\n", "größe\n", "five"][..]);
    prop_oneof![
        5 => proptest::collection::vec(line, 0..14).prop_map(|lines| lines.concat().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..60),
        1 => proptest::collection::vec(any::<u8>(), 200).prop_map(|bytes| [&b"\0"[..], &bytes].concat().repeat(20)),
    ]
}

fn trees() -> impl Strategy<Value = Tree> {
    let mode = prop_oneof![
        4 => Just(Mode::Regular), 1 => Just(Mode::Executable), 1 => Just(Mode::Symlink), 1 => Just(Mode::GroupWritable)
    ];
    let file = (mode, content()).prop_map(|(mode, bytes)| match mode {
        // The system makes no link of an empty target or one with a NUL.
        Mode::Symlink => Entry::new(
            mode,
            [&b"to "[..], &bytes[..bytes.len().min(99)]]
                .concat()
                .into_iter()
                .filter(|&byte| byte != 0)
                .collect::<Vec<_>>(),
        ),
        mode => Entry::new(mode, bytes),
    });
    proptest::collection::btree_map(proptest::sample::select(NAMES).prop_map(path), file, 0..6)
        .prop_map(|entries: BTreeMap<TreePath, Entry>| Tree::new(entries, None).unwrap())
}

proptest! {
    #[test]
    fn applying_the_difference_of_two_trees_to_one_gives_the_other(a in trees(), b in trees()) {
        let changeset = diff(&a, &b).unwrap();
        if changeset.is_empty() {
            prop_assert_eq!(a.id(), b.id());
        } else {
            let applied = apply_patch(&changeset.patch, &a).unwrap();
            prop_assert_eq!(applied.tree.id(), b.id());
            prop_assert_eq!(&applied.changeset.patch, &changeset.patch);
            prop_assert!(applied.notes.is_empty());
        }
    }

    #[test]
    fn a_damaged_patch_gives_a_tree_or_an_error_and_never_a_panic(
        a in trees(), b in trees(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut patch = diff(&a, &b).unwrap().patch;
        if !patch.is_empty() {
            let at = at.index(patch.len());
            patch[at] = byte;
        }
        let before = a.id().clone();
        let _either = apply_patch(&patch, &a);
        let _either = apply_proposal(&patch, &a);
        prop_assert_eq!(a.id(), &before);
    }
}

#[test]
fn every_line_must_match_at_its_place() {
    let base = tree(&[("a.txt", b"one\ntwo\nthree\n")]);
    let patch = b"--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-TWO\n+2\n three\n";
    assert!(matches!(apply_patch(patch, &base), Err(ApplyError::Hunk { .. })));
    assert!(matches!(apply_proposal(patch, &base), Err(ApplyError::Hunk { .. })));
}

#[test]
fn what_is_absent_or_there_already_is_named() {
    let base = tree(&[("a.txt", b"one\n")]);
    let absent = b"--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two\n";
    assert!(matches!(apply_patch(absent, &base), Err(ApplyError::Absent { .. })));
    let there = b"diff --git a/a.txt b/a.txt\nnew file mode 100644\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+two\n";
    assert!(matches!(apply_patch(there, &base), Err(ApplyError::Exists { .. })));
}

#[test]
fn a_path_that_leads_out_is_refused() {
    let base = tree(&[("a.txt", b"one\n")]);
    for name in ["../x", "/etc/x", ".git/config", "d/.GIT/hooks/x", "a/../../x"] {
        let patch = format!(
            "diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+two\n"
        );
        assert!(apply_patch(patch.as_bytes(), &base).is_err(), "{name}");
        assert!(apply_proposal(patch.as_bytes(), &base).is_err(), "{name}");
    }
}

#[test]
fn a_models_damage_is_mended_and_told() {
    let base = tree(&[("a.txt", b"one\ntwo\nthree\n")]);
    let damaged =
        b"Here it is:\n```diff\n--- a/a.txt\n+++ b/a.txt\n@@ -1,9 +1,9 @@\n one\n-two\n+2\n three\n```\n";
    assert!(apply_patch(damaged, &base).is_err());
    let applied = apply_proposal(damaged, &base).unwrap();
    assert_eq!(&*applied.tree.read(&path("a.txt")).unwrap(), b"one\n2\nthree\n");
    assert_eq!(applied.notes.len(), 2, "{:?}", applied.notes);
}

#[test]
fn a_file_with_crlf_keeps_its_line_ends() {
    let base = tree(&[("a.txt", b"one\r\ntwo\r\n")]);
    let patch = b"--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    let applied = apply_proposal(patch, &base).unwrap();
    assert_eq!(&*applied.tree.read(&path("a.txt")).unwrap(), b"one\r\n2\r\n");
    assert!(!applied.notes.is_empty());
}
