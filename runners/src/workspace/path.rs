//! Names inside a tree, and which of them are refused.
//!
//! A [`TreePath`] is the only way to name a file in this crate's trees and changesets, so whoever
//! holds one holds a name that cannot leave the root and cannot be git's own folder in any disguise
//! that a file system may undo (HFS+ drops some code points, NTFS has short names and streams).

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// The longest path, in bytes. Longer ones cannot be opened by name on Linux.
const MAX_PATH: usize = 4095;
/// The longest single name, in bytes.
const MAX_NAME: usize = 255;
/// The deepest path, in names.
pub const MAX_DEPTH: usize = 128;

/// A relative path of one file, with `/` between names; bytes, since git's paths are bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Box<[u8]>);

/// A path that no tree of ours may hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the path {path:?} {why}")]
pub struct PathRefused {
    /// The path as text, cut to 200 characters.
    pub path: String,
    pub why: &'static str,
}

impl TreePath {
    /// Checks `path`.
    pub fn parse(path: impl AsRef<[u8]>) -> Result<Self, PathRefused> {
        let path = path.as_ref();
        match refusal(path) {
            None => Ok(Self(path.into())),
            Some(why) => Err(PathRefused { path: shown(path).chars().take(200).collect(), why }),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, where the bytes are UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The form to open it by, relative to the root.
    pub fn as_os(&self) -> &std::path::Path {
        use std::os::unix::ffi::OsStrExt as _;
        std::path::Path::new(std::ffi::OsStr::from_bytes(&self.0))
    }

    /// The folder that holds it; `None` at the root.
    pub fn parent(&self) -> Option<TreePath> {
        let cut = self.0.iter().rposition(|&b| b == b'/')?;
        Some(Self(self.0[..cut].into()))
    }

    /// All folders that hold it, the outermost first.
    pub fn parents(&self) -> impl Iterator<Item = TreePath> + '_ {
        self.0.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(cut, _)| Self(self.0[..cut].into()))
    }

    /// The last name.
    pub fn name(&self) -> &[u8] {
        self.0.rsplit(|&b| b == b'/').next().unwrap_or(&self.0)
    }

    /// How many folders hold it.
    pub fn depth(&self) -> usize {
        self.0.iter().filter(|&&b| b == b'/').count()
    }

    /// The form under which two paths are the same file on a file system that compares names without their
    /// case, or without the way in which accents are written.
    pub fn folded(&self) -> String {
        fold(&self.0).nfc().collect()
    }
}

impl std::fmt::Display for TreePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

impl std::fmt::Debug for TreePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// Bytes as text that is safe to print: control characters escaped, invalid UTF-8 replaced.
pub fn shown(path: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(path);
    if text.chars().any(char::is_control) {
        text.chars()
            .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
            .collect()
    } else {
        text
    }
}

/// Whether `target`, read from a link that stands at `link`, stays inside the root.
///
/// Only leading `..` are followed by counting, since a `..` after a name may leave the root when the
/// name is itself a link.
pub fn link_stays_inside(link: &TreePath, target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) || target.len() > MAX_PATH {
        return false;
    }
    let (mut left, mut named) = (link.depth(), false);
    for part in target.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if named || left == 0 => return false,
            b".." => left -= 1,
            _ => named = true,
        }
    }
    true
}

fn refusal(path: &[u8]) -> Option<&'static str> {
    if path.is_empty() {
        return Some("is empty");
    }
    if path.len() > MAX_PATH {
        return Some("is longer than 4,095 bytes");
    }
    if path.contains(&0) {
        return Some("contains a NUL byte");
    }
    if path[0] == b'/' {
        return Some("is absolute; write it relative to the repository's root");
    }
    if path.iter().filter(|&&b| b == b'/').count() >= MAX_DEPTH {
        return Some("is deeper than 128 folders");
    }
    path.split(|&b| b == b'/').find_map(name_refusal)
}

