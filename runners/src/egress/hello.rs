//! The server name in a TLS ClientHello, so that a tunnel leads where its CONNECT said.
//!
//! A guard and no proof: what is said within TLS is not visible, and an encrypted ClientHello would
//! hide the inner name. Bytes are hostile; every length is checked against what is there.

/// The most bytes of a ClientHello.
pub const MAX_HELLO: usize = 16 << 10;

/// What the first bytes of a tunnel are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hello {
    /// More bytes are needed.
    Partial,
    /// A ClientHello for this server name.
    For(String),
    /// A ClientHello without a server name.
    Nameless,
    /// No TLS.
    NotTls,
}

/// Reads the start of a tunnel.
pub fn read(bytes: &[u8]) -> Hello {
    let mut handshake = Vec::new();
    let mut rest = bytes;
    loop {
        if let Some(message) = whole_message(&handshake) {
            return match server_name(message) {
                Some(Some(name)) => Hello::For(name),
                Some(None) => Hello::Nameless,
                None => Hello::NotTls,
            };
        }
        if !handshake.is_empty() && handshake[0] != 1 {
            return Hello::NotTls;
        }
        // A record: type 22 (handshake), version 3.x, length, payload.
        if rest.first().is_some_and(|&kind| kind != 22) || rest.get(1).is_some_and(|&major| major != 3) {
            return Hello::NotTls;
        }
        let Some((header, after)) = rest.split_at_checked(5) else { return Hello::Partial };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length == 0 || length > MAX_HELLO {
            return Hello::NotTls;
        }
        let Some((payload, after)) = after.split_at_checked(length) else { return Hello::Partial };
        handshake.extend_from_slice(payload);
        rest = after;
    }
}

/// The body of the first handshake message, when it is there whole.
fn whole_message(handshake: &[u8]) -> Option<&[u8]> {
    let (header, body) = handshake.split_at_checked(4)?;
    let length = usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3]);
    (header[0] == 1).then(|| body.get(..length)).flatten()
}

/// The name of extension 0; `None` for a malformed body, `Some(None)` for a body without a name.
fn server_name(body: &[u8]) -> Option<Option<String>> {
    let mut reader = Reader(body);
    reader.take(2 + 32)?;
    reader.block8()?;
    reader.block16()?;
    reader.block8()?;
    if reader.0.is_empty() {
        return Some(None);
    }
    let mut extensions = Reader(reader.block16()?);
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number16()?;
        let data = extensions.block16()?;
        if kind == 0 {
            if found.is_some() {
                return None;
            }
            let mut list = Reader(Reader(data).block16()?);
            if list.take(1)? != [0] {
                return None;
            }
            let name = std::str::from_utf8(list.block16()?).ok()?.to_ascii_lowercase();
            if !list.0.is_empty() {
                return None;
            }
            found = Some(name);
        }
    }
    Some(found)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number16(&mut self) -> Option<usize> {
        self.take(2).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    fn block8(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.take(1)?[0]);
        self.take(length)
    }

    fn block16(&mut self) -> Option<&'a [u8]> {
        let length = self.number16()?;
        self.take(length)
    }
}

/// A ClientHello for `name`, for tests of this module and of the broker.
#[cfg(test)]
pub fn sample(name: &str) -> Vec<u8> {
    let with16 = |bytes: Vec<u8>| [&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat();
    let list = with16([&[0][..], &with16(name.as_bytes().to_vec())].concat());
    let extensions = with16([&[0, 10, 0, 0][..], &[0, 0], &with16(list)].concat());
    let body = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0], &extensions].concat();
    let message = [&[1][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat();
    [&[22, 3, 1][..], &with16(message)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_name_is_read_from_a_whole_hello_only() {
        let hello = sample("registry.example");
        for cut in 0..hello.len() {
            assert_eq!(read(&hello[..cut]), Hello::Partial, "{cut}");
        }
        assert_eq!(read(&hello), Hello::For("registry.example".to_owned()));
    }

    #[test]
    fn a_hello_in_two_records_is_put_together() {
        let hello = sample("registry.example");
        let (first, second) = hello[5..].split_at(20);
        let record = |part: &[u8]| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
        let split = [record(first), record(second)].concat();
        assert_eq!(read(&split), Hello::For("registry.example".to_owned()));
    }

    #[test]
    fn other_protocols_are_not_tls() {
        for bytes in [
            &b"SSH-2.0-x"[..],
            b"GET / HTTP/1.1\r\n",
            &[22, 2, 0],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0, 4, 2, 0, 0, 0],
        ] {
            assert_eq!(read(bytes), Hello::NotTls, "{bytes:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, at in 0usize..120, with: u8) {
            read(&bytes);
            let mut hello = sample("registry.example");
            let at = at % hello.len();
            hello[at] = with;
            read(&hello);
        }
    }
}
