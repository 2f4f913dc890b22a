//! `status`: the runs, or one of them.

use std::process::ExitCode;

use jobs::run::{Outcome, RunState};
use jobs::step::StepState;
use jobs::store::{RunSummary, RunView, runs};

use super::{Usage, config_at, print, run_id};
use crate::cli::Status;
use crate::service;

pub async fn run(arguments: &Status) -> anyhow::Result<ExitCode> {
    let config = config_at(&arguments.place)?;
    let db = service::open_existing_database(&config).await?;
    match &arguments.run {
        None => {
            let found = runs::list(&db, 50).await?;
            match arguments.json {
                true => print(&format!(
                    "{}\n",
                    serde_json::to_string_pretty(&found.iter().map(summary_json).collect::<Vec<_>>())?
                )),
                false if found.is_empty() => print("no runs yet\n"),
                false => found.iter().for_each(|run| print(&line(run))),
            }
        }
        Some(text) => {
            let id = run_id(text)?;
            let view = runs::view(&db, &id).await?;
            let view = view
                .ok_or_else(|| Usage(format!("there is no run {id}; `whipstitch status` lists the runs")))?;
            match arguments.json {
                true => print(&format!("{}\n", serde_json::to_string_pretty(&summary_json(&view.run))?)),
                false => print(&page(&view)),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A run's state in words.
pub fn state(state: &RunState) -> String {
    match state {
        RunState::Queued => "queued".to_owned(),
        RunState::Running { phase } => format!("running: {}", phase.name()),
        RunState::Suspended { .. } => "suspended".to_owned(),
        RunState::Finished { outcome } => outcome_words(outcome).to_owned(),
    }
}

/// A run's end in one word.
pub const fn outcome_words(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "Succeeded",
        Outcome::Failed { .. } => "Failed",
        Outcome::Halted { .. } => "Halted",
    }
}

fn line(run: &RunSummary) -> String {
    let number = run.job.subject.number().map_or(String::new(), |number| format!("#{number}"));
    format!(
        "{}  {:<20}  {}{number}  {}\n",
        run.id,
        state(&run.state),
        run.job.repository,
        run.job.request.actor.login
    )
}

fn page(view: &RunView) -> String {
    let mut text = line(&view.run);
    for step in &view.steps {
        let state = match &step.state {
            StepState::Begun => "begun".to_owned(),
            StepState::Done { .. } => "done".to_owned(),
            StepState::Failed { error } => format!("failed: {error}"),
        };
        text.push_str(&format!("  {:<10} {} {state}\n", step.kind.name(), step.iteration));
    }
    text
}

fn summary_json(run: &RunSummary) -> serde_json::Value {
    serde_json::json!({
        "run": run.id.as_str(),
        "state": run.state,
        "repository": run.job.repository.to_string(),
        "number": run.job.subject.number(),
        "head": run.job.head.as_str(),
        "actor": run.job.request.actor.login,
        "created_at": run.created_at,
        "finished_at": run.finished_at,
    })
}
