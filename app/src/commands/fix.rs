//! `fix`: the governed loop on a checkout of this machine.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use jobs::check::{Check, Tool};
use jobs::clock::SystemClock;
use jobs::job::{Goal, Guard, Limits};
use jobs::run::{Failure, Outcome, RunState};
use jobs::step::{Output, StepState};
use jobs::verdict::{CheckOutcome, Severity, Verdict};
use runners::agents::Models;
use runners::local::{self, LocalAgent, LocalReport, LocalRequest};
use runners::toolchains::MissingTool;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::serve::cancel_at_signal;
use super::{Usage, outcome_words, print};
use crate::cli::{Fix, FixAgent};
use crate::config::Config;
use crate::show::{Watcher, colored_diff, inert, outcome_word, verdict_words};
use crate::{engine, keys, models};

/// So many reasons are printed of one that is no success, and so many lines of each.
const MOST_REASONS: usize = 20;
const MOST_LINES: usize = 6;

pub async fn run(arguments: Fix) -> anyhow::Result<ExitCode> {
    let folder = match &arguments.dir {
        Some(folder) => std::path::absolute(folder)?,
        None => tempfile::Builder::new().prefix("whipstitch-fix-").tempdir()?.keep(),
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let signer = Arc::new(keys::read_or_make(&folder.join("signing.key"))?);
    let (progress, watching) = broadcast::channel(1024);
    let toolchains = engine::detected();
    let missing = toolchains.missing.clone();
    let request = LocalRequest {
        path: arguments.path.clone(),
        goal: Goal::Repair,
        checks: arguments.checks.iter().map(|text| check(text)).collect::<anyhow::Result<_>>()?,
        agent: agent(&arguments)?,
        limits: Limits::default(),
        guard: Guard::default(),
        sandbox: engine::sandbox()?,
        toolchains,
        egress: engine::settings(&arguments.admit_hosts, &arguments.trust_networks)?,
        models: models(&arguments)?,
        signer: Arc::clone(&signer),
        clock: Arc::new(SystemClock),
        data_dir: folder.clone(),
        progress,
    };
    let cancel = CancellationToken::new();
    let stopping = tokio::spawn(cancel_at_signal(cancel.clone()));
    let watcher = tokio::spawn(watch(watching));
    let report = local::repair(request, cancel.clone()).await;
    cancel.cancel();
    stopping.await?;
    watcher.await?;
    let report = report?;
    let applied = match arguments.apply && report.verdict == Some(Verdict::Repaired) {
        true => Some(local::apply(&arguments.path, &report)),
        false => None,
    };
    let key = hex::encode(signer.public_key());
    match arguments.json {
        true => print(&format!(
            "{}\n",
            serde_json::to_string_pretty(&json(&report, &key, matches!(applied, Some(Ok(())))))?
        )),
        false => print(&page(&report, &key, &missing)),
    }
    if let Some(applied) = applied {
        applied.context("the checkout was not touched")?;
        if !arguments.json {
            print(&format!("Applied to `{}`.\n", arguments.path.display()));
        }
    } else if report.verdict == Some(Verdict::Repaired) && !arguments.json {
        print(&format!(
            "`{}` was not touched; --apply writes the change into it.\n",
            arguments.path.display()
        ));
    }
    Ok(exit_code(&report.state))
}

async fn watch(mut watching: broadcast::Receiver<runners::progress::Progress>) {
    let watcher = Watcher::default();
    loop {
        match watching.recv().await {
            Ok(progress) => {
                watcher.see(&progress);
            }
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return watcher.finish(),
        }
    }
}

fn exit_code(state: &RunState) -> ExitCode {
    match state {
        RunState::Finished { outcome: Outcome::Succeeded } => ExitCode::SUCCESS,
        RunState::Finished { outcome: Outcome::Failed { .. } } => ExitCode::from(1),
        RunState::Finished { outcome: Outcome::Halted { .. } } => ExitCode::from(3),
        RunState::Queued | RunState::Running { .. } | RunState::Suspended { .. } => ExitCode::from(4),
    }
}

/// The model that was named, by that name.
fn models(arguments: &Fix) -> anyhow::Result<Models> {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(name) = &arguments.model else { return Ok(Models::new()) };
    let profile = if name.contains('/') {
        models::of_variables(name, variable).map_err(|error| Usage(format!("--model {name}: {error:#}")))?
    } else {
        let table = Config::models_of(arguments.config.as_deref())?;
        let table = table.get(name).ok_or_else(|| {
            let known: Vec<&str> = table.keys().map(String::as_str).collect();
            Usage(format!("no [models.{name}] is configured; there are: {}", known.join(", ")))
        })?;
        models::profile(name, table, variable).map_err(|fault| Usage(fault.to_string()))?
    };
    Ok([(name.clone(), profile)].into())
}

fn agent(arguments: &Fix) -> anyhow::Result<LocalAgent> {
    if arguments.model.is_some() && arguments.agent != FixAgent::Model {
        return Err(Usage("--model belongs to --agent model".to_owned()).into());
    }
    match (arguments.agent, &arguments.patch) {
        (FixAgent::Fixers, None) => Ok(LocalAgent::Fixers),
        (FixAgent::Model, None) => {
            let name = arguments.model.clone();
            let name = name.ok_or_else(|| Usage("--agent model needs --model NAME".to_owned()))?;
            Ok(LocalAgent::Model(name))
        }
        (FixAgent::Fixers | FixAgent::Model, Some(_)) => {
            Err(Usage("--patch belongs to --agent replay".to_owned()).into())
        }
        (FixAgent::Replay, Some(file)) => {
            let bytes =
                std::fs::read(file).with_context(|| format!("cannot read the patch {}", file.display()))?;
            Ok(LocalAgent::Replay(bytes))
        }
        (FixAgent::Replay, None) => Err(Usage("--agent replay needs --patch FILE".to_owned()).into()),
    }
}

/// `NAME=ARGV…`, words apart by blanks; the tool is told by the command.
fn check(text: &str) -> anyhow::Result<Check> {
    let bad = |why: &str| Usage(format!("--check {text:?}: {why}; write it as 'tests=python3 -m pytest -q'"));
    let (name, command) = text.split_once('=').ok_or_else(|| bad("there is no `=`"))?;
    let argv: Vec<&str> = command.split_whitespace().collect();
    if name.trim().is_empty() || argv.is_empty() {
        return Err(bad("a name and a command are needed").into());
    }
    let tool = tool_of(&argv).ok_or_else(|| bad("no reader is known for this command"))?;
    Ok(Check::new(name.trim(), tool, &argv))
}

/// Whose output a command prints, by the words that name its program.
fn tool_of(argv: &[&str]) -> Option<Tool> {
    let words: Vec<&str> = argv.iter().map(|word| word.rsplit('/').next().unwrap_or(word)).collect();
    let has = |wanted: &str| words.contains(&wanted);
    let first = *words.first()?;
    Some(match first {
        "cargo" if has("nextest") => Tool::CargoNextest,
        "cargo" if has("clippy") => Tool::Clippy,
        "cargo" if has("test") || has("t") => Tool::CargoTest,
        "cargo" if has("check") || has("build") || has("c") || has("b") => Tool::CargoCheck,
        "go" if has("vet") => Tool::GoVet,
        "go" if has("test") => Tool::GoTest,
        "dotnet" => Tool::DotnetTest,
        "ctest" => Tool::Ctest,
        "mvn" | "mvnw" => Tool::Surefire,
        "gradle" | "gradlew" => Tool::Gradle,
        _ if has("pytest") => Tool::Pytest,
        _ if has("ruff") => Tool::Ruff,
        _ if has("pyright") => Tool::Pyright,
        _ if has("tsc") => Tool::Tsc,
        _ if has("eslint") => Tool::Eslint,
        _ if has("jest") => Tool::Jest,
        _ => return None,
    })
}

fn page(report: &LocalReport, key: &str, missing: &[MissingTool]) -> String {
    let outcome = match &report.state {
        RunState::Finished { outcome } => outcome_words(outcome),
        RunState::Queued | RunState::Running { .. } | RunState::Suspended { .. } => "Uncertain",
    };
    let mut text = format!("\n{outcome}: {}\n", words(report));
    for check in report.baseline.iter().flat_map(|checked| &checked.checks) {
        let after =
            report.checked.iter().flat_map(|checked| &checked.checks).find(|after| after.name == check.name);
        let after =
            after.map_or(String::new(), |after| format!(" -> {}", outcome_word(&after.report.outcome)));
        text.push_str(&format!("  {}: {}{after}\n", check.name, outcome_word(&check.report.outcome)));
    }
    text.push_str(&reasons(report, missing));
    if let Some(changeset) = &report.changeset {
        if report.verdict != Some(Verdict::Repaired) {
            text.push_str("\nWhat was tried, and is not accepted:\n");
        }
        let patch = inert(&String::from_utf8_lossy(&changeset.patch));
        let shown = colored_diff(&format!("```diff\n{}\n```", patch.trim_end()));
        let lines: Vec<&str> = shown.lines().filter(|line| !line.starts_with("```")).collect();
        text.push_str(&format!("\n{}\n", lines.join("\n")));
    }
    if let Some(bundle) = &report.bundle {
        text.push_str(&format!("\nverify   whipstitch verify {} --key {key}\n", bundle.display()));
    }
    for path in report.left_out.iter().take(5) {
        text.push_str(&format!("left out {path}\n"));
    }
    text
}

/// The verdict, or what the run ended as before there was one.
fn words(report: &LocalReport) -> &'static str {
    if let Some(verdict) = &report.verdict {
        return verdict_words(verdict);
    }
    match &report.state {
        RunState::Finished { outcome: Outcome::Succeeded } => "nothing to repair",
        RunState::Finished { outcome: Outcome::Failed { failure } } => match failure {
            Failure::Provision(_) => "the checkout could not be laid out",
            Failure::Bootstrap(_) => "dependencies could not be installed",
            Failure::NotRepaired(_) => "not repaired",
            Failure::Refused(_) => "not believed",
            Failure::Inconclusive(_) => "inconclusive",
            Failure::Agent(_) => "the agent gave no proposal",
            Failure::Internal(_) => "an error of whipstitch or of this machine",
        },
        RunState::Finished { outcome: Outcome::Halted { .. } }
        | RunState::Queued
        | RunState::Running { .. }
        | RunState::Suspended { .. } => "no verdict",
    }
}

