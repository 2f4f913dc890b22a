//! The run's journal: the durable plan as signed, linked entries in a legal order.
//!
//! plan, admit, (intent, launched, exited, candidate, check*, authorise, applied)*, seal. A `step`
//! may stand anywhere between admit and seal, for it says only that work was begun or done. An intent
//! without its launch, and a launch without its exit, must be followed by `lost` or by the seal.

use crate::chain::{WriteError, text};
use crate::flat::{self, Value};
use crate::key::{PublicKey, Signed, Signer, hex};
use crate::record::{self, Record, Rule, reason_of};
use crate::time::Timestamp;
use crate::verify::{Code, Verdict, read_signed};

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
    let Ok(key) = PublicKey::from_raw(key) else { return Verdict::Invalid { code: Code::Key, index: 0 } };
    if entries.len() > crate::MAX_CHAIN {
        return Verdict::Invalid { code: Code::JournalCount, index: crate::MAX_CHAIN };
    }
    let mut reader = Reader::default();
    for (index, entry) in entries.iter().enumerate() {
        let read =
            read_signed(entry, &key, schema).and_then(|record| reader.follow(index as u64, &record, entry));
        if let Err(code) = read {
            return Verdict::Invalid { code, index };
        }
    }
    match reader.last {
        Some(Kind::Seal) => Verdict::ValidChain,
        _ => Verdict::Invalid { code: Code::JournalUnsealed, index: entries.len() },
    }
}

#[derive(Default)]
struct Reader {
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

impl Reader {
    fn follow(&mut self, index: u64, record: &Record, entry: &Signed) -> Result<(), Code> {
        let kind = Kind::of(record.text("kind")).ok_or(Code::Schema)?;
        if index > 0 && record.text("run") != self.run {
            return Err(Code::Run);
        }
        if record.int("seq") != index {
            return Err(Code::Seq);
        }
        if record.text("prev") != hex(&self.head) {
            return Err(Code::Prev);
        }
        if *record.text("issued_at") < *self.at {
            return Err(Code::Time);
        }
        if self.sealed || !kind.may_follow(self.last) {
            return Err(Code::JournalOrder);
        }
        self.tie(kind, record, entry)?;
        record.text("run").clone_into(&mut self.run);
        record.text("issued_at").clone_into(&mut self.at);
        self.head = entry.digest();
        self.sealed = kind == Kind::Seal;
        if kind != Kind::Step {
            self.last = Some(kind);
        }
        Ok(())
    }

    /// A launch names its intent, and what is applied is what was the candidate.
    fn tie(&mut self, kind: Kind, record: &Record, entry: &Signed) -> Result<(), Code> {
        match kind {
            Kind::Intent => {
                self.intent = entry.digest();
                record.text("subject").clone_into(&mut self.attempt);
                if !self.attempts.insert(self.attempt.clone()) {
                    return Err(Code::JournalOrder);
                }
            }
            Kind::Launched => {
                if record.text("body") != hex(&self.intent) || record.text("subject") != self.attempt {
                    return Err(Code::JournalRef);
                }
            }
            Kind::Exited | Kind::Lost => {
                if record.text("subject") != self.attempt {
                    return Err(Code::JournalRef);
                }
            }
            Kind::Candidate => record.text("body").clone_into(&mut self.candidate),
            Kind::Authorise | Kind::Applied => {
                if record.text("body") != self.candidate {
                    return Err(Code::JournalRef);
                }
            }
            Kind::Plan | Kind::Admit | Kind::Step | Kind::Check | Kind::Seal => {}
        }
        Ok(())
    }
}
