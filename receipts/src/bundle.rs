//! One file for a run's receipts: each line is the receipt, a TAB, 128 lowercase hex digits, LF.
//!
//! The journal and what people decided are files of the same form. Lines are read one at a time, so
//! that no input makes the reader hold more than one line.

use std::io::{BufRead, Read as _};

use crate::gate::{Check, on};
use crate::key::{Signed, hex, unhex};
use crate::verify::Code;

/// The receipts of a run.
pub const RECEIPTS: &str = "run.receipts";
/// The journal of a run.
pub const JOURNAL: &str = "run.journal";
/// What people decided after the seal.
pub const AUTHORIZATIONS: &str = "run.authorizations";

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
pub fn read(bytes: &[u8]) -> Result<Vec<Signed>, (Code, usize)> {
    let mut receipts = Vec::new();
    for line in Lines::new(bytes) {
        if receipts.len() == crate::MAX_CHAIN {
            return Err((Code::Size, receipts.len()));
        }
        receipts.push(line.map_err(|code| (code, receipts.len()))?);
    }
    Ok(receipts)
}

/// The lines of a bundle, one at a time; ends after the first that is no line.
pub struct Lines<R> {
    from: R,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// Reads from `from`.
    pub const fn new(from: R) -> Self {
        Self { from, ended: false }
    }

    /// A file that cannot be read to its end is a file that is cut there.
    fn line(&mut self) -> Option<Result<Signed, Code>> {
        let mut line = Vec::new();
        let limit = if on(Check::LineSize) { MAX_LINE } else { usize::MAX };
        let read = (&mut self.from).take(limit as u64).read_until(b'\n', &mut line);
        if read.is_err() || line.is_empty() {
            return read.is_err().then_some(Err(Code::Json));
        }
        if line.pop() != Some(b'\n') {
            return Some(Err(if line.len() + 1 >= limit { Code::Size } else { Code::Json }));
        }
        Some(read_line(&line).ok_or(Code::Json))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Signed, Code>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let line = self.line();
        self.ended = !matches!(line, Some(Ok(_)));
        line
    }
}

/// A signature that no key verifies: its S is not below the order.
const NO_SIGNATURE: [u8; 64] = [0xff; 64];

/// A line without a TAB is no line; a signature in another form is one that verifies nothing.
fn read_line(line: &[u8]) -> Option<Signed> {
    let (bytes, text) = match line.iter().rposition(|&byte| byte == b'\t') {
        Some(tab) => (&line[..tab], &line[tab + 1..]),
        None if on(Check::LineForm) => return None,
        None => (line, &line[..0]),
    };
    let signature = std::str::from_utf8(text).ok().and_then(unhex::<64>).unwrap_or(NO_SIGNATURE);
    Some(Signed { bytes: bytes.to_vec(), signature })
}
