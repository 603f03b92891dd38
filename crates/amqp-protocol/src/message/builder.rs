//! Messages that are written section by section.

use bytes::{Bytes, BytesMut};

use crate::codec::{self, Composite, Encode, descriptor};

/// A message in the making. Its sections stand in the order of the calls; the standard's is the caller's
/// to keep.
#[derive(Debug, Default)]
#[must_use]
pub struct MessageBuilder(BytesMut);

impl MessageBuilder {
    /// A section that is a list of fields: the header, or the properties.
    pub fn composite(mut self, section: &impl Composite) -> MessageBuilder {
        section.write(&mut self.0);
        self
    }

    /// Any other section, by its descriptor: see [`descriptor`].
    pub fn section(mut self, section: u64, value: &impl Encode) -> MessageBuilder {
        codec::write_descriptor(&mut self.0, section);
        value.encode(&mut self.0);
        self
    }

    /// A body of bytes, or one more part of it.
    pub fn data(self, data: impl Into<Bytes>) -> MessageBuilder {
        self.section(descriptor::DATA, &data.into())
    }

    /// The message as it is sent.
    pub fn build(self) -> Bytes {
        self.0.freeze()
    }
}
