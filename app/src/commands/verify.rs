//! `verify`: the verdict first, then what was verified. Needs no service, database or network.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use receipts::keyring::Keyring;
use receipts::report::{self, Files, Report, Request};
use receipts::{Code, Expected, Row};

use super::repository::{self, Held};
use super::{Usage, eprint, print};
use crate::cli::Verify;

pub fn run(arguments: &Verify) -> anyhow::Result<ExitCode> {
    let key = key(&arguments.key)?;
    let keyring = arguments.keyring.as_deref().map(keyring).transpose()?;
    let head = arguments.expect_head.as_deref().map(head).transpose()?;
    let expected = Expected { head, count: arguments.expect_count };
    let request = Request {
        keyring: keyring.as_deref(),
        expected,
        receipt: arguments.receipt,
        journal: arguments.journal,
        authorizations: arguments.authorizations,
        exports: arguments.exports,
    };
    let mut report = report(&arguments.bundle, &key, &request)?;
    let mut why = why_no_key(&key, keyring.as_deref());
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

/// A keyring's bytes; one more than it may have is enough to see that it is too long.
fn keyring(file: &Path) -> anyhow::Result<Vec<u8>> {
    let limit = receipts::keyring::MAX_KEYRING as u64 + 1;
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read the keyring {}", file.display()))?;
    Ok(bytes)
}

/// In words, why the verdict is `E_KEY`; none where it is another.
fn why_no_key(key: &[u8], keyring: Option<&[u8]>) -> Option<String> {
    let read = <&[u8; 32]>::try_from(key).map_err(|_| (Code::Key, 0));
    match read.and_then(|key| Keyring::read(keyring.unwrap_or_default(), key)) {
        Ok(_) => None,
        Err((Code::Key, 0)) => Some(receipts::KeyError.to_string()),
        Err((code, line)) => Some(format!("the keyring does not follow: {}@{line}", code.name())),
    }
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

/// A path that is not there is a mistake of the caller, and no evidence of anything.
fn report(path: &Path, key: &[u8], request: &Request<'_>) -> anyhow::Result<Report> {
    let found =
        std::fs::metadata(path).with_context(|| format!("cannot read the bundle {}", path.display()))?;
    if !found.is_dir() && !found.is_file() {
        return Err(Usage(format!("{} is neither a folder nor a file", path.display())).into());
    }
    Ok(report::verify(&Files::at(path), key, request))
}

/// A key given as hex, or as a file. A key that is no good is a verdict (`E_KEY`), not an error of usage:
/// what is no key at all is told as one of no bytes.
fn key(text: &str) -> anyhow::Result<Vec<u8>> {
    let bytes = match is_hex(text) {
        true => text.as_bytes().to_vec(),
        false => std::fs::read(text).with_context(|| {
            format!("cannot read the key file {text:?} (a key may also be given as 64 lowercase hex digits)")
        })?,
    };
    Ok(receipts::raw_key(&bytes).map(Vec::from).unwrap_or_default())
}

fn is_hex(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn head(text: &str) -> anyhow::Result<[u8; 32]> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    let mut head = [0; 32];
    match is_hex(digits) && hex::decode_to_slice(digits, &mut head).is_ok() {
        true => Ok(head),
        false => Err(Usage(format!("{text:?} is no head: 64 lowercase hex digits were expected")).into()),
    }
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
