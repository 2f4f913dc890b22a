//! The change of a folder is whole or not there, wherever it stops.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::edit::diff::diff;
use crate::workspace::{Entry, Tree};

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn tree(files: &[(&str, Mode, &str)]) -> Tree {
    let entries =
        files.iter().map(|(name, mode, text)| (path(name), Entry::new(*mode, text.as_bytes()))).collect();
    Tree::new(entries, None).unwrap()
}

fn before() -> Tree {
    tree(&[
        ("keep.txt", Mode::Regular, "kept\n"),
        ("change.txt", Mode::Regular, "old\n"),
        ("run.sh", Mode::Regular, "#!/bin/sh\n"),
        ("gone/deep/only.txt", Mode::Regular, "gone\n"),
        ("turns", Mode::Regular, "a file\n"),
        ("link", Mode::Symlink, "keep.txt"),
    ])
}

fn after() -> Tree {
    tree(&[
        ("keep.txt", Mode::Regular, "kept\n"),
        ("change.txt", Mode::Regular, "new\n"),
        ("run.sh", Mode::Executable, "#!/bin/sh\n"),
        ("turns/into/folder.txt", Mode::Regular, "a folder\n"),
        ("new/file.txt", Mode::Regular, "new\n"),
        ("link", Mode::Symlink, "change.txt"),
    ])
}

/// Every path below a folder: what it is, whether it runs, and its bytes.
fn state(root: &Path) -> BTreeMap<PathBuf, (char, bool, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let at = entry.path();
            let about = std::fs::symlink_metadata(&at).unwrap();
            let value = if about.is_dir() {
                left.push(at.clone());
                ('d', false, Vec::new())
            } else if about.is_symlink() {
                ('l', false, std::fs::read_link(&at).unwrap().into_os_string().into_encoded_bytes())
            } else {
                ('f', about.permissions().mode() & 0o100 != 0, std::fs::read(&at).unwrap())
            };
            found.insert(at.strip_prefix(root).unwrap().to_owned(), value);
        }
    }
    found
}

struct Place {
    _folder: tempfile::TempDir,
    root: PathBuf,
    staging: PathBuf,
}

impl Place {
    fn with(tree: &Tree) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (root, staging) = (folder.path().join("root"), folder.path().join("staging"));
        crate::workspace::materialize::materialize(tree, &root, None).unwrap();
        Self { _folder: folder, root, staging }
    }

    fn target(&self) -> Target<'_> {
        Target { root: &self.root, staging: &self.staging, owner: None }
    }
}

#[test]
fn a_change_gives_exactly_the_tree_after_it() {
    let (place, wanted) = (Place::with(&before()), Place::with(&after()));
    commit_changeset(&place.target(), &diff(&before(), &after()).unwrap()).unwrap();
    assert_eq!(state(&place.root), state(&wanted.root));
    assert_eq!(recover(&place.target()).unwrap(), Recovery::Nothing);
}

#[test]
fn a_crash_at_any_step_leaves_all_or_nothing_after_recovery() {
    let changeset = diff(&before(), &after()).unwrap();
    let old = state(&Place::with(&before()).root);
    let new = state(&Place::with(&after()).root);
    let mut steps = Vec::new();
    commit_watched(&Place::with(&before()).target(), &changeset, &mut |step| {
        steps.push(step);
        Next::GoOn
    })
    .unwrap();
    assert!(steps.len() > 8, "{steps:?}");
    for (stop, name) in steps.iter().enumerate() {
        let place = Place::with(&before());
        let mut seen = 0;
        let ended = commit_watched(&place.target(), &changeset, &mut |_| {
            seen += 1;
            if seen > stop { Next::Stop } else { Next::GoOn }
        });
        assert!(matches!(ended, Err(CommitError::Stopped(at)) if at == *name), "{ended:?}");
        let recovery = recover(&place.target()).unwrap();
        let complete = steps[..=stop].contains(&"edit.done");
        let wanted = if complete { &new } else { &old };
        assert_eq!(&state(&place.root), wanted, "stopped at step {stop}, {name}");
        // The mark of a complete change is the last thing that goes.
        assert_eq!(recovery == Recovery::Complete, complete && stop + 1 < steps.len(), "{name}");
        // What is recovered stays so, and the change can be made again.
        assert_eq!(recover(&place.target()).unwrap(), Recovery::Nothing);
        if !complete {
            commit_changeset(&place.target(), &changeset).unwrap();
        }
        assert_eq!(state(&place.root), new);
    }
}

#[test]
fn a_file_that_has_drifted_stops_the_whole_change() {
    let changeset = diff(&before(), &after()).unwrap();
    type Drift = fn(&Path);
    let drifts: [(&str, Drift); 5] = [
        ("content", |root| std::fs::write(root.join("change.txt"), "other\n").unwrap()),
        ("gone", |root| std::fs::remove_file(root.join("change.txt")).unwrap()),
        ("in the way", |root| {
            std::fs::create_dir(root.join("new")).unwrap();
            std::fs::write(root.join("new/file.txt"), "mine\n").unwrap();
        }),
        ("hard link", |root| std::fs::hard_link(root.join("change.txt"), root.join("second")).unwrap()),
        ("link in place of a file", |root| {
            std::fs::remove_file(root.join("change.txt")).unwrap();
            std::os::unix::fs::symlink("keep.txt", root.join("change.txt")).unwrap();
        }),
    ];
    for (name, drift) in drifts {
        let place = Place::with(&before());
        drift(&place.root);
        let found = state(&place.root);
        let ended = commit_changeset(&place.target(), &changeset);
        assert!(matches!(ended, Err(CommitError::Drift { .. })), "{name}: {ended:?}");
        assert_eq!(state(&place.root), found, "{name}");
    }
}

