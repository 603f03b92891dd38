//! Frames: length, data offset, type, channel (AMQP 1.0, part 2, 2.3).

use bytes::{BufMut, BytesMut};

use super::DecodeError;

/// Bytes of a frame's header without an extended header.
pub const HEADER_BYTES: usize = 8;
/// What a connection begins with where SASL comes first.
pub const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";
/// What AMQP itself begins with.
pub const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";

/// Whose frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameType {
    Amqp,
    Sasl,
}

impl FrameType {
    fn code(self) -> u8 {
        match self {
            FrameType::Amqp => 0,
            FrameType::Sasl => 1,
        }
    }
}

/// A frame's header: where its body lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the whole frame.
    pub bytes: usize,
    /// Bytes before the body.
    pub body_at: usize,
    pub channel: u16,
}

impl FrameHead {
    /// The head of the frame that `input` begins with, `None` until its first 8 bytes are there. The
    /// length is judged before any of the rest is waited for.
    pub fn parse(
        input: &[u8],
        expected: FrameType,
        bytes_max: u32,
    ) -> Result<Option<FrameHead>, DecodeError> {
        let Some(&[a, b, c, d, offset, kind, high, low]) = input.first_chunk::<HEADER_BYTES>()
        else {
            return Ok(None);
        };
        let bytes = u32::from_be_bytes([a, b, c, d]);
        if bytes < HEADER_BYTES as u32 || bytes > bytes_max {
            return Err(DecodeError::FrameSize { bytes, max: bytes_max });
        }
        let body_at = offset as usize * 4;
        if body_at < HEADER_BYTES || body_at > bytes as usize {
            return Err(DecodeError::DataOffset);
        }
        if kind != expected.code() {
            return Err(DecodeError::FrameType { found: kind });
        }
        let channel = u16::from_be_bytes([high, low]);
        Ok(Some(FrameHead { bytes: bytes as usize, body_at, channel }))
    }
}

/// Begins a frame; [`end`] takes what this returns.
pub fn begin(out: &mut BytesMut, kind: FrameType, channel: u16) -> usize {
    let start = out.len();
    out.put_slice(&[0, 0, 0, 0, 2, kind.code()]);
    out.put_u16(channel);
    start
}

/// Ends the frame begun at `start`; `payload` bytes follow that are not in this buffer.
pub fn end(out: &mut BytesMut, start: usize, payload: usize) {
    let bytes = u32::try_from(out.len() - start + payload).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
}
