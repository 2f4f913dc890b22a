//! SARIF 2.1.0: the generic reader for linters without one of their own.

use jobs::verdict::{Diagnostic, Severity};
use serde::Deserialize;

use super::reading::{Executed, Input, Reading};

#[derive(Deserialize)]
struct Log {
    version: String,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    #[serde(default)]
    results: Option<Vec<Finding>>,
    #[serde(default)]
    invocations: Vec<Invocation>,
    #[serde(default)]
    tool: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    #[serde(default)]
    rule_id: Option<String>,
    #[serde(default)]
    level: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    message: Message,
    #[serde(default)]
    locations: Vec<Location>,
    #[serde(default)]
    suppressions: Option<Vec<serde_json::Value>>,
    #[serde(default)]
    baseline_state: Option<String>,
}

#[derive(Deserialize, Default)]
struct Message {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    markdown: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    #[serde(default)]
    physical_location: Option<Physical>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Physical {
    #[serde(default)]
    artifact_location: Option<Artifact>,
    #[serde(default)]
    region: Option<Region>,
}

#[derive(Deserialize)]
struct Artifact {
    #[serde(default)]
    uri: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    #[serde(default)]
    start_line: Option<u32>,
    #[serde(default)]
    start_column: Option<u32>,
}

/// Reads the SARIF logs of one run: its files, or stdout.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let files = input.files(|path| path.ends_with(".sarif") || path.ends_with(".json"));
    let mut documents: Vec<(&str, String)> =
        files.into_iter().map(|(path, bytes)| (path, String::from_utf8_lossy(bytes).into_owned())).collect();
    if documents.is_empty() {
        documents.push(("stdout", String::from_utf8_lossy(&input.raw.stdout).into_owned()));
    }
    for (path, text) in documents {
        match serde_json::from_str::<Log>(text.trim_start_matches('\u{feff}')) {
            Ok(log) if log.version.starts_with("2.") => take(&mut reading, input, log),
            Ok(log) => {
                let version = super::text::cut(&log.version, 20);
                reading.unsupported(format!("{path} is SARIF {version}; let the linter write SARIF 2.1.0"));
            }
            Err(error) => reading.open(format!("{path} is no SARIF log: {error}")),
        }
    }
    reading
}

fn take(reading: &mut Reading, input: &Input<'_>, log: Log) {
    for run in log.runs {
        if run.invocations.iter().any(|invocation| !invocation.execution_successful) {
            reading.open("a SARIF run says that its tool did not end well");
        }
        let Some(results) = run.results else {
            reading.open("a SARIF run has no list of results, so its tool did not look");
            continue;
        };
        reading.executed = Executed::Some;
        for finding in results {
            if let Some(diagnostic) = diagnostic(input, finding, run.tool.as_ref()) {
                reading.diagnostic(diagnostic);
            }
        }
    }
}

fn diagnostic(input: &Input<'_>, finding: Finding, tool: Option<&serde_json::Value>) -> Option<Diagnostic> {
    let suppressed = finding.suppressions.as_ref().is_some_and(|list| !list.is_empty());
    let other_kind = finding.kind.as_deref().is_some_and(|kind| kind != "fail");
    if suppressed || other_kind || finding.baseline_state.as_deref() == Some("absent") {
        return None;
    }
    let level = finding.level.or_else(|| default_level(tool?, finding.rule_id.as_deref()?));
    let severity = match level.as_deref() {
        Some("error") => Severity::Error,
        Some("note" | "none") => Severity::Note,
        Some(_) | None => Severity::Warning,
    };
    let place = finding.locations.into_iter().find_map(|location| location.physical_location);
    let (artifact, region) = place.map_or((None, None), |place| (place.artifact_location, place.region));
    let uri = artifact.and_then(|artifact| artifact.uri).unwrap_or_default();
    Some(Diagnostic {
        file: input.path(&uri),
        line: region.as_ref().and_then(|region| region.start_line),
        column: region.as_ref().and_then(|region| region.start_column),
        severity,
        code: finding.rule_id,
        message: finding.message.text.or(finding.message.markdown).unwrap_or_default(),
    })
}

/// The level that the rule itself declares.
fn default_level(tool: &serde_json::Value, rule: &str) -> Option<String> {
    let rules = tool.get("driver")?.get("rules")?.as_array()?;
    let found =
        rules.iter().take(10_000).find(|known| known.get("id").and_then(|id| id.as_str()) == Some(rule))?;
    let level = found.get("defaultConfiguration")?.get("level")?;
    level.as_str().map(str::to_owned)
}
