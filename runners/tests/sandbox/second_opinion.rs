//! Probes that were written by others, run as they lie beside the project where they do.

use std::path::{Path, PathBuf};

use runners::sandbox::{Cause, Command};
use serde_json::Value;

use super::container::{command, fixture, python_program};

/// Without a quota of its own the workspace is bounded by file only, which `disk limit` of the probe
/// says; and no share of the processor is promised.
const STANDING: [&str; 2] = ["b04_inode_fill", "b06_cpu_hog"];

fn probes() -> Option<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = ["../../shared", "../../../shared"].map(|path| package.join(path).join("probes/probes.py"));
    beside.into_iter().find(|path| path.exists())
}

#[tokio::test]
async fn another_hand_finds_no_leak_either() {
    let Some(fixture) = fixture() else { return };
    let Some(path) = probes() else {
        eprintln!("skipped: no probes beside the project");
        return;
    };
    let interpreter = python_program();
    let command = Command {
        stdin: std::fs::read(path).unwrap(),
        ..command(&[&interpreter.to_string_lossy(), "-", "--bombs"])
    };
    let exit = fixture.exec(command).await;
    let text = String::from_utf8_lossy(&exit.stdout);
    assert!(matches!(exit.cause, Cause::Exited(0) | Cause::OutOfMemory), "{:?}\n{text}", exit.cause);
    let found: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Where no cgroup holds the memory, the bomb that follows probe 42 ends the whole container.
    let expected = if exit.cause == Cause::OutOfMemory && found.len() < 48 { 42 } else { 48 };
    assert!(found.len() >= expected, "only {} probes ran:\n{text}", found.len());
    let leaks =
        found.iter().filter(|one| one["ok"] != true && !STANDING.iter().any(|name| one["id"] == *name));
    let leaks: Vec<String> = leaks.map(ToString::to_string).collect();
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}
