//! One good run with everything that belongs to it, and the means to forge what only its signer could.

use std::collections::BTreeMap;

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use ed25519_dalek::SigningKey;

use super::{Case, Content};
use crate::journal::{Entry, Journal, Kind};
use crate::report::Request;
use crate::{
    Apply, Authorize, Open, Push, RunChain, Seal, SealOutcome, Signed, Signer, Timestamp, authorize, bundle,
    digest, export, push,
};

pub(crate) const SEED: [u8; 32] = [7; 32];
pub(crate) const DIFFS: [&[u8]; 2] =
    [b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n", b"--- a/y\n+++ b/y\n@@ -1 +1 @@\n-1\n+2\n"];

pub(crate) fn tree(n: u8) -> String {
    format!("{n:02x}").repeat(20)
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_unix(1_790_000_000 + second)
}

/// A run of two changes: receipts, journal, a decision with its push, and exports.
pub(crate) struct World {
    pub signer: Signer,
    pub receipts: Vec<Signed>,
    pub journal: Vec<Signed>,
    pub decisions: Vec<Signed>,
    pub exports: Vec<Vec<u8>>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of(SEED, 1, SealOutcome::Succeeded)
    }

    pub(crate) fn of(seed: [u8; 32], run: u8, outcome: SealOutcome) -> Self {
        let signer = Signer::from_seed(&seed);
        let (journal, authorised) = journal(&signer, run);
        let receipts = receipts(&signer, run, &authorised, journal[journal.len() - 1].digest(), outcome);
        let decisions = decisions(&signer, run, receipts[3].digest());
        let exports = receipts.iter().map(|receipt| export::sign(&signer, receipt).unwrap()).collect();
        Self { signer, receipts, journal, decisions, exports }
    }

    /// A case of this world's receipts, with the verdict that it must have.
    pub(crate) fn case(&self, name: &str, receipts: &[Signed], verdict: &str) -> Case {
        self.bytes_case(name, bundle::write(receipts), verdict)
    }

    pub(crate) fn bytes_case(&self, name: &str, bundle: Vec<u8>, verdict: &str) -> Case {
        let mut files = BTreeMap::from([(bundle::RECEIPTS.to_owned(), Content::Bytes(bundle))]);
        for (n, diff) in DIFFS.iter().enumerate() {
            files.insert(format!("{:04}.diff", n + 1), Content::Bytes(diff.to_vec()));
        }
        Case {
            name: name.to_owned(),
            key: self.signer.public_key().to_vec(),
            request: Request::default(),
            keyring: false,
            files,
            verdict: verdict.to_owned(),
        }
    }

    /// Signs any bytes: what only the signer itself could do.
    pub(crate) fn forge(&self, bytes: impl Into<Vec<u8>>) -> Signed {
        forge_by(SEED, bytes)
    }

    /// The receipts up to `index`, the last one with its text changed and signed again.
    pub(crate) fn resigned(&self, index: usize, from: &str, to: &str) -> Vec<Signed> {
        let mut receipts = self.receipts[..=index].to_vec();
        receipts[index] = self.forge(changed(&receipts[index], from, to));
        receipts
    }
}

/// Signs any bytes by the key of a seed.
pub(crate) fn forge_by(seed: [u8; 32], bytes: impl Into<Vec<u8>>) -> Signed {
    let bytes = bytes.into();
    let signature = ed25519_dalek::Signer::sign(&SigningKey::from_bytes(&seed), &bytes).to_bytes();
    Signed { bytes, signature }
}

/// The text of `signed` with the first `from` made `to`.
pub(crate) fn changed(signed: &Signed, from: &str, to: &str) -> String {
    let text = String::from_utf8(signed.bytes.clone()).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    text.replacen(from, to, 1)
}

fn receipts(
    signer: &Signer,
    run: u8,
    authorised: &[[u8; 32]],
    journal_head: [u8; 32],
    outcome: SealOutcome,
) -> Vec<Signed> {
    let open = Open {
        run: [run; 32],
        actor: "github:user/583231",
        reason: "asked by a comment",
        as_of: at(0),
        issued_at: at(1),
        job: [2; 32],
        base: &tree(1),
    };
    let (mut chain, open) = RunChain::open(signer, &open).unwrap();
    let mut receipts = vec![open];
    for (n, diff) in DIFFS.iter().enumerate() {
        let step = u8::try_from(n).unwrap();
        let apply = Apply {
            actor: "agent:fixers/1",
            reason: "mends caf\u{e9} \"x\" \\ y",
            as_of: at(2),
            issued_at: at(3 + i64::from(step)),
            diff,
            journal_ref: authorised[n],
            tree_before: &tree(10 + step),
            tree_after: &tree(11 + step),
        };
        receipts.push(chain.apply(signer, &apply).unwrap());
    }
    let seal = Seal {
        actor: "whipstitch",
        reason: "all checks passed",
        as_of: at(9),
        issued_at: at(9),
        tree_after: &tree(12),
        journal_head,
        outcome,
    };
    receipts.push(chain.seal(signer, &seal).unwrap());
    receipts
}

