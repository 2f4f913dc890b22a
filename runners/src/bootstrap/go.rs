//! Go: `go mod download` for every module that requires another.

use std::collections::BTreeMap;

use super::InstallStep;
use super::manifests::{Manifests, join};
use crate::toolchains::Family;

pub(super) fn steps(manifests: &Manifests<'_>) -> Vec<InstallStep> {
    let asks = |directory: &&str| {
        let text = manifests.text(directory, "go.mod").unwrap_or_default();
        text.lines().any(|line| line.trim_start().starts_with("require"))
    };
    manifests
        .directories("go.mod")
        .filter(asks)
        .map(|directory| InstallStep {
            family: Family::Go,
            directory: directory.to_owned(),
            argv: ["go", "mod", "download"].map(str::to_owned).to_vec(),
            environment: BTreeMap::new(),
            lockfiles: vec![join(directory, "go.mod"), join(directory, "go.sum")],
            carries: Vec::new(),
        })
        .collect()
}
