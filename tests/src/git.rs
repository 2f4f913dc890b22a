//! Real bare git repositories on disk, driven by git's own plumbing. Only tests run git this way.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// A bare repository.
#[derive(Clone, Debug)]
pub struct BareRepository {
    path: PathBuf,
}

/// One entry of a tree that is to be made: git's mode, and the object or `None` to leave it out.
#[derive(Clone, Debug)]
pub struct TreeEntry {
    pub path: String,
    pub mode: String,
    pub object: Option<String>,
}

/// The parts of a commit that tests look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub tree: String,
    pub parents: Vec<String>,
    pub message: String,
}

impl BareRepository {
    /// Makes an empty repository at `path`, whose default branch is `main`.
    pub fn create(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path)?;
        let repository = Self { path: path.to_owned() };
        repository.git(&["init", "--quiet", "--bare", "--initial-branch=main"])?;
        repository.git(&["config", "http.receivepack", "true"])?;
        repository.git(&["config", "uploadpack.allowReachableSHA1InWant", "true"])?;
        Ok(repository)
    }

    /// A repository that exists.
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A commit on top of `branch` (made when missing) whose tree holds the branch's files with
    /// `files` written over them; `None` deletes.
    pub fn commit_files(
        &self,
        branch: &str,
        message: &str,
        files: &[(&str, Option<&str>)],
    ) -> Result<String> {
        let name = format!("refs/heads/{branch}");
        let parent = self.resolve(&name)?;
        let mut entries = Vec::new();
        for (path, text) in files {
            let object = text.map(|text| self.write_blob(text.as_bytes())).transpose()?;
            entries.push(TreeEntry { path: (*path).to_owned(), mode: "100644".to_owned(), object });
        }
        let base = parent.as_deref().map(|commit| self.commit(commit)).transpose()?.map(|base| base.tree);
        let tree = self.make_tree(base.as_deref(), &entries)?;
        let parents: Vec<&str> = parent.as_deref().into_iter().collect();
        let commit = self.make_commit(&tree, &parents, message)?;
        self.update_ref(&name, &commit)?;
        Ok(commit)
    }

    /// The object that `name` (a ref, an id, `commit:path`) stands for; `None` when there is none.
    pub fn resolve(&self, name: &str) -> Result<Option<String>> {
        let output =
            self.command(&["rev-parse", "--verify", "--quiet", "--end-of-options", name]).output()?;
        let text = String::from_utf8(output.stdout)?.trim().to_owned();
        Ok((output.status.success() && !text.is_empty()).then_some(text))
    }

    /// `blob`, `tree`, `commit` or `tag`; `None` when the object does not exist.
    pub fn kind(&self, object: &str) -> Result<Option<String>> {
        if !object.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let output = self.command(&["cat-file", "-t", object]).stderr(Stdio::null()).output()?;
        let text = String::from_utf8(output.stdout)?.trim().to_owned();
        Ok(output.status.success().then_some(text))
    }

    /// The bytes of a blob.
    pub fn blob(&self, object: &str) -> Result<Vec<u8>> {
        self.run(self.command(&["cat-file", "blob", object]), &[])
    }

    /// A commit's tree, parents and message.
    pub fn commit(&self, id: &str) -> Result<Commit> {
        let text = String::from_utf8(self.run(self.command(&["cat-file", "commit", id]), &[])?)?;
        let (head, message) = text.split_once("\n\n").context("a commit has a message")?;
        let values = |name: &str| {
            head.lines()
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        Ok(Commit {
            tree: values("tree").into_iter().next().context("a commit has a tree")?,
            parents: values("parent"),
            message: message.to_owned(),
        })
    }

    /// Entries of a tree: mode, kind, object, path.
    pub fn list_tree(&self, tree: &str, recursive: Recursion) -> Result<Vec<[String; 4]>> {
        let mut arguments = vec!["ls-tree", "-z"];
        match recursive {
            Recursion::Whole => arguments.extend(["-r", "-t"]),
            Recursion::TopOnly => {}
        }
        arguments.push(tree);
        let text = String::from_utf8(self.run(self.command(&arguments), &[])?)?;
        text.split_terminator('\0')
            .map(|line| {
                let (meta, path) = line.split_once('\t').context("ls-tree separates by a tab")?;
                let mut words = meta.split(' ').map(str::to_owned);
                let mut word = || words.next().context("ls-tree names mode, kind and object");
                Ok([word()?, word()?, word()?, path.to_owned()])
            })
            .collect()
    }

    /// Writes a blob and returns its id.
    pub fn write_blob(&self, bytes: &[u8]) -> Result<String> {
        let command = self.command(&["hash-object", "-w", "--stdin"]);
        Ok(String::from_utf8(self.run(command, bytes)?)?.trim().to_owned())
    }

    /// Writes the tree that `base` becomes when `entries` are put over it.
    pub fn make_tree(&self, base: Option<&str>, entries: &[TreeEntry]) -> Result<String> {
        let index = tempfile::NamedTempFile::new_in(&self.path)?;
        std::fs::remove_file(index.path())?;
        let with_index = |arguments: &[&str]| {
            let mut command = self.command(arguments);
            command.env("GIT_INDEX_FILE", index.path());
            command
        };
        match base {
            Some(base) => self.run(with_index(&["read-tree", base]), &[])?,
            None => self.run(with_index(&["read-tree", "--empty"]), &[])?,
        };
        let mut lines = Vec::new();
        for entry in entries {
            match &entry.object {
                Some(object) => write!(lines, "{} {object} 0\t{}\0", entry.mode, entry.path)?,
                None => write!(lines, "0 {} 0\t{}\0", "0".repeat(40), entry.path)?,
            }
        }
        self.run(with_index(&["update-index", "-z", "--index-info"]), &lines)?;
        Ok(String::from_utf8(self.run(with_index(&["write-tree"]), &[])?)?.trim().to_owned())
    }

    /// Writes a commit object without moving a ref.
    pub fn make_commit(&self, tree: &str, parents: &[&str], message: &str) -> Result<String> {
        let mut arguments = vec!["commit-tree", tree];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        let command = self.command(&arguments);
        Ok(String::from_utf8(self.run(command, message.as_bytes())?)?.trim().to_owned())
    }

    /// Points a ref at a commit, whatever it pointed at before.
    pub fn update_ref(&self, name: &str, commit: &str) -> Result<()> {
        self.git(&["update-ref", name, commit])
    }

    /// Points a ref at a commit if it still points at `expected`; says whether it did.
    pub fn compare_and_set_ref(&self, name: &str, commit: &str, expected: &str) -> Result<bool> {
        Ok(self.command(&["update-ref", name, commit, expected]).output()?.status.success())
    }

    /// Whether `ancestor` is reachable from `commit`.
    pub fn is_ancestor(&self, ancestor: &str, commit: &str) -> Result<bool> {
        Ok(self.command(&["merge-base", "--is-ancestor", ancestor, commit]).output()?.status.success())
    }

    /// Paths that differ between two commits.
    pub fn changed_paths(&self, old: &str, new: &str) -> Result<Vec<String>> {
        let arguments = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new];
        let text = String::from_utf8(self.run(self.command(&arguments), &[])?)?;
        Ok(text.split_terminator('\0').map(str::to_owned).collect())
    }

    /// The git patch from one tree or commit to another.
    pub fn diff(&self, old: &str, new: &str) -> Result<Vec<u8>> {
        self.run(
            self.command(&["-c", "core.quotePath=false", "diff", "--no-renames", "--no-color", old, new]),
            &[],
        )
    }

    /// The same of one path.
    pub fn diff_of(&self, old: &str, new: &str, path: &str) -> Result<String> {
        let arguments = ["diff", "--no-renames", "--no-color", old, new, "--", path];
        Ok(String::from_utf8_lossy(&self.run(self.command(&arguments), &[])?).into_owned())
    }

    /// Copies a ref with its objects out of another repository.
    pub fn fetch(&self, other: &BareRepository, from: &str, to: &str) -> Result<()> {
        let source = other.path.to_str().context("test folders have plain names")?;
        self.git(&["fetch", "--quiet", "--no-tags", source, &format!("+{from}:{to}")])
    }

    fn git(&self, arguments: &[&str]) -> Result<()> {
        self.run(self.command(arguments), &[]).map(drop)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(&self.path).args(arguments);
        quiet(&mut command);
        command
    }

    fn run(&self, mut command: Command, input: &[u8]) -> Result<Vec<u8>> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start git")?;
        child.stdin.take().context("stdin is piped")?.write_all(input)?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output.stdout)
    }
}

