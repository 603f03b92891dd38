//! All chance of a run, from one seed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A reproducible source of chance.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(ChaCha8Rng::seed_from_u64(seed))
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.0.random_range(0..1000) < per_mille
    }

    /// From 0 up to, not including, `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.random_range(0..bound)
    }

    /// Both ends included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..=high)
    }

    /// A place in a list of so many.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    /// Another source, whose course does not depend on how much is drawn from this one.
    #[cfg(feature = "raft")]
    pub fn fork(&mut self) -> Random {
        Random::new(self.0.random())
    }

    pub fn bytes(&mut self) -> [u8; 16] {
        self.0.random()
    }
}
