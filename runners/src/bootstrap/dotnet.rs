//! .NET: `dotnet restore` of the solution, else of each project.

use std::collections::BTreeMap;

use super::InstallStep;
use super::manifests::{Manifests, directory_of, join, name_of};
use crate::toolchains::Family;

pub(super) fn steps(manifests: &Manifests<'_>) -> Vec<InstallStep> {
    let solutions: Vec<&str> =
        manifests.named(|name| name.ends_with(".sln") || name.ends_with(".slnx")).collect();
    let projects = manifests.named(|name| name.ends_with("proj")).filter(|path| {
        manifests
            .text(directory_of(path), name_of(path))
            .is_some_and(|text| text.contains("PackageReference"))
    });
    let projects: Vec<&str> = projects.collect();
    if projects.is_empty() {
        return Vec::new();
    }
    let chosen = if solutions.is_empty() { projects } else { solutions };
    chosen
        .into_iter()
        .map(|path| {
            let directory = directory_of(path);
            InstallStep {
                family: Family::Dotnet,
                directory: directory.to_owned(),
                argv: ["dotnet", "restore", name_of(path)].map(str::to_owned).to_vec(),
                environment: BTreeMap::new(),
                lockfiles: vec![join(directory, "packages.lock.json")],
                carries: Vec::new(),
            }
        })
        .collect()
}
