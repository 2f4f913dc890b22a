//! Ed25519, strictly: S < L, A and R canonical, neither of small order, the cofactorless equation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::pkcs8::DecodePrivateKey as _;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

use crate::gate::{Check, on};

/// SHA-256 of `bytes`.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let bytes = text.as_bytes();
    if bytes.len() != 2 * N || !bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut out = [0; N];
    for (index, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(out)
}

/// Bytes and the detached signature over them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signed {
    pub bytes: Vec<u8>,
    pub signature: [u8; 64],
}

impl Signed {
    /// SHA-256 of the signed bytes.
    pub fn digest(&self) -> [u8; 32] {
        digest(&self.bytes)
    }

    /// The digest as 64 lowercase hex digits.
    pub fn digest_hex(&self) -> String {
        hex(&self.digest())
    }
}

/// Holds a private key; signs records that this crate composed, and nothing else.
pub struct Signer(SigningKey);

impl Signer {
    /// The key whose RFC 8032 seed is `seed`.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The key in a PKCS#8 PEM, such as `openssl genpkey -algorithm ed25519` writes.
    pub fn from_pkcs8(pem: &str) -> Result<Self, PrivateKeyError> {
        SigningKey::from_pkcs8_pem(pem.trim()).map(Self).map_err(|_| PrivateKeyError)
    }

    /// The raw public key.
    pub fn public_key(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }

    /// `ed25519:` and the hex SHA-256 of the raw public key.
    pub fn key_id(&self) -> String {
        key_id(&self.public_key())
    }

    pub(crate) fn sign(&self, text: String) -> Signed {
        let bytes = text.into_bytes();
        let signature = self.0.sign(&bytes).to_bytes();
        Signed { bytes, signature }
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({})", self.key_id())
    }
}

fn key_id(raw: &[u8; 32]) -> String {
    format!("ed25519:{}", hex(&digest(raw)))
}

/// A text that is no private key. It says nothing of the text, which is a secret.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an Ed25519 private key: give a PKCS#8 PEM, as `openssl genpkey -algorithm ed25519` writes it")]
pub struct PrivateKeyError;

/// A text or file that is no usable public key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an Ed25519 public key: give 32 raw bytes, 64 hex digits or an SPKI PEM, of a key that is not of small order"
)]
pub struct KeyError;

/// A public key that a signature may be held against.
#[derive(Clone, Debug)]
pub struct PublicKey {
    key: VerifyingKey,
    id: String,
}

impl PublicKey {
    /// A raw key; refuses one that is not canonical or of small order.
    pub fn from_raw(raw: &[u8; 32]) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(raw).map_err(|_| KeyError)?;
        if on(Check::KeySmallOrder) && key.is_weak() {
            return Err(KeyError);
        }
        if on(Check::KeyCanonical) && !is_canonical_point(raw) {
            return Err(KeyError);
        }
        Ok(Self { key, id: key_id(raw) })
    }

    /// The key in what a person gives: 32 raw bytes, 64 lowercase hex digits, or an SPKI PEM.
    pub fn parse(input: &[u8]) -> Result<Self, KeyError> {
        Self::from_raw(&raw_key(input).ok_or(KeyError)?)
    }

    /// The 32 raw bytes.
    pub fn raw(&self) -> [u8; 32] {
        self.key.to_bytes()
    }

    /// `ed25519:` and the hex SHA-256 of the raw key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether `signature` is a strict signature of `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        if !on(Check::SignatureStrict) {
            use ed25519_dalek::Verifier as _;
            return self.key.verify(message, &Signature::from_bytes(signature)).is_ok();
        }
        let (r, s) = signature.split_at(32);
        is_below_order(s)
            && <&[u8; 32]>::try_from(r).is_ok_and(is_canonical_point)
            && self.key.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

