//! The verdict: one order of checks, the first that fails names the code.

use crate::flat;
use crate::key::{PublicKey, Signed, digest, hex};
use crate::record::{self, Record, Row};

/// What is wrong with the evidence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Code {
    Key,
    Size,
    Utf8,
    Json,
    Noncanon,
    Type,
    Schema,
    KeyId,
    Sig,
    DiffLen,
    DiffHash,
    Run,
    Seq,
    Prev,
    Time,
    Tree,
    AfterSeal,
    Seal,
    Expected,
    JournalOrder,
    JournalRef,
    JournalUnsealed,
    JournalCount,
}

impl Code {
    /// The code as both verifiers print it.
    pub const fn name(self) -> &'static str {
        match self {
            Code::Key => "E_KEY",
            Code::Size => "E_SIZE",
            Code::Utf8 => "E_UTF8",
            Code::Json => "E_JSON",
            Code::Noncanon => "E_NONCANON",
            Code::Type => "E_TYPE",
            Code::Schema => "E_SCHEMA",
            Code::KeyId => "E_KEYID",
            Code::Sig => "E_SIG",
            Code::DiffLen => "E_DIFF_LEN",
            Code::DiffHash => "E_DIFF_HASH",
            Code::Run => "E_RUN",
            Code::Seq => "E_SEQ",
            Code::Prev => "E_PREV",
            Code::Time => "E_TIME",
            Code::Tree => "E_TREE",
            Code::AfterSeal => "E_AFTER_SEAL",
            Code::Seal => "E_SEAL",
            Code::Expected => "E_EXPECTED",
            Code::JournalOrder => "J_ORDER",
            Code::JournalRef => "J_REF",
            Code::JournalUnsealed => "J_UNSEALED",
            Code::JournalCount => "J_COUNT",
        }
    }
}

/// What the evidence proves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// One receipt and its diff; says nothing of completeness.
    ValidReceipt,
    /// From open to seal.
    ValidChain,
    /// A good prefix whose seal is missing.
    Unsealed,
    /// The first check that failed, and at which record.
    Invalid { code: Code, index: usize },
}

impl Verdict {
    /// 0 valid, 3 unsealed, 1 invalid.
    pub const fn exit_code(self) -> u8 {
        match self {
            Verdict::ValidReceipt | Verdict::ValidChain => 0,
            Verdict::Unsealed => 3,
            Verdict::Invalid { .. } => 1,
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::ValidReceipt => f.write_str("VALID_RECEIPT"),
            Verdict::ValidChain => f.write_str("VALID_CHAIN"),
            Verdict::Unsealed => f.write_str("UNSEALED"),
            Verdict::Invalid { code, index } => write!(f, "{}@{index}", code.name()),
        }
    }
}

/// What the caller knows from elsewhere, such as a check run or a commit's trailer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    pub head: Option<[u8; 32]>,
    pub count: Option<u64>,
}

/// Checks one signed record up to its signature, and reads it.
pub(crate) fn read_signed(
    signed: &Signed,
    key: &PublicKey,
    schema: impl Fn(flat::Members) -> Result<Record, Code>,
) -> Result<Record, Code> {
    if signed.bytes.len() > crate::MAX_RECEIPT {
        return Err(Code::Size);
    }
    let record = schema(flat::read(&signed.bytes)?)?;
    if record.text("key_id") != key.id() {
        return Err(Code::KeyId);
    }
    if !key.verifies(&signed.bytes, &signed.signature) {
        return Err(Code::Sig);
    }
    Ok(record)
}

fn read_receipt<D: AsRef<[u8]>>(
    signed: &Signed,
    diff: impl Fn(u64) -> Option<D>,
    key: &PublicKey,
) -> Result<Record, Code> {
    let record = read_signed(signed, key, record::receipt)?;
    if record.text("kind") == "apply" {
        let diff = diff(record.int("seq")).ok_or(Code::DiffLen)?;
        let diff = diff.as_ref();
        if diff.len() > crate::MAX_DIFF {
            return Err(Code::Size);
        }
        if diff.len() as u64 != record.int("diff_len") {
            return Err(Code::DiffLen);
        }
        if hex(&digest(diff)) != record.text("diff_sha256") {
            return Err(Code::DiffHash);
        }
    }
    Ok(record)
}

