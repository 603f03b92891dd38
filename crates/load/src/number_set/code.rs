//! Sets on their way to another machine: chunk after chunk, those that are alike together.

use super::{Bits, CHUNK, Chunk, NumberSet, WORDS};

const EMPTY: u8 = 0;
const WHOLE: u8 = 1;
const PARTIAL: u8 = 2;
/// A set with more of them is none that a run makes: 17 billion messages of one producer.
const CHUNKS_MAX: usize = 1 << 22;

/// Some of a set's chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded {
    pub first_chunk: u32,
    pub chunks: Vec<u8>,
}

/// What does not read as chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl NumberSet {
    /// The set in pieces of about so many bytes; none where it is empty.
    pub fn code(&self, bytes_max: usize) -> Vec<Coded> {
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < self.chunks.len() {
            let mut coded = Coded { first_chunk: at as u32, chunks: Vec::new() };
            while at < self.chunks.len() && coded.chunks.len() < bytes_max {
                let kind = kind(&self.chunks[at]);
                let alike = self.chunks[at..].iter().take_while(|of| self::kind(of) == kind);
                let count = if kind == PARTIAL { 1 } else { alike.count() };
                coded.chunks.push(kind);
                match &self.chunks[at] {
                    Chunk::Partial(bits) => {
                        coded.chunks.extend(bits.words.iter().flat_map(|word| word.to_be_bytes()));
                    }
                    Chunk::Empty | Chunk::Whole => {
                        coded.chunks.extend((count as u32).to_be_bytes());
                    }
                }
                at += count;
            }
            pieces.push(coded);
        }
        pieces
    }

    /// Puts in what a piece holds. How many of its numbers were there already.
    ///
    /// # Errors
    /// [`Malformed`]; some of it is in then.
    pub fn merge(&mut self, coded: &Coded) -> Result<u64, Malformed> {
        let (mut at, mut rest, mut known) = (coded.first_chunk as usize, &coded.chunks[..], 0);
        while let Some((kind, after)) = rest.split_first() {
            if *kind == PARTIAL {
                let (words, after) = after.split_at_checked(WORDS * 8).ok_or(Malformed)?;
                let words = words.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
                known += self.merge_words(at, words)?;
                (at, rest) = (at + 1, after);
                continue;
            }
            let (count, after) = after.split_first_chunk::<4>().ok_or(Malformed)?;
            let count = u32::from_be_bytes(*count) as usize;
            let end = at.checked_add(count).filter(|end| *end <= CHUNKS_MAX).ok_or(Malformed)?;
            match *kind {
                EMPTY => {}
                WHOLE => {
                    for chunk in at..end {
                        known += self.merge_words(chunk, std::iter::repeat_n(u64::MAX, WORDS))?;
                    }
                }
                _ => return Err(Malformed),
            }
            (at, rest) = (end, after);
        }
        Ok(known)
    }

    fn merge_words(
        &mut self,
        index: usize,
        words: impl Iterator<Item = u64>,
    ) -> Result<u64, Malformed> {
        if index >= CHUNKS_MAX {
            return Err(Malformed);
        }
        if index >= self.chunks.len() {
            self.chunks.resize(index + 1, Chunk::Empty);
        }
        let chunk = &mut self.chunks[index];
        if let Chunk::Empty = chunk {
            *chunk = Chunk::Partial(Box::new(Bits { words: [0; WORDS], len: 0 }));
        }
        let Chunk::Partial(bits) = chunk else {
            return Ok(words.map(|word| u64::from(word.count_ones())).sum());
        };
        let (mut known, mut new) = (0, 0);
        for (own, word) in bits.words.iter_mut().zip(words) {
            known += u64::from((*own & word).count_ones());
            new += u64::from((!*own & word).count_ones());
            *own |= word;
        }
        bits.len += new;
        self.len += new;
        match bits.len {
            0 => *chunk = Chunk::Empty,
            CHUNK => *chunk = Chunk::Whole,
            _ => {}
        }
        Ok(known)
    }
}

fn kind(chunk: &Chunk) -> u8 {
    match chunk {
        Chunk::Empty => EMPTY,
        Chunk::Whole => WHOLE,
        Chunk::Partial(_) => PARTIAL,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(numbers: &BTreeSet<u64>, run: u64) -> NumberSet {
        let mut set = NumberSet::default();
        for number in numbers {
            set.insert(*number);
        }
        set.insert_run(CHUNK * 2, run);
        set
    }

    fn numbers() -> impl Strategy<Value = BTreeSet<u64>> {
        prop::collection::btree_set(prop_oneof![0..40u64, 4090..4100u64, 0..30_000u64], 0..200)
    }

    proptest! {
        #[test]
        fn a_merged_set_is_the_union_and_tells_what_was_there(
            one in numbers(), other in numbers(), runs in (0..9000u64, 0..9000u64), piece in 1..2000usize,
        ) {
            let (mut merged, added) = (set(&one, runs.0), set(&other, runs.1));
            let mut plain: BTreeSet<u64> = one;
            plain.extend(CHUNK * 2..CHUNK * 2 + runs.0);
            let mut theirs = other;
            theirs.extend(CHUNK * 2..CHUNK * 2 + runs.1);
            let pieces = added.code(piece);
            let known: u64 = pieces.iter().map(|coded| merged.merge(coded).expect("a set")).sum();
            prop_assert_eq!(known, plain.intersection(&theirs).count() as u64);
            plain.extend(theirs);
            prop_assert_eq!(merged.len(), plain.len() as u64);
            for number in (0..33_000).step_by(7) {
                prop_assert_eq!(merged.contains(number), plain.contains(&number));
            }
        }

        #[test]
        fn what_is_no_set_is_refused(chunks in prop::collection::vec(any::<u8>(), 0..1200)) {
            let coded = Coded { first_chunk: 0, chunks };
            let _ = NumberSet::default().merge(&coded);
        }
    }

    #[test]
    fn whole_runs_travel_in_a_few_bytes() {
        let mut whole = NumberSet::default();
        whole.insert_run(0, CHUNK * 1000 + 5);
        let pieces = whole.code(1 << 20);
        assert_eq!(pieces.len(), 1);
        assert!(pieces[0].chunks.len() < 600, "{}", pieces[0].chunks.len());
        let far = Coded { first_chunk: u32::MAX, chunks: vec![WHOLE, 0, 0, 0, 1] };
        assert_eq!(NumberSet::default().merge(&far), Err(Malformed));
        let long = Coded { first_chunk: 0, chunks: vec![7, 0, 0, 0, 1] };
        assert_eq!(NumberSet::default().merge(&long), Err(Malformed));
    }
}
