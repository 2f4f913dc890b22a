//! Where an agent's tools run: containers without a way out, each on a copy of the tree of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jobs::id::RunId;

use crate::edit::{self, ChangesetError, CommitError, Target};
use crate::egress::Sealed;
use crate::sandbox::{Bind, Command, Container, ContainerLimits, ContainerSpec, Exit, Sandbox, SandboxError};
use crate::workspace::{self, Bounds, MaterializeError, ScanError, Tree};

/// Makes benches for one run.
pub struct Workbench<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub run: &'a RunId,
    /// A folder that the agent's launches have for themselves; a bench is made below it and removed again.
    pub folder: &'a Path,
    /// The run's home, with what Bootstrap fetched.
    pub home: &'a Path,
    pub binds: &'a [Bind],
    pub environment: &'a BTreeMap<String, String>,
    pub limits: ContainerLimits,
    pub bounds: &'a Bounds,
    /// An agent works only after the seal.
    pub sealed: &'a Sealed,
}

/// One container on one copy of a tree. Dropping it removes the copy.
pub struct Bench<'a> {
    workbench: &'a Workbench<'a>,
    container: Box<dyn Container>,
    folder: tempfile::TempDir,
    tree: Tree,
}

/// A bench could not be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkbenchError {
    /// No folder could be made for it.
    #[error("cannot make a folder for the agent below {folder}")]
    Folder { folder: PathBuf, source: std::io::Error },
    /// The tree could not be laid out.
    #[error("cannot lay the tree out for the agent")]
    Materialize(#[from] MaterializeError),
    /// The container could not do its work.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// What the tools left is no tree that a patch could tell of.
    #[error("cannot read the agent's copy of the tree back")]
    Scan(#[from] ScanError),
    /// An edit could not be written into the copy.
    #[error("cannot write an edit into the agent's copy of the tree")]
    Commit(#[from] CommitError),
    /// An edit could not be told.
    #[error("cannot tell what an edit changes")]
    Changeset(#[from] ChangesetError),
}

impl Workbench<'_> {
    /// Lays `tree` out anew and makes a container on it.
    pub async fn open(&self, tree: &Tree) -> Result<Bench<'_>, WorkbenchError> {
        let failed = |source| WorkbenchError::Folder { folder: self.folder.to_owned(), source };
        std::fs::create_dir_all(self.folder).map_err(failed)?;
        let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(self.folder).map_err(failed)?;
        let workspace = folder.path().join("workspace");
        workspace::materialize(tree, &workspace, self.sandbox.owner())?;
        std::fs::create_dir(folder.path().join("staging")).map_err(failed)?;
        let spec = ContainerSpec {
            run: self.run.clone(),
            workspace,
            home: self.home.to_owned(),
            read_only: self.binds.to_vec(),
            environment: self.environment.clone(),
            limits: self.limits,
            egress: None,
        };
        let container = self.sandbox.create(spec).await?;
        Ok(Bench { workbench: self, container, folder, tree: tree.clone() })
    }
}

impl Bench<'_> {
    /// Runs one command.
    pub async fn exec(&mut self, command: Command) -> Result<Exit, SandboxError> {
        self.container.exec(command).await
    }

    /// The tree as the copy holds it now, whatever any tool says of it.
    pub fn read_back(&mut self) -> Result<Tree, WorkbenchError> {
        self.tree = workspace::scan(&self.workspace(), &self.tree, self.workbench.bounds)?.tree;
        Ok(self.tree.clone())
    }

    /// Writes the difference to `after` into the copy, whole or not at all. No process runs between two
    /// commands, so nothing can move a file while it is written.
    pub fn write(&mut self, after: &Tree) -> Result<(), WorkbenchError> {
        let changeset = edit::diff::diff(&self.tree, after)?;
        let (root, staging) = (self.workspace(), self.folder.path().join("staging"));
        let target = Target { root: &root, staging: &staging, owner: self.workbench.sandbox.owner() };
        edit::commit_changeset(&target, &changeset)?;
        self.tree = after.clone();
        Ok(())
    }

    /// Ends the container.
    pub async fn close(mut self) -> Result<(), SandboxError> {
        self.container.destroy().await
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }
}
