//! One receipt's text: its form, and each member of each kind.

use super::Case;
use super::world::{World, changed};
use crate::flat::{self, Members, Value};
use crate::{Signed, bundle};

pub(super) fn cases(world: &World) -> Vec<Case> {
    [forms(world), altered(world), missing(world), rules(world)].into_iter().flatten().collect()
}

/// The chain up to `index`, the last with `bytes` in its place, signed by the chain's own key.
fn with(world: &World, index: usize, bytes: impl Into<Vec<u8>>) -> Vec<Signed> {
    let mut receipts = world.receipts[..index].to_vec();
    receipts.push(world.forge(bytes));
    receipts
}

fn forms(world: &World) -> Vec<Case> {
    let text = String::from_utf8(world.receipts[0].bytes.clone()).unwrap();
    let replace = |from: &str, to: &str| changed(&world.receipts[0], from, to).into_bytes();
    let seq = |number: &str| replace("\"seq\":0", &format!("\"seq\":{number}"));
    let reason = |inside: &str| replace("asked by a comment", inside);
    let last_first = format!("{{\"seq\":0,{}", text[1..].replace(",\"seq\":0", ""));
    let invalid = |bytes: &[u8]| {
        let place = text.find("asked").unwrap();
        [&text.as_bytes()[..place], bytes, &text.as_bytes()[place..]].concat()
    };
    let list: Vec<(&str, Vec<u8>, &str)> = vec![
        ("members reordered", last_first.into_bytes(), "E_NONCANON"),
        ("a space after the brace", replace("{", "{ "), "E_NONCANON"),
        ("a space after a colon", replace("\"seq\":", "\"seq\": "), "E_NONCANON"),
        ("spaces around all", format!("  {text} ").into_bytes(), "E_NONCANON"),
        ("tabs for spaces", replace(",\"seq\"", ",\t\"seq\""), "E_NONCANON"),
        ("an escaped letter", replace("asked", "\\u0061sked"), "E_NONCANON"),
        ("an escaped slash", replace("user/", "user\\/"), "E_NONCANON"),
        ("an escaped pair", reason("\\ud83d\\ude00"), "E_NONCANON"),
        (
            "a member twice, the same",
            replace("{", "{\"_type\":\"urn:x-whipstitch:receipt:v1\","),
            "E_NONCANON",
        ),
        ("a member twice, another value", replace("\"seq\":0", "\"seq\":0,\"seq\":1"), "E_NONCANON"),
        ("a number 0.0", seq("0.0"), "E_NONCANON"),
        ("a number 0e0", seq("0e0"), "E_NONCANON"),
        ("a number 1E+2", seq("1E+2"), "E_NONCANON"),
        ("a number -0", seq("-0"), "E_NONCANON"),
        ("a number -1", seq("-1"), "E_NONCANON"),
        ("a number 2^53", seq("9007199254740992"), "E_NONCANON"),
        ("a number 2^53 + 1", seq("9007199254740993"), "E_NONCANON"),
        ("a number of 400 digits", seq(&"9".repeat(400)), "E_NONCANON"),
        ("a number 1.5", seq("1.5"), "E_NONCANON"),
        ("a number 2^53 - 1", seq("9007199254740991"), "E_SEQ"),
        ("a number 00", seq("00"), "E_JSON"),
        ("a number +1", seq("+1"), "E_JSON"),
        ("a number .5", seq(".5"), "E_JSON"),
        ("a number 1.", seq("1."), "E_JSON"),
        ("a number 1e", seq("1e"), "E_JSON"),
        ("NaN", seq("NaN"), "E_JSON"),
        ("trailing text", format!("{text}x").into_bytes(), "E_JSON"),
        ("a second object", format!("{text}{{}}").into_bytes(), "E_JSON"),
        ("a trailing NUL", format!("{text}\0").into_bytes(), "E_JSON"),
        ("a trailing comma", replace("\"seq\":0}", "\"seq\":0,}"), "E_JSON"),
        ("a leading comma", replace("{", "{,"), "E_JSON"),
        ("a BOM signed too", format!("\u{feff}{text}").into_bytes(), "E_JSON"),
        ("a no-break space between", replace(",\"seq\"", ",\u{a0}\"seq\""), "E_JSON"),
        ("a form feed between", replace(",\"seq\"", ",\u{c}\"seq\""), "E_JSON"),
        ("a comment", replace("{", "{/**/"), "E_JSON"),
        ("single quotes", text.replace('"', "'").into_bytes(), "E_JSON"),
        ("an object in a member", reason("x\",\"z\":{},\"y\":\""), "E_JSON"),
        ("an array in a member", seq("[]"), "E_JSON"),
        ("a list of receipts", format!("[{text}]").into_bytes(), "E_JSON"),
        ("a lone high surrogate", reason("\\ud800"), "E_JSON"),
        ("a lone low surrogate", reason("\\udc00"), "E_JSON"),
        ("two high surrogates", reason("\\ud800\\ud800"), "E_JSON"),
        ("an escape of three digits", reason("\\u006"), "E_JSON"),
        ("an escape with a sign", reason("\\u+061"), "E_JSON"),
        ("an unknown escape", reason("\\x61"), "E_JSON"),
        ("a raw control character", reason("a\u{1}b"), "E_JSON"),
        ("a raw tab in a text", reason("a\tb"), "E_JSON"),
        ("a text without an end", text.as_bytes()[..text.len() - 60].to_vec(), "E_JSON"),
        ("an open brace alone", b"{".to_vec(), "E_JSON"),
        ("null alone", b"null".to_vec(), "E_JSON"),
        ("an empty object", b"{}".to_vec(), "E_TYPE"),
        ("a byte FF", invalid(b"\xff"), "E_UTF8"),
        ("an overlong slash", invalid(b"\xc0\xaf"), "E_UTF8"),
        ("a surrogate in UTF-8", invalid(b"\xed\xa0\x80"), "E_UTF8"),
        ("a cut character", invalid(b"\xe2\x82"), "E_UTF8"),
        ("above the last character", invalid(b"\xf4\x90\x80\x80"), "E_UTF8"),
        (
            "UTF-16",
            text.encode_utf16()
                .flat_map(u16::to_be_bytes)
                .filter(|&b| b != b'\n' && b != b'\t')
                .chain([0xff])
                .collect(),
            "E_UTF8",
        ),
        (
            "names in the order of UTF-8 bytes",
            replace(",\"seq\":0}", ",\"seq\":0,\"\u{fb33}\":1,\"\u{1f600}\":1}"),
            "E_NONCANON",
        ),
        (
            "names in the order of UTF-16 units",
            replace(",\"seq\":0}", ",\"seq\":0,\"\u{1f600}\":1,\"\u{fb33}\":1}"),
            "E_SCHEMA",
        ),
    ];
    let case = |(name, bytes, code): (&str, Vec<u8>, &str)| {
        world.case(&format!("form: {name}"), &with(world, 0, bytes), &format!("{code}@0"))
    };
    list.into_iter().map(case).collect()
}

