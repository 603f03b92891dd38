//! Random bytes that bodies are cut from: no compression shortens them.

use std::sync::Arc;

use rand::Rng;

/// Random bytes. One run's producers share them: a thousand producers with their own would be a gigabyte.
const NOISE_BYTES: usize = 1 << 20;

/// Noise that pieces are cut from. Clones share it.
#[derive(Clone, Debug)]
pub struct Noise(Arc<[u8]>);

impl Noise {
    /// For pieces of at most so many bytes.
    pub fn new(piece_bytes_max: usize) -> Noise {
        let mut noise = vec![0; NOISE_BYTES.max(2 * piece_bytes_max)];
        rand::rng().fill_bytes(&mut noise);
        Noise(noise.into())
    }

    /// So many bytes, other ones for each number.
    pub fn cut(&self, number: u32, bytes: usize) -> &[u8] {
        // Steps by a prime: two pieces near each other share no bytes.
        let at = (number as usize).wrapping_mul(7919 + bytes) % (self.0.len() - bytes);
        &self.0[at..at + bytes]
    }
}
