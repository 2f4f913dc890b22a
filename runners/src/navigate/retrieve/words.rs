//! Words of code and prose: identifiers as they stand, and the words that they are made of.

use bm25::Tokenizer;

/// Longer words are keys, digests and the like.
const MAX_WORD: usize = 64;

/// Takes text apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words;

impl Tokenizer for Words {
    fn tokenize(&self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for identifier in text.split(|next: char| !next.is_alphanumeric() && next != '_') {
            if identifier.is_empty() || identifier.len() > MAX_WORD {
                continue;
            }
            let before = words.len();
            parts(identifier, |part| {
                if part.chars().count() > 1 {
                    words.push(part.to_lowercase());
                }
            });
            // A name of several words is a word of its own too, so that the whole name counts for more.
            if words.len() - before > 1 {
                words.push(identifier.to_lowercase());
            }
        }
        words
    }
}

/// The words of an identifier: set apart by underscores, by a capital after a small letter, before the last
/// of several capitals, and where digits begin or end.
fn parts(identifier: &str, mut take: impl FnMut(&str)) {
    for word in identifier.split('_') {
        let letters: Vec<(usize, char)> = word.char_indices().collect();
        let mut begin = 0;
        for (place, &(at, letter)) in letters.iter().enumerate().skip(1) {
            let before = letters[place - 1].1;
            let after = letters.get(place + 1).map(|(_, next)| *next);
            let capital =
                letter.is_uppercase() && (!before.is_uppercase() || after.is_some_and(char::is_lowercase));
            if capital || letter.is_numeric() != before.is_numeric() {
                take(&word[begin..at]);
                begin = at;
            }
        }
        if begin < word.len() {
            take(&word[begin..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_into_their_words() {
        let words = |text: &str| Words.tokenize(text).join(" ");
        assert_eq!(words("parse_HTTPHeader2x"), "parse http header parse_httpheader2x");
        assert_eq!(words("getUserName(x)"), "get user name getusername");
        assert_eq!(words("a + plain, word"), "plain word");
        assert_eq!(words("ÄnderungsListe"), "änderungs liste änderungsliste");
        assert_eq!(words(&"x".repeat(100)), "");
    }
}
