//! Each attack on a chain is refused with its code, at its index.
#![allow(clippy::unwrap_used)]

use ed25519_dalek::{Signer as _, SigningKey};
use receipts::{
    Apply, Authorize, Expected, Open, Push, RunChain, Seal, SealOutcome, Signed, Signer, Timestamp,
    authorize, bundle, digest, push, verify_authorizations, verify_chain, verify_receipt,
};

const SEED: [u8; 32] = [7; 32];
const DIFF: [&[u8]; 2] = [b"--- a\n+++ b\n", b"second\n"];

fn tree(n: u8) -> String {
    format!("{n:02x}").repeat(20)
}

fn chain_of(seed: [u8; 32], run: u8) -> Vec<Signed> {
    let signer = Signer::from_seed(&seed);
    let at = |n| Timestamp::from_unix(1_790_000_000 + n);
    let (mut chain, open) = RunChain::open(
        &signer,
        &Open {
            run: [run; 32],
            actor: "github:user/583231",
            reason: "asked by a comment",
            as_of: at(0),
            issued_at: at(1),
            job: [2; 32],
            base: &tree(1),
        },
    )
    .unwrap();
    let mut receipts = vec![open];
    for (n, diff) in DIFF.iter().enumerate() {
        let n = u8::try_from(n).unwrap();
        receipts.push(
            chain
                .apply(
                    &signer,
                    &Apply {
                        actor: "agent:fixers/1",
                        reason: "café: mends",
                        as_of: at(2),
                        issued_at: at(3 + i64::from(n)),
                        diff,
                        journal_ref: [3; 32],
                        tree_before: &tree(10 + n),
                        tree_after: &tree(11 + n),
                    },
                )
                .unwrap(),
        );
    }
    receipts.push(
        chain
            .seal(
                &signer,
                &Seal {
                    actor: "whipstitch",
                    reason: "all checks passed",
                    as_of: at(9),
                    issued_at: at(9),
                    tree_after: &tree(12),
                    journal_head: [4; 32],
                    outcome: SealOutcome::Succeeded,
                },
            )
            .unwrap(),
    );
    receipts
}

fn good() -> Vec<Signed> {
    chain_of(SEED, 1)
}

fn key() -> [u8; 32] {
    Signer::from_seed(&SEED).public_key()
}

fn verdict(receipts: &[Signed]) -> String {
    verdict_with(receipts, Expected::default())
}

fn verdict_with(receipts: &[Signed], expected: Expected) -> String {
    let diff = |seq: u64| (1..=2).contains(&seq).then(|| DIFF[usize::try_from(seq).unwrap() - 1]);
    verify_chain(receipts, diff, &key(), expected).0.to_string()
}

/// Signs any text with the chain's own key: what only the signer could do.
fn forge(text: String) -> Signed {
    let signature = SigningKey::from_bytes(&SEED).sign(text.as_bytes()).to_bytes();
    Signed { bytes: text.into_bytes(), signature }
}

/// The chain with the text of receipt `index` changed and signed again.
fn resigned(index: usize, from: &str, to: &str) -> String {
    let mut receipts = good();
    let text = String::from_utf8(receipts[index].bytes.clone()).unwrap();
    assert!(text.contains(from), "{text}");
    receipts[index] = forge(text.replacen(from, to, 1));
    verdict(&receipts)
}

#[test]
fn a_good_chain_is_valid_and_a_cut_tail_is_not() {
    let receipts = good();
    assert_eq!(verdict(&receipts), "VALID_CHAIN");
    for end in 1..receipts.len() {
        assert_eq!(verdict(&receipts[..end]), "UNSEALED");
    }
    assert_eq!(verify_receipt(&receipts[1], Some(DIFF[0]), &key()).to_string(), "VALID_RECEIPT");
}

#[test]
fn a_bundle_reads_back_as_it_was_written() {
    assert_eq!(bundle::read(&bundle::write(&good())).unwrap(), good());
}

