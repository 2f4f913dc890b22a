//! `read`: why the service judged as it did.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use jobs::check::Check;
use jobs::verdict::CheckOutcome;
use runners::reports::{RawOutput, command, files, read, read_json};

use super::print;
use crate::cli::Read;

pub fn run(arguments: &Read) -> anyhow::Result<ExitCode> {
    let check = Check::new("read", arguments.tool, &[arguments.tool.name()]);
    let raw = RawOutput {
        exit_code: arguments.exit,
        stdout: content(arguments.stdout.as_ref())?,
        stderr: content(arguments.stderr.as_ref())?,
        files: reports(&check, arguments.files.as_deref())?,
        ..RawOutput::default()
    };
    let report = read(&check, &raw);
    if arguments.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&read_json(&check, &raw))?));
    } else {
        let outcome = match &report.outcome {
            CheckOutcome::Passed => "passed".to_owned(),
            CheckOutcome::Failed => "failed".to_owned(),
            CheckOutcome::Inconclusive(why) => format!("inconclusive: {why}"),
            CheckOutcome::Unsupported(what) => format!("unsupported: {what}"),
        };
        let mut text = format!("{outcome}\n");
        for failure in &report.failures {
            text.push_str(&format!(
                "  {}: {}\n",
                failure.name,
                failure.message.lines().next().unwrap_or_default()
            ));
        }
        for found in &report.diagnostics {
            text.push_str(&format!(
                "  {}:{}: {}\n",
                found.file,
                found.line.unwrap_or(0),
                found.message.lines().next().unwrap_or_default()
            ));
        }
        for note in &report.notes {
            text.push_str(&format!("  note: {note}\n"));
        }
        print(&text);
    }
    Ok(ExitCode::SUCCESS)
}

fn content(file: Option<&PathBuf>) -> anyhow::Result<Vec<u8>> {
    match file {
        Some(file) => std::fs::read(file).with_context(|| format!("cannot read {}", file.display())),
        None => Ok(Vec::new()),
    }
}

/// Every file in the folder that the tool's reader takes, or every file when it names no pattern of its own.
fn reports(check: &Check, folder: Option<&Path>) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let mut patterns = command(check).report_files;
    patterns.extend(["**/*.xml", "**/*.json", "**/*.trx", "**/*.sarif", "**/*.txt"].map(str::to_owned));
    let (files, _) = files::collect(folder, &patterns, std::time::UNIX_EPOCH)?;
    Ok(files)
}