/// Another legal value of a member.
fn another(name: &str, value: &Value) -> Value {
    let text = match value {
        Value::Int(number) => return Value::Int(number + 1),
        Value::Text(text) => text,
        Value::Literal(_) | Value::OddNumber => unreachable!("no good receipt has one"),
    };
    Value::Text(match name {
        "_type" => "urn:x-whipstitch:receipt:v2".to_owned(),
        "kind" => if text == "open" { "seal" } else { "open" }.to_owned(),
        "outcome" => "failed".to_owned(),
        "actor" => "agent:other/2".to_owned(),
        "reason" => format!("{text}!"),
        "as_of" => "2026-09-20T00:00:00Z".to_owned(),
        "issued_at" => "2026-09-22T00:00:00Z".to_owned(),
        _ => {
            let last = if text.ends_with('0') { "1" } else { "0" };
            format!("{}{last}", &text[..text.len() - 1])
        }
    })
}

/// Each member changed to another legal value and written canonically, by one who cannot sign.
fn altered(world: &World) -> Vec<Case> {
    let mut cases = Vec::new();
    for index in [0, 1, 3] {
        let members = flat::read(&world.receipts[index].bytes).unwrap();
        for (place, (name, value)) in members.iter().enumerate() {
            let mut altered: Members = members.clone();
            altered[place].1 = another(name, value);
            let bytes = flat::write(&altered).into_bytes();
            let mut receipts = world.receipts[..index].to_vec();
            receipts.push(Signed { bytes, signature: world.receipts[index].signature });
            let code = match name.as_str() {
                "_type" => "E_TYPE",
                "kind" => "E_SCHEMA",
                "key_id" => "E_KEYID",
                _ => "E_SIG",
            };
            let kind = ["open", "apply", "", "seal"][index];
            cases.push(world.case(
                &format!("altered: {name} of {kind}"),
                &receipts,
                &format!("{code}@{index}"),
            ));
        }
    }
    let nfd = changed(&world.receipts[1], "caf\u{e9}", "cafe\u{301}");
    let receipts = [
        world.receipts[0].clone(),
        Signed { bytes: nfd.into_bytes(), signature: world.receipts[1].signature },
    ];
    cases.push(world.case("altered: NFD for NFC", &receipts, "E_SIG@1"));
    cases
}

