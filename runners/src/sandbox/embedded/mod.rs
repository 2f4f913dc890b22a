//! The default backend: containers of this kernel's namespaces, made by this executable itself.
//!
//! Each command gets namespaces of its own, so that when it has ended the kernel has ended everything
//! that it started; what stays between commands is the workspace and the home.

mod launch;
mod owned;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jobs::id::RunId;
use jobs::step::{SealReport, SealTest};

pub(super) use self::launch::send_head;
use self::launch::{Bounds, Launched};
use super::base::{self, Root};
use super::cgroup::Bounds as CgroupBounds;
use super::init::plan::{Limits, Mount, Plan, Work};
use super::probe::Probed;
use super::{
    Capabilities, Command, Container, ContainerSpec, Exit, Sandbox, SandboxError, WORKSPACE, all_processors,
    leftovers,
};
use crate::egress::Sealed;

/// The name under which the backend is reported.
pub(super) const NAME: &str = "embedded";
/// Where the egress window's folder is mounted.
const EGRESS_FOLDER: &str = "/run/egress";

/// Containers of this kernel's namespaces.
#[derive(Clone, Debug)]
pub struct Embedded {
    launcher: Arc<Path>,
    probed: Arc<Probed>,
}

impl Embedded {
    /// Makes one container to see that it can; refuses, naming the reason and the ways out, when it cannot.
    ///
    /// The executable that calls this runs itself again as the launcher, so its `main` begins with
    /// [`maybe_run`](super::init::maybe_run).
    pub fn new() -> Result<Self, SandboxError> {
        Self::with_launcher("/proc/self/exe")
    }

    /// Like `new`, with another executable as the launcher, whose `main` begins with `maybe_run`.
    pub fn with_launcher(path: impl AsRef<Path>) -> Result<Self, SandboxError> {
        let found = Self::unchecked(path);
        match found.probed.refusal() {
            None => Ok(found),
            Some(reason) => Err(SandboxError::CannotSeal(reason)),
        }
    }

    /// The same with whatever this machine can and cannot do, for those who ask what it can. Where it
    /// cannot seal, making a container fails; nothing runs less confined instead.
    pub fn unchecked(launcher: impl AsRef<Path>) -> Self {
        let launcher: Arc<Path> = Arc::from(launcher.as_ref());
        let probed = Arc::new(Probed::measure(&launcher));
        Self { launcher, probed }
    }
}

#[async_trait]
impl Sandbox for Embedded {
    fn probe(&self) -> Capabilities {
        self.probed.capabilities()
    }

    fn owner(&self) -> Option<(u32, u32)> {
        rustix::process::geteuid().is_root().then_some(self.probed.host_ids)
    }

    async fn create(&self, spec: ContainerSpec) -> Result<Box<dyn Container>, SandboxError> {
        if let Some(reason) = self.probed.refusal() {
            return Err(SandboxError::CannotSeal(reason));
        }
        let owner = self.owner();
        let (spec, root) = tokio::task::spawn_blocking(move || {
            owned::hand_over(&spec, owner)?;
            let root = Root::of(&spec)?;
            Ok::<_, SandboxError>((spec, root))
        })
        .await
        .map_err(|error| SandboxError::Create {
            what: "its preparation ended by a panic".to_owned(),
            source: std::io::Error::other(error),
        })??;
        let egress = spec.egress.as_deref().map(base::canonical).transpose()?;
        Ok(Box::new(EmbeddedContainer { sandbox: self.clone(), spec, root, egress, destroyed: false }))
    }

    async fn reap(&self, run: RunId) -> Result<(), SandboxError> {
        let place = self.probed.cgroup.clone();
        let (beginning, of) = (format!("{run}-"), run.clone());
        let removed = tokio::task::spawn_blocking(move || {
            // Processes first: what they hold open goes with them.
            place.remove_leftovers(&beginning)?;
            leftovers::remove(&of)
        })
        .await
        .map_err(std::io::Error::other);
        removed.and_then(|removed| removed).map_err(|source| SandboxError::Lost {
            while_doing: format!("removing what run {run} left"),
            source,
        })
    }
}

