//! The conformance suite in the embedded sandbox: every probe is contained, for root and for a user without
//! rights.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests that say when they were skipped")]

mod common;
#[allow(dead_code)]
mod running;
#[path = "sandbox/unprivileged.rs"]
mod unprivileged;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use jobs::id::RunId;
use jobs::run::{Failure, Outcome as RunOutcome, RunState};
use jobs::step::SealReport;
use runners::egress::Sealed;
use runners::executor::Engine;
use runners::sandbox::{
    Capabilities, Command, Container, ContainerSpec, Embedded, Exit, Sandbox, SandboxError,
};
use tokio_util::sync::CancellationToken;

use runners::sandbox::conformance::{Found, Outcome, examine};

/// Limits that a machine may be unable to enforce; everything else is contained or leaks.
const MAY_BE_DECLARED: [&str; 5] =
    ["workspace-bytes", "workspace-files", "home-bytes", "home-files", "processors"];

fn said(found: &Found) -> String {
    format!("{} {}: {}: {}", found.outcome.word(), found.name, found.rule, found.outcome.evidence())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_probe_is_contained() {
    let Some(sandbox) = common::sandbox() else { return };
    let run = RunId::fresh(1_700_000_000_000);
    let column = examine(&sandbox, &common::launcher(), &run).await.unwrap();
    let failures: Vec<String> = column.failures().map(said).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(column.found.len() > 100, "only {} probes", column.found.len());
    let weak: Vec<String> = sandbox
        .probe()
        .findings
        .iter()
        .filter(|finding| !finding.advice.is_empty())
        .map(|finding| finding.name.to_owned())
        .collect();
    for found in &column.found {
        if matches!(found.outcome, Outcome::Declared(_)) {
            assert!(MAY_BE_DECLARED.contains(&found.name.as_str()), "{}", said(found));
            assert!(!weak.is_empty(), "{}", said(found));
        }
    }
}

/// A sandbox in which one wall does not hold.
struct Leaky {
    inner: Arc<Embedded>,
    commands: Arc<AtomicUsize>,
}

struct LeakyContainer {
    inner: Box<dyn Container>,
    commands: Arc<AtomicUsize>,
}

#[async_trait]
impl Sandbox for Leaky {
    fn probe(&self) -> Capabilities {
        self.inner.probe()
    }

    fn owner(&self) -> Option<(u32, u32)> {
        self.inner.owner()
    }

    async fn create(&self, spec: ContainerSpec) -> Result<Box<dyn Container>, SandboxError> {
        let inner = self.inner.create(spec).await?;
        Ok(Box::new(LeakyContainer { inner, commands: Arc::clone(&self.commands) }))
    }

    async fn reap(&self, run: RunId) -> Result<(), SandboxError> {
        self.inner.reap(run).await
    }
}

#[async_trait]
impl Container for LeakyContainer {
    async fn exec(&mut self, command: Command) -> Result<Exit, SandboxError> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.inner.exec(command).await
    }

    async fn seal(&mut self, _: &Sealed) -> Result<SealReport, SandboxError> {
        Err(SandboxError::NotSealed("vsock (a socket could be made)".to_owned()))
    }

    async fn destroy(&mut self) -> Result<(), SandboxError> {
        self.inner.destroy().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_that_does_not_hold_stops_the_run_before_anything_of_it_runs() {
    let Some(sandbox) = common::sandbox() else { return };
    let sandbox = Arc::new(sandbox);
    let project = running::Crate::new(running::WRONG_SUM);
    let asked = running::request_on(&project);
    let (engine, run) = running::queued(&sandbox, &project, asked).await;
    let Ok(engine) = Arc::try_unwrap(engine) else { panic!("somebody else has the engine") };
    let commands = Arc::new(AtomicUsize::new(0));
    let leaky = Leaky { inner: sandbox, commands: Arc::clone(&commands) };
    let engine = Engine { sandbox: Arc::new(leaky), ..engine };
    engine.run_one(CancellationToken::new()).await;
    let view = jobs::store::runs::view(&engine.db, &run).await.unwrap().unwrap();
    let RunState::Finished { outcome: RunOutcome::Failed { failure: Failure::Bootstrap(why) } } =
        view.run.state
    else {
        panic!("{:?}", view.run.state)
    };
    assert_eq!(
        why,
        "the container is not sealed: vsock (a socket could be made); nothing of the repository was run; see `whipstitch doctor --probe` on this node"
    );
    assert_eq!(commands.load(Ordering::Relaxed), 0);
}
