//! Keys that follow one another: each rotation is signed by the key that goes and the key that comes.
//!
//! Pure: bytes in, keys out. Trust begins with one key that the caller knows; the file adds the keys
//! that it named as its successors, and no others.

use crate::chain::{WriteError, text};
use crate::flat::{self, Value};
use crate::gate::{Check, on};
use crate::key::{PublicKey, Signed, Signer, hex, unhex};
use crate::record::{self, Record, Rule, reason_of};
use crate::time::Timestamp;
use crate::verify::Code;

const ROTATION_TYPE: &str = "urn:x-whipstitch:rotation:v1";
/// Largest keyring, in bytes; more than a thousand rotations.
pub const MAX_KEYRING: usize = 1 << 20;

/// The keys that a first key leads to.
#[derive(Clone, Debug)]
pub struct Keyring {
    keys: Vec<PublicKey>,
    head: [u8; 32],
    issued_at: String,
}

impl Keyring {
    /// One key, and no rotation.
    pub fn of(first: PublicKey) -> Self {
        Self { keys: vec![first], head: [0; 32], issued_at: String::new() }
    }

    /// Reads the keyring's lines; each is the rotation, a TAB, the old key's signature in hex, a TAB,
    /// the new key's, LF. The error names the line (from 0).
    pub fn read(bytes: &[u8], first: &[u8; 32]) -> Result<Self, (Code, usize)> {
        let mut keyring = Self::of(PublicKey::from_raw(first).map_err(|_| (Code::Key, 0))?);
        if on(Check::KeyringSize) && bytes.len() > MAX_KEYRING {
            return Err((Code::Size, 0));
        }
        for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            keyring.follow(line).map_err(|code| (code, index))?;
        }
        Ok(keyring)
    }

    fn follow(&mut self, line: &[u8]) -> Result<(), Code> {
        let line = match line.strip_suffix(b"\n") {
            Some(line) => line,
            None if on(Check::KeyringLine) => return Err(Code::Json),
            None => line,
        };
        let mut cells = line.rsplitn(3, |&byte| byte == b'\t');
        let (by_new, by_old, bytes) = (cells.next(), cells.next(), cells.next());
        let bytes = bytes.ok_or(Code::Json)?;
        let record = schema(flat::read(bytes)?)?;
        let new = unhex(record.text("new_key")).and_then(|raw| PublicKey::from_raw(&raw).ok());
        let new = new.ok_or(Code::Key)?;
        let old = self.current();
        if on(Check::KeyringOldKey) && record.text("key_id") != old.id() {
            return Err(Code::KeyId);
        }
        if on(Check::KeyringUsedKey) && self.find(new.id()).is_some() {
            return Err(Code::KeyId);
        }
        let signs = |key: &PublicKey, cell: Option<&[u8]>| {
            let signature = cell.and_then(|cell| std::str::from_utf8(cell).ok()).and_then(unhex::<64>);
            signature.is_some_and(|signature| key.verifies(bytes, &signature))
        };
        if on(Check::KeyringOldSignature) && !signs(old, by_old) {
            return Err(Code::Sig);
        }
        if on(Check::KeyringNewSignature) && !signs(&new, by_new) {
            return Err(Code::Sig);
        }
        if on(Check::KeyringSeq) && record.int("seq") + 1 != self.keys.len() as u64 {
            return Err(Code::Seq);
        }
        if on(Check::KeyringPrev) && record.text("prev") != hex(&self.head) {
            return Err(Code::Prev);
        }
        if on(Check::KeyringTime) && *record.text("issued_at") < *self.issued_at {
            return Err(Code::Time);
        }
        self.head = crate::digest(bytes);
        record.text("issued_at").clone_into(&mut self.issued_at);
        self.keys.push(new);
        Ok(())
    }

    /// The key that signs now.
    pub fn current(&self) -> &PublicKey {
        self.keys.last().expect("a keyring begins with its first key")
    }

    /// All keys, the first one first.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// The key of this id (`ed25519:` and hex), if the first key leads to it.
    pub fn find(&self, id: &str) -> Option<&PublicKey> {
        self.keys.iter().find(|key| key.id() == id)
    }

    /// Composes the line that makes `new` the key after `old`, which must be the current one.
    pub fn rotate(
        &self,
        old: &Signer,
        new: &Signer,
        issued_at: Timestamp,
        reason: &str,
    ) -> Result<Vec<u8>, WriteError> {
        if old.key_id() != self.current().id() || self.find(&new.key_id()).is_some() {
            return Err(WriteError::Schema);
        }
        let seq = self.keys.len() as u64 - 1;
        let members = vec![
            text("_type", ROTATION_TYPE.to_owned()),
            text("issued_at", issued_at.to_string().max(self.issued_at.clone())),
            text("key_id", old.key_id()),
            text("kind", "rotate".to_owned()),
            text("new_key", hex(&new.public_key())),
            text("prev", hex(&self.head)),
            text("reason", reason_of(reason)),
            ("seq".to_owned(), Value::Int(seq)),
        ];
        schema(members.clone()).map_err(|_| WriteError::Schema)?;
        let Signed { bytes, signature } = old.sign(flat::write(&members));
        let by_new = new.sign(flat::write(&members)).signature;
        let mut line = bytes;
        line.extend(format!("\t{}\t{}\n", hex(&signature), hex(&by_new)).bytes());
        Ok(line)
    }
}

