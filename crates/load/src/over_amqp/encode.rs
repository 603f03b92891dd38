//! Messages as they are sent, and what is read of those that come.

use amqp_protocol::Limits;
use amqp_protocol::codec::{Composite, Encode, Map, Value, descriptor, write_descriptor};
use amqp_protocol::engine::Payload;
use amqp_protocol::message::{Header, Message, MessageBuilder, Properties, UnixMs};
use bytes::{BufMut, Bytes, BytesMut};

use crate::link::{Draft, Property};

/// Service Bus's format of several messages in one: a data section each.
pub(super) const BATCH_FORMAT: u32 = 0x8001_3700;
const BINARY8: u8 = 0xa0;
const BINARY32: u8 = 0xb0;

/// One message.
pub(super) fn payload(draft: Draft) -> Payload {
    let mut head = BytesMut::new();
    let ttl = draft.ttl.map(|ttl| u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX));
    // Service Bus stores everything; other brokers what is to be stored, and the same is asked of all.
    Header { durable: Some(true), ttl, ..Header::default() }.write(&mut head);
    if let Some(at_ms) = draft.scheduled_at_ms {
        let at = Value::Timestamp(i64::try_from(at_ms).unwrap_or(i64::MAX));
        let annotations = Map::default().symbol("x-opt-scheduled-enqueue-time", at);
        write_descriptor(&mut head, descriptor::MESSAGE_ANNOTATIONS);
        annotations.encode(&mut head);
    }
    if draft.message_id.is_some() || draft.session_id.is_some() || draft.subject.is_some() {
        let properties = Properties {
            message_id: draft.message_id.map(|id| Value::from(id.as_str())),
            group_id: draft.session_id.map(Into::into),
            subject: draft.subject.map(Into::into),
            ..Properties::default()
        };
        properties.write(&mut head);
    }
    if !draft.properties.is_empty() {
        let mut map = Map::default();
        for (name, of) in draft.properties {
            let value = match of {
                Property::Flag(flag) => Value::Bool(flag),
                Property::Long(number) => Value::Long(number),
                Property::Double(number) => Value::Double(number),
                Property::Text(text) => Value::from(text.as_str()),
            };
            map.0.push((Value::from(name.as_str()), value));
        }
        write_descriptor(&mut head, descriptor::APPLICATION_PROPERTIES);
        map.encode(&mut head);
    }
    write_descriptor(&mut head, descriptor::DATA);
    match u8::try_from(draft.body.len()) {
        Ok(len) => head.put_slice(&[BINARY8, len]),
        Err(_) => {
            head.put_u8(BINARY32);
            head.put_u32(u32::try_from(draft.body.len()).unwrap_or(u32::MAX));
        }
    }
    Payload::new([head.freeze(), draft.body, Bytes::new(), Bytes::new()])
}

/// Several as one.
pub(super) fn batch(drafts: Vec<Draft>) -> Payload {
    let parts = drafts.into_iter().map(|draft| payload(draft).to_bytes());
    let built = parts.fold(MessageBuilder::default(), MessageBuilder::data);
    Payload::from(built.build())
}

/// The ends of a message's life and of its lock, where they are told.
pub(super) fn ends(payload: &Bytes) -> (Option<u64>, Option<u64>) {
    let limits = Limits::default();
    let Ok(message) = Message::parse(payload.clone(), &limits) else { return (None, None) };
    let (expires, _) = message.lifetime(&limits).unwrap_or_default();
    let annotations = message.message_annotations(&limits).unwrap_or_default();
    let locked = match annotations.get("x-opt-locked-until") {
        Some(Value::Timestamp(at)) => u64::try_from(*at).ok(),
        _ => None,
    };
    (expires.and_then(|UnixMs(at)| u64::try_from(at).ok()), locked)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn draft(body: usize) -> Draft {
        Draft {
            body: vec![7; body].into(),
            message_id: Some("m".to_owned()),
            session_id: Some("s".to_owned()),
            subject: None,
            ttl: Some(Duration::from_secs(5)),
            scheduled_at_ms: Some(99),
            properties: vec![("n".to_owned(), Property::Long(5))],
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_meant() {
        let limits = Limits::default();
        for body in [0, 255, 256, 100_000] {
            let bytes = payload(draft(body)).to_bytes();
            let message = Message::parse(bytes, &limits).expect("a message");
            assert_eq!(message.header(&limits).expect("a header").ttl, Some(5000));
            let properties = message.properties(&limits).expect("properties");
            assert_eq!(properties.message_id, Some(Value::from("m")));
            assert_eq!(properties.group_id.as_deref(), Some("s"));
            let annotations = message.message_annotations(&limits).expect("annotations");
            assert_eq!(
                annotations.get("x-opt-scheduled-enqueue-time"),
                Some(&Value::Timestamp(99))
            );
            let own = message.application_properties(&limits).expect("properties");
            assert_eq!(own.get("n"), Some(&Value::Long(5)));
            assert!(message.bytes().ends_with(&vec![7; body]));
        }
    }

    #[test]
    fn a_message_with_nothing_but_a_body_is_nothing_but_a_body_that_is_to_be_stored() {
        let plain = Draft { body: vec![7; 5].into(), ..Draft::default() };
        let bytes = payload(plain).to_bytes();
        assert!(bytes.ends_with(&[0, 0x53, 0x75, BINARY8, 5, 7, 7, 7, 7, 7]));
        let message = Message::parse(bytes, &Limits::default()).expect("a message");
        assert!(message.header(&Limits::default()).expect("a header").durable == Some(true));
    }

    #[test]
    fn a_batch_holds_its_messages() {
        let limits = Limits::default();
        let message = Message::parse(batch(vec![draft(9), draft(9)]).to_bytes(), &limits);
        let message = message.expect("a message");
        let one = payload(draft(9)).to_bytes();
        let found = message.bytes().windows(one.len()).filter(|part| *part == one).count();
        assert_eq!(found, 2);
    }
}
