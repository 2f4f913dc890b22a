//! The real git, on folders of its own and without anybody's configuration.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use runners::workspace::{self, Objects, Tree};

/// A repository and a folder that trees are laid out in, one at a time.
pub struct Git {
    folder: tempfile::TempDir,
    objects: Objects,
    laid_out: usize,
}

impl Git {
    /// `None`, with a word, where there is no git; where CI promised it, that is a failure.
    pub fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let made = command(folder.path(), folder.path()).arg("init").arg("--quiet").status();
        match made {
            Ok(status) => assert!(status.success(), "git init: {status}"),
            Err(error) => {
                assert!(std::env::var_os("WHIPSTITCH_CI").is_none(), "CI must have git: {error}");
                eprintln!("skipped: git cannot be started: {error}");
                return None;
            }
        }
        let objects = Objects::open(&folder.path().join("git")).unwrap();
        Some(Self { folder, objects, laid_out: 0 })
    }

    /// Lays a tree out as files; gives the folder, whose predecessor is gone then.
    pub fn lay_out(&mut self, tree: &Tree) -> PathBuf {
        let work = |number: usize| self.folder.path().join(format!("work-{number}"));
        drop(std::fs::remove_dir_all(work(self.laid_out)));
        self.laid_out += 1;
        let work = work(self.laid_out);
        workspace::materialize(tree, &work, None).unwrap();
        work
    }

    /// Runs git in the folder `work`, with `input` on its standard input.
    pub fn run(&self, work: &Path, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = command(self.folder.path(), work);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A git that refuses early closes its input, which is no fault.
        drop(child.stdin.take().unwrap().write_all(input));
        child.wait_with_output().unwrap()
    }

    /// Whether `git apply` takes the patch in `work`; if not, what it says.
    pub fn apply(&self, work: &Path, patch: &[u8]) -> Result<(), String> {
        let output = self.run(work, &["apply", "--whitespace=nowarn"], patch);
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// The id of the tree that the files of `work` make.
    pub fn tree_of(&self, work: &Path) -> String {
        drop(std::fs::remove_file(self.folder.path().join("git/index")));
        let added = self.run(work, &["add", "--all", "--force", "."], b"");
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let written = self.run(work, &["write-tree"], b"");
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        String::from_utf8(written.stdout).unwrap().trim().to_owned()
    }

    /// The id of the tree that `git add --all` makes of `work`, by its ignore files, when `tracked` was tracked.
    pub fn tree_with_untracked(&self, work: &Path, tracked: &Tree) -> String {
        let id = self.objects.write_tree(tracked).unwrap().to_string();
        drop(std::fs::remove_file(self.folder.path().join("git/index")));
        for arguments in [&["read-tree", id.as_str()][..], &["add", "--all", "."]] {
            let output = self.run(work, arguments, b"");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let written = self.run(work, &["write-tree"], b"");
        String::from_utf8(written.stdout).unwrap().trim().to_owned()
    }

    /// Git's own patch from one tree to another.
    pub fn diff(&self, before: &Tree, after: &Tree, options: &[&str]) -> Vec<u8> {
        let ids = [before, after].map(|tree| self.objects.write_tree(tree).unwrap().to_string());
        let mut arguments = vec!["diff-tree", "-r", "-p"];
        arguments.extend_from_slice(options);
        arguments.extend(ids.iter().map(String::as_str));
        let output = self.run(self.folder.path(), &arguments, b"");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

fn command(folder: &Path, work: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(work)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_DIR", folder.join("git"))
        .env("GIT_WORK_TREE", work)
        .env("LC_ALL", "C");
    command
}
