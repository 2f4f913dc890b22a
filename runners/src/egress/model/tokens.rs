//! How many tokens a call took, read from the answer as it passes.
//!
//! Providers tell usage in JSON objects, whole or in events of a stream, cumulative or at the end. Each of
//! the known counters is looked for as a key, and the largest value of each counts: what a model writes
//! within its text cannot look like a key, since quotes are escaped there, and what it writes into a tool
//! call can make the count larger only.

/// The counters, by their key; a total stands for itself.
const INPUT: [&str; 6] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "prompt_tokens",
    "promptTokenCount",
    "prompt_eval_count",
];
const OUTPUT: [&str; 4] = ["output_tokens", "completion_tokens", "candidatesTokenCount", "eval_count"];
const TOTAL: [&str; 2] = ["total_tokens", "totalTokenCount"];
/// The longest stretch from a key's quote to its number's end.
const REACH: usize = 96;

/// Reads an answer chunk by chunk.
#[derive(Debug, Default)]
pub struct Tokens {
    input: [u64; INPUT.len()],
    output: [u64; OUTPUT.len()],
    total: [u64; TOTAL.len()],
    is_told: bool,
    /// The end of what was read, in which a counter may be cut.
    tail: Vec<u8>,
}

impl Tokens {
    pub fn read(&mut self, chunk: &[u8]) {
        let is_first = self.tail.is_empty();
        let mut bytes = std::mem::take(&mut self.tail);
        bytes.extend_from_slice(chunk);
        for (at, _) in bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'"') {
            // The tail's first byte was looked at with what stood before it.
            let is_escaped = if at == 0 { !is_first } else { bytes[at - 1] == b'\\' };
            if !is_escaped && let Some((key, value)) = counter(&bytes[at + 1..]) {
                self.count(key, value);
            }
        }
        self.tail = bytes.split_off(bytes.len().saturating_sub(REACH));
    }

    fn count(&mut self, key: &str, value: u64) {
        let known = [
            (&INPUT[..], &mut self.input[..]),
            (&OUTPUT[..], &mut self.output[..]),
            (&TOTAL[..], &mut self.total[..]),
        ];
        for (names, values) in known {
            if let Some(at) = names.iter().position(|name| *name == key) {
                values[at] = values[at].max(value);
                self.is_told = true;
            }
        }
    }

    /// The tokens of the call so far; `None` where nothing tells.
    pub fn told(&self) -> Option<u64> {
        let sum = |values: &[u64]| values.iter().fold(0, |sum: u64, &value| sum.saturating_add(value));
        let total = self.total.iter().copied().max().unwrap_or(0);
        self.is_told.then(|| total.max(sum(&self.input).saturating_add(sum(&self.output))))
    }
}

/// A key and its whole number, after the key's first quote.
fn counter(bytes: &[u8]) -> Option<(&str, u64)> {
    let bytes = &bytes[..bytes.len().min(REACH)];
    let end = bytes.iter().position(|&byte| byte == b'"')?;
    let key = std::str::from_utf8(&bytes[..end]).ok()?;
    let rest = bytes[end + 1..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let value = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    Some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(chunks: &[&str]) -> Option<u64> {
        let mut tokens = Tokens::default();
        for chunk in chunks {
            tokens.read(chunk.as_bytes());
        }
        tokens.told()
    }

    #[test]
    fn whole_answers_and_streams_of_every_kind_tell_their_tokens() {
        let message = r#"{"content":[],"usage":{"input_tokens": 10,"cache_creation_input_tokens":5,"cache_read_input_tokens":7,"output_tokens":20}}"#;
        assert_eq!(told(&[message]), Some(42));
        let completion = r#"{"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}"#;
        assert_eq!(told(&[completion]), Some(30));
        let events = [
            "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":100,\"output_tokens\":1}}}\n\n",
            "data: {\"delta\":{\"text\":\"x\"}}\n\n",
            "data: {\"usage\":{\"output_tokens\":55}}\n\n",
        ];
        assert_eq!(told(&events), Some(155));
        assert_eq!(
            told(&[
                r#"{"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":9}}"#
            ]),
            Some(9)
        );
    }

    #[test]
    fn a_counter_that_is_cut_anywhere_is_read_whole() {
        let text = r#"{"usage":{"input_tokens": 1234,"output_tokens":5678}}"#;
        for at in 1..text.len() {
            let (before, after) = text.split_at(at);
            assert_eq!(told(&[before, after]), Some(6912), "{at}");
        }
    }

    #[test]
    fn what_a_model_writes_is_no_key() {
        let text =
            r#"{"text":"say \"output_tokens\": 9000000 or \"total_tokens\":1","usage":{"output_tokens":3}}"#;
        assert_eq!(told(&[text]), Some(3));
        assert_eq!(told(&["{\"text\":\"output_tokens: 5\"}"]), None);
    }
}
