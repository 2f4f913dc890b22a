//! Holding Markdown to the forge's limit: cut by bytes, at a line where there is one, with what was
//! open closed and a pointer to the whole.

use crate::forge::MAX_TEXT_BYTES;
use crate::text::within_bytes;

/// The text within [`MAX_TEXT_BYTES`]; what is cut off is pointed to by `pointer`.
pub(super) fn to_limit(text: String, pointer: &str) -> String {
    cut(text, MAX_TEXT_BYTES, pointer)
}

/// The same for a comment, whose hidden last line needs room as well.
pub(super) fn to_limit_of_comment(text: String, pointer: &str) -> String {
    cut(text, MAX_TEXT_BYTES - 500, pointer)
}

fn cut(text: String, limit: usize, pointer: &str) -> String {
    if text.len() <= limit {
        return text;
    }
    let pointer = format!("\n\n*Cut here. {pointer}*\n");
    // A fence that must be closed takes as much again as its own line.
    let mut room = limit.saturating_sub(pointer.len());
    loop {
        let kept = within_bytes(&text, room);
        let kept = match kept.rfind('\n') {
            Some(end) if end > kept.len() / 2 => &kept[..end],
            Some(_) | None => kept,
        };
        let closing = open_fence(kept).map(|fence| format!("\n{fence}")).unwrap_or_default();
        let length = kept.len() + closing.len() + pointer.len();
        if length <= limit || kept.is_empty() {
            return within_bytes(&format!("{kept}{closing}{pointer}"), limit).to_owned();
        }
        room = room.saturating_sub(length - limit);
    }
}

/// The fence that is open at the end of `text`, as it must be closed.
fn open_fence(text: &str) -> Option<String> {
    let mut open: Option<(char, usize)> = None;
    for line in text.split('\n') {
        let Some((mark, length, rest)) = fence(line) else { continue };
        match open {
            Some((opened, least)) if mark == opened && length >= least && rest.trim().is_empty() => {
                open = None
            }
            Some(_) => {}
            // The words behind back-ticks that open a fence hold no back-tick.
            None if mark == '`' && rest.contains('`') => {}
            None => open = Some((mark, length)),
        }
    }
    open.map(|(mark, length)| std::iter::repeat_n(mark, length).collect())
}

/// A line that may open or close a fence: its mark, how many of it, and what follows.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let inner = line.trim_start_matches(' ');
    let mark = inner.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = inner.len() - inner.trim_start_matches(mark).len();
    (length >= 3 && line.len() - inner.len() <= 3).then(|| (mark, length, &inner[length..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn r1_a_long_text_is_cut_at_a_characters_boundary_with_its_fence_closed() {
        let text = format!("head\n\n````diff\n{}", "ü".repeat(70_000));
        let shown = to_limit(text, "The whole is in the bundle.");
        assert!(shown.len() <= MAX_TEXT_BYTES && shown.len() > MAX_TEXT_BYTES - 200);
        assert!(
            shown.ends_with("ü\n````\n\n*Cut here. The whole is in the bundle.*\n"),
            "{}",
            &shown[shown.len() - 80..]
        );
    }

    #[test]
    fn a_short_text_stays_as_it_is() {
        let text = "```\nopen".to_owned();
        assert_eq!(to_limit(text.clone(), "p"), text);
    }

    #[test]
    fn fences_are_told_from_what_only_looks_like_one() {
        for (text, open) in [
            ("```\na", Some("```")),
            ("```\na\n```", None),
            ("~~~\n```\n", Some("~~~")),
            ("````\n```\n", Some("````")),
            ("    ```\na", None),
            ("``` a`b\n", None),
            ("```\n``` x\n", Some("```")),
            ("``", None),
        ] {
            assert_eq!(open_fence(text).as_deref(), open, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn r1_whatever_is_cut_fits_and_leaves_no_fence_open(text in "([a-zé`~\n ]|```\n){0,400}", limit in 80_usize..300) {
            let whole = text.len() <= limit;
            let shown = cut(text, limit, "p");
            prop_assert!(shown.len() <= limit);
            prop_assert!(whole || open_fence(&shown).is_none(), "{shown:?}");
        }
    }
}
