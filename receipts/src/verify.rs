//! The verdict: one order of checks, the first that fails names the code.

use crate::flat;
use crate::gate::{Check, on};
use crate::key::{PublicKey, Signed, digest, hex};
use crate::keyring::Keyring;
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
    Export,
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
            Code::Export => "E_EXPORT",
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

/// Checks one signed record up to its signature, and reads it; it must be signed by one of `keys`.
pub(crate) fn read_signed(
    signed: &Signed,
    keys: &[PublicKey],
    schema: impl Fn(flat::Members) -> Result<Record, Code>,
) -> Result<Record, Code> {
    if on(Check::ReceiptSize) && signed.bytes.len() > crate::MAX_RECEIPT {
        return Err(Code::Size);
    }
    let record = schema(flat::read(&signed.bytes)?)?;
    let key = match keys.iter().find(|key| key.id() == record.text("key_id")) {
        None if !on(Check::KeyId) => keys.first(),
        found => found,
    };
    let key = key.ok_or(Code::KeyId)?;
    if on(Check::Signature) && !key.verifies(&signed.bytes, &signed.signature) {
        return Err(Code::Sig);
    }
    Ok(record)
}

/// The keys from the one of this id on; all of them where none has it.
pub(crate) fn keys_from<'k>(keys: &'k [PublicKey], id: &str) -> &'k [PublicKey] {
    &keys[keys.iter().position(|key| key.id() == id).unwrap_or_default()..]
}

pub(crate) fn read_receipt<D: AsRef<[u8]>>(
    signed: &Signed,
    diff: impl Fn(u64) -> Option<D>,
    keys: &[PublicKey],
) -> Result<Record, Code> {
    let record = read_signed(signed, keys, record::receipt)?;
    if record.text("kind") == "apply" {
        let diff = diff(record.int("seq"));
        let diff = diff.as_ref().map(AsRef::as_ref).ok_or(Code::DiffLen)?;
        if on(Check::DiffSize) && diff.len() > crate::MAX_DIFF {
            return Err(Code::Size);
        }
        if on(Check::DiffLen) && diff.len() as u64 != record.int("diff_len") {
            return Err(Code::DiffLen);
        }
        if on(Check::DiffHash) && hex(&digest(diff)) != record.text("diff_sha256") {
            return Err(Code::DiffHash);
        }
    }
    Ok(record)
}

