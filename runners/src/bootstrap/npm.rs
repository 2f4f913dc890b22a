//! JavaScript: `npm ci` (or its like) where a lockfile says what exactly is fetched.
//!
//! No script of a package runs while the window is open. What is installed lies in the workspace, since
//! Node.js looks for it there, and is bound read-only into later containers.

use std::collections::BTreeMap;

use super::InstallStep;
use super::manifests::{Manifests, above, join};
use crate::toolchains::Family;

/// Each lockfile and the command that takes what it says, and nothing else.
const CLIENTS: [(&str, &[&str]); 4] = [
    ("package-lock.json", &["npm", "ci", "--ignore-scripts"]),
    ("npm-shrinkwrap.json", &["npm", "ci", "--ignore-scripts"]),
    ("pnpm-lock.yaml", &["pnpm", "install", "--frozen-lockfile", "--ignore-scripts"]),
    ("yarn.lock", &["yarn", "install", "--frozen-lockfile", "--ignore-scripts"]),
];

pub(super) fn steps(manifests: &Manifests<'_>, notes: &mut Vec<String>) -> Vec<InstallStep> {
    let mut steps: Vec<InstallStep> = Vec::new();
    for directory in manifests.directories("package.json") {
        // A package below one that has a lockfile is a member of its workspace.
        let covered = |above: &str| steps.iter().any(|step| step.directory == above);
        if above(directory).any(covered) || !asks(manifests, directory) {
            continue;
        }
        match CLIENTS.iter().find(|(lockfile, _)| manifests.has(directory, lockfile)) {
            Some((lockfile, argv)) => steps.push(step(directory, lockfile, argv)),
            None => notes.push(format!(
                "package.json of {} has dependencies and no lockfile, so they are not fetched; commit one",
                super::plan::shown(directory)
            )),
        }
    }
    steps
}

fn step(directory: &str, lockfile: &str, argv: &[&str]) -> InstallStep {
    InstallStep {
        family: Family::Node,
        directory: directory.to_owned(),
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        environment: BTreeMap::new(),
        lockfiles: vec![join(directory, lockfile)],
        carries: vec![join(directory, "node_modules")],
    }
}

/// Whether a package lists dependencies, or members that may.
fn asks(manifests: &Manifests<'_>, directory: &str) -> bool {
    let Some(text) = manifests.text(directory, "package.json") else { return false };
    let Ok(package) = serde_json::from_str::<serde_json::Value>(&text) else { return false };
    ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"]
        .iter()
        .filter_map(|name| package.get(name)?.as_object())
        .any(|table| !table.is_empty())
        || package.get("workspaces").is_some()
}
