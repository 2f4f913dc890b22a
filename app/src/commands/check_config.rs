//! `check-config`: what is wrong, and where.

use std::process::ExitCode;

use anyhow::Context as _;
use jobs::policy::Policy;

use super::{print, variable};
use crate::cli::CheckConfig;
use crate::config::Config;

pub fn run(arguments: &CheckConfig) -> anyhow::Result<ExitCode> {
    if let Some(file) = &arguments.policy {
        let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        return Ok(match Policy::parse(&bytes) {
            Ok(policy) => {
                let checks = policy
                    .checks
                    .map_or("found from the repository".to_owned(), |checks| checks.len().to_string());
                print(&format!("{}: good; checks: {checks}\n", file.display()));
                ExitCode::SUCCESS
            }
            Err(fault) => {
                print(&format!("{}:{}:{}: {}\n", file.display(), fault.line, fault.column, fault.message));
                ExitCode::FAILURE
            }
        });
    }
    match Config::load(arguments.file.config.as_deref(), variable) {
        Ok(config) => {
            let forges =
                [config.github.as_ref().map(|_| "GitHub"), config.local.as_ref().map(|_| "the local forge")];
            let forges: Vec<&str> = forges.into_iter().flatten().collect();
            let forges = match forges.as_slice() {
                [] => {
                    "no forge yet; `whipstitch serve` shows the page that sets the GitHub App up".to_owned()
                }
                forges => forges.join(" and "),
            };
            print(&format!("good: listens on {}, speaks to {forges}\n", config.server.listen));
            Ok(ExitCode::SUCCESS)
        }
        Err(faults) => {
            for fault in &faults {
                print(&format!("{fault}\n"));
            }
            Ok(ExitCode::FAILURE)
        }
    }
}
