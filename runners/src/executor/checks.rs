//! Running the admitted checks on one tree: fresh files, a fresh home, a fresh sealed container.
//!
//! Diagnostics run before tests and may share a container, for what they build; a check of tests runs the
//! most code of strangers, so it gets and leaves nothing. After each check the tracked files are read back: a
//! check that changed one proves nothing. Where it left anything but caches, what follows gets a container of
//! its own. The results stand in the order of the job.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jobs::check::{Check, ToolKind};
use jobs::verdict::{CheckOutcome, CheckResult, Checked, Report};

use super::cx::{Cx, blocking};
use super::folders::copy_missing;
use super::provision::Ready;
use super::traces::Traces;
use super::{PhaseError, whole};
use crate::progress::{Happening, line_of};
use crate::reports::command::REPORT_FOLDER;
use crate::reports::{self, Ended, Kept, RawOutput, files};
use crate::sandbox::removal;
use crate::sandbox::{Cause, Command, Container, ContainerLimits, ContainerSpec, Exit, HOME, SandboxError};
use crate::workspace::{self, Bounds, Tree, TreePath};

/// Files that tools rewrite by themselves; a change of one is told, and put back before the next check.
const LOCKFILES: [&str; 11] = [
    "Cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "go.sum",
    "go.mod",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "packages.lock.json",
];
/// Clocks of file systems lag behind the clock by a tick; old reports were removed, so this lets in none.
const TICK: Duration = Duration::from_millis(50);

/// One container with its folders.
struct Place {
    folder: tempfile::TempDir,
    container: Box<dyn Container>,
}

impl Place {
    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// What lies in its folders, caches aside; `None` where that cannot be told.
    fn traces(&self) -> impl Future<Output = Result<Option<Traces>, PhaseError>> + use<> {
        let (workspace, home) = (self.workspace(), self.folder.path().join("home"));
        blocking(move || Ok(Traces::of(&workspace, &home)))
    }

    /// Ends the container and takes its folders away.
    async fn close(mut self) -> Result<(), PhaseError> {
        if let Err(error) = self.container.destroy().await {
            tracing::warn!(
                error = whole(&error),
                "cannot end a container; the kernel ends it with this process"
            );
        }
        let folder = self.folder.keep();
        blocking(move || removal::remove(&folder).map_err(PhaseError::disk("remove a workspace"))).await
    }
}

/// Runs the checks on a tree.
pub async fn run(cx: &Cx<'_>, ready: &Ready, tree: &Tree, checks: &[Check]) -> Result<Checked, PhaseError> {
    let mut order: Vec<usize> = (0..checks.len()).collect();
    order.sort_by_key(|&index| match checks[index].tool.kind() {
        ToolKind::Diagnostics => 0,
        ToolKind::Tests => 1,
    });
    let mut results: BTreeMap<usize, CheckResult> = BTreeMap::new();
    let mut place: Option<Place> = None;
    let is_diagnostics = |index: usize| checks[index].tool.kind() == ToolKind::Diagnostics;
    for (at, &index) in order.iter().enumerate() {
        cx.check_interrupt()?;
        let used = match place.take() {
            Some(place) => place,
            None => open(cx, ready, tree).await?,
        };
        // Only where another check may take the container over does it matter what this one leaves.
        let shared = is_diagnostics(index) && order.get(at + 1).is_some_and(|&next| is_diagnostics(next));
        let before = if shared { used.traces().await? } else { None };
        let (result, drift, used) = certainly(cx, ready, used, tree, &checks[index]).await?;
        results.insert(index, result);
        let untouched = before.is_some() && drift == Drift::None && used.traces().await? == before;
        if untouched {
            place = Some(used);
        } else {
            used.close().await?;
        }
    }
    Ok(Checked { checks: results.into_values().collect() })
}

/// Runs one check several times on a tree, until `enough` of its results are known.
///
/// The runs share folders, so that what was built for the first is there for the next: they are of the same
/// tree, and a run that is told apart by what another left is no steady one either.
pub async fn repeat(
    cx: &Cx<'_>,
    ready: &Ready,
    tree: &Tree,
    check: &Check,
    mut enough: impl FnMut(&CheckResult, usize) -> bool,
) -> Result<(), PhaseError> {
    let mut place: Option<Place> = None;
    for done in 1.. {
        cx.check_interrupt()?;
        let used = match place.take() {
            Some(place) => place,
            None => open(cx, ready, tree).await?,
        };
        let (result, drift, used) = certainly(cx, ready, used, tree, check).await?;
        let stop = enough(&result, done);
        match drift {
            Drift::None if !stop => place = Some(used),
            Drift::None | Drift::Changed => used.close().await?,
        }
        if stop {
            break;
        }
    }
    Ok(())
}

