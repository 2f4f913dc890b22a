//! JVM: a Java runtime, Maven and Gradle.

use std::path::Path;

use super::host::{Host, above_bin};
use super::{Family, Part};
use crate::sandbox::{Bind, HOME};

pub(super) fn detect(host: &Host) -> Part {
    let mut part = Part::default();
    let java = host
        .variable("JAVA_HOME")
        .map(|home| Path::new(home).join("bin/java"))
        .filter(|program| super::host::is_program(program))
        .or_else(|| host.program("java"));
    let java = java.and_then(|program| program.canonicalize().ok());
    match java {
        Some(program) if part.take(Family::Java, "java", &program, above_bin) => {
            let home = above_bin(&program).to_string_lossy().into_owned();
            part.environment.insert("JAVA_HOME".to_owned(), home);
        }
        Some(_) | None => {
            part.missing(Family::Java, "java", "install a JDK, such as the package `default-jdk-headless`");
        }
    }
    for (name, advice) in [
        ("mvn", "install the package `maven` where Maven projects are repaired"),
        ("gradle", "install Gradle where Gradle projects are repaired; their wrapper would fetch it"),
    ] {
        let found =
            host.program(name).is_some_and(|program| part.take(Family::Java, name, &program, above_bin));
        if !found {
            part.missing(Family::Java, name, advice);
        }
    }
    // A distribution's Maven has its settings behind links into `/etc`.
    if Path::new("/etc/maven").is_dir() && part.found.iter().any(|tool| tool.name == "mvn") {
        part.binds.push(Bind::same("/etc/maven"));
    }
    part.environment.insert("GRADLE_USER_HOME".to_owned(), format!("{HOME}/.gradle"));
    part
}
