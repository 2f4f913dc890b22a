//! Trees of a few files, and what a phase needs around one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use runners::toolchains::{Host, Toolchains, detect};
use runners::workspace::{Entry, Mode, Tree, TreePath};

/// A tree of regular files.
pub fn tree(files: &[(&str, &str)]) -> Tree {
    let entries: BTreeMap<TreePath, Entry> = files
        .iter()
        .map(|(path, content)| {
            (TreePath::parse(path).unwrap(), Entry::new(Mode::Regular, content.as_bytes()))
        })
        .collect();
    Tree::new(entries, None).unwrap()
}

/// A file's text.
#[allow(dead_code)]
pub fn text(tree: &Tree, path: &str) -> String {
    String::from_utf8(tree.read(&TreePath::parse(path).unwrap()).unwrap().to_vec()).unwrap()
}

/// This host's toolchains. `None`, with a word, where a program that the test needs is not there.
pub fn toolchains(programs: &[&str]) -> Option<Toolchains> {
    let toolchains = detect(&Host::from_env());
    match programs.iter().find(|program| !toolchains.has(program)) {
        Some(absent) => {
            eprintln!("skipped: this host has no {absent}");
            None
        }
        None => Some(toolchains),
    }
}

/// The folders of one run.
pub struct Folders {
    pub folder: tempfile::TempDir,
}

impl Folders {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
