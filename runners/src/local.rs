//! The governed loop on a folder of this machine, without a forge: on a snapshot, with a store that is
//! thrown away. The folder itself is only read; [`apply`] is the one thing that writes to it, and refuses
//! when it is no longer what was verified.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jobs::artifacts::{ArtifactError, Artifacts};
use jobs::changeset::{ChangesetFiles, NotAChangeset};
use jobs::check::{Check, discover};
use jobs::clock::Clock;
use jobs::digest::Digest;
use jobs::forge::{Account, ForgeKind, PushTarget, Repository, Role, Subject};
use jobs::id::{RunId, TreeId};
use jobs::job::{AgentSpec, Goal, Guard, JobSpec, Limits, Request};
use jobs::run::RunState;
use jobs::source::{Claim, CloneAccess, Source, SourceError};
use jobs::step::{Output, StepState};
use jobs::store::{Acceptance, Accepted, Db, Decision, RunView, StoreError, accept, runs};
use jobs::verdict::{Checked, Verdict};
use receipts::Signer;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::agents::Models;
use crate::edit::{self, Changeset, ChangesetError, CommitError, Target};
use crate::executor::{EgressSettings, Engine, bundle};
use crate::progress::Progress;
use crate::sandbox::Sandbox;
use crate::toolchains::Toolchains;
use crate::workspace::{self, Bounds, Snapshot, SnapshotError, Tree, TreePath};

/// Which agent edits, with what it needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LocalAgent {
    Fixers,
    /// One of the request's models, by name.
    Model(String),
    /// The bytes of a patch.
    Replay(Vec<u8>),
}

