//! Bodies of load: each tells when it was due, and the rest is noise that no compression shortens.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use rand::RngExt;

use crate::Noise;

/// At the head of each body: when it was due (ns since the run's start), whose run it is, and a
/// number.
const STAMP_BYTES: usize = 16;

/// Bodies of one size. A clone makes other ones, of the same run.
#[derive(Debug)]
pub struct Bodies {
    noise: Noise,
    size: usize,
    run: u32,
    number: u32,
}

impl Clone for Bodies {
    fn clone(&self) -> Bodies {
        // Two producers that began at one number would send the same noise side by side, which a
        // compression of blocks would notice.
        Bodies { noise: self.noise.clone(), number: rand::rng().random(), ..*self }
    }
}

impl Bodies {
    /// The least size of a body, bytes.
    pub const SIZE_MIN: usize = STAMP_BYTES;

    /// Of one run; `size` is raised to [`Bodies::SIZE_MIN`].
    pub fn new(size: usize) -> Bodies {
        let size = size.max(Bodies::SIZE_MIN);
        let noise = Noise::new(size);
        Bodies { noise, size, run: rand::random(), number: rand::random() }
    }

    /// The next one, due so long after the run's start.
    pub fn next(&mut self, due: Duration) -> Bytes {
        let filling = self.size - STAMP_BYTES;
        let mut body = BytesMut::with_capacity(self.size);
        body.put_u64(u64::try_from(due.as_nanos()).unwrap_or(u64::MAX));
        body.put_u32(self.run);
        body.put_u32(self.number);
        body.put_slice(self.noise.cut(self.number, filling));
        self.number = self.number.wrapping_add(1);
        body.freeze()
    }

    /// When a body was due, since the run's start; `None` for one that is of another run.
    pub fn due(&self, body: &[u8]) -> Option<Duration> {
        let (due, rest) = body.split_first_chunk()?;
        let run = u32::from_be_bytes(*rest.first_chunk()?);
        (run == self.run).then(|| Duration::from_nanos(u64::from_be_bytes(*due)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_size_and_tells_when_it_was_due() {
        for size in [STAMP_BYTES, 17, 1024, 1 << 20] {
            let bodies = Bodies::new(size);
            let mut own = bodies.clone();
            for _ in 0..3 {
                let body = own.next(Duration::from_millis(1234));
                assert_eq!(body.len(), size);
                assert_eq!(bodies.due(&body), Some(Duration::from_millis(1234)));
            }
        }
    }

    #[test]
    fn what_another_run_left_tells_nothing() {
        let (ours, mut theirs) = (Bodies::new(64), Bodies::new(64));
        assert_eq!(ours.due(&theirs.next(Duration::ZERO)), None);
        assert_eq!(ours.due(b"short"), None);
    }

    #[test]
    fn no_two_producers_send_the_same() {
        let (mut one, mut other) = (Bodies::new(1024), Bodies::new(1024));
        assert_ne!(one.next(Duration::ZERO), other.next(Duration::ZERO));
        let mut clone = one.clone();
        assert_ne!(one.next(Duration::ZERO), clone.next(Duration::ZERO));
    }
}
