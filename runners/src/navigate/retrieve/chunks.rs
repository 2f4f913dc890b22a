//! Cuts a file into passages: a few dozen lines each, where the text itself sets things apart if it can.

/// A passage may end after so many lines, where a new part begins.
const FEW_LINES: u32 = 20;
const MAX_LINES: u32 = 60;
const MAX_BYTES: usize = 6_000;

/// Whole lines of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chunk {
    pub begin: usize,
    pub end: usize,
    /// 1-based.
    pub first_line: u32,
    pub last_line: u32,
}

/// The passages of a file, in order; together they are all of it.
pub(super) fn chunks(content: &[u8]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut open = Chunk { begin: 0, end: 0, first_line: 1, last_line: 0 };
    let mut after_blank = false;
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        let lines = open.last_line + 1 - open.first_line;
        let bytes = open.end - open.begin;
        let part_begins = after_blank && line.first().is_some_and(|first| !first.is_ascii_whitespace());
        let full = lines >= MAX_LINES || bytes + line.len() > MAX_BYTES || lines >= FEW_LINES && part_begins;
        if lines > 0 && full {
            chunks.push(open);
            open = Chunk { begin: open.end, end: open.end, first_line: open.last_line + 1, ..open };
        }
        open.end += line.len();
        open.last_line += 1;
        after_blank = line.trim_ascii().is_empty();
    }
    if open.end > open.begin {
        chunks.push(open);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_all_of_a_file_and_end_where_parts_begin() {
        let part = format!("def f():\n{}\n\n", "    work()\n".repeat(23));
        let content = part.repeat(5);
        let chunks = chunks(content.as_bytes());
        assert_eq!(chunks.len(), 5);
        assert_eq!((chunks[0].begin, chunks[4].end), (0, content.len()));
        for pair in chunks.windows(2) {
            assert_eq!(pair[0].end, pair[1].begin);
            assert_eq!(pair[0].last_line + 1, pair[1].first_line);
            assert!(content[pair[1].begin..].starts_with("def f"));
        }
    }

    #[test]
    fn long_lines_and_long_parts_are_cut() {
        assert_eq!(chunks(b""), []);
        assert_eq!(chunks("a\n".repeat(130).as_bytes()).len(), 3);
        let long = "x".repeat(10_000);
        assert_eq!(chunks(format!("a\n{long}\nb\n").as_bytes()).len(), 3);
    }
}
