//! What stays when the process that made a container is killed: nothing.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use jobs::id::RunId;
use runners::sandbox::{Cause, Sandbox as _};

use super::common::sandbox;
use super::container::{Fixture, fixture, python};

/// Names the folder in which the killed process makes its container.
const FOLDER: &str = "WHIPSTITCH_TEST_MAKER_FOLDER";

const HOLD: &str = r#"
import fcntl
locked = open('/workspace/locked', 'w')
fcntl.flock(locked, fcntl.LOCK_EX)
if os.fork() == 0:
    os.setsid()
open('/workspace/begun', 'w').close()
time.sleep(600)
"#;

fn run_id() -> RunId {
    RunId::fresh(1_700_000_000_000)
}

/// Folders of cgroups, under any controller and version, that belong to a run.
pub fn leftovers(run: &str) -> Vec<PathBuf> {
    let (mut waiting, mut found) = (vec![PathBuf::from("/sys/fs/cgroup")], Vec::new());
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().contains(run) {
                    found.push(entry.path());
                }
                waiting.push(entry.path());
            }
        }
    }
    found
}

fn in_folder(mut fixture: Fixture, folder: &Path) -> Fixture {
    fixture.spec.workspace = folder.join("workspace");
    fixture.spec.home = folder.join("home");
    fixture
}

/// The process that is killed; by itself this test does nothing.
#[tokio::test]
async fn maker() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let Some(fixture) = fixture() else { return };
    let mut fixture = in_folder(fixture, Path::new(&folder));
    let id = std::fs::read_to_string(Path::new(&folder).join("run")).unwrap();
    fixture.spec.run = id.parse().unwrap();
    fixture.exec(python(HOLD)).await;
}

#[test]
fn a_container_dies_with_its_maker_and_leaves_nothing() {
    let Some(sandbox) = sandbox() else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = run_id();
    std::fs::write(folder.path().join("run"), run.to_string()).unwrap();
    let begun = folder.path().join("workspace/begun");
    let mut maker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::maker"])
        .env(FOLDER, folder.path())
        .spawn()
        .unwrap();
    while !begun.exists() {
        assert!(maker.try_wait().unwrap().is_none(), "the maker left before its container began");
        std::thread::yield_now();
    }
    maker.kill().unwrap();
    maker.wait().unwrap();
    // Free only when every process that had the file open is gone, so that waiting for it is the proof.
    File::open(folder.path().join("workspace/locked")).unwrap().lock().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        // The second time there is nothing left to do.
        for _ in 0..2 {
            sandbox.reap(run.clone()).await.unwrap();
        }
    });
    assert_eq!(leftovers(&run.to_string()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn no_cgroup_stays_after_a_command() {
    let Some(mut fixture) = fixture() else { return };
    fixture.spec.run = run_id();
    assert_eq!(fixture.run(&["true"]).await.cause, Cause::Exited(0));
    assert_eq!(leftovers(&fixture.spec.run.to_string()), Vec::<PathBuf>::new());
}
