//! No bytes make the verifier panic, and none are a valid chain of a key that has signed nothing.
//!
//! `receipts/fuzz/run` builds and runs it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use receipts::report::{Files, Request, verify};
use receipts::{Signer, bundle};

fuzz_target!(|bytes: &[u8]| {
    let files = [bundle::RECEIPTS, bundle::JOURNAL, bundle::AUTHORIZATIONS]
        .map(|name| (name.to_owned(), bytes.to_vec()));
    let request = Request { journal: true, authorizations: true, exports: true, ..Request::default() };
    let report = verify(&Files::Memory(files.into()), &Signer::from_seed(&[7; 32]).public_key(), &request);
    assert!(report.exit_code != 0, "{:?}", report.lines);
});
