//! The manifests of a tree: where packages begin, in the order of their paths, and within bounds.

use std::sync::Arc;

use crate::workspace::{Tree, TreePath};

/// Folders whose packages belong to somebody else, or to a test of a tool.
const NOT_OURS: [&str; 9] = [
    "node_modules",
    "vendor",
    "third_party",
    "target",
    ".venv",
    "venv",
    "testdata",
    "fixtures",
    "site-packages",
];
/// A package deeper than this is not looked for.
const MAX_DEPTH: usize = 8;
/// Manifests beyond this many are not read.
const MAX_MANIFESTS: usize = 512;
/// A manifest or lockfile larger than this is not read.
const MAX_BYTES: usize = 16 << 20;

/// A tree's manifests.
pub(super) struct Manifests<'a> {
    tree: &'a Tree,
    /// Paths that may be a package's manifest, as text.
    paths: Vec<&'a str>,
    pub notes: Vec<String>,
}

impl<'a> Manifests<'a> {
    pub fn of(tree: &'a Tree) -> Self {
        let mut notes = Vec::new();
        let mut paths: Vec<&str> = tree
            .entries()
            .iter()
            .filter(|(path, entry)| entry.mode.is_file() && path.depth() <= MAX_DEPTH)
            .filter_map(|(path, _)| path.as_str())
            .filter(|path| is_manifest(name_of(path)) && !is_theirs(path))
            .collect();
        // A root comes before what it holds, so that a workspace is known before its members.
        paths.sort_by_key(|path| (path.matches('/').count(), *path));
        if paths.len() > MAX_MANIFESTS {
            notes.push(format!(
                "{} manifests beyond {MAX_MANIFESTS} are not read",
                paths.len() - MAX_MANIFESTS
            ));
            paths.truncate(MAX_MANIFESTS);
        }
        Self { tree, paths, notes }
    }

    /// The directories that hold a file of this name, the outermost first.
    pub fn directories(&self, name: &'a str) -> impl Iterator<Item = &'a str> + '_ {
        self.paths.iter().filter(move |path| name_of(path) == name).map(|path| directory_of(path))
    }

    /// All manifests whose name passes.
    pub fn named(&self, passes: impl Fn(&str) -> bool) -> impl Iterator<Item = &'a str> {
        self.paths.iter().copied().filter(move |path| passes(name_of(path)))
    }

    /// Whether the tree has this file.
    pub fn has(&self, directory: &str, name: &str) -> bool {
        TreePath::parse(join(directory, name)).is_ok_and(|path| self.tree.entry(&path).is_some())
    }

    /// Whether the tree has a file with this ending somewhere below a directory.
    pub fn has_below(&self, directory: &str, ending: &str) -> bool {
        let start = format!("{directory}/");
        let mut paths = self.tree.entries().keys().filter_map(TreePath::as_str);
        paths.any(|path| path.starts_with(&start) && path.ends_with(ending))
    }

    /// A file's text; `None` where it is absent, too large, a link or no UTF-8.
    pub fn text(&self, directory: &str, name: &str) -> Option<String> {
        let path = TreePath::parse(join(directory, name)).ok()?;
        let entry = self.tree.entry(&path).filter(|entry| entry.mode.is_file())?;
        let content: Arc<[u8]> = self.tree.content(&path, entry).ok()?;
        if content.len() > MAX_BYTES { None } else { String::from_utf8(content.to_vec()).ok() }
    }

    /// A TOML file's table; a file that cannot be read is one that its own tool will complain of.
    pub fn table(&self, directory: &str, name: &str) -> Option<toml::Table> {
        self.text(directory, name)?.parse().ok()
    }
}

fn is_manifest(name: &str) -> bool {
    let fixed = [
        "Cargo.toml",
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "package.json",
        "go.mod",
        "pom.xml",
        "build.gradle",
        "build.gradle.kts",
        "settings.gradle",
        "settings.gradle.kts",
    ];
    let requirements = name.starts_with("requirements") && name.ends_with(".txt");
    let dotnet = [".sln", ".slnx", ".csproj", ".fsproj", ".vbproj"].iter().any(|end| name.ends_with(end));
    fixed.contains(&name) || requirements || dotnet
}

fn is_theirs(path: &str) -> bool {
    directory_of(path).split('/').any(|folder| NOT_OURS.contains(&folder))
}

/// The last name of a path.
pub(super) fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The directory of a path; empty for the root.
pub(super) fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// A path below a directory that may be the root.
pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// The directories above one, the nearest first, the root last.
pub(super) fn above(directory: &str) -> impl Iterator<Item = &str> {
    let mut rest = (!directory.is_empty()).then_some(directory);
    std::iter::from_fn(move || {
        let parent = directory_of(rest?);
        rest = (!parent.is_empty()).then_some(parent);
        Some(parent)
    })
}
