//! Keys that follow one another: which chains, journals and decisions a keyring lets through, and which
//! keyrings lead to no key at all.

use super::world::{DIFFS, SEED, World, at, changed, forge_by};
use super::{Case, Content, KEYRING};
use crate::keyring::{Keyring, MAX_KEYRING};
use crate::{PublicKey, SealOutcome, Signed, Signer, bundle};

const SECOND: [u8; 32] = [8; 32];
const THIRD: [u8; 32] = [9; 32];

pub(super) fn cases(world: &World) -> Vec<Case> {
    [signers(world), decisions(world), faults(world)].into_iter().flatten().collect()
}

/// The lines of the rotations from each seed's key to the next one's.
fn rotations(seeds: &[[u8; 32]]) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut lines = Vec::new();
    let first = Signer::from_seed(&seeds[0]).public_key();
    for (n, pair) in seeds.windows(2).enumerate() {
        let ring = Keyring::read(&bytes, &first).unwrap();
        let (old, new) = (Signer::from_seed(&pair[0]), Signer::from_seed(&pair[1]));
        let line = ring.rotate(&old, &new, at(-20 + i64::try_from(n).unwrap()), "yearly").unwrap();
        bytes.extend_from_slice(&line);
        lines.push(line);
    }
    lines
}

fn with_keyring(mut case: Case, keyring: Vec<u8>) -> Case {
    case.name = format!("keyring: {}", case.name);
    case.files.insert(KEYRING.to_owned(), Content::Bytes(keyring));
    case.keyring = true;
    case
}

fn of(seed: [u8; 32]) -> World {
    World::of(seed, 1, SealOutcome::Succeeded)
}

/// A record as another key would have signed it.
fn by(seed: [u8; 32], signed: &Signed) -> Signed {
    let id = Signer::from_seed(&seed).key_id();
    let text = String::from_utf8(signed.bytes.clone()).unwrap();
    let start = text.find("ed25519:").unwrap();
    forge_by(seed, format!("{}{id}{}", &text[..start], &text[start + id.len()..]))
}

/// Chains and journals by one key of a keyring of three.
fn signers(world: &World) -> Vec<Case> {
    let ring = rotations(&[SEED, SECOND, THIRD]).concat();
    let with = |name: &str, receipts: &[Signed], verdict: &str| {
        with_keyring(world.case(name, receipts, verdict), ring.clone())
    };
    let mixed = {
        // The second receipt follows from the first in everything but its key.
        let mut receipts = world.receipts[..2].to_vec();
        receipts[1] = by(SECOND, &receipts[1]);
        receipts
    };
    let journal = |name: &str, entries: &[Signed], verdict: &str| {
        let mut case = with(name, &of(SECOND).receipts, verdict);
        case.files.insert(bundle::JOURNAL.to_owned(), Content::Bytes(bundle::write(entries)));
        case.request.journal = true;
        case
    };
    let mut alone = with("a receipt alone, by the second key", &of(SECOND).receipts, "VALID_RECEIPT");
    alone.request.receipt = Some(2);
    let mut exports = with("exports by the second key", &of(SECOND).receipts, "VALID_RECEIPT");
    for (seq, bytes) in of(SECOND).exports.into_iter().enumerate() {
        exports.files.insert(crate::export::file(seq as u64), Content::Bytes(bytes));
    }
    exports.request.exports = true;
    let mut other = with("an export by another of its keys", &of(SECOND).receipts, "E_EXPORT@2");
    (other.files, other.request) = (exports.files.clone(), exports.request);
    other.files.insert("0002.dsse.json".to_owned(), Content::Bytes(of(THIRD).exports[2].clone()));
    vec![
        with_keyring(world.case("of no rotation", &world.receipts, "VALID_CHAIN"), Vec::new()),
        with("the first key signed", &world.receipts, "VALID_CHAIN"),
        with("the second key signed", &of(SECOND).receipts, "VALID_CHAIN"),
        with("the third key signed", &of(THIRD).receipts, "VALID_CHAIN"),
        with("a key signed that it does not lead to", &of([10; 32]).receipts, "E_KEYID@0"),
        with("two keys signed one chain", &mixed, "E_KEYID@1"),
        journal("a journal by the chain's key", &of(SECOND).journal, "VALID_CHAIN"),
        journal("a journal by another of its keys", &of(THIRD).journal, "E_KEYID@0"),
        alone,
        exports,
        other,
    ]
}

/// A yes may come long after the run, when the key is another.
fn decisions(world: &World) -> Vec<Case> {
    let ring = rotations(&[SEED, SECOND, THIRD]).concat();
    let second = of(SECOND);
    let with = |name: &str, receipts: &World, records: &[Signed], verdict: &str| {
        let mut case = with_keyring(world.case(name, &receipts.receipts, verdict), ring.clone());
        case.files.insert(bundle::AUTHORIZATIONS.to_owned(), Content::Bytes(bundle::write(records)));
        case.request.authorizations = true;
        case
    };
    let pushed_after = |yes: &Signed, seed: [u8; 32]| {
        let old = world.decisions[0].digest_hex();
        by(seed, &world.forge(changed(&world.decisions[1], &old, &yes.digest_hex())))
    };
    let (yes, later_yes) = (&world.decisions[0], by(SECOND, &world.decisions[0]));
    let early_yes = by(SEED, &second.decisions[0]);
    let both_later = [later_yes.clone(), pushed_after(&later_yes, SECOND)];
    let back = [later_yes.clone(), pushed_after(&later_yes, SEED)];
    vec![
        with("a yes and a push by a later key", world, &both_later, "VALID_RECEIPT"),
        with("a push by a later key", world, &[yes.clone(), pushed_after(yes, THIRD)], "VALID_RECEIPT"),
        with("a push by an earlier key than its yes", world, &back, "E_KEYID@1"),
        with("a yes by an earlier key than the chain's", &second, &[early_yes], "E_KEYID@0"),
        with("a yes by a stranger", world, &[by([10; 32], yes)], "E_KEYID@0"),
    ]
}

