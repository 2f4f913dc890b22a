//! The corpus is what the file says, the verifier says what the corpus says, and each check is needed.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Content, cases};
use crate::gate::{Check, switch::without};

fn content(content: &Content) -> Value {
    match content {
        Content::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => json!(text),
            Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
        },
        Content::Repeat { before, unit, times, after } => {
            json!({ "before": before, "unit": unit, "times": times, "after": after })
        }
    }
}

/// The corpus as it stands in the file: one case per line.
fn text() -> String {
    let mut lines = Vec::new();
    for case in cases() {
        let report = case.report();
        let files: serde_json::Map<String, Value> =
            case.files.iter().map(|(name, file)| (name.clone(), content(file))).collect();
        let line = json!({
            "name": case.name, "key": crate::key::hex(&case.key), "arguments": case.arguments(),
            "files": files, "lines": report.lines, "exit": report.exit_code,
        });
        lines.push(line.to_string());
    }
    format!("[\n{}\n]\n", lines.join(",\n"))
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors/cases.json")
}

#[test]
fn every_case_has_the_verdict_that_it_was_made_for() {
    let all = cases();
    assert!(all.len() >= 150, "{}", all.len());
    let names: std::collections::BTreeSet<&str> = all.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), all.len(), "each name once");
    let mut wrong = Vec::new();
    for case in &all {
        let report = case.report();
        let words = report.lines.last().unwrap().split(' ');
        let verdict = words.into_iter().find(|word| word.chars().next().is_some_and(char::is_uppercase));
        if verdict != Some(case.verdict.as_str()) {
            wrong.push(format!("{}: {} and not {}", case.name, report.lines.join(" / "), case.verdict));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// With `WHIPSTITCH_BLESS` set the file is written anew, to be read and committed.
#[test]
fn the_file_is_what_the_fixed_keys_give() {
    let text = text();
    if std::env::var_os("WHIPSTITCH_BLESS").is_some() {
        std::fs::write(file(), &text).unwrap();
    }
    let stored = std::fs::read_to_string(file()).unwrap();
    assert!(
        stored == text,
        "vectors/cases.json is stale: run the tests with WHIPSTITCH_BLESS=1 and read the diff"
    );
}

/// Checks that the corpus proves needed, one by one. The chain's length is not here: it is tested under a
/// memory limit.
const NEEDED: [Check; 69] = {
    use Check::*;
    [
        KeyCanonical,
        KeySmallOrder,
        ReceiptSize,
        DiffSize,
        LineSize,
        LineForm,
        Utf8,
        Trailing,
        ControlCharacter,
        CanonicalBytes,
        Type,
        Members,
        RuleHash,
        RuleKeyId,
        RuleActor,
        RuleReason,
        RuleTime,
        RuleObject,
        RuleInt,
        RulePositive,
        RuleWord,
        AsOf,
        KeyId,
        OneKey,
        Signature,
        SignatureStrict,
        DiffLen,
        DiffHash,
        Run,
        Seq,
        OpenFirst,
        Prev,
        Time,
        Tree,
        AfterSeal,
        SealCount,
        SealHead,
        ExpectedHead,
        ExpectedCount,
        Sealed,
        JournalOrder,
        JournalAttempt,
        JournalLaunchBody,
        JournalLaunchSubject,
        JournalExitSubject,
        JournalCandidate,
        JournalSealed,
        JournalCount,
        JournalRef,
        JournalDiff,
        JournalHead,
        AuthorizationRun,
        AuthorizationPrev,
        AuthorizationSealed,
        AuthorizationOnce,
        AuthorizationTime,
        AuthorizationTree,
        AuthorizationKey,
        ExportForm,
        ExportSignature,
        KeyringSize,
        KeyringLine,
        KeyringOldKey,
        KeyringUsedKey,
        KeyringOldSignature,
        KeyringNewSignature,
        KeyringSeq,
        KeyringPrev,
        KeyringTime,
    ]
};

#[test]
fn without_any_one_check_some_verdict_flips() {
    let all = cases();
    let honest: Vec<Vec<String>> = all.iter().map(|case| case.report().lines).collect();
    let mut idle = Vec::new();
    for check in NEEDED {
        let flips =
            all.iter().zip(&honest).any(|(case, lines)| without(check, || case.report().lines != *lines));
        if !flips {
            idle.push(check);
        }
    }
    assert!(idle.is_empty(), "no case notices that these are gone: {idle:?}");
}
