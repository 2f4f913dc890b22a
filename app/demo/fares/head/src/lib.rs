//! Fares: what a ride costs, and how much of it is forgiven.

/// Cents for a ride through so many zones.
pub fn fare(zones: u32) -> u32 {
    220 + zones.saturating_sub(1) * 80
}

/// The fare of the `ride`-th ride of a day: from the fourth on it is half.
pub fn daily_fare(zones: u32, ride: u32) -> u32 {
    if ride > 4 {
        fare(zones) / 2
    } else {
        fare(zones)
    }
}
