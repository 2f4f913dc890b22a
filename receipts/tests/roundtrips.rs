//! Whatever may be written verifies, reads back as itself, and verifies no more once a byte is another.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use receipts::journal::{Entry, Journal, Kind};
use receipts::keyring::Keyring;
use receipts::report::{Files, Request, verify};
use receipts::{
    Apply, Open, RunChain, Seal, SealOutcome, Signed, Signer, Timestamp, bundle, export, raw_key,
};

/// What one change says of itself; the clock may go back, and reasons may hold anything.
#[derive(Clone, Debug)]
struct Change {
    actor: String,
    reason: String,
    diff: Vec<u8>,
    as_of: i64,
    issued_at: i64,
    tree: [u8; 20],
}

fn change() -> impl Strategy<Value = Change> {
    let second = 1_700_000_000_i64..1_900_000_000;
    (
        "[a-z0-9][a-z0-9._:/@+-]{0,127}",
        ".{0,1100}",
        proptest::collection::vec(any::<u8>(), 1..300),
        second.clone(),
        second,
        any::<[u8; 20]>(),
    )
        .prop_map(|(actor, reason, diff, as_of, issued_at, tree)| Change {
            actor,
            reason,
            diff,
            as_of,
            issued_at,
            tree,
        })
}

fn outcome() -> impl Strategy<Value = SealOutcome> {
    use SealOutcome::{Aborted, Failed, Halted, Succeeded};
    prop_oneof![Just(Succeeded), Just(Failed), Just(Halted), Just(Aborted)]
}

/// Receipts and journal of a run with these changes, as the files of its bundle.
fn files(signer: &Signer, run: [u8; 32], changes: &[Change], outcome: SealOutcome) -> Written {
    let last = &changes[changes.len() - 1];
    let (journal, authorised) = journal(signer, run, changes);
    let hex = |tree: &[u8; 20]| tree.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let at = Timestamp::from_unix;
    let base = "0a".repeat(20);
    let open = Open {
        run,
        actor: &changes[0].actor,
        reason: &changes[0].reason,
        as_of: at(changes[0].as_of),
        issued_at: at(changes[0].issued_at),
        job: [2; 32],
        base: &base,
    };
    let (mut chain, open) = RunChain::open(signer, &open).unwrap();
    let (mut receipts, mut files) = (vec![open], BTreeMap::new());
    let mut before = hex(&[0; 20]);
    for (n, change) in changes.iter().enumerate() {
        let after = hex(&change.tree);
        let apply = Apply {
            actor: &change.actor,
            reason: &change.reason,
            as_of: at(change.as_of),
            issued_at: at(change.issued_at),
            diff: &change.diff,
            journal_ref: authorised[n],
            tree_before: &before,
            tree_after: &after,
        };
        // A chain that was stored may be taken up at any receipt.
        chain = RunChain::resume(&receipts).unwrap();
        receipts.push(chain.apply(signer, &apply).unwrap());
        files.insert(format!("{:04}.diff", n + 1), change.diff.clone());
        before = after;
    }
    let seal = Seal {
        actor: &last.actor,
        reason: &last.reason,
        as_of: at(last.as_of),
        issued_at: at(last.issued_at),
        tree_after: &before,
        journal_head: journal[journal.len() - 1].digest(),
        outcome,
    };
    receipts.push(chain.seal(signer, &seal).unwrap());
    for (seq, receipt) in receipts.iter().enumerate() {
        files.insert(export::file(seq as u64), export::sign(signer, receipt).unwrap());
    }
    files.insert(bundle::RECEIPTS.to_owned(), bundle::write(&receipts));
    files.insert(bundle::JOURNAL.to_owned(), bundle::write(&journal));
    Written { files, receipts }
}

struct Written {
    files: BTreeMap<String, Vec<u8>>,
    receipts: Vec<Signed>,
}

