//! Git's binary patches: base-85 lines of a zlib stream that holds a file, or a delta to it.

use crate::workspace::zlib::{self, NotTheStream};

/// Git's alphabet for base 85.
const ALPHABET: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// A binary file may not grow beyond this while it is unpacked.
pub const MAX_BINARY_BYTES: usize = 64 << 20;
/// Bytes in a full line.
const LINE_BYTES: usize = 52;

/// How a binary hunk gives the new content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BinaryHunk {
    /// The whole content.
    Literal { size: usize, stream: Vec<u8> },
    /// Copies from the old content and new bytes.
    Delta { size: usize, stream: Vec<u8> },
}

/// A binary hunk that gives no content.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BinaryError {
    #[error("a line of binary data is damaged")]
    Line,
    #[error("the binary data says it has {0} bytes, over the bound")]
    TooLarge(usize),
    #[error(transparent)]
    Stream(#[from] NotTheStream),
    #[error("the binary delta does not fit the file")]
    Delta,
}

impl BinaryHunk {
    /// The new content, from the old one.
    pub fn apply(&self, old: &[u8], bound: usize) -> Result<Vec<u8>, BinaryError> {
        let bytes = self.inflate(bound)?;
        match self {
            BinaryHunk::Literal { .. } => Ok(bytes),
            BinaryHunk::Delta { .. } => patch_delta(old, &bytes, bound).ok_or(BinaryError::Delta),
        }
    }
}

impl BinaryHunk {
    /// Whether the data is whole, without putting it to use.
    pub fn check(&self, bound: usize) -> Result<(), BinaryError> {
        self.inflate(bound).map(drop)
    }

    fn inflate(&self, bound: usize) -> Result<Vec<u8>, BinaryError> {
        let (size, stream) = match self {
            BinaryHunk::Literal { size, stream } | BinaryHunk::Delta { size, stream } => (*size, stream),
        };
        if size > bound {
            return Err(BinaryError::TooLarge(size));
        }
        Ok(zlib::inflate(stream, size)?)
    }
}

/// Writes one literal hunk for `content`, with the empty line that ends it.
pub fn write_literal(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(format!("literal {}\n", content.len()).as_bytes());
    for line in zlib::deflate(content).chunks(LINE_BYTES) {
        let length = u8::try_from(line.len()).expect("a chunk has at most 52 bytes");
        out.push(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 });
        encode_line(out, line);
        out.push(b'\n');
    }
    out.push(b'\n');
}

fn encode_line(out: &mut Vec<u8>, line: &[u8]) {
    for group in line.chunks(4) {
        let mut bytes = [0; 4];
        bytes[..group.len()].copy_from_slice(group);
        let mut value = u32::from_be_bytes(bytes);
        let mut digits = [0; 5];
        for digit in digits.iter_mut().rev() {
            *digit = ALPHABET[(value % 85) as usize];
            value /= 85;
        }
        out.extend_from_slice(&digits);
    }
}

/// Decodes one line of base 85, without its line end, onto `out`.
pub fn decode_line(out: &mut Vec<u8>, line: &[u8]) -> Result<(), BinaryError> {
    let (&first, digits) = line.split_first().ok_or(BinaryError::Line)?;
    let length = match first {
        b'A'..=b'Z' => first - b'A' + 1,
        b'a'..=b'z' => first - b'a' + 27,
        _ => return Err(BinaryError::Line),
    };
    let length = usize::from(length);
    if digits.len() != length.div_ceil(4) * 5 {
        return Err(BinaryError::Line);
    }
    let start = out.len();
    for group in digits.chunks(5) {
        let mut value = 0_u32;
        for digit in group {
            let position = ALPHABET.iter().position(|b| b == digit).ok_or(BinaryError::Line)?;
            let position = u32::try_from(position).map_err(|_| BinaryError::Line)?;
            value = value.checked_mul(85).and_then(|v| v.checked_add(position)).ok_or(BinaryError::Line)?;
        }
        out.extend_from_slice(&value.to_be_bytes());
    }
    out.truncate(start + length);
    Ok(())
}

