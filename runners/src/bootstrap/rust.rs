//! Rust: `cargo fetch` for every workspace that has a dependency from outside of the tree.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::manifests::{Manifests, above, join};
use super::{InstallStep, plan};
use crate::toolchains::Family;

pub(super) fn steps(manifests: &Manifests<'_>, notes: &mut Vec<String>) -> Vec<InstallStep> {
    let read: BTreeMap<&str, Table> = manifests
        .directories("Cargo.toml")
        .filter_map(|directory| Some((directory, manifests.table(directory, "Cargo.toml")?)))
        .collect();
    let mut roots: BTreeMap<&str, bool> = BTreeMap::new();
    for (directory, manifest) in &read {
        *roots.entry(root_of(directory, &read)).or_default() |= asks_outside(manifest);
    }
    let mut steps = Vec::new();
    for (root, asks) in roots {
        let lockfile = join(root, "Cargo.lock");
        let lock = manifests.text(root, "Cargo.lock");
        let locked_outside = lock.as_deref().is_some_and(|text| text.contains("\nsource = \""));
        if !asks && !locked_outside {
            continue;
        }
        let mut argv = vec!["cargo".to_owned(), "fetch".to_owned()];
        if lock.is_some() {
            argv.push("--locked".to_owned());
        } else {
            notes.push(format!(
                "{} has no Cargo.lock, so cargo chose the versions of its dependencies during this run",
                plan::shown(root)
            ));
        }
        steps.push(InstallStep {
            family: Family::Rust,
            directory: root.to_owned(),
            argv,
            environment: BTreeMap::new(),
            lockfiles: vec![lockfile],
            carries: Vec::new(),
        });
    }
    steps
}

/// The directory of the workspace that a package belongs to; its own where it belongs to none.
fn root_of<'a>(directory: &'a str, read: &BTreeMap<&'a str, Table>) -> &'a str {
    if read.get(directory).is_some_and(|manifest| manifest.contains_key("workspace")) {
        return directory;
    }
    for parent in above(directory) {
        let Some(workspace) = read.get(parent).and_then(|manifest| manifest.get("workspace")) else {
            continue;
        };
        let within = directory.strip_prefix(parent).unwrap_or(directory).trim_start_matches('/');
        let excluded = workspace.get("exclude").and_then(Value::as_array).into_iter().flatten();
        let is_excluded = excluded
            .filter_map(Value::as_str)
            .map(|path| path.trim_start_matches("./").trim_end_matches('/'))
            .any(|path| {
                within == path || within.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
            });
        return if is_excluded { directory } else { parent };
    }
    directory
}

/// Whether a manifest names a package that is not in the tree.
fn asks_outside(manifest: &Table) -> bool {
    const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let mut tables: Vec<&Table> = TABLES.iter().filter_map(|name| manifest.get(*name)?.as_table()).collect();
    let targets = manifest.get("target").and_then(Value::as_table);
    for target in targets.into_iter().flat_map(Table::values).filter_map(Value::as_table) {
        tables.extend(TABLES.iter().filter_map(|name| target.get(*name)?.as_table()));
    }
    if let Some(workspace) = manifest.get("workspace").and_then(Value::as_table) {
        tables.extend(workspace.get("dependencies").and_then(Value::as_table));
    }
    tables.into_iter().flatten().any(|(_, dependency)| match dependency {
        Value::Table(dependency) => {
            let by_workspace = dependency.get("workspace").is_some();
            !by_workspace && !dependency.contains_key("path")
        }
        _ => true,
    })
}
