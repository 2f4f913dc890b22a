//! The agent without a model: what compilers and linters say can be mended by machine.
//!
//! Only a failing diagnostics check is listened to, and only files that its findings name are changed. Its
//! command runs again, sealed and offline; cargo's machine-applicable suggestions are applied by this code,
//! byte for byte, and Ruff applies its own safe fixes. Mending one fault lets a tool see the next, so this
//! goes on until nothing changes.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use jobs::check::{Check, Tool};
use jobs::verdict::{CheckOutcome, CheckResult, Severity};

use super::workbench::WorkbenchError;
use super::{Agent, AgentError, Bench, Identity, Proposal, Task, ruff, rustc, suggestions};
use crate::reports;
use crate::sandbox::{Cause, Command, Exit, SandboxError};
use crate::workspace::{Tree, TreePath};

/// How often one check is listened to in one proposal.
const MAX_ROUNDS: usize = 16;
/// How many fixes a note names.
const NAMED_FIXES: usize = 12;

/// The fix modes of cargo, Clippy and Ruff.
#[derive(Clone, Copy, Debug)]
pub struct Fixers;

#[async_trait]
impl Agent for Fixers {
    fn identity(&self) -> Identity {
        Identity { name: "fixers".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned(), model: None }
    }

    async fn propose(&self, task: &Task<'_>) -> Result<Proposal, AgentError> {
        let asked: Vec<(&Check, &CheckResult)> =
            task.checks.iter().filter_map(|check| Some((check, failing(task, check)?))).collect();
        if asked.is_empty() {
            let note = "no failing check is one that fixers listen to (cargo check, Clippy, Ruff)".to_owned();
            return Ok(Proposal { after: None, note, tokens: 0 });
        }
        let mut bench = task.workbench.open(task.tree).await.map_err(|error| not_started(&error))?;
        let mut work = Work { task, tree: task.tree.clone(), fixes: Vec::new(), trouble: Vec::new() };
        let mended = work.all(&asked, &mut bench).await;
        let closed = bench.close().await;
        mended?;
        if let Err(error) = closed {
            return Err(AgentError::Uncertain(error.to_string()));
        }
        Ok(work.proposal())
    }
}

/// The last result of a check, where it failed and is one of ours.
fn failing<'a>(task: &Task<'a>, check: &Check) -> Option<&'a CheckResult> {
    let ours = match check.tool {
        Tool::CargoCheck | Tool::Clippy | Tool::Ruff => true,
        Tool::Pytest
        | Tool::CargoTest
        | Tool::CargoNextest
        | Tool::Jest
        | Tool::GoTest
        | Tool::Surefire
        | Tool::Gradle
        | Tool::DotnetTest
        | Tool::Ctest
        | Tool::Pyright
        | Tool::Tsc
        | Tool::GoVet
        | Tool::Eslint
        | Tool::Junit
        | Tool::Tap
        | Tool::Sarif => false,
    };
    let result = task.failing.checks.iter().find(|result| result.name == check.name)?;
    (ours && result.report.outcome == CheckOutcome::Failed).then_some(result)
}

struct Work<'t, 'a> {
    task: &'t Task<'a>,
    tree: Tree,
    /// What was mended, in the tools' words.
    fixes: Vec<String>,
    trouble: Vec<String>,
}

impl Work<'_, '_> {
    async fn all(
        &mut self,
        asked: &[(&Check, &CheckResult)],
        bench: &mut Bench<'_>,
    ) -> Result<(), AgentError> {
        for (check, result) in asked {
            match check.tool {
                Tool::Ruff => self.ruff(check, result, bench).await?,
                _ => self.cargo(check, bench).await?,
            }
        }
        Ok(())
    }

    /// Applies suggestions and asks again, until the compiler has none left that fits.
    async fn cargo(&mut self, check: &Check, bench: &mut Bench<'_>) -> Result<(), AgentError> {
        let prepared = reports::command::command(check);
        for _ in 0..MAX_ROUNDS {
            let mut command = self.command(check, prepared.argv.clone());
            command.environment.extend(prepared.env.clone());
            let Some(exit) = self.exec(bench, command).await? else { return Ok(()) };
            let found = rustc::suggestions(&exit.stdout, &check.directory, &self.tree);
            let outcome = suggestions::apply(&self.tree, &found).map_err(|error| refused(&error))?;
            if outcome.tree.id() == self.tree.id() {
                return Ok(());
            }
            bench.write(&outcome.tree).map_err(|error| refused(&error))?;
            self.tree = outcome.tree;
            self.fixes.extend(outcome.applied);
        }
        self.trouble.push(format!("{} had suggestions left after {MAX_ROUNDS} rounds", check.name));
        Ok(())
    }

