//! The run's journal: the durable plan as signed, linked entries in a legal order.
//!
//! plan, admit, (intent, launched, exited, candidate, check*, authorise, applied)*, seal. A `step`
//! may stand anywhere between admit and seal, for it says only that work was begun or done. An intent
//! without its launch, and a launch without its exit, must be followed by `lost` or by the seal.

use crate::chain::{WriteError, text};
use crate::flat::{self, Value};
use crate::gate::{Check, on};
use crate::key::{PublicKey, Signed, Signer, hex};
use crate::keyring::Keyring;
use crate::record::{self, Record, Rule, reason_of};
use crate::time::Timestamp;
use crate::verify::{Chain, Code, Verdict, keys_from, read_signed};

const JOURNAL_TYPE: &str = "urn:x-whipstitch:journal:v1";

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Plan,
    Admit,
    Step,
    Intent,
    Launched,
    Exited,
    Lost,
    Candidate,
    Check,
    Authorise,
    Applied,
    Seal,
}

impl Kind {
    const ALL: [Kind; 12] = [
        Kind::Plan,
        Kind::Admit,
        Kind::Step,
        Kind::Intent,
        Kind::Launched,
        Kind::Exited,
        Kind::Lost,
        Kind::Candidate,
        Kind::Check,
        Kind::Authorise,
        Kind::Applied,
        Kind::Seal,
    ];

    /// The word in the entry.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Plan => "plan",
            Kind::Admit => "admit",
            Kind::Step => "step",
            Kind::Intent => "intent",
            Kind::Launched => "launched",
            Kind::Exited => "exited",
            Kind::Lost => "lost",
            Kind::Candidate => "candidate",
            Kind::Check => "check",
            Kind::Authorise => "authorise",
            Kind::Applied => "applied",
            Kind::Seal => "seal",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether this kind may stand after `last`, the last entry that was no step.
    fn may_follow(self, last: Option<Kind>) -> bool {
        let Some(last) = last else { return self == Kind::Plan };
        match self {
            Kind::Plan => false,
            Kind::Admit => last == Kind::Plan,
            Kind::Step => !matches!(last, Kind::Plan | Kind::Seal),
            Kind::Intent => matches!(
                last,
                Kind::Admit
                    | Kind::Applied
                    | Kind::Lost
                    | Kind::Exited
                    | Kind::Candidate
                    | Kind::Check
                    | Kind::Authorise
            ),
            Kind::Launched => last == Kind::Intent,
            Kind::Exited => last == Kind::Launched,
            Kind::Lost => matches!(last, Kind::Intent | Kind::Launched),
            Kind::Candidate => last == Kind::Exited,
            Kind::Check => matches!(last, Kind::Candidate | Kind::Check),
            Kind::Authorise => matches!(last, Kind::Candidate | Kind::Check),
            Kind::Applied => last == Kind::Authorise,
            Kind::Seal => !matches!(last, Kind::Plan | Kind::Seal),
        }
    }
}

/// One entry to be written.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    pub kind: Kind,
    pub at: Timestamp,
    /// What it is about, for people and for matching: a step's name and state, an attempt's id.
    pub subject: &'a str,
    /// Digest of what it binds: a step's output, the task, the candidate's diff.
    pub body: [u8; 32],
}

/// Where a run's journal stands.
#[derive(Clone, Debug)]
pub struct Journal {
    run: [u8; 32],
    count: u64,
    head: [u8; 32],
    at: Timestamp,
    last: Option<Kind>,
}

impl Journal {
    /// An empty journal of `run`.
    pub fn begin(run: [u8; 32]) -> Self {
        Self { run, count: 0, head: [0; 32], at: Timestamp::from_unix(0), last: None }
    }

    /// Continues stored entries, which the caller has verified or wrote itself.
    pub fn resume(run: [u8; 32], entries: &[Signed]) -> Result<Self, WriteError> {
        let mut journal = Self::begin(run);
        for entry in entries {
            let record = flat::read(&entry.bytes).and_then(schema).map_err(|_| WriteError::Resume)?;
            let kind = Kind::of(record.text("kind")).ok_or(WriteError::Resume)?;
            if record.text("run") != hex(&run)
                || record.int("seq") != journal.count
                || !kind.may_follow(journal.last)
            {
                return Err(WriteError::Resume);
            }
            journal.step(
                kind,
                entry.digest(),
                Timestamp::parse(record.text("issued_at")).ok_or(WriteError::Resume)?,
            );
        }
        Ok(journal)
    }

