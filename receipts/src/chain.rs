//! Writing a run's receipts: open, apply, seal, each linked to the one before it.

use crate::flat::{self, Members, Value};
use crate::key::{Signed, Signer, digest, hex};
use crate::record::{self, RECEIPT_TYPE, SealOutcome, reason_of};
use crate::time::Timestamp;

/// A receipt that cannot be written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A member is not what its rule asks for, or does not follow from the receipt before it.
    #[error("a receipt's member is out of its rule, or does not follow the receipt before it")]
    Schema,
    /// The chain ends with its seal.
    #[error("the chain is sealed")]
    Sealed,
    /// The diff is empty or larger than 64 MiB.
    #[error("a diff must have 1 byte to 64 MiB, this one has {0}")]
    Diff(usize),
    /// What was to be continued is no good chain.
    #[error("the stored receipts are no chain that can be continued")]
    Resume,
}

/// The first receipt of a run.
#[derive(Clone, Debug)]
pub struct Open<'a> {
    /// The run, one chain each.
    pub run: [u8; 32],
    pub actor: &'a str,
    pub reason: &'a str,
    pub as_of: Timestamp,
    pub issued_at: Timestamp,
    /// Digest of the admitted job.
    pub job: [u8; 32],
    /// The commit worked on, hex.
    pub base: &'a str,
}

/// One applied change.
#[derive(Clone, Debug)]
pub struct Apply<'a> {
    pub actor: &'a str,
    pub reason: &'a str,
    pub as_of: Timestamp,
    pub issued_at: Timestamp,
    /// The raw bytes, as applied.
    pub diff: &'a [u8],
    /// Digest of the journal entry that let it be applied.
    pub journal_ref: [u8; 32],
    /// Git trees, hex.
    pub tree_before: &'a str,
    pub tree_after: &'a str,
}

/// The last receipt of a run.
#[derive(Clone, Debug)]
pub struct Seal<'a> {
    pub actor: &'a str,
    pub reason: &'a str,
    pub as_of: Timestamp,
    pub issued_at: Timestamp,
    pub tree_after: &'a str,
    /// Digest of the journal's last entry.
    pub journal_head: [u8; 32],
    pub outcome: SealOutcome,
}

/// Where a run's chain stands.
#[derive(Clone, Debug)]
pub struct RunChain {
    run: [u8; 32],
    count: u64,
    head: [u8; 32],
    issued_at: Timestamp,
    sealed: Option<SealOutcome>,
}

impl RunChain {
    /// Begins a chain.
    pub fn open(signer: &Signer, open: &Open<'_>) -> Result<(Self, Signed), WriteError> {
        let mut chain =
            Self { run: open.run, count: 0, head: [0; 32], issued_at: open.issued_at, sealed: None };
        let members = vec![text("base", object(open.base)), text("job", hex(&open.job))];
        let common = Common {
            kind: "open",
            actor: open.actor,
            reason: open.reason,
            as_of: open.as_of,
            issued_at: open.issued_at,
        };
        let signed = chain.append(signer, &common, members)?;
        Ok((chain, signed))
    }

    /// Records one applied change.
    pub fn apply(&mut self, signer: &Signer, apply: &Apply<'_>) -> Result<Signed, WriteError> {
        if apply.diff.is_empty() || apply.diff.len() > crate::MAX_DIFF {
            return Err(WriteError::Diff(apply.diff.len()));
        }
        let members = vec![
            ("diff_len".to_owned(), Value::Int(apply.diff.len() as u64)),
            text("diff_sha256", hex(&digest(apply.diff))),
            text("journal_ref", hex(&apply.journal_ref)),
            text("tree_after", object(apply.tree_after)),
            text("tree_before", object(apply.tree_before)),
        ];
        let common = Common {
            kind: "apply",
            actor: apply.actor,
            reason: apply.reason,
            as_of: apply.as_of,
            issued_at: apply.issued_at,
        };
        self.append(signer, &common, members)
    }

    /// Ends the chain.
    pub fn seal(&mut self, signer: &Signer, seal: &Seal<'_>) -> Result<Signed, WriteError> {
        let members = vec![
            ("count".to_owned(), Value::Int(self.count)),
            text("head", hex(&self.head)),
            text("journal_head", hex(&seal.journal_head)),
            text("outcome", seal.outcome.name().to_owned()),
            text("tree_after", object(seal.tree_after)),
        ];
        let common = Common {
            kind: "seal",
            actor: seal.actor,
            reason: seal.reason,
            as_of: seal.as_of,
            issued_at: seal.issued_at,
        };
        let signed = self.append(signer, &common, members)?;
        self.sealed = Some(seal.outcome);
        Ok(signed)
    }

    /// Continues a stored chain, which the caller has verified or wrote itself.
    pub fn resume(receipts: &[Signed]) -> Result<Self, WriteError> {
        let last = receipts.last().ok_or(WriteError::Resume)?;
        let record = flat::read(&last.bytes).and_then(record::receipt).map_err(|_| WriteError::Resume)?;
        if record.int("seq") + 1 != receipts.len() as u64 {
            return Err(WriteError::Resume);
        }
        let outcomes =
            [SealOutcome::Succeeded, SealOutcome::Failed, SealOutcome::Halted, SealOutcome::Aborted];
        Ok(Self {
            run: crate::key::unhex(record.text("run")).ok_or(WriteError::Resume)?,
            count: receipts.len() as u64,
            head: last.digest(),
            issued_at: Timestamp::parse(record.text("issued_at")).ok_or(WriteError::Resume)?,
            sealed: outcomes.into_iter().find(|outcome| outcome.name() == record.text("outcome")),
        })
    }

    /// How many receipts there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Digest of the last receipt.
    pub const fn head(&self) -> [u8; 32] {
        self.head
    }

    fn append(
        &mut self,
        signer: &Signer,
        common: &Common<'_>,
        mut members: Members,
    ) -> Result<Signed, WriteError> {
        if self.sealed.is_some() {
            return Err(WriteError::Sealed);
        }
        // A clock that was set back must not break the chain: time stands still for it instead.
        let issued_at = common.issued_at.max(self.issued_at).max(common.as_of);
        members.extend([
            text("_type", RECEIPT_TYPE.to_owned()),
            text("actor", common.actor.to_owned()),
            text("as_of", common.as_of.to_string()),
            text("issued_at", issued_at.to_string()),
            text("key_id", signer.key_id()),
            text("kind", common.kind.to_owned()),
            text("prev", hex(&self.head)),
            text("reason", reason_of(common.reason)),
            text("run", hex(&self.run)),
            ("seq".to_owned(), Value::Int(self.count)),
        ]);
        record::receipt(members.clone()).map_err(|_| WriteError::Schema)?;
        let signed = signer.sign(flat::write(&members));
        self.count += 1;
        self.head = signed.digest();
        self.issued_at = issued_at;
        Ok(signed)
    }
}

struct Common<'a> {
    kind: &'static str,
    actor: &'a str,
    reason: &'a str,
    as_of: Timestamp,
    issued_at: Timestamp,
}

pub(crate) fn text(name: &str, value: String) -> (String, Value) {
    (name.to_owned(), Value::Text(value))
}

/// A git object id with its algorithm, told by its length.
pub(crate) fn object(hex: &str) -> String {
    format!("{}:{hex}", if hex.len() == 64 { "sha256" } else { "sha1" })
}