    /// Ruff iterates by itself; what it changed is read back, and only files with findings count.
    async fn ruff(
        &mut self,
        check: &Check,
        result: &CheckResult,
        bench: &mut Bench<'_>,
    ) -> Result<(), AgentError> {
        let Some(argv) = ruff::fixing(&check.argv) else {
            self.trouble
                .push(format!("{} is no plain `ruff check`, so it is not fixed by machine", check.name));
            return Ok(());
        };
        let command = self.command(check, argv);
        if self.exec(bench, command).await?.is_none() {
            return Ok(());
        }
        let files: BTreeSet<TreePath> = result
            .report
            .diagnostics
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .filter_map(|finding| TreePath::parse(&finding.file).ok())
            .collect();
        let now = bench.read_back().map_err(|error| refused(&error))?;
        let after = ruff::only(&self.tree, &now, &files).map_err(|error| refused(&error))?;
        let changed = after
            .entries()
            .iter()
            .filter(|(path, entry)| !self.tree.entry(path).is_some_and(|before| before.same_as(entry)));
        let changed: Vec<String> = changed.map(|(path, _)| format!("ruff's safe fixes in {path}")).collect();
        self.fixes.extend(changed);
        bench.write(&after).map_err(|error| refused(&error))?;
        self.tree = after;
        Ok(())
    }

    fn command(&self, check: &Check, argv: Vec<String>) -> Command {
        Command {
            argv,
            directory: check.directory.clone(),
            timeout: Duration::from_millis(check.timeout_ms),
            silence: Duration::from_millis(check.timeout_ms),
            max_output_bytes: check.max_output_bytes,
            cancel: self.task.cancel.clone(),
            ..Command::new(&[])
        }
    }

    /// Runs one command; `None`, with a word of trouble, where it said nothing that can be used.
    async fn exec(&mut self, bench: &mut Bench<'_>, command: Command) -> Result<Option<Exit>, AgentError> {
        let name = command.argv.first().cloned().unwrap_or_default();
        let exit = match bench.exec(command).await {
            Ok(exit) => exit,
            Err(error @ SandboxError::NotStarted { .. }) => {
                self.trouble.push(error.to_string());
                return Ok(None);
            }
            Err(error @ SandboxError::Lost { .. }) => return Err(AgentError::Uncertain(error.to_string())),
            Err(error) => return Err(AgentError::NotStarted(error.to_string())),
        };
        let trouble = match exit.cause {
            Cause::Exited(_) => return Ok(Some(exit)),
            Cause::Cancelled => return Err(AgentError::refused("the run was cancelled")),
            Cause::Signalled(signal) => format!("`{name}` was ended by signal {signal}"),
            Cause::TimedOut | Cause::Silent => format!("`{name}` took too long"),
            Cause::OutputLimit => format!("`{name}` printed more than it may"),
            Cause::OutOfMemory => format!("`{name}` used more memory than it may"),
            Cause::Processes => format!("`{name}` started more processes than it may"),
            Cause::Disk => format!("`{name}` wrote more than it may"),
        };
        self.trouble.push(trouble);
        Ok(None)
    }

    fn proposal(self) -> Proposal {
        let mut said: Vec<String> = Vec::new();
        for fix in self.fixes {
            if !said.contains(&fix) {
                said.push(fix);
            }
        }
        let more = said.len().saturating_sub(NAMED_FIXES);
        said.truncate(NAMED_FIXES);
        if more > 0 {
            said.push(format!("{more} more"));
        }
        let changed = self.tree.id() != self.task.tree.id();
        let mut note = match (changed, said.is_empty()) {
            (false, _) => "the tools have no fix that needs no judgement".to_owned(),
            (true, true) => "mended by machine".to_owned(),
            (true, false) => format!("mended by machine: {}", said.join("; ")),
        };
        for trouble in self.trouble {
            note.push_str("; ");
            note.push_str(&trouble);
        }
        Proposal { after: changed.then_some(self.tree), note, tokens: 0 }
    }
}

/// Nothing of the task was done yet.
fn not_started(error: &WorkbenchError) -> AgentError {
    AgentError::NotStarted(chain(error))
}

/// The tools ran to their end, and no proposal can be made of what they left.
fn refused(error: &dyn std::error::Error) -> AgentError {
    AgentError::refused(chain(error))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        text.push_str(": ");
        text.push_str(&next.to_string());
        source = next.source();
    }
    text
}