/// One container of a run.
struct EmbeddedContainer {
    sandbox: Embedded,
    spec: ContainerSpec,
    root: Root,
    /// The window's folder, until it is sealed.
    egress: Option<PathBuf>,
    destroyed: bool,
}

impl EmbeddedContainer {
    fn plan(&self, work: Work) -> Plan {
        let probed = &self.sandbox.probed;
        let mut mounts = self.root.mounts.clone();
        if let Some(folder) = &self.egress {
            mounts.push(Mount { host: folder.clone(), inside: EGRESS_FOLDER.into(), writable: false });
        }
        let limits: Limits = self.spec.limits.into();
        let bounds = CgroupBounds {
            memory_bytes: limits.memory_bytes,
            tasks: limits.tasks(self.egress.is_some()),
            cpu_percent: Some(self.spec.limits.cpu_percent).filter(|&share| share < all_processors()),
        };
        Plan {
            host_ids: probed.host_ids,
            mounts,
            links: self.root.links.clone(),
            files: self.root.files.clone(),
            limits,
            cgroup: probed.cgroup.child(&self.spec.run.to_string(), bounds),
            landlock: probed.landlock.is_some(),
            forward: self.egress.is_some(),
            work,
        }
    }

    async fn run(&mut self, work: Work, bounds: Bounds<'_>) -> Result<Exit, SandboxError> {
        if self.destroyed {
            return Err(SandboxError::Lost {
                while_doing: "running a command in it after its end".to_owned(),
                source: std::io::ErrorKind::NotConnected.into(),
            });
        }
        let program = match &work {
            Work::Program { argv, .. } => argv.first().cloned().unwrap_or_default(),
            Work::SelfTest => "the self-test".to_owned(),
        };
        let plan = self.plan(work);
        let launched = Launched::start(&self.sandbox.launcher, &plan, self.sandbox.owner(), bounds)?;
        launched.finish(&program).await
    }
}

#[async_trait]
impl Container for EmbeddedContainer {
    async fn exec(&mut self, command: Command) -> Result<Exit, SandboxError> {
        let mut environment = self.spec.environment.clone();
        environment.extend(command.environment.clone());
        let Some(directory) = folder_within(&command.directory) else {
            let program = command.argv.first().cloned().unwrap_or_default();
            let why = format!("its folder {} leads out of the workspace", command.directory);
            return Err(SandboxError::NotStarted { program, why });
        };
        let work = Work::Program { argv: command.argv.clone(), directory, environment };
        self.run(work, Bounds::of(&command)).await
    }

    async fn seal(&mut self, proof: &Sealed) -> Result<SealReport, SandboxError> {
        // The value is the proof that the window is closed; the self-test shows what it means inside.
        let tests = self.self_test().await?;
        // From here on the folder is not even there, whatever may come to lie in it.
        self.egress = None;
        let report = self.sandbox.probed.report(tests, proof.lines());
        if report.sealed() {
            return Ok(report);
        }
        let open = report.tests.iter().filter(|test| !test.closed);
        let open: Vec<_> = open.map(|test| format!("{} ({})", test.name, test.evidence)).collect();
        Err(SandboxError::NotSealed(if open.is_empty() {
            "no way out was tried".to_owned()
        } else {
            open.join("; ")
        }))
    }

    async fn destroy(&mut self) -> Result<(), SandboxError> {
        // No process outlives its command, and the launcher has removed each cgroup.
        self.destroyed = true;
        Ok(())
    }
}

/// The place of a folder of the workspace; `None` for one that is not within it.
fn folder_within(folder: &str) -> Option<PathBuf> {
    use std::path::Component::{CurDir, Normal};
    let stays = |part| matches!(part, Normal(_) | CurDir);
    Path::new(folder).components().all(stays).then(|| Path::new(WORKSPACE).join(folder))
}

impl EmbeddedContainer {
    async fn self_test(&mut self) -> Result<Vec<SealTest>, SandboxError> {
        let command = Command { timeout: super::probe::SELF_TEST_TIME, ..Command::new(&[]) };
        let exit = self.run(Work::SelfTest, Bounds::of(&command)).await?;
        serde_json::from_slice(&exit.stdout).map_err(|error| SandboxError::Lost {
            while_doing: format!("reading the self-test, which ended by {:?}", exit.cause),
            source: error.into(),
        })
    }
}
