//! Values as columns keep them: ids and enums as text, states as JSON, counts as 64-bit integers.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::StoreError;
use super::signed::Signed;

/// On PostgreSQL a losing claimer gets no row though there is more, and tries again at once; one that
/// has lost so often in a row looks again later.
pub(super) const MAX_LOST_CLAIMS: u32 = 64;

/// A value as JSON text.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our values have string keys and finite numbers")
}

/// JSON text as a value; `what` names the column.
pub(super) fn from_json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt { what, why: error.to_string() })
}

/// A text as an id, a digest or an enum with a text form.
pub(super) fn parse<T>(what: &'static str, text: &str) -> Result<T, StoreError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| StoreError::Corrupt { what, why: error.to_string() })
}

/// A count that is never negative.
pub(super) fn count<T: TryFrom<i64>>(what: &'static str, value: i64) -> Result<T, StoreError> {
    T::try_from(value).map_err(|_| StoreError::Corrupt { what, why: format!("{value} is out of range") })
}

/// A unit variant's name as serde writes it, without quotes.
pub(super) fn word(value: &impl Serialize) -> String {
    json(value).trim_matches('"').to_owned()
}

/// The unit variant that serde writes as this word.
pub(super) fn from_word<T: DeserializeOwned>(what: &'static str, word: &str) -> Result<T, StoreError> {
    from_json(what, &json(&word))
}

/// Text from outside as a TEXT column can hold it: PostgreSQL takes no NUL.
pub(super) fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Bytes and signature of two columns.
pub(super) fn signed(what: &'static str, bytes: Vec<u8>, signature: Vec<u8>) -> Result<Signed, StoreError> {
    let length = signature.len();
    let signature = signature
        .try_into()
        .map_err(|_| StoreError::Corrupt { what, why: format!("a signature of {length} bytes") })?;
    Ok(Signed { bytes, signature })
}
