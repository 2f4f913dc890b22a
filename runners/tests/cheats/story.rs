//! One scripted repair: a project, a change to it, and how the run must end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jobs::check::Check;
use jobs::clock::SystemClock;
use jobs::job::{Goal, Guard, Limits};
use jobs::run::{Failure, Outcome, RunState};
use receipts::Signer;
use runners::edit;
use runners::executor::EgressSettings;
use runners::local::{self, LocalAgent, LocalReport, LocalRequest};
use runners::sandbox::Embedded;
use runners::toolchains::{Host, Toolchains, detect};
use runners::workspace::{Entry, Mode, Tree, TreePath};
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::common;

/// Paths and what lies there.
pub type Files = BTreeMap<&'static str, File>;

#[derive(Clone)]
pub enum File {
    Text(Vec<u8>),
    Program(Vec<u8>),
    Link(&'static str),
}

/// How a run must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    Succeeded,
    /// Green, but not believed.
    Refused(&'static str),
    /// Still red.
    NotRepaired(&'static str),
    /// Nothing can be concluded.
    Inconclusive(&'static str),
}

/// A project, what the scripted repair makes of it, and how that must end.
pub struct Story {
    name: &'static str,
    before: Files,
    after: Files,
    checks: Vec<Check>,
    ends: Ends,
}

impl Story {
    pub fn new(name: &'static str, project: &Files, checks: &[Check], ends: Ends) -> Self {
        Self { name, before: project.clone(), after: project.clone(), checks: checks.to_vec(), ends }
    }

    /// A file that the project has besides, or has in another form.
    pub fn given(mut self, path: &'static str, text: &str) -> Self {
        self.before.insert(path, File::Text(text.into()));
        self.after.insert(path, File::Text(text.into()));
        self
    }

    /// The repair writes a file.
    pub fn writes(mut self, path: &'static str, text: impl AsRef<[u8]>) -> Self {
        self.after.insert(path, File::Text(text.as_ref().to_vec()));
        self
    }

    pub fn writes_program(mut self, path: &'static str, text: &str) -> Self {
        self.after.insert(path, File::Program(text.into()));
        self
    }

    pub fn links(mut self, path: &'static str, to: &'static str) -> Self {
        self.after.insert(path, File::Link(to));
        self
    }

    pub fn deletes(mut self, path: &'static str) -> Self {
        assert!(self.after.remove(path).is_some(), "{}: there is no {path}", self.name);
        self
    }

    /// The repair puts one text in place of another.
    pub fn replaces(mut self, path: &'static str, from: &str, to: &str) -> Self {
        let Some(File::Text(text)) = self.after.get_mut(path) else { panic!("{}: {path}", self.name) };
        let old = String::from_utf8(text.clone()).unwrap();
        assert!(old.contains(from), "{}: {path} has no {from:?}", self.name);
        *text = old.replace(from, to).into_bytes();
        self
    }

    fn patch(&self) -> Vec<u8> {
        edit::diff::diff(&tree(&self.before), &tree(&self.after)).unwrap().patch
    }
}

fn tree(files: &Files) -> Tree {
    let entries = files.iter().map(|(path, file)| {
        let entry = match file {
            File::Text(text) => Entry::new(Mode::Regular, text.clone()),
            File::Program(text) => Entry::new(Mode::Executable, text.clone()),
            File::Link(to) => Entry::new(Mode::Symlink, to.as_bytes()),
        };
        (TreePath::parse(path).unwrap(), entry)
    });
    Tree::new(entries.collect(), None).unwrap()
}

fn write(files: &Files, root: &Path) {
    for (path, file) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match file {
            File::Text(text) => std::fs::write(&path, text).unwrap(),
            File::Program(text) => {
                std::fs::write(&path, text).unwrap();
                std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            }
            File::Link(to) => std::os::unix::fs::symlink(to, &path).unwrap(),
        }
    }
}

/// Text of lines.
pub fn file(text: &str) -> File {
    File::Text(text.into())
}

/// A sandbox with the tools that the stories need.
#[derive(Clone)]
pub struct Bed {
    sandbox: Arc<Embedded>,
    toolchains: Toolchains,
}

impl Bed {
    /// `None`, with a word, where this machine lacks a program; CI has them all.
    pub fn with(programs: &[&str]) -> Option<Self> {
        let sandbox = Arc::new(common::sandbox()?);
        let toolchains = detect(&Host::from_env());
        if let Some(absent) = programs.iter().find(|program| !toolchains.has(program)) {
            assert!(std::env::var_os("WHIPSTITCH_CI").is_none(), "CI must have {absent}");
            eprintln!("skipped: this machine has no {absent}");
            return None;
        }
        Some(Self { sandbox, toolchains })
    }

    /// Runs every story, a few at a time, and names all that ended otherwise than they must.
    pub async fn tell(self, stories: Vec<Story>) {
        let at_once = std::thread::available_parallelism().map_or(2, usize::from);
        let places = Arc::new(Semaphore::new(at_once));
        let mut running = JoinSet::new();
        for story in stories {
            let (bed, places) = (self.clone(), Arc::clone(&places));
            running.spawn(async move {
                let _place = places.acquire_owned().await.unwrap();
                bed.run(&story).await
            });
        }
        let mut wrong = Vec::new();
        while let Some(told) = running.join_next().await {
            wrong.extend(told.unwrap().err());
        }
        assert!(wrong.is_empty(), "{} stories ended otherwise:\n{}", wrong.len(), wrong.join("\n"));
    }

    async fn run(&self, story: &Story) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("project");
        write(&story.before, &path);
        let request = LocalRequest {
            path,
            goal: Goal::Repair,
            checks: story.checks.clone(),
            agent: LocalAgent::Replay(story.patch()),
            limits: Limits::default(),
            guard: Guard::default(),
            sandbox: self.sandbox.clone(),
            toolchains: self.toolchains.clone(),
            egress: EgressSettings::default(),
            models: runners::agents::Models::new(),
            signer: Arc::new(Signer::from_seed(&[7; 32])),
            clock: Arc::new(SystemClock),
            data_dir: folder.path().join("data"),
            progress: broadcast::channel(64).0,
        };
        let report = local::repair(request, CancellationToken::new()).await.unwrap();
        let RunState::Finished { outcome } = &report.state else {
            return Err(format!("- {}: {:?}", story.name, report.state));
        };
        let as_it_must = match (outcome, story.ends) {
            // A baseline that is green by mistake would let any cheat fail and any repair succeed.
            (Outcome::Succeeded, Ends::Succeeded) => report.changeset.is_some(),
            (Outcome::Failed { failure: Failure::Refused(why) }, Ends::Refused(word))
            | (Outcome::Failed { failure: Failure::NotRepaired(why) }, Ends::NotRepaired(word))
            | (Outcome::Failed { failure: Failure::Inconclusive(why) }, Ends::Inconclusive(word)) => {
                why.contains(word)
            }
            _ => false,
        };
        if as_it_must { Ok(()) } else { Err(told(story, outcome, &report)) }
    }
}

fn told(story: &Story, outcome: &Outcome, report: &LocalReport) -> String {
    format!(
        "- {}: must end {:?} and ended {outcome:?}\n    verdict: {:?}\n    before: {}\n    after: {}",
        story.name,
        story.ends,
        report.verdict,
        outcomes(report.baseline.as_ref()),
        outcomes(report.checked.as_ref()),
    )
}

fn outcomes(checked: Option<&jobs::verdict::Checked>) -> String {
    let Some(checked) = checked else { return "not run".to_owned() };
    let told = checked.checks.iter().map(|check| {
        let report = &check.report;
        format!("{} {:?} {:?} {:?}", check.name, report.outcome, report.counts, report.notes)
    });
    told.collect::<Vec<_>>().join("; ")
}
