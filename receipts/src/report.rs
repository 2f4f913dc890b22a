//! All of a run's evidence at once, and the lines that both verifiers print of it.
//!
//! The first line is the chain's verdict; each further part that was asked for adds one line. Where
//! the chain itself is bad, nothing is said of the parts: they lean on it.

use std::io::{BufRead, BufReader, Cursor};
use std::path::PathBuf;

use crate::bundle::{self, Lines};
use crate::key::{PublicKey, Signed, hex};
use crate::keyring::Keyring;
use crate::verify::{Chain, Code, Expected, Verdict, keys_from, read_receipt, verify_by};
use crate::{authorization, export, journal};

/// Where a run's files are.
#[derive(Clone, Debug)]
pub enum Files {
    /// A folder that holds them; `bundle` is the receipts' file name there.
    Folder { folder: PathBuf, bundle: String },
    /// Names and bytes.
    Memory(std::collections::BTreeMap<String, Vec<u8>>),
}

impl Files {
    /// The bundle file at `path`, or the folder that holds one; other files stand beside it.
    pub fn at(path: &std::path::Path) -> Self {
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) if !path.is_dir() => {
                Files::Folder { folder: folder.to_owned(), bundle: name.to_string_lossy().into_owned() }
            }
            _ => Files::Folder { folder: path.to_owned(), bundle: bundle::RECEIPTS.to_owned() },
        }
    }

    fn open(&self, name: &str) -> Option<Box<dyn BufRead + '_>> {
        match self {
            Files::Folder { folder, bundle } => {
                let path = folder.join(if name == bundle::RECEIPTS { bundle } else { name });
                // What is no file, such as a pipe that never ends, is not there.
                let file = path.is_file().then(|| std::fs::File::open(&path).ok()).flatten()?;
                Some(Box::new(BufReader::new(file)))
            }
            Files::Memory(files) => Some(Box::new(Cursor::new(files.get(name)?))),
        }
    }

    fn bytes(&self, name: &str, limit: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(self.open(name)?, limit as u64 + 1), &mut bytes)
            .ok()?;
        Some(bytes)
    }

    /// The signed lines of a file; none where there is no such file.
    fn lines(&self, name: &str) -> Box<dyn Iterator<Item = Result<Signed, Code>> + '_> {
        match self.open(name) {
            Some(file) => Box::new(Lines::new(file)),
            None if name == bundle::RECEIPTS => Box::new(Numbered { files: self, next: 0 }),
            None => Box::new(std::iter::empty()),
        }
    }

    /// The receipts, one at a time and not yet verified; ends after the first that is none.
    pub fn receipts(&self) -> Box<dyn Iterator<Item = Result<Signed, Code>> + '_> {
        self.lines(bundle::RECEIPTS)
    }

    /// The diff of receipt `seq`, not yet verified; cut off where it is over the limit.
    pub fn diff(&self, seq: u64) -> Option<Vec<u8>> {
        self.bytes(&format!("{seq:04}.diff"), crate::MAX_DIFF)
    }
}

/// `NNNN.receipt.json` and `NNNN.sig`, where there is no one-file bundle.
struct Numbered<'a> {
    files: &'a Files,
    next: u64,
}

impl Iterator for Numbered<'_> {
    type Item = Result<Signed, Code>;

    fn next(&mut self) -> Option<Self::Item> {
        let seq = self.next;
        self.next += 1;
        let bytes = self.files.bytes(&format!("{seq:04}.receipt.json"), crate::MAX_RECEIPT)?;
        let signature = self.files.bytes(&format!("{seq:04}.sig"), 64);
        let signature = signature.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0xff; 64]);
        Some(Ok(Signed { bytes, signature }))
    }
}

/// What is to be verified.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Rotations that begin with the caller's key: the run may be signed by any key that they lead to.
    pub keyring: Option<&'a [u8]>,
    pub expected: Expected,
    /// Only this receipt and its diff; says nothing of completeness.
    pub receipt: Option<u64>,
    /// `run.journal`, and its ties to the receipts.
    pub journal: bool,
    /// `run.authorizations`, and its ties to the receipts.
    pub authorizations: bool,
    /// `NNNN.dsse.json` of each receipt.
    pub exports: bool,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The verdict line, and one for each further part. Never empty.
    pub lines: Vec<String>,
    /// 0 valid, 3 unsealed, 1 invalid; the worst of all lines.
    pub exit_code: u8,
    pub chain: Chain,
}