/// Two changes that were applied, a step here and there; and the digests of the `authorise` entries.
fn journal(signer: &Signer, run: u8) -> (Vec<Signed>, Vec<[u8; 32]>) {
    let mut journal = Journal::begin([run; 32]);
    let (mut entries, mut authorised) = (Vec::new(), Vec::new());
    let mut add = |kind, subject: &str, body| {
        let entry = Entry { kind, at: at(1), subject, body };
        let signed = journal.append(signer, &entry).unwrap();
        entries.push(signed.clone());
        signed.digest()
    };
    add(Kind::Plan, "plan", [2; 32]);
    add(Kind::Admit, "admitted", [2; 32]);
    add(Kind::Step, "provision done", [3; 32]);
    for (n, diff) in DIFFS.iter().enumerate() {
        let attempt = format!("attempt {n}");
        let intent = add(Kind::Intent, &attempt, [4; 32]);
        add(Kind::Launched, &attempt, intent);
        add(Kind::Exited, &attempt, [5; 32]);
        add(Kind::Candidate, &attempt, digest(diff));
        add(Kind::Check, "cargo test", [6; 32]);
        authorised.push(add(Kind::Authorise, &attempt, digest(diff)));
        add(Kind::Applied, &attempt, digest(diff));
    }
    add(Kind::Seal, "succeeded", [0; 32]);
    (entries, authorised)
}

fn decisions(signer: &Signer, run: u8, seal: [u8; 32]) -> Vec<Signed> {
    let yes = Authorize {
        run: [run; 32],
        seal,
        actor: "github:user/1",
        role: "maintain",
        reason: "authorized the verified patch",
        origin: "comment/5",
        issued_at: at(20),
        diff: digest(DIFFS[0]),
        head_commit: &tree(1),
    };
    let yes = authorize(signer, &yes).unwrap();
    let pushed = Push {
        run: [run; 32],
        authorization: yes.digest(),
        actor: "whipstitch",
        reason: "pushed to topic",
        issued_at: at(21),
        reference: "refs/heads/topic",
        commit: &tree(2),
        tree: &tree(12),
    };
    let pushed = push(signer, &pushed).unwrap();
    vec![yes, pushed]
}

fn hash(parts: &[&[u8]]) -> [u8; 64] {
    use sha2::{Digest as _, Sha512};
    Sha512::digest(parts.concat()).into()
}

fn number(wide: [u8; 64]) -> Scalar {
    Scalar::from_bytes_mod_order_wide(&wide)
}

/// `R || k*a (+ r)`: a signature composed by hand over `message`, with what is hashed before it.
fn composed(r: Scalar, r_bytes: [u8; 32], domain: &[u8], message: &[u8]) -> [u8; 64] {
    let key = SigningKey::from_bytes(&SEED);
    let public = key.verifying_key().to_bytes();
    let k = number(hash(&[domain, &r_bytes, &public, message]));
    let s = r + k * key.to_scalar();
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&r_bytes);
    signature[32..].copy_from_slice(s.as_bytes());
    signature
}

/// A signature whose R is the neutral element, in the bytes given.
pub(crate) fn with_neutral_r(r_bytes: [u8; 32], message: &[u8]) -> [u8; 64] {
    composed(Scalar::ZERO, r_bytes, b"", message)
}

/// An Ed25519ph signature: right for its own scheme, and wrong for this one.
pub(crate) fn prehashed(message: &[u8]) -> [u8; 64] {
    let r = number(hash(&[b"any fixed number", message]));
    let domain = b"SigEd25519 no Ed25519 collisions\x01\x00";
    composed(r, EdwardsPoint::mul_base(&r).compress().to_bytes(), domain, &hash(&[message]))
}

/// S + L in place of S.
pub(crate) fn plus_order(mut signature: [u8; 64]) -> [u8; 64] {
    let mut order = (Scalar::ZERO - Scalar::ONE).to_bytes();
    order[0] += 1;
    let mut carry = 0;
    for (byte, order) in signature[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        *byte = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
    signature
}
