//! The seeded source of uids and generated names.

/// SplitMix64: small, and sufficient for names that only have to differ.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn bits(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    /// The five characters after a `generateName`: no vowels and no look-alikes, as clusters have them.
    pub(crate) fn name_suffix(&mut self) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.next();
        let mut pick = || {
            let index = usize::try_from(bits % 27).unwrap_or_default();
            bits /= 27;
            char::from(ALPHABET.get(index).copied().unwrap_or(b'x'))
        };
        (0..5).map(|_| pick()).collect()
    }
}
