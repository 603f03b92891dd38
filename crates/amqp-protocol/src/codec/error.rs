//! Why bytes are not what they claim to be.

use thiserror::Error;

/// A named fault of the input. Whatever the bytes, decoding ends in a value or in one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("the encoding ends before its value does")]
    Truncated,
    #[error("{left} bytes follow the value")]
    Trailing { left: usize },
    #[error("0x{code:02x} begins no AMQP type")]
    Code { code: u8 },
    #[error("expected {expected}, found type 0x{code:02x}")]
    Type { expected: &'static str, code: u8 },
    #[error("a value of type {expected} is out of its range")]
    Range { expected: &'static str },
    #[error("text is not valid UTF-8")]
    Text,
    #[error("{composite} lacks its field {field}")]
    Missing { composite: &'static str, field: &'static str },
    #[error("the descriptor is none of {expected}")]
    Descriptor { expected: &'static str },
    #[error("a compound's size or count does not fit its bytes")]
    Size,
    #[error("values are nested deeper than {max}")]
    Depth { max: u8 },
    #[error("more values than the {max} allowed here")]
    Values { max: u32 },
    #[error("a frame of {bytes} bytes, allowed are 8 to {max}")]
    FrameSize { bytes: u32, max: u32 },
    #[error("a frame's data offset does not lie within it")]
    DataOffset,
    #[error("0x{found:02x} is no frame type expected here")]
    FrameType { found: u8 },
    #[error("message section {section} occurs twice or out of place")]
    Section { section: &'static str },
}

impl DecodeError {
    /// Whether the frame itself was malformed, not what it holds: the byte stream cannot be trusted
    /// any further (`amqp:connection:framing-error`, not `amqp:decode-error`).
    pub fn is_framing(&self) -> bool {
        match self {
            DecodeError::FrameSize { .. }
            | DecodeError::DataOffset
            | DecodeError::FrameType { .. } => true,
            DecodeError::Truncated
            | DecodeError::Trailing { .. }
            | DecodeError::Code { .. }
            | DecodeError::Type { .. }
            | DecodeError::Range { .. }
            | DecodeError::Text
            | DecodeError::Missing { .. }
            | DecodeError::Descriptor { .. }
            | DecodeError::Size
            | DecodeError::Depth { .. }
            | DecodeError::Values { .. }
            | DecodeError::Section { .. } => false,
        }
    }
}
