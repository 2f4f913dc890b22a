//! Asking the agent: its intent is durable and journalled before it is called, its result after.
//!
//! A launch is called at most once. When nothing tells what became of it, the run waits for a person.

use std::time::Duration;

use futures_util::future::BoxFuture;
use jobs::check::Check;
use jobs::digest::Digest;
use jobs::fault;
use jobs::id::LaunchId;
use jobs::run::Failure;
use jobs::step::{Output, StepKind};
use jobs::verdict::{CheckResult, Checked};

use super::cx::{Cx, blocking};
use super::provision::Ready;
use super::{PhaseError, checks, drive, navigate, whole};
use crate::agents::{self, Agent, AgentError, Proposal, Task, Workbench};
use crate::edit;
use crate::navigate::RepoView;
use crate::progress::{Happening, line_of};
use crate::recovery::{self, Answer, Known};
use crate::sandbox::ContainerLimits;
use crate::workspace::{Bounds, Tree};

/// Asks the agent, or takes the answer that is recorded.
pub async fn run(
    cx: &mut Cx<'_>,
    ready: &Ready,
    known: &Known,
    iteration: u32,
    answer: Answer,
) -> Result<(), PhaseError> {
    cx.ledger.begin(StepKind::Propose, iteration).await?;
    let proposed = match answer {
        Answer::Recorded { launch, proposal, tokens } => {
            let note = "the recorded result of the launch".to_owned();
            Ok(Output::Proposed { launch, patch: proposal, note, tokens })
        }
        Answer::Ask => ask(cx, ready, known, iteration).await,
    };
    let output = drive::in_step(cx, StepKind::Propose, iteration, proposed).await?;
    cx.ledger.done(StepKind::Propose, iteration, output).await?;
    fault::point("run-proposed");
    Ok(())
}

async fn ask(cx: &mut Cx<'_>, ready: &Ready, known: &Known, iteration: u32) -> Result<Output, PhaseError> {
    let nothing = Checked::default();
    let failing = known.latest().unwrap_or(&nothing);
    let view = navigate::view(cx, ready, failing).await?;
    let agent = agent(cx)?;
    let name = name_of(agent.as_ref());
    let input = input(ready, failing, iteration, &name)?;
    let launch = LaunchId::fresh(cx.ledger.now());
    let intent = cx.ledger.intend(&launch, iteration, &name, input).await?;
    cx.ledger.launched(&launch, intent).await?;
    cx.ledger.tell(Happening::Command { name: "agent".to_owned(), argv: line_of(&[name]) });
    let launched = Launched { launch: &launch, intent, failing, iteration, view: &view, known };
    let answer = call(cx, ready, agent.as_ref(), &launched).await?;
    let proposal = match answer {
        Ok(proposal) => proposal,
        Err(error) => return Err(refused(cx, &launch, input, error).await?),
    };
    let patch = patch_of(cx, ready, &proposal).await?;
    let tokens = proposal.tokens;
    cx.ledger.exited(&launch, patch, tokens).await?;
    Ok(Output::Proposed { launch, patch, note: proposal.note.chars().take(4000).collect(), tokens })
}

/// What the agent is told of its launch.
struct Launched<'a> {
    launch: &'a LaunchId,
    intent: Digest,
    failing: &'a Checked,
    iteration: u32,
    view: &'a RepoView,
    known: &'a Known,
}

