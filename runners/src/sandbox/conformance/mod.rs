//! The conformance suite: what a hostile build tries, tried in a container of any backend.
//!
//! A [`Probe`] is one attempt to get past a wall, made from inside by a program that is bound into the
//! container: the executable itself, started with an argument of its own. A bomb is a probe that uses up something
//! until it is stopped, so that it gets a command of its own. [`examine`] makes the containers, sets out
//! canaries on the host, runs everything and looks at the host afterwards.
//!
//! A probe never changes the host: what it would read is a canary, what it would write it writes back or
//! only opens. It passes when the attempt fails; an attempt that could not be made says so.

mod bombs;
mod examine;
mod files;
mod inside;
mod isolation;
mod kernel;
mod namespaces;
mod network;
mod privileges;
mod procfs;
mod raw;
mod workspace;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jobs::step::SealTest;
use serde::{Deserialize, Serialize};

pub use self::examine::{Column, ExamineError, as_other_user, examine};
pub(super) use self::inside::main as probe_main;

/// The first argument by which an executable knows that it is to be the probe.
pub(super) const ARGUMENT: &str = "whipstitch-probe";
/// Where the probe's executable appears in a container.
const PROGRAM: &str = "/opt/whipstitch/probe";

/// One attempt from inside.
pub struct Probe {
    pub group: &'static str,
    pub name: &'static str,
    /// What holds when it is contained.
    pub rule: &'static str,
    depth: Depth,
    attempt: fn(&Facts) -> Outcome,
}

/// When a probe is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Depth {
    /// In every self-test: cheap, needs no facts, and leaves its process as it was.
    Quick,
    /// In the whole suite alone.
    Whole,
}

impl Probe {
    const fn quick(
        group: &'static str,
        name: &'static str,
        rule: &'static str,
        attempt: fn(&Facts) -> Outcome,
    ) -> Self {
        Self { group, name, rule, depth: Depth::Quick, attempt }
    }

    const fn whole(
        group: &'static str,
        name: &'static str,
        rule: &'static str,
        attempt: fn(&Facts) -> Outcome,
    ) -> Self {
        Self { group, name, rule, depth: Depth::Whole, attempt }
    }
}

/// What came of an attempt, with what was seen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "evidence")]
pub enum Outcome {
    /// The wall held.
    Contained(String),
    /// It did not.
    Leak(String),
    /// The limit cannot be enforced on this machine, and the backend says so in its capabilities.
    Declared(String),
    /// The attempt could not be made, so that nothing is known.
    NotTried(String),
}

impl Outcome {
    /// The word in tables.
    pub const fn word(&self) -> &'static str {
        match self {
            Outcome::Contained(_) => "contained",
            Outcome::Leak(_) => "LEAK",
            Outcome::Declared(_) => "declared",
            Outcome::NotTried(_) => "not tried",
        }
    }

    /// What was seen.
    pub fn evidence(&self) -> &str {
        match self {
            Outcome::Contained(text)
            | Outcome::Leak(text)
            | Outcome::Declared(text)
            | Outcome::NotTried(text) => text,
        }
    }

    /// Whether nothing got past the wall. What was not tried proves nothing.
    pub const fn is_contained(&self) -> bool {
        match self {
            Outcome::Contained(_) | Outcome::Declared(_) => true,
            Outcome::Leak(_) | Outcome::NotTried(_) => false,
        }
    }
}

/// One probe's result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Found {
    pub group: String,
    pub name: String,
    pub rule: String,
    pub outcome: Outcome,
}

/// What a probe is told of the host, so that it knows what it must not find.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Facts {
    /// A file of the host that anyone there may read, and what it says.
    canary_file: PathBuf,
    canary: String,
    /// Listeners of the host.
    abstract_socket: String,
    path_socket: PathBuf,
    tcp_port: u16,
    /// The process that examines, and what it is like.
    host_process: i32,
    host_name: String,
    /// The host's namespaces as `/proc/self/ns` names them.
    namespaces: BTreeMap<String, String>,
    /// A segment of shared memory of the host.
    memory_key: i32,
    /// SHA-256 of each `NAME=value` of the examining process.
    environment: Vec<String>,
    /// The container's bounds.
    processes: u64,
    open_files: u64,
    /// Whether the forwarder to an egress window listens inside.
    forwarded: bool,
}

/// Every probe that needs no command of its own.
fn probes() -> impl Iterator<Item = &'static Probe> {
    [
        network::PROBES,
        files::PROBES,
        procfs::PROBES,
        isolation::PROBES,
        namespaces::PROBES,
        kernel::PROBES,
        privileges::PROBES,
    ]
    .into_iter()
    .flatten()
}

/// The self-test of a finished container, made by the calling process itself in a few milliseconds.
pub(super) fn self_test(forwarded: bool) -> Vec<SealTest> {
    let facts = Facts { forwarded, ..Facts::default() };
    let quick = probes().filter(|probe| probe.depth == Depth::Quick);
    quick
        .map(|probe| {
            let outcome = (probe.attempt)(&facts);
            let name = probe.name.to_owned();
            SealTest { name, closed: outcome.is_contained(), evidence: outcome.evidence().to_owned() }
        })
        .collect()
}

/// `Contained` for an error, `Leak` for a success.
fn refused<T>(attempt: std::io::Result<T>, leak: &str) -> Outcome {
    match attempt {
        Ok(_) => Outcome::Leak(leak.to_owned()),
        Err(error) => Outcome::Contained(short(&error)),
    }
}

/// Contained when every one of `attempts` was refused; the evidence names those that were not, or the
/// answers that were given.
fn all_refused<'a>(attempts: impl IntoIterator<Item = (&'a str, std::io::Result<()>)>) -> Outcome {
    let (mut open, mut answers): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    for (name, attempt) in attempts {
        match attempt {
            Ok(()) => open.push(name),
            Err(error) => {
                let answer = short(&error);
                if !answers.contains(&answer) {
                    answers.push(answer);
                }
            }
        }
    }
    none_open(&open, answers.join(", "))
}

/// Contained when nothing was found open.
fn none_open(open: &[impl AsRef<str>], evidence: impl Into<String>) -> Outcome {
    if open.is_empty() {
        return Outcome::Contained(evidence.into());
    }
    let names: Vec<&str> = open.iter().map(AsRef::as_ref).collect();
    Outcome::Leak(names.join(", "))
}

/// An error as the kernel names it, without Rust's number.
fn short(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_suite_is_large() {
        let mut names: Vec<&str> =
            probes().map(|probe| probe.name).chain(bombs::BOMBS.iter().map(|bomb| bomb.name)).collect();
        names.sort_unstable();
        let doubled: Vec<&[&str]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(doubled.is_empty(), "{doubled:?}");
        assert!(names.len() >= 60, "{}", names.len());
    }

    #[test]
    fn what_was_not_tried_is_not_contained() {
        assert!(!Outcome::NotTried("no program".to_owned()).is_contained());
        assert!(!refused(Ok(()), "made").is_contained());
        assert!(refused::<()>(Err(std::io::ErrorKind::PermissionDenied.into()), "made").is_contained());
    }

    #[test]
    fn one_open_way_among_many_is_named() {
        let tried = [("a", Err(std::io::ErrorKind::NotFound.into())), ("b", Ok(()))];
        assert_eq!(all_refused(tried), Outcome::Leak("b".to_owned()));
    }
}
