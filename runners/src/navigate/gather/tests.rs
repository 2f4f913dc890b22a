use std::time::Duration;

use super::*;
use crate::workspace::{Entry, Mode};

fn tree(files: &[(&str, &str)]) -> Tree {
    let entries = files.iter().map(|(path, content)| {
        (TreePath::parse(path).unwrap(), Entry::new(Mode::Regular, content.as_bytes()))
    });
    Tree::new(entries.collect(), None).unwrap()
}

fn in_time() -> Stop<'static> {
    Stop::in_time(Duration::from_secs(600))
}

#[test]
fn only_what_changed_is_read_again() {
    let files: Vec<(String, String)> =
        (0..40).map(|at| (format!("m{at}.py"), format!("def work_{at}(): pass\n"))).collect();
    let mut files: Vec<_> = files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
    let first = gather(&tree(&files), &Known::default(), in_time());
    assert_eq!((first.fresh.len(), first.known, first.tags.files.len()), (40, 0, 40));
    let mut known = Known::default();
    for (key, text) in first.fresh.texts() {
        known.insert(key, text.to_owned());
    }
    files[7].1 = "def other(): pass\n";
    let second = gather(&tree(&files), &known, in_time());
    assert_eq!((second.fresh.len(), second.known, second.tags.files.len()), (1, 39, 40));
    let names: Vec<_> = second.tags.files.iter().flat_map(|file| file.tags.definitions()).collect();
    assert!(names.iter().any(|tag| tag.name == "other") && !names.iter().any(|tag| tag.name == "work_7"));
    assert_eq!(keys_of(&tree(&files)).len(), 40);
}

#[test]
fn the_same_bytes_in_two_places_are_read_once() {
    let gathered = gather(&tree(&[("a.py", "x1 = 1\n"), ("b.py", "x1 = 1\n")]), &Known::default(), in_time());
    assert_eq!((gathered.fresh.len(), gathered.tags.files.len()), (1, 2));
}

#[test]
fn what_cannot_be_read_is_listed_and_known_for_the_next_time() {
    let source = tree(&[("a.js", "\0"), ("b.txt", "b"), ("c.py", "def work(): pass\n")]);
    let first = gather(&source, &Known::default(), in_time());
    let skipped: Vec<_> =
        first.tags.skipped.iter().map(|skipped| (skipped.path.to_string(), skipped.why)).collect();
    assert_eq!(skipped, [("a.js".to_owned(), "is no text")]);
    let mut known = Known::default();
    for (key, text) in first.fresh.texts() {
        known.insert(key, text.to_owned());
    }
    let second = gather(&source, &known, in_time());
    assert_eq!((second.fresh.len(), second.tags.skipped.len()), (0, 1));
}

#[test]
fn a_link_is_not_followed() {
    let entries = [
        (TreePath::parse("out.py").unwrap(), Entry::new(Mode::Symlink, &b"../../secret.py"[..])),
        (TreePath::parse("in.py").unwrap(), Entry::new(Mode::Regular, &b"def inside(): pass\n"[..])),
    ];
    let gathered = gather(&Tree::new(entries.into(), None).unwrap(), &Known::default(), in_time());
    assert_eq!(gathered.tags.files.len(), 1);
}

#[test]
fn what_is_not_reached_in_time_is_listed_and_not_kept() {
    let gathered =
        gather(&tree(&[("a.py", "def work(): pass\n")]), &Known::default(), Stop::in_time(Duration::ZERO));
    assert_eq!((gathered.fresh.len(), gathered.tags.files.len()), (0, 0));
    assert_eq!(gathered.tags.skipped[0].why, OVER_TIME);
}

#[test]
fn files_beyond_the_bound_are_listed() {
    let entry = Entry::new(Mode::Regular, &b"def work(): pass\n"[..]);
    let entries =
        (0..MAX_FILES + 5).map(|at| (TreePath::parse(format!("f{at:06}.py")).unwrap(), entry.clone()));
    let gathered = gather(&Tree::new(entries.collect(), None).unwrap(), &Known::default(), in_time());
    assert_eq!((gathered.tags.files.len(), gathered.tags.skipped.len()), (MAX_FILES, 5));
    assert_eq!(gathered.tags.skipped[0].why, OVER_FILES);
}
