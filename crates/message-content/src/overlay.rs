//! Application properties with what the broker laid over them (LOCK-10, DLQ-9).

use amqp_protocol::Limits;
use amqp_protocol::codec::{self, DecodeError, Encode, Value, code, descriptor};
use amqp_protocol::message::Message;
use bytes::BytesMut;
use domain::Overlay;

use crate::from_domain;

/// Writes the section anew: entries the overlay does not name are copied as they are.
pub(super) fn write(
    message: &Message,
    overlay: &Overlay,
    limits: &Limits,
    out: &mut BytesMut,
) -> Result<(), DecodeError> {
    codec::write_descriptor(out, descriptor::APPLICATION_PROPERTIES);
    let start = codec::begin(out, code::MAP8);
    let mut count = 0;
    let section = message.sections().application_properties;
    message.entries(section, limits, |name, entry| {
        let is_named = overlay.set.contains_key(name) || overlay.removed.iter().any(|n| n == name);
        if !is_named {
            out.extend_from_slice(entry.bytes());
            count += 2;
        }
        Ok::<(), DecodeError>(())
    })?;
    for (name, value) in &overlay.set {
        Value::from(name.as_str()).encode(out);
        from_domain(value).encode(out);
        count += 2;
    }
    codec::end(out, start, count);
    Ok(())
}