/// Runs one check, a second time in another container when the first was lost: nothing of the interrupted
/// one is used. Gives the place back that it ran in.
async fn certainly(
    cx: &Cx<'_>,
    ready: &Ready,
    mut used: Place,
    tree: &Tree,
    check: &Check,
) -> Result<(CheckResult, Drift, Place), PhaseError> {
    let done = match one(cx, &mut used, tree, check).await {
        Err(Lost::Container(error)) => {
            tracing::warn!(run.id = %cx.run(), error = whole(&error), "a check was interrupted");
            used.close().await?;
            used = open(cx, ready, tree).await?;
            one(cx, &mut used, tree, check).await
        }
        other => other,
    };
    let (result, drift) = done.map_err(|lost| lost.into_phase(check))?;
    Ok((result, drift, used))
}

/// Why a check has no result.
enum Lost {
    Container(SandboxError),
    Phase(PhaseError),
}

impl Lost {
    fn into_phase(self, check: &Check) -> PhaseError {
        match self {
            Lost::Phase(error) => error,
            Lost::Container(error) => {
                PhaseError::internal(&format!("{} could not be run: {}", check.name, whole(&error)))
            }
        }
    }
}

impl From<PhaseError> for Lost {
    fn from(error: PhaseError) -> Self {
        Lost::Phase(error)
    }
}

/// Whether a check changed tracked files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Drift {
    None,
    Changed,
}

async fn one(
    cx: &Cx<'_>,
    place: &mut Place,
    tree: &Tree,
    check: &Check,
) -> Result<(CheckResult, Drift), Lost> {
    let prepared = reports::command(check);
    let workspace = place.workspace();
    let refuse = |why: String| result(check, None, Report::inconclusive(check.tool, why));
    if let Err(why) = clear(&workspace, check, &prepared.report_files, cx.engine.sandbox.owner()) {
        return Ok((refuse(why), Drift::None));
    }
    let argv = line_of(&prepared.argv);
    cx.ledger.tell(Happening::Command { name: check.name.clone(), argv });
    let started = SystemTime::now() - TICK;
    let timeout = Duration::from_millis(check.timeout_ms);
    let command = Command {
        argv: prepared.argv,
        directory: check.directory.clone(),
        environment: prepared.env,
        stdin: Vec::new(),
        timeout,
        silence: timeout,
        max_output_bytes: check.max_output_bytes,
        cancel: cx.token(),
    };
    let exit = match place.container.exec(command).await {
        Ok(exit) if exit.cause == Cause::Cancelled => return Err(cx.interrupted().into()),
        Ok(exit) => exit,
        Err(error @ SandboxError::NotStarted { .. }) => return Ok((refuse(whole(&error)), Drift::None)),
        Err(error) => return Err(Lost::Container(error)),
    };
    let read = Read {
        workspace,
        started,
        report_files: prepared.report_files,
        directory: check.directory.clone(),
        must_write: prepared.must_write,
        tree: tree.clone(),
    };
    let (check, artifacts) = (check.clone(), cx.engine.artifacts.clone());
    Ok(blocking(move || read.finish(&check, &exit, &artifacts)).await?)
}

/// What is read after a command: its report files, then its workspace.
struct Read {
    workspace: PathBuf,
    started: SystemTime,
    report_files: Vec<String>,
    /// The check's, relative to the workspace.
    directory: String,
    must_write: bool,
    tree: Tree,
}

impl Read {
    fn finish(
        &self,
        check: &Check,
        exit: &Exit,
        artifacts: &jobs::artifacts::Artifacts,
    ) -> Result<(CheckResult, Drift), PhaseError> {
        let output = artifacts.put(&printed(exit))?;
        let (mut report, drift) = match self.collect(check) {
            Ok((files, stale)) => {
                let missing = self.must_write && files.is_empty();
                let mut report = reports::read(check, &raw(exit, files));
                if missing && report.outcome == CheckOutcome::Passed {
                    // The console alone can be written to by whatever ran.
                    let why = "it says that it passed, but did not write the report that it was asked for";
                    report.outcome = CheckOutcome::Inconclusive(why.to_owned());
                }
                report.notes.extend(stale.into_iter().map(|path| format!("{path} is older than this run")));
                let drift = self.drift(&mut report);
                (report, drift)
            }
            Err(why) => (Report::inconclusive(check.tool, why), Drift::Changed),
        };
        report.notes.truncate(200);
        let mut result = result(check, Some(exit), report);
        result.output = Some(output);
        Ok((result, drift))
    }

