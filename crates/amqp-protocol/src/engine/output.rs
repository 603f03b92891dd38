//! What waits to be written. Frames are built in one buffer; large bodies stand between as the slices
//! they came as, so a body is copied only where that is cheaper than a second segment.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// Up to this many bytes are copied: 2 KiB cost less than a segment of their own.
const COPY_BYTES_MAX: usize = 2048;
/// A buffer that has grown beyond this is given back once it is empty: most connections are idle most
/// of the time, and ten thousand of them must not keep what their busiest moment took.
const KEEP_BYTES_MAX: usize = 64 * 1024;

/// Bytes to write, in order. Read it as a [`Buf`], with `chunks_vectored` where the transport writes
/// several slices at once.
#[derive(Debug, Default)]
pub struct Output {
    chunks: VecDeque<Bytes>,
    chunk_bytes: usize,
    tail: BytesMut,
    /// Most bytes the tail held since it was last empty.
    tail_peak: usize,
    /// Bytes ever taken, to see whether the peer reads.
    taken: u64,
}

impl Output {
    /// Where the next frame is built. It is whole, or followed by [`Output::push`], when this is next
    /// called.
    pub(crate) fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        if bytes.len() <= COPY_BYTES_MAX {
            self.tail.extend_from_slice(&bytes);
            return;
        }
        if !self.tail.is_empty() {
            self.push_chunk_of_tail();
        }
        self.chunk_bytes += bytes.len();
        self.chunks.push_back(bytes);
    }

    fn push_chunk_of_tail(&mut self) {
        let chunk = self.tail.split().freeze();
        self.chunk_bytes += chunk.len();
        self.chunks.push_back(chunk);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }
}

impl Buf for Output {
    fn remaining(&self) -> usize {
        self.chunk_bytes + self.tail.len()
    }

    fn chunk(&self) -> &[u8] {
        self.chunks.front().map_or(&self.tail[..], |chunk| &chunk[..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let tail = Some(&self.tail[..]).filter(|tail| !tail.is_empty());
        let chunks = self.chunks.iter().map(|chunk| &chunk[..]).chain(tail);
        slices.iter_mut().zip(chunks).map(|(slot, chunk)| *slot = IoSlice::new(chunk)).count()
    }

    fn advance(&mut self, mut count: usize) {
        self.taken += count as u64;
        while let Some(front) = self.chunks.front_mut() {
            let step = count.min(front.len());
            front.advance(step);
            count -= step;
            self.chunk_bytes -= step;
            if !front.is_empty() {
                return;
            }
            self.chunks.pop_front();
        }
        self.tail_peak = self.tail_peak.max(self.tail.len());
        self.tail.advance(count);
        if self.tail.is_empty() && std::mem::take(&mut self.tail_peak) > KEEP_BYTES_MAX {
            self.tail = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_bytes_are_joined_and_large_ones_stand_alone() {
        let mut output = Output::default();
        let large = Bytes::from(vec![7; COPY_BYTES_MAX + 1]);
        output.tail().extend_from_slice(b"a");
        output.push(Bytes::from_static(b"b"));
        output.push(large.clone());
        output.tail().extend_from_slice(b"c");
        let mut slices = [IoSlice::new(&[]); 8];
        let count = output.chunks_vectored(&mut slices);
        let lengths: Vec<usize> = slices[..count].iter().map(|slice| slice.len()).collect();
        assert_eq!(lengths, [2, large.len(), 1]);
        assert_eq!(slices[1].as_ptr(), large.as_ptr(), "not copied");
        output.advance(3);
        assert_eq!(output.chunk().len(), large.len() - 1);
        output.advance(large.len() - 1);
        assert_eq!((output.chunk(), output.remaining()), (&b"c"[..], 1));
    }

    #[test]
    fn a_buffer_that_was_large_once_is_given_back() {
        let mut output = Output::default();
        output.tail().extend_from_slice(&vec![0; KEEP_BYTES_MAX + 1]);
        output.advance(KEEP_BYTES_MAX);
        output.advance(1);
        assert_eq!(output.tail().capacity(), 0);
    }
}