/// Verifies one receipt and its diff.
pub fn verify_receipt(signed: &Signed, diff: Option<&[u8]>, key: &[u8; 32]) -> Verdict {
    let Ok(key) = PublicKey::from_raw(key) else { return Verdict::Invalid { code: Code::Key, index: 0 } };
    match read_receipt(signed, |_| diff, &[key]) {
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
    let chain = verify_lines(receipts.iter().map(Ok), diff, key, expected);
    (chain.verdict, chain.rows)
}

/// What was found in a chain.
#[derive(Clone, Debug)]
pub struct Chain {
    pub verdict: Verdict,
    /// Hex; empty where no receipt was good.
    pub run: String,
    /// Good receipts, the seal among them.
    pub count: u64,
    /// Digest of the last good receipt.
    pub head: [u8; 32],
    /// Of the key that signed; empty where no receipt was good.
    pub key_id: String,
    /// The seal's word; empty without a seal.
    pub outcome: String,
    /// Digest of the journal's last entry, hex, as the seal says it; empty without a seal.
    pub journal_head: String,
    /// The tree that the last receipt leaves, with its algorithm; empty where no receipt names one.
    pub tree: String,
    /// `issued_at` of the last good receipt.
    pub issued_at: String,
    /// Of each apply receipt: `journal_ref` and `diff_sha256`.
    pub applied: Vec<(String, String)>,
    pub rows: Vec<Row>,
}

impl Chain {
    /// Nothing was looked at, for this reason.
    pub(crate) fn refused(code: Code, index: usize) -> Self {
        State::default().chain(Verdict::Invalid { code, index })
    }
}

/// Verifies receipts one by one as they are read, so that memory stays flat on what is hostile.
pub fn verify_lines<S: std::borrow::Borrow<Signed>, D: AsRef<[u8]>>(
    lines: impl IntoIterator<Item = Result<S, Code>>,
    diff: impl Fn(u64) -> Option<D>,
    key: &[u8; 32],
    expected: Expected,
) -> Chain {
    match PublicKey::from_raw(key) {
        Ok(key) => verify_by(lines, diff, &Keyring::of(key), expected),
        Err(_) => Chain::refused(Code::Key, 0),
    }
}

/// Verifies receipts by the one key of the keyring that signed the first of them.
pub fn verify_by<S: std::borrow::Borrow<Signed>, D: AsRef<[u8]>>(
    lines: impl IntoIterator<Item = Result<S, Code>>,
    diff: impl Fn(u64) -> Option<D>,
    keyring: &Keyring,
    expected: Expected,
) -> Chain {
    let mut state = State::default();
    let mut keys = keyring.keys();
    for (index, line) in lines.into_iter().enumerate() {
        if on(Check::ChainSize) && index >= crate::MAX_CHAIN {
            return state.chain(Verdict::Invalid { code: Code::Size, index });
        }
        let read = line.and_then(|signed| {
            let record = read_receipt(signed.borrow(), &diff, keys)?;
            state.follow(index as u64, &record)?;
            state.keep(&record, signed.borrow());
            Ok(())
        });
        if let Err(code) = read {
            return state.chain(Verdict::Invalid { code, index });
        }
        if on(Check::OneKey) && index == 0 {
            keys = &keys_from(keys, &state.key_id)[..1];
        }
    }
    let verdict = state.end(expected);
    state.chain(verdict)
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
    count: u64,
    head: [u8; 32],
    key_id: String,
    issued_at: String,
    tree: Option<String>,
    sealed: bool,
    outcome: String,
    journal_head: String,
    applied: Vec<(String, String)>,
    rows: Vec<Row>,
}

impl State {
    fn follow(&self, index: u64, record: &Record) -> Result<(), Code> {
        let kind = record.text("kind");
        if on(Check::Run) && index > 0 && record.text("run") != self.run {
            return Err(Code::Run);
        }
        if on(Check::Seq) && record.int("seq") != index {
            return Err(Code::Seq);
        }
        if on(Check::OpenFirst) && (kind == "open") != (index == 0) {
            return Err(Code::Seq);
        }
        if on(Check::Prev) && record.text("prev") != hex(&self.head) {
            return Err(Code::Prev);
        }
        if on(Check::Time) && *record.text("issued_at") < *self.issued_at {
            return Err(Code::Time);
        }
        let start = record.text(if kind == "seal" { "tree_after" } else { "tree_before" });
        if on(Check::Tree) && kind != "open" && self.tree.as_ref().is_some_and(|tree| tree != start) {
            return Err(Code::Tree);
        }
        if on(Check::AfterSeal) && self.sealed {
            return Err(Code::AfterSeal);
        }
        if on(Check::SealCount) && kind == "seal" && record.int("count") != index {
            return Err(Code::Seal);
        }
        if on(Check::SealHead) && kind == "seal" && record.text("head") != record.text("prev") {
            return Err(Code::Seal);
        }
        Ok(())
    }

    fn keep(&mut self, record: &Record, signed: &Signed) {
        let row = row(record, signed);
        self.count += 1;
        self.head = signed.digest();
        record.text("run").clone_into(&mut self.run);
        record.text("key_id").clone_into(&mut self.key_id);
        record.text("issued_at").clone_into(&mut self.issued_at);
        match row.kind.as_str() {
            "seal" => {
                self.sealed = true;
                record.text("outcome").clone_into(&mut self.outcome);
                record.text("journal_head").clone_into(&mut self.journal_head);
            }
            "apply" => self
                .applied
                .push((record.text("journal_ref").to_owned(), record.text("diff_sha256").to_owned())),
            _ => {}
        }
        if row.kind != "open" {
            self.tree = Some(record.text("tree_after").to_owned());
        }
        self.rows.push(row);
    }

    fn end(&self, expected: Expected) -> Verdict {
        let index = usize::try_from(self.count).unwrap_or(usize::MAX);
        if on(Check::ExpectedHead) && expected.head.is_some_and(|head| head != self.head) {
            return Verdict::Invalid { code: Code::Expected, index };
        }
        if on(Check::ExpectedCount) && expected.count.is_some_and(|count| count != self.count) {
            return Verdict::Invalid { code: Code::Expected, index };
        }
        if on(Check::Sealed) && !self.sealed { Verdict::Unsealed } else { Verdict::ValidChain }
    }

    fn chain(self, verdict: Verdict) -> Chain {
        Chain {
            verdict,
            run: self.run,
            count: self.count,
            head: self.head,
            key_id: self.key_id,
            outcome: self.outcome,
            journal_head: self.journal_head,
            tree: self.tree.unwrap_or_default(),
            issued_at: self.issued_at,
            applied: self.applied,
            rows: self.rows,
        }
    }
}