/// How much of a tree is listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recursion {
    TopOnly,
    Whole,
}

/// Keeps the machine's and the user's git settings out, and gives commits one author and date.
pub fn quiet(command: &mut Command) {
    for (name, value) in ENVIRONMENT {
        command.env(name, value);
    }
}

/// The environment of every git that tests start.
pub const ENVIRONMENT: [(&str, &str); 9] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_AUTHOR_NAME", "Ada Author"),
    ("GIT_AUTHOR_EMAIL", "ada@example.invalid"),
    ("GIT_COMMITTER_NAME", "Ada Author"),
    ("GIT_COMMITTER_EMAIL", "ada@example.invalid"),
    ("GIT_AUTHOR_DATE", "1700000000 +0000"),
    ("GIT_COMMITTER_DATE", "1700000000 +0000"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_holds_the_files_of_its_parent_and_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let repository = BareRepository::create(&folder.path().join("a.git")).unwrap();
        let first =
            repository.commit_files("main", "one", &[("a", Some("1\n")), ("d/b", Some("2\n"))]).unwrap();
        let second = repository.commit_files("main", "two", &[("a", None), ("d/c", Some("3\n"))]).unwrap();
        let commit = repository.commit(&second).unwrap();
        assert_eq!((commit.parents, commit.message.as_str()), (vec![first.clone()], "two"));
        assert_eq!(repository.changed_paths(&first, &second).unwrap(), ["a", "d/c"]);
        let names: Vec<_> = repository
            .list_tree(&commit.tree, Recursion::Whole)
            .unwrap()
            .into_iter()
            .map(|[_, kind, _, path]| format!("{kind} {path}"))
            .collect();
        assert_eq!(names, ["tree d", "blob d/b", "blob d/c"]);
        assert!(repository.is_ancestor(&first, &second).unwrap());
        assert!(!repository.is_ancestor(&second, &first).unwrap());
        assert!(!repository.compare_and_set_ref("refs/heads/main", &first, &first).unwrap());
    }
}
