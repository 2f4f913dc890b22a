//! A patch of arbitrary bytes on a tree of arbitrary files, strictly and as a model's proposal.
//!
//! What is taken changes exactly what its changeset says, and that changeset's own patch gives the same tree.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use runners::edit::{Applied, Limits, apply_patch, apply_proposal};
use runners::workspace::{Entry, Mode, Tree, TreePath};

/// What separates two files, and the last file from the patch.
const SEPARATOR: u8 = 0x1e;
const FILES: [(&str, Mode); 4] = [
    ("a.txt", Mode::Regular),
    ("src/b c.rs", Mode::Executable),
    ("src/deep/gr\u{f6}\u{df}e.bin", Mode::Regular),
    ("link", Mode::Symlink),
];

fuzz_target!(|bytes: &[u8]| {
    let mut parts: Vec<&[u8]> = bytes.splitn(FILES.len() + 1, |&byte| byte == SEPARATOR).collect();
    let Some(patch) = parts.pop() else { return };
    let entries: BTreeMap<TreePath, Entry> = FILES
        .iter()
        .zip(&parts)
        .map(|((name, mode), content)| {
            (TreePath::parse(name).expect("it is a plain name"), Entry::new(*mode, *content))
        })
        .collect();
    let tree = Tree::new(entries, None).expect("no name is a file and a folder");
    let strict = apply_patch(patch, &tree);
    let mended = apply_proposal(patch, &tree);
    if let Ok(strict) = &strict {
        let mended = mended.as_ref().expect("a proposal that fits as it stands is taken");
        assert_eq!(strict.tree.id(), mended.tree.id());
        assert!(strict.notes.len() == mended.notes.len());
    }
    for applied in [strict, mended].into_iter().flatten() {
        is_whole(&applied, &tree);
    }
});

fn is_whole(applied: &Applied, tree: &Tree) {
    let changeset = &applied.changeset;
    assert_eq!(&changeset.tree_before, tree.id());
    assert_eq!(&changeset.tree_after, applied.tree.id());
    assert_eq!(changeset.tree_from(tree).expect("its sides are at hand").id(), applied.tree.id());
    let again = apply_patch(&changeset.patch, tree).expect("our own patch fits");
    assert_eq!(again.tree.id(), applied.tree.id());
    let _either = changeset.check(tree, &Limits::default());
}
