//! Paths that no patch may touch unless the base branch's policy says otherwise.
//!
//! Patterns are globs over whole paths: `*` and `?` stay within one name, `**` spans any number of
//! folders, none included. Case never matters, because some file systems do not know it.

/// Those of `paths` that one of `patterns` covers, in their order.
pub fn touched<'a>(patterns: &[String], paths: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.to_lowercase()).collect();
    let covered = |path: &&str| {
        let path = path.to_lowercase();
        patterns.iter().any(|pattern| covers(pattern, &path))
    };
    paths.into_iter().filter(covered).map(str::to_owned).collect()
}

fn covers(pattern: &str, path: &str) -> bool {
    let mut pattern: Vec<&str> = pattern.split('/').collect();
    if pattern.last() == Some(&"**") {
        // `folder/**` covers what is in the folder, not a file of the folder's name.
        pattern.push("*");
    }
    let path: Vec<&str> = path.split('/').collect();
    spans(&pattern, &path)
}

/// Whether the names of a pattern cover the names of a path, all of them.
///
/// Going back to the last `**` is enough, so that the work is bounded by the product of both lengths.
fn spans(pattern: &[&str], path: &[&str]) -> bool {
    let (mut at, mut seen, mut any) = (0, 0, None);
    while seen < path.len() {
        match pattern.get(at) {
            Some(&"**") => {
                any = Some((at, seen));
                at += 1;
            }
            Some(name) if fits(name.as_bytes(), path[seen].as_bytes()) => (at, seen) = (at + 1, seen + 1),
            Some(_) | None => match any {
                Some((from, taken)) => {
                    (at, seen) = (from + 1, taken + 1);
                    any = Some((from, taken + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|name| *name == "**")
}

/// Whether one name fits, by going back to the last star at most.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut seen, mut star) = (0, 0, None);
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(b'?') => (at, seen) = (at + 1, seen + 1),
            Some(byte) if *byte == name[seen] => (at, seen) = (at + 1, seen + 1),
            Some(_) | None => match star {
                Some((from, taken)) => {
                    (at, seen) = (from + 1, taken + 1);
                    star = Some((from, taken + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touches(pattern: &str, path: &str) -> bool {
        !touched(&[pattern.to_owned()], [path]).is_empty()
    }

    #[test]
    fn h7_what_decides_over_code_is_protected_by_default() {
        let protected = jobs::policy::default_protected_paths();
        let bad = [
            ".github/workflows/ci.yml",
            ".github/whipstitch.toml",
            ".GitHub/Workflows/CI.yml",
            "CODEOWNERS",
            "docs/CODEOWNERS",
            "a/b/codeowners",
            "CLAUDE.md",
            "deep/er/AGENTS.md",
            ".mcp.json",
            ".claude/settings.json",
            ".husky/pre-commit",
            ".gitattributes",
            ".gitmodules",
        ];
        assert_eq!(touched(&protected, bad), bad);
        let good = ["src/lib.rs", "github/workflows/ci.yml", "src/CODEOWNERS.rs", "x.github/a", "docs/a.md"];
        assert!(touched(&protected, good).is_empty());
    }

    #[test]
    fn globs_span_names_and_folders() {
        assert!(touches("**/*.lock", "Cargo.lock"));
        assert!(touches("**/*.lock", "a/b/Cargo.lock"));
        assert!(touches("a/**/z", "a/z"));
        assert!(touches("a/**/z", "a/b/c/z"));
        assert!(touches("a/**", "a/b"));
        assert!(touches("**", "anything/at/all"));
        assert!(touches("a?c*e", "abcde"));
        assert!(touches("*a*b*", "xxaxxbxx"));
        assert!(!touches("a/**", "a"));
        assert!(!touches("*.lock", "a/Cargo.lock"));
        assert!(!touches("a*b", "a/b"));
        assert!(!touches("a?c", "ac"));
        assert!(!touches("", "a"));
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let pattern = "*a".repeat(40) + "b";
        assert!(!touches(&pattern, &"a".repeat(4_000)));
        let pattern = "**/a/".repeat(40) + "b";
        assert!(!touches(&pattern, &["a"; 400].join("/")));
        assert!(touches(&pattern, &(["a"; 400].join("/") + "/b")));
    }
}
