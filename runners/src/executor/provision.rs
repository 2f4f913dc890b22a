//! Provision: the admitted commit is brought in, and nothing is repaired over a tree that is not its own.

use std::time::Duration;

use jobs::fault;
use jobs::run::Failure;
use jobs::source::Claim;
use jobs::step::{Output, StepKind};

use super::cx::{Cx, blocking};
use super::{PhaseError, drive, whole};
use crate::edit;
use crate::egress::Sealed;
use crate::navigate::RepoView;
use crate::recovery::Change;
use crate::sandbox::Bind;
use crate::workspace::{self, Bounds, History, Objects, Tree, Want};

/// The longest that a clone may take, whatever the run's own time is.
const CLONE: Duration = Duration::from_secs(600);

/// The admitted tree is at hand.
pub struct Provisioned {
    pub admitted: Tree,
}

/// All that later phases work with.
pub struct Ready {
    pub admitted: Tree,
    /// The tree as the applied changes have made it.
    pub current: Tree,
    /// What containers need beyond the toolchains.
    pub binds: Vec<Bind>,
    /// The proof that no way out is left.
    pub sealed: Sealed,
    /// What agents may look at, of an earlier state of the tree or this one; `None` on a worker that took the
    /// run up later.
    pub view: Option<RepoView>,
}

/// Brings the commit in, or takes it from where an earlier worker on this node put it.
pub async fn run(cx: &mut Cx<'_>) -> Result<Provisioned, PhaseError> {
    cx.check_interrupt()?;
    let recorded = cx.plan().await?.known.tree.is_some();
    if recorded && let Some(admitted) = at_hand(cx).await? {
        return Ok(Provisioned { admitted });
    }
    if !recorded {
        cx.ledger.begin(StepKind::Provision, 0).await?;
    }
    let cloned = clone(cx).await;
    let (admitted, bytes) = drive::in_step(cx, StepKind::Provision, 0, cloned).await?;
    if !recorded {
        let (tree, files) = (admitted.id().clone(), admitted.entries().len() as u64);
        cx.ledger.done(StepKind::Provision, 0, Output::Provisioned { tree, files, bytes }).await?;
    }
    fault::point("run-provisioned");
    Ok(Provisioned { admitted })
}

/// The tree from the object store of this node, where it is whole.
async fn at_hand(cx: &Cx<'_>) -> Result<Option<Tree>, PhaseError> {
    let (folder, head, tree) = (cx.folders.objects(), cx.job().head.clone(), cx.job().tree.clone());
    blocking(move || {
        let found = Objects::open(&folder).and_then(|objects| objects.tree_at(&head, &Bounds::default()));
        Ok(found.ok().filter(|found| *found.id() == tree))
    })
    .await
}

async fn clone(cx: &Cx<'_>) -> Result<(Tree, u64), PhaseError> {
    let failed = |why: String| PhaseError::Failed(Failure::Provision(why));
    let claim = Claim { run: cx.run().clone(), fence: cx.claimed.fence };
    let access = cx.engine.source.clone_access(&claim, &cx.job().repository).await;
    let access = access.map_err(|error| failed(whole(&error)))?;
    let want = Want {
        reference: cx.job().fetch_ref.clone(),
        commit: cx.job().head.clone(),
        history: History::None,
        timeout: CLONE.min(Duration::from_millis(cx.job().limits.max_runtime_ms)),
    };
    let (folder, wanted) = (cx.folders.objects(), cx.job().tree.clone());
    blocking(move || {
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(PhaseError::disk("clear the object store"))?;
        }
        let bounds = Bounds::default();
        let provisioned =
            workspace::clone(&access, &want, &folder, &bounds).map_err(|error| failed(whole(&error)))?;
        if provisioned.tree != wanted {
            return Err(failed(format!(
                "commit {} has the tree {}, and {wanted} was admitted",
                want.commit, provisioned.tree
            )));
        }
        let tree = provisioned.objects.tree_at(&want.commit, &bounds);
        Ok((tree.map_err(|error| failed(whole(&error)))?, provisioned.bytes))
    })
    .await
}

/// Applies recorded changes again, in memory; each must lead to the tree that it led to before.
pub fn replay(
    admitted: &Tree,
    changes: &[Change],
    artifacts: &jobs::artifacts::Artifacts,
) -> Result<Tree, PhaseError> {
    let mut tree = admitted.clone();
    for change in changes {
        let patch = artifacts.get(change.patch)?;
        tree = edit::apply_patch(&patch, &tree).map_err(|error| PhaseError::internal(&whole(&error)))?.tree;
        if *tree.id() != change.tree_after {
            return Err(PhaseError::internal("a recorded change leads to another tree than it did before"));
        }
    }
    Ok(tree)
}
