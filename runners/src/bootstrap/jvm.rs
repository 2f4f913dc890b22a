//! JVM: Maven and Gradle projects, each from its outermost folder.
//!
//! Java takes no proxy from the usual variables: both tools are told by properties, and of certificates by
//! the trust store that the runtime of this host comes with. A project's own wrapper is never started: it
//! would fetch and run a program of the project's choice.

use std::collections::BTreeMap;

use super::InstallStep;
use super::manifests::{Manifests, above, join};
use crate::sandbox::HOME;
use crate::toolchains::Family;

/// Tells a Java program of the forwarder on loopback.
pub(super) const PROXY: [&str; 4] = [
    "-Dhttps.proxyHost=127.0.0.1",
    "-Dhttps.proxyPort=3128",
    "-Dhttp.proxyHost=127.0.0.1",
    "-Dhttp.proxyPort=3128",
];

pub(super) fn steps(manifests: &Manifests<'_>) -> Vec<InstallStep> {
    let maven: Vec<&str> = manifests.directories("pom.xml").collect();
    let mut steps: Vec<InstallStep> = outermost(&maven)
        .filter(|directory| asks(manifests, directory, "pom.xml", "<dependenc"))
        .filter(|directory| !stays_offline(manifests, directory))
        .map(|directory| step(directory, &["mvn", "-B", "-q", "dependency:go-offline"], Vec::new()))
        .collect();
    let mut gradle: Vec<&str> =
        ["settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts"]
            .into_iter()
            .flat_map(|name| manifests.directories(name))
            .collect();
    gradle.sort_unstable();
    gradle.dedup();
    steps.extend(outermost(&gradle).map(|directory| {
        let argv = ["gradle", "--console=plain", "--no-daemon", "-q", "dependencies"];
        step(directory, &argv, vec![join(directory, "gradle.lockfile")])
    }));
    steps
}

/// The directories that lie below no other of them.
fn outermost<'a>(all: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    all.iter().copied().filter(|directory| !above(directory).any(|parent| all.contains(&parent)))
}

fn asks(manifests: &Manifests<'_>, directory: &str, name: &str, word: &str) -> bool {
    manifests.text(directory, name).is_some_and(|text| text.contains(word) || text.contains("<modules>"))
}

/// Whether a project tells Maven itself to look for nothing: what it needs is in a repository of this host.
fn stays_offline(manifests: &Manifests<'_>, directory: &str) -> bool {
    let options = manifests.text(directory, ".mvn/maven.config").unwrap_or_default();
    options.split_whitespace().any(|option| option == "-o" || option == "--offline")
}

fn step(directory: &str, argv: &[&str], lockfiles: Vec<String>) -> InstallStep {
    let home = format!("-Duser.home={HOME}");
    let options: Vec<&str> = PROXY.iter().copied().chain([home.as_str()]).collect();
    InstallStep {
        family: Family::Java,
        directory: directory.to_owned(),
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        environment: BTreeMap::from([("JAVA_TOOL_OPTIONS".to_owned(), options.join(" "))]),
        lockfiles,
        carries: Vec::new(),
    }
}
