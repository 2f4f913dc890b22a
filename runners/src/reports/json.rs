//! The machine-readable form of a reading, as `whipstitch read --json` prints it.
//!
//! `outcome` has three words: `failed` means that at least one test failed or one finding is an error,
//! whatever the exit code is; `error` means that it cannot be called passed though no failing test is
//! established (it does not build, cannot be collected, was killed or cut, or left non-zero with clean
//! counts); `passed` is the rest. `judgement` is what the bot does with it, and differs where exit 0 proves
//! nothing: zero executed tests read `passed` with the tag `zero_tests`, and are judged `inconclusive`.
//! A count that the output does not tell is `null`.

use jobs::check::{Check, ToolKind, UnknownTool};
use jobs::verdict::{CheckOutcome, Severity};
use serde_json::{Map, Value, json};

use super::RawOutput;
use super::reading::Word;

/// The reading of one run.
pub fn read_json(check: &Check, raw: &RawOutput) -> Value {
    let reading = super::judged(check, raw);
    let word = reading.word;
    let extra = reading.extra.clone();
    let report = reading.into_report();
    let mut value = Map::new();
    value.insert("tool".into(), json!(check.tool.name()));
    value.insert("outcome".into(), json!(word_name(word)));
    let tests = check.tool.kind() == ToolKind::Tests;
    value.insert("passed".into(), json!(report.counts.passed.filter(|_| tests)));
    value.insert("failed".into(), json!(report.counts.failed.filter(|_| tests)));
    value.insert("skipped".into(), json!(report.counts.skipped.filter(|_| tests)));
    value.insert("errors".into(), json!(report.counts.errors));
    for (name, count) in extra {
        value.insert(name.into(), json!(count));
    }
    value.insert(
        "failures".into(),
        report
            .failures
            .iter()
            .map(|failure| {
                json!({
                    "name": failure.name,
                    "file": failure.file,
                    "line": failure.line,
                    "message": failure.message,
                })
            })
            .collect(),
    );
    value.insert(
        "diagnostics".into(),
        report
            .diagnostics
            .iter()
            .map(|found| {
                json!({
                    "file": found.file,
                    "line": found.line,
                    "column": found.column,
                    "severity": severity_name(found.severity),
                    "code": found.code,
                    "message": found.message,
                })
            })
            .collect(),
    );
    value.insert(
        "tests".into(),
        report.tests.iter().map(|test| json!({"id": test.id, "state": test.state})).collect(),
    );
    value.insert("exit_code".into(), json!(raw.exit_code));
    let tags: Vec<&str> = if word == Word::PassedNothing { vec!["zero_tests"] } else { Vec::new() };
    value.insert("tags".into(), json!(tags));
    value.insert("judgement".into(), judgement(&report.outcome));
    value.insert("notes".into(), json!(report.notes.join("; ")));
    Value::Object(value)
}

/// What is told of the output of a tool that no reader is for: nothing but how to have it read.
pub fn unknown_tool_json(tool: &UnknownTool, exit_code: Option<i32>) -> Value {
    let none = Value::Null;
    json!({
        "tool": tool.0, "outcome": word_name(Word::Error), "passed": none, "failed": none, "skipped": none,
        "errors": none, "failures": [], "diagnostics": [], "tests": [], "exit_code": exit_code, "tags": [],
        "judgement": {"is": "unsupported", "why": tool.to_string()}, "notes": "",
    })
}

fn word_name(word: Word) -> &'static str {
    match word {
        Word::Passed | Word::PassedNothing => "passed",
        Word::Failed => "failed",
        Word::Error => "error",
    }
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "information",
    }
}

fn judgement(outcome: &CheckOutcome) -> Value {
    match outcome {
        CheckOutcome::Passed => json!({"is": "passed"}),
        CheckOutcome::Failed => json!({"is": "failed"}),
        CheckOutcome::Inconclusive(why) => json!({"is": "inconclusive", "why": why}),
        CheckOutcome::Unsupported(what) => json!({"is": "unsupported", "why": what}),
    }
}
