//! Which untracked files are no part of a change: git's ignore rules, and what tools leave behind.

use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice as _;
use gix::glob::pattern::Case;
use gix::ignore::Search;
use gix::ignore::search::Ignore;

use super::path::TreePath;
use super::tree::{Tree, TreeError};

/// Folders that a language's tools make and nobody commits.
const LEFT_BY_TOOLS: [&[u8]; 13] = [
    b"__pycache__",
    b".pytest_cache",
    b".mypy_cache",
    b".ruff_cache",
    b".hypothesis",
    b".tox",
    b".nox",
    b".eggs",
    b".venv",
    b"node_modules",
    b".gradle",
    b".nyc_output",
    b".cargo-home",
];
/// Files beside which a folder `target` is a build's output.
const MAKES_TARGET: [&[u8]; 3] = [b"Cargo.toml", b"pom.xml", b"build.sbt"];
/// Files that tools leave behind and nobody commits.
const LEFT_FILES: [&[u8]; 3] = [b".coverage", b".DS_Store", b"CACHEDIR.TAG"];
/// A rule file larger than this is not read.
pub(super) const MAX_RULE_FILE: u64 = 1 << 20;
/// A rule with more stars could take for ever to match.
const MAX_STARS: usize = 12;
/// The name of the files that hold the rules.
pub(super) const RULE_FILE: &[u8] = b".gitignore";

/// Git's rules, from the files of one tree or folder.
#[derive(Default)]
pub(super) struct Rules {
    search: Search,
}

/// What kind of name is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Folder,
    File,
}

/// Why an untracked name is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Taken,
    /// A rule of the repository says so.
    ByRule,
    /// It is what a tool leaves behind.
    ByDefault,
}

impl Rules {
    /// The rules of all ignore files of a tree.
    pub(super) fn of(tree: &Tree) -> Result<Self, TreeError> {
        let mut rules = Self::default();
        let mut files: Vec<_> = tree
            .entries()
            .iter()
            .filter(|(path, entry)| entry.mode.is_file() && path.name() == RULE_FILE)
            .collect();
        // Deeper files win, and the search asks the last one first.
        files.sort_by_key(|(path, _)| path.depth());
        for (path, entry) in files {
            rules.add(path, &tree.content(path, entry)?);
        }
        Ok(rules)
    }

    /// Adds one file's rules. Rules that were added later win.
    pub(super) fn add(&mut self, path: &TreePath, content: &[u8]) {
        if content.len() as u64 > MAX_RULE_FILE {
            return;
        }
        let cheap = |line: &&[u8]| line.iter().filter(|&&b| b == b'*').count() <= MAX_STARS;
        let lines: Vec<&[u8]> = content.split(|&b| b == b'\n').filter(cheap).collect();
        let root = Path::new("/");
        let source: PathBuf = root.join(path.as_os());
        let added =
            self.search.add_patterns_buffer(&lines.join(&b'\n'), source, Some(root), Ignore::default());
        // The only error is a path that is no git path, and this one came from a tree.
        drop(added);
    }

    /// Whether an untracked name is left out. `beside` tells whether a name stands in the same folder.
    pub(super) fn judge(&self, path: &TreePath, kind: Kind, beside: impl Fn(&[u8]) -> bool) -> Verdict {
        let is_folder = Some(kind == Kind::Folder);
        let found =
            self.search.pattern_matching_relative_path(path.as_bytes().as_bstr(), is_folder, Case::Sensitive);
        match found {
            Some(found) if found.pattern.is_negative() => Verdict::Taken,
            Some(_) => Verdict::ByRule,
            None if left_by_tools(path.name(), kind, beside) => Verdict::ByDefault,
            None => Verdict::Taken,
        }
    }
}

fn left_by_tools(name: &[u8], kind: Kind, beside: impl Fn(&[u8]) -> bool) -> bool {
    match kind {
        Kind::Folder => {
            LEFT_BY_TOOLS.contains(&name)
                || name.ends_with(b".egg-info")
                || (name == b"target" && MAKES_TARGET.iter().any(|file| beside(file)))
        }
        Kind::File => LEFT_FILES.contains(&name) || name.ends_with(b".pyc"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(rules: &Rules, path: &str, kind: Kind) -> Verdict {
        rules.judge(&TreePath::parse(path).unwrap(), kind, |name| name == b"Cargo.toml")
    }

    fn rules(files: &[(&str, &str)]) -> Rules {
        let mut rules = Rules::default();
        for (path, content) in files {
            rules.add(&TreePath::parse(path).unwrap(), content.as_bytes());
        }
        rules
    }

    #[test]
    fn a_deeper_file_of_rules_wins() {
        let rules = rules(&[(".gitignore", "*.log\n/out/\n"), ("keep/.gitignore", "!*.log\n")]);
        assert_eq!(judge(&rules, "a/b.log", Kind::File), Verdict::ByRule);
        assert_eq!(judge(&rules, "keep/b.log", Kind::File), Verdict::Taken);
        assert_eq!(judge(&rules, "out", Kind::Folder), Verdict::ByRule);
        assert_eq!(judge(&rules, "out", Kind::File), Verdict::Taken);
        assert_eq!(judge(&rules, "a/out", Kind::Folder), Verdict::Taken);
    }

    #[test]
    fn what_tools_leave_behind_is_left_out_unless_a_rule_takes_it() {
        let plain = rules(&[]);
        for folder in ["target", "a/__pycache__", "node_modules", ".pytest_cache", "x.egg-info"] {
            assert_eq!(judge(&plain, folder, Kind::Folder), Verdict::ByDefault, "{folder}");
        }
        assert_eq!(judge(&plain, "a.pyc", Kind::File), Verdict::ByDefault);
        let taking = rules(&[(".gitignore", "!target/\n")]);
        assert_eq!(judge(&taking, "target", Kind::Folder), Verdict::Taken);
    }

    #[test]
    fn a_folder_named_target_is_source_where_nothing_builds() {
        let verdict = rules(&[]).judge(&TreePath::parse("src/target").unwrap(), Kind::Folder, |_| false);
        assert_eq!(verdict, Verdict::Taken);
    }

    #[test]
    fn a_rule_made_to_run_for_ever_is_not_matched() {
        let rules = rules(&[(".gitignore", &format!("{}b\n", "a*".repeat(40)))]);
        assert_eq!(judge(&rules, &"a".repeat(200), Kind::File), Verdict::Taken);
    }
}
