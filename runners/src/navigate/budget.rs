//! When reading ends: a moment, and a question that is asked between files.

use std::time::{Duration, Instant};

/// Bytes that are counted as one token. Code has three to four of them in the tokenizers of today's
/// models; the smaller number keeps a text below its budget in all of them.
const BYTES_A_TOKEN: usize = 3;

/// Tokens that a text of so many bytes is counted as.
pub const fn tokens_of(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_A_TOKEN)
}

/// Bytes that fit into so many tokens.
pub(super) const fn bytes_of(tokens: usize) -> usize {
    tokens.saturating_mul(BYTES_A_TOKEN)
}

/// Ends work that takes too long or is no longer wanted.
#[derive(Clone, Copy)]
pub struct Stop<'a> {
    deadline: Instant,
    unwanted: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> Stop<'a> {
    /// Ends after `time`, or as soon as `unwanted` says so.
    pub fn after(time: Duration, unwanted: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { deadline: Instant::now() + time, unwanted }
    }

    /// Whether to end now.
    pub fn now(&self) -> bool {
        Instant::now() >= self.deadline || (self.unwanted)()
    }
}

impl Stop<'static> {
    /// Ends after `time`.
    pub fn in_time(time: Duration) -> Self {
        Self::after(time, &|| false)
    }
}
