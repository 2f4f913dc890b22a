//! Chains as wholes: keys, framing, order, links, seals, signatures, diffs.

use super::world::{DIFFS, World, changed, plus_order, prehashed, with_neutral_r};
use super::{Case, Content};
use crate::verify::Expected;
use crate::{SealOutcome, Signed, bundle};

pub(super) fn cases(world: &World) -> Vec<Case> {
    [good(world), keys(world), framing(world), order(world), signatures(world), diffs(world), seals(world)]
        .into_iter()
        .flatten()
        .collect()
}

fn good(world: &World) -> Vec<Case> {
    let mut cases = vec![world.case("good", &world.receipts, "VALID_CHAIN")];
    for outcome in [SealOutcome::Failed, SealOutcome::Halted, SealOutcome::Aborted] {
        let other = World::of(super::world::SEED, 1, outcome);
        cases.push(world.case(&format!("good, {}", outcome.name()), &other.receipts, "VALID_CHAIN"));
    }
    cases.push(world.case("nothing", &[], "UNSEALED"));
    for end in 1..4 {
        cases.push(world.case(&format!("cut after {end}"), &world.receipts[..end], "UNSEALED"));
    }
    let last = world.receipts.len() - 1;
    let mut missing = world.case("no bundle at all", &[], "UNSEALED");
    missing.files.clear();
    cases.push(missing);
    let mut numbered = world.case("numbered files", &[], "VALID_CHAIN");
    numbered.files.remove(bundle::RECEIPTS);
    for (n, receipt) in world.receipts.iter().enumerate() {
        numbered.files.insert(format!("{n:04}.receipt.json"), Content::Bytes(receipt.bytes.clone()));
        numbered.files.insert(format!("{n:04}.sig"), Content::Bytes(receipt.signature.to_vec()));
    }
    let mut short = Case { files: numbered.files.clone(), ..world.case("a short .sig file", &[], "E_SIG@1") };
    short.files.insert("0001.sig".to_owned(), Content::Bytes(vec![1; 63]));
    cases.extend([numbered, short]);
    for (name, head, count, verdict) in [
        ("head and count known", Some(world.receipts[last].digest()), Some(4), "VALID_CHAIN"),
        ("another head known", Some([9; 32]), None, "E_EXPECTED@4"),
        ("another count known", None, Some(5), "E_EXPECTED@4"),
    ] {
        let mut case = world.case(name, &world.receipts, verdict);
        case.request.expected = Expected { head, count };
        cases.push(case);
    }
    let mut cut = world.case("a cut chain and the head known", &world.receipts[..2], "E_EXPECTED@2");
    cut.request.expected.head = Some(world.receipts[last].digest());
    cases.push(cut);
    for (seq, verdict) in [(0, "VALID_RECEIPT"), (1, "VALID_RECEIPT"), (3, "VALID_RECEIPT"), (4, "E_SEQ@4")] {
        let mut case = world.case(&format!("receipt {seq} alone"), &world.receipts, verdict);
        case.request.receipt = Some(seq);
        cases.push(case);
    }
    let swapped = [world.receipts[0].clone(), world.receipts[2].clone()];
    let mut case = world.case("a receipt alone in another's place", &swapped, "E_SEQ@1");
    case.request.receipt = Some(1);
    cases.push(case);
    cases
}

/// Keys that must not be used, as raw bytes.
fn keys(world: &World) -> Vec<Case> {
    let y = |low: u8, rest: u8, high: u8| {
        let mut key = [rest; 32];
        (key[0], key[31]) = (low, high);
        key
    };
    let order_8 = |text: &str| crate::key::unhex::<32>(text).unwrap();
    let eight = order_8("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05");
    let other_eight = order_8("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a");
    let signed = |mut key: [u8; 32]| {
        key[31] |= 0x80;
        key
    };
    let list = [
        ("the neutral element", y(1, 0, 0)),
        ("the point of order 2", y(0xec, 0xff, 0x7f)),
        ("a point of order 4", [0; 32]),
        ("the other point of order 4", y(0, 0, 0x80)),
        ("a point of order 8", eight),
        ("a second point of order 8", signed(eight)),
        ("a third point of order 8", other_eight),
        ("a fourth point of order 8", signed(other_eight)),
        ("the neutral element with a sign", y(1, 0, 0x80)),
        ("the point of order 2 with a sign", y(0xec, 0xff, 0xff)),
        ("y of p", y(0xed, 0xff, 0x7f)),
        ("y of p + 1", y(0xee, 0xff, 0x7f)),
        ("y of p + 3, which is on the curve", y(0xf0, 0xff, 0x7f)),
        ("y of 2, which is not on the curve", y(2, 0, 0)),
        ("all ones", [0xff; 32]),
    ];
    let key = |(name, key): (&str, [u8; 32])| Case {
        key: key.to_vec(),
        ..world.case(&format!("key: {name}"), &world.receipts[..1], "E_KEY@0")
    };
    let mut cases: Vec<Case> = list.into_iter().map(key).collect();
    let other = World::of([8; 32], 1, SealOutcome::Succeeded);
    cases.push(world.case("another key signed all", &other.receipts, "E_KEYID@0"));
    let id = |w: &World| w.signer.key_id();
    let kept = changed(&other.receipts[0], &id(&other), &id(world));
    let signature = other.signer.sign(kept.clone()).signature;
    let kept = Signed { bytes: kept.into_bytes(), signature };
    cases.push(world.case("another key signed and kept the id", &[kept], "E_SIG@0"));
    cases.push(Case {
        key: other.signer.public_key().to_vec(),
        ..world.case("the caller's key is another", &world.receipts, "E_KEYID@0")
    });
    cases
}