/// The DER of an Ed25519 SubjectPublicKeyInfo before its 32 bytes of key (RFC 8410, 4).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The 32 bytes in what a person gives as a key, whether or not they are a key that may be used.
///
/// Spaces around it are ASCII's, and base64 has its one form, so that both verifiers read the same.
pub fn raw_key(input: &[u8]) -> Option<[u8; 32]> {
    if let Ok(raw) = input.try_into() {
        return Some(raw);
    }
    let text = std::str::from_utf8(input.trim_ascii()).ok()?;
    if let Some(raw) = unhex(text) {
        return Some(raw);
    }
    let body =
        text.strip_prefix("-----BEGIN PUBLIC KEY-----")?.strip_suffix("-----END PUBLIC KEY-----")?.as_bytes();
    let digits: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let der = STANDARD.decode(digits).ok()?;
    der.strip_prefix(&SPKI)?.try_into().ok()
}

/// The group's order L, little-endian (RFC 8032, 5.1).
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// Whether S < L. Said here too, since a feature of the library that any crate can switch on drops it.
fn is_below_order(s: &[u8]) -> bool {
    s.iter().rev().lt(ORDER.iter().rev())
}

/// Whether y < 2^255 - 19, and the sign bit is not set on a point whose x is 0.
fn is_canonical_point(raw: &[u8; 32]) -> bool {
    let mut prime = [0xff; 32];
    prime[0] = 0xed;
    prime[31] = 0x7f;
    let mut y = *raw;
    y[31] &= 0x7f;
    if !y.iter().rev().lt(prime.iter().rev()) {
        return false;
    }
    let mut one = [0; 32];
    one[0] = 1;
    let mut minus_one = prime;
    minus_one[0] = 0xec;
    let zero_x = y == one || y == minus_one;
    !(zero_x && raw[31] & 0x80 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_vector_of_rfc_8032_holds() {
        let seed = unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let signer = Signer::from_seed(&seed);
        assert_eq!(
            hex(&signer.public_key()),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
        );
        let signed = signer.sign(String::new());
        assert!(hex(&signed.signature).starts_with("e5564300c360ac729086e2cc806e828a"));
        assert!(PublicKey::from_raw(&signer.public_key()).unwrap().verifies(b"", &signed.signature));
    }

    #[test]
    fn a_private_key_is_read_from_pkcs8() {
        let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
        let seed = unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let signer = Signer::from_pkcs8(pem).unwrap();
        assert_eq!(signer.public_key(), Signer::from_seed(&seed).public_key());
        let public = pem.replace("PRIVATE", "PUBLIC");
        assert_eq!(Signer::from_pkcs8(&public).unwrap_err(), PrivateKeyError);
        assert_eq!(Signer::from_pkcs8(&pem.replace("MC4C", "MC4D")).unwrap_err(), PrivateKeyError);
    }

    #[test]
    fn our_own_check_of_s_stands_by_itself() {
        let with = |index: usize, byte: u8| {
            let mut s = ORDER;
            s[index] = byte;
            s
        };
        assert!(is_below_order(&with(0, ORDER[0] - 1)) && is_below_order(&[0; 32]));
        assert!(is_below_order(&with(31, 0x0f)) && is_below_order(&with(15, 0x13)));
        for s in [ORDER, with(0, ORDER[0] + 1), with(16, 1), with(31, 0x11), with(31, 0x90), [0xff; 32]] {
            assert!(!is_below_order(&s), "{s:?}");
        }
    }

    #[test]
    fn s_plus_l_and_small_order_keys_are_refused() {
        let signer = Signer::from_seed(&[7; 32]);
        let key = PublicKey::from_raw(&signer.public_key()).unwrap();
        let mut signature = signer.sign("x".to_owned()).signature;
        let mut carry = 0;
        for (byte, order) in signature[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(order) + carry;
            *byte = sum.to_le_bytes()[0];
            carry = sum >> 8;
        }
        assert!(!key.verifies(b"x", &signature));
        let mut identity = [0; 32];
        identity[0] = 1;
        assert_eq!(PublicKey::from_raw(&identity).unwrap_err(), KeyError);
        assert_eq!(PublicKey::from_raw(&[0; 32]).unwrap_err(), KeyError);
    }
}
