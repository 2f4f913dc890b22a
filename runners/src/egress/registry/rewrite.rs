//! Addresses in listings: those of hosts that have a route become the route's.

/// What is replaced by what.
#[derive(Debug)]
pub struct Rewrites(Vec<(String, String)>);

impl Rewrites {
    /// Each pair is an address up to the slash after its host, and the route in its place.
    pub fn of(pairs: impl Iterator<Item = (String, String)>) -> Self {
        Self(pairs.collect())
    }

    /// The listing with its addresses changed. Bytes that are no text are copied as they are.
    pub fn apply(&self, listing: Vec<u8>) -> Vec<u8> {
        let mut changed = Vec::with_capacity(listing.len());
        let mut rest = listing.as_slice();
        // Every address begins with `http`, in JSON perhaps with escaped slashes, which no registry writes.
        while let Some(at) = find(rest, b"http") {
            changed.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            match self.0.iter().find(|(from, _)| rest.starts_with(from.as_bytes())) {
                Some((from, to)) => {
                    changed.extend_from_slice(to.as_bytes());
                    rest = &rest[from.len()..];
                }
                None => {
                    changed.extend_from_slice(&rest[..4]);
                    rest = &rest[4..];
                }
            }
        }
        changed.extend_from_slice(rest);
        changed
    }
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_a_route_are_changed_and_no_others() {
        let pairs = [("https://files.example/", "http://in/registry/files.example/")];
        let rewrites = Rewrites::of(pairs.map(|(from, to)| (from.to_owned(), to.to_owned())).into_iter());
        let page = b"<a href=\"https://files.example/a/b.whl#sha256=1\"> https://files.example.evil.example/ http https://files.example";
        let changed = String::from_utf8(rewrites.apply(page.to_vec())).unwrap();
        assert_eq!(
            changed,
            "<a href=\"http://in/registry/files.example/a/b.whl#sha256=1\"> https://files.example.evil.example/ http https://files.example"
        );
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        let rewrites = Rewrites::of(std::iter::empty());
        assert_eq!(rewrites.apply(b"\xff\xfehttp\x00htt".to_vec()), b"\xff\xfehttp\x00htt");
    }
}
