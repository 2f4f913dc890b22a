//! What belongs to a chain: its journal, what people decided, its exports.

use super::world::{World, changed};
use super::{Case, Content};
use crate::journal::Kind;
use crate::{SealOutcome, Signed, bundle, export};

pub(super) fn cases(world: &World) -> Vec<Case> {
    [journals(world), decisions(world), exports(world)].into_iter().flatten().collect()
}

fn journal_case(world: &World, name: &str, entries: &[Signed], verdict: &str) -> Case {
    let mut case = world.case(&format!("journal: {name}"), &world.receipts, verdict);
    case.files.insert(bundle::JOURNAL.to_owned(), Content::Bytes(bundle::write(entries)));
    case.request.journal = true;
    case
}

/// Entries of any order, each linked and signed as the journal's own key could: kind, subject, body.
fn linked(world: &World, entries: &[(Kind, &str, String)]) -> Vec<Signed> {
    let mut signed: Vec<Signed> = Vec::new();
    for (seq, (kind, subject, body)) in entries.iter().enumerate() {
        let prev = signed.last().map_or("0".repeat(64), Signed::digest_hex);
        let intent = signed.last().map(Signed::digest_hex).unwrap_or_default();
        let body = if body == "intent" { &intent } else { body };
        signed.push(world.forge(format!(
            r#"{{"_type":"urn:x-whipstitch:journal:v1","body":"{body}","issued_at":"2026-09-21T14:13:21Z","key_id":"{}","kind":"{}","prev":"{prev}","run":"{}","seq":{seq},"subject":"{subject}"}}"#,
            world.signer.key_id(),
            kind.name(),
            "01".repeat(32),
        )));
    }
    signed
}

fn journals(world: &World) -> Vec<Case> {
    let all = &world.journal;
    let case = |name: &str, entries: &[Signed], verdict: &str| journal_case(world, name, entries, verdict);
    let of = |name: &str, kinds: &[Kind], verdict: &str| {
        let entries: Vec<_> = kinds
            .iter()
            .map(|&kind| {
                (kind, "one", if kind == Kind::Launched { "intent".to_owned() } else { "05".repeat(32) })
            })
            .collect();
        case(name, &linked(world, &entries), verdict)
    };
    let edited = |index: usize, from: &str, to: &str| {
        let mut entries = all[..=index].to_vec();
        entries[index] = world.forge(changed(&entries[index], from, to));
        entries
    };
    use Kind::*;
    let mut cases = vec![
        case("good", all, "VALID_CHAIN"),
        case("empty", &[], "J_UNSEALED@0"),
        case("the seal dropped", &all[..all.len() - 1], "J_UNSEALED@17"),
        case("cut in the middle", &all[..8], "J_UNSEALED@8"),
        case("two swapped", &[all[1].clone(), all[0].clone()], "E_SEQ@0"),
        case("one dropped", &[all[0].clone(), all[2].clone()], "E_SEQ@1"),
        case("one doubled", &[all[0].clone(), all[0].clone()], "E_SEQ@1"),
        case("a receipt as an entry", &world.receipts, "E_TYPE@0"),
        case("another run's", &World::of(super::world::SEED, 9, SealOutcome::Succeeded).journal, "E_RUN@0"),
        case("another key's", &World::of([8; 32], 1, SealOutcome::Succeeded).journal, "E_KEYID@0"),
        case("another prev", &edited(1, &all[0].digest_hex(), &"a".repeat(64)), "E_PREV@1"),
        case("time going back", &edited(1, "14:13:21Z", "14:13:20Z"), "E_TIME@1"),
        case("a launch that names no intent", &edited(4, &all[3].digest_hex(), &"a".repeat(64)), "J_REF@4"),
        case("a launch of another attempt", &edited(4, "attempt 0", "attempt 1"), "J_REF@4"),
        case("an exit of another attempt", &edited(5, "attempt 0", "attempt 1"), "J_REF@5"),
        case(
            "another diff authorised",
            &edited(8, &crate::key::hex(&crate::digest(super::world::DIFFS[0])), &"a".repeat(64)),
            "J_REF@8",
        ),
        case(
            "another diff applied",
            &edited(9, &crate::key::hex(&crate::digest(super::world::DIFFS[0])), &"a".repeat(64)),
            "J_REF@9",
        ),
        case("an unknown kind", &edited(2, "\"step\"", "\"note\""), "E_SCHEMA@2"),
        case("an unknown member", &edited(2, "{", "{\"Z\":1,"), "E_SCHEMA@2"),
        of("no plan", &[Admit], "J_ORDER@0"),
        of("no admission", &[Plan, Intent], "J_ORDER@1"),
        of("a step before the admission", &[Plan, Step], "J_ORDER@1"),
        of("two plans", &[Plan, Plan], "J_ORDER@1"),
        of("two admissions", &[Plan, Admit, Admit], "J_ORDER@2"),
        of("a launch before its intent", &[Plan, Admit, Launched], "J_ORDER@2"),
        of("an exit without a launch", &[Plan, Admit, Intent, Exited], "J_ORDER@3"),
        of("two launches of one intent", &[Plan, Admit, Intent, Launched, Launched], "J_ORDER@4"),
        of("two intents", &[Plan, Admit, Intent, Intent], "J_ORDER@3"),
        of("an attempt used twice", &[Plan, Admit, Intent, Lost, Intent], "J_ORDER@4"),
        of("a candidate without an exit", &[Plan, Admit, Candidate], "J_ORDER@2"),
        of("a check without a candidate", &[Plan, Admit, Check], "J_ORDER@2"),
        of(
            "applied without authorise",
            &[Plan, Admit, Intent, Launched, Exited, Candidate, Applied],
            "J_ORDER@6",
        ),
        of("a step after the seal", &[Plan, Admit, Seal, Step], "J_ORDER@3"),
        of("two seals", &[Plan, Admit, Seal, Seal], "J_ORDER@3"),
        of("a loss of nothing", &[Plan, Admit, Lost], "J_ORDER@2"),
        of("nothing applied where receipts say two", &[Plan, Admit, Seal], "J_COUNT@3"),
    ];
    let other = changed(&all[17], "succeeded", "failed");
    let mut resealed = all[..17].to_vec();
    resealed.push(world.forge(other));
    cases.push(case("another seal than the receipts name", &resealed, "J_REF@18"));
    cases.extend(ties(world));
    let mut cut = case("good beside a chain that is cut", all, "J_REF@18");
    cut.files.insert(bundle::RECEIPTS.to_owned(), Content::Bytes(bundle::write(&world.receipts[..3])));
    cases.push(cut);
    let mut none = case("not there", all, "J_UNSEALED@0");
    none.files.remove(bundle::JOURNAL);
    cases.push(none);
    cases
}

