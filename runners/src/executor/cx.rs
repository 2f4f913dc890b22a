//! What every phase of one run has at hand.

use jobs::id::RunId;
use jobs::job::JobSpec;
use jobs::store::runs::Claimed;
use tokio_util::sync::CancellationToken;

use super::folders::Folders;
use super::lease::Interrupts;
use super::ledger::Ledger;
use super::{Engine, Interrupt, PhaseError};
use crate::recovery::{self, Plan};

/// One run, held by this worker.
pub struct Cx<'a> {
    pub engine: &'a Engine,
    pub claimed: &'a Claimed,
    pub ledger: Ledger,
    pub folders: Folders,
    pub interrupts: Interrupts,
}

impl Cx<'_> {
    pub fn run(&self) -> &RunId {
        &self.claimed.run
    }

    pub fn job(&self) -> &JobSpec {
        &self.claimed.job
    }

    /// Ends whatever runs in a container when the run must stop.
    pub fn token(&self) -> CancellationToken {
        self.interrupts.token.clone()
    }

    /// Between steps: goes on, or says why not.
    pub fn check_interrupt(&self) -> Result<(), PhaseError> {
        match self.interrupts.raised() {
            None => Ok(()),
            Some(why) => Err(PhaseError::Interrupted(why.clone())),
        }
    }

    /// The interrupt that ended a command; where none did, somebody else did.
    pub fn interrupted(&self) -> PhaseError {
        let why = self.interrupts.raised().cloned().unwrap_or(Interrupt::Shutdown);
        PhaseError::Interrupted(why)
    }

    /// Where the run stands now.
    pub async fn plan(&self) -> Result<Plan, PhaseError> {
        let launches = self.ledger.launches().await?;
        Ok(recovery::plan(self.job().goal, self.ledger.steps(), &launches))
    }
}

/// Runs blocking work on the threads for it.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PhaseError> + Send + 'static,
) -> Result<T, PhaseError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(PhaseError::internal(&format!("a worker's thread ended: {error}"))),
    }
}
