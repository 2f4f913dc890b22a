//! Text of others on its way into Markdown that we send: bounded, on one line, unable to break out.

/// One line of at most `limit` characters, without control or direction-changing characters and
/// without what ends a code span.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let plain = |c: char| match c {
        '`' => '\'',
        c if c.is_control() || is_direction(c) => ' ',
        c => c,
    };
    let mut line: String = text.chars().take(limit).map(plain).collect();
    if text.chars().nth(limit).is_some() {
        line.push('…');
    }
    line
}

/// At most `limit` bytes, ending at a character's boundary.
pub(crate) fn within_bytes(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// At most `limit` characters.
pub(crate) fn within_characters(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

/// Characters that change the direction of text or cannot be seen (Trojan Source).
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A fence that no line of `text` closes: longer than every run of back-ticks in it.
pub(crate) fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_others_stays_one_inert_line() {
        assert_eq!(one_line("a`b\nc\u{202e}d", 40), "a'b c d");
        assert_eq!(one_line("éééé", 2), "éé…");
        assert_eq!(one_line("éé", 2), "éé");
    }

    #[test]
    fn bytes_are_cut_between_characters() {
        assert_eq!(within_bytes("aéb", 2), "a");
        assert_eq!(within_bytes("aéb", 3), "aé");
        assert_eq!(within_bytes("a", 9), "a");
    }

    #[test]
    fn a_fence_is_longer_than_any_inside() {
        assert_eq!(fence("plain"), "```");
        assert_eq!(fence("a ```` b ``"), "`````");
    }
}
