//! Python: requirements files and the dependencies that `pyproject.toml` lists, into one environment.
//!
//! The environment lies in the home and sees what the operator installed beside the interpreter, so that
//! pytest and ruff need not be fetched. Projects themselves are not built: a folder `src` of theirs is put
//! on the path instead, which runs no code of theirs while the window is open.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::InstallStep;
use super::manifests::{Manifests, directory_of, join, name_of};
use crate::sandbox::{HOME, WORKSPACE};
use crate::toolchains::Family;

/// Makes the environment: its folder, then folders of sources that are on the path besides. They come before
/// all that is installed: a dependency may bring the published version of the very project that is tested.
pub(super) const MAKE: &str = "\
import os, sys, sysconfig, venv
target = sys.argv[1]
venv.EnvBuilder(system_site_packages=True, symlinks=True, with_pip=False).create(target)
scheme = {'base': target, 'platbase': target}
packages = sysconfig.get_path('purelib', 'venv' if 'venv' in sysconfig.get_scheme_names() else None, scheme)
lines = [
    'import os, sys; '
    'at = ([place.endswith(\"-packages\") for place in sys.path] + [True]).index(True); '
    'sys.path[at:at] = filter(os.path.isdir, %r)' % sys.argv[2:]
]
if sys.prefix != sys.base_prefix:
    lines.append(sysconfig.get_path('purelib'))
os.makedirs(packages, exist_ok=True)
with open(os.path.join(packages, 'whipstitch.pth'), 'w') as file:
    file.write('\\n'.join(lines) + '\\n')
";

pub(super) fn steps(manifests: &Manifests<'_>, notes: &mut Vec<String>) -> Vec<InstallStep> {
    let mut installs = Vec::new();
    let files = manifests.named(|name| name.starts_with("requirements") && name.ends_with(".txt"));
    for path in files {
        let directory = directory_of(path);
        let is_asked = manifests.text(directory, name_of(path)).is_some_and(|text| asks(&text));
        if is_asked {
            let words = ["-r".to_owned(), name_of(path).to_owned()];
            installs.push(install(directory, &words, vec![path.to_owned()]));
        }
    }
    for directory in manifests.directories("pyproject.toml") {
        let Some(project) = manifests.table(directory, "pyproject.toml") else { continue };
        let wanted = dependencies(&project, directory, notes);
        if !wanted.is_empty() {
            installs.push(install(directory, &wanted, Vec::new()));
        }
    }
    let sources = sources(manifests);
    let apart = sources.iter().any(|folder| manifests.has_below(folder, ".py"));
    if installs.is_empty() && !apart {
        return Vec::new();
    }
    let mut steps = vec![environment(&sources)];
    steps.extend(installs);
    steps
}

/// Whether a step makes the environment, which fetches nothing.
pub(super) fn is_local(step: &InstallStep) -> bool {
    step.argv.get(2).is_some_and(|script| script == MAKE)
}

/// The folders in which projects may keep their sources apart.
fn sources(manifests: &Manifests<'_>) -> Vec<String> {
    let packages: BTreeSet<&str> = manifests
        .named(|name| matches!(name, "pyproject.toml" | "setup.py" | "setup.cfg"))
        .map(directory_of)
        .collect();
    packages.into_iter().map(|directory| join(directory, "src")).collect()
}

fn environment(sources: &[String]) -> InstallStep {
    let mut argv = vec!["python3".to_owned(), "-c".to_owned(), MAKE.to_owned(), format!("{HOME}/venv")];
    argv.extend(sources.iter().map(|folder| format!("{WORKSPACE}/{folder}")));
    step("", argv, Vec::new())
}

fn install(directory: &str, words: &[String], lockfiles: Vec<String>) -> InstallStep {
    let fixed = ["-m", "pip", "install", "--prefer-binary", "--no-warn-script-location"];
    let mut argv = vec![format!("{HOME}/venv/bin/python3")];
    argv.extend(fixed.map(str::to_owned));
    argv.extend(words.iter().cloned());
    step(directory, argv, lockfiles)
}

fn step(directory: &str, argv: Vec<String>, lockfiles: Vec<String>) -> InstallStep {
    InstallStep {
        family: Family::Python,
        directory: directory.to_owned(),
        argv,
        environment: BTreeMap::new(),
        lockfiles,
        carries: Vec::new(),
    }
}

/// Whether a requirements file names anything.
fn asks(text: &str) -> bool {
    text.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#'))
}

/// What a project's own metadata lists: its dependencies, and those of its tests.
fn dependencies(project: &Table, directory: &str, notes: &mut Vec<String>) -> Vec<String> {
    let metadata = project.get("project").and_then(Value::as_table);
    let mut lists: Vec<&Value> = metadata.and_then(|table| table.get("dependencies")).into_iter().collect();
    let extras = metadata.and_then(|table| table.get("optional-dependencies"));
    let groups = project.get("dependency-groups");
    for tables in [extras, groups].into_iter().flatten().filter_map(Value::as_table) {
        lists.extend(["test", "tests", "testing", "dev"].iter().filter_map(|name| tables.get(*name)));
    }
    let mut wanted = Vec::new();
    for text in lists.into_iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str) {
        if is_requirement(text) {
            if !wanted.iter().any(|other| other == text) {
                wanted.push(text.to_owned());
            }
        } else {
            let place = super::plan::shown(directory);
            notes.push(format!(
                "pyproject.toml of {place} lists {text:.60?}, which is no requirement by name"
            ));
        }
    }
    wanted
}

/// Whether a text names a package, and is no flag, path or address of a file.
fn is_requirement(text: &str) -> bool {
    let text = text.trim();
    text.len() <= 500
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !text.contains(['\n', '\r', '/'])
}
