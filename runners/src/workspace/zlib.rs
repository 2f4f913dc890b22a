//! Zlib streams, as git's binary patches hold them.

use std::io::Write as _;

use gix::zlib::{Compression, Inflate, Status};

/// A stream that is not what its patch says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the compressed bytes do not give {expected} bytes")]
pub struct NotTheStream {
    /// The size that was promised.
    pub expected: usize,
}

/// Compresses `bytes`.
pub fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut writer = gix::zlib::stream::deflate::Write::new(Vec::new(), Compression::DEFAULT);
    let written = writer.write_all(bytes).and_then(|()| writer.flush());
    written.expect("writing to memory does not fail");
    writer.into_inner()
}

/// Decompresses `stream`, which must give exactly `expected` bytes and end there.
pub fn inflate(stream: &[u8], expected: usize) -> Result<Vec<u8>, NotTheStream> {
    let failed = NotTheStream { expected };
    // One byte of room more than promised shows a stream that goes on.
    let mut bytes = vec![0; expected + 1];
    let (status, consumed, written) = Inflate::default().once(stream, &mut bytes).map_err(|_| failed)?;
    match status {
        Status::StreamEnd if written == expected && consumed == stream.len() => {
            bytes.truncate(expected);
            Ok(bytes)
        }
        Status::StreamEnd | Status::Ok | Status::BufError => Err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_gives_back_its_bytes_and_only_at_its_size() {
        for bytes in [&b""[..], b"x", &[7; 100_000]] {
            let stream = deflate(bytes);
            assert_eq!(inflate(&stream, bytes.len()).unwrap(), bytes);
            assert!(inflate(&stream, bytes.len() + 1).is_err());
            assert!(inflate(&stream[..stream.len() - 1], bytes.len()).is_err());
            if let Some(shorter) = bytes.len().checked_sub(1) {
                assert!(inflate(&stream, shorter).is_err());
            }
        }
    }
}
