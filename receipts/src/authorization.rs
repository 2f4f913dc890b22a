//! What a person decided after the seal: `authorize`, and the `push` that it allowed.

use crate::chain::{WriteError, object, text};
use crate::flat;
use crate::gate::{Check, on};
use crate::key::{PublicKey, Signed, Signer, hex};
use crate::keyring::Keyring;
use crate::record::{self, Record, Rule, reason_of};
use crate::time::Timestamp;
use crate::verify::{Chain, Code, Verdict, keys_from, read_signed};

const AUTHORIZATION_TYPE: &str = "urn:x-whipstitch:authorization:v1";
const ROLES: &[&str] = &["none", "read", "triage", "write", "maintain", "admin"];

const COMMON: [(&str, Rule); 7] = [
    ("actor", Rule::Actor),
    ("issued_at", Rule::Time),
    ("key_id", Rule::KeyId),
    ("kind", Rule::Word(&["authorize", "push"])),
    ("prev", Rule::Hash),
    ("reason", Rule::Reason),
    ("run", Rule::Hash),
];
const AUTHORIZE: [(&str, Rule); 4] = [
    ("diff_sha256", Rule::Hash),
    ("head_commit", Rule::Object),
    ("origin", Rule::Reason),
    ("role", Rule::Word(ROLES)),
];
const PUSH: [(&str, Rule); 3] = [("commit", Rule::Object), ("ref", Rule::Reason), ("tree", Rule::Object)];

/// A person's recorded yes to one exact patch on one exact commit.
#[derive(Clone, Debug)]
pub struct Authorize<'a> {
    pub run: [u8; 32],
    /// Digest of the run's seal.
    pub seal: [u8; 32],
    pub actor: &'a str,
    pub role: &'a str,
    pub reason: &'a str,
    /// The comment or click: `comment/123`.
    pub origin: &'a str,
    pub issued_at: Timestamp,
    pub diff: [u8; 32],
    /// Hex.
    pub head_commit: &'a str,
}

/// What was pushed under an authorization.
#[derive(Clone, Debug)]
pub struct Push<'a> {
    pub run: [u8; 32],
    /// Digest of the `authorize` record.
    pub authorization: [u8; 32],
    pub actor: &'a str,
    pub reason: &'a str,
    pub issued_at: Timestamp,
    /// The full name of the ref.
    pub reference: &'a str,
    /// Hex.
    pub commit: &'a str,
    pub tree: &'a str,
}

/// Signs an authorization.
pub fn authorize(signer: &Signer, record: &Authorize<'_>) -> Result<Signed, WriteError> {
    write(
        signer,
        vec![
            text("kind", "authorize".to_owned()),
            text("run", hex(&record.run)),
            text("prev", hex(&record.seal)),
            text("actor", record.actor.to_owned()),
            text("reason", reason_of(record.reason)),
            text("issued_at", record.issued_at.to_string()),
            text("role", record.role.to_owned()),
            text("origin", reason_of(record.origin)),
            text("diff_sha256", hex(&record.diff)),
            text("head_commit", object(record.head_commit)),
        ],
    )
}

/// Signs the record of a push.
pub fn push(signer: &Signer, record: &Push<'_>) -> Result<Signed, WriteError> {
    write(
        signer,
        vec![
            text("kind", "push".to_owned()),
            text("run", hex(&record.run)),
            text("prev", hex(&record.authorization)),
            text("actor", record.actor.to_owned()),
            text("reason", reason_of(record.reason)),
            text("issued_at", record.issued_at.to_string()),
            text("ref", record.reference.to_owned()),
            text("commit", object(record.commit)),
            text("tree", object(record.tree)),
        ],
    )
}

fn write(signer: &Signer, mut members: flat::Members) -> Result<Signed, WriteError> {
    members.push(text("_type", AUTHORIZATION_TYPE.to_owned()));
    members.push(text("key_id", signer.key_id()));
    schema(members.clone()).map_err(|_| WriteError::Schema)?;
    Ok(signer.sign(flat::write(&members)))
}

fn schema(members: flat::Members) -> Result<Record, Code> {
    record::typed(members, AUTHORIZATION_TYPE, |kind| match kind {
        "authorize" => Some([&COMMON[..], &AUTHORIZE[..]].concat()),
        "push" => Some([&COMMON[..], &PUSH[..]].concat()),
        _ => None,
    })
}

/// Verifies `authorize`, then optionally `push`, after the seal whose digest is `seal`.
pub fn verify_authorizations(records: &[Signed], seal: [u8; 32], key: &[u8; 32]) -> Verdict {
    match PublicKey::from_raw(key) {
        Ok(key) => verify_decisions(records.iter().map(Ok), seal, None, &Keyring::of(key)),
        Err(_) => Verdict::Invalid { code: Code::Key, index: 0 },
    }
}

/// Verifies what people decided, as it is read; with `receipts`, also against the sealed run itself:
/// its name, its time, and that the pushed tree is the tree that was verified.
///
/// A decision may come long after the run, so its key may be a later one of the keyring, and never an
/// earlier one than that of the record before it.
pub fn verify_decisions<S: std::borrow::Borrow<Signed>>(
    lines: impl IntoIterator<Item = Result<S, Code>>,
    seal: [u8; 32],
    receipts: Option<&Chain>,
    keyring: &Keyring,
) -> Verdict {
    let mut keys = keys_from(keyring.keys(), receipts.map_or("", |chain| &chain.key_id));
    let mut authorization: Option<[u8; 32]> = None;
    for (index, line) in lines.into_iter().enumerate() {
        let read = match index < crate::MAX_CHAIN {
            true => line.and_then(|signed| {
                let record = read_signed(signed.borrow(), keys, schema)?;
                follow(&record, seal, receipts, authorization)?;
                authorization = match record.text("kind") == "authorize" {
                    true => Some(signed.borrow().digest()),
                    false if on(Check::AuthorizationOnce) => None,
                    false => authorization,
                };
                if on(Check::AuthorizationKey) {
                    keys = keys_from(keys, record.text("key_id"));
                }
                Ok(())
            }),
            false => Err(Code::Size),
        };
        if let Err(code) = read {
            return Verdict::Invalid { code, index };
        }
    }
    Verdict::ValidReceipt
}

/// An `authorize` names the seal; a `push` names the `authorize` before it, which it uses up.
fn follow(
    record: &Record,
    seal: [u8; 32],
    receipts: Option<&Chain>,
    authorization: Option<[u8; 32]>,
) -> Result<(), Code> {
    let is_push = record.text("kind") == "push";
    if on(Check::AuthorizationRun) && receipts.is_some_and(|chain| chain.run != record.text("run")) {
        return Err(Code::Run);
    }
    let wanted = if is_push { authorization } else { Some(seal) };
    if on(Check::AuthorizationPrev) && wanted.is_none_or(|wanted| record.text("prev") != hex(&wanted)) {
        return Err(Code::Prev);
    }
    if on(Check::AuthorizationSealed) && receipts.is_some_and(|chain| chain.outcome.is_empty()) {
        return Err(Code::Prev);
    }
    let early = |chain: &Chain| *record.text("issued_at") < *chain.issued_at;
    if on(Check::AuthorizationTime) && receipts.is_some_and(early) {
        return Err(Code::Time);
    }
    if on(Check::AuthorizationTree) && is_push && receipts.is_some_and(|c| c.tree != record.text("tree")) {
        return Err(Code::Tree);
    }
    Ok(())
}