fn schema(members: flat::Members) -> Result<Record, Code> {
    record::typed(members, ROTATION_TYPE, |kind| {
        (kind == "rotate").then(|| {
            vec![
                ("issued_at", Rule::Time),
                ("key_id", Rule::KeyId),
                ("kind", Rule::Word(&["rotate"])),
                ("new_key", Rule::Hash),
                ("prev", Rule::Hash),
                ("reason", Rule::Reason),
                ("seq", Rule::Int),
            ]
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(n: u8) -> Signer {
        Signer::from_seed(&[n; 32])
    }

    fn ring(bytes: &[u8]) -> Result<Keyring, (Code, usize)> {
        Keyring::read(bytes, &signer(1).public_key())
    }

    fn two_rotations() -> Vec<u8> {
        let at = Timestamp::from_unix(1_790_000_000);
        let mut bytes = ring(b"").unwrap().rotate(&signer(1), &signer(2), at, "yearly").unwrap();
        bytes.extend(ring(&bytes).unwrap().rotate(&signer(2), &signer(3), at, "yearly").unwrap());
        bytes
    }

    #[test]
    fn a_key_leads_to_its_successors_and_to_no_other() {
        let keyring = ring(&two_rotations()).unwrap();
        assert_eq!(keyring.current().id(), signer(3).key_id());
        assert!(keyring.find(&signer(2).key_id()).is_some());
        assert!(keyring.find(&signer(4).key_id()).is_none());
        assert_eq!(Keyring::read(&two_rotations(), &signer(2).public_key()).unwrap_err(), (Code::KeyId, 0));
    }

    #[test]
    fn both_signatures_the_order_and_the_line_are_held() {
        let good = String::from_utf8(two_rotations()).unwrap();
        let lines: Vec<&str> = good.split_inclusive('\n').collect();
        let cells: Vec<&str> = lines[0].trim_end().split('\t').collect();
        let with = |text: String| ring(text.as_bytes()).unwrap_err();
        assert_eq!(with(format!("{}\t{}\t{}\n", cells[0], cells[2], cells[2])), (Code::Sig, 0));
        assert_eq!(with(format!("{}\t{}\t{}\n", cells[0], cells[1], cells[1])), (Code::Sig, 0));
        assert_eq!(with(lines[1].to_owned()), (Code::KeyId, 0));
        assert_eq!(with(format!("{good}{}", lines[1])), (Code::KeyId, 2));
        assert_eq!(with(good.replacen("yearly", "weekly", 1)), (Code::Sig, 0));
        assert_eq!(with(good.trim_end().to_owned()), (Code::Json, 1));
    }

    #[test]
    fn a_keyring_has_at_most_a_mebibyte() {
        let line = two_rotations();
        let padded = |length: usize| [&line[..], &vec![b'x'; length - line.len()]].concat();
        assert_eq!(ring(&padded(MAX_KEYRING)).unwrap_err(), (Code::Json, 2));
        assert_eq!(ring(&padded(MAX_KEYRING + 1)).unwrap_err(), (Code::Size, 0));
    }

    #[test]
    fn a_key_that_was_in_use_never_comes_back() {
        let keyring = ring(&two_rotations()).unwrap();
        let at = Timestamp::from_unix(1_790_000_001);
        assert_eq!(keyring.rotate(&signer(3), &signer(1), at, "back").unwrap_err(), WriteError::Schema);
        assert_eq!(keyring.rotate(&signer(2), &signer(9), at, "stolen").unwrap_err(), WriteError::Schema);
    }
}
