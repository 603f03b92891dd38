//! A message on its way out: a few slices, written one after another.

use bytes::{Buf, Bytes};

/// The encoded message: a new head, then what its producer sent, untouched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    parts: [Bytes; Payload::PARTS],
}

impl Payload {
    pub const PARTS: usize = 4;

    pub fn new(parts: [Bytes; Payload::PARTS]) -> Payload {
        Payload { parts }
    }

    pub fn len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(Bytes::is_empty)
    }

    /// One contiguous copy.
    pub fn to_bytes(&self) -> Bytes {
        self.parts.concat().into()
    }

    /// Takes the first `count` bytes, slice by slice; there are as many.
    pub(crate) fn take(&mut self, mut count: usize, mut each: impl FnMut(Bytes)) {
        for part in &mut self.parts {
            let step = count.min(part.len());
            if step > 0 {
                each(part.split_to(step));
                count -= step;
            }
        }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Payload {
        Payload { parts: [bytes, Bytes::new(), Bytes::new(), Bytes::new()] }
    }
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self.parts.iter().find(|part| !part.is_empty()).map_or(&[], |part| part)
    }

    fn advance(&mut self, count: usize) {
        self.take(count, drop);
    }
}
