//! Folders outside the data folder that belong to one run, and their removal by label after a crash.
//!
//! The egress window's socket cannot lie in the data folder, since the path of a socket must be short. Its
//! folder's name tells the run, so that whoever takes the run up finds what a killed process left.

use std::io;
use std::path::Path;

use jobs::id::RunId;

use super::removal;

/// What the name of everything of a run begins with: the last, random digits of its id.
fn label(run: &RunId) -> String {
    const DIGITS: usize = 12;
    let id = run.as_str();
    format!("whipstitch-{}-", &id[id.len().saturating_sub(DIGITS)..])
}

/// A folder with a short path for one run; removed with its value.
pub fn folder(run: &RunId) -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(&label(run)).tempdir()
}

/// Removes the folders that are left of `run`.
pub fn remove(run: &RunId) -> io::Result<()> {
    remove_in(&std::env::temp_dir(), run)
}

fn remove_in(place: &Path, run: &RunId) -> io::Result<()> {
    let label = label(run);
    for entry in std::fs::read_dir(place)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&label) {
            removal::remove(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bears_the_label_of_a_run_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let (run, other) = (RunId::fresh(1), RunId::fresh(1));
        for run in [&run, &other] {
            std::fs::create_dir_all(place.path().join(format!("{}x/window", label(run)))).unwrap();
        }
        std::fs::write(place.path().join("whipstitch-kept"), "x").unwrap();
        remove_in(place.path(), &run).unwrap();
        let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 2);
    }
}
