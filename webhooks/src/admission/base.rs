//! What the base branch says: policy and checks, never anything of the head.
//!
//! What a commit says never changes, so that it is kept by the commit; a push to a branch lets go of
//! what the repository's older commits have said.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jobs::check::{Check, discover};
use jobs::forge::Repository;
use jobs::id::CommitId;
use jobs::policy::{self, Policy, PolicyError};

use crate::forge::{Forge, ForgeError};

/// Commits whose policy is remembered.
const MOST_KEPT: usize = 256;

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

/// What base commits say, as far as this node has read it; the oldest first.
#[derive(Debug, Default)]
pub(super) struct Policies(Mutex<VecDeque<(Repository, CommitId, Base)>>);

impl Policies {
    /// Policy and checks of the commit that the base branch shows.
    pub(super) async fn load(
        &self,
        forge: &dyn Forge,
        repository: &Repository,
        base: &CommitId,
    ) -> Result<Base, BaseError> {
        let known = self.kept().iter().find(|(of, at, _)| of == repository && at == base).cloned();
        if let Some((_, _, known)) = known {
            return Ok(known);
        }
        let read = read(forge, repository, base).await?;
        let mut kept = self.kept();
        if kept.len() >= MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back((repository.clone(), base.clone(), read.clone()));
        Ok(read)
    }

    /// Lets go of a repository's policies, since its branches have moved.
    pub(super) fn forget(&self, repository: &Repository) -> usize {
        let mut kept = self.kept();
        let before = kept.len();
        kept.retain(|(of, _, _)| of != repository);
        before - kept.len()
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(Repository, CommitId, Base)>> {
        // A panic elsewhere cannot leave a half-changed list, so a poisoned lock is as good.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(forge: &dyn Forge, repository: &Repository, base: &CommitId) -> Result<Base, BaseError> {
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
