//! Replaces a text in one file, if it is there exactly as often as is asked for.
//!
//! Bytes in, bytes out: what is not replaced stays as it is, with its encoding, byte order mark, line
//! ends and last line.

use crate::workspace::path::shown;

/// Places that an error names.
const MAX_PLACES: usize = 5;

/// One replacement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replacement<'a> {
    pub old: &'a [u8],
    pub new: &'a [u8],
    pub occurrence: Occurrence<'a>,
}

/// Which occurrence is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occurrence<'a> {
    /// There must be but one.
    Only,
    /// Every one; there must be at least one.
    All,
    /// The one that begins in this line, counted from 1.
    AtLine(usize),
    /// The first one after the only place of this text.
    After(&'a [u8]),
}

/// A text that changed, and what was not exactly as asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replaced {
    pub content: Vec<u8>,
    /// How many places changed.
    pub places: usize,
    pub note: Option<&'static str>,
}

/// A replacement that is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplaceError {
    #[error("the text to replace is empty")]
    Empty,
    #[error("the text to replace and the new one are the same")]
    Same,
    #[error("the text is not in the file; it begins with `{begin}`{hint}")]
    Absent { begin: String, hint: String },
    #[error(
        "the text is in the file {count} times, at lines {lines}; show more of what is around it, or name the line"
    )]
    Ambiguous { count: usize, lines: String },
    #[error("no occurrence begins at line {line}; there are some at lines {lines}")]
    NotAtLine { line: usize, lines: String },
    #[error("the text that should stand before is in the file {count} times, not once")]
    Anchor { count: usize },
    #[error("the text is not in the file after the one that should stand before it; it is at lines {lines}")]
    NotAfter { lines: String },
}

/// Replaces `replacement.old` in `content`.
pub fn str_replace(content: &[u8], replacement: &Replacement<'_>) -> Result<Replaced, ReplaceError> {
    let Replacement { old, new, occurrence } = *replacement;
    if old.is_empty() {
        return Err(ReplaceError::Empty);
    }
    if old == new {
        return Err(ReplaceError::Same);
    }
    let found = places(content, old);
    if !found.is_empty() {
        return replace_at(content, old, new, &chosen(content, &found, occurrence)?, None);
    }
    // Models write LF; a file with CRLF alone has but one reading of it.
    match (to_crlf(content, old), to_crlf(content, new)) {
        (Some(old_crlf), Some(new_crlf)) if !places(content, &old_crlf).is_empty() => {
            let found = places(content, &old_crlf);
            let note = Some("the text was given the CRLF line ends of the file");
            replace_at(content, &old_crlf, &new_crlf, &chosen(content, &found, occurrence)?, note)
        }
        (Some(_) | None, Some(_) | None) => Err(absent(content, old)),
    }
}

/// Where `text` begins in `content`, without overlaps.
fn places(content: &[u8], text: &[u8]) -> Vec<usize> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(at) = position(&content[from..], text) {
        found.push(from + at);
        from += at + text.len();
    }
    found
}

/// The first place of `text`, by Knuth, Morris and Pratt: linear, however the text repeats itself.
fn position(content: &[u8], text: &[u8]) -> Option<usize> {
    let table = fallback(text);
    let mut matched = 0;
    for (at, &byte) in content.iter().enumerate() {
        while matched > 0 && text[matched] != byte {
            matched = table[matched - 1];
        }
        if text[matched] == byte {
            matched += 1;
        }
        if matched == text.len() {
            return Some(at + 1 - matched);
        }
    }
    None
}

/// How much of `text` still matches when the byte after each place does not.
fn fallback(text: &[u8]) -> Vec<usize> {
    let mut table = vec![0; text.len()];
    let mut matched = 0;
    for at in 1..text.len() {
        while matched > 0 && text[matched] != text[at] {
            matched = table[matched - 1];
        }
        if text[matched] == text[at] {
            matched += 1;
        }
        table[at] = matched;
    }
    table
}

fn chosen(content: &[u8], found: &[usize], occurrence: Occurrence<'_>) -> Result<Vec<usize>, ReplaceError> {
    let lines = || {
        let shown: Vec<_> =
            found.iter().take(MAX_PLACES).map(|&at| line_of(content, at).to_string()).collect();
        if found.len() > MAX_PLACES { format!("{}, ..", shown.join(", ")) } else { shown.join(", ") }
    };
    match occurrence {
        Occurrence::All => Ok(found.to_vec()),
        Occurrence::Only => match found {
            [at] => Ok(vec![*at]),
            _ => Err(ReplaceError::Ambiguous { count: found.len(), lines: lines() }),
        },
        Occurrence::AtLine(line) => {
            let lines_of = lines_of(content, found);
            let here: Vec<_> = lines_of.filter(|(_, found)| *found == line).map(|(at, _)| at).collect();
            match here[..] {
                [at] => Ok(vec![at]),
                [] => Err(ReplaceError::NotAtLine { line, lines: lines() }),
                _ => Err(ReplaceError::Ambiguous { count: here.len(), lines: line.to_string() }),
            }
        }
        Occurrence::After(anchor) => {
            let anchors = if anchor.is_empty() { Vec::new() } else { places(content, anchor) };
            let [begin] = anchors[..] else { return Err(ReplaceError::Anchor { count: anchors.len() }) };
            let after = found.iter().copied().find(|&at| at >= begin + anchor.len());
            after.map(|at| vec![at]).ok_or_else(|| ReplaceError::NotAfter { lines: lines() })
        }
    }
}

