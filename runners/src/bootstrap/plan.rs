//! What is to be fetched for a tree: a bounded walk over every package of a monorepo.

use crate::toolchains::{Family, Toolchains};
use crate::workspace::Tree;

use super::manifests::Manifests;
use super::{InstallStep, Plan, dotnet, go, jvm, npm, pip, rust};

/// More package roots than this are not installed; the rest is told of.
const MAX_STEPS: usize = 64;

/// Plans the installs of a tree. Nothing is read but the tree; no command runs.
pub fn plan(tree: &Tree, toolchains: &Toolchains) -> Plan {
    let manifests = Manifests::of(tree);
    let mut plan = Plan { steps: Vec::new(), notes: manifests.notes.clone() };
    for family in Family::ALL {
        let steps = steps_of(family, &manifests, &mut plan.notes);
        let Some(needed) = steps.first() else { continue };
        let program = needed.argv[0].clone();
        let own = program.contains('/');
        if !own && !toolchains.has(&program) {
            let directory = shown(&needed.directory);
            plan.notes.push(format!(
                "{} in {directory} has dependencies, and there is no `{program}` to fetch them; {}",
                family.name(),
                advice(toolchains, &program)
            ));
            continue;
        }
        plan.steps.extend(steps);
    }
    if plan.steps.len() > MAX_STEPS {
        let left_out = plan.steps.split_off(MAX_STEPS);
        plan.notes.push(format!("{} package roots beyond {MAX_STEPS} are not installed", left_out.len()));
    }
    plan
}

fn steps_of(family: Family, manifests: &Manifests<'_>, notes: &mut Vec<String>) -> Vec<InstallStep> {
    match family {
        Family::Rust => rust::steps(manifests, notes),
        Family::Python => pip::steps(manifests, notes),
        Family::Node => npm::steps(manifests, notes),
        Family::Go => go::steps(manifests),
        Family::Java => jvm::steps(manifests),
        Family::Dotnet => dotnet::steps(manifests),
        // CMake projects find libraries on the host or bring them along; there is no registry to ask.
        Family::Native => Vec::new(),
    }
}

fn advice(toolchains: &Toolchains, program: &str) -> String {
    toolchains
        .missing
        .iter()
        .find(|tool| tool.name == program)
        .map_or_else(|| format!("put `{program}` on the service's PATH"), |tool| tool.advice.clone())
}

/// A directory of the workspace as people read it.
pub(super) fn shown(directory: &str) -> &str {
    if directory.is_empty() { "the root" } else { directory }
}
