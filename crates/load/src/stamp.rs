//! What each body carries at its end: whose message it is, and since when it should have been in a consumer's hand.

use std::time::Duration;

use bytes::{BufMut, BytesMut};

/// Tells a stamp from what others wrote, with its layout.
const MAGIC: u32 = 0x4d4c_4431;
const SCHEDULED: u16 = 1;
const MEASURED: u16 = 2;

/// At the end of a body, as that is where a payload ends on the wire: nobody has to look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Drawn for each run: what another left behind is not ours.
    pub run: u32,
    pub producer: u16,
    /// Of the producer's messages, from 0.
    pub number: u64,
    /// Since the run's beginning: when it was due to be sent or, scheduled, to come out.
    pub ready: Duration,
    pub is_scheduled: bool,
    /// It was due while it was measured.
    pub is_measured: bool,
    /// Which of the producer's sessions, from 1; 0: none whose order is checked.
    pub session: u32,
}

impl Stamp {
    /// No body is shorter.
    pub const BYTES: usize = 32;

    pub fn write(&self, out: &mut BytesMut) {
        let flags = if self.is_scheduled { SCHEDULED } else { 0 }
            | if self.is_measured { MEASURED } else { 0 };
        out.put_u64(u64::try_from(self.ready.as_nanos()).unwrap_or(u64::MAX));
        out.put_u64(self.number);
        out.put_u32(self.run);
        out.put_u16(self.producer);
        out.put_u16(flags);
        out.put_u32(self.session);
        out.put_u32(MAGIC);
    }

    /// Of what ends like a body; none, where another wrote it.
    pub fn read(bytes: &[u8]) -> Option<Stamp> {
        let at = bytes.len().checked_sub(Stamp::BYTES)?;
        let bytes = &bytes[at..];
        let long = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u64::from_be_bytes);
        let word = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u32::from_be_bytes);
        let short = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u16::from_be_bytes);
        (word(28) == MAGIC).then(|| Stamp {
            run: word(16),
            producer: short(20),
            number: long(8),
            ready: Duration::from_nanos(long(0)),
            is_scheduled: short(22) & SCHEDULED != 0,
            is_measured: short(22) & MEASURED != 0,
            session: word(24),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        for (is_scheduled, is_measured, session) in
            [(false, true, 0), (true, false, u32::MAX), (true, true, 7)]
        {
            let stamp = Stamp {
                run: 0xdead_beef,
                producer: 65_535,
                number: u64::MAX - 1,
                ready: Duration::from_nanos(1_234_567_890_123),
                is_scheduled,
                is_measured,
                session,
            };
            let mut body = BytesMut::from(&b"noise"[..]);
            stamp.write(&mut body);
            assert_eq!(body.len(), 5 + Stamp::BYTES);
            assert_eq!(Stamp::read(&body), Some(stamp));
            body[20] ^= 1;
            assert_ne!(Stamp::read(&body), Some(stamp));
        }
        for other in [&b""[..], b"short", &[0; 100]] {
            assert_eq!(Stamp::read(other), None);
        }
    }
}