    fn collect(&self, check: &Check) -> Result<(Vec<files::Collected>, Vec<String>), String> {
        if self.report_files.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let Some(directory) = plain_folder(&self.workspace, &check.directory) else {
            return Err(format!("{} is no folder any more", check.directory));
        };
        files::collect(&directory, &self.report_files, self.started).map_err(|error| whole(&error))
    }

    /// Reads the tracked files back and says in the report which of them the check changed.
    fn drift(&self, report: &mut Report) -> Drift {
        let scan = match workspace::scan(&self.workspace, &self.tree, &Bounds::default()) {
            Ok(scan) => scan,
            Err(error) => {
                let why = format!("the workspace cannot be read after the check: {}", whole(&error));
                report.outcome = CheckOutcome::Inconclusive(why);
                return Drift::Changed;
            }
        };
        let drift = workspace::drift(&self.tree, &scan);
        let is_lockfile = |path: &TreePath| LOCKFILES.iter().any(|name| name.as_bytes() == path.name());
        let added: Vec<TreePath> =
            drift.added.into_iter().filter(|path| !is_lockfile(path) && !self.is_report(path)).collect();
        let changed = [drift.changed, drift.permissions].concat();
        if !added.is_empty() {
            // What a check leaves behind is no part of the change, and no later check shall see it.
            report.notes.push(format!("the check left {} behind; it is in no patch", named(&added)));
        }
        if !changed.is_empty() && changed.iter().all(is_lockfile) {
            report.notes.push(format!("the check rewrote {}; it was put back", named(&changed)));
        } else if !changed.is_empty() {
            let why = format!("the check changed files that it was to check: {}", named(&changed));
            report.outcome = CheckOutcome::Inconclusive(why);
        }
        if changed.is_empty() && added.is_empty() { Drift::None } else { Drift::Changed }
    }

    /// Whether a file is a report that the check was to write.
    fn is_report(&self, path: &TreePath) -> bool {
        let Some(path) = path.as_str() else { return false };
        let inside = match self.directory.as_str() {
            "" => Some(path),
            directory => path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/')),
        };
        inside.is_some_and(|path| {
            path.starts_with(reports::command::REPORT_FOLDER)
                || self.report_files.iter().any(|pattern| files::matches(pattern, path))
        })
    }
}

fn named(paths: &[TreePath]) -> String {
    let mut names: Vec<String> = paths.iter().take(5).map(TreePath::to_string).collect();
    if paths.len() > names.len() {
        names.push(format!("{} more", paths.len() - names.len()));
    }
    names.join(", ")
}

fn result(check: &Check, exit: Option<&Exit>, report: Report) -> CheckResult {
    let exit_code = exit.and_then(|exit| match exit.cause {
        Cause::Exited(code) => Some(code),
        Cause::Signalled(_)
        | Cause::TimedOut
        | Cause::Silent
        | Cause::OutputLimit
        | Cause::OutOfMemory
        | Cause::Processes
        | Cause::Disk
        | Cause::Cancelled => None,
    });
    let duration_ms = exit.map_or(0, |exit| u64::try_from(exit.duration.as_millis()).unwrap_or(u64::MAX));
    CheckResult { name: check.name.clone(), exit_code, duration_ms, output: None, report }
}

fn raw(exit: &Exit, files: Vec<files::Collected>) -> RawOutput {
    let (exit_code, ended, kept) = match exit.cause {
        Cause::Exited(code) => (Some(code), Ended::ByItself, Kept::Whole),
        Cause::Signalled(_) => (None, Ended::ByItself, Kept::Whole),
        Cause::TimedOut
        | Cause::Silent
        | Cause::OutOfMemory
        | Cause::Processes
        | Cause::Disk
        | Cause::Cancelled => (None, Ended::Killed, Kept::Whole),
        Cause::OutputLimit => (None, Ended::Killed, Kept::Truncated),
    };
    RawOutput {
        exit_code,
        ended,
        kept,
        stdout: exit.stdout.clone(),
        stderr: exit.stderr.clone(),
        files,
        root: crate::sandbox::WORKSPACE.to_owned(),
    }
}

