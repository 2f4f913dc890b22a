//! `doctor`: what this machine can seal and build, and what to do about what is missing.

mod conformance;
mod github;

use std::process::ExitCode;

use jobs::clock::{Clock as _, SystemClock};
use runners::sandbox::{Capabilities, FindingState, Sandbox as _};
use runners::toolchains::{Toolchains, versions};

use super::print;
use crate::cli::Doctor;
use crate::engine;

pub async fn run(arguments: &Doctor) -> anyhow::Result<ExitCode> {
    if arguments.github {
        return github::run(arguments).await;
    }
    let sandbox = engine::probed();
    if arguments.probe && sandbox.probe().can_seal() {
        return conformance::run(&sandbox, arguments.json).await;
    }
    let (capabilities, mut toolchains) = (sandbox.probe(), engine::detected());
    if capabilities.can_seal() {
        let folder = tempfile::tempdir()?;
        let run = jobs::id::RunId::fresh(SystemClock.now());
        versions(&mut toolchains, &sandbox, &run, folder.path()).await?;
    }
    let can_seal = capabilities.can_seal();
    match arguments.json {
        true => print(&format!("{}\n", serde_json::to_string_pretty(&json(&capabilities, &toolchains))?)),
        false => print(&page(&capabilities, &toolchains)),
    }
    Ok(if can_seal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const fn word(state: FindingState) -> &'static str {
    match state {
        FindingState::Ok => "ok",
        FindingState::Weak => "weak",
        FindingState::Missing => "missing",
    }
}

/// What a program says of itself inside a container, where it will run.
fn version(tool: &runners::toolchains::FoundTool) -> String {
    let path = tool.path.display();
    match &tool.version {
        Some(version) => format!("{version}   {path}"),
        None => format!("no answer inside a container   {path}"),
    }
}

fn page(capabilities: &Capabilities, toolchains: &Toolchains) -> String {
    let mut text = format!("sandbox {} on Linux {}\n", capabilities.backend, capabilities.kernel);
    for finding in &capabilities.findings {
        text.push_str(&format!("  {:<8} {:<26} {}\n", word(finding.state), finding.name, finding.found));
        if !finding.advice.is_empty() {
            text.push_str(&format!("  {:<8} {:<26} -> {}\n", "", "", finding.advice));
        }
    }
    text.push_str("container engines (not needed by the embedded sandbox)\n");
    for (engine, found) in engines() {
        text.push_str(&format!(
            "  {:<8} {:<26} {found}\n",
            if found == "not found" { "-" } else { "ok" },
            engine
        ));
    }
    text.push_str("toolchains\n");
    for tool in &toolchains.found {
        text.push_str(&format!("  {:<8} {:<26} {}\n", "ok", tool.name, version(tool)));
    }
    for tool in &toolchains.missing {
        text.push_str(&format!("  {:<8} {:<26} -> {}\n", "missing", tool.name, tool.advice));
    }
    text.push_str(match capabilities.can_seal() {
        true => "this machine can seal containers\n",
        false => "this machine cannot seal containers; nothing will be run until what is missing is there\n",
    });
    text
}

/// Programs of container engines along `PATH`; none of them is started.
fn engines() -> Vec<(&'static str, String)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find =
        |name: &str| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    ["podman", "docker", "bwrap"]
        .map(|name| (name, find(name).map_or("not found".to_owned(), |file| file.display().to_string())))
        .to_vec()
}

fn json(capabilities: &Capabilities, toolchains: &Toolchains) -> serde_json::Value {
    let finding = |found: &runners::sandbox::Finding| serde_json::json!({"name": found.name, "state": word(found.state), "found": found.found, "advice": found.advice});
    let tools = toolchains
        .found
        .iter()
        .map(|tool| serde_json::json!({"name": tool.name, "version": tool.version, "path": tool.path}));
    serde_json::json!({
        "backend": capabilities.backend,
        "kernel": capabilities.kernel,
        "can_seal": capabilities.can_seal(),
        "findings": capabilities.findings.iter().map(finding).collect::<Vec<_>>(),
        "toolchains": tools.collect::<Vec<_>>(),
    })
}
