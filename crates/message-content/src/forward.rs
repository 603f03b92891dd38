//! A stored message on its way to where it is forwarded to.

use amqp_protocol::Limits;
use amqp_protocol::message::Message;
use bytes::{Bytes, BytesMut};
use domain::{Arriving, NewMessage, Outgoing};

use crate::native::{Unreadable, is_amqp};
use crate::{Shown, deliver, new_message};

/// The content byte for byte, or, where something was laid over it, with that as part of it
/// (RULE-18); whichever protocol it came by.
pub fn forwarded(outgoing: Outgoing, content: Bytes) -> Result<Arriving, Unreadable> {
    if !is_amqp(&content) {
        return Ok(wire::content::forwarded(outgoing, content)?);
    }
    let Outgoing { delivery, ttl, header_bytes, travel } = outgoing;
    let limits = Limits::default();
    let mut scratch = BytesMut::new();
    let mut message = Message::parse(content, &limits)?;
    if delivery.overlay.is_some() {
        // What is the broker's among it is passed over when it is read and shown again.
        let payload = deliver(&message, &delivery, Shown::Peek, None, &limits, &mut scratch)?;
        message = Message::parse(payload.to_bytes(), &limits)?;
    }
    // Stored messages have an id each; none is drawn.
    let stored = new_message(&message, &limits, || [0; 16], &mut scratch)?;
    let scheduled_at = delivery.overlay.as_ref().and_then(|overlay| overlay.scheduled_at);
    let (size_bytes, header_bytes) = match delivery.overlay {
        None => (delivery.size_bytes, header_bytes),
        Some(_) => (stored.size_bytes, stored.header_bytes),
    };
    let message = NewMessage { size_bytes, header_bytes, ttl, scheduled_at, ..stored };
    Ok(Arriving { message, travel })
}

#[cfg(test)]
mod tests {
    use domain::{
        Delivery, MessageState, Overlay, SequenceNumber, SystemProperty, Timestamp, Travel, Value,
    };

    use super::*;
    use crate::{Body, Neutral, native};

    fn outgoing(overlay: Option<Box<Overlay>>) -> Outgoing {
        Outgoing {
            delivery: Delivery {
                sequence: SequenceNumber(5),
                body: SequenceNumber(5),
                topic: None,
                size_bytes: 40,
                state: MessageState::Active,
                delivery_count: 2,
                enqueued_at: Timestamp(100),
                enqueued_sequence: SequenceNumber(4),
                dead_letter_source: None,
                scheduled_at: None,
                ttl: None,
                expires_at: None,
                lock: None,
                overlay,
            },
            ttl: Some(domain::Span(7)),
            header_bytes: 11,
            travel: Travel {
                enqueued_sequence: SequenceNumber(4),
                hops: 1,
                dead_letter_source: None,
            },
        }
    }

    fn content() -> Bytes {
        let sent = wire::v1::Message {
            message_id: Some("m".into()),
            session_id: Some("s".into()),
            body: Bytes::from_static(b"body"),
            ..Default::default()
        };
        let mut neutral = Neutral::from_native(sent).unwrap();
        neutral.body = Body::Binary(Bytes::from_static(b"body"));
        neutral.to_amqp(&mut BytesMut::new())
    }

    #[test]
    fn fwd_6_what_was_sent_over_amqp_is_forwarded_byte_for_byte() {
        let arriving = forwarded(outgoing(None), content()).unwrap();
        let message = arriving.message;
        assert_eq!(message.content, content());
        assert_eq!((message.size_bytes, message.header_bytes), (40, 11));
        assert_eq!(message.message_id.as_deref(), Some("m"));
        assert_eq!(message.session_id.as_deref(), Some("s"));
        assert_eq!((message.ttl, message.scheduled_at), (Some(domain::Span(7)), None));
    }

    #[test]
    fn rule_18_what_was_laid_over_it_is_part_of_it() {
        let texts = [(SystemProperty::MessageId, Some("new".to_owned()))].into();
        let set = [("DeadLetterReason".to_owned(), Value::String("why".into()))].into();
        let overlay = Overlay { set, texts, ..Overlay::default() };
        let arriving = forwarded(outgoing(Some(Box::new(overlay))), content()).unwrap();
        assert_eq!(arriving.message.message_id.as_deref(), Some("new"));
        let seen = native(&arriving.message.content).unwrap();
        assert_eq!((seen.message_id.as_deref(), &seen.body[..]), (Some("new"), &b"body"[..]));
        assert!(seen.properties.contains_key("DeadLetterReason"));
    }
}
