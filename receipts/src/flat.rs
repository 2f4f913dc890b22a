//! The flat grammar: one JSON object whose values are strings or integers, in RFC 8785 form.
//!
//! A general parser is not used, since parsers differ in depth, big numbers and byte-order marks, and
//! both verifiers must say the same of every input.

use crate::gate::{Check, on};
use crate::verify::Code;

/// A member's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Text(String),
    /// 0 to 2^53-1.
    Int(u64),
    /// `null`, `true`, `false`: well-formed, and never what a member may be.
    Literal(&'static str),
    /// A number that is not in the one form that an integer has.
    OddNumber,
}

/// Members in the order in which they stand.
pub type Members = Vec<(String, Value)>;

/// The largest integer that every JSON reader keeps.
pub const MAX_INT: u64 = (1 << 53) - 1;

/// Reads `bytes`, which must be the canonical form of a flat object.
pub fn read(bytes: &[u8]) -> Result<Members, Code> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => std::borrow::Cow::Borrowed(text),
        Err(_) if on(Check::Utf8) => return Err(Code::Utf8),
        Err(_) => String::from_utf8_lossy(bytes),
    };
    let mut scanner = Scanner { text: &text, at: 0 };
    let members = scanner.object().ok_or(Code::Json)?;
    if on(Check::Trailing) && scanner.at != text.len() {
        return Err(Code::Json);
    }
    if on(Check::CanonicalBytes) && write(&members).as_bytes() != bytes {
        return Err(Code::Noncanon);
    }
    Ok(members)
}

/// The canonical form: members sorted by UTF-16 units and each once, no spaces, the shortest escapes.
pub fn write(members: &[(String, Value)]) -> String {
    let mut sorted: Vec<&(String, Value)> = members.iter().collect();
    if !sorted.is_sorted_by(|a, b| by_units(&a.0, &b.0).is_lt()) {
        sorted.sort_by(|a, b| by_units(&a.0, &b.0));
        sorted.dedup_by(|a, b| a.0 == b.0);
    }
    let mut text = String::with_capacity(1024);
    text.push('{');
    for (index, (name, value)) in sorted.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_text(name, &mut text);
        text.push(':');
        match value {
            Value::Text(value) => write_text(value, &mut text),
            Value::Int(value) => text.push_str(&value.to_string()),
            Value::Literal(word) => text.push_str(word),
            // Never what was read, so that the bytes differ.
            Value::OddNumber => text.push('0'),
        }
    }
    text.push('}');
    text
}

fn by_units(a: &str, b: &str) -> std::cmp::Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

fn write_text(value: &str, text: &mut String) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            control if control < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => text.push(other),
        }
    }
    text.push('"');
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn object(&mut self) -> Option<Members> {
        let mut members = Vec::new();
        self.spaces();
        self.take(b'{')?;
        self.spaces();
        if self.take(b'}').is_none() {
            loop {
                self.spaces();
                let name = self.string()?;
                self.spaces();
                self.take(b':')?;
                self.spaces();
                let value = self.value()?;
                members.push((name, value));
                self.spaces();
                if self.take(b',').is_none() {
                    self.take(b'}')?;
                    break;
                }
            }
        }
        self.spaces();
        Some(members)
    }

    fn value(&mut self) -> Option<Value> {
        match self.peek()? {
            b'"' => self.string().map(Value::Text),
            b'-' | b'0'..=b'9' => self.number(),
            _ => ["null", "true", "false"]
                .into_iter()
                .find(|word| self.text[self.at..].starts_with(word))
                .map(|word| {
                    self.at += word.len();
                    Value::Literal(word)
                }),
        }
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<Value> {
        let start = self.at;
        let negative = self.take(b'-').is_some();
        if self.take(b'0').is_none() {
            self.digits()?;
        }
        let mut plain = !negative;
        if self.take(b'.').is_some() {
            plain = false;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            plain = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let small =
            self.text[start..self.at].parse::<u64>().ok().filter(|&number| plain && number <= MAX_INT);
        Some(small.map_or(Value::OddNumber, Value::Int))
    }

    fn string(&mut self) -> Option<String> {
        self.take(b'"')?;
        let mut value = String::new();
        loop {
            let character = self.text[self.at..].chars().next()?;
            self.at += character.len_utf8();
            match character {
                '"' => return Some(value),
                '\\' => value.push(self.escape()?),
                control if on(Check::ControlCharacter) && control < ' ' => return None,
                other => value.push(other),
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.unit()?;
                if (0xd800..0xdc00).contains(&unit) {
                    self.take(b'\\')?;
                    self.take(b'u')?;
                    let low = self.unit()?;
                    char::decode_utf16([unit, low]).next()?.ok()?
                } else {
                    char::from_u32(u32::from(unit))?
                }
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u16::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_read() {
        assert!(read(br#"{"a":1,"b":"x\n"}"#).is_ok());
        for (text, code) in [
            (&br#"{"b":1,"a":2}"#[..], Code::Noncanon),
            (br#"{ "a":1}"#, Code::Noncanon),
            (br#"{"a":1,"a":1}"#, Code::Noncanon),
            (br#"{"a":"\u0041"}"#, Code::Noncanon),
            (br#"{"a":1.0}"#, Code::Noncanon),
            (br#"{"a":1e0}"#, Code::Noncanon),
            (br#"{"a":9007199254740992}"#, Code::Noncanon),
            (br#"{"a":01}"#, Code::Json),
            (br#"{"a":{}}"#, Code::Json),
            (br#"{"a":1}x"#, Code::Json),
            (b"\xef\xbb\xbf{}", Code::Json),
            (br#"{"a":"\ud800"}"#, Code::Json),
            (b"{\"a\":\"\xff\"}", Code::Utf8),
            (b"", Code::Json),
        ] {
            assert_eq!(read(text), Err(code), "{}", String::from_utf8_lossy(text));
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_reads_back(text in ".{0,40}", number in 0..=MAX_INT) {
            let members = vec![("a".to_owned(), Value::Text(text)), ("b".to_owned(), Value::Int(number))];
            proptest::prop_assert_eq!(read(write(&members).as_bytes()), Ok(members));
        }

        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
            let _ = read(&bytes);
        }
    }
}
