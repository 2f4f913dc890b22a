//! `read`: why the service judged as it did.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use jobs::check::{Check, Tool};
use jobs::verdict::CheckOutcome;
use runners::reports::{RawOutput, command, files, read, read_json, unknown_tool_json};

use super::print;
use crate::cli::Read;

/// The exit code for a tool that no reader is for.
const UNKNOWN_TOOL: u8 = 2;

pub fn run(arguments: &Read) -> anyhow::Result<ExitCode> {
    let tool: Tool = match arguments.tool.parse() {
        Ok(tool) => tool,
        Err(unknown) => {
            if arguments.json {
                let told = unknown_tool_json(&unknown, arguments.exit);
                print(&format!("{}\n", serde_json::to_string_pretty(&told)?));
            } else {
                print(&format!("unsupported: {unknown}\n"));
            }
            return Ok(ExitCode::from(UNKNOWN_TOOL));
        }
    };
    let check = Check::new("read", tool, &[tool.name()]);
    let raw = RawOutput {
        exit_code: arguments.exit,
        stdout: content(arguments.stdout.as_ref())?,
        stderr: content(arguments.stderr.as_ref())?,
        files: reports(&check, arguments.files.as_deref())?,
        root: arguments.root.clone(),
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

/// The file, or every file in the folder that is of a kind that a reader takes.
fn reports(check: &Check, path: Option<&Path>) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let Some(path) = path else { return Ok(Vec::new()) };
    if path.is_file() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(vec![(name, bytes)]);
    }
    let mut patterns = command(check).report_files;
    let kinds = ["**/*.xml", "**/*.json", "**/*.trx", "**/*.sarif", "**/*.tap", "**/*.txt"];
    patterns.extend(kinds.map(str::to_owned));
    let (files, _) = files::collect(path, &patterns, std::time::UNIX_EPOCH)?;
    Ok(files)
}
