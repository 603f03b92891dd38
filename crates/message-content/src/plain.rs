//! A value for those who have no types: its text or its bytes.

use amqp_protocol::Limits;
use amqp_protocol::codec::Value;
use bytes::Bytes;

/// What an AMQP value comes to outside AMQP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plain {
    Text(String),
    Binary(Bytes),
}

/// What the sections of [`crate::Body::Amqp`] hold, if that is one value and a text or a binary.
pub fn plain(sections: &Bytes) -> Option<Plain> {
    let Ok(Value::Described(section)) = Value::parse(sections, &Limits::default()) else {
        return None;
    };
    match section.1 {
        Value::String(text) => Some(Plain::Text(text.to_string())),
        Value::Binary(bytes) => Some(Plain::Binary(bytes)),
        _ => None,
    }
}
