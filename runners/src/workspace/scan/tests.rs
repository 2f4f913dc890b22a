//! What a workspace may hold, and what of it yields no tree.

use std::os::unix::fs::symlink;

use super::*;
use crate::workspace::materialize;

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn base() -> Tree {
    let entries = [("a.txt", "one\n"), ("d/b.txt", "two\n")]
        .into_iter()
        .map(|(name, text)| (path(name), Entry::new(Mode::Regular, text.as_bytes())))
        .collect();
    Tree::new(entries, None).unwrap()
}

/// The workspace of the base after `change`.
fn scanned(bounds: &Bounds, change: impl FnOnce(&Path)) -> Result<Scan, ScanError> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("work");
    materialize(&base(), &root, None).unwrap();
    change(&root);
    scan(&root, &base(), bounds)
}

fn by_default(change: impl FnOnce(&Path)) -> Result<Scan, ScanError> {
    scanned(&Bounds::default(), change)
}

fn make_fifo(at: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(at).status().unwrap().success());
}

#[test]
fn the_bounds_are_128_mib_and_16384_files_unless_said_otherwise() {
    let bounds = Bounds::default();
    assert_eq!((bounds.bytes, bounds.files), (128 << 20, 16_384));
}

#[test]
fn a_bound_exceeded_yields_no_tree() {
    let small = Bounds { files: 2, bytes: 9, file_bytes: 5, names: 4 };
    assert!(scanned(&small, |_| ()).is_ok());
    let third = scanned(&small, |root| std::fs::write(root.join("c"), "").unwrap());
    assert!(matches!(third, Err(ScanError::Bound(OverBound::Files(2)))), "{third:?}");
    let long = scanned(&small, |root| std::fs::write(root.join("a.txt"), "123456").unwrap());
    assert!(matches!(long, Err(ScanError::Bound(OverBound::File { bytes: 6, .. }))), "{long:?}");
    let much = scanned(&small, |root| std::fs::write(root.join("a.txt"), "12345").unwrap());
    assert!(much.is_ok());
    let more = Bounds { bytes: 8, ..small };
    let over = scanned(&more, |root| std::fs::write(root.join("a.txt"), "12345").unwrap());
    assert!(matches!(over, Err(ScanError::Bound(OverBound::Bytes(8)))), "{over:?}");
    let names = scanned(&small, |root| {
        for name in ["x.pyc", "y.pyc"] {
            std::fs::write(root.join(name), "").unwrap();
        }
    });
    assert!(matches!(names, Err(ScanError::Bound(OverBound::Names(4)))), "{names:?}");
}

#[test]
fn a_link_that_leads_out_yields_no_tree() {
    for target in ["/etc/passwd", "../outside", "d/../../outside"] {
        for name in ["new", "a.txt"] {
            let out = by_default(|root| {
                drop(std::fs::remove_file(root.join(name)));
                symlink(target, root.join(name)).unwrap();
            });
            assert!(matches!(out, Err(ScanError::LinkOut { .. })), "{name} to {target}: {out:?}");
        }
    }
    let inside = by_default(|root| symlink("d/b.txt", root.join("new")).unwrap()).unwrap();
    assert_eq!(inside.tree.entry(&path("new")).unwrap().mode, Mode::Symlink);
}

#[test]
fn a_folder_that_became_a_link_hides_none_of_its_files() {
    let moved = by_default(|root| {
        std::fs::rename(root.join("d"), root.join("e")).unwrap();
        symlink("e", root.join("d")).unwrap();
    })
    .unwrap();
    assert!(moved.tree.entry(&path("d/b.txt")).is_none() && moved.tree.entry(&path("e/b.txt")).is_some());
    assert_eq!(moved.tree.entry(&path("d")).unwrap().mode, Mode::Symlink);
}

#[test]
fn fifos_and_hard_links_in_place_of_tracked_files_yield_no_tree() {
    let fifo = by_default(|root| {
        std::fs::remove_file(root.join("a.txt")).unwrap();
        make_fifo(&root.join("a.txt"));
    });
    assert!(matches!(fifo, Err(ScanError::Special { .. })), "{fifo:?}");
    let linked = by_default(|root| std::fs::hard_link(root.join("a.txt"), root.join("second")).unwrap());
    assert!(matches!(linked, Err(ScanError::HardLink { .. })), "{linked:?}");
    let beside = by_default(|root| make_fifo(&root.join("new"))).unwrap();
    assert_eq!((beside.tree.id(), beside.noted), (base().id(), 1));
}

#[test]
fn gits_own_folder_in_any_disguise_is_no_part_of_the_tree() {
    let disguised = by_default(|root| {
        for name in [".git", "d/.GIT", "git~1", ".g\u{200c}it"] {
            std::fs::create_dir(root.join(name)).unwrap();
            std::fs::write(root.join(name).join("config"), "[core]\n").unwrap();
        }
    })
    .unwrap();
    assert_eq!(disguised.tree.id(), base().id());
    // The one at the root that every clone has needs no note.
    assert_eq!(disguised.noted, 3, "{:?}", disguised.notes);
}

#[test]
fn the_fingerprint_shows_bits_that_the_tree_id_does_not() {
    use std::os::unix::fs::PermissionsExt;
    let (plain, opened) = (
        by_default(|_| ()).unwrap(),
        by_default(|root| {
            std::fs::set_permissions(root.join("a.txt"), PermissionsExt::from_mode(0o666)).unwrap();
        })
        .unwrap(),
    );
    assert_eq!(plain.tree.id(), opened.tree.id());
    assert_ne!(plain.fingerprint, opened.fingerprint);
    assert_eq!(
        (plain.permissions(&path("a.txt")), opened.permissions(&path("a.txt"))),
        (Some(0o644), Some(0o666))
    );
}
