//! A tree of source files, and a patch that changes each of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use runners::workspace::{Entry, Mode, Tree, TreePath, materialize};

/// Lines of one file.
const LINES: usize = 400;

pub struct Repository {
    pub before: Tree,
    pub patch: Vec<u8>,
}

impl Repository {
    /// `files` files in a few folders, each changed at three places.
    pub fn new(files: usize) -> Self {
        let tree = |changed: bool| {
            let entries: BTreeMap<TreePath, Entry> = (0..files)
                .map(|file| {
                    let path = TreePath::parse(format!("src/part{}/file{file}.rs", file % 7)).unwrap();
                    (path, Entry::new(Mode::Regular, content(file, changed).into_bytes()))
                })
                .collect();
            Tree::new(entries, None).unwrap()
        };
        let (before, after) = (tree(false), tree(true));
        let patch = runners::workspace::diff(&before, &after).unwrap().patch;
        Self { before, patch }
    }

    /// The files as they are before, in the folder `work` of a new folder.
    pub fn lay_out(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        materialize(&self.before, &folder.path().join("work"), None).unwrap();
        folder
    }

    /// Has git apply the patch in `work`.
    pub fn git_apply(&self, work: &Path, options: &[&str]) {
        use std::io::Write as _;
        let mut child = git(work).arg("apply").args(options).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&self.patch).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

fn content(file: usize, changed: bool) -> String {
    let line = |number: usize| match (changed, number) {
        (true, 20 | 200 | 380) => format!("    let changed_{number} = value({file}, {number}) + 1;\n"),
        (true, 201) => "    inserted();\n    twice();\n".to_owned(),
        (_, number) => format!("    let value_{number} = value({file}, {number});\n"),
    };
    (0..LINES).map(line).collect()
}

/// Whether git can be started.
pub fn has_git() -> bool {
    git(Path::new("/")).arg("--version").stdout(Stdio::null()).status().is_ok()
}

fn git(work: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(work).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.env("GIT_CEILING_DIRECTORIES", work.parent().unwrap_or(work));
    command
}
