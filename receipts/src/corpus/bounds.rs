//! Hostile sizes are refused with flat memory: each child verifies under a limit on its address space.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::gate::{Check, switch::without};
use crate::report::{Files, Request, verify};
use crate::{Apply, Open, RunChain, Signer, Timestamp};

const CASE: &str = "WHIPSTITCH_BOUNDED_CASE";
const WITHOUT: &str = "WHIPSTITCH_BOUNDED_WITHOUT";
const DIFF: &[u8] = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n";

/// Runs this test binary again on one case; its address space is held to `megabytes`.
fn child(folder: &Path, megabytes: u64, taken_out: Option<Check>) -> Output {
    const LIMITED: &str = "ulimit -c 0; ulimit -v \"$1\" && shift && exec \"$@\"";
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", LIMITED, "sh", &(megabytes * 1024).to_string()]).arg(test);
    command.args(["--exact", "corpus::bounds::the_child_verifies", "--nocapture", "--test-threads", "1"]);
    command.env(CASE, folder).env_remove(WITHOUT);
    if let Some(check) = taken_out {
        command.env(WITHOUT, format!("{check:?}"));
    }
    command.output().unwrap()
}

/// The line that a child says within its limit.
fn bounded(folder: &Path, megabytes: u64) -> String {
    let child = child(folder, megabytes, None);
    assert!(child.status.success(), "{child:?}");
    std::fs::read_to_string(folder.join("line")).unwrap()
}

/// Does nothing unless `child` started it.
#[test]
fn the_child_verifies() {
    let Some(folder) = std::env::var_os(CASE) else { return };
    let key = Signer::from_seed(&[7; 32]).public_key();
    let report = || verify(&Files::at(Path::new(&folder)), &key, &Request::default());
    let report = match std::env::var(WITHOUT).as_deref() {
        Err(_) => report(),
        Ok("LineSize") => without(Check::LineSize, report),
        Ok(other) => panic!("{other}"),
    };
    std::fs::write(Path::new(&folder).join("line"), &report.lines[0]).unwrap();
}

#[test]
fn a_file_of_a_gibibyte_is_refused_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("run.receipts")).unwrap();
    // A hole: it reads as NULs and takes no disk.
    file.set_len(1 << 30).unwrap();
    assert_eq!(bounded(folder.path(), 256), "E_SIZE@0");
    let unbounded = child(folder.path(), 256, Some(Check::LineSize));
    assert!(!unbounded.status.success(), "the limit holds one who reads the whole line: {unbounded:?}");
}

#[test]
fn a_depth_of_200_000_is_refused_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{}\t00\n", "[".repeat(200_000));
    std::fs::write(folder.path().join("run.receipts"), text).unwrap();
    assert_eq!(bounded(folder.path(), 256), "E_SIZE@0");
}

#[test]
fn a_chain_one_too_long_is_refused_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let signer = Signer::from_seed(&[7; 32]);
    let at = Timestamp::from_unix(1_790_000_000);
    let tree = "0a".repeat(20);
    let open = Open {
        run: [1; 32],
        actor: "whipstitch",
        reason: "a long run",
        as_of: at,
        issued_at: at,
        job: [2; 32],
        base: &tree,
    };
    let (mut chain, open) = RunChain::open(&signer, &open).unwrap();
    let apply = Apply {
        actor: "whipstitch",
        reason: "again",
        as_of: at,
        issued_at: at,
        diff: DIFF,
        journal_ref: [3; 32],
        tree_before: &tree,
        tree_after: &tree,
    };
    let file = std::fs::File::create(folder.path().join("run.receipts")).unwrap();
    let mut file = std::io::BufWriter::new(file);
    file.write_all(&crate::bundle::write(&[open])).unwrap();
    let first = folder.path().join("0001.diff");
    std::fs::write(&first, DIFF).unwrap();
    for seq in 1..=crate::MAX_CHAIN {
        let receipt = chain.apply(&signer, &apply).unwrap();
        file.write_all(&crate::bundle::write(&[receipt])).unwrap();
        if seq > 1 {
            std::fs::hard_link(&first, folder.path().join(format!("{seq:04}.diff")))
                .or_else(|_| {
                    // Filesystems bound how many names one file may have.
                    std::fs::write(folder.path().join(format!("{seq:04}.diff")), DIFF)
                })
                .unwrap();
        }
    }
    file.flush().unwrap();
    drop(file);
    assert_eq!(bounded(folder.path(), 512), "E_SIZE@100000");
}