/// Each member taken out by the signer itself.
fn missing(world: &World) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, own) in [
        (0, &["base", "job"][..]),
        (1, &[][..]),
        (3, &["count", "head", "journal_head", "outcome", "tree_after"][..]),
    ] {
        let members = flat::read(&world.receipts[index].bytes).unwrap();
        for (place, (name, _)) in members.iter().enumerate() {
            if index != 1 && !own.contains(&name.as_str()) {
                continue;
            }
            let mut fewer = members.clone();
            fewer.remove(place);
            let code = if name == "_type" { "E_TYPE" } else { "E_SCHEMA" };
            let receipts = with(world, index, flat::write(&fewer));
            cases.push(world.case(
                &format!("missing: {name} of {index}"),
                &receipts,
                &format!("{code}@{index}"),
            ));
        }
    }
    cases
}

/// Members that break their rule, signed by the signer itself.
fn rules(world: &World) -> Vec<Case> {
    let long = "a".repeat(1025);
    let actor = "a".repeat(129);
    let list: Vec<(&str, usize, &str, &str)> = vec![
        ("an unknown member", 0, "\"seq\":0", "\"seq\":0,\"zzz\":\"\""),
        ("a member of another kind", 0, "\"issued_at\"", "\"count\":1,\"issued_at\""),
        ("null", 1, "\"diff_len\":38", "\"diff_len\":null"),
        ("true", 1, "\"diff_len\":38", "\"diff_len\":true"),
        ("a number as a text", 1, "\"diff_len\":38", "\"diff_len\":\"38\""),
        ("a text as a number", 1, "\"actor\":\"agent:fixers/1\"", "\"actor\":1"),
        ("a diff of no bytes", 1, "\"diff_len\":38", "\"diff_len\":0"),
        ("seq as a text", 1, "\"seq\":1", "\"seq\":\"1\""),
        ("seq as null", 1, "\"seq\":1", "\"seq\":null"),
        ("count as a text", 3, "\"count\":3", "\"count\":\"3\""),
        ("upper-case hex", 1, "\"journal_ref\":\"", "\"journal_ref\":\"A"),
        ("run of 62 digits", 0, "\"run\":\"01", "\"run\":\""),
        ("run of 66 digits", 0, "\"run\":\"01", "\"run\":\"0101"),
        ("run with a letter g", 0, "\"run\":\"01", "\"run\":\"0g"),
        ("key_id of another scheme", 0, "ed25519:", "ed448:"),
        ("key_id without a scheme", 0, "ed25519:", ""),
        ("an empty actor", 0, "github:user/583231", ""),
        ("an actor with a capital", 0, "github:user/", "GitHub:user/"),
        ("an actor with a space", 0, "github:user/", "github user/"),
        ("an actor that begins with a dot", 0, "github:user/", ".github:user/"),
        ("an actor of 129 bytes", 0, "github:user/583231", &actor),
        ("an actor with a letter beyond ASCII", 0, "github:user/", "g\u{131}thub:user/"),
        ("an empty reason", 0, "asked by a comment", ""),
        ("a reason of 1025 bytes", 0, "asked by a comment", &long),
        ("a reason with an escape character", 0, "asked", "asked\\u001b"),
        ("a reason with a newline", 0, "asked", "asked\\n"),
        ("a reason with DEL", 0, "asked", "asked\u{7f}"),
        ("a reason with a C1 control", 0, "asked", "asked\u{85}"),
        ("a reason with U+202E", 0, "asked", "asked\u{202e}"),
        ("a reason with U+2066", 0, "asked", "asked\u{2066}"),
        ("a reason with U+200F", 0, "asked", "asked\u{200f}"),
        ("a reason with U+061C", 0, "asked", "asked\u{61c}"),
        ("a reason with U+2028", 0, "asked", "asked\u{2028}"),
        ("a reason with U+FEFF", 0, "asked", "asked\u{feff}"),
        ("a 30th of February", 0, "\"issued_at\":\"2026-09-21", "\"issued_at\":\"2027-02-30"),
        ("a 29th of February in 2100", 0, "\"issued_at\":\"2026-09-21", "\"issued_at\":\"2100-02-29"),
        ("a 13th month", 0, "\"issued_at\":\"2026-09-21", "\"issued_at\":\"2026-13-21"),
        ("a month 00", 0, "\"issued_at\":\"2026-09-21", "\"issued_at\":\"2027-00-21"),
        ("a day 00", 0, "\"issued_at\":\"2026-09-21", "\"issued_at\":\"2027-09-00"),
        ("a year 0000", 0, "\"as_of\":\"2026-09-21", "\"as_of\":\"0000-09-21"),
        ("an hour 24", 0, "\"as_of\":\"2026-09-21T14", "\"as_of\":\"2026-09-20T24"),
        ("a minute 60", 0, "\"as_of\":\"2026-09-21T14:13", "\"as_of\":\"2026-09-21T13:60"),
        ("a second 60", 0, "\"issued_at\":\"2026-09-21T14:13:21Z", "\"issued_at\":\"2026-09-21T14:13:60Z"),
        ("a time with a fraction", 0, "14:13:21Z", "14:13:21.0Z"),
        ("a time with an offset", 0, "14:13:21Z", "14:13:21+00:00"),
        ("a time in lower case", 0, "14:13:21Z", "14:13:21z"),
        ("issued before what it rests on", 0, "\"issued_at\":\"2026", "\"issued_at\":\"2025"),
        ("an unknown kind", 0, "\"kind\":\"open\"", "\"kind\":\"close\""),
        ("kind in upper case", 0, "\"kind\":\"open\"", "\"kind\":\"OPEN\""),
        ("another kind's name", 1, "\"kind\":\"apply\"", "\"kind\":\"seal\""),
        ("an unknown outcome", 3, "\"succeeded\"", "\"success\""),
        ("a base without an algorithm", 0, "sha1:", ""),
        ("a base of an unknown algorithm", 0, "sha1:", "sha512:"),
        ("a base of sha256 with 40 digits", 0, "sha1:", "sha256:"),
        ("a tree in upper case", 1, "\"tree_after\":\"sha1:0b", "\"tree_after\":\"sha1:0B"),
    ];
    let mut cases: Vec<Case> = list
        .into_iter()
        .map(|(name, index, from, to)| {
            world.case(
                &format!("rule: {name}"),
                &world.resigned(index, from, to),
                &format!("E_SCHEMA@{index}"),
            )
        })
        .collect();
    for (name, from, to) in [
        ("a reason of 1024 bytes", "asked by a comment", &long[1..]),
        ("a reason with an emoji and a ZWJ", "asked by a comment", "\u{1f469}\u{200d}\u{1f4bb}"),
        ("an actor of 128 bytes", "github:user/583231", &actor[1..]),
        ("a 29th of February in 2028", "\"issued_at\":\"2026-09-21", "\"issued_at\":\"2028-02-29"),
        (
            "the last second of 9999",
            "\"issued_at\":\"2026-09-21T14:13:21Z",
            "\"issued_at\":\"9999-12-31T23:59:59Z",
        ),
    ] {
        cases.push(world.case(&format!("legal: {name}"), &world.resigned(0, from, to), "UNSEALED"));
    }
    for (name, to) in [
        ("receipt:v2", "receipt:v2"),
        ("journal:v1", "journal:v1"),
        ("receipt:v1 with a space", "receipt:v1 "),
    ] {
        cases.push(world.case(&format!("type: {name}"), &world.resigned(0, "receipt:v1", to), "E_TYPE@0"));
    }
    let type_number = changed(&world.receipts[0], "\"urn:x-whipstitch:receipt:v1\"", "1");
    cases.push(world.bytes_case("type: a number", bundle::write(&[world.forge(type_number)]), "E_TYPE@0"));
    cases
}
