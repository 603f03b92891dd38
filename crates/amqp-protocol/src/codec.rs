//! AMQP 1.0's types and frames. Decoding borrows from `bytes::Bytes`: text and binaries are slices
//! of the frame they came in, and what nobody asks for is passed over. Encoding appends to a
//! `BytesMut`. Any bytes decode to a value or to a named [`DecodeError`]: nesting and counts draw on
//! an allowance of [`crate::Limits`] that also falls with the input, so no few bytes claim much
//! memory.
//!
//! Rules such as CONN-5 are those of Mayfly's `docs/protocols/amqp.md`.

pub mod code;
pub(crate) mod composite;
mod control;
pub mod descriptor;
mod error;
pub mod frame;
mod performative;
pub(crate) mod primitive;
pub(crate) mod reader;
mod state;
mod terminus;
mod value;
pub(crate) mod writer;

pub use composite::Composite;
pub use control::Control;
pub use error::DecodeError;
pub use performative::*;
pub use primitive::{Decode, Encode, Symbol, Symbols, Tag};
pub use reader::{Fields, Reader, Span};
pub use state::*;
pub use terminus::*;
pub use value::{Array, Map, Value};
pub use writer::{begin, descriptor as write_descriptor, end};

pub(crate) use composite::composite;
pub(crate) use primitive::field;

#[cfg(test)]
mod tests;
