//! Bootstrap: dependencies are installed through the one window, which is then sealed for good.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jobs::fault;
use jobs::run::Failure;
use jobs::step::{Output, StepKind};

use super::cx::{Cx, blocking};
use super::provision::{Provisioned, Ready, replay};
use super::{PhaseError, drive, whole};
use crate::bootstrap::{self, BootstrapError, Bootstrapped};
use crate::egress::{EgressBounds, EgressPolicy, Sealed};
use crate::sandbox::{Bind, ContainerLimits, ContainerSpec, SandboxError, leftovers};

/// Installs and seals, or takes over what an earlier worker on this node installed: its window died with it.
pub async fn run(cx: &mut Cx<'_>, provisioned: Provisioned) -> Result<Ready, PhaseError> {
    cx.check_interrupt()?;
    let known = cx.plan().await?.known;
    let kept = if known.bootstrapped { kept(cx) } else { None };
    let (binds, sealed) = match kept {
        Some(binds) => (binds, Sealed::never_opened()),
        None => {
            cx.ledger.begin(StepKind::Bootstrap, 0).await?;
            let installed = install(cx, &provisioned).await;
            let done = drive::in_step(cx, StepKind::Bootstrap, 0, installed).await?;
            let Bootstrapped { installs, egress, seal, sealed, binds, .. } = done;
            keep(cx, &binds)?;
            cx.ledger.done(StepKind::Bootstrap, 0, Output::Bootstrapped { installs, egress, seal }).await?;
            fault::point("run-bootstrapped");
            (binds, sealed)
        }
    };
    let admitted = provisioned.admitted;
    let (from, artifacts) = (admitted.clone(), cx.engine.artifacts.clone());
    let current = blocking(move || replay(&from, &known.applied, &artifacts)).await?;
    Ok(Ready { admitted, current, binds, sealed, view: None })
}

async fn install(cx: &Cx<'_>, provisioned: &Provisioned) -> Result<Bootstrapped, PhaseError> {
    let installed = cx.folders.installed();
    if installed.exists() {
        std::fs::remove_dir_all(&installed).map_err(PhaseError::disk("clear an unfinished installation"))?;
    }
    std::fs::create_dir(&installed).map_err(PhaseError::disk("make the installation's folder"))?;
    self_test(cx).await?;
    // The path of a socket must be short, and a data folder's need not be.
    let window = leftovers::folder(cx.run());
    let window = window.map_err(PhaseError::disk("make the egress window's folder"))?;
    let engine = cx.engine;
    let plan = bootstrap::plan(&provisioned.admitted, &engine.toolchains);
    let mut allowed = bootstrap::registries(&engine.toolchains);
    allowed.extend(engine.egress.hosts.iter().cloned());
    let policy = EgressPolicy {
        allowed,
        trusted_networks: engine.egress.trusted_networks.clone(),
        upstream: engine.egress.upstream.clone(),
        ..EgressPolicy::of(EgressBounds::of(&cx.job().limits))
    };
    let input = bootstrap::Input {
        sandbox: engine.sandbox.as_ref(),
        run: cx.run(),
        tree: &provisioned.admitted,
        workspace: &installed.join("workspace"),
        home: &installed.join("home"),
        socket_folder: &window.path().join("window"),
        toolchains: &engine.toolchains,
        plan: &plan,
        policy,
        limits: &cx.job().limits,
        progress: &|what| cx.ledger.tell(what),
        cancel: &cx.interrupts.token,
    };
    match bootstrap::run(input).await {
        Ok(done) => Ok(done),
        Err(BootstrapError::Cancelled) => Err(cx.interrupted()),
        Err(error) => Err(PhaseError::Failed(Failure::Bootstrap(whole(&error)))),
    }
}

/// Tries the walls of a container from inside before anything of the repository runs in one, window or not.
async fn self_test(cx: &Cx<'_>) -> Result<(), PhaseError> {
    let folder = super::checks::fresh_folder(cx, "self-test-").await?;
    let spec = ContainerSpec {
        run: cx.run().clone(),
        workspace: folder.path().join("workspace"),
        home: folder.path().join("home"),
        read_only: Vec::new(),
        environment: BTreeMap::new(),
        limits: ContainerLimits::of(&cx.job().limits),
        egress: None,
    };
    let tested = async {
        let mut container = cx.engine.sandbox.create(spec).await?;
        let sealed = container.seal(&Sealed::never_opened()).await;
        container.destroy().await?;
        sealed.map(drop)
    };
    tested.await.map_err(|error| PhaseError::Failed(Failure::Bootstrap(refusal(&error))))
}

/// What people are told where no container holds.
fn refusal(error: &SandboxError) -> String {
    format!(
        "{}; nothing of the repository was run; see `whipstitch doctor --probe` on this node",
        whole(error)
    )
}

/// Marks the installation as complete, with the folders that containers get of it.
fn keep(cx: &Cx<'_>, binds: &[Bind]) -> Result<(), PhaseError> {
    let paths: Vec<(&PathBuf, &PathBuf)> = binds.iter().map(|bind| (&bind.host, &bind.inside)).collect();
    let text = serde_json::to_vec(&paths).map_err(std::io::Error::other);
    let written = text.and_then(|text| std::fs::write(cx.folders.installed_mark(), text));
    written.map_err(PhaseError::disk("mark the installation as complete"))
}

/// What `keep` wrote; `None` where the installation was never completed on this node.
fn kept(cx: &Cx<'_>) -> Option<Vec<Bind>> {
    let text = std::fs::read(cx.folders.installed_mark()).ok()?;
    let paths: Vec<(PathBuf, PathBuf)> = serde_json::from_slice(&text).ok()?;
    Some(paths.into_iter().map(|(host, inside)| Bind { host, inside }).collect())
}
