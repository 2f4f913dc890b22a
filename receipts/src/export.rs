//! A second signature at issue time: a DSSE envelope of an in-toto Statement, for tools that know those.
//!
//! The statement is a pure function of the receipt, so that verifying the export is composing it again
//! and comparing bytes. It is never read for a verdict on the receipt itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::flat;
use crate::gate::{Check, on};
use crate::key::{PublicKey, Signed, Signer};
use crate::record;
use crate::verify::Code;

/// The media type that the envelope's signature covers.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// The file of the export of receipt `seq`.
pub fn file(seq: u64) -> String {
    format!("{seq:04}.dsse.json")
}

/// The statement of a receipt: its diff as the subject, or itself where it has none.
pub fn statement(receipt: &[u8]) -> Result<String, Code> {
    let record = record::receipt(flat::read(receipt)?)?;
    let text = std::str::from_utf8(receipt).map_err(|_| Code::Utf8)?;
    let seq = record.int("seq");
    let (digest, name) = match record.text("kind") {
        "apply" => (record.text("diff_sha256").to_owned(), format!("{seq:04}.diff")),
        _ => (crate::key::hex(&crate::digest(receipt)), format!("{seq:04}.receipt.json")),
    };
    Ok(format!(
        r#"{{"_type":"https://in-toto.io/Statement/v1","predicate":{text},"predicateType":"{}","subject":[{{"digest":{{"sha256":"{digest}"}},"name":"{name}"}}]}}"#,
        record::RECEIPT_TYPE
    ))
}

/// What the signature covers: DSSE's pre-authentication encoding.
fn encoding(statement: &str) -> String {
    format!("DSSEv1 {} {PAYLOAD_TYPE} {} {statement}", PAYLOAD_TYPE.len(), statement.len())
}

/// The envelope's text before and after its signature.
fn around(statement: &str, key_id: &str) -> (String, String) {
    let payload = STANDARD.encode(statement);
    (
        format!(
            r#"{{"payload":"{payload}","payloadType":"{PAYLOAD_TYPE}","signatures":[{{"keyid":"{key_id}","sig":""#
        ),
        r#""}]}"#.to_owned(),
    )
}

/// Signs the export of a receipt that this signer issued; one of another key is `E_KEYID`.
pub fn sign(signer: &Signer, receipt: &Signed) -> Result<Vec<u8>, Code> {
    if record::receipt(flat::read(&receipt.bytes)?)?.text("key_id") != signer.key_id() {
        return Err(Code::KeyId);
    }
    let statement = statement(&receipt.bytes)?;
    let signed = signer.sign(encoding(&statement));
    let (before, after) = around(&statement, &signer.key_id());
    Ok(format!("{before}{}{after}", STANDARD.encode(signed.signature)).into_bytes())
}

/// Whether `envelope` is the export of `receipt`, signed by `key`; all that is not is `E_EXPORT`.
pub fn verify(envelope: &[u8], receipt: &[u8], key: &PublicKey) -> Result<(), Code> {
    let statement = statement(receipt).map_err(|_| Code::Export)?;
    let (before, after) = around(&statement, key.id());
    let signature = envelope
        .strip_prefix(before.as_bytes())
        .and_then(|rest| rest.strip_suffix(after.as_bytes()))
        .and_then(signature_of);
    let Some(signature) = signature else {
        return if on(Check::ExportForm) { Err(Code::Export) } else { Ok(()) };
    };
    if on(Check::ExportSignature) && !key.verifies(encoding(&statement).as_bytes(), &signature) {
        return Err(Code::Export);
    }
    Ok(())
}

/// 64 bytes in the one base64 text that they have.
fn signature_of(text: &[u8]) -> Option<[u8; 64]> {
    let bytes = STANDARD.decode(text).ok()?;
    (STANDARD.encode(&bytes).as_bytes() == text).then(|| bytes.try_into().ok()).flatten()
}
