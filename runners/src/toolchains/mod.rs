//! The toolchains of this host as a container sees them: which folders to bind, which environment to set.
//!
//! The system's own folders are in every container already. This module adds what lies elsewhere
//! (rustup's toolchains, an interpreter of pyenv, a virtual environment) by real paths: a link bound as a
//! link dangles inside, and an older tool of the system would quietly answer in its place. Nothing here
//! starts a process; versions are asked for inside a container by [`versions`].
//!
//! To add a language: one file with a `detect`, one variant of [`Family`] and its match arm.

mod clients;
mod dotnet;
mod go;
mod host;
mod java;
mod native;
mod node;
mod python;
mod rust;
mod versions;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::sandbox::{Bind, HOME};

pub use clients::{ClientSettings, Generated};
pub use host::Host;
pub use versions::versions;

/// A language family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Family {
    Rust,
    Python,
    Node,
    Go,
    Java,
    Dotnet,
    Native,
}

impl Family {
    /// Every family, in the order in which pages list them.
    pub const ALL: [Family; 7] = [
        Family::Rust,
        Family::Python,
        Family::Node,
        Family::Go,
        Family::Java,
        Family::Dotnet,
        Family::Native,
    ];

    /// The name in pages and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Rust => "Rust",
            Family::Python => "Python",
            Family::Node => "JavaScript and TypeScript",
            Family::Go => "Go",
            Family::Java => "JVM",
            Family::Dotnet => ".NET",
            Family::Native => "C and C++",
        }
    }

    fn detect(self, host: &Host) -> Part {
        match self {
            Family::Rust => rust::detect(host),
            Family::Python => python::detect(host),
            Family::Node => node::detect(host),
            Family::Go => go::detect(host),
            Family::Java => java::detect(host),
            Family::Dotnet => dotnet::detect(host),
            Family::Native => native::detect(host),
        }
    }
}

/// What containers get of this host's toolchains.
#[derive(Clone, Debug)]
pub struct Toolchains {
    /// Beyond the system's own folders, which every container has.
    pub binds: Vec<Bind>,
    /// The whole environment of a command that builds or tests, offline.
    pub environment: BTreeMap<String, String>,
    pub found: Vec<FoundTool>,
    pub missing: Vec<MissingTool>,
    /// What the operator has set for the clients of package registries.
    pub clients: ClientSettings,
}

impl Toolchains {
    /// Whether a program was found.
    pub fn has(&self, name: &str) -> bool {
        self.found.iter().any(|tool| tool.name == name)
    }
}

/// A program that commands may start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundTool {
    pub family: Family,
    pub name: String,
    /// `None` until [`versions`] has asked it.
    pub version: Option<String>,
    /// Where it lies, links resolved.
    pub path: PathBuf,
}

/// A program that was looked for in vain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingTool {
    pub family: Family,
    pub name: String,
    /// What to do about it.
    pub advice: String,
}

/// What one language adds.
#[derive(Default)]
struct Part {
    binds: Vec<Bind>,
    /// Folders for `PATH`, first things first.
    path: Vec<PathBuf>,
    environment: BTreeMap<String, String>,
    found: Vec<FoundTool>,
    missing: Vec<MissingTool>,
}

impl Part {
    fn found(&mut self, family: Family, name: &str, path: PathBuf) {
        self.found.push(FoundTool { family, name: name.to_owned(), version: None, path });
    }

    fn missing(&mut self, family: Family, name: &str, advice: &str) {
        self.missing.push(MissingTool { family, name: name.to_owned(), advice: advice.to_owned() });
    }

    /// Takes a program that `PATH` names, with the folder `root` of its installation where that lies
    /// outside of what every container has.
    fn take(&mut self, family: Family, name: &str, program: &Path, root: impl Fn(&Path) -> PathBuf) -> bool {
        let Ok(real) = program.canonicalize() else { return false };
        if !host::in_base(&real) {
            let root = root(&real);
            if host::too_wide(&root) {
                return false;
            }
            self.binds.push(Bind::same(root));
            if let Some(folder) = real.parent() {
                self.path.push(folder.to_owned());
            }
        }
        self.found(family, name, real);
        true
    }
}

/// Finds the toolchains of `host`.
pub fn detect(host: &Host) -> Toolchains {
    let mut binds: Vec<Bind> = Vec::new();
    let mut environment = base_environment();
    let mut path: Vec<PathBuf> = Vec::new();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for family in Family::ALL {
        let part = family.detect(host);
        binds.extend(part.binds);
        path.extend(part.path);
        environment.extend(part.environment);
        found.extend(part.found);
        missing.extend(part.missing);
    }
    leave_out_hidden(&mut binds, &mut path, &mut found, &mut missing);
    path.insert(0, PathBuf::from(HOME).join("venv/bin"));
    path.extend(
        ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from),
    );
    let mut words: Vec<String> = Vec::new();
    for folder in path {
        let word = folder.to_string_lossy().into_owned();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    environment.insert("PATH".to_owned(), words.join(":"));
    Toolchains { binds: without_nested(binds), environment, found, missing, clients: clients::settings(host) }
}

/// A toolchain that lies where containers have a folder of their own would vanish inside, and an older one
/// of the system would answer in its place. So it counts as missing.
fn leave_out_hidden(
    binds: &mut Vec<Bind>,
    path: &mut Vec<PathBuf>,
    found: &mut Vec<FoundTool>,
    missing: &mut Vec<MissingTool>,
) {
    let hidden: Vec<PathBuf> =
        binds.iter().filter(|bind| host::hidden(&bind.inside)).map(|bind| bind.host.clone()).collect();
    binds.retain(|bind| !host::hidden(&bind.inside));
    path.retain(|folder| !host::hidden(folder));
    found.retain(|tool| {
        let Some(folder) = hidden.iter().find(|folder| tool.path.starts_with(folder)) else { return true };
        if !binds.iter().any(|bind| tool.path.starts_with(&bind.host)) {
            missing.push(MissingTool {
                family: tool.family,
                name: tool.name.clone(),
                advice: format!(
                    "it lies in {}, where containers have a folder of their own; install it elsewhere",
                    folder.display()
                ),
            });
            return false;
        }
        true
    });
}

/// What every command needs, whatever its language. No client looks for a network unless it is told.
fn base_environment() -> BTreeMap<String, String> {
    [
        ("HOME", HOME),
        ("USER", "whipstitch"),
        ("LOGNAME", "whipstitch"),
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
        ("TMPDIR", "/tmp"),
        ("CI", "true"),
        ("NO_COLOR", "1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// One bind for each folder: those that lie within another at the same place are there already.
fn without_nested(mut binds: Vec<Bind>) -> Vec<Bind> {
    binds.sort();
    binds.dedup();
    let all = binds.clone();
    binds.retain(|bind| {
        let within = |outer: &Bind| {
            outer != bind
                && bind.host == bind.inside
                && outer.host == outer.inside
                && bind.host.starts_with(&outer.host)
        };
        !all.iter().any(within)
    });
    binds
}

#[cfg(test)]
mod tests;
