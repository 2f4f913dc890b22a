//! A person's recorded yes, and the one value that lets code push.
//!
//! A `PushGrant` has private fields and no constructor but `PushGrant::of`, which takes a
//! [`Spent`](crate::store::authorizations::Spent); and only the transaction that spends the
//! authorization makes one of those. It cannot be cloned: one yes is at most one push.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::digest::Digest;
use crate::forge::{Account, Role};
use crate::id::{AuthorizationId, CommitId, RunId};

/// A recorded yes, as a person gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authorization {
    pub id: AuthorizationId,
    pub run: RunId,
    pub actor: Account,
    /// The role that the forge told at that moment.
    pub role: Role,
    /// The comment or click that said it: `comment/123`, `check-action/5`, `page/..`, `cli/..`; unique.
    pub origin: String,
    /// The commit that the branch must still show.
    pub head: CommitId,
    /// Digest of the exact patch.
    pub patch: Digest,
    pub created_at: Millis,
    /// From this moment on it is worth nothing.
    pub expires_at: Millis,
}

/// What came of an authorization that was spent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum PushResult {
    /// The forge's branch holds this commit.
    Pushed { commit: CommitId },
    /// The forge or a rule said no; nothing was pushed.
    Refused { why: String },
    /// Whether the push arrived is not known.
    Uncertain { why: String },
    /// No yes at all: a person with the right to authorize declined the patch.
    Declined { by: String },
}

/// The permission to push one patch onto one commit, once.
#[derive(Debug)]
pub struct PushGrant {
    authorization: Authorization,
    spent_at: Millis,
}

impl PushGrant {
    /// The grant of an authorization that was spent in a committed transaction.
    pub(crate) fn of(spent: crate::store::authorizations::Spent) -> Self {
        let (authorization, spent_at) = spent.into_parts();
        Self { authorization, spent_at }
    }

    /// The authorization that was spent.
    pub fn authorization(&self) -> &Authorization {
        &self.authorization
    }

    /// The run whose patch may be pushed.
    pub fn run(&self) -> &RunId {
        &self.authorization.run
    }

    /// The commit that the branch must still show when the push arrives.
    pub fn head(&self) -> &CommitId {
        &self.authorization.head
    }

    /// Digest of the patch that may be pushed, and of no other.
    pub fn patch(&self) -> Digest {
        self.authorization.patch
    }

    /// When it was spent.
    pub fn spent_at(&self) -> Millis {
        self.spent_at
    }
}
