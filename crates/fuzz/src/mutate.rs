//! Changes to inputs.

/// SplitMix64: a seed gives the same inputs for ever.
pub struct Rng(pub u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`; 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Format codes, edges of lengths and counts, and what separates the parts of a token.
const BYTES: [u8; 24] = [
    0x00, 0x01, 0x40, 0x41, 0x43, 0x44, 0x45, 0x53, 0x56, 0x60, 0x70, 0x80, 0xa0, 0xa1, 0xa3, 0xb0,
    0xc0, 0xc1, 0xd0, 0xd1, 0xe0, 0xf0, 0x7f, 0xff,
];
const WORDS: [u32; 8] = [0, 1, 0x7f, 0xff, 0x100, 0x7fff_ffff, 0x8000_0000, u32::MAX];

/// One of the inputs after up to eight changes.
pub fn mutate(rng: &mut Rng, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut input = inputs[rng.below(inputs.len())].clone();
    for _ in 0..=rng.below(8) {
        change(rng, &mut input, inputs);
    }
    input
}

fn change(rng: &mut Rng, input: &mut Vec<u8>, inputs: &[Vec<u8>]) {
    let length = input.len();
    let at = rng.below(length);
    match rng.below(9) {
        0 if length > 0 => input[at] ^= 1 << rng.below(8),
        1 if length > 0 => input[at] = rng.next() as u8,
        2 if length > 0 => input[at] = BYTES[rng.below(BYTES.len())],
        3 => input.insert(at, BYTES[rng.below(BYTES.len())]),
        4 if length > 0 => drop(input.drain(at..(at + 1 + rng.below(8)).min(length))),
        5 if length >= 4 => {
            let at = at.min(length - 4);
            let word = WORDS[rng.below(WORDS.len())];
            input[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        6 => {
            // Some of it once more: deeper nests, longer lists, frames said twice.
            let slice = input[at..(at + 1 + rng.below(64)).min(length)].to_vec();
            drop(input.splice(at..at, slice));
        }
        7 => input.truncate(at),
        _ => {
            let other = &inputs[rng.below(inputs.len())];
            let from = rng.below(other.len());
            let slice = other[from..(from + 1 + rng.below(256)).min(other.len())].to_vec();
            drop(input.splice(at..at, slice));
        }
    }
}
