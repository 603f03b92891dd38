//! What waits to be written. Frames are built in one buffer; large bodies stand between as the slices
//! they came as, so a body is copied only where that is cheaper than a second segment.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// Up to this many bytes are copied: 2 KiB cost less than a segment of their own.
const COPY_BYTES_MAX: usize = 2048;

/// Bytes to write, in order. Read it as a [`Buf`], with `chunks_vectored` where the transport writes
/// several slices at once.
#[derive(Debug, Default)]
pub struct Output {
    chunks: VecDeque<Bytes>,
    chunk_bytes: usize,
    tail: BytesMut,
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
        self.tail.advance(count);
    }
}