/// What to repair, and with what.
pub struct LocalRequest {
    /// A folder, a git checkout or not.
    pub path: PathBuf,
    pub goal: Goal,
    /// Empty: those that the folder asks for by what it is.
    pub checks: Vec<Check>,
    pub agent: LocalAgent,
    pub limits: Limits,
    pub guard: Guard,
    pub sandbox: Arc<dyn Sandbox>,
    pub toolchains: Toolchains,
    pub egress: EgressSettings,
    /// The models that the agent may name.
    pub models: Models,
    pub signer: Arc<Signer>,
    pub clock: Arc<dyn Clock>,
    /// Where the bundle and the logs are kept; must lie outside of `path`.
    pub data_dir: PathBuf,
    pub progress: broadcast::Sender<Progress>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct LocalReport {
    pub run: RunId,
    /// `Finished`, or `Suspended` when a launch has no known result.
    pub state: RunState,
    pub baseline: Option<Checked>,
    pub checked: Option<Checked>,
    pub verdict: Option<Verdict>,
    /// The tree of the folder as it was read.
    pub tree: TreeId,
    /// The whole verified change; `None` when there is none.
    pub changeset: Option<Changeset>,
    /// The bundle's folder, when the run ended.
    pub bundle: Option<PathBuf>,
    /// All of the run, as pages show it.
    pub view: RunView,
    /// Paths of the folder that are no part of what was checked, and why.
    pub left_out: Vec<String>,
}

/// A folder could not be repaired or the change not be written.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The folder could not be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// No check is known for it.
    #[error("{0} asks for no check that is known; name one with --check 'NAME=COMMAND'")]
    NoChecks(PathBuf),
    /// The data folder lies within what is repaired.
    #[error("{data_dir} lies within {path}; choose a data folder outside of it")]
    DataWithin { data_dir: PathBuf, path: PathBuf },
    /// A folder could not be made.
    #[error("cannot {doing}")]
    Disk { doing: &'static str, source: std::io::Error },
    /// An artifact could not be kept or found.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The throw-away store did not work.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run did not start.
    #[error("the run did not come to a state: {0}")]
    NoRun(String),
    /// The kept change cannot be read.
    #[error("cannot read the verified change")]
    Changeset(#[from] ChangesetError),
    /// The kept change has not its form.
    #[error(transparent)]
    Form(#[from] NotAChangeset),
    /// The patch has no change for this folder.
    #[error("there is no verified change to apply")]
    NothingToApply,
    /// The folder is no longer what was verified.
    #[error("{path} has changed since it was checked (tree {now}, checked {then}); run the repair again")]
    Moved { path: PathBuf, now: TreeId, then: TreeId },
    /// The change could not be written; every file is as it was.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Repairs a snapshot of a folder.
pub async fn repair(request: LocalRequest, cancel: CancellationToken) -> Result<LocalReport, LocalError> {
    let path = std::fs::canonicalize(&request.path).map_err(disk("find the folder"))?;
    std::fs::create_dir_all(&request.data_dir).map_err(disk("make the data folder"))?;
    let data_dir = std::fs::canonicalize(&request.data_dir).map_err(disk("find the data folder"))?;
    if data_dir.starts_with(&path) {
        return Err(LocalError::DataWithin { data_dir, path });
    }
    let scratch = tempfile::Builder::new().prefix("local-").tempdir_in(&data_dir);
    let scratch = scratch.map_err(disk("make a folder for the run"))?;
    let origin = scratch.path().join("origin.git");
    let (from, into) = (path.clone(), origin.clone());
    let snapshot = tokio::task::spawn_blocking(move || workspace::snapshot(&from, &into, &Bounds::default()))
        .await
        .map_err(|error| LocalError::NoRun(error.to_string()))??;
    let artifacts = Artifacts::open(data_dir.join("artifacts"))?;
    let job = job(&request, &path, &snapshot, &artifacts)?;
    let db = Db::open(&format!("sqlite://{}", scratch.path().join("run.db").display())).await?;
    let run = queue(&db, job, request.clock.now()).await?;
    let engine = Engine {
        db: db.clone(),
        artifacts: artifacts.clone(),
        source: Arc::new(Folder { origin }),
        sandbox: Arc::clone(&request.sandbox),
        toolchains: request.toolchains.clone(),
        egress: request.egress.clone(),
        models: request.models.clone(),
        signer: Arc::clone(&request.signer),
        clock: Arc::clone(&request.clock),
        data_dir: data_dir.clone(),
        node: "local".to_owned(),
        progress: request.progress.clone(),
        concurrency: 1,
        repository_concurrency: None,
        drain: std::time::Duration::ZERO,
    };
    engine.run_one(cancel).await;
    let view = runs::view(&db, &run).await?;
    let view = view.ok_or_else(|| LocalError::NoRun("its row is gone".to_owned()))?;
    let report = report(view, &snapshot, &artifacts, &data_dir)?;
    db.close().await;
    Ok(report)
}

/// Writes the verified change into the folder: all of it or nothing, and only when the folder is still,
/// file for file, what was checked.
pub fn apply(path: &Path, report: &LocalReport) -> Result<(), LocalError> {
    let changeset = match (&report.changeset, &report.verdict) {
        (Some(changeset), Some(Verdict::Repaired)) => changeset,
        (Some(_), _) | (None, _) => return Err(LocalError::NothingToApply),
    };
    let path = std::fs::canonicalize(path).map_err(disk("find the folder"))?;
    let parent = path.parent().unwrap_or(&path);
    let beside = tempfile::Builder::new().prefix(".whipstitch-").tempdir_in(parent);
    let beside = beside.map_err(disk("make a folder beside the checkout"))?;
    let now = workspace::snapshot(&path, &beside.path().join("now.git"), &Bounds::default())?;
    if now.tree != report.tree {
        return Err(LocalError::Moved { path, now: now.tree, then: report.tree.clone() });
    }
    let staging = beside.path().join("staging");
    edit::commit_changeset(&Target { root: &path, staging: &staging, owner: None }, changeset)?;
    Ok(())
}

fn disk(doing: &'static str) -> impl FnOnce(std::io::Error) -> LocalError {
    move |source| LocalError::Disk { doing, source }
}

fn job(
    request: &LocalRequest,
    path: &Path,
    snapshot: &Snapshot,
    artifacts: &Artifacts,
) -> Result<JobSpec, LocalError> {
    let tree = tree_of(snapshot)?;
    let has = |name: &str| {
        TreePath::parse(name).is_ok_and(|wanted| {
            tree.entries().keys().any(|path| *path == wanted || path.parents().any(|parent| parent == wanted))
        })
    };
    let checks = if request.checks.is_empty() { discover(has) } else { request.checks.clone() };
    if checks.is_empty() {
        return Err(LocalError::NoChecks(path.to_owned()));
    }
    let agent = match &request.agent {
        LocalAgent::Fixers => AgentSpec::Fixers,
        LocalAgent::Model(profile) => AgentSpec::Model { profile: profile.clone() },
        LocalAgent::Replay(patch) => AgentSpec::Replay { patch: artifacts.put(patch)? },
    };
    let name = path.file_name().map_or("checkout".to_owned(), |name| name.to_string_lossy().into_owned());
    let user =
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(path).map_err(disk("read the folder"))?);
    Ok(JobSpec {
        repository: Repository { forge: ForgeKind::Local, owner: "local".to_owned(), name, installation: 0 },
        subject: Subject::Checkout,
        goal: request.goal,
        head: snapshot.commit.clone(),
        tree: snapshot.tree.clone(),
        base: snapshot.commit.clone(),
        fetch_ref: "HEAD".to_owned(),
        push_target: PushTarget::Nowhere { why: "a checkout has no forge".to_owned() },
        base_branch: None,
        checks,
        limits: request.limits.clone(),
        agent,
        guard: request.guard.clone(),
        request: Request {
            actor: Account { id: i64::from(user), login: "local".to_owned() },
            role: Role::Admin,
            origin: "cli".to_owned(),
            text: Digest::of("fix"),
        },
    })
}

fn tree_of(snapshot: &Snapshot) -> Result<Tree, LocalError> {
    let tree = snapshot.objects.tree_at(&snapshot.commit, &Bounds::default());
    tree.map_err(|error| LocalError::NoRun(error.to_string()))
}

async fn queue(db: &Db, job: JobSpec, now: i64) -> Result<RunId, LocalError> {
    let decision = Decision::Admit { spec: Box::new(job), semantic_key: "local".to_owned() };
    let accepted = Accepted { delivery: None, decision, messages: Vec::new(), now };
    match accept(db, accepted).await? {
        Acceptance::Queued { run, .. } | Acceptance::Duplicate { run } => Ok(run),
        Acceptance::Decided => Err(LocalError::NoRun("it was not admitted".to_owned())),
    }
}

fn report(
    view: RunView,
    snapshot: &Snapshot,
    artifacts: &Artifacts,
    data_dir: &Path,
) -> Result<LocalReport, LocalError> {
    let (mut baseline, mut checked, mut verdict, mut kept) = (None, None, None, None);
    for step in &view.steps {
        let StepState::Done { output } = &step.state else { continue };
        match output.as_ref() {
            Output::Baseline { checked } => baseline = Some(checked.clone()),
            Output::Verified { checked: now, verdict: said, changeset, .. } => {
                (checked, verdict, kept) = (Some(now.clone()), Some(said.clone()), *changeset);
            }
            Output::Provisioned { .. }
            | Output::Bootstrapped { .. }
            | Output::Navigated { .. }
            | Output::Proposed { .. }
            | Output::Applied { .. }
            | Output::Governed { .. } => {}
        }
    }
    let changeset = match kept {
        Some(digest) => Some(changeset(&artifacts.get(digest)?, snapshot)?),
        None => None,
    };
    let run = view.run.id.clone();
    let place = bundle::folder(data_dir, &run);
    Ok(LocalReport {
        state: view.run.state.clone(),
        baseline,
        checked,
        verdict,
        tree: snapshot.tree.clone(),
        changeset,
        bundle: place.is_dir().then_some(place),
        left_out: snapshot.notes.iter().map(|note| format!("{}: {}", note.path, note.why)).collect(),
        view,
        run,
    })
}

/// The verified change as one that can be written into the folder.
fn changeset(kept: &[u8], snapshot: &Snapshot) -> Result<Changeset, LocalError> {
    use crate::workspace::{Entry, Mode};
    use jobs::changeset::{FileMode, FileNow};
    let files = ChangesetFiles::from_bytes(kept)?;
    let before = tree_of(snapshot)?;
    let mut entries = before.entries().clone();
    for file in files.files {
        let path = TreePath::parse(&file.path).map_err(|refused| LocalError::NoRun(refused.to_string()))?;
        match file.now {
            FileNow::Deleted => {
                entries.remove(&path);
            }
            FileNow::File { mode, content } => {
                let mode = match mode {
                    FileMode::Regular => Mode::Regular,
                    FileMode::Executable => Mode::Executable,
                    FileMode::Symlink => Mode::Symlink,
                };
                entries.insert(path, Entry::new(mode, content));
            }
        }
    }
    let after = Tree::new(entries, before.objects().cloned()).map_err(ChangesetError::from)?;
    Ok(edit::diff::diff(&before, &after)?)
}

/// The folder's snapshot as a forge.
struct Folder {
    origin: PathBuf,
}

#[async_trait]
impl Source for Folder {
    async fn clone_access(&self, _: &Claim, repository: &Repository) -> Result<CloneAccess, SourceError> {
        match url::Url::from_file_path(&self.origin) {
            Ok(url) => Ok(CloneAccess { url: url.to_string(), token: None }),
            Err(()) => Err(SourceError::Refused {
                repository: repository.to_string(),
                why: "the path of its snapshot is no URL".to_owned(),
            }),
        }
    }
}