fn framing(world: &World) -> Vec<Case> {
    let good = bundle::write(&world.receipts);
    let text = String::from_utf8(good.clone()).unwrap();
    let first = text.find('\n').unwrap() + 1;
    let signature = first - 129;
    let bytes = |name: &str, bytes: Vec<u8>, verdict: &str| world.bytes_case(name, bytes, verdict);
    let text_case = |name: &str, text: String, verdict: &str| bytes(name, text.into_bytes(), verdict);
    let upper = format!("{}{}", &text[..signature], text[signature..].to_uppercase());
    let mut cases = vec![
        bytes("no last newline", good[..good.len() - 1].to_vec(), "E_JSON@3"),
        text_case("a line without a tab", text[..first].replace('\t', " "), "E_JSON@0"),
        text_case("a receipt and no more", format!("{}\n", &text[..signature - 1]), "E_JSON@0"),
        text_case("lines end in CRLF", text.replace('\n', "\r\n"), "E_SIG@0"),
        text_case("an empty line between", text.replacen('\n', "\n\n", 1), "E_JSON@1"),
        text_case("an empty line at the end", format!("{text}\n"), "E_JSON@4"),
        text_case("a signature in upper case", upper[..first].to_owned(), "E_SIG@0"),
        text_case("a signature of 126 digits", format!("{}\n", &text[..first - 3]), "E_SIG@0"),
        text_case("a signature of 130 digits", format!("{}00\n", &text[..first - 1]), "E_SIG@0"),
        text_case("no signature", format!("{}\n", &text[..signature]), "E_SIG@0"),
        text_case("a space before the tab", text.replacen('\t', " \t", 1), "E_NONCANON@0"),
        text_case("a BOM", format!("\u{feff}{text}"), "E_JSON@0"),
        text_case("a NUL at the end", format!("{text}\0"), "E_JSON@4"),
    ];
    let huge = |name: &str, before: &str, unit, times, after: &str, verdict: &str| {
        let mut case = world.case(name, &[], verdict);
        let content = Content::Repeat { before: before.to_owned(), unit, times, after: after.to_owned() };
        case.files.insert(bundle::RECEIPTS.to_owned(), content);
        case
    };
    cases.extend([
        huge("depth of 200,000", "{\"a\":", "[", 200_000, "\n", "E_SIZE@0"),
        huge("depth of 130", "{\"a\":", "[", 130, "\t00\n", "E_JSON@0"),
        huge("a megabyte without a newline", "", "x", 1_000_000, "", "E_SIZE@0"),
        huge("a line of 20,000 bytes", "", "x", 20_000, "\t00\n", "E_SIZE@0"),
        huge("a receipt of the largest size and a byte", "", "x", 16_385, "\t00\n", "E_SIZE@0"),
        huge("a receipt of the largest size", "", "x", 16_384, "\t00\n", "E_JSON@0"),
        huge("100,000 newlines", "", "\n", 100_000, "", "E_JSON@0"),
    ]);
    let long = format!("{}\n", "0".repeat(20_000));
    cases.push(text_case(
        "a signature of 20,000 digits",
        format!("{}{long}", &text[..signature]),
        "E_SIZE@0",
    ));
    cases
}

fn with_diff(mut case: Case, seq: u64, diff: &[u8]) -> Case {
    case.files.insert(format!("{seq:04}.diff"), Content::Bytes(diff.to_vec()));
    case
}

