//! What a changeset refuses, and what it binds.

use super::*;
use crate::edit::diff::diff;

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn tree(files: &[(&str, Mode, &str)]) -> Tree {
    let entries =
        files.iter().map(|(name, mode, text)| (path(name), Entry::new(*mode, text.as_bytes()))).collect();
    Tree::new(entries, None).unwrap()
}

fn check(before: &[(&str, Mode, &str)], after: &[(&str, Mode, &str)]) -> Result<(), ChangesetError> {
    let before = tree(before);
    diff(&before, &tree(after)).unwrap().check(&before, &Limits::default())
}

const FILE: Mode = Mode::Regular;
const LINK: Mode = Mode::Symlink;

#[test]
fn a_new_name_that_differs_from_another_in_case_alone_is_refused() {
    let readme = ("README.md", FILE, "x\n");
    for (name, other) in [
        ("readme.md", readme),
        ("Src/new.rs", ("src/lib.rs", FILE, "x\n")),
        ("src/LIB.rs/new", ("src/lib.rs", FILE, "x\n")),
        ("gr\u{d6}\u{df}e", ("gr\u{f6}\u{df}e", FILE, "x\n")),
        ("a\u{200c}b", ("ab", FILE, "x\n")),
        ("caf\u{e9}", ("cafe\u{301}", FILE, "x\n")),
    ] {
        let refused = check(&[other], &[other, (name, FILE, "y\n")]);
        assert!(
            matches!(refused, Err(ChangesetError::Case { .. })),
            "{name} beside {}: {refused:?}",
            other.0
        );
    }
    let two = check(&[], &[("a.txt", FILE, "x\n"), ("A.txt", FILE, "y\n")]);
    assert!(matches!(two, Err(ChangesetError::Case { .. })), "two new ones: {two:?}");
    // A change of the case itself leaves one name, and what collides already may be edited.
    check(&[readme], &[("Readme.md", FILE, "x\n")]).unwrap();
    let both = [("a.txt", FILE, "x\n"), ("A.txt", FILE, "y\n")];
    check(&both, &[("a.txt", FILE, "z\n"), both[1]]).unwrap();
}

#[test]
fn links_that_lead_out_and_links_in_place_of_gits_own_files_are_refused() {
    for target in ["/etc/passwd", "../x", "a/../../x", ""] {
        let refused = check(&[], &[("link", LINK, target)]);
        assert!(matches!(refused, Err(ChangesetError::LinkOut { .. })), "{target:?}: {refused:?}");
    }
    for name in [".gitmodules", ".GITMODULES", "gitmod~1", "GI7EBA~1", "gi7eb~12", ".gitmodules . "] {
        let refused = check(&[], &[(name, LINK, "x")]);
        assert!(matches!(refused, Err(ChangesetError::Gitmodules { .. })), "{name}: {refused:?}");
    }
    check(&[], &[("d/link", LINK, "../a"), ("gi7abc~1", LINK, "x"), ("gitmod~5", LINK, "x")]).unwrap();
}

#[test]
fn each_bound_is_kept_and_named() {
    let before = tree(&[]);
    let files: Vec<(String, String)> =
        (0..65).map(|number| (format!("f{number}"), "x\n".to_owned())).collect();
    let many: Vec<(&str, Mode, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), FILE, text.as_str())).collect();
    let of = |after: &[(&str, Mode, &str)]| diff(&before, &tree(after)).unwrap();
    let limits = Limits::default();
    of(&many[..64]).check(&before, &limits).unwrap();
    assert!(matches!(of(&many).check(&before, &limits), Err(ChangesetError::Files { found: 65, bound: 64 })));
    let small = Limits { patch_bytes: 100, ..limits };
    let refused = of(&[("a", FILE, &"line\n".repeat(100))]).check(&before, &small);
    assert!(matches!(refused, Err(ChangesetError::PatchBytes { bound: 100, .. })), "{refused:?}");
    let short = Limits { file_bytes: 4, ..limits };
    let refused = of(&[("a", FILE, "12345")]).check(&before, &short);
    assert!(matches!(refused, Err(ChangesetError::FileBytes { found: 5, bound: 4, .. })), "{refused:?}");
}

#[test]
fn a_change_of_mode_alone_is_a_change_with_a_patch_of_its_own() {
    let (before, after) =
        (tree(&[("run", FILE, "#!/bin/sh\n")]), tree(&[("run", Mode::Executable, "#!/bin/sh\n")]));
    let changeset = diff(&before, &after).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&changeset.patch),
        "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
    );
    assert_eq!(changeset.tree_from(&before).unwrap().id(), after.id());
    assert_ne!(changeset.tree_before, changeset.tree_after);
}

#[test]
fn the_commit_that_a_tree_was_read_from_is_bound_to_its_change() {
    let commit: CommitId = "0123456789012345678901234567890123456789".parse().unwrap();
    let before = tree(&[("a", FILE, "x\n")]).at(commit.clone());
    let changeset = diff(&before, &tree(&[("a", FILE, "y\n")])).unwrap();
    assert_eq!(changeset.base, Some(commit));
    assert_eq!((&changeset.tree_before, changeset.changes.len()), (before.id(), 1));
}
