//! `fix`: the governed loop on a checkout of this machine.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use jobs::check::{Check, Tool};
use jobs::clock::SystemClock;
use jobs::job::{Goal, Guard, Limits};
use jobs::run::{Outcome, RunState};
use jobs::verdict::{CheckOutcome, Verdict};
use runners::local::{self, LocalAgent, LocalReport, LocalRequest};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::serve::cancel_at_signal;
use super::{Usage, outcome_words, print};
use crate::cli::{Fix, FixAgent};
use crate::show::{Watcher, colored_diff, outcome_word, verdict_words};
use crate::{engine, keys};

pub async fn run(arguments: Fix) -> anyhow::Result<ExitCode> {
    let folder = match &arguments.dir {
        Some(folder) => std::path::absolute(folder)?,
        None => tempfile::Builder::new().prefix("whipstitch-fix-").tempdir()?.keep(),
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let signer = Arc::new(keys::read_or_make(&folder.join("signing.key"))?);
    let (progress, watching) = broadcast::channel(1024);
    let request = LocalRequest {
        path: arguments.path.clone(),
        goal: Goal::Repair,
        checks: arguments.checks.iter().map(|text| check(text)).collect::<anyhow::Result<_>>()?,
        agent: agent(&arguments)?,
        limits: Limits::default(),
        guard: Guard::default(),
        sandbox: engine::sandbox()?,
        toolchains: engine::detected(),
        egress: engine::settings(&arguments.admit_hosts, &arguments.trust_networks)?,
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
        false => print(&page(&report, &key)),
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

fn agent(arguments: &Fix) -> anyhow::Result<LocalAgent> {
    match (arguments.agent, &arguments.patch) {
        (FixAgent::Fixers, None) => Ok(LocalAgent::Fixers),
        (FixAgent::Fixers, Some(_)) => Err(Usage("--patch belongs to --agent replay".to_owned()).into()),
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

fn page(report: &LocalReport, key: &str) -> String {
    let outcome = match &report.state {
        RunState::Finished { outcome } => outcome_words(outcome),
        RunState::Queued | RunState::Running { .. } | RunState::Suspended { .. } => "Uncertain",
    };
    let green = report.baseline.as_ref().is_some_and(jobs::verdict::Checked::all_passed);
    let verdict =
        report.verdict.as_ref().map_or(if green { "nothing to repair" } else { "no verdict" }, verdict_words);
    let mut text = format!("\n{outcome}: {verdict}\n");
    for check in report.baseline.iter().flat_map(|checked| &checked.checks) {
        let after =
            report.checked.iter().flat_map(|checked| &checked.checks).find(|after| after.name == check.name);
        let after =
            after.map_or(String::new(), |after| format!(" -> {}", outcome_word(&after.report.outcome)));
        text.push_str(&format!("  {}: {}{after}\n", check.name, outcome_word(&check.report.outcome)));
    }
    text.push_str(&reasons(report));
    if let Some(changeset) = &report.changeset {
        let patch = String::from_utf8_lossy(&changeset.patch);
        text.push_str(&format!("\n{}\n", colored_diff(&format!("```diff\n{}\n```", patch.trim_end()))));
    }
    if let Some(bundle) = &report.bundle {
        text.push_str(&format!("\nverify   whipstitch verify {} --key {key}\n", bundle.display()));
    }
    for path in report.left_out.iter().take(5) {
        text.push_str(&format!("left out {path}\n"));
    }
    text
}

/// Why it is no success: the run's own words, then the failures as the tools told them.
fn reasons(report: &LocalReport) -> String {
    let mut lines: Vec<String> = Vec::new();
    match &report.state {
        RunState::Finished { outcome: Outcome::Failed { failure } } => lines.push(why(failure)),
        RunState::Finished { outcome: Outcome::Halted { reason, requeue_recommended } } => {
            lines.push(format!(
                "{reason:?}{}",
                if *requeue_recommended { "; a fresh budget may help" } else { "" }
            ));
        }
        RunState::Finished { outcome: Outcome::Succeeded } => return String::new(),
        RunState::Queued | RunState::Running { .. } | RunState::Suspended { .. } => {
            lines.push("a launch of the agent has no known result".to_owned());
        }
    }
    let last = report.checked.as_ref().or(report.baseline.as_ref());
    for check in last.iter().flat_map(|checked| &checked.checks) {
        match &check.report.outcome {
            CheckOutcome::Passed | CheckOutcome::Failed => {}
            CheckOutcome::Inconclusive(why) | CheckOutcome::Unsupported(why) => {
                lines.push(format!("{}: {why}", check.name))
            }
        }
        let failures = check.report.failures.iter();
        lines.extend(failures.map(|failure| {
            format!("{}: {}", failure.name, failure.message.lines().next().unwrap_or_default())
        }));
        let found = check.report.diagnostics.iter();
        lines.extend(found.map(|found| {
            let line = found.line.map_or(String::new(), |line| format!(":{line}"));
            format!("{}{line}: {}", found.file, found.message.lines().next().unwrap_or_default())
        }));
    }
    lines.dedup();
    let more = lines.len().saturating_sub(20);
    lines.truncate(20);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.iter().map(|line| format!("  ! {line}\n")).collect()
}

fn why(failure: &jobs::run::Failure) -> String {
    use jobs::run::Failure;
    match failure {
        Failure::Provision(why)
        | Failure::Bootstrap(why)
        | Failure::NotRepaired(why)
        | Failure::Refused(why)
        | Failure::Inconclusive(why)
        | Failure::Agent(why)
        | Failure::Internal(why) => why.clone(),
    }
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
    fn a_check_that_cannot_be_read_is_refused_with_a_hint() {
        for text in ["tests", "=pytest", "tests=", "tests=make test"] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains("write it as"), "{error}");
        }
    }
}