fn order(world: &World) -> Vec<Case> {
    let (a, b) = (&world.receipts, World::of(super::world::SEED, 9, SealOutcome::Succeeded).receipts);
    let pick = |order: &[usize]| order.iter().map(|&n| a[n].clone()).collect::<Vec<_>>();
    let forked = {
        let mut open = world.resigned(0, "asked by a comment", "asked twice");
        open.extend(pick(&[1, 2, 3]));
        open
    };
    let after = |from: &Signed, to: &Signed| {
        let text = changed(from, "\"seq\":3", "\"seq\":4").replace("\"count\":3", "\"count\":4");
        let prev = format!("{}\"", a[2].digest_hex());
        world.forge(text.replace(&prev, &format!("{}\"", to.digest_hex())))
    };
    let mut two_seals = a.clone();
    two_seals.push(after(&a[3], &a[3]));
    let apply = changed(&a[2], "\"seq\":2", "\"seq\":4").replace(&a[1].digest_hex(), &a[3].digest_hex());
    let apply = apply.replace(
        &format!("\"tree_before\":\"sha1:{}", super::world::tree(11)),
        &format!("\"tree_before\":\"sha1:{}", super::world::tree(12)),
    );
    let apply = apply.replace("2026-09-21T14:13:24Z", "2026-09-21T14:13:30Z");
    let mut appended = a.clone();
    appended.push(world.forge(apply));
    let second_open = changed(&a[0], "\"seq\":0", "\"seq\":1").replace(&"0".repeat(64), &a[0].digest_hex());
    let second_open = world.forge(second_open);
    let apply_first = changed(&a[1], "\"seq\":1", "\"seq\":0").replace(&a[0].digest_hex(), &"0".repeat(64));
    vec![
        world.case("two swapped", &pick(&[0, 2, 1, 3]), "E_SEQ@1"),
        world.case("the middle dropped", &pick(&[0, 1, 3]), "E_SEQ@2"),
        world.case("one doubled", &pick(&[0, 1, 1, 2, 3]), "E_SEQ@2"),
        world.case("the head dropped", &pick(&[1, 2, 3]), "E_SEQ@0"),
        world.case("the seal alone", &pick(&[3]), "E_SEQ@0"),
        world.case("reversed", &pick(&[3, 2, 1, 0]), "E_SEQ@0"),
        world.case("the chain twice", &pick(&[0, 1, 2, 3, 0, 1, 2, 3]), "E_SEQ@4"),
        world.case("another run's receipt", &[a[0].clone(), b[1].clone()], "E_RUN@1"),
        world.case(
            "another run's seal",
            &[a[0].clone(), a[1].clone(), a[2].clone(), b[3].clone()],
            "E_RUN@3",
        ),
        world.case("another run's open", &[b[0].clone(), a[1].clone()], "E_RUN@1"),
        world.case("forked chains joined", &forked, "E_PREV@1"),
        world.case("two seals", &two_seals, "E_AFTER_SEAL@4"),
        with_diff(world.case("an apply after the seal", &appended, "E_AFTER_SEAL@4"), 4, DIFFS[1]),
        world.case("a second open", &[a[0].clone(), second_open], "E_SEQ@1"),
        with_diff(world.case("no open", &[world.forge(apply_first)], "E_SEQ@0"), 0, DIFFS[0]),
        world.case("the first with a prev", &world.resigned(0, &"0".repeat(64), &"a".repeat(64)), "E_PREV@0"),
        world.case(
            "time going back",
            &world.resigned(2, "2026-09-21T14:13:24Z", "2026-09-21T14:13:22Z"),
            "E_TIME@2",
        ),
        world.case(
            "trees that do not compose",
            &world.resigned(2, "\"tree_before\":\"sha1:0b", "\"tree_before\":\"sha1:0c"),
            "E_TREE@2",
        ),
        world.case(
            "the seal's tree is another",
            &world.resigned(3, "\"tree_after\":\"sha1:0c", "\"tree_after\":\"sha1:0d"),
            "E_TREE@3",
        ),
        world.case("a journal entry as a receipt", &[a[0].clone(), world.journal[1].clone()], "E_TYPE@1"),
        world.case("an authorization as a receipt", &[a[0].clone(), world.decisions[0].clone()], "E_TYPE@1"),
    ]
}