fn journal(signer: &Signer, run: [u8; 32], changes: &[Change]) -> (Vec<Signed>, Vec<[u8; 32]>) {
    let mut journal = Journal::begin(run);
    let (mut entries, mut authorised) = (Vec::new(), Vec::new());
    let mut add = |kind, subject: &str, second, body| {
        let entry = Entry { kind, at: Timestamp::from_unix(second), subject, body };
        entries.push(journal.append(signer, &entry).unwrap());
        entries[entries.len() - 1].digest()
    };
    add(Kind::Plan, "plan", 0, [0; 32]);
    add(Kind::Admit, "admit", 0, [0; 32]);
    for (n, change) in changes.iter().enumerate() {
        let (attempt, diff) = (format!("attempt {n}"), receipts::digest(&change.diff));
        let intent = add(Kind::Intent, &attempt, change.as_of, [1; 32]);
        add(Kind::Launched, &attempt, change.issued_at, intent);
        add(Kind::Exited, &attempt, change.issued_at, [1; 32]);
        add(Kind::Candidate, &change.reason, change.issued_at, diff);
        authorised.push(add(Kind::Authorise, &change.reason, change.issued_at, diff));
        add(Kind::Applied, &change.reason, change.issued_at, diff);
    }
    add(Kind::Seal, "seal", 0, [0; 32]);
    (entries, authorised)
}

const ALL: Request<'static> = Request {
    keyring: None,
    expected: receipts::Expected { head: None, count: None },
    receipt: None,
    journal: true,
    authorizations: false,
    exports: true,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_run_that_may_be_written_verifies_and_reads_back(
        seed in any::<[u8; 32]>(),
        run in any::<[u8; 32]>(),
        changes in proptest::collection::vec(change(), 1..5),
        outcome in outcome(),
    ) {
        let signer = Signer::from_seed(&seed);
        let written = files(&signer, run, &changes, outcome);
        prop_assert_eq!(&bundle::read(&written.files[bundle::RECEIPTS]).unwrap(), &written.receipts);
        let report = verify(&Files::Memory(written.files), &signer.public_key(), &ALL);
        prop_assert_eq!(report.exit_code, 0, "{:?}", report.lines);
        prop_assert_eq!(report.chain.count as usize, changes.len() + 2);
        prop_assert_eq!(report.chain.outcome, outcome.name());
    }

    #[test]
    fn no_byte_of_a_run_may_be_another(
        change in change(),
        place in any::<prop::sample::Index>(),
        within in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let signer = Signer::from_seed(&[7; 32]);
        let mut files = files(&signer, [1; 32], &[change], SealOutcome::Succeeded).files;
        let name = place.get(&files.keys().cloned().collect::<Vec<_>>()).clone();
        let bytes = files.get_mut(&name).unwrap();
        let at = within.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let report = verify(&Files::Memory(files), &signer.public_key(), &ALL);
        prop_assert!(report.exit_code != 0, "byte {at} of {name}: {:?}", report.lines);
    }

    #[test]
    fn a_time_reads_back(second in 0_i64..=253_402_300_799) {
        let at = Timestamp::from_unix(second);
        prop_assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
        prop_assert_eq!(at.unix(), second);
    }

    #[test]
    fn keys_that_follow_one_another_read_back(seeds in proptest::collection::hash_set(any::<[u8; 32]>(), 1..6)) {
        let signers: Vec<Signer> = seeds.iter().map(Signer::from_seed).collect();
        let first = signers[0].public_key();
        let mut bytes = Vec::new();
        for pair in signers.windows(2) {
            let keyring = Keyring::read(&bytes, &first).unwrap();
            bytes.extend(keyring.rotate(&pair[0], &pair[1], Timestamp::from_unix(0), "why").unwrap());
        }
        let keyring = Keyring::read(&bytes, &first).unwrap();
        let keys: Vec<[u8; 32]> = keyring.keys().iter().map(receipts::PublicKey::raw).collect();
        prop_assert_eq!(keys, signers.iter().map(Signer::public_key).collect::<Vec<_>>());
    }

    #[test]
    fn no_key_text_panics(text in any::<Vec<u8>>()) {
        let read = raw_key(&text);
        prop_assert!(text.len() == 32 || read.is_none());
    }
}
