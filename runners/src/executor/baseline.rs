//! The baseline: the admitted checks on the admitted tree, in a fresh container.

use jobs::fault;
use jobs::step::{Output, StepKind};

use super::cx::Cx;
use super::provision::Ready;
use super::{PhaseError, checks, drive};

/// Checks the tree as it was admitted, unless that is recorded.
pub async fn run(cx: &mut Cx<'_>, ready: Ready) -> Result<Ready, PhaseError> {
    cx.check_interrupt()?;
    if cx.plan().await?.known.baseline.is_none() {
        cx.ledger.begin(StepKind::Baseline, 0).await?;
        let checked = checks::run(cx, &ready, &ready.admitted, &cx.job().checks.clone()).await;
        let checked = drive::in_step(cx, StepKind::Baseline, 0, checked).await?;
        fault::point("run-baseline-checked");
        cx.ledger.done(StepKind::Baseline, 0, Output::Baseline { checked }).await?;
        fault::point("run-baseline");
    }
    Ok(ready)
}