impl Report {
    fn of(chain: Chain) -> Self {
        Self { lines: vec![line(&chain)], exit_code: chain.verdict.exit_code(), chain }
    }

    fn add(&mut self, part: &str, verdict: Verdict, detail: &str) {
        let detail = if verdict.exit_code() == 0 { detail } else { "" };
        self.lines.push(format!("{part} {verdict}{detail}"));
        self.exit_code = match (self.exit_code, verdict.exit_code()) {
            (1, _) | (_, 1) => 1,
            (3, _) | (_, 3) => 3,
            _ => 0,
        };
    }
}

/// The line of a chain's verdict, the same bytes from both verifiers.
pub fn line(chain: &Chain) -> String {
    let Chain { verdict, run, count, outcome, .. } = chain;
    let head = hex(&chain.head);
    let run = if run.is_empty() { "-" } else { run };
    match verdict {
        Verdict::ValidChain => format!("{verdict} run={run} count={count} head={head} outcome={outcome}"),
        Verdict::Unsealed => format!("{verdict} run={run} count={count} head={head}"),
        Verdict::ValidReceipt => format!("{verdict} run={run} head={head}"),
        Verdict::Invalid { .. } => verdict.to_string(),
    }
}

/// Verifies what was asked for, by a key of 32 raw bytes; any other length is `E_KEY`.
pub fn verify(files: &Files, key: &[u8], request: &Request<'_>) -> Report {
    let keyring = match keyring(key, request) {
        Ok(keyring) => keyring,
        Err(index) => return Report::of(Chain::refused(Code::Key, index)),
    };
    if let Some(seq) = request.receipt {
        return Report::of(one_receipt(files, &keyring, seq));
    }
    let chain = verify_by(files.receipts(), |seq| files.diff(seq), &keyring, request.expected);
    let mut report = Report::of(chain);
    if report.exit_code == 1 {
        return report;
    }
    if request.journal {
        let found = journal::verify_lines(files.lines(bundle::JOURNAL), &keyring, Some(&report.chain));
        report.add("journal", found.verdict, &format!(" count={} head={}", found.count, hex(&found.head)));
    }
    if request.authorizations {
        let records = files.lines(bundle::AUTHORIZATIONS);
        let head = report.chain.head;
        let verdict = authorization::verify_decisions(records, head, Some(&report.chain), &keyring);
        report.add("authorizations", verdict, "");
    }
    if request.exports {
        let key = &keys_from(keyring.keys(), &report.chain.key_id)[0];
        let verdict = exports(files, key);
        let detail = format!(" count={}", report.chain.count);
        report.add("exports", verdict, &detail);
    }
    report
}

/// The keys that the caller's key leads to; the error is the keyring's line that does not follow.
fn keyring(key: &[u8], request: &Request<'_>) -> Result<Keyring, usize> {
    let key: &[u8; 32] = key.try_into().map_err(|_| 0_usize)?;
    Keyring::read(request.keyring.unwrap_or_default(), key).map_err(|(_, line)| line)
}

fn one_receipt(files: &Files, keyring: &Keyring, seq: u64) -> Chain {
    let place = usize::try_from(seq).unwrap_or(usize::MAX);
    let mut chain = Chain::refused(Code::Seq, place);
    let mut lines = files.receipts();
    for index in 0..place {
        match lines.next() {
            Some(Ok(_)) => {}
            Some(Err(code)) => {
                chain.verdict = Verdict::Invalid { code, index };
                return chain;
            }
            None => break,
        }
    }
    let read = lines.next().unwrap_or(Err(Code::Seq)).and_then(|signed| {
        let record = read_receipt(&signed, |seq| files.diff(seq), keyring.keys())?;
        if record.int("seq") != seq {
            return Err(Code::Seq);
        }
        record.text("run").clone_into(&mut chain.run);
        chain.head = signed.digest();
        Ok(())
    });
    chain.verdict = match read {
        Ok(()) => Verdict::ValidReceipt,
        Err(code) => Verdict::Invalid { code, index: place },
    };
    chain
}

fn exports(files: &Files, key: &PublicKey) -> Verdict {
    for (index, line) in files.receipts().enumerate() {
        // Base64 of the largest receipt with the statement around it stays below twice its size.
        let envelope = files.bytes(&export::file(index as u64), 2 * crate::MAX_RECEIPT);
        let verified =
            line.and_then(|signed| export::verify(&envelope.ok_or(Code::Export)?, &signed.bytes, key));
        if let Err(code) = verified {
            return Verdict::Invalid { code, index };
        }
    }
    Verdict::ValidReceipt
}