/// Why it is no success: the verdict's reasons, else the failures as the tools told them.
fn reasons(report: &LocalReport, missing: &[MissingTool]) -> String {
    let mut lines: Vec<String> = Vec::new();
    match &report.state {
        RunState::Finished { outcome: Outcome::Succeeded } => return String::new(),
        RunState::Finished { outcome: Outcome::Failed { failure } } => lines.extend(why(report, failure)),
        RunState::Finished { outcome: Outcome::Halted { reason, requeue_recommended } } => {
            let again = if *requeue_recommended { "; a fresh budget may help" } else { "" };
            lines.push(format!("{reason:?}{again}"));
            lines.extend(still_red(report));
        }
        RunState::Queued | RunState::Running { .. } | RunState::Suspended { .. } => {
            lines.push("a launch of the agent has no known result".to_owned());
            lines.extend(still_red(report));
        }
    }
    let mut told: Vec<String> = Vec::new();
    for line in lines {
        if !told.contains(&line) {
            told.push(line);
        }
    }
    let more = told.len().saturating_sub(MOST_REASONS);
    told.truncate(MOST_REASONS);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    told.extend(advice(report, missing));
    told.iter().map(|reason| format!("  ! {}\n", indented(reason))).collect()
}

fn why(report: &LocalReport, failure: &Failure) -> Vec<String> {
    match (failure, &report.verdict) {
        (
            Failure::NotRepaired(_) | Failure::Refused(_) | Failure::Inconclusive(_),
            Some(Verdict::NotRepaired(reasons) | Verdict::Refused(reasons) | Verdict::Inconclusive(reasons)),
        ) => reasons.clone(),
        (Failure::NotRepaired(_) | Failure::Inconclusive(_), _) => {
            let mut lines = still_red(report);
            lines.extend(agent_note(report));
            lines
        }
        (
            Failure::Provision(why)
            | Failure::Bootstrap(why)
            | Failure::Refused(why)
            | Failure::Agent(why)
            | Failure::Internal(why),
            _,
        ) => {
            let mut lines = vec![why.clone()];
            lines.extend(still_red(report));
            lines
        }
    }
}