fn replace_at(
    content: &[u8],
    old: &[u8],
    new: &[u8],
    places: &[usize],
    note: Option<&'static str>,
) -> Result<Replaced, ReplaceError> {
    let mut out = Vec::with_capacity(content.len() + new.len());
    let mut from = 0;
    for &at in places {
        out.extend_from_slice(&content[from..at]);
        out.extend_from_slice(new);
        from = at + old.len();
    }
    out.extend_from_slice(&content[from..]);
    Ok(Replaced { content: out, places: places.len(), note })
}

/// Places, which are in order, with the line of each; the file is read once.
fn lines_of<'a>(content: &'a [u8], places: &'a [usize]) -> impl Iterator<Item = (usize, usize)> + 'a {
    places.iter().scan((0, 1), |(from, line), &at| {
        *line += content[*from..at].iter().filter(|&&b| b == b'\n').count();
        *from = at;
        Some((at, *line))
    })
}

fn line_of(content: &[u8], at: usize) -> usize {
    content[..at].iter().filter(|&&b| b == b'\n').count() + 1
}

/// `text` with CRLF, if every line of `content` ends so and no line of `text` does.
fn to_crlf(content: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let ends = content.iter().filter(|&&b| b == b'\n').count();
    let crlf = content.windows(2).filter(|pair| pair == b"\r\n").count();
    if ends == 0 || ends != crlf || text.contains(&b'\r') {
        return None;
    }
    Some(text.split(|&b| b == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]))
}

/// Says where the text nearly stands, when only blanks differ.
fn absent(content: &[u8], old: &[u8]) -> ReplaceError {
    let first = old.split(|&b| b == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or(old);
    let wanted = first.trim_ascii();
    let near =
        content.split(|&b| b == b'\n').position(|line| !wanted.is_empty() && line.trim_ascii() == wanted);
    let hint = match near {
        Some(line) => format!("; line {} is like it but for blanks or what follows", line + 1),
        None => String::new(),
    };
    ReplaceError::Absent { begin: shown(first).chars().take(80).collect(), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(
        content: &str,
        old: &str,
        new: &str,
        occurrence: Occurrence<'_>,
    ) -> Result<String, ReplaceError> {
        let replacement = Replacement { old: old.as_bytes(), new: new.as_bytes(), occurrence };
        str_replace(content.as_bytes(), &replacement).map(|done| String::from_utf8(done.content).unwrap())
    }

    #[test]
    fn the_only_occurrence_is_replaced() {
        assert_eq!(replace("a b c\n", "b", "x", Occurrence::Only).unwrap(), "a x c\n");
    }

    #[test]
    fn an_absent_text_is_refused_with_what_is_like_it() {
        let error = replace("x\n    let a = 1;\n", "let a = 1;\nlet b", "", Occurrence::Only).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the text is not in the file; it begins with `let a = 1;`; line 2 is like it but for blanks or what follows"
        );
    }

    #[test]
    fn an_ambiguous_text_is_refused_with_its_places() {
        let error = replace("a\nb\na\n", "a", "x", Occurrence::Only).unwrap_err();
        assert_eq!(error, ReplaceError::Ambiguous { count: 2, lines: "1, 3".to_owned() });
    }

    #[test]
    fn an_occurrence_is_named_by_line_or_by_what_stands_before() {
        let text = "fn a\nx\nfn b\nx\n";
        assert_eq!(replace(text, "x", "y", Occurrence::AtLine(4)).unwrap(), "fn a\nx\nfn b\ny\n");
        assert_eq!(replace(text, "x", "y", Occurrence::After(b"fn b")).unwrap(), "fn a\nx\nfn b\ny\n");
        assert_eq!(replace(text, "x", "y", Occurrence::All).unwrap(), "fn a\ny\nfn b\ny\n");
        assert!(matches!(
            replace(text, "x", "y", Occurrence::AtLine(1)),
            Err(ReplaceError::NotAtLine { .. })
        ));
        assert!(matches!(
            replace(text, "x", "y", Occurrence::After(b"fn")),
            Err(ReplaceError::Anchor { count: 2 })
        ));
    }

    #[test]
    fn line_ends_byte_order_mark_and_last_line_stay() {
        let done = replace("\u{feff}a\r\nb\r\nc", "a\nb", "x\ny", Occurrence::Only).unwrap();
        assert_eq!(done, "\u{feff}x\r\ny\r\nc");
        let latin = str_replace(
            b"caf\xe9 old\n",
            &Replacement { old: b"old", new: b"new", occurrence: Occurrence::Only },
        );
        assert_eq!(latin.unwrap().content, b"caf\xe9 new\n");
    }

    #[test]
    fn mixed_line_ends_are_not_guessed() {
        assert!(replace("a\r\nb\n", "a\nb", "x", Occurrence::Only).is_err());
    }

    proptest::proptest! {
        #[test]
        fn the_search_finds_what_a_plain_one_finds(content in "[ab]{0,40}", text in "[ab]{1,6}") {
            proptest::prop_assert_eq!(position(content.as_bytes(), text.as_bytes()), content.find(&text));
        }
    }

    #[test]
    fn a_text_that_stands_at_very_many_places_is_looked_up_by_line_in_one_pass() {
        // Found by the fuzzer: each place counted the lines before it anew.
        let content = [0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0x79].repeat(100_000);
        let replacement = Replacement { old: &[0xff], new: b"", occurrence: Occurrence::AtLine(7) };
        let start = std::time::Instant::now();
        assert!(matches!(str_replace(&content, &replacement), Err(ReplaceError::NotAtLine { line: 7, .. })));
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
    }

    #[test]
    fn the_place_on_a_line_is_found_among_those_on_others() {
        assert_eq!(replace("a\nb a\na\n", "a", "x", Occurrence::AtLine(2)).unwrap(), "a\nb x\na\n");
        assert_eq!(replace("a\nb a\na\n", "a", "x", Occurrence::AtLine(3)).unwrap(), "a\nb a\nx\n");
    }
}
