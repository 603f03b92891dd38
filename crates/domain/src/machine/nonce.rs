//! Lock nonces, from an entry's seed and the lock's place in it: all randomness comes from the log.

/// Draws nonces for one entry. Fresh per delivery (LOCK-6): seeds differ from entry to entry, places
/// within one.
#[derive(Clone)]
pub(super) struct Nonces {
    seed: [u64; 2],
    drawn: u64,
}

impl Nonces {
    pub fn new(seed: [u8; 16]) -> Nonces {
        let seed = u128::from_be_bytes(seed);
        Nonces { seed: [(seed >> 64) as u64, seed as u64], drawn: 0 }
    }

    pub fn draw(&mut self) -> u64 {
        self.drawn += 1;
        mix(mix(self.seed[0].wrapping_add(self.drawn.wrapping_mul(GOLDEN))) ^ self.seed[1])
    }
}

/// 2^64 over the golden ratio: successive multiples of it are far apart.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64: a bijection in which every input bit moves every output bit.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nonces_of_an_entry_are_distinct_and_those_of_another_seed_others() {
        let mut seen = BTreeSet::new();
        for seed in 0..8u128 {
            let mut nonces = Nonces::new(seed.to_be_bytes());
            (0..1000).for_each(|_| assert!(seen.insert(nonces.draw())));
        }
    }

    #[test]
    fn equal_seeds_draw_equal_nonces() {
        let draw = || Nonces::new([7; 16]).draw();
        assert_eq!(draw(), draw());
    }
}
