//! Verify: the admitted checks on the changed tree, in a fresh container, held against the baseline.
//!
//! Only what the readers say counts. A test that changed its colour is run again on the unchanged tree
//! first: what is green there by itself was never repaired.

use std::collections::BTreeSet;

use jobs::digest::Digest;
use jobs::fault;
use jobs::step::{Output, StepKind};
use jobs::verdict::{Checked, NamedTest, Verdict};

use super::cx::{Cx, blocking};
use super::provision::Ready;
use super::{PhaseError, checks, drive, whole};
use crate::edit;
use crate::recovery::Known;
use crate::reports::compare;
use crate::reports::{PatchFacts, tests_to_rerun};

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
    let facts =
        PatchFacts::of(&whole_change.in_place).judged_by(&cx.job().checks).allowed_by(&cx.job().guard);
    let mut verdict = compare::compare(baseline, &checked, &facts);
    let mut known = BTreeSet::new();
    // What looks repaired may be green by chance, and what a change seems to have broken may be so as well.
    if verdict == Verdict::Repaired || compare::turned_red(baseline, &checked) {
        known = flaky(cx, ready, baseline, &checked).await?;
        verdict = compare::compare_knowing(baseline, &checked, &facts, &known);
    }
    let (patch, changeset) = (whole_change.kept_patch, whole_change.kept_changeset);
    let flaky = known.into_iter().collect();
    Ok(Output::Verified { checked, verdict, patch, changeset, flaky })
}

/// The tests that do not need a repair to change their colour.
async fn flaky(
    cx: &Cx<'_>,
    ready: &Ready,
    baseline: &Checked,
    after: &Checked,
) -> Result<BTreeSet<NamedTest>, PhaseError> {
    let changed = tests_to_rerun(baseline, after);
    let reruns = cx.job().limits.reruns as usize;
    let mut found = BTreeSet::new();
    for check in cx.job().checks.iter().filter(|_| reruns > 0) {
        let wanted: Vec<&NamedTest> = changed.iter().filter(|test| test.check == check.name).collect();
        if wanted.is_empty() {
            continue;
        }
        checks::repeat(cx, ready, &ready.admitted, check, |result, done| {
            found.extend(compare::flaky(baseline, &[Checked { checks: vec![result.clone()] }]));
            done >= reruns || wanted.iter().all(|test| found.contains(*test))
        })
        .await?;
    }
    Ok(found)
}

/// The change from the admitted tree to the current one.
struct WholeChange {
    /// The patch with whole files around it, as facts are read from it.
    in_place: Vec<u8>,
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
            return Ok(WholeChange { in_place: Vec::new(), kept_patch: None, kept_changeset: None });
        }
        let files = changeset.to_files().map_err(failed)?;
        let kept_patch = Some(artifacts.put(&changeset.patch)?);
        let kept_changeset = Some(artifacts.put(&files.to_bytes())?);
        let in_place = edit::diff::with_whole_files(&changeset);
        Ok(WholeChange { in_place, kept_patch, kept_changeset })
    })
    .await
}