/// A good journal beside receipts that do not agree with it.
fn ties(world: &World) -> Vec<Case> {
    let mut fewer = world.receipts[..2].to_vec();
    let seal = changed(&world.receipts[3], "\"seq\":3", "\"seq\":2").replace("\"count\":3", "\"count\":2");
    let seal = seal.replace(&world.receipts[2].digest_hex(), &fewer[1].digest_hex());
    fewer.push(world.forge(seal.replace(&super::world::tree(12), &super::world::tree(11))));
    let mut more = journal_case(world, "applied more than receipts say", &world.journal, "J_COUNT@16");
    more.files.insert(bundle::RECEIPTS.to_owned(), Content::Bytes(bundle::write(&fewer)));
    let with = |name: &str, from: &str, to: &str, diff: Option<&[u8]>| {
        let receipts = world.resigned(1, from, to);
        let mut case = journal_case(world, name, &world.journal, "J_REF@9");
        case.files.insert(bundle::RECEIPTS.to_owned(), Content::Bytes(bundle::write(&receipts)));
        if let Some(diff) = diff {
            case.files.insert("0001.diff".to_owned(), Content::Bytes(diff.to_vec()));
        }
        case
    };
    let diff = crate::key::hex(&crate::digest(super::world::DIFFS[0]));
    let other = super::world::DIFFS[0].to_ascii_uppercase();
    let other_digest = crate::key::hex(&crate::digest(&other));
    vec![
        more,
        with(
            "a receipt that names another entry",
            &world.journal[8].digest_hex(),
            &world.journal[7].digest_hex(),
            None,
        ),
        with("a receipt of another diff", &diff, &other_digest, Some(&other)),
    ]
}

