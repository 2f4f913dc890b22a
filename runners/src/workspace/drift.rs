//! How a workspace differs from the tree that was laid out in it.
//!
//! Raw bytes and permission bits are compared, file by file: no filter, attribute or rule of a repository
//! can hide a change of a tracked file.

use super::materialize::permissions;
use super::path::TreePath;
use super::scan::Scan;
use super::tree::Tree;

/// The paths that differ, each in one list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drift {
    /// Tracked files and links that are gone, or have other bytes or another mode.
    pub changed: Vec<TreePath>,
    /// Tracked files with the same bytes and the same mode for git, and other permission bits.
    pub permissions: Vec<TreePath>,
    /// Files that are not tracked and not ignored.
    pub added: Vec<TreePath>,
}

/// Compares what was laid out with what is there now.
pub fn drift(tree: &Tree, now: &Scan) -> Drift {
    let mut drift = Drift::default();
    for (path, entry) in tree.entries() {
        if !now.tree.entry(path).is_some_and(|found| found.same_as(entry)) {
            drift.changed.push(path.clone());
        } else if entry.mode.is_file() && now.permissions(path) != Some(permissions(entry.mode)) {
            drift.permissions.push(path.clone());
        }
    }
    let added = now.tree.entries().keys().filter(|path| tree.entry(path).is_none());
    drift.added.extend(added.cloned());
    drift
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::workspace::{Bounds, Entry, Mode, materialize, scan};

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    fn tree() -> Tree {
        let entries: BTreeMap<TreePath, Entry> = [
            ("a.txt", Mode::Regular, "one\n"),
            ("run.sh", Mode::Executable, "#!/bin/sh\n"),
            ("link", Mode::Symlink, "a.txt"),
            ("out", Mode::Symlink, "/etc/passwd"),
            (".gitattributes", Mode::Regular, "*.txt text eol=crlf filter=clean\n"),
            (".gitignore", Mode::Regular, "*.log\n"),
        ]
        .into_iter()
        .map(|(name, mode, text)| (path(name), Entry::new(mode, text.as_bytes())))
        .collect();
        Tree::new(entries, None).unwrap()
    }

    fn drifted(change: impl Fn(&Path)) -> Drift {
        let folder = tempfile::tempdir().unwrap();
        let (tree, root) = (tree(), folder.path().join("work"));
        materialize(&tree, &root, None).unwrap();
        change(&root);
        drift(&tree, &scan(&root, &tree, &Bounds::default()).unwrap())
    }

    #[test]
    fn nothing_differs_in_what_was_only_laid_out() {
        assert_eq!(drifted(|_| ()), Drift::default());
    }

    #[test]
    fn bytes_that_a_filter_would_hide_are_a_change() {
        let crlf = drifted(|root| std::fs::write(root.join("a.txt"), "one\r\n").unwrap());
        assert_eq!(crlf, Drift { changed: vec![path("a.txt")], ..Drift::default() });
    }

    #[test]
    fn a_link_elsewhere_a_file_gone_and_another_mode_are_changes() {
        let changed = drifted(|root| {
            std::fs::remove_file(root.join("link")).unwrap();
            std::os::unix::fs::symlink("run.sh", root.join("link")).unwrap();
            std::fs::remove_file(root.join("a.txt")).unwrap();
            std::fs::set_permissions(root.join("run.sh"), PermissionsExt::from_mode(0o644)).unwrap();
        });
        assert_eq!(changed.changed, ["a.txt", "link", "run.sh"].map(path));
    }

    #[test]
    fn permission_bits_that_git_does_not_keep_are_told() {
        let opened = drifted(|root| {
            std::fs::set_permissions(root.join("a.txt"), PermissionsExt::from_mode(0o666)).unwrap();
            std::fs::set_permissions(root.join("run.sh"), PermissionsExt::from_mode(0o4755)).unwrap();
        });
        assert_eq!(opened, Drift { permissions: ["a.txt", "run.sh"].map(path).to_vec(), ..Drift::default() });
    }

    #[test]
    fn new_files_are_told_unless_they_are_ignored() {
        let added = drifted(|root| {
            std::fs::write(root.join("new.py"), "x").unwrap();
            std::fs::write(root.join("build.log"), "x").unwrap();
        });
        assert_eq!(added, Drift { added: vec![path("new.py")], ..Drift::default() });
    }
}
