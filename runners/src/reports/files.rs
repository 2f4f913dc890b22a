//! Report files on disk: removed before a run, collected after it, never through a symlink, always bounded.
//!
//! This is the one file of `reports` that touches a disk. A report that was there before the run, is older
//! than it, or is no regular file is not collected.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

/// Folders are not entered deeper than this, and no more entries than this are looked at.
const DEPTH: usize = 24;
const ENTRIES: usize = 200_000;
/// More files or bytes than this are not collected.
const FILES: usize = 2_000;
const FILE_BYTES: u64 = 32 << 20;
const TOTAL_BYTES: u64 = 128 << 20;

/// What could not be done with a report file.
#[derive(Debug, thiserror::Error)]
pub enum ReportFileError {
    /// A report of an earlier run could not be removed, so a later one cannot be told from it.
    #[error("cannot remove the old report {path}; delete it and run the check again")]
    Remove { path: String, source: io::Error },
    /// A folder could not be listed.
    #[error("cannot list {path} for reports")]
    List { path: String, source: io::Error },
    /// A report could not be read.
    #[error("cannot read the report {path}")]
    Read { path: String, source: io::Error },
    /// More entries, files or bytes than a run may leave.
    #[error("the reports of this check are over a limit ({0}); write fewer or smaller ones")]
    TooMany(&'static str),
}

/// A collected file: its path relative to the check's directory, and its content.
pub type Collected = (String, Vec<u8>);

/// Removes whatever the patterns match under `directory`, so that what is there later is of this run.
pub fn clear(directory: &Path, patterns: &[String]) -> Result<(), ReportFileError> {
    for path in matching(directory, patterns)? {
        fs::remove_file(directory.join(&path)).map_err(|source| ReportFileError::Remove { path, source })?;
    }
    Ok(())
}

/// Reads whatever the patterns match and was modified since `started`; what is older is named in the second list.
pub fn collect(
    directory: &Path,
    patterns: &[String],
    started: SystemTime,
) -> Result<(Vec<Collected>, Vec<String>), ReportFileError> {
    let mut collected = Vec::new();
    let mut stale = Vec::new();
    let mut total = 0;
    for path in matching(directory, patterns)? {
        let read_error = |source| ReportFileError::Read { path: path.clone(), source };
        let file = open_plain(&directory.join(&path)).map_err(read_error)?;
        let about = file.metadata().map_err(read_error)?;
        if !about.is_file() {
            continue;
        }
        if about.modified().map_err(read_error)? < started {
            stale.push(path);
            continue;
        }
        total += about.len();
        if about.len() > FILE_BYTES || total > TOTAL_BYTES {
            return Err(ReportFileError::TooMany("bytes"));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES).read_to_end(&mut bytes).map_err(read_error)?;
        collected.push((path, bytes));
    }
    Ok((collected, stale))
}

/// Opens without following a symlink and without waiting for a pipe's writer.
fn open_plain(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
}

/// Relative paths of the files that any pattern matches, sorted.
fn matching(directory: &Path, patterns: &[String]) -> Result<Vec<String>, ReportFileError> {
    let mut found = Vec::new();
    if patterns.is_empty() {
        return Ok(found);
    }
    let mut folders = vec![(String::new(), 0)];
    let mut entries = 0;
    while let Some((folder, depth)) = folders.pop() {
        let list_error = |source| ReportFileError::List { path: folder.clone(), source };
        for entry in fs::read_dir(directory.join(&folder)).map_err(list_error)? {
            let entry = entry.map_err(list_error)?;
            entries += 1;
            if entries > ENTRIES {
                return Err(ReportFileError::TooMany("entries"));
            }
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type().map_err(list_error)?;
            if kind.is_dir() && depth < DEPTH && name != ".git" && name != "node_modules" {
                folders.push((path, depth + 1));
            } else if kind.is_file() && patterns.iter().any(|pattern| matches(pattern, &path)) {
                if found.len() >= FILES {
                    return Err(ReportFileError::TooMany("files"));
                }
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether a relative path matches: `*` stands for characters of one name, `**` for any folders.
pub fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.trim_start_matches("./").split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    match_names(&pattern, &path)
}

/// Dynamic programming over the names, so that no pattern makes it slow.
fn match_names(pattern: &[&str], path: &[&str]) -> bool {
    let mut reachable = vec![false; path.len() + 1];
    reachable[0] = true;
    for part in pattern {
        let mut next = vec![false; path.len() + 1];
        if *part == "**" {
            let mut seen = false;
            for (at, slot) in next.iter_mut().enumerate() {
                seen |= reachable[at];
                *slot = seen;
            }
        } else {
            for (at, name) in path.iter().enumerate() {
                next[at + 1] = reachable[at] && match_name(part, name);
            }
        }
        reachable = next;
    }
    reachable[path.len()]
}

fn match_name(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn patterns_match_names_and_folders() {
        assert!(matches("**/target/surefire-reports/TEST-*.xml", "target/surefire-reports/TEST-a.B.xml"));
        assert!(matches("**/target/surefire-reports/TEST-*.xml", "m/n/target/surefire-reports/TEST-a.xml"));
        assert!(!matches("**/target/surefire-reports/TEST-*.xml", "target/surefire-reports/x/TEST-a.xml"));
        assert!(matches("**/build/test-results/**/*.xml", "a/build/test-results/test/binary/x.xml"));
        assert!(matches("junit.xml", "junit.xml"));
        assert!(!matches("junit.xml", "a/junit.xml"));
        assert!(!matches("a*b", "ab/b"));
    }

    #[test]
    fn a_report_of_an_earlier_run_is_never_collected() {
        let folder = tempfile::tempdir().unwrap();
        let patterns = vec!["**/r.xml".to_owned()];
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/r.xml"), "old").unwrap();
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(collect(folder.path(), &patterns, later).unwrap(), (vec![], vec!["a/r.xml".to_owned()]));
        clear(folder.path(), &patterns).unwrap();
        assert_eq!(collect(folder.path(), &patterns, SystemTime::UNIX_EPOCH).unwrap(), (vec![], vec![]));
    }

    #[test]
    fn a_symlink_is_neither_followed_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("secret", folder.path().join("r.xml")).unwrap();
        let patterns = vec!["r.xml".to_owned()];
        assert_eq!(collect(folder.path(), &patterns, SystemTime::UNIX_EPOCH).unwrap(), (vec![], vec![]));
        clear(folder.path(), &patterns).unwrap();
        assert!(folder.path().join("secret").exists());
    }
}