/// The failures of the last checks.
fn still_red(report: &LocalReport) -> Vec<String> {
    let mut lines = Vec::new();
    let last = report.checked.as_ref().or(report.baseline.as_ref());
    for check in last.iter().flat_map(|checked| &checked.checks) {
        match &check.report.outcome {
            CheckOutcome::Passed => continue,
            CheckOutcome::Failed => {}
            CheckOutcome::Inconclusive(why) | CheckOutcome::Unsupported(why) => {
                lines.push(format!("{}: {why}", check.name))
            }
        }
        let failures = check.report.failures.iter();
        lines.extend(failures.map(|failure| format!("{}: {}", failure.name, failure.message)));
        let errors = check.report.diagnostics.iter().filter(|found| found.severity == Severity::Error);
        lines.extend(errors.map(|found| {
            let line = found.line.map_or(String::new(), |line| format!(":{line}"));
            format!("{}{line}: {}", found.file, found.message)
        }));
    }
    lines
}

/// What the agent said of having nothing to propose.
fn agent_note(report: &LocalReport) -> Option<String> {
    report.view.steps.iter().rev().find_map(|step| match &step.state {
        StepState::Done { output } => match output.as_ref() {
            Output::Proposed { patch: None, note, .. } if !note.is_empty() => Some(format!("agent: {note}")),
            _ => None,
        },
        StepState::Begun | StepState::Failed { .. } => None,
    })
}