/// Applies a pack delta: sizes of both sides, then copies and insertions.
fn patch_delta(old: &[u8], delta: &[u8], bound: usize) -> Option<Vec<u8>> {
    let (old_size, delta) = delta_size(delta)?;
    let (new_size, mut delta) = delta_size(delta)?;
    if old_size != old.len() || new_size > bound {
        return None;
    }
    let mut new = Vec::with_capacity(new_size);
    while let Some((&command, rest)) = delta.split_first() {
        delta = rest;
        if command & 0x80 != 0 {
            let (range, rest) = copy_range(command, delta)?;
            delta = rest;
            new.extend_from_slice(old.get(range)?);
        } else if command != 0 {
            let (bytes, rest) = delta.split_at_checked(usize::from(command))?;
            delta = rest;
            new.extend_from_slice(bytes);
        } else {
            return None;
        }
        if new.len() > new_size {
            return None;
        }
    }
    (new.len() == new_size).then_some(new)
}

fn copy_range(command: u8, mut delta: &[u8]) -> Option<(std::ops::Range<usize>, &[u8])> {
    let (mut offset, mut size) = (0_usize, 0_usize);
    for bit in 0..7 {
        if command & (1 << bit) != 0 {
            let (&byte, rest) = delta.split_first()?;
            delta = rest;
            if bit < 4 {
                offset |= usize::from(byte) << (8 * bit);
            } else {
                size |= usize::from(byte) << (8 * (bit - 4));
            }
        }
    }
    if size == 0 {
        size = 0x10000;
    }
    Some((offset..offset.checked_add(size)?, delta))
}

fn delta_size(mut delta: &[u8]) -> Option<(usize, &[u8])> {
    let (mut size, mut shift) = (0_usize, 0_u32);
    loop {
        let (&byte, rest) = delta.split_first()?;
        delta = rest;
        size |= usize::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 56)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some((size, delta));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(written: &[u8]) -> (usize, Vec<u8>) {
        let text = std::str::from_utf8(written).unwrap();
        let mut lines = text.lines();
        let size = lines.next().unwrap().strip_prefix("literal ").unwrap().parse().unwrap();
        let mut stream = Vec::new();
        for line in lines.take_while(|line| !line.is_empty()) {
            decode_line(&mut stream, line.as_bytes()).unwrap();
        }
        (size, stream)
    }

    proptest::proptest! {
        #[test]
        fn a_literal_reads_back(content in proptest::collection::vec(proptest::num::u8::ANY, 0..2000)) {
            let mut out = Vec::new();
            write_literal(&mut out, &content);
            let (size, stream) = lines_of(&out);
            let hunk = BinaryHunk::Literal { size, stream };
            proptest::prop_assert_eq!(hunk.apply(b"", 1 << 20).unwrap(), content);
        }

        #[test]
        fn no_delta_panics(old in proptest::collection::vec(proptest::num::u8::ANY, 0..50), delta in proptest::collection::vec(proptest::num::u8::ANY, 0..50)) {
            let _ = patch_delta(&old, &delta, 1000);
        }
    }

    #[test]
    fn a_delta_copies_and_inserts() {
        let delta = [5, 6, 0x91, 1, 3, 3, b'x', b'y', b'z'];
        assert_eq!(patch_delta(b"abcde", &delta, 100).unwrap(), b"bcdxyz");
    }

    #[test]
    fn a_damaged_line_is_refused() {
        for line in ["", "A", "A0000", "A000000", "E00000", "D~~~~~", "D0000\"", "100000"] {
            assert_eq!(decode_line(&mut Vec::new(), line.as_bytes()), Err(BinaryError::Line), "{line}");
        }
    }
}
