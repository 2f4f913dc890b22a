//! `verify`: the verdict first, then what was verified. Needs no service, database or network.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use receipts::keyring::Keyring;
use receipts::report::{self, Files, Report, Request};
use receipts::{Code, Expected, PublicKey, Row, Verdict};

use super::repository::{self, Held};
use super::{Usage, eprint, print};
use crate::cli::Verify;

pub fn run(arguments: &Verify) -> anyhow::Result<ExitCode> {
    let first = key(&arguments.key)?;
    let keys = match &arguments.keyring {
        Some(file) => keys_of(file, &first)?,
        None => vec![first],
    };
    let head = arguments.expect_head.as_deref().map(head).transpose()?;
    let expected = Expected { head, count: arguments.expect_count };
    let request = Request {
        expected,
        receipt: arguments.receipt,
        journal: arguments.journal,
        authorizations: arguments.authorizations,
        exports: arguments.exports,
    };
    let mut report = by_one_of(&arguments.bundle, &keys, &request)?;
    let mut why = None;
    if let Some(repository) = arguments.repo.as_deref().filter(|_| report.exit_code != 1) {
        why = add_repository(&mut report, repository, &Files::at(&arguments.bundle))?;
    }
    let rows = &report.chain.rows;
    print(&match arguments.json {
        true => format!("{}\n", json(&report, why.as_deref())),
        false => format!("{}\n{}", report.lines.join("\n"), table(rows)),
    });
    if let Some(why) = why {
        eprint(&format!("{why}\n"));
    }
    Ok(ExitCode::from(report.exit_code))
}

/// All keys that a keyring leads to, the latest first.
fn keys_of(file: &Path, first: &[u8; 32]) -> anyhow::Result<Vec<[u8; 32]>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read the keyring {}", file.display()))?;
    let keyring = Keyring::read(&bytes, first).map_err(|(code, line)| {
        Usage(format!("{} is no keyring of this key: {}@{line}", file.display(), code.name()))
    })?;
    Ok(keyring.keys().iter().rev().map(PublicKey::raw).collect())
}

/// Verifies by the key that signed; where none did, the verdict by the first key is told.
fn by_one_of(path: &Path, keys: &[[u8; 32]], request: &Request) -> anyhow::Result<Report> {
    for key in keys {
        let report = report(path, key, request)?;
        if !matches!(report.chain.verdict, Verdict::Invalid { code: Code::KeyId, .. }) {
            return Ok(report);
        }
    }
    report(path, keys.last().context("a keyring begins with its first key")?, request)
}

/// Adds the repository's line; gives in words what does not hold.
fn add_repository(report: &mut Report, repository: &Path, files: &Files) -> anyhow::Result<Option<String>> {
    let held = repository::hold(repository, files, &report.chain)?;
    report.lines.push(held.line());
    match held {
        Held::Composed { .. } => Ok(None),
        Held::Broken { why, .. } => {
            report.exit_code = 1;
            Ok(Some(why))
        }
    }
}

/// Verifies the bundle at a path.
pub fn of(path: &Path, key: &[u8; 32], expected: Expected) -> anyhow::Result<(Verdict, Vec<Row>)> {
    let chain = report(path, key, &Request { expected, ..Request::default() })?.chain;
    Ok((chain.verdict, chain.rows))
}

/// A path that is not there is a mistake of the caller, and no evidence of anything.
fn report(path: &Path, key: &[u8; 32], request: &Request) -> anyhow::Result<Report> {
    std::fs::metadata(path).with_context(|| format!("cannot read the bundle {}", path.display()))?;
    Ok(report::verify(&Files::at(path), key, request))
}

/// A key given as hex, or as a file. A key that is no good is a verdict (`E_KEY`), not an error of usage.
fn key(text: &str) -> anyhow::Result<[u8; 32]> {
    let mut raw = [0; 32];
    if hex::decode_to_slice(text, &mut raw).is_ok() {
        return Ok(raw);
    }
    let bytes = std::fs::read(text).with_context(|| {
        format!("cannot read the key file {text:?} (a key may also be given as 64 hex digits)")
    })?;
    if let Ok(raw) = <[u8; 32]>::try_from(bytes.as_slice()) {
        return Ok(raw);
    }
    match PublicKey::parse(&bytes) {
        Ok(key) => Ok(key.raw()),
        Err(error) => Err(Usage(format!("{text}: {error} ({})", Code::Key.name())).into()),
    }
}

fn head(text: &str) -> anyhow::Result<[u8; 32]> {
    let mut head = [0; 32];
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    hex::decode_to_slice(digits, &mut head)
        .map_err(|_| Usage(format!("{text:?} is no head: 64 hex digits were expected")))?;
    Ok(head)
}

/// The receipts as a table.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>4}  {:<6} {:<20} {:<24} {:>10}  {}\n",
        "seq", "kind", "issued at", "actor", "diff", "reason"
    );
    for row in rows {
        let diff = row.diff_len.map_or("-".to_owned(), |length| format!("{length} B"));
        text.push_str(&format!(
            "{:>4}  {:<6} {:<20} {:<24} {diff:>10}  {}\n",
            row.seq, row.kind, row.issued_at, row.actor, row.reason
        ));
    }
    text
}

fn json(report: &Report, why: Option<&str>) -> serde_json::Value {
    let Report { lines, chain, .. } = report;
    let row = |row: &Row| {
        serde_json::json!({
            "seq": row.seq, "kind": row.kind, "actor": row.actor, "reason": row.reason,
            "issued_at": row.issued_at, "diff_len": row.diff_len, "digest": row.digest,
        })
    };
    serde_json::json!({ "verdict": chain.verdict.to_string(), "lines": lines, "why": why, "receipts": chain.rows.iter().map(row).collect::<Vec<_>>() })
}