#[test]
fn every_flipped_byte_and_signature_bit_is_refused() {
    for index in 0..good().len() {
        for at in 0..good()[index].bytes.len() {
            let mut receipts = good();
            receipts[index].bytes[at] ^= 1;
            assert!(verdict(&receipts).starts_with("E_"), "byte {at} of {index}");
        }
        for bit in 0..512 {
            let mut receipts = good();
            receipts[index].signature[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(verdict(&receipts), format!("E_SIG@{index}"));
        }
    }
}

#[test]
fn receipts_moved_dropped_doubled_or_spliced_are_refused() {
    let (a, b) = (good(), chain_of(SEED, 9));
    let pick = |order: &[usize]| order.iter().map(|&n| a[n].clone()).collect::<Vec<_>>();
    assert_eq!(verdict(&pick(&[0, 2, 1, 3])), "E_SEQ@1");
    assert_eq!(verdict(&pick(&[0, 2, 3])), "E_SEQ@1");
    assert_eq!(verdict(&pick(&[0, 1, 1, 2, 3])), "E_SEQ@2");
    assert_eq!(verdict(&pick(&[1, 2, 3])), "E_SEQ@0");
    assert_eq!(verdict(&[a[0].clone(), b[1].clone()]), "E_RUN@1");
    assert_eq!(verdict(&[]), "UNSEALED");
    let other = verify_chain(&chain_of([8; 32], 1), |_| None::<&[u8]>, &key(), Expected::default()).0;
    assert_eq!(other.to_string(), "E_KEYID@0");
}

#[test]
fn a_diff_that_was_changed_is_refused() {
    let with = |diff: Option<&'static [u8]>| verify_receipt(&good()[1], diff, &key()).to_string();
    assert_eq!(with(Some(b"--- a\n+++ c\n")), "E_DIFF_HASH@0");
    assert_eq!(with(Some(b"--- a\r\n+++ b\r\n")), "E_DIFF_LEN@0");
    assert_eq!(with(Some(b"--- a\n+++ b")), "E_DIFF_LEN@0");
    assert_eq!(with(None), "E_DIFF_LEN@0");
}

#[test]
fn what_the_signer_itself_signed_must_still_follow_the_rules() {
    assert_eq!(resigned(1, "\"seq\":1", "\"seq\":1.0"), "E_NONCANON@1");
    assert_eq!(resigned(1, "\"seq\":1", "\"seq\":\"1\""), "E_SCHEMA@1");
    assert_eq!(resigned(1, "\"seq\":1", "\"seq\":null"), "E_SCHEMA@1");
    assert_eq!(resigned(1, "receipt:v1", "journal:v1"), "E_TYPE@1");
    assert_eq!(resigned(1, "\"kind\":\"apply\"", "\"kind\":\"open\""), "E_SCHEMA@1");
    assert_eq!(resigned(1, "2026-09-21", "2026-02-30"), "E_SCHEMA@1");
    assert_eq!(resigned(2, "\"run\":\"01", "\"run\":\"02"), "E_RUN@2");
    assert_eq!(resigned(1, "\"prev\":\"", "\"prev\":\"A"), "E_SCHEMA@1");
    assert_eq!(resigned(2, "\"tree_before\":\"sha1:0b", "\"tree_before\":\"sha1:0c"), "E_TREE@2");
    assert_eq!(resigned(3, "\"count\":3", "\"count\":2"), "E_SEAL@3");
    assert_eq!(resigned(3, "\"head\":\"", "\"head\":\""), "VALID_CHAIN");
    assert_eq!(resigned(0, "asked", "asked\u{202e}"), "E_SCHEMA@0");
    assert_eq!(resigned(0, "{", "{ "), "E_NONCANON@0");
    assert_eq!(resigned(0, "}", "}}"), "E_JSON@0");
    assert_eq!(resigned(0, "asked", &"a".repeat(20_000)), "E_SIZE@0");
}

#[test]
fn a_caller_who_knows_head_or_count_sees_a_chain_that_was_sealed_again() {
    let receipts = good();
    let head = Some(receipts[3].digest());
    assert_eq!(verdict_with(&receipts, Expected { head, count: Some(4) }), "VALID_CHAIN");
    assert_eq!(verdict_with(&receipts, Expected { head: Some([0; 32]), count: None }), "E_EXPECTED@4");
    assert_eq!(verdict_with(&receipts, Expected { head, count: Some(5) }), "E_EXPECTED@4");
}

#[test]
fn nothing_follows_the_seal() {
    let mut receipts = good();
    let text = String::from_utf8(receipts[3].bytes.clone()).unwrap();
    let head = receipts[3].digest_hex();
    let prev = receipts[2].digest_hex();
    receipts.push(forge(
        text.replace("\"seq\":3", "\"seq\":4").replace("\"count\":3", "\"count\":4").replace(&prev, &head),
    ));
    assert_eq!(verdict(&receipts), "E_AFTER_SEAL@4");
}

#[test]
fn an_authorization_follows_its_seal_and_a_push_its_authorization() {
    let signer = Signer::from_seed(&SEED);
    let at = Timestamp::from_unix(1_790_000_100);
    let seal = good()[3].digest();
    let yes = authorize(
        &signer,
        &Authorize {
            run: [1; 32],
            seal,
            actor: "github:user/1",
            role: "maintain",
            reason: "apply",
            origin: "comment/5",
            issued_at: at,
            diff: digest(DIFF[0]),
            head_commit: &tree(1),
        },
    )
    .unwrap();
    let pushed = push(
        &signer,
        &Push {
            run: [1; 32],
            authorization: yes.digest(),
            actor: "whipstitch",
            reason: "pushed",
            issued_at: at,
            reference: "refs/heads/topic",
            commit: &tree(2),
            tree: &tree(12),
        },
    )
    .unwrap();
    let verdict = |records: &[Signed], seal| verify_authorizations(records, seal, &key()).to_string();
    assert_eq!(verdict(&[yes.clone(), pushed.clone()], seal), "VALID_RECEIPT");
    assert_eq!(verdict(&[yes], [0; 32]), "E_PREV@0");
    assert_eq!(verdict(&[pushed], seal), "E_PREV@0");
    assert_eq!(verdict(&good()[..1], seal), "E_TYPE@0");
}
