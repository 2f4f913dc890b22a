//! A replacement in arbitrary bytes: what is around it stays, and a refused one tells why.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runners::edit::{Occurrence, Replacement, str_replace};

/// What separates the file, the old text, the new text and the text that stands before.
const SEPARATOR: u8 = 0x1e;
/// A repeated file has at least so many bytes.
const LONG: usize = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    let Some((&head, rest)) = bytes.split_first() else { return };
    let mut parts = rest.splitn(4, |&byte| byte == SEPARATOR);
    let mut part = || parts.next().unwrap_or_default();
    let (content, old, new, before) = (part(), part(), part(), part());
    let content =
        if head & 0x80 != 0 && !content.is_empty() { content.repeat(LONG / content.len() + 1) } else { content.to_vec() };
    let occurrence = match head & 3 {
        0 => Occurrence::Only,
        1 => Occurrence::All,
        2 => Occurrence::AtLine(usize::from(head >> 2 & 7)),
        _ => Occurrence::After(before),
    };
    match str_replace(&content, &Replacement { old, new, occurrence }) {
        Ok(done) => {
            assert!(done.places > 0 && (done.places == 1 || occurrence == Occurrence::All));
            if done.note.is_none() {
                let length = content.len() + done.places * new.len() - done.places * old.len();
                assert_eq!(done.content.len(), length);
            }
            let same = content.iter().zip(&done.content).take_while(|(one, other)| one == other).count();
            let first = content.windows(old.len()).position(|window| window == old);
            assert!(first.is_none_or(|first| same >= first), "what stands before the text changed");
        }
        Err(error) => assert!(error.to_string().len() < 4_000),
    }
});
