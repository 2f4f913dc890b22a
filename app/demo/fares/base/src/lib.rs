//! Fares: what a ride costs.

/// Cents for a ride through so many zones.
pub fn fare(zones: u32) -> u32 {
    220 + zones.saturating_sub(1) * 80
}