    /// Writes the next entry; refuses one that is out of order.
    pub fn append(&mut self, signer: &Signer, entry: &Entry<'_>) -> Result<Signed, WriteError> {
        if self.last == Some(Kind::Seal) {
            return Err(WriteError::Sealed);
        }
        if !entry.kind.may_follow(self.last) {
            return Err(WriteError::Schema);
        }
        let at = entry.at.max(self.at);
        let members = vec![
            text("_type", JOURNAL_TYPE.to_owned()),
            text("body", hex(&entry.body)),
            text("issued_at", at.to_string()),
            text("key_id", signer.key_id()),
            text("kind", entry.kind.name().to_owned()),
            text("prev", hex(&self.head)),
            text("run", hex(&self.run)),
            ("seq".to_owned(), Value::Int(self.count)),
            text("subject", reason_of(entry.subject)),
        ];
        schema(members.clone()).map_err(|_| WriteError::Schema)?;
        let signed = signer.sign(flat::write(&members));
        self.step(entry.kind, signed.digest(), at);
        Ok(signed)
    }

    fn step(&mut self, kind: Kind, head: [u8; 32], at: Timestamp) {
        self.count += 1;
        self.head = head;
        self.at = at;
        if kind != Kind::Step {
            self.last = Some(kind);
        }
    }

    /// Digest of the last entry; 32 zero bytes when there is none.
    pub const fn head(&self) -> [u8; 32] {
        self.head
    }

    /// How many entries there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The last entry's kind, steps left out.
    pub const fn last(&self) -> Option<Kind> {
        self.last
    }
}

fn schema(members: flat::Members) -> Result<Record, Code> {
    record::typed(members, JOURNAL_TYPE, |kind| {
        Kind::of(kind).map(|kind| {
            vec![
                ("body", Rule::Hash),
                ("issued_at", Rule::Time),
                ("key_id", Rule::KeyId),
                ("kind", Rule::Word(WORDS[kind as usize])),
                ("prev", Rule::Hash),
                ("run", Rule::Hash),
                ("seq", Rule::Int),
                ("subject", Rule::Reason),
            ]
        })
    })
}

const WORDS: [&[&str]; 12] = [
    &["plan"],
    &["admit"],
    &["step"],
    &["intent"],
    &["launched"],
    &["exited"],
    &["lost"],
    &["candidate"],
    &["check"],
    &["authorise"],
    &["applied"],
    &["seal"],
];

/// Verifies a journal from plan to seal.
pub fn verify(entries: &[Signed], key: &[u8; 32]) -> Verdict {
    match PublicKey::from_raw(key) {
        Ok(key) => verify_lines(entries.iter().map(Ok), &Keyring::of(key), None).verdict,
        Err(_) => Verdict::Invalid { code: Code::Key, index: 0 },
    }
}

/// What was found in a journal.
#[derive(Clone, Copy, Debug)]
pub struct Verified {
    pub verdict: Verdict,
    /// Good entries, the seal among them.
    pub count: u64,
    /// Digest of the last good entry.
    pub head: [u8; 32],
}

/// Verifies entries as they are read, and against the receipts of the same run where they are given.
///
/// The receipts name, for each change that was applied, the `authorise` entry that let it be applied
/// and the same diff; and their seal names the journal's last entry. One key signs receipts and journal.
pub fn verify_lines<S: std::borrow::Borrow<Signed>>(
    lines: impl IntoIterator<Item = Result<S, Code>>,
    keyring: &Keyring,
    receipts: Option<&Chain>,
) -> Verified {
    let mut reader = Reader { receipts, ..Reader::default() };
    let known = receipts.map_or("", |chain| &chain.key_id);
    let mut keys = keyring.keys();
    if on(Check::OneKey) && !known.is_empty() {
        keys = &keys_from(keys, known)[..1];
    }
    let mut count = 0;
    for (index, line) in lines.into_iter().enumerate() {
        let read = match index < crate::MAX_CHAIN {
            true => line.and_then(|entry| {
                let record = read_signed(entry.borrow(), keys, schema)?;
                reader.follow(index as u64, &record, entry.borrow())?;
                if on(Check::OneKey) {
                    keys = &keys_from(keys, record.text("key_id"))[..1];
                }
                Ok(())
            }),
            false => Err(Code::JournalCount),
        };
        if let Err(code) = read {
            return reader.verified(Verdict::Invalid { code, index });
        }
        count = index + 1;
    }
    let verdict = match reader.end() {
        Ok(()) => Verdict::ValidChain,
        Err(code) => Verdict::Invalid { code, index: count },
    };
    reader.verified(verdict)
}

