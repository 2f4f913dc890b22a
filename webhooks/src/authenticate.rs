//! Who sent these bytes: HMAC-SHA256 over the raw body, compared in constant time, before anything
//! of the body is parsed. The older SHA-1 header is never looked at.

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

use crate::forge::{Authentic, Unauthentic};

/// The header that carries `sha256=` and 64 lowercase hex digits.
pub const SIGNATURE_HEADER: &str = "x-hub-signature-256";
/// The header that carries the delivery's id.
pub const DELIVERY_HEADER: &str = "x-github-delivery";
/// The header that carries the event's name.
pub const EVENT_HEADER: &str = "x-github-event";

/// Delivery ids and event names are short words; what is longer is not one of a forge.
const LONGEST_NAME: usize = 100;

/// A secret that signs webhooks; never empty.
#[derive(Clone, Debug)]
pub struct WebhookSecret(SecretString);

/// Without a secret anybody could send webhooks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the webhook secret is empty; set one of at least 16 random characters, the same as at the forge")]
pub struct EmptySecret;

impl WebhookSecret {
    /// Takes a secret; one that is empty or only blank is refused.
    pub fn new(secret: SecretString) -> Result<Self, EmptySecret> {
        if secret.expose_secret().trim().is_empty() { Err(EmptySecret) } else { Ok(Self(secret)) }
    }

    /// The value of the signature header for `body`.
    pub fn sign(&self, body: &[u8]) -> String {
        format!("sha256={}", hex::encode(mac(self.0.expose_secret().as_bytes(), body)))
    }

    /// Checks the one signature in `headers` over the raw `body`, then reads the delivery's identity.
    pub fn authenticate(&self, headers: &HeaderMap, body: Bytes) -> Result<Authentic, Unauthentic> {
        let given = signature(headers).ok_or(Unauthentic::NoSignature)?;
        if !mac_matches(self.0.expose_secret().as_bytes(), &body, &given) {
            return Err(Unauthentic::WrongSignature);
        }
        let delivery = name(headers, DELIVERY_HEADER).ok_or(Unauthentic::NoIdentity)?;
        let event = name(headers, EVENT_HEADER).ok_or(Unauthentic::NoIdentity)?;
        Ok(Authentic { delivery, event, body })
    }
}

/// HMAC-SHA256 of `message` under `key`.
pub fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    keyed(key).chain_update(message).finalize().into_bytes().into()
}

/// Whether `given` is the HMAC-SHA256 of `message` under `key`; takes the same time for every
/// `given` of the right length.
pub fn mac_matches(key: &[u8], message: &[u8], given: &[u8]) -> bool {
    keyed(key).chain_update(message).verify_slice(given).is_ok()
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// The 32 bytes of the one signature header; none where it is missing, doubled or malformed.
fn signature(headers: &HeaderMap) -> Option<[u8; 32]> {
    let digits = only(headers, SIGNATURE_HEADER)?.strip_prefix("sha256=")?;
    let lower = digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let mut bytes = [0; 32];
    (lower && hex::decode_to_slice(digits, &mut bytes).is_ok()).then_some(bytes)
}

fn name(headers: &HeaderMap, header: &str) -> Option<String> {
    let text = only(headers, header)?;
    let fits = (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    fits.then(|| text.to_owned())
}

fn only<'a>(headers: &'a HeaderMap, header: &str) -> Option<&'a str> {
    let mut values = headers.get_all(header).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn secret() -> WebhookSecret {
        WebhookSecret::new("It's a Secret to Everybody".into()).unwrap()
    }

    fn headers(signatures: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(DELIVERY_HEADER, "72d3162e-cc78-11e3-81ab-4c9367dc0958".parse().unwrap());
        headers.insert(EVENT_HEADER, "issue_comment".parse().unwrap());
        for signature in signatures {
            headers.append(SIGNATURE_HEADER, signature.parse().unwrap());
        }
        headers
    }

    fn check(signatures: &[&str], body: &'static str) -> Result<Authentic, Unauthentic> {
        secret().authenticate(&headers(signatures), Bytes::from_static(body.as_bytes()))
    }

    #[test]
    fn d1_only_the_signature_of_the_raw_bytes_is_accepted() {
        assert_eq!(secret().sign(b"Hello, World!"), RIGHT);
        assert_eq!(check(&[RIGHT], "Hello, World!").unwrap().event, "issue_comment");
        for body in ["Hello, World! ", "Hello, World", "hello, World!", ""] {
            assert_eq!(check(&[RIGHT], body).unwrap_err(), Unauthentic::WrongSignature, "{body:?}");
        }
        for at in 7..RIGHT.len() {
            let mut wrong = RIGHT.as_bytes().to_vec();
            wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert_eq!(check(&[&wrong], "Hello, World!").unwrap_err(), Unauthentic::WrongSignature);
        }
    }

    #[test]
    fn d2_a_missing_malformed_or_doubled_signature_is_none() {
        let upper = RIGHT.to_uppercase();
        let short = &RIGHT[..RIGHT.len() - 2];
        for signatures in [
            vec![],
            vec![""],
            vec!["sha256="],
            vec![short],
            vec![&*upper],
            vec![&RIGHT[7..]],
            vec![RIGHT, RIGHT],
        ] {
            assert_eq!(check(&signatures, "Hello, World!").unwrap_err(), Unauthentic::NoSignature);
        }
    }

    #[test]
    fn d2_the_sha1_header_alone_proves_nothing() {
        let mut headers = headers(&[]);
        headers.insert("x-hub-signature", "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59".parse().unwrap());
        let refused = secret().authenticate(&headers, Bytes::from_static(b"Hello, World!")).unwrap_err();
        assert_eq!(refused, Unauthentic::NoSignature);
    }

    #[test]
    fn d2_an_empty_secret_is_refused() {
        for empty in ["", " ", "\n\t "] {
            assert_eq!(WebhookSecret::new(empty.into()).unwrap_err(), EmptySecret);
        }
    }

    #[test]
    fn a_signed_request_without_identity_is_refused() {
        for header in [DELIVERY_HEADER, EVENT_HEADER] {
            let mut headers = headers(&[RIGHT]);
            headers.remove(header);
            let body = Bytes::from_static(b"Hello, World!");
            assert_eq!(secret().authenticate(&headers, body).unwrap_err(), Unauthentic::NoIdentity);
        }
    }
}
