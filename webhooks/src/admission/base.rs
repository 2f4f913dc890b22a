//! What the base branch says: policy and checks, never anything of the head.

use jobs::check::{Check, discover};
use jobs::forge::Repository;
use jobs::id::CommitId;
use jobs::policy::{self, Policy, PolicyError};

use crate::forge::{Forge, ForgeError};

/// The policy and the checks of a base commit.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub policy: Policy,
    pub checks: Vec<Check>,
}

/// The base could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BaseError {
    #[error(transparent)]
    Forge(#[from] ForgeError),
    #[error("the base branch's policy has a fault: {0}")]
    Policy(#[from] PolicyError),
}

/// Reads policy and checks from the commit that the base branch shows.
pub(super) async fn load(
    forge: &dyn Forge,
    repository: &Repository,
    base: &CommitId,
) -> Result<Base, BaseError> {
    let policy = match forge.file(repository, base, policy::PATH).await? {
        Some(bytes) => Policy::parse(&bytes)?,
        None => Policy::default(),
    };
    let checks = match &policy.checks {
        Some(checks) => checks.clone(),
        None => {
            let commit = forge.commit(repository, base).await?;
            let names = forge.root_names(repository, &commit.tree).await?;
            discover(|path| names.iter().any(|name| name == path))
        }
    };
    Ok(Base { policy, checks })
}