/// Both outputs as one file for people.
fn printed(exit: &Exit) -> Vec<u8> {
    let mut bytes = exit.stdout.clone();
    if !exit.stderr.is_empty() {
        bytes.extend_from_slice(b"\n--- standard error ---\n");
        bytes.extend_from_slice(&exit.stderr);
    }
    bytes
}

/// Takes reports of earlier runs away, and makes the folder that the added arguments write to: not every
/// tool makes it by itself.
fn clear(
    workspace: &Path,
    check: &Check,
    patterns: &[String],
    owner: Option<(u32, u32)>,
) -> Result<(), String> {
    if patterns.is_empty() {
        return Ok(());
    }
    let directory = plain_folder(workspace, &check.directory)
        .ok_or_else(|| format!("{} is no folder of the repository", check.directory))?;
    files::clear(&directory, patterns).map_err(|error| whole(&error))?;
    let folder = directory.join(REPORT_FOLDER);
    let made = match std::fs::create_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            match plain_folder(&directory, REPORT_FOLDER) {
                Some(_) => Ok(()),
                None => Err(error),
            }
        }
        made => made.and_then(|()| match owner {
            Some((user, group)) => std::os::unix::fs::lchown(&folder, Some(user), Some(group)),
            None => Ok(()),
        }),
    };
    made.map_err(|error| format!("cannot make the folder {REPORT_FOLDER} for reports: {error}"))
}

/// A folder below the workspace that no link leads to: what ran there could have put one in its place.
fn plain_folder(workspace: &Path, directory: &str) -> Option<PathBuf> {
    let mut folder = workspace.to_owned();
    for part in Path::new(directory).components() {
        match part {
            std::path::Component::Normal(name) => folder.push(name),
            std::path::Component::CurDir => continue,
            std::path::Component::ParentDir
            | std::path::Component::RootDir
            | std::path::Component::Prefix(_) => return None,
        }
        if !std::fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
            return None;
        }
    }
    Some(folder)
}

/// Files, home and container for one tree, proven sealed.
async fn open(cx: &Cx<'_>, ready: &Ready, tree: &Tree) -> Result<Place, PhaseError> {
    let folder = fresh_folder(cx, "check-").await?;
    let (workspace, home) = (folder.path().join("workspace"), folder.path().join("home"));
    let (tree, owner, into) = (tree.clone(), cx.engine.sandbox.owner(), workspace.clone());
    blocking(move || {
        workspace::materialize(&tree, &into, owner)
            .map(drop)
            .map_err(|error| PhaseError::internal(&whole(&error)))
    })
    .await?;
    fresh_home(cx, &home).await?;
    let mut read_only = cx.engine.toolchains.binds.clone();
    read_only.extend(ready.binds.iter().cloned());
    let spec = ContainerSpec {
        run: cx.run().clone(),
        workspace,
        home,
        read_only,
        environment: environment(cx),
        limits: ContainerLimits::of(&cx.job().limits),
        egress: None,
    };
    let failed = |error: SandboxError| PhaseError::internal(&whole(&error));
    let mut container = cx.engine.sandbox.create(spec).await.map_err(failed)?;
    let seal = container.seal(&ready.sealed).await.map_err(failed)?;
    if !seal.sealed() {
        return Err(PhaseError::internal("a container for the checks is not sealed"));
    }
    Ok(Place { folder, container })
}

/// A new folder of the run for one container.
pub async fn fresh_folder(cx: &Cx<'_>, name: &'static str) -> Result<tempfile::TempDir, PhaseError> {
    let folders = cx.folders.clone();
    blocking(move || folders.fresh(name).map_err(PhaseError::disk("make a workspace"))).await
}

/// A home with a copy of what was installed.
pub async fn fresh_home(cx: &Cx<'_>, home: &Path) -> Result<(), PhaseError> {
    let (installed, owner) = (cx.folders.installed().join("home"), cx.engine.sandbox.owner());
    let home = home.to_owned();
    blocking(move || {
        let copy = || -> std::io::Result<()> {
            std::fs::create_dir(&home)?;
            copy_missing(&installed, &home, None, owner)?;
            match owner {
                Some((user, group)) => std::os::unix::fs::lchown(&home, Some(user), Some(group)),
                None => Ok(()),
            }
        };
        copy().map_err(PhaseError::disk("copy what was installed"))
    })
    .await
}

/// The toolchains' environment, with build products kept out of the workspace.
pub fn environment(cx: &Cx<'_>) -> BTreeMap<String, String> {
    let mut environment = cx.engine.toolchains.environment.clone();
    environment.insert("CARGO_TARGET_DIR".to_owned(), format!("{HOME}/target"));
    environment
}