fn decisions(world: &World) -> Vec<Case> {
    let (yes, pushed) = (&world.decisions[0], &world.decisions[1]);
    let case = |name: &str, records: &[Signed], verdict: &str| {
        let mut case = world.case(&format!("authorizations: {name}"), &world.receipts, verdict);
        case.files.insert(bundle::AUTHORIZATIONS.to_owned(), Content::Bytes(bundle::write(records)));
        case.request.authorizations = true;
        case
    };
    let edit = |record: &Signed, from: &str, to: &str| world.forge(changed(record, from, to));
    let yes_with = |from: &str, to: &str| vec![edit(yes, from, to)];
    let push_with = |from: &str, to: &str| vec![yes.clone(), edit(pushed, from, to)];
    let other = World::of(super::world::SEED, 9, SealOutcome::Succeeded);
    let unsealed = {
        let prev = &world.receipts[2].digest_hex();
        let yes = edit(yes, &world.receipts[3].digest_hex(), prev);
        let mut case = case("of a chain without a seal", &[yes], "E_PREV@0");
        case.files.insert(bundle::RECEIPTS.to_owned(), Content::Bytes(bundle::write(&world.receipts[..3])));
        case
    };
    let mut unsigned = yes.clone();
    unsigned.bytes = changed(yes, "maintain", "admin").into_bytes();
    vec![
        case("good", &world.decisions, "VALID_RECEIPT"),
        unsealed,
        case("none", &[], "VALID_RECEIPT"),
        case("a yes without a push", &world.decisions[..1], "VALID_RECEIPT"),
        case("a push without a yes", &world.decisions[1..], "E_PREV@0"),
        case("two pushes of one yes", &[yes.clone(), pushed.clone(), pushed.clone()], "E_PREV@2"),
        case("another run's", &other.decisions, "E_RUN@0"),
        case(
            "another seal",
            &yes_with(&world.receipts[3].digest_hex(), &world.receipts[2].digest_hex()),
            "E_PREV@0",
        ),
        case("a push of another yes", &push_with(&yes.digest_hex(), &"a".repeat(64)), "E_PREV@1"),
        case("before the seal", &yes_with("14:13:40Z", "14:13:28Z"), "E_TIME@0"),
        case("another tree pushed", &push_with("\"tree\":\"sha1:0c", "\"tree\":\"sha1:0d"), "E_TREE@1"),
        case("a role changed", &[unsigned], "E_SIG@0"),
        case("an unknown role", &yes_with("maintain", "owner"), "E_SCHEMA@0"),
        case("no commit", &yes_with("sha1:0101", "sha1:01"), "E_SCHEMA@0"),
        case("a receipt as a decision", &world.receipts[..1], "E_TYPE@0"),
        case("an unknown kind", &yes_with("\"kind\":\"authorize\"", "\"kind\":\"approve\""), "E_SCHEMA@0"),
        case("another key", &World::of([8; 32], 1, SealOutcome::Succeeded).decisions, "E_KEYID@0"),
    ]
}

fn exports(world: &World) -> Vec<Case> {
    let with = |name: &str, edit: &dyn Fn(&mut Case), verdict: &str| {
        let mut case = world.case(&format!("exports: {name}"), &world.receipts, verdict);
        for (seq, bytes) in world.exports.iter().enumerate() {
            case.files.insert(export::file(seq as u64), Content::Bytes(bytes.clone()));
        }
        case.request.exports = true;
        edit(&mut case);
        case
    };
    let put = |seq: u64, bytes: Vec<u8>| {
        move |case: &mut Case| {
            case.files.insert(export::file(seq), Content::Bytes(bytes.clone()));
        }
    };
    let text = |seq: usize| String::from_utf8(world.exports[seq].clone()).unwrap();
    let other = World::of(super::world::SEED, 9, SealOutcome::Succeeded);
    let stranger = World::of([8; 32], 1, SealOutcome::Succeeded);
    let place = text(1).find("\"sig\":\"").unwrap() + 7;
    let (before, after) = (text(1)[..place].to_owned(), text(1)[place + 88..].to_owned());
    let (first, second) = (text(0), text(1));
    let of_first = first[first.find("\"sig\":\"").unwrap() + 7..][..88].to_owned();
    let loose = {
        let signature = &second[place..place + 88];
        let last = if signature.as_bytes()[85] == b'Q' { 'R' } else { 'h' };
        format!("{before}{}{last}=={after}", &signature[..85])
    };
    vec![
        with("good", &|_| {}, "VALID_RECEIPT"),
        with("one is missing", &|case| drop(case.files.remove("0002.dsse.json")), "E_EXPORT@2"),
        with("of another receipt", &put(1, world.exports[2].clone()), "E_EXPORT@1"),
        with("of another run", &put(0, other.exports[0].clone()), "E_EXPORT@0"),
        with("by another key", &put(0, stranger.exports[0].clone()), "E_EXPORT@0"),
        with(
            "another receipt's signature",
            &put(1, format!("{before}{of_first}{after}").into_bytes()),
            "E_EXPORT@1",
        ),
        with("a space added", &put(1, format!("{second} ").into_bytes()), "E_EXPORT@1"),
        with(
            "a payload bit",
            &put(1, second.replacen("\"payload\":\"e", "\"payload\":\"f", 1).into_bytes()),
            "E_EXPORT@1",
        ),
        with(
            "another payload type",
            &put(1, second.replace("in-toto", "in-tutu").into_bytes()),
            "E_EXPORT@1",
        ),
        with("a second signature", &put(1, second.replace("\"}]}", "\"},{}]}").into_bytes()), "E_EXPORT@1"),
        with("a loose last base64 digit", &put(1, loose.into_bytes()), "E_EXPORT@1"),
        with("empty", &put(3, Vec::new()), "E_EXPORT@3"),
    ]
}