/// Why one name between two slashes is refused.
pub fn name_refusal(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => return Some("has an empty name between two slashes, or ends with a slash"),
        b"." | b".." => return Some("contains `.` or `..`; write it relative to the repository's root"),
        _ => {}
    }
    if name.len() > MAX_NAME {
        return Some("has a name longer than 255 bytes");
    }
    // A backslash separates names on NTFS, so each part of the name is looked at alone.
    if name.split(|&b| b == b'\\').any(is_git_folder) {
        return Some("names git's own folder");
    }
    None
}

/// Whether a file system may take `name` for `.git`.
fn is_git_folder(name: &[u8]) -> bool {
    if name.is_ascii() && !name.iter().any(|b| matches!(b, b'g' | b'G')) {
        return false;
    }
    let folded = fold(name);
    let stem = folded.split(':').next().unwrap_or_default().trim_end_matches([' ', '.']);
    matches!(stem, ".git" | "git~1")
}

/// Whether a file system may take the name for `.gitmodules`, which git never reads through a link.
pub fn is_gitmodules(path: &TreePath) -> bool {
    let folded = fold(path.name());
    let stem = folded.split(':').next().unwrap_or_default().trim_end_matches([' ', '.']);
    stem == ".gitmodules" || is_short_gitmodules(stem)
}

/// The names that NTFS gives `.gitmodules` beside its long one: `gitmod~1` to `gitmod~4`, then the first
/// characters of a name made from a hash, of eight characters with a tilde and a number in the end.
fn is_short_gitmodules(stem: &str) -> bool {
    let Some((head, number)) = stem.split_once('~') else { return false };
    let counts =
        number.starts_with(|c: char| ('1'..='9').contains(&c)) && number.bytes().all(|b| b.is_ascii_digit());
    let first_four = head == "gitmod" && matches!(number, "1" | "2" | "3" | "4");
    first_four || (counts && stem.len() == 8 && "gi7eba".starts_with(head))
}

/// Lower case, without the code points that HFS+ ignores.
fn fold(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.chars().filter(|&c| !is_ignored_by_hfs(c)).flat_map(char::to_lowercase).collect()
}

/// Code points that HFS+ leaves out when it compares names.
const fn is_ignored_by_hfs(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_the_root_is_refused() {
        for path in ["", "/etc/passwd", "../x", "a/../b", "a/..", "./a", "a/.", "a//b", "a/", "a\0b", ".."] {
            assert!(TreePath::parse(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn git_is_refused_in_every_disguise() {
        for path in [
            ".git",
            ".git/config",
            "a/.GIT/hooks/x",
            ".Git.",
            ".git ",
            ".git . .",
            "git~1",
            "GIT~1/x",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it/config",
            "\u{feff}.git",
            ".gi\u{206f}t",
            "a\\.git\\config",
            "a/git~1:x",
        ] {
            assert!(TreePath::parse(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_name_that_only_begins_like_git_is_taken() {
        for path in [".gitignore", ".github/x", "git", "git~2", "a/.gitattributes", "...", "a b", "-rf", "é"]
        {
            assert!(TreePath::parse(path).is_ok(), "{path:?}");
        }
    }

    #[test]
    fn a_path_deeper_or_longer_than_the_system_opens_is_refused() {
        assert!(TreePath::parse("d/".repeat(128) + "f").is_err());
        assert!(TreePath::parse("d/".repeat(127) + "f").is_ok());
        assert!(TreePath::parse("n".repeat(256)).is_err());
    }

    #[test]
    fn a_link_stays_inside_only_by_leading_dots() {
        let link = TreePath::parse("a/b/link").unwrap();
        for inside in ["x", "../x", "../../x", "./x/y", "x/./y", "..", "../.."] {
            assert!(link_stays_inside(&link, inside.as_bytes()), "{inside}");
        }
        for outside in ["", "/x", "../../../x", "x/../y", "../x/../../y", "x\0"] {
            assert!(!link_stays_inside(&link, outside.as_bytes()), "{outside:?}");
        }
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert_eq!(shown(b"t/\x1b[2Jesc\n"), "t/\\u{1b}[2Jesc\\n");
    }
}
