//! Verify: the admitted checks on the changed tree, in a fresh container, held against the baseline.
//!
//! Only what the readers say counts. A test that changed its colour is run again on the unchanged tree
//! first: what is green there by itself was never repaired.

use std::collections::BTreeSet;

use jobs::check::Check;
use jobs::digest::Digest;
use jobs::fault;
use jobs::step::{Output, StepKind};
use jobs::verdict::{Checked, Verdict};

use super::cx::{Cx, blocking};
use super::provision::Ready;
use super::{PhaseError, checks, drive, whole};
use crate::edit;
use crate::recovery::Known;
use crate::reports::compare::{self, NamedTest};
use crate::reports::{PatchFacts, tests_to_rerun};

/// How often a check is run again on the unchanged tree.
const RERUNS: usize = 2;

/// Checks the current tree and records what that proves.
pub async fn run(cx: &mut Cx<'_>, ready: &Ready, known: &Known, iteration: u32) -> Result<(), PhaseError> {
    cx.ledger.begin(StepKind::Verify, iteration).await?;
    let verified = verify(cx, ready, known).await;
    let output = drive::in_step(cx, StepKind::Verify, iteration, verified).await?;
    fault::point("run-verify-checked");
    cx.ledger.done(StepKind::Verify, iteration, output).await?;
    fault::point("run-verified");
    Ok(())
}

async fn verify(cx: &Cx<'_>, ready: &Ready, known: &Known) -> Result<Output, PhaseError> {
    let nothing = Checked::default();
    let baseline = known.baseline.as_ref().unwrap_or(&nothing);
    let whole_change = whole_change(cx, ready).await?;
    let checked = checks::run(cx, ready, &ready.current, &cx.job().checks).await?;
    let facts = PatchFacts::of(&whole_change.patch).allowed_by(&cx.job().guard);
    let mut verdict = compare::compare(baseline, &checked, &facts);
    if verdict == Verdict::Repaired {
        let flaky = flaky(cx, ready, baseline, &checked).await?;
        verdict = compare::compare_knowing(baseline, &checked, &facts, &flaky);
    }
    let (patch, changeset) = (whole_change.kept_patch, whole_change.kept_changeset);
    Ok(Output::Verified { checked, verdict, patch, changeset })
}

/// The tests that do not need a repair to change their colour.
async fn flaky(
    cx: &Cx<'_>,
    ready: &Ready,
    baseline: &Checked,
    after: &Checked,
) -> Result<BTreeSet<NamedTest>, PhaseError> {
    let changed = tests_to_rerun(baseline, after);
    let names: BTreeSet<&str> = changed.iter().map(|test| test.check.as_str()).collect();
    let again: Vec<Check> =
        cx.job().checks.iter().filter(|check| names.contains(check.name.as_str())).cloned().collect();
    let mut found = BTreeSet::new();
    if again.is_empty() {
        return Ok(found);
    }
    for _ in 0..RERUNS {
        let rerun = checks::run(cx, ready, &ready.admitted, &again).await?;
        found.extend(compare::flaky(baseline, &[rerun]));
        if changed.iter().all(|test| found.contains(test)) {
            break;
        }
    }
    Ok(found)
}

/// The change from the admitted tree to the current one.
struct WholeChange {
    patch: Vec<u8>,
    kept_patch: Option<Digest>,
    kept_changeset: Option<Digest>,
}

async fn whole_change(cx: &Cx<'_>, ready: &Ready) -> Result<WholeChange, PhaseError> {
    let (admitted, current) = (ready.admitted.clone(), ready.current.clone());
    let artifacts = cx.engine.artifacts.clone();
    blocking(move || {
        let failed = |error: edit::ChangesetError| PhaseError::internal(&whole(&error));
        let changeset = edit::diff::diff(&admitted, &current).map_err(failed)?;
        if changeset.is_empty() {
            return Ok(WholeChange { patch: Vec::new(), kept_patch: None, kept_changeset: None });
        }
        let files = changeset.to_files().map_err(failed)?;
        let kept_patch = Some(artifacts.put(&changeset.patch)?);
        let kept_changeset = Some(artifacts.put(&files.to_bytes())?);
        Ok(WholeChange { patch: changeset.patch, kept_patch, kept_changeset })
    })
    .await
}
