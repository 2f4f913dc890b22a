//! Navigate: the tags of the tree are read, as far as no earlier run of the repository has kept them, and
//! the view that agents look at is made of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jobs::clock::Millis;
use jobs::fault;
use jobs::forge::Repository;
use jobs::step::{MapBuilt, Output, StepKind};
use jobs::store::repo_maps::{self, Kept};
use jobs::store::{Db, StoreError};
use jobs::verdict::Checked;

use super::cx::{Cx, blocking};
use super::provision::Ready;
use super::{PhaseError, whole};
use crate::navigate::{
    Focus, Gathered, Known, Language, RepoView, Stop, gather, keys_of, retrieve::Workspace, survey,
};
use crate::workspace::Tree;

/// The longest that reading a tree takes; what is not reached is listed as left out.
const TIME: Duration = Duration::from_secs(60);

/// Reads the tags of the admitted tree and records what was built, unless that is recorded.
pub async fn run(cx: &mut Cx<'_>, ready: Ready) -> Result<Ready, PhaseError> {
    cx.check_interrupt()?;
    if cx.plan().await?.known.navigated {
        return Ok(ready);
    }
    cx.ledger.begin(StepKind::Navigate, 0).await?;
    let begun = Instant::now();
    let gathered = tags(cx, &ready.admitted).await?;
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let survey = survey(&ready.admitted);
    let map = Some(built(&gathered, duration_ms));
    let view = view_of(ready.admitted.clone(), gathered, Focus::default());
    let output = Output::Navigated { languages: survey.languages, omitted: survey.omitted, map };
    cx.ledger.done(StepKind::Navigate, 0, output).await?;
    fault::point("run-navigated");
    Ok(Ready { view: Some(view), ..ready })
}

/// The view of the tree as it is now, with what its checks said.
pub async fn view(cx: &Cx<'_>, ready: &Ready, failing: &Checked) -> Result<RepoView, PhaseError> {
    let focus = Focus::of(failing);
    let Some(view) = ready.view.clone() else {
        // Another worker read the tags; what it read is kept, or is read again.
        let gathered = tags(cx, &ready.current).await?;
        return Ok(view_of(ready.current.clone(), gathered, focus));
    };
    if view.tree().id() == ready.current.id() {
        return Ok(view.focused(focus));
    }
    let (current, token) = (ready.current.clone(), cx.token());
    blocking(move || Ok(view.after(current, Stop::after(TIME, &|| token.is_cancelled())).focused(focus)))
        .await
}

fn view_of(tree: Tree, gathered: Gathered, focus: Focus) -> RepoView {
    RepoView::new(tree, gathered.tags, focus, Workspace::open(None))
}

/// The tags of a tree: kept ones where there are some, the others read and kept.
async fn tags(cx: &Cx<'_>, tree: &Tree) -> Result<Gathered, PhaseError> {
    let (db, repository) = (&cx.engine.db, &cx.job().repository);
    let known = kept(db, repository, tree).await.unwrap_or_else(|error| {
        tracing::warn!(run.id = %cx.run(), error = whole(&error), "cannot find the kept tags; all are read");
        Known::default()
    });
    let (tree, token) = (tree.clone(), cx.token());
    let gathered =
        blocking(move || Ok(gather(&tree, &known, Stop::after(TIME, &|| token.is_cancelled())))).await?;
    cx.check_interrupt()?;
    if let Err(error) = keep(db, repository, &gathered.fresh, cx.ledger.now()).await {
        tracing::warn!(run.id = %cx.run(), error = whole(&error), "cannot keep the tags; they are read again");
    }
    Ok(gathered)
}

/// What is kept of the blobs of a tree.
pub async fn kept(db: &Db, repository: &Repository, tree: &Tree) -> Result<Known, StoreError> {
    let mut wanted: BTreeMap<Language, Vec<_>> = BTreeMap::new();
    for key in keys_of(tree) {
        wanted.entry(key.language).or_default().push(key);
    }
    let mut known = Known::default();
    for (language, keys) in wanted {
        let by_blob: BTreeMap<String, _> = keys.into_iter().map(|key| (key.blob.to_string(), key)).collect();
        let blobs: Vec<String> = by_blob.keys().cloned().collect();
        for (blob, text) in repo_maps::find(db, repository, language.version(), &blobs).await? {
            if let Some(key) = by_blob.get(&blob) {
                known.insert(*key, text);
            }
        }
    }
    Ok(known)
}

/// Keeps what was read now.
pub async fn keep(db: &Db, repository: &Repository, fresh: &Known, now: Millis) -> Result<(), StoreError> {
    if fresh.is_empty() {
        return Ok(());
    }
    let mut rows: Vec<Kept> = fresh
        .texts()
        .map(|(key, tags)| Kept {
            blob: key.blob.to_string(),
            version: key.language.version().to_owned(),
            tags: tags.to_owned(),
        })
        .collect();
    // Two nodes that keep the same rows take their locks in one order.
    rows.sort();
    repo_maps::put(db, repository, &rows, now).await
}

/// What the journal says of a map.
fn built(gathered: &Gathered, duration_ms: u64) -> MapBuilt {
    let files = &gathered.tags.files;
    let mut versions: Vec<_> = files.iter().map(|file| file.key.language).collect();
    versions.sort_unstable();
    versions.dedup();
    MapBuilt {
        files: files.len() as u64,
        definitions: files.iter().map(|file| file.tags.definitions().count() as u64).sum(),
        references: files.iter().map(|file| file.tags.references().count() as u64).sum(),
        read: gathered.fresh.len() as u64,
        kept: gathered.known,
        skipped: gathered.tags.skipped.len() as u64,
        versions: versions.into_iter().map(|language| language.version().to_owned()).collect(),
        duration_ms,
    }
}
