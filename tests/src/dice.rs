//! Numbers that look random and are the same for the same seed (splitmix64).

/// The next numbers of one seed.
pub struct Dice(u64);

impl Dice {
    /// The numbers of this seed.
    pub const fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`.
    pub const fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}