/// A rotation's record with its text changed, signed by both keys again.
fn resigned(line: &[u8], keys: [[u8; 32]; 2], from: &str, to: &str) -> Vec<u8> {
    let text = std::str::from_utf8(line).unwrap().split('\t').next().unwrap();
    assert!(text.contains(from), "{from} in {text}");
    let text = text.replacen(from, to, 1);
    let [old, new] = keys.map(|seed| crate::key::hex(&forge_by(seed, text.clone()).signature));
    format!("{text}\t{old}\t{new}\n").into_bytes()
}

/// Keyrings that do not follow; the chain beside them is good and of the first key.
fn faults(world: &World) -> Vec<Case> {
    let lines = rotations(&[SEED, SECOND, THIRD]);
    let (first, second) = (&lines[0], &lines[1]);
    let with = |name: &str, keyring: Vec<u8>, verdict: &str| {
        with_keyring(world.case(name, &world.receipts, verdict), keyring)
    };
    let first_with = |from: &str, to: &str| resigned(first, [SEED, SECOND], from, to);
    let second_with =
        |from: &str, to: &str| [&first[..], &resigned(second, [SECOND, THIRD], from, to)].concat();
    let key_of = |seed: [u8; 32]| crate::key::hex(&Signer::from_seed(&seed).public_key());
    let id_of = |seed: [u8; 32]| Signer::from_seed(&seed).key_id();
    let cells: Vec<String> =
        std::str::from_utf8(first).unwrap().trim_end().split('\t').map(str::to_owned).collect();
    let signed = |old: &str, new: &str| format!("{}\t{old}\t{new}\n", cells[0]).into_bytes();
    let zeros = "0".repeat(64);
    let back = {
        // The second key hands over to the first one again.
        let text = resigned(second, [SECOND, SEED], &key_of(THIRD), &key_of(SEED));
        [&first[..], &text].concat()
    };
    let stolen = resigned(first, [[10; 32], SECOND], &id_of(SEED), &id_of([10; 32]));
    let small = {
        let mut neutral = [0; 32];
        neutral[0] = 1;
        assert!(PublicKey::from_raw(&neutral).is_err());
        first_with(&key_of(SECOND), &crate::key::hex(&neutral))
    };
    let long = Content::Repeat {
        before: String::from_utf8(first.clone()).unwrap(),
        unit: "x",
        times: MAX_KEYRING + 1 - first.len(),
        after: String::new(),
    };
    let mut too_long = with("a mebibyte and a byte", Vec::new(), "E_KEY@0");
    too_long.files.insert(KEYRING.to_owned(), long);
    let mut strange = with("of another first key", lines.concat(), "E_KEY@0");
    strange.key = Signer::from_seed(&SECOND).public_key().to_vec();
    let upper = String::from_utf8(first.clone()).unwrap();
    let (record, signatures) = upper.split_at(cells[0].len());
    let upper = format!("{record}{}", signatures.to_uppercase());
    vec![
        with("no last newline", first[..first.len() - 1].to_vec(), "E_KEY@0"),
        with("an empty line", [&first[..], b"\n"].concat(), "E_KEY@1"),
        with("one signature", format!("{}\t{}\n", cells[0], cells[1]).into_bytes(), "E_KEY@0"),
        with("the old key's signature alone", signed(&cells[1], &cells[1]), "E_KEY@0"),
        with("the new key's signature alone", signed(&cells[2], &cells[2]), "E_KEY@0"),
        with("the signatures swapped", signed(&cells[2], &cells[1]), "E_KEY@0"),
        with("signatures in upper case", upper.into_bytes(), "E_KEY@0"),
        with("lines swapped", [&second[..], first].concat(), "E_KEY@0"),
        with("a line twice", [&first[..], first].concat(), "E_KEY@1"),
        with("by a key that never was", stolen, "E_KEY@0"),
        with("of another key's id", first_with(&id_of(SEED), &id_of([10; 32])), "E_KEY@0"),
        with("a key that comes back", back, "E_KEY@1"),
        with("to the key itself", resigned(first, [SEED, SEED], &key_of(SECOND), &key_of(SEED)), "E_KEY@0"),
        with("to a key of small order", small, "E_KEY@0"),
        with("another seq", second_with("\"seq\":1", "\"seq\":2"), "E_KEY@1"),
        with("another prev", first_with(&zeros, &"a".repeat(64)), "E_KEY@0"),
        with("time going back", second_with("\"issued_at\":\"2026", "\"issued_at\":\"2025"), "E_KEY@1"),
        with("an unknown member", first_with("\"seq\":0", "\"seq\":0,\"z\":1"), "E_KEY@0"),
        with("another kind", first_with("\"rotate\"", "\"revoke\""), "E_KEY@0"),
        with("another type", first_with("rotation:v1", "receipt:v1"), "E_KEY@0"),
        with("a receipt as a rotation", bundle::write(&world.receipts[..1]), "E_KEY@0"),
        with("a diff in its place", DIFFS[0].to_vec(), "E_KEY@0"),
        too_long,
        strange,
    ]
}
