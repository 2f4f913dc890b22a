//! Members of a receipt: which each kind has, and what each may be.

use crate::flat::{Members, Value};
use crate::gate::{Check, on};
use crate::key::unhex;
use crate::time::Timestamp;
use crate::verify::Code;

/// The constant that every receipt begins with.
pub const RECEIPT_TYPE: &str = "urn:x-whipstitch:receipt:v1";

/// How a run ended, as its seal says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SealOutcome {
    Succeeded,
    Failed,
    Halted,
    Aborted,
}

impl SealOutcome {
    /// The word in the receipt.
    pub const fn name(self) -> &'static str {
        match self {
            SealOutcome::Succeeded => "succeeded",
            SealOutcome::Failed => "failed",
            SealOutcome::Halted => "halted",
            SealOutcome::Aborted => "aborted",
        }
    }
}

/// What a member's value must look like.
#[derive(Clone, Copy)]
pub enum Rule {
    /// 64 lowercase hex digits.
    Hash,
    KeyId,
    Actor,
    /// 1 to 1024 bytes for people; no control, bidi or invisible separators.
    Reason,
    Time,
    /// `sha1:` or `sha256:` and hex.
    Object,
    Int,
    /// 1 or more.
    Positive,
    /// One of these words.
    Word(&'static [&'static str]),
}

const COMMON: [(&str, Rule); 9] = [
    ("actor", Rule::Actor),
    ("as_of", Rule::Time),
    ("issued_at", Rule::Time),
    ("key_id", Rule::KeyId),
    ("kind", Rule::Word(&["open", "apply", "seal"])),
    ("prev", Rule::Hash),
    ("reason", Rule::Reason),
    ("run", Rule::Hash),
    ("seq", Rule::Int),
];
const OPEN: [(&str, Rule); 2] = [("base", Rule::Object), ("job", Rule::Hash)];
const APPLY: [(&str, Rule); 5] = [
    ("diff_len", Rule::Positive),
    ("diff_sha256", Rule::Hash),
    ("journal_ref", Rule::Hash),
    ("tree_after", Rule::Object),
    ("tree_before", Rule::Object),
];
const SEAL: [(&str, Rule); 5] = [
    ("count", Rule::Int),
    ("head", Rule::Hash),
    ("journal_head", Rule::Hash),
    ("outcome", Rule::Word(&["succeeded", "failed", "halted", "aborted"])),
    ("tree_after", Rule::Object),
];

/// A read record: members by name, already held against the schema.
#[derive(Clone, Debug)]
pub struct Record(Members);

impl Record {
    /// A text member; empty where the schema of the kind has none.
    pub fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// An integer member; 0 where the schema of the kind has none.
    pub fn int(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Int(number)) => *number,
            _ => 0,
        }
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }
}

/// What a table shows of one receipt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub seq: u64,
    pub kind: String,
    pub actor: String,
    pub reason: String,
    pub issued_at: String,
    /// Bytes of the diff; `None` where the kind has none.
    pub diff_len: Option<u64>,
    /// SHA-256 of the receipt, hex.
    pub digest: String,
}

/// Holds receipt members against type and schema.
pub fn receipt(members: Members) -> Result<Record, Code> {
    typed(members, RECEIPT_TYPE, |kind| match kind {
        "open" => Some([&COMMON[..], &OPEN[..]].concat()),
        "apply" => Some([&COMMON[..], &APPLY[..]].concat()),
        "seal" => Some([&COMMON[..], &SEAL[..]].concat()),
        _ => None,
    })
}

/// Holds members against `_type` and the rules of their `kind`.
pub fn typed(
    members: Members,
    wanted: &str,
    rules: impl Fn(&str) -> Option<Vec<(&'static str, Rule)>>,
) -> Result<Record, Code> {
    let record = Record(members);
    if on(Check::Type) && record.text("_type") != wanted {
        return Err(Code::Type);
    }
    let rules = rules(record.text("kind")).ok_or(Code::Schema)?;
    let complete = !on(Check::Members) || record.0.len() == rules.len() + 1;
    let fits = rules.iter().all(|(name, rule)| record.value(name).is_some_and(|value| rule.admits(value)));
    if complete && fits && times_in_order(&record) { Ok(record) } else { Err(Code::Schema) }
}

fn times_in_order(record: &Record) -> bool {
    !on(Check::AsOf) || record.value("as_of").is_none() || record.text("as_of") <= record.text("issued_at")
}

impl Rule {
    /// Whether `value` is what the rule asks for.
    pub fn admits(self, value: &Value) -> bool {
        !on(self.check()) || self.fits(value)
    }

    const fn check(self) -> Check {
        match self {
            Rule::Hash => Check::RuleHash,
            Rule::KeyId => Check::RuleKeyId,
            Rule::Actor => Check::RuleActor,
            Rule::Reason => Check::RuleReason,
            Rule::Time => Check::RuleTime,
            Rule::Object => Check::RuleObject,
            Rule::Int => Check::RuleInt,
            Rule::Positive => Check::RulePositive,
            Rule::Word(_) => Check::RuleWord,
        }
    }

    fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (Rule::Int, Value::Int(_)) => true,
            (Rule::Positive, Value::Int(number)) => *number > 0,
            (Rule::Hash, Value::Text(text)) => unhex::<32>(text).is_some(),
            (Rule::KeyId, Value::Text(text)) => {
                text.strip_prefix("ed25519:").is_some_and(|hex| unhex::<32>(hex).is_some())
            }
            (Rule::Actor, Value::Text(text)) => is_actor(text),
            (Rule::Reason, Value::Text(text)) => is_reason(text),
            (Rule::Time, Value::Text(text)) => Timestamp::parse(text).is_some(),
            (Rule::Object, Value::Text(text)) => is_object(text),
            (Rule::Word(words), Value::Text(text)) => words.contains(&text.as_str()),
            (_, Value::Text(_) | Value::Int(_) | Value::Literal(_) | Value::OddNumber) => false,
        }
    }
}

/// `[a-z0-9][a-z0-9._:/@+-]{0,127}`.
pub fn is_actor(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 128
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || b"._:/@+-".contains(&byte))
}

/// 1 to 1024 bytes without what could hide or reorder text.
pub fn is_reason(text: &str) -> bool {
    (1..=1024).contains(&text.len()) && !text.chars().any(is_hidden)
}

fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// What a reason may hold of `text`: hidden characters become spaces, and it is cut to 1024 bytes.
pub fn reason_of(text: &str) -> String {
    let mut reason = String::new();
    for character in text.chars().map(|character| if is_hidden(character) { ' ' } else { character }) {
        if reason.len() + character.len_utf8() > 1024 {
            break;
        }
        reason.push(character);
    }
    if reason.is_empty() { "-".to_owned() } else { reason }
}

fn is_object(text: &str) -> bool {
    match text.split_once(':') {
        Some(("sha1", hex)) => unhex::<20>(hex).is_some(),
        Some(("sha256", hex)) => unhex::<32>(hex).is_some(),
        _ => false,
    }
}
