//! `doctor --github`: whether the GitHub App can do its work, and what to do where it cannot.

use std::process::ExitCode;
use std::time::Duration;

use url::Url;
use webhooks::github::{Finding, Health};

use crate::cli::Doctor;
use crate::commands::{Usage, load, print};
use crate::config::Config;
use crate::service;

pub async fn run(arguments: &Doctor) -> anyhow::Result<ExitCode> {
    let config = load(arguments.file.config.as_deref())?;
    let Some(github) = service::github(&config)? else {
        let advice = "no GitHub App is configured; `whipstitch serve` shows the page that sets one up";
        return Err(Usage(advice.to_owned()).into());
    };
    let mut findings = github.health().await;
    findings.push(own_door(&config).await);
    match arguments.json {
        true => print(&format!("{}\n", serde_json::to_string_pretty(&json(&findings))?)),
        false => print(&page(&findings)),
    }
    let bad = findings.iter().any(|finding| finding.health == Health::Bad);
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether the address that GitHub was told leads to this service, as seen from here.
async fn own_door(config: &Config) -> Finding {
    let base = config.public_url();
    let finding = |health, found: String, advice: &str| Finding {
        name: "public address",
        health,
        found,
        advice: advice.to_owned(),
    };
    let Some(url) = healthz(&base) else {
        return finding(Health::Bad, format!("{base} is no address"), "correct server.public_url");
    };
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build();
    let answer = match client {
        Ok(client) => client.get(url.clone()).send().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) if answer.status().is_success() => finding(Health::Good, format!("{base} answers"), ""),
        Ok(answer) => finding(
            Health::Bad,
            format!("{url} answers {}", answer.status().as_u16()),
            "let the proxy before this service pass every path on to server.listen",
        ),
        Err(error) => finding(
            Health::Weak,
            format!("{base} cannot be reached from here: {}", error.without_url()),
            "start the service; if it runs, what counts is the line `webhooks` above, which is GitHub's view",
        ),
    }
}

fn healthz(base: &Url) -> Option<Url> {
    let mut url = base.clone();
    url.path_segments_mut().ok()?.pop_if_empty().push("healthz");
    Some(url)
}

const fn word(health: Health) -> &'static str {
    match health {
        Health::Good => "ok",
        Health::Weak => "weak",
        Health::Bad => "bad",
    }
}

fn page(findings: &[Finding]) -> String {
    let mut text = "GitHub App\n".to_owned();
    for finding in findings {
        text.push_str(&format!("  {:<5} {:<15} {}\n", word(finding.health), finding.name, finding.found));
        if !finding.advice.is_empty() {
            text.push_str(&format!("  {:<5} {:<15} -> {}\n", "", "", finding.advice));
        }
    }
    let bad = findings.iter().filter(|finding| finding.health == Health::Bad).count();
    text.push_str(&match bad {
        0 => "the app can do its work\n".to_owned(),
        1 => "one thing keeps the app from its work\n".to_owned(),
        bad => format!("{bad} things keep the app from its work\n"),
    });
    text
}

fn json(findings: &[Finding]) -> serde_json::Value {
    let one = |finding: &Finding| serde_json::json!({"name": finding.name, "state": word(finding.health), "found": finding.found, "advice": finding.advice});
    serde_json::json!({ "github": findings.iter().map(one).collect::<Vec<_>>() })
}
