//! Paths as git writes them in patches: plain, or in double quotes with C escapes.

/// Writes `path` with a prefix such as `a/`, quoted where git would quote it.
pub fn write(out: &mut Vec<u8>, prefix: &str, path: &[u8]) {
    let needs_quotes = |&b: &u8| !(0x20..0x7f).contains(&b) || b == b'"' || b == b'\\';
    if !path.iter().any(needs_quotes) {
        out.extend_from_slice(prefix.as_bytes());
        out.extend_from_slice(path);
        return;
    }
    out.push(b'"');
    out.extend_from_slice(prefix.as_bytes());
    for &byte in path {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0b => out.extend_from_slice(b"\\v"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            byte if needs_quotes(&byte) => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            byte => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Reads a quoted path that begins at the first byte; gives the path and what follows the closing quote.
pub fn read(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut path = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((path, rest)),
            b'\n' => return None,
            b'\\' => {
                let (decoded, after) = escape(rest)?;
                path.push(decoded);
                rest = after;
            }
            byte => path.push(byte),
        }
    }
}

fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    let (&byte, rest) = text.split_first()?;
    let decoded = match byte {
        b'a' => 0x07,
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 0x0b,
        b'f' => 0x0c,
        b'r' => b'\r',
        b'"' | b'\\' => byte,
        b'0'..=b'3' => {
            let [high, middle, low] = *text.first_chunk::<3>()?;
            if !matches!((middle, low), (b'0'..=b'7', b'0'..=b'7')) {
                return None;
            }
            return Some((((high - b'0') << 6) | ((middle - b'0') << 3) | (low - b'0'), &text[3..]));
        }
        _ => return None,
    };
    Some((decoded, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(path: &[u8]) -> String {
        let mut out = Vec::new();
        write(&mut out, "a/", path);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_path_is_quoted_as_git_does() {
        assert_eq!(written(b"x y.rs"), "a/x y.rs");
        assert_eq!(written("é".as_bytes()), "\"a/\\303\\251\"");
        assert_eq!(written(b"q\"\\\t\x1b"), "\"a/q\\\"\\\\\\t\\033\"");
    }

    proptest::proptest! {
        #[test]
        fn a_quoted_path_reads_back(path in proptest::collection::vec(1_u8.., 1..40)) {
            let mut out = Vec::new();
            write(&mut out, "", &path);
            if out.first() == Some(&b'"') && out != path {
                out.extend_from_slice(b" rest");
                let (read_back, rest) = read(&out).unwrap();
                proptest::prop_assert_eq!(read_back, path);
                proptest::prop_assert_eq!(rest, b" rest");
            } else {
                proptest::prop_assert_eq!(out, path);
            }
        }
    }

    #[test]
    fn a_broken_quotation_is_refused() {
        for text in ["\"abc", "\"a\\q\"", "\"\\4\"", "\"\\08a\"", "abc", "\"a\nb\""] {
            assert!(read(text.as_bytes()).is_none(), "{text:?}");
        }
    }
}