async fn call(
    cx: &Cx<'_>,
    ready: &Ready,
    agent: &dyn Agent,
    launched: &Launched<'_>,
) -> Result<Result<Proposal, AgentError>, PhaseError> {
    let engine = cx.engine;
    let place = checks::fresh_folder(cx, "agent-").await?;
    let home = place.path().join("home");
    checks::fresh_home(cx, &home).await?;
    let mut binds = engine.toolchains.binds.clone();
    binds.extend(ready.binds.iter().cloned());
    let environment = checks::environment(cx);
    let workbench = Workbench {
        sandbox: engine.sandbox.as_ref(),
        run: cx.run(),
        folder: &place.path().join("benches"),
        home: &home,
        binds: &binds,
        environment: &environment,
        limits: ContainerLimits::of(&cx.job().limits),
        bounds: &Bounds::default(),
        sealed: &ready.sealed,
    };
    let run_check = |check: Check, tree: Tree| -> BoxFuture<'_, Result<CheckResult, String>> {
        Box::pin(async move {
            let checked = checks::run(cx, ready, &tree, std::slice::from_ref(&check)).await;
            let checked = checked.map_err(|error| whole(&error))?;
            checked.checks.into_iter().next().ok_or_else(|| format!("{} gave no result", check.name))
        })
    };
    let limits = &cx.job().limits;
    let worked = recovery::worked_ms(cx.ledger.steps());
    let task = Task {
        iteration: launched.iteration,
        launch: launched.launch,
        intent: launched.intent,
        tree: &ready.current,
        checks: &cx.job().checks,
        failing: launched.failing,
        view: launched.view,
        last: launched.known.verdict.as_ref(),
        unapplied: launched.known.unapplied.as_deref(),
        limits,
        workbench: &workbench,
        run_check: &run_check,
        tokens_left: limits.max_tokens.saturating_sub(launched.known.tokens),
        time_left: Duration::from_millis(limits.max_runtime_ms.saturating_sub(worked)),
        cancel: &cx.interrupts.agent,
    };
    Ok(agent.propose(&task).await)
}

/// Records that an agent gave no proposal, and says how the run goes on.
async fn refused(
    cx: &mut Cx<'_>,
    launch: &LaunchId,
    input: Digest,
    error: AgentError,
) -> Result<PhaseError, PhaseError> {
    if cx.interrupts.agent.is_cancelled() {
        cx.ledger.lost(launch, input).await?;
        return Ok(cx.interrupted());
    }
    match error {
        AgentError::NotStarted(_) | AgentError::Refused { .. } => {
            cx.ledger.exited(launch, None, error.tokens()).await?;
            Ok(PhaseError::Failed(Failure::Agent(whole(&error))))
        }
        AgentError::Uncertain(why) => {
            tracing::warn!(run.id = %cx.run(), launch.id = %launch, why, "it is not known what the agent did");
            cx.ledger.lost(launch, input).await?;
            Ok(PhaseError::Uncertain(launch.clone()))
        }
    }
}

/// The proposal as a patch in the artifact folder; `None` when it changes nothing.
async fn patch_of(cx: &Cx<'_>, ready: &Ready, proposal: &Proposal) -> Result<Option<Digest>, PhaseError> {
    let Some(after) = proposal.after.clone() else { return Ok(None) };
    let (current, artifacts) = (ready.current.clone(), cx.engine.artifacts.clone());
    blocking(move || {
        let changeset = edit::diff::diff(&current, &after)
            .map_err(|error| PhaseError::Failed(Failure::Agent(whole(&error))))?;
        if changeset.is_empty() { Ok(None) } else { Ok(Some(artifacts.put(&changeset.patch)?)) }
    })
    .await
}

/// Digest of what the agent is given.
fn input(ready: &Ready, failing: &Checked, iteration: u32, name: &str) -> Result<Digest, PhaseError> {
    let task = serde_json::json!({
        "agent": name,
        "failing": failing,
        "iteration": iteration,
        "tree": ready.current.id(),
    });
    let text = serde_json::to_vec(&task)
        .map_err(|error| PhaseError::internal(&format!("cannot write the agent's task: {error}")))?;
    Ok(Digest::of(text))
}

fn agent(cx: &Cx<'_>) -> Result<Box<dyn Agent>, PhaseError> {
    agents::agent_of(&cx.job().agent, &cx.engine.artifacts, &cx.job().limits, &cx.engine.models)
        .map_err(|error| PhaseError::Failed(Failure::Agent(whole(&error))))
}

fn name_of(agent: &dyn Agent) -> String {
    let identity = agent.identity();
    match identity.model {
        Some(model) => format!("{}/{} {model}", identity.name, identity.version),
        None => format!("{}/{}", identity.name, identity.version),
    }
}

/// The job's agent as a receipt names it.
pub fn actor(cx: &Cx<'_>) -> Result<String, PhaseError> {
    let name = name_of(agent(cx)?.as_ref()).to_ascii_lowercase();
    let plain = |next: char| {
        if next.is_ascii_alphanumeric() || "._:/@+-".contains(next) { next } else { '-' }
    };
    Ok(format!("agent:{name}").chars().map(plain).take(128).collect())
}
