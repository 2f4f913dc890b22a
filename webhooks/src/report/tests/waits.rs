//! How long a message waits for a forge that fails.

use super::*;

#[test]
fn r6_the_waits_outlast_an_hour_and_grow() {
    let waits: Vec<Millis> = (1..outbox::MAX_ATTEMPTS).map(backoff).collect();
    assert!(waits.is_sorted() && waits[0] == FIRST_WAIT);
    assert!(waits.iter().sum::<Millis>() > 3_600_000);
}