#[test]
fn a_folder_that_is_a_link_is_not_written_through() {
    let place = Place::with(&before());
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), place.root.join("new")).unwrap();
    assert!(commit_changeset(&place.target(), &diff(&before(), &after()).unwrap()).is_err());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(std::fs::read(place.root.join("change.txt")).unwrap(), b"old\n");
}

#[test]
fn an_unfinished_change_must_be_recovered_first() {
    let place = Place::with(&before());
    let changeset = diff(&before(), &after()).unwrap();
    let stop = |step| if step == "edit.journalled" { Next::Stop } else { Next::GoOn };
    commit_watched(&place.target(), &changeset, &mut { stop }).unwrap_err();
    assert!(matches!(commit_changeset(&place.target(), &changeset), Err(CommitError::Unfinished { .. })));
    assert_eq!(recover(&place.target()).unwrap(), Recovery::RolledBack);
}

/// The names of all steps of a whole change.
fn steps_of(changeset: &Changeset) -> Vec<&'static str> {
    let mut steps = Vec::new();
    commit_watched(&Place::with(&before()).target(), changeset, &mut |step| {
        steps.push(step);
        Next::GoOn
    })
    .unwrap();
    steps
}

/// Stops after `stop` steps.
fn stopping_after(stop: usize) -> impl FnMut(&'static str) -> Next {
    let mut seen = 0;
    move |_| {
        seen += 1;
        if seen > stop { Next::Stop } else { Next::GoOn }
    }
}

#[test]
fn a_crash_at_any_step_of_the_recovery_leaves_the_next_one_everything_it_needs() {
    let changeset = diff(&before(), &after()).unwrap();
    let (old, new) = (state(&Place::with(&before()).root), state(&Place::with(&after()).root));
    let steps = steps_of(&changeset);
    let mut crashes = 0;
    for (stop, name) in steps.iter().enumerate() {
        for again in 0.. {
            let place = Place::with(&before());
            commit_watched(&place.target(), &changeset, &mut stopping_after(stop)).unwrap_err();
            let first = recover_watched(&place.target(), &mut stopping_after(again));
            if first.is_ok() {
                break;
            }
            crashes += 1;
            let second = recover(&place.target());
            let found = state(&place.root);
            let complete = steps[..=stop].contains(&"edit.done");
            let wanted = if complete { &new } else { &old };
            assert_eq!(&found, wanted, "stopped at {name}, its recovery after {again} steps: {second:?}");
            assert_eq!(recover(&place.target()).unwrap(), Recovery::Nothing);
            assert_eq!(std::fs::read_dir(&place.staging).unwrap().count(), 0, "the staging folder is empty");
        }
    }
    assert!(crashes > 100, "{crashes}");
}

#[test]
fn a_file_written_to_while_the_change_is_made_comes_back_with_what_was_written() {
    let changeset = diff(&before(), &after()).unwrap();
    for at in ["edit.staged", "edit.journalled"] {
        let place = Place::with(&before());
        let root = place.root.clone();
        let ended = commit_watched(&place.target(), &changeset, &mut |step| {
            if step == at {
                std::fs::write(root.join("change.txt"), "mine\n").unwrap();
            }
            Next::GoOn
        });
        assert!(matches!(ended, Err(CommitError::Drift { .. })), "{ended:?}");
        let mut wanted = state(&Place::with(&before()).root);
        wanted.get_mut(Path::new("change.txt")).unwrap().2 = b"mine\n".to_vec();
        assert_eq!(state(&place.root), wanted);
    }
}

#[test]
fn a_folder_that_comes_back_has_its_permissions_and_what_was_not_tracked_stays() {
    let changeset = diff(&before(), &after()).unwrap();
    let place = Place::with(&before());
    let folder = place.root.join("gone/deep");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o775)).unwrap();
    let stop = steps_of(&changeset).iter().rposition(|step| *step == "edit.operation").unwrap();
    commit_watched(&place.target(), &changeset, &mut stopping_after(stop)).unwrap_err();
    assert!(!folder.exists());
    assert_eq!(recover(&place.target()).unwrap(), Recovery::RolledBack);
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o775);
    std::fs::write(folder.join("notes"), "mine\n").unwrap();
    commit_changeset(&place.target(), &changeset).unwrap();
    assert_eq!(std::fs::read(folder.join("notes")).unwrap(), b"mine\n");
}

#[test]
fn a_device_or_fifo_in_place_of_a_file_stops_the_whole_change() {
    let changeset = diff(&before(), &after()).unwrap();
    let place = Place::with(&before());
    std::fs::remove_file(place.root.join("change.txt")).unwrap();
    let status = std::process::Command::new("mkfifo").arg(place.root.join("change.txt")).status().unwrap();
    assert!(status.success());
    let ended = commit_changeset(&place.target(), &changeset);
    assert!(matches!(ended, Err(CommitError::Drift { why: "it is no file", .. })), "{ended:?}");
    assert_eq!(std::fs::read(place.root.join("run.sh")).unwrap(), b"#!/bin/sh\n");
}
