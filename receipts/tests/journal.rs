//! A journal has one legal order, and its parts name each other.
#![allow(clippy::unwrap_used)]

use receipts::journal::{Entry, Journal, Kind, verify};
use receipts::{Signed, Signer, Timestamp};

const WHOLE: [Kind; 12] = [
    Kind::Plan,
    Kind::Admit,
    Kind::Step,
    Kind::Intent,
    Kind::Launched,
    Kind::Exited,
    Kind::Candidate,
    Kind::Check,
    Kind::Step,
    Kind::Authorise,
    Kind::Applied,
    Kind::Seal,
];

fn write(kinds: &[Kind]) -> Option<Vec<Signed>> {
    let signer = Signer::from_seed(&[7; 32]);
    let mut journal = Journal::begin([1; 32]);
    let mut intent = [0; 32];
    let mut entries = Vec::new();
    for (n, kind) in kinds.iter().enumerate() {
        let body = if *kind == Kind::Launched { intent } else { [5; 32] };
        let entry = journal
            .append(&signer, &Entry { kind: *kind, at: Timestamp::from_unix(n as i64), subject: "one", body })
            .ok()?;
        if *kind == Kind::Intent {
            intent = entry.digest();
        }
        entries.push(entry);
    }
    assert_eq!(Journal::resume([1; 32], &entries).unwrap().head(), journal.head());
    Some(entries)
}

fn verdict(entries: &[Signed]) -> String {
    verify(entries, &Signer::from_seed(&[7; 32]).public_key()).to_string()
}

#[test]
fn the_whole_order_is_valid_and_any_cut_is_unsealed() {
    let entries = write(&WHOLE).unwrap();
    assert_eq!(verdict(&entries), "VALID_CHAIN");
    for end in 0..entries.len() {
        assert_eq!(verdict(&entries[..end]), format!("J_UNSEALED@{end}"));
    }
}

#[test]
fn an_entry_out_of_order_cannot_be_written() {
    for kinds in [
        &[Kind::Admit][..],
        &[Kind::Plan, Kind::Intent],
        &[Kind::Plan, Kind::Admit, Kind::Launched],
        &[Kind::Plan, Kind::Admit, Kind::Intent, Kind::Candidate],
        &[Kind::Plan, Kind::Admit, Kind::Intent, Kind::Intent],
        &[
            Kind::Plan,
            Kind::Admit,
            Kind::Intent,
            Kind::Launched,
            Kind::Exited,
            Kind::Candidate,
            Kind::Applied,
        ],
        &[Kind::Plan, Kind::Admit, Kind::Seal, Kind::Step],
    ] {
        assert!(write(kinds).is_none(), "{kinds:?}");
    }
}

#[test]
fn an_attempt_used_twice_is_refused() {
    let kinds = [Kind::Plan, Kind::Admit, Kind::Intent, Kind::Lost, Kind::Intent, Kind::Lost, Kind::Seal];
    assert_eq!(verdict(&write(&kinds).unwrap()), "J_ORDER@4");
}

#[test]
fn a_launch_that_names_no_intent_is_refused() {
    let signer = Signer::from_seed(&[7; 32]);
    let mut journal = Journal::begin([1; 32]);
    let entries: Vec<_> = [Kind::Plan, Kind::Admit, Kind::Intent, Kind::Launched]
        .map(|kind| {
            let entry = Entry { kind, at: Timestamp::from_unix(1), subject: "one", body: [5; 32] };
            journal.append(&signer, &entry).unwrap()
        })
        .to_vec();
    assert_eq!(verdict(&entries), "J_REF@3");
}