/// Verifies one receipt and its diff.
pub fn verify_receipt(signed: &Signed, diff: Option<&[u8]>, key: &[u8; 32]) -> Verdict {
    let Ok(key) = PublicKey::from_raw(key) else { return Verdict::Invalid { code: Code::Key, index: 0 } };
    match read_receipt(signed, |_| diff, &key) {
        Ok(_) => Verdict::ValidReceipt,
        Err(code) => Verdict::Invalid { code, index: 0 },
    }
}

/// Verifies a chain; `diff` gives the diff of a sequence number. Rows are those that were good.
pub fn verify_chain<D: AsRef<[u8]>>(
    receipts: &[Signed],
    diff: impl Fn(u64) -> Option<D>,
    key: &[u8; 32],
    expected: Expected,
) -> (Verdict, Vec<Row>) {
    let mut rows = Vec::new();
    let Ok(key) = PublicKey::from_raw(key) else {
        return (Verdict::Invalid { code: Code::Key, index: 0 }, rows);
    };
    if receipts.len() > crate::MAX_CHAIN {
        return (Verdict::Invalid { code: Code::Size, index: crate::MAX_CHAIN }, rows);
    }
    let mut state = State::default();
    for (index, signed) in receipts.iter().enumerate() {
        let read = read_receipt(signed, &diff, &key)
            .and_then(|record| state.follow(index as u64, &record).map(|()| record));
        match read {
            Ok(record) => {
                state.head = signed.digest();
                rows.push(row(&record, signed));
            }
            Err(code) => return (Verdict::Invalid { code, index }, rows),
        }
    }
    (state.end(receipts.len() as u64, expected), rows)
}

fn row(record: &Record, signed: &Signed) -> Row {
    Row {
        seq: record.int("seq"),
        kind: record.text("kind").to_owned(),
        actor: record.text("actor").to_owned(),
        reason: record.text("reason").to_owned(),
        issued_at: record.text("issued_at").to_owned(),
        diff_len: (record.text("kind") == "apply").then(|| record.int("diff_len")),
        digest: signed.digest_hex(),
    }
}

/// What a receipt must follow from.
#[derive(Default)]
struct State {
    run: String,
    head: [u8; 32],
    issued_at: String,
    tree: Option<String>,
    sealed: bool,
}

impl State {
    fn follow(&mut self, index: u64, record: &Record) -> Result<(), Code> {
        if index > 0 && record.text("run") != self.run {
            return Err(Code::Run);
        }
        if record.int("seq") != index || (record.text("kind") == "open") != (index == 0) {
            return Err(Code::Seq);
        }
        if record.text("prev") != hex(&self.head) {
            return Err(Code::Prev);
        }
        if *record.text("issued_at") < *self.issued_at {
            return Err(Code::Time);
        }
        let start = if record.text("kind") == "seal" {
            record.text("tree_after")
        } else {
            record.text("tree_before")
        };
        if record.text("kind") != "open" && self.tree.as_ref().is_some_and(|tree| tree != start) {
            return Err(Code::Tree);
        }
        if self.sealed {
            return Err(Code::AfterSeal);
        }
        if record.text("kind") == "seal" {
            if record.int("count") != index || record.text("head") != record.text("prev") {
                return Err(Code::Seal);
            }
            self.sealed = true;
        }
        if record.text("kind") != "open" {
            self.tree = Some(record.text("tree_after").to_owned());
        }
        record.text("run").clone_into(&mut self.run);
        record.text("issued_at").clone_into(&mut self.issued_at);
        Ok(())
    }

    fn end(&self, count: u64, expected: Expected) -> Verdict {
        let other_head = expected.head.is_some_and(|head| head != self.head);
        let other_count = expected.count.is_some_and(|wanted| wanted != count);
        if other_head || other_count {
            return Verdict::Invalid {
                code: Code::Expected,
                index: usize::try_from(count).unwrap_or(usize::MAX),
            };
        }
        if self.sealed { Verdict::ValidChain } else { Verdict::Unsealed }
    }
}
