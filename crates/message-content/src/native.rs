//! Contents as stored, whichever protocol they came by: see the module's table.

use amqp_protocol::Limits;
use amqp_protocol::codec::DecodeError;
use amqp_protocol::message::Message;
use bytes::{Bytes, BytesMut};
use domain::Refusal;
use thiserror::Error;
use wire::{native as values, v1};

use crate::{Body, Neutral};

/// With what an AMQP message begins, and no content of the native API.
const DESCRIBED: u8 = 0;

/// A stored content that cannot be shown: written by a newer version, or damaged.
#[derive(Clone, Debug, Error)]
pub enum Unreadable {
    #[error(transparent)]
    Amqp(#[from] DecodeError),
    #[error(transparent)]
    Native(#[from] wire::Error),
    #[error(transparent)]
    Property(#[from] Refusal),
}

/// A content as an AMQP message: its own bytes, or its translation, written by way of `scratch`.
pub fn stored(
    content: &Bytes,
    limits: &Limits,
    scratch: &mut BytesMut,
) -> Result<Message, Unreadable> {
    if is_amqp(content) {
        return Ok(Message::parse(content.clone(), limits)?);
    }
    let mut neutral = Neutral::from_native(wire::content::decode(content.clone())?)?;
    if let Ok(message) = Message::parse(neutral.to_amqp(scratch), limits) {
        return Ok(message);
    }
    // Who said that they are AMQP sections was wrong: then they are bytes like any other.
    if let Body::Amqp(bytes) = neutral.body {
        neutral.body = Body::Binary(bytes);
    }
    Ok(Message::parse(neutral.to_amqp(scratch), limits)?)
}

/// A content as the native API has it.
pub fn native(content: &Bytes) -> Result<v1::Message, Unreadable> {
    if !is_amqp(content) {
        return Ok(wire::content::decode(content.clone())?);
    }
    let limits = Limits::default();
    let message = Message::parse(content.clone(), &limits)?;
    Ok(Neutral::from_amqp(&message, &limits)?.into_native())
}

pub(super) fn is_amqp(content: &Bytes) -> bool {
    content.first() == Some(&DESCRIBED)
}

impl Neutral {
    pub(super) fn from_native(message: v1::Message) -> Result<Neutral, Refusal> {
        let properties = values::properties_from_v1(&message.properties)?;
        Ok(Neutral {
            body: match message.amqp_sections {
                true => Body::Amqp(message.body),
                false => Body::Binary(message.body),
            },
            message_id: message.message_id,
            session_id: message.session_id,
            reply_to_session_id: message.reply_to_session_id,
            partition_key: message.partition_key,
            correlation_id: message.correlation_id,
            subject: message.subject,
            to: message.to,
            reply_to: message.reply_to,
            content_type: message.content_type,
            ttl: message.ttl_ms.map(domain::Span),
            scheduled_at: message.scheduled_at_ms.map(domain::Timestamp),
            properties,
        })
    }

    fn into_native(self) -> v1::Message {
        let (body, amqp_sections) = match self.body {
            Body::Binary(bytes) => (bytes, false),
            Body::Amqp(sections) => (sections, true),
        };
        v1::Message {
            body,
            message_id: self.message_id,
            session_id: self.session_id,
            reply_to_session_id: self.reply_to_session_id,
            partition_key: self.partition_key,
            correlation_id: self.correlation_id,
            subject: self.subject,
            to: self.to,
            reply_to: self.reply_to,
            content_type: self.content_type,
            ttl_ms: self.ttl.map(|ttl| ttl.0),
            scheduled_at_ms: self.scheduled_at.map(|at| at.0),
            properties: values::properties_to_v1(&self.properties),
            amqp_sections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> v1::Message {
        let count = v1::Value { kind: Some(v1::value::Kind::LongValue(7)) };
        v1::Message {
            body: Bytes::from_static(b"body"),
            message_id: Some("id".into()),
            subject: Some("label".into()),
            ttl_ms: Some(9000),
            scheduled_at_ms: Some(5),
            properties: [("count".to_owned(), count)].into(),
            ..Default::default()
        }
    }

    /// There and back: what the native API sent, an AMQP client receives, and the reverse.
    #[test]
    fn msg_2_either_protocol_reads_what_the_other_sent() {
        let (limits, mut scratch) = (Limits::default(), BytesMut::new());
        let sent = wire::content::encode(&message());
        let translated = stored(&sent, &limits, &mut scratch).unwrap();
        assert_eq!(native(translated.bytes()).unwrap(), message());
        assert_eq!(native(&sent).unwrap(), message());
        let again = stored(translated.bytes(), &limits, &mut scratch).unwrap();
        assert_eq!(again.bytes(), translated.bytes(), "an AMQP message stays as it is");
    }

    #[test]
    fn msg_2_a_body_that_is_no_amqp_value_is_bytes() {
        let claimed = v1::Message { amqp_sections: true, ..message() };
        let content = wire::content::encode(&claimed);
        let shown = stored(&content, &Limits::default(), &mut BytesMut::new()).unwrap();
        assert_eq!(native(shown.bytes()).unwrap(), message());
    }
}
