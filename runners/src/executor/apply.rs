//! Applying a proposal: the whole of it or nothing, held to the admitted bounds, with its receipt.
//!
//! The change is made in memory; the next container gets the files of the tree that results. A patch that
//! does not fit is an iteration without progress, told to the agent and to people.

use jobs::digest::Digest;
use jobs::fault;
use jobs::step::{Output, StepKind};

use super::cx::{Cx, blocking};
use super::provision::Ready;
use super::{PhaseError, propose, whole};
use crate::edit::{self, Changeset, Limits};
use crate::workspace::Tree;

/// Applies the proposal of an iteration.
pub async fn run(cx: &mut Cx<'_>, ready: Ready, iteration: u32, patch: Digest) -> Result<Ready, PhaseError> {
    let bytes = cx.engine.artifacts.get_bounded(patch, cx.job().limits.max_patch_bytes);
    let (admitted, current) = (ready.admitted.clone(), ready.current.clone());
    let limits = &cx.job().limits;
    let limits = Limits {
        changed_files: limits.max_changed_files,
        patch_bytes: limits.max_patch_bytes,
        ..Limits::default()
    };
    let fitted = match bytes {
        Ok(bytes) => blocking(move || Ok(fit(&bytes, &admitted, &current, &limits))).await?,
        Err(error) => Err(whole(&error)),
    };
    let (changeset, tree) = match fitted {
        Ok(fitted) => fitted,
        Err(why) => {
            cx.ledger.begin(StepKind::Apply, iteration).await?;
            cx.ledger.failed(StepKind::Apply, iteration, &why).await?;
            return Ok(ready);
        }
    };
    let kept = cx.engine.artifacts.put(&changeset.patch)?;
    let files = changeset.file_changes();
    let count = changeset.changes.len();
    let plural = if count == 1 { "" } else { "s" };
    let examined = format!("{count} file{plural} and {} bytes of patch", changeset.patch.len());
    let output = Output::Applied {
        patch: kept,
        tree_before: changeset.tree_before.clone(),
        tree_after: changeset.tree_after.clone(),
        files,
    };
    let actor = propose::actor(cx)?;
    cx.ledger.applied(iteration, &actor, &changeset, &examined, output).await?;
    fault::point("run-applied");
    Ok(Ready { current: tree, ..ready })
}

/// The change that a patch makes of the current tree, if it fits and the whole change stays in bounds.
fn fit(patch: &[u8], admitted: &Tree, current: &Tree, limits: &Limits) -> Result<(Changeset, Tree), String> {
    let applied = edit::apply_patch(patch, current).map_err(|error| whole(&error))?;
    applied.changeset.check(current, limits).map_err(|error| whole(&error))?;
    let altogether = edit::diff::diff(admitted, &applied.tree).map_err(|error| whole(&error))?;
    altogether.check(admitted, limits).map_err(|error| whole(&error))?;
    Ok((applied.changeset, applied.tree))
}
