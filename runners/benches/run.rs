//! The overhead of a run: its wall time less that of the commands it ran.
//!
//! `cargo bench -p runners --bench run`. A run repairs a small crate by a recorded patch; every command
//! that a container executes is timed from the outside, so its sandbox counts as the command's.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../tests/running/mod.rs"]
mod running;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jobs::id::RunId;
use jobs::run::{Outcome, RunState};
use jobs::step::SealReport;
use jobs::store::runs;
use runners::egress::Sealed;
use runners::executor::Engine;
use runners::local::LocalAgent;
use runners::sandbox::{
    Capabilities, Command, Container, ContainerSpec, Embedded, Exit, Sandbox, SandboxError,
};
use tokio_util::sync::CancellationToken;

const RUNS: usize = 10;

/// What containers took.
#[derive(Clone, Copy, Default)]
struct Taken {
    commands: Duration,
    count: u32,
    creations: Duration,
    seals: Duration,
}

/// A sandbox that times what its containers do.
struct Timed {
    inner: Arc<Embedded>,
    taken: Arc<Mutex<Taken>>,
}

#[async_trait]
impl Sandbox for Timed {
    fn probe(&self) -> Capabilities {
        self.inner.probe()
    }

    fn owner(&self) -> Option<(u32, u32)> {
        self.inner.owner()
    }

    async fn create(&self, spec: ContainerSpec) -> Result<Box<dyn Container>, SandboxError> {
        let begun = Instant::now();
        let inner = self.inner.create(spec).await?;
        self.taken.lock().unwrap().creations += begun.elapsed();
        Ok(Box::new(TimedContainer { inner, taken: Arc::clone(&self.taken) }))
    }

    async fn reap(&self, run: RunId) -> Result<(), SandboxError> {
        self.inner.reap(run).await
    }
}

struct TimedContainer {
    inner: Box<dyn Container>,
    taken: Arc<Mutex<Taken>>,
}

#[async_trait]
impl Container for TimedContainer {
    async fn exec(&mut self, command: Command) -> Result<Exit, SandboxError> {
        let begun = Instant::now();
        let exit = self.inner.exec(command).await;
        let mut taken = self.taken.lock().unwrap();
        taken.commands += begun.elapsed();
        taken.count += 1;
        exit
    }

    async fn seal(&mut self, proof: &Sealed) -> Result<SealReport, SandboxError> {
        let begun = Instant::now();
        let report = self.inner.seal(proof).await;
        self.taken.lock().unwrap().seals += begun.elapsed();
        report
    }

    async fn destroy(&mut self) -> Result<(), SandboxError> {
        self.inner.destroy().await
    }
}

async fn measure(sandbox: &Arc<Embedded>) -> (Duration, Taken) {
    let project = running::Crate::new(running::WRONG_SUM);
    let mut asked = running::request_on(&project);
    asked.agent = LocalAgent::Replay(running::patch(&project, "a - b", "a + b"));
    let (engine, run) = running::queued(sandbox, &project, asked).await;
    let Ok(engine) = Arc::try_unwrap(engine) else { panic!("somebody else has the engine") };
    let taken = Arc::new(Mutex::new(Taken::default()));
    let timed = Timed { inner: Arc::clone(sandbox), taken: Arc::clone(&taken) };
    let engine = Engine { sandbox: Arc::new(timed), ..engine };
    let begun = Instant::now();
    engine.run_one(CancellationToken::new()).await;
    let wall = begun.elapsed();
    let view = runs::view(&engine.db, &run).await.unwrap().unwrap();
    assert_eq!(view.run.state, RunState::Finished { outcome: Outcome::Succeeded });
    let taken = *taken.lock().unwrap();
    (wall, taken)
}

#[tokio::main]
async fn main() {
    let Some(sandbox) = common::sandbox() else { return };
    let sandbox = Arc::new(sandbox);
    let mut overheads = Vec::new();
    for _ in 0..RUNS {
        let (wall, taken) = measure(&sandbox).await;
        let overhead = wall - taken.commands;
        println!(
            "run {:>6.1} ms, {} commands {:>6.1} ms, overhead {:>5.1} ms (containers {:.1} ms, proofs of the seal {:.1} ms)",
            ms(wall),
            taken.count,
            ms(taken.commands),
            ms(overhead),
            ms(taken.creations),
            ms(taken.seals),
        );
        overheads.push(overhead);
    }
    overheads.sort();
    println!(
        "overhead of a run: median {:.1} ms, least {:.1} ms, most {:.1} ms of {RUNS} runs",
        ms(overheads[RUNS / 2]),
        ms(overheads[0]),
        ms(overheads[RUNS - 1]),
    );
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
