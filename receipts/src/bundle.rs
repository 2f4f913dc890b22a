//! One file for a run's receipts: each line is the receipt, a TAB, 128 lowercase hex digits, LF.

use std::io::Read as _;
use std::path::Path;

use crate::key::{Signed, hex, unhex};
use crate::verify::Code;

/// Longest line: a receipt of the largest size, TAB, signature, LF.
const MAX_LINE: usize = crate::MAX_RECEIPT + 130;

/// The bundle's bytes.
pub fn write(receipts: &[Signed]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for receipt in receipts {
        bytes.extend_from_slice(&receipt.bytes);
        bytes.push(b'\t');
        bytes.extend_from_slice(hex(&receipt.signature).as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

/// Reads a bundle's bytes; the error names the line (from 0).
pub fn read(mut bytes: &[u8]) -> Result<Vec<Signed>, (Code, usize)> {
    let mut receipts = Vec::new();
    while !bytes.is_empty() {
        let index = receipts.len();
        if index == crate::MAX_CHAIN {
            return Err((Code::Size, index));
        }
        let end = bytes.iter().take(MAX_LINE).position(|&byte| byte == b'\n');
        let Some(end) = end else {
            let code = if bytes.len() >= MAX_LINE { Code::Size } else { Code::Json };
            return Err((code, index));
        };
        let (line, rest) = bytes.split_at(end);
        receipts.push(read_line(line).ok_or((Code::Json, index))?);
        bytes = &rest[1..];
    }
    Ok(receipts)
}

fn read_line(line: &[u8]) -> Option<Signed> {
    let tab = line.iter().rposition(|&byte| byte == b'\t')?;
    let signature = unhex::<64>(std::str::from_utf8(&line[tab + 1..]).ok()?)?;
    Some(Signed { bytes: line[..tab].to_vec(), signature })
}

/// The evidence at `path`: the bundle file, or the folder that holds `run.receipts`; diffs beside it.
pub struct Evidence {
    pub bundle: Vec<u8>,
    folder: std::path::PathBuf,
}

/// Evidence that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {why}")]
pub struct UnreadableEvidence {
    pub path: String,
    pub why: String,
}

impl Evidence {
    /// Opens the bundle at `path`; at most as many bytes as a chain may have.
    pub fn open(path: &Path) -> Result<Self, UnreadableEvidence> {
        let file = if path.is_dir() { path.join("run.receipts") } else { path.to_owned() };
        let bundle = read_bounded(&file, MAX_LINE * crate::MAX_CHAIN).map_err(|error| {
            UnreadableEvidence { path: file.display().to_string(), why: error.to_string() }
        })?;
        Ok(Self { bundle, folder: file.parent().unwrap_or(Path::new(".")).to_owned() })
    }

    /// The diff of receipt `seq`; one byte more than the largest is read, so that a verifier sees the excess.
    pub fn diff(&self, seq: u64) -> Option<Vec<u8>> {
        read_bounded(&self.folder.join(format!("{seq:04}.diff")), crate::MAX_DIFF + 1).ok()
    }
}

fn read_bounded(path: &Path, limit: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
