//! What is mended, and what is refused because it could be read in two ways.

use super::*;
use crate::workspace::{Entry, Mode};

fn tree() -> Tree {
    let entries = [("a.txt", "one\ntwo\n"), ("src/lib.rs", "fn a() {}\n")]
        .into_iter()
        .map(|(name, text)| (TreePath::parse(name).unwrap(), Entry::new(Mode::Regular, text.as_bytes())))
        .collect();
    Tree::new(entries, None).unwrap()
}

const WHOLE: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";

#[test]
fn a_whole_patch_stays_as_it_is() {
    let mended = mend(WHOLE.as_bytes(), &tree()).unwrap();
    assert_eq!(String::from_utf8(mended.patch).unwrap(), WHOLE);
    assert_eq!(mended.notes, [] as [&str; 0]);
}

#[test]
fn the_usual_damage_has_one_reading() {
    for (name, damaged) in [
        ("fence", format!("Sure!\n```diff\n{WHOLE}```\nDone.\n")),
        ("fence that is cut off", format!("```\n{WHOLE}")),
        ("wrong counts", WHOLE.replace("-1,2 +1,2", "-1,7 +1,9")),
        ("no last line end", WHOLE.trim_end().to_owned()),
        ("no prefixes", WHOLE.replace("a/a.txt", "a.txt").replace("b/a.txt", "a.txt")),
    ] {
        let mended = mend(damaged.as_bytes(), &tree()).unwrap();
        assert_eq!(String::from_utf8(mended.patch).unwrap(), WHOLE, "{name}");
        assert!(!mended.notes.is_empty(), "{name} is told");
    }
}

#[test]
fn what_cannot_be_read_says_how_to_write_it() {
    let error = |text: &str| mend(text.as_bytes(), &tree()).unwrap_err();
    assert_eq!(error("I changed the file."), MendError::NoPatch);
    assert_eq!(error("*** Begin Patch\n*** Update File: a.txt\n"), MendError::OtherForm);
    let stray = WHOLE.replace("-1,2 +1,2", "-1,7 +1,9").replace("+2\n", "2\n");
    assert_eq!(error(&stray), MendError::Line { line: 6, text: "2".to_owned() });
    assert_eq!(error("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n"), MendError::EmptyHunk { line: 3 });
}
