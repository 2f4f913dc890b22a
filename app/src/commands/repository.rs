//! `verify --repo`: a verified chain held against a repository.
//!
//! The trees are composed anew, from the base commit by applying the receipts' diffs, and every commit
//! whose trailers name the run must be what the run ended with. Nothing is written, and git is not run.

use std::path::Path;

use anyhow::Context as _;
use jobs::id::{CommitId, RunId};
use receipts::report::Files;
use receipts::{Chain, Code, Row};
use runners::edit::{ApplyError, apply_patch};
use runners::workspace::{Bounds, Commit, Objects, ObjectsError, Tree};
use serde::Deserialize;

use super::Usage;

/// How much of a repository is read.
const BOUNDS: Bounds = Bounds { bytes: 16 << 30, files: 1 << 20, file_bytes: 1 << 30, names: 1 << 22 };
/// How many commits are looked at for trailers.
const MOST_COMMITS: usize = 1_000_000;

/// What was found.
pub enum Held {
    /// The trees compose, and these commits are what the run ended with.
    Composed { tree: String, commits: Vec<CommitId> },
    /// The first thing that does not hold, at which receipt, in words.
    Broken { code: Code, index: usize, why: String },
}

impl Held {
    /// The line that is printed, in the form of the other parts' lines.
    pub fn line(&self) -> String {
        match self {
            Held::Composed { tree, commits } => {
                format!("repo VALID_TREE tree={tree} commits={}", commits.len())
            }
            Held::Broken { code, index, .. } => format!("repo {}@{index}", code.name()),
        }
    }
}

/// What stops the composing: a verdict, or something of this machine that allows none.
enum Stop {
    Broken { code: Code, index: usize, why: String },
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

/// Holds a chain, which the caller has verified, against the repository at a path.
pub fn hold(repository: &Path, files: &Files, chain: &Chain) -> anyhow::Result<Held> {
    let objects = Objects::open(repository)
        .with_context(|| format!("cannot read the repository {}", repository.display()))?;
    let held = compose(&objects, files, &chain.rows).and_then(|tree| {
        let commits = commits(&objects, chain, &tree)?;
        Ok(Held::Composed { tree: tree.id().to_string(), commits })
    });
    match held {
        Ok(held) => Ok(held),
        Err(Stop::Broken { code, index, why }) => Ok(Held::Broken { code, index, why }),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// The members of a receipt that speak of the repository. The chain's verifier has held their form.
#[derive(Deserialize)]
struct Members {
    base: Option<String>,
    tree_before: Option<String>,
    tree_after: Option<String>,
    diff_sha256: Option<String>,
}

/// The tree that the run ended with, composed from the base commit's.
fn compose(objects: &Objects, files: &Files, rows: &[Row]) -> Result<Tree, Stop> {
    let mut tree = Tree::empty();
    for (row, signed) in rows.iter().zip(files.receipts()) {
        let signed = signed.ok().filter(|signed| signed.digest_hex() == row.digest);
        let signed = signed.context("the bundle changed while it was verified; verify it again")?;
        let members: Members = serde_json::from_slice(&signed.bytes).context("a receipt cannot be read")?;
        if let Some(base) = &members.base {
            tree = base_tree(objects, base)?;
        }
        is_at(&tree, members.tree_before.as_deref(), row, "the change before it")?;
        if let Some(digest) = &members.diff_sha256 {
            let diff = files.diff(row.seq).filter(|diff| hex::encode(receipts::digest(diff)) == *digest);
            let diff = diff.context("a diff changed while it was verified; verify it again")?;
            tree = apply(&diff, &tree, row)?;
        }
        is_at(&tree, members.tree_after.as_deref(), row, "its diff")?;
    }
    Ok(tree)
}

fn base_tree(objects: &Objects, base: &str) -> Result<Tree, Stop> {
    let id = base.strip_prefix("sha1:").and_then(|id| id.parse::<CommitId>().ok());
    let id = id.ok_or_else(|| Usage(format!("{base}: repositories with SHA-256 ids are not read")))?;
    match objects.tree_at(&id, &BOUNDS) {
        Ok(tree) => Ok(tree),
        Err(error @ ObjectsError::Missing { .. }) => {
            let text = format!("{error}; fetch commit {id} with its files, from which the run began");
            Err(Usage(text).into())
        }
        Err(error) => Err(error.into()),
    }
}

fn apply(diff: &[u8], tree: &Tree, row: &Row) -> Result<Tree, Stop> {
    match apply_patch(diff, tree) {
        Ok(applied) => Ok(applied.tree),
        // What the repository lacks is no evidence of anything.
        Err(ApplyError::Tree(error)) => Err(error.into()),
        Err(error) => Err(broken(Code::Tree, row, format!("the diff does not apply: {error}"))),
    }
}

fn is_at(tree: &Tree, stated: Option<&str>, row: &Row, what: &str) -> Result<(), Stop> {
    let found = format!("sha1:{}", tree.id());
    match stated {
        Some(stated) if stated != found => {
            Err(broken(Code::Tree, row, format!("{what} gives tree {found}, and the receipt says {stated}")))
        }
        Some(_) | None => Ok(()),
    }
}

fn broken(code: Code, row: &Row, why: String) -> Stop {
    Stop::Broken { code, index: usize::try_from(row.seq).unwrap_or(usize::MAX), why }
}

/// The commits that claim to be this run's, each of which must be.
fn commits(objects: &Objects, chain: &Chain, tree: &Tree) -> Result<Vec<CommitId>, Stop> {
    let mut claiming = Vec::new();
    let all = objects.each_commit(MOST_COMMITS, |commit| {
        if claims(&commit, chain) {
            claiming.push(commit);
        }
    })?;
    if !all {
        let text = format!("the repository has more than {MOST_COMMITS} commits; verify in a shallow clone");
        return Err(Usage(text).into());
    }
    claiming.sort_by(|a, b| a.id.cmp(&b.id));
    for commit in &claiming {
        held(commit, chain, tree)?;
    }
    Ok(claiming.into_iter().map(|commit| commit.id).collect())
}

fn claims(commit: &Commit, chain: &Chain) -> bool {
    commit.trailers(RUN).into_iter().any(|run| names(run, chain))
        || commit.trailers(RECEIPT).into_iter().any(|head| head == seal(chain))
}

/// One commit's trailers and tree against the end of the chain.
fn held(commit: &Commit, chain: &Chain, tree: &Tree) -> Result<(), Stop> {
    let fails = |code, why: &str| {
        let index = chain.rows.len().saturating_sub(1);
        Err(Stop::Broken { code, index, why: format!("commit {}: {why}", commit.id) })
    };
    match commit.trailers(RUN).as_slice() {
        [run] if names(run, chain) => {}
        _ => return fails(Code::Run, "its Whipstitch-Run is not this run alone"),
    }
    if commit.trailers(RECEIPT) != [seal(chain)] {
        return fails(Code::Expected, "its Whipstitch-Receipt is not the last receipt");
    }
    if commit.tree != *tree.id() {
        return fails(Code::Tree, "its tree is not the one that the run ended with");
    }
    Ok(())
}

const RUN: &str = "Whipstitch-Run";
const RECEIPT: &str = "Whipstitch-Receipt";

fn names(run: &str, chain: &Chain) -> bool {
    run.parse::<RunId>().is_ok_and(|run| run.chain().to_string() == chain.run)
}

fn seal(chain: &Chain) -> String {
    format!("sha256:{}", hex::encode(chain.head))
}
