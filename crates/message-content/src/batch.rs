//! Batches: one transfer whose data sections each hold a whole message (XFER-6).

use amqp_protocol::Limits;
use amqp_protocol::codec::{Decode, DecodeError, Reader, descriptor};
use amqp_protocol::message::Message;
use bytes::Bytes;

/// The message format of a batch: data sections that each hold a message (XFER-6).
pub const BATCH_FORMAT: u32 = 0x8001_3700;

/// The messages of a batch, slices of it, in order. The envelope's other sections say nothing about
/// them and are passed over.
///
/// # Errors
/// [`DecodeError`] of the first thing that is not a section or not a message: all or nothing.
pub fn batch(envelope: &Bytes, limits: &Limits) -> Result<Vec<Message>, DecodeError> {
    let mut messages = Vec::new();
    let mut reader = Reader::new(envelope, limits);
    while reader.left() > 0 {
        let section = reader.descriptor("message section")?;
        if section == descriptor::DATA {
            let code = reader.u8()?;
            let content = Bytes::decode(&mut reader, code)?;
            reader.count(1)?;
            messages.push(Message::parse(content, limits)?);
        } else {
            reader.skip()?;
        }
    }
    Ok(messages)
}