fn signatures(world: &World) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut signed = |name: &str, signature: [u8; 64]| {
        let bytes = world.receipts[0].bytes.clone();
        cases.push(world.case(&format!("signature: {name}"), &[Signed { bytes, signature }], "E_SIG@0"));
    };
    let bytes = &world.receipts[0].bytes;
    let good = world.receipts[0].signature;
    for bit in [0, 1, 7, 128, 254, 255, 256, 257, 300, 400, 500, 508, 509, 510, 511] {
        let mut flipped = good;
        flipped[bit / 8] ^= 1 << (bit % 8);
        signed(&format!("bit {bit} flipped"), flipped);
    }
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut odd = [0xff; 32];
    (odd[0], odd[31]) = (0xee, 0x7f);
    signed("R of small order", with_neutral_r(neutral, bytes));
    signed("R of small order, not canonical", with_neutral_r(odd, bytes));
    neutral[31] = 0x80;
    signed("R of small order with a sign", with_neutral_r(neutral, bytes));
    signed("S plus the order", plus_order(good));
    signed("Ed25519ph", prehashed(bytes));
    signed("all zero", [0; 64]);
    signed("all ones", [0xff; 64]);
    signed("another receipt's", world.receipts[1].signature);
    signed("the halves swapped", [&good[32..], &good[..32]].concat().try_into().unwrap());
    for index in 1..4 {
        let mut receipts = world.receipts.clone();
        receipts[index].signature[40] ^= 1;
        cases.push(world.case(
            &format!("signature: a bit of receipt {index}"),
            &receipts,
            &format!("E_SIG@{index}"),
        ));
    }
    cases
}

fn diffs(world: &World) -> Vec<Case> {
    let with = |name: &str, diff: Option<Content>, verdict: &str| {
        let mut case = world.case(&format!("diff: {name}"), &world.receipts[..3], verdict);
        match diff {
            Some(diff) => case.files.insert("0001.diff".to_owned(), diff),
            None => case.files.remove("0001.diff"),
        };
        case
    };
    let text = String::from_utf8(DIFFS[0].to_vec()).unwrap();
    let bytes = |text: String| Some(Content::Bytes(text.into_bytes()));
    let largest = changed(&world.receipts[1], "\"diff_len\":38", "\"diff_len\":67108865");
    let mut huge =
        world.case("diff: 64 MiB and a byte", &[world.receipts[0].clone(), world.forge(largest)], "E_SIZE@1");
    let content = Content::Repeat {
        before: String::new(),
        unit: "a",
        times: crate::MAX_DIFF + 1,
        after: String::new(),
    };
    huge.files.insert("0001.diff".to_owned(), content);
    vec![
        with("a bit flipped", bytes(text.replacen("new", "nev", 1)), "E_DIFF_HASH@1"),
        with("CRLF", bytes(text.replace('\n', "\r\n")), "E_DIFF_LEN@1"),
        with("the last newline lost", bytes(text.trim_end().to_owned()), "E_DIFF_LEN@1"),
        with("a newline added", bytes(format!("{text}\n")), "E_DIFF_LEN@1"),
        with("a BOM", bytes(format!("\u{feff}{text}")), "E_DIFF_LEN@1"),
        with("lines swapped", bytes(text.replace("-old\n+new\n", "+new\n-old\n")), "E_DIFF_HASH@1"),
        with("empty", bytes(String::new()), "E_DIFF_LEN@1"),
        with("missing", None, "E_DIFF_LEN@1"),
        with("the next receipt's", Some(Content::Bytes(DIFFS[1].to_vec())), "E_DIFF_LEN@1"),
        huge,
    ]
}

fn seals(world: &World) -> Vec<Case> {
    let head = world.receipts[2].digest_hex();
    let resealed = {
        let mut receipts = world.receipts[..2].to_vec();
        let text =
            changed(&world.receipts[3], "\"seq\":3", "\"seq\":2").replace("\"count\":3", "\"count\":2");
        let text = text.replace(&head, &receipts[1].digest_hex());
        receipts.push(world.forge(text.replace(&super::world::tree(12), &super::world::tree(11))));
        receipts
    };
    let mut known = world.case("truncated and sealed again, the head known", &resealed, "E_EXPECTED@3");
    known.request.expected.head = Some(world.receipts[3].digest());
    vec![
        world.case("seal: a lower count", &world.resigned(3, "\"count\":3", "\"count\":2"), "E_SEAL@3"),
        world.case("seal: a higher count", &world.resigned(3, "\"count\":3", "\"count\":4"), "E_SEAL@3"),
        world.case(
            "seal: another head",
            &world.resigned(3, &format!("\"head\":\"{head}"), &format!("\"head\":\"{}", "a".repeat(64))),
            "E_SEAL@3",
        ),
        world.case("truncated and sealed again, nothing known", &resealed, "VALID_CHAIN"),
        known,
    ]
}
