//! The one port through which a runner knows of a forge: read-only, short-lived access to clone.

use async_trait::async_trait;
use secrecy::SecretString;

use crate::forge::Repository;
use crate::id::{Fence, RunId};

/// Who asks, and the proof that it may.
#[derive(Clone, Debug)]
pub struct Claim {
    pub run: RunId,
    pub fence: Fence,
}

/// How to read one repository for a short while.
#[derive(Clone, Debug)]
pub struct CloneAccess {
    /// A `file://`, `http://` or `https://` URL.
    pub url: String,
    /// A token that can only read this repository, sent as HTTP basic password.
    pub token: Option<SecretString>,
}

/// Access could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The forge refused; asking again gives the same answer.
    #[error("no access to {repository}: {why}")]
    Refused { repository: String, why: String },
    /// It may work later.
    #[error("cannot ask for access to {repository} now: {why}")]
    Unavailable { repository: String, why: String },
}

/// All that a runner knows of a forge.
#[async_trait]
pub trait Source: Send + Sync {
    /// Read-only, short-lived access to clone `repository`.
    async fn clone_access(&self, claim: &Claim, repository: &Repository) -> Result<CloneAccess, SourceError>;
}
