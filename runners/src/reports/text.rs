//! Making a console's bytes fit to be read line by line: no escapes, no carriage returns, bounded lines.
//!
//! Everything here is one pass over the bytes, and no result is larger than its input's lossy UTF-8 form.

/// A console line is cut after this many bytes; what tests are called and how they ended stands before it.
pub(super) const LINE_BYTES: usize = 16 * 1024;

/// A stream is read up to here; what is longer counts as truncated.
pub(super) const STREAM_BYTES: usize = 64 << 20;

/// Whether [`clean`] saw the whole stream.
pub(super) fn fits(bytes: &[u8]) -> bool {
    bytes.len() <= STREAM_BYTES
}

/// Console text without terminal escapes, NUL and carriage returns, with every line cut at [`LINE_BYTES`].
pub(super) fn clean(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(STREAM_BYTES)];
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut line_start = 0;
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' => skip_escape(&mut rest),
            '\0' | '\u{7}' | '\u{8}' | '\u{feff}' => {}
            '\r' | '\n' => {
                // A run of carriage returns before a line feed is one line ending; alone, it ends a line too,
                // so that a progress line never hides what was written over it.
                if next == '\r' {
                    while rest.peek() == Some(&'\r') {
                        rest.next();
                    }
                    if rest.peek() == Some(&'\n') {
                        rest.next();
                    }
                }
                out.push('\n');
                line_start = out.len();
            }
            other => {
                if out.len() - line_start < LINE_BYTES {
                    out.push(other);
                }
            }
        }
    }
    out
}

/// Skips one escape sequence after its ESC: CSI, OSC and the other string sequences, or two bytes.
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            while let Some(&next) = rest.peek() {
                // A line end inside a sequence means that it was cut: the line matters more.
                if next == '\n' || next == '\r' {
                    return;
                }
                rest.next();
                if ('@'..='~').contains(&next) {
                    return;
                }
            }
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(&next) = rest.peek() {
                if next == '\n' || next == '\r' {
                    return;
                }
                rest.next();
                if next == '\u{7}' {
                    return;
                }
                if next == '\u{1b}' {
                    if rest.peek() == Some(&'\\') {
                        rest.next();
                    }
                    return;
                }
            }
        }
        Some('(' | ')' | '#' | '%' | ' ') => {
            rest.next();
            if rest.peek().is_some_and(|&next| next != '\n' && next != '\r') {
                rest.next();
            }
        }
        Some('\n' | '\r') | None => {}
        Some(_) => {
            rest.next();
        }
    }
}

/// At most `bytes` bytes of the text, cut at a character's boundary, trailing white space removed.
pub(super) fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.trim_end().to_owned();
    }
    let mut end = bytes.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", text[..end].trim_end())
}

/// A path as the repository knows it: relative to the root, `/` between names, no `.` and no `..` inside.
pub(super) fn repository_path(root: &str, directory: &str, path: &str) -> String {
    let path = path.trim();
    let path = path.strip_prefix("file://").unwrap_or(path).replace('\\', "/");
    let root = root.trim_end_matches('/');
    let inside = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    let joined = match inside {
        Some(rest) if !root.is_empty() => rest.to_owned(),
        Some(_) | None if path.starts_with('/') || path.is_empty() || path.starts_with('<') => return path,
        Some(_) | None if directory.is_empty() => path,
        Some(_) | None => format!("{}/{path}", directory.trim_end_matches('/')),
    };
    let mut names: Vec<&str> = Vec::new();
    for name in joined.split('/') {
        match name {
            "" | "." => {}
            ".." if names.last().is_some_and(|&last| last != "..") => {
                names.pop();
            }
            other => names.push(other),
        }
    }
    names.join("/")
}

/// `path:line[:column]` at the start of the text, with what follows the numbers; the path may hold spaces.
pub(super) fn position(text: &str) -> Option<Position<'_>> {
    let mut from = 0;
    while let Some(found) = text[from..].find(':') {
        let colon = from + found;
        let (line, after) = leading_number(&text[colon + 1..]);
        if let (Some(line), true) = (line, colon > 0) {
            let (column, after_column) = match after.strip_prefix(':') {
                Some(more) => match leading_number(more) {
                    (Some(column), left) => (Some(column), left),
                    (None, _) => (None, after),
                },
                None => (None, after),
            };
            return Some(Position { path: &text[..colon], line, column, rest: after_column });
        }
        from = colon + 1;
    }
    None
}

/// A place in a file, as consoles write it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position<'a> {
    pub path: &'a str,
    pub line: u32,
    pub column: Option<u32>,
    pub rest: &'a str,
}

/// The decimal number at the start, and what follows it.
pub(super) fn leading_number(text: &str) -> (Option<u32>, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (text[..digits].parse().ok(), &text[digits..])
}

/// The same as [`leading_number`] for counts.
pub(super) fn leading_count(text: &str) -> (Option<u64>, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (text[..digits].parse().ok(), &text[digits..])
}

/// The last name of a path.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_line_endings_vanish() {
        assert_eq!(clean(b"\x1b[1;31mFAILED\x1b[0m a\r\nb\r\r\nc\rd\0e"), "FAILED a\nb\nc\nde");
        assert_eq!(clean(b"\x1b]8;;http://x\x07link\x1b]8;;\x1b\\ \x1b(Bend"), "link end");
        assert_eq!(clean(b"\x1b[12\nnext"), "\nnext");
        assert_eq!(clean(b"bad \xff utf"), "bad \u{fffd} utf");
    }

    #[test]
    fn a_megabyte_line_is_cut_and_the_next_line_is_kept() {
        let mut bytes = vec![b'x'; 1 << 20];
        bytes.extend_from_slice(b"\nend");
        let text = clean(&bytes);
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [LINE_BYTES, 3]);
    }

    #[test]
    fn a_cut_is_at_a_boundary_and_within_its_bytes() {
        assert_eq!(cut("größe", 100), "größe");
        assert_eq!(cut("größegröße", 7), "grö…");
    }

    #[test]
    fn paths_become_relative_to_the_repository() {
        assert_eq!(repository_path("/workspace", "", "/workspace/a/b.py"), "a/b.py");
        assert_eq!(repository_path("/workspace", "sub", "./a/../b.py"), "sub/b.py");
        assert_eq!(repository_path("/workspace", "sub", "../b.py"), "b.py");
        assert_eq!(repository_path("/workspace", "", "/usr/lib/x.py"), "/usr/lib/x.py");
        assert_eq!(repository_path("/workspace", "", "/workspacex/x.py"), "/workspacex/x.py");
    }

    #[test]
    fn a_position_may_have_a_path_with_spaces_and_no_column() {
        let found = position("a b.py:12: boom").unwrap();
        assert_eq!((found.path, found.line, found.column, found.rest), ("a b.py", 12, None, ": boom"));
        let found = position("C:\\x.rs:3:4 end").unwrap();
        assert_eq!((found.path, found.line, found.column, found.rest), ("C:\\x.rs", 3, Some(4), " end"));
        assert_eq!(position("no place: here"), None);
    }
}