/// What to do about a tool that a check asks for and this machine does not have for containers.
fn advice(report: &LocalReport, missing: &[MissingTool]) -> Vec<String> {
    let unread = report.baseline.iter().flat_map(|checked| &checked.checks).filter(|check| {
        matches!(check.report.outcome, CheckOutcome::Inconclusive(_) | CheckOutcome::Unsupported(_))
    });
    let names = |argv: &[String], tool: &str| argv.iter().any(|word| word.rsplit('/').next() == Some(tool));
    let asked = unread.filter_map(|check| report.view.job().checks.iter().find(|job| job.name == check.name));
    let tools = asked.flat_map(|check| missing.iter().filter(|tool| names(&check.argv, &tool.name)));
    tools.map(|tool| format!("{} is missing: {}", tool.name, tool.advice)).collect()
}

/// The first lines of a text, each further one below the first.
fn indented(text: &str) -> String {
    let text = inert(text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let more = if lines.len() > MOST_LINES { "\n      ..." } else { "" };
    let shown: Vec<&str> = lines.into_iter().take(MOST_LINES).collect();
    format!("{}{more}", shown.join("\n      "))
}

fn json(report: &LocalReport, key: &str, applied: bool) -> serde_json::Value {
    let bundle: Option<&PathBuf> = report.bundle.as_ref();
    serde_json::json!({
        "run": report.run.as_str(),
        "state": report.state,
        "verdict": report.verdict,
        "baseline": report.baseline,
        "checked": report.checked,
        "tree": report.tree.as_str(),
        "tree_after": report.changeset.as_ref().map(|changeset| changeset.tree_after.as_str()),
        "patch": report.changeset.as_ref().map(|changeset| String::from_utf8_lossy(&changeset.patch).into_owned()),
        "bundle": bundle,
        "key": key,
        "applied": applied,
        "left_out": report.left_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_a_name_and_an_argument_array() {
        let found = check("unit tests=python3 -m pytest -q tests/unit").unwrap();
        assert_eq!((found.name.as_str(), found.tool, found.argv.len()), ("unit tests", Tool::Pytest, 5));
        assert_eq!(check("lint=cargo clippy -- -D warnings").unwrap().tool, Tool::Clippy);
        assert_eq!(check("types=node_modules/.bin/tsc --noEmit").unwrap().tool, Tool::Tsc);
    }

    #[test]
    fn a_reason_of_many_lines_stays_below_its_mark_and_short() {
        assert_eq!(indented("one"), "one");
        assert_eq!(indented("one\n\n two"), "one\n       two");
        assert_eq!(indented("1\n2\n3\n4\n5\n6\n7").lines().count(), MOST_LINES + 1);
    }

    #[test]
    fn a_check_that_cannot_be_read_is_refused_with_a_hint() {
        for text in ["tests", "=pytest", "tests=", "tests=make test"] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains("write it as"), "{error}");
        }
    }
}
