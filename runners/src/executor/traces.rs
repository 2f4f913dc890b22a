//! What a check left behind besides its caches, so that the next check of the same tree is not steered by it.
//!
//! Checks of one tree may share a container, since they share what is built. But a build script or a linter's
//! plugin may as well write a setting: a `.cargo/config.toml` in the home, a file that another tool reads.
//! Where a check left anything that is no known cache, what follows gets folders of its own. Being wrong here
//! costs time and nothing else.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Folders of a home that tools fill by themselves: build products, and packages that were unpacked.
const CACHES: [&str; 7] =
    ["target", ".cache", ".cargo/registry", ".cargo/git", "go/pkg", ".npm/_logs", ".npm/_cacache"];
/// Single files of a home that tools touch at every start.
const TOUCHED: [&str; 3] = [".cargo/.package-cache", ".cargo/.package-cache-mutate", ".cargo/.global-cache"];
/// More than this is not looked at, and counts as changed.
const NAMES: usize = 200_000;
const DEPTH: usize = 64;

/// The names below two folders, each with what tells whether it was written to. The time of a change cannot
/// be set by the one who makes it.
#[derive(PartialEq, Eq, Debug)]
pub struct Traces(BTreeMap<PathBuf, Seen>);

type Seen = (u64, u64, i64, i64);

impl Traces {
    /// Looks at a container's folders; `None` where there is too much to tell.
    pub fn of(workspace: &Path, home: &Path) -> Option<Self> {
        let mut found = BTreeMap::new();
        walk(workspace, Path::new(""), 0, &mut found, &|_| false)?;
        let is_cache = |path: &Path| {
            CACHES.iter().any(|cache| path == Path::new(cache))
                || TOUCHED.iter().any(|name| path == Path::new(name))
        };
        walk(home, Path::new(""), 0, &mut found, &is_cache)?;
        Some(Self(found))
    }
}

fn walk(
    root: &Path,
    below: &Path,
    depth: usize,
    found: &mut BTreeMap<PathBuf, Seen>,
    left_out: &dyn Fn(&Path) -> bool,
) -> Option<()> {
    if depth > DEPTH {
        return None;
    }
    for entry in std::fs::read_dir(root.join(below)).ok()? {
        let entry = entry.ok()?;
        let path = below.join(entry.file_name());
        if left_out(&path) {
            continue;
        }
        if found.len() >= NAMES {
            return None;
        }
        let about = entry.metadata().ok()?;
        if about.is_dir() {
            found.insert(root.join(&path), (about.ino(), 0, 0, 0));
            walk(root, &path, depth + 1, found, left_out)?;
        } else {
            found.insert(root.join(&path), seen(&about));
        }
    }
    Some(())
}

fn seen(about: &Metadata) -> Seen {
    (about.ino(), about.size(), about.ctime(), about.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_a_check_left_is_seen_and_a_cache_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, home) = (folder.path().join("workspace"), folder.path().join("home"));
        std::fs::create_dir_all(workspace.join("src")).unwrap();
        std::fs::create_dir_all(home.join(".cargo")).unwrap();
        std::fs::write(workspace.join("src/lib.rs"), "a").unwrap();
        let before = Traces::of(&workspace, &home).unwrap();
        std::fs::create_dir_all(home.join("target/debug")).unwrap();
        std::fs::write(home.join("target/debug/a"), "built").unwrap();
        std::fs::write(home.join(".cargo/.package-cache"), "").unwrap();
        assert_eq!(Traces::of(&workspace, &home).unwrap(), before);
        std::fs::write(home.join(".cargo/config.toml"), "[build]\nrustc-wrapper = \"lie\"\n").unwrap();
        let planted = Traces::of(&workspace, &home).unwrap();
        assert_ne!(planted, before);
        // The same length, and a time of writing that is set back.
        let file = workspace.join("src/lib.rs");
        let time = std::fs::metadata(&file).unwrap().modified().unwrap();
        std::fs::write(&file, "b").unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        assert_ne!(Traces::of(&workspace, &home).unwrap(), planted);
    }

    #[test]
    fn a_link_to_a_folder_is_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, home) = (folder.path().join("workspace"), folder.path().join("home"));
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::create_dir_all(&home).unwrap();
        std::os::unix::fs::symlink("/", workspace.join("everything")).unwrap();
        assert_eq!(Traces::of(&workspace, &home).unwrap().0.len(), 1);
    }
}
