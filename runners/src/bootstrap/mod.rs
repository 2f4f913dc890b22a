//! Bootstrap: dependencies are fetched through the one egress window, which is then sealed for good.
//!
//! What is to be fetched is planned from the tree alone ([`plan`]). Where nothing is, no window is opened
//! at all. The commands run in a container of their own with a copy of the tree that is used for nothing
//! else; only the home, where the clients keep what they fetched, goes on to later containers. The proof
//! of the seal is taken in a fresh container of the kind that all later ones are.

mod dotnet;
mod download_hosts;
mod fetch;
mod go;
mod jvm;
mod lockfiles;
mod manifests;
mod npm;
mod pip;
mod plan;
mod rust;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jobs::id::RunId;
use jobs::job::Limits;
use jobs::step::{EgressLine, Install, SealReport};
use tokio_util::sync::CancellationToken;

use crate::egress::{EgressError, EgressPolicy, HostPort, Sealed};
use crate::progress::Happening;
use crate::sandbox::{Bind, Sandbox, SandboxError};
use crate::toolchains::{Family, Toolchains};
use crate::workspace::{MaterializeError, Tree};

pub use fetch::run;
pub use plan::plan;

/// What is to be fetched for a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    pub steps: Vec<InstallStep>,
    /// What was found and is not fetched, with what to do about it, in sentences for people.
    pub notes: Vec<String>,
}

impl Plan {
    /// Whether nothing is to be run at all.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether a step fetches something, so that a window is needed.
    pub fn needs_window(&self) -> bool {
        self.steps.iter().any(|step| !pip::is_local(step))
    }
}

/// One command of the egress window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstallStep {
    pub family: Family,
    /// Relative to the workspace; empty for its root.
    pub directory: String,
    pub argv: Vec<String>,
    /// What it has beyond the environment of the window.
    pub environment: BTreeMap<String, String>,
    /// Files that say what exactly is fetched, relative to the workspace, there or not.
    pub lockfiles: Vec<String>,
    /// Folders of the workspace that later containers need too, such as `node_modules`.
    pub carries: Vec<String>,
}

/// What Bootstrap works with.
pub struct Input<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub run: &'a RunId,
    /// The admitted tree.
    pub tree: &'a Tree,
    /// A folder that is absent or empty: Bootstrap's own copy of the tree is laid out in it.
    pub workspace: &'a Path,
    /// The home that all containers of the run share; made where it is absent.
    pub home: &'a Path,
    /// A folder that is absent: the window's socket lies in it.
    pub socket_folder: &'a Path,
    pub toolchains: &'a Toolchains,
    pub plan: &'a Plan,
    pub policy: EgressPolicy,
    pub limits: &'a Limits,
    pub progress: &'a (dyn Fn(Happening) + Send + Sync),
    pub cancel: &'a CancellationToken,
}

/// What Bootstrap leaves for the later phases.
#[derive(Debug)]
pub struct Bootstrapped {
    pub installs: Vec<Install>,
    pub egress: Vec<EgressLine>,
    pub seal: SealReport,
    /// The proof that later phases ask for.
    pub sealed: Sealed,
    /// What later containers need beyond the toolchains: folders that installs made in the workspace.
    pub binds: Vec<Bind>,
    /// What was not fetched and why, in sentences for people.
    pub notes: Vec<String>,
}

/// Bootstrap did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The tree could not be laid out for it.
    #[error("cannot lay the tree out for the installs")]
    Materialize(#[from] MaterializeError),
    /// A folder or a settings file of the home could not be made.
    #[error("cannot prepare the container's home: {what}")]
    Home { what: String, source: std::io::Error },
    /// The window could not be opened.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The container could not do its work.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// An install command failed; the text names it, what it asked for in vain and what it said.
    #[error("{0}")]
    Install(Box<FailedInstall>),
    /// The run was cancelled.
    #[error("cancelled while dependencies were fetched")]
    Cancelled,
    /// A way out was found open after the seal.
    #[error("the container is not sealed: {0}")]
    NotSealed(String),
}

/// An install that failed.
#[derive(Clone, PartialEq, Debug)]
pub struct FailedInstall {
    pub installs: Vec<Install>,
    pub egress: Vec<EgressLine>,
    /// The command as one line.
    pub command: String,
    /// How it ended.
    pub ended: String,
    /// What the broker refused, in sentences.
    pub refusals: Vec<String>,
    /// The end of what it printed, at most 4,000 bytes.
    pub said: String,
}

impl std::fmt::Display for FailedInstall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` {}", self.command, self.ended)?;
        for refusal in &self.refusals {
            write!(f, "; {refusal}")?;
        }
        if !self.refusals.is_empty() {
            f.write_str("; admit the host in the operator's egress settings if it is meant")?;
        }
        if !self.said.is_empty() {
            write!(f, "\n{}", self.said)?;
        }
        Ok(())
    }
}

/// The hosts that the clients' own operator-side settings name. The operator's list is added to them.
pub fn registries(toolchains: &Toolchains) -> BTreeSet<HostPort> {
    toolchains.clients.hosts.clone()
}

/// Gives a new file or folder to the ids that a container runs under.
pub(crate) fn give_to(path: &Path, owner: Option<(u32, u32)>) -> std::io::Result<()> {
    match owner {
        Some((user, group)) => std::os::unix::fs::lchown(path, Some(user), Some(group)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