#[derive(Default)]
struct Reader<'a> {
    receipts: Option<&'a Chain>,
    count: u64,
    applied: usize,
    authorised: String,
    run: String,
    head: [u8; 32],
    at: String,
    last: Option<Kind>,
    sealed: bool,
    intent: [u8; 32],
    attempt: String,
    attempts: std::collections::HashSet<String>,
    candidate: String,
}

impl Reader<'_> {
    fn follow(&mut self, index: u64, record: &Record, entry: &Signed) -> Result<(), Code> {
        let kind = Kind::of(record.text("kind")).ok_or(Code::Schema)?;
        let run = self.receipts.map_or(&self.run, |receipts| &receipts.run);
        if on(Check::Run) && !run.is_empty() && record.text("run") != run {
            return Err(Code::Run);
        }
        if on(Check::Seq) && record.int("seq") != index {
            return Err(Code::Seq);
        }
        if on(Check::Prev) && record.text("prev") != hex(&self.head) {
            return Err(Code::Prev);
        }
        if on(Check::Time) && *record.text("issued_at") < *self.at {
            return Err(Code::Time);
        }
        if on(Check::JournalOrder) && (self.sealed || !kind.may_follow(self.last)) {
            return Err(Code::JournalOrder);
        }
        self.tie(kind, record, entry)?;
        record.text("run").clone_into(&mut self.run);
        record.text("issued_at").clone_into(&mut self.at);
        self.head = entry.digest();
        self.count += 1;
        self.sealed = kind == Kind::Seal;
        if kind != Kind::Step {
            self.last = Some(kind);
        }
        Ok(())
    }

    /// A launch names its intent, what is applied is what was the candidate, and the receipts agree.
    fn tie(&mut self, kind: Kind, record: &Record, entry: &Signed) -> Result<(), Code> {
        let (subject, body) = (record.text("subject"), record.text("body"));
        match kind {
            Kind::Intent => {
                self.intent = entry.digest();
                subject.clone_into(&mut self.attempt);
                if !self.attempts.insert(self.attempt.clone()) && on(Check::JournalAttempt) {
                    return Err(Code::JournalOrder);
                }
            }
            Kind::Launched if on(Check::JournalLaunchBody) && body != hex(&self.intent) => {
                return Err(Code::JournalRef);
            }
            Kind::Launched if on(Check::JournalLaunchSubject) && subject != self.attempt => {
                return Err(Code::JournalRef);
            }
            Kind::Exited | Kind::Lost if on(Check::JournalExitSubject) && subject != self.attempt => {
                return Err(Code::JournalRef);
            }
            Kind::Candidate => body.clone_into(&mut self.candidate),
            Kind::Authorise | Kind::Applied if on(Check::JournalCandidate) && body != self.candidate => {
                return Err(Code::JournalRef);
            }
            Kind::Authorise => self.authorised = entry.digest_hex(),
            Kind::Applied => return self.tie_applied(body),
            Kind::Plan | Kind::Admit | Kind::Step | Kind::Check | Kind::Seal => {}
            Kind::Launched | Kind::Exited | Kind::Lost => {}
        }
        Ok(())
    }

    fn tie_applied(&mut self, body: &str) -> Result<(), Code> {
        let Some(receipts) = self.receipts else { return Ok(()) };
        let receipt = receipts.applied.get(self.applied);
        self.applied += 1;
        let Some((journal_ref, diff)) = receipt else {
            return if on(Check::JournalCount) { Err(Code::JournalCount) } else { Ok(()) };
        };
        if on(Check::JournalRef) && *journal_ref != self.authorised {
            return Err(Code::JournalRef);
        }
        if on(Check::JournalDiff) && diff != body {
            return Err(Code::JournalRef);
        }
        Ok(())
    }

    fn end(&self) -> Result<(), Code> {
        if on(Check::JournalSealed) && self.last != Some(Kind::Seal) {
            return Err(Code::JournalUnsealed);
        }
        let Some(receipts) = self.receipts else { return Ok(()) };
        if on(Check::JournalCount) && receipts.applied.len() != self.applied {
            return Err(Code::JournalCount);
        }
        if on(Check::JournalHead) && receipts.journal_head != hex(&self.head) {
            return Err(Code::JournalRef);
        }
        Ok(())
    }

    const fn verified(&self, verdict: Verdict) -> Verified {
        Verified { verdict, count: self.count, head: self.head }
    }
}
