//! A node: it decides deliveries, drives runs and tells the forge, one thing at a time, until it dies.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use e2e::dice::Dice;
use jobs::fault::{Fate, Script};
use jobs::forge::Repository;
use jobs::job::AgentSpec;
use jobs::source::{Claim, CloneAccess, Source, SourceError};
use runners::executor::{EgressSettings, Engine};
use runners::toolchains::{self, Host, Toolchains};
use tokio_util::sync::CancellationToken;
use webhooks::forge::{Forge, Forges};
use webhooks::{admission, report};

use crate::sandbox::Simulated;
use crate::world::{Skewed, World};

/// The fate of one node.
pub struct Fated {
    pub world: Arc<World>,
    pub who: usize,
}

impl Script for Fated {
    fn reach(&self, point: &'static str) -> Fate {
        if !matches!(point, "before-write" | "before-read" | "before-commit" | "after-commit") {
            // Somebody is at work in the middle of something, whatever the others find.
            self.world.idle.store(0, Ordering::Relaxed);
            self.world.worked.store(true, Ordering::Relaxed);
        }
        self.world.fate(point)
    }

    fn turn(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.world.turns.next(self.who))
    }
}

struct Here(Arc<World>);

#[async_trait]
impl Source for Here {
    async fn clone_access(&self, _: &Claim, repository: &Repository) -> Result<CloneAccess, SourceError> {
        if self.0.trouble.comes("clone") {
            let repository = repository.to_string();
            return Err(SourceError::Unavailable { repository, why: "the forge is away".to_owned() });
        }
        let url = format!("file://{}", self.0.gits[&repository.name].display());
        Ok(CloneAccess { url, token: None })
    }
}

/// A machine without tools: no check of these stories needs one.
fn toolchains() -> Toolchains {
    let none = Host { path: Default::default(), home: "/nonexistent".into(), variables: Default::default() };
    toolchains::detect(&none)
}

/// Lives until the story is over. The caller has the turn.
pub async fn live(world: Arc<World>, who: usize, life: u64) {
    let mut dice = Dice::of(world.seed ^ (who as u64) << 32 ^ life << 40);
    let clock = Arc::new(Skewed { clock: world.clock.clone(), by: world.skews[who - 1] });
    let name = format!("node-{who}/{life}");
    let forges = Forges::new(vec![Arc::clone(&world.forge) as Arc<dyn Forge>]);
    let mut admitting = admission::Context::new(world.db.clone(), forges.clone(), clock.clone(), &name);
    admitting.agent = Some(AgentSpec::Replay { patch: world.patch });
    // Sometimes a node comes back on another machine, with nothing on its disk.
    let disk = if dice.roll(3) == 0 { format!("disk-{who}-{life}") } else { format!("disk-{who}") };
    let disk = world.folder.path().join(disk);
    let reporting = report::Context {
        db: world.db.clone(),
        forges,
        artifacts: world.artifacts.clone(),
        bundles: disk.join("bundles"),
        signer: Arc::clone(&world.signer),
        clock: clock.clone(),
        node: name.clone(),
        public_url: None,
        mask: report::Mask::new(Vec::new()),
    };
    let engine = Engine {
        db: world.db.clone(),
        artifacts: world.artifacts.clone(),
        source: Arc::new(Here(Arc::clone(&world))),
        sandbox: Arc::new(Simulated(Arc::clone(&world.trouble))),
        toolchains: toolchains(),
        egress: EgressSettings::default(),
        models: Default::default(),
        signer: Arc::clone(&world.signer),
        clock,
        data_dir: disk,
        node: name,
        progress: world.progress.clone(),
        concurrency: 1,
        repository_concurrency: None,
        drain: std::time::Duration::ZERO,
    };
    while !world.over.load(Ordering::Relaxed) {
        let first = dice.roll(3);
        let mut worked = false;
        for what in [first, first + 1, first + 2] {
            // A store that does not answer is tried again; it is work all the same.
            worked = match what % 3 {
                0 => admission::work_one(&admitting)
                    .await
                    .map_or(true, |worked| worked != admission::Worked::Nothing),
                1 => report::work_one(&reporting)
                    .await
                    .map_or(true, |worked| worked != report::Worked::Nothing),
                _ => engine.run_one(CancellationToken::new()).await.is_some(),
            };
            if worked {
                break;
            }
        }
        match worked {
            true => {
                world.idle.store(0, Ordering::Relaxed);
                world.worked.store(true, Ordering::Relaxed);
            }
            false => drop(world.idle.fetch_add(1, Ordering::Relaxed)),
        }
        world.turns.next(who).await;
    }
}
