//! Sets of running numbers, as small as the holes in them allow.

mod code;

pub use code::Coded;

/// Numbers of a chunk; a whole one takes no memory but its place.
const CHUNK: u64 = 4096;
const WORDS: usize = CHUNK as usize / 64;

/// A set of numbers that are counted up from 0. What is whole is folded away: a run without holes takes a place of
/// 16 bytes for every 4,096 numbers, and the worst there can be is one bit a number more.
#[derive(Clone, Debug, Default)]
pub struct NumberSet {
    chunks: Vec<Chunk>,
    len: u64,
}

#[derive(Clone, Debug)]
enum Chunk {
    Empty,
    Partial(Box<Bits>),
    Whole,
}

#[derive(Clone, Debug)]
struct Bits {
    words: [u64; WORDS],
    len: u64,
}

impl NumberSet {
    /// Whether the number was not in it before.
    pub fn insert(&mut self, number: u64) -> bool {
        let (index, bit) = ((number / CHUNK) as usize, number % CHUNK);
        if index >= self.chunks.len() {
            self.chunks.resize(index + 1, Chunk::Empty);
        }
        let chunk = &mut self.chunks[index];
        if let Chunk::Empty = chunk {
            *chunk = Chunk::Partial(Box::new(Bits { words: [0; WORDS], len: 0 }));
        }
        let Chunk::Partial(bits) = chunk else { return false };
        let (word, mask) = (&mut bits.words[(bit / 64) as usize], 1 << (bit % 64));
        if *word & mask != 0 {
            return false;
        }
        *word |= mask;
        bits.len += 1;
        self.len += 1;
        if bits.len == CHUNK {
            *chunk = Chunk::Whole;
        }
        true
    }

    /// Puts numbers in that follow each other.
    pub fn insert_run(&mut self, first: u64, count: u64) {
        for number in first..first + count {
            self.insert(number);
        }
    }

    pub fn contains(&self, number: u64) -> bool {
        match self.chunks.get((number / CHUNK) as usize) {
            None | Some(Chunk::Empty) => false,
            Some(Chunk::Whole) => true,
            Some(Chunk::Partial(bits)) => bits.has(number % CHUNK),
        }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// How many of these numbers are in none of the others.
    pub fn count_missing(&self, others: &[&NumberSet]) -> u64 {
        let mut missing = 0;
        for index in self.chunks_with_missing(others) {
            for word in 0..WORDS {
                let own = self.word(index, word);
                let found = others.iter().fold(0, |found, other| found | other.word(index, word));
                missing += u64::from((own & !found).count_ones());
            }
        }
        missing
    }

    /// The first of these numbers that are in none of the others, at most so many: where to look.
    pub fn missing(&self, others: &[&NumberSet], count_max: usize) -> Vec<u64> {
        let chunks = self.chunks_with_missing(others).map(|index| index as u64 * CHUNK);
        let numbers = chunks.flat_map(|first| first..first + CHUNK).filter(|number| {
            self.contains(*number) && !others.iter().any(|other| other.contains(*number))
        });
        numbers.take(count_max).collect()
    }

    /// Where there may be some: what is whole in another, which is nearly all there is, takes one look.
    fn chunks_with_missing(&self, others: &[&NumberSet]) -> impl Iterator<Item = usize> {
        let may_miss = |(index, own): (usize, &Chunk)| {
            let is_whole =
                |other: &&NumberSet| matches!(other.chunks.get(index), Some(Chunk::Whole));
            let is_empty = matches!(own, Chunk::Empty);
            (!is_empty && !others.iter().any(is_whole)).then_some(index)
        };
        self.chunks.iter().enumerate().filter_map(may_miss)
    }

    fn word(&self, chunk: usize, word: usize) -> u64 {
        match self.chunks.get(chunk) {
            None | Some(Chunk::Empty) => 0,
            Some(Chunk::Whole) => u64::MAX,
            Some(Chunk::Partial(bits)) => bits.words[word],
        }
    }
}

impl Bits {
    fn has(&self, bit: u64) -> bool {
        self.words[(bit / 64) as usize] & (1 << (bit % 64)) != 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_run_without_holes_takes_nearly_nothing() {
        let mut set = NumberSet::default();
        for number in (0..CHUNK * 100).rev() {
            assert!(set.insert(number));
        }
        assert!(!set.insert(17));
        assert_eq!(set.len(), CHUNK * 100);
        assert!(set.chunks.iter().all(|chunk| matches!(chunk, Chunk::Whole)));
    }

    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(prop_oneof![0..40u64, 4090..4100u64, 0..20_000u64], 0..300)
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_set(ones in numbers(), others in numbers(), run in 0..9000u64) {
            let (mut set, mut plain) = (NumberSet::default(), BTreeSet::new());
            for number in ones {
                prop_assert_eq!(set.insert(number), plain.insert(number));
            }
            set.insert_run(5000, run);
            plain.extend(5000..5000 + run);
            let others = BTreeSet::from_iter(others);
            let mut other = NumberSet::default();
            for number in &others {
                other.insert(*number);
            }
            let missing: Vec<u64> =
                plain.iter().copied().filter(|number| !others.contains(number)).collect();
            prop_assert_eq!(set.len(), plain.len() as u64);
            prop_assert_eq!(set.count_missing(&[&other]), missing.len() as u64);
            prop_assert_eq!(set.missing(&[&other], 7), &missing[..missing.len().min(7)]);
            for number in (0..21_000).step_by(7) {
                prop_assert_eq!(set.contains(number), plain.contains(&number));
            }
        }
    }
}
