//! What a row keeps of a signed line: its exact bytes and the detached signature.

use crate::digest::Digest;

/// The bytes that were signed, and the Ed25519 signature over them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signed {
    pub bytes: Vec<u8>,
    pub signature: [u8; 64],
}

impl Signed {
    /// SHA-256 of the bytes: what the next line of the chain names as its predecessor.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.bytes)
    }
}
