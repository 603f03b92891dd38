//! A message's content: what its producer sent (MSG-2), stored once and opaque to the machine
//! (MSG-1). One format byte, then an encoded [`v1::Message`]; or, after a 0, what came over AMQP as it
//! was sent.

mod amqp;
mod encoded;
mod trace;

use bytes::{BufMut, Bytes, BytesMut};
use domain::{
    Arriving, ContentHeader, Delivery, MessageState, MessageTexts, NewMessage, Outgoing, Overlay,
    Refusal, Span, SystemProperty, Timestamp, properties_bytes, validate,
};
use prost::Message as _;

pub use self::trace::trace_context;
use crate::native::{properties_from_v1, value_to_v1};
use crate::{Error, v1};

/// The format a content's first byte names: protobuf.
const FORMAT: u8 = 1;

pub fn encode(message: &v1::Message) -> Bytes {
    let mut out = BytesMut::with_capacity(1 + message.encoded_len());
    out.put_u8(FORMAT);
    message.encode_raw(&mut out);
    out.freeze()
}

/// The message of a content; its body is a slice of it.
pub fn decode(mut content: Bytes) -> Result<v1::Message, Error> {
    match content.first() {
        Some(&FORMAT) => {
            let message = content.split_off(1);
            v1::Message::decode(message).map_err(|_| Error::corrupt("content is not a message"))
        }
        Some(&found) => Err(Error::Newer { what: "message content", found, newest: FORMAT }),
        None => Err(Error::corrupt("content is empty")),
    }
}

/// What a producer sent, as the machine takes it. Limits are the machine's to judge; refused here
/// are only property values that have no meaning (ERR-12).
pub fn new_message(message: v1::Message) -> Result<NewMessage, Refusal> {
    let properties = properties_from_v1(&message.properties)?;
    let header_bytes = system_bytes(&message) + properties_bytes(&properties);
    let content = encode(&message);
    Ok(NewMessage {
        content,
        size_bytes: bounded(header_bytes + message.body.len()),
        header_bytes: bounded(header_bytes),
        message_id: message.message_id,
        session_id: message.session_id,
        partition_key: message.partition_key,
        ttl: message.ttl_ms.map(Span),
        scheduled_at: message.scheduled_at_ms.map(Timestamp),
    })
}

/// What only the edge can see of a message, as a content is opaque behind it (MSG-7, QUOTA-17,
/// QUOTA-19).
pub fn check(message: &v1::Message) -> Result<(), Refusal> {
    validate::id("ReplyToSessionId", message.reply_to_session_id.as_deref())?;
    for (name, text) in [
        ("CorrelationId", &message.correlation_id),
        ("Subject", &message.subject),
        ("To", &message.to),
        ("ReplyTo", &message.reply_to),
        ("ContentType", &message.content_type),
    ] {
        validate::property_bytes(&name, name.len() + text.as_ref().map_or(0, String::len))?;
    }
    if message.properties.is_empty() {
        return Ok(());
    }
    let properties = properties_from_v1(&message.properties)?;
    properties.iter().try_for_each(|(name, value)| validate::property(name, value))
}

/// What rules see of a content (RULE-4): all but its body, whichever protocol it came by.
pub fn header(content: &Bytes) -> Option<ContentHeader> {
    if content.first() == Some(&amqp::FORMAT) {
        return amqp::header(content);
    }
    let mut message = decode(content.clone()).ok()?;
    let properties = properties_from_v1(&message.properties).ok()?;
    let texts = TEXTS.into_iter().filter_map(|property| {
        let text = text(&mut message, property)?.take()?;
        Some((property, text))
    });
    Some(ContentHeader {
        texts: texts.collect(),
        ttl: message.ttl_ms.map(Span),
        scheduled_at: message.scheduled_at_ms.map(Timestamp),
        properties,
    })
}

/// Of a stored message what it is known by: read without the rest of it.
#[derive(prost::Message)]
struct Known {
    #[prost(string, optional, tag = "2")]
    message_id: Option<String>,
    #[prost(string, optional, tag = "3")]
    session_id: Option<String>,
    #[prost(string, optional, tag = "6")]
    correlation_id: Option<String>,
    #[prost(string, optional, tag = "7")]
    subject: Option<String>,
    #[prost(string, optional, tag = "9")]
    reply_to: Option<String>,
}

/// What a message is known by, whichever protocol it came by (HIST-1). Nothing of what cannot be read.
pub fn texts(content: &Bytes) -> MessageTexts {
    let boxed = |text: Option<String>| text.map(String::into_boxed_str);
    match content.first() {
        Some(&amqp::FORMAT) => {
            let mut texts = amqp::texts(content);
            let mut text = |property| boxed(texts.remove(&property));
            MessageTexts {
                message_id: text(SystemProperty::MessageId),
                correlation_id: text(SystemProperty::CorrelationId),
                session_id: text(SystemProperty::SessionId),
                subject: text(SystemProperty::Subject),
                reply_to: text(SystemProperty::ReplyTo),
            }
        }
        Some(&FORMAT) => {
            let known = Known::decode(&content[1..]).unwrap_or_default();
            MessageTexts {
                message_id: boxed(known.message_id),
                correlation_id: boxed(known.correlation_id),
                session_id: boxed(known.session_id),
                subject: boxed(known.subject),
                reply_to: boxed(known.reply_to),
            }
        }
        _ => MessageTexts::default(),
    }
}

/// Broker properties that are texts.
const TEXTS: [SystemProperty; 9] = [
    SystemProperty::MessageId,
    SystemProperty::SessionId,
    SystemProperty::ReplyToSessionId,
    SystemProperty::PartitionKey,
    SystemProperty::CorrelationId,
    SystemProperty::Subject,
    SystemProperty::To,
    SystemProperty::ReplyTo,
    SystemProperty::ContentType,
];

/// Where a message keeps a broker property that is a text.
fn text(message: &mut v1::Message, property: SystemProperty) -> Option<&mut Option<String>> {
    Some(match property {
        SystemProperty::MessageId => &mut message.message_id,
        SystemProperty::SessionId => &mut message.session_id,
        SystemProperty::ReplyToSessionId => &mut message.reply_to_session_id,
        SystemProperty::PartitionKey => &mut message.partition_key,
        SystemProperty::CorrelationId => &mut message.correlation_id,
        SystemProperty::Subject => &mut message.subject,
        SystemProperty::To => &mut message.to,
        SystemProperty::ReplyTo => &mut message.reply_to,
        SystemProperty::ContentType => &mut message.content_type,
        SystemProperty::TransactionPartitionKey
        | SystemProperty::TimeToLive
        | SystemProperty::ScheduledEnqueueTimeUtc
        | SystemProperty::ForcePersistence
        | SystemProperty::SequenceNumber
        | SystemProperty::EnqueuedSequenceNumber
        | SystemProperty::EnqueuedTimeUtc
        | SystemProperty::ExpiresAtUtc
        | SystemProperty::DeliveryCount
        | SystemProperty::State
        | SystemProperty::DeadLetterSource
        | SystemProperty::Size => return None,
    })
}

/// The broker properties' share of the header (MSG-7).
fn system_bytes(message: &v1::Message) -> usize {
    let texts = [
        &message.message_id,
        &message.session_id,
        &message.reply_to_session_id,
        &message.partition_key,
        &message.correlation_id,
        &message.subject,
        &message.to,
        &message.reply_to,
        &message.content_type,
    ];
    let numbers = [message.ttl_ms, message.scheduled_at_ms];
    texts.into_iter().flatten().map(String::len).sum::<usize>()
        + numbers.iter().flatten().count() * size_of::<u64>()
}

fn bounded(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Why a message is shown to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Delivered under a lock that the client settles.
    PeekLock,
    /// Delivered under a lock that the edge completes (LOCK-2): the client sees none.
    ReceiveAndDelete,
    /// PEEK-6: no lock, and the stored delivery count.
    Peek,
}

/// A message as the broker shows it (MSG-3): content, what was laid over it, and where it stands.
pub fn received(
    delivery: &Delivery,
    content: Bytes,
    shown: Shown,
) -> Result<v1::ReceivedMessage, Error> {
    Ok(show(delivery, decode(content)?, shown))
}

/// As [`received`], of a content that was decoded already.
pub fn show(delivery: &Delivery, mut message: v1::Message, shown: Shown) -> v1::ReceivedMessage {
    // TTL-24, TTL-25: what the machine says holds, not what the producer asked for.
    let ttl_ms = delivery.ttl.map(|ttl| ttl.0);
    let sent_ttl_ms = std::mem::replace(&mut message.ttl_ms, ttl_ms);
    if let Some(at) = delivery.scheduled_at {
        message.scheduled_at_ms = Some(at.0);
    }
    if let Some(overlay) = &delivery.overlay {
        lay(&mut message, overlay);
    }
    let lock = delivery.lock.filter(|_| shown == Shown::PeekLock);
    v1::ReceivedMessage {
        message: Some(message),
        sequence_number: delivery.sequence.0,
        enqueued_sequence_number: delivery.enqueued_sequence.0,
        enqueued_at_ms: delivery.enqueued_at.0,
        expires_at_ms: delivery.expires_at.map(|at| at.0),
        delivery_count: match shown {
            // LOCK-19: this delivery counts as one more.
            Shown::PeekLock | Shown::ReceiveAndDelete => delivery.delivery_count.saturating_add(1),
            Shown::Peek => delivery.delivery_count,
        },
        state: match delivery.state {
            MessageState::Active => v1::MessageState::Active,
            MessageState::Deferred => v1::MessageState::Deferred,
            MessageState::Scheduled => v1::MessageState::Scheduled,
        }
        .into(),
        lock_token: lock.map(|lock| Bytes::copy_from_slice(&lock.token.to_bytes())),
        locked_until_ms: lock.map(|lock| lock.until.0),
        dead_letter_source: delivery.dead_letter_source.clone(),
        sent_ttl_ms,
    }
}

fn lay(message: &mut v1::Message, overlay: &Overlay) {
    for name in &overlay.removed {
        message.properties.remove(name);
    }
    for (name, value) in &overlay.set {
        message.properties.insert(name.clone(), value_to_v1(value));
    }
    for (property, value) in &overlay.texts {
        if let Some(text) = text(message, *property) {
            text.clone_from(value);
        }
    }
}

/// A message on its way to where it is forwarded to: its content byte for byte, or, where something
/// was laid over it, with that as part of it (RULE-18). What it was scheduled for is over.
pub fn forwarded(outgoing: Outgoing, content: Bytes) -> Result<Arriving, Error> {
    let Outgoing { delivery, ttl, header_bytes, travel } = outgoing;
    let mut message = decode(content.clone())?;
    let scheduled_at = delivery.overlay.as_ref().and_then(|overlay| overlay.scheduled_at);
    let Some(overlay) = delivery.overlay else {
        let message = NewMessage {
            content,
            size_bytes: delivery.size_bytes,
            header_bytes,
            message_id: message.message_id,
            session_id: message.session_id,
            partition_key: message.partition_key,
            ttl,
            scheduled_at,
        };
        return Ok(Arriving { message, travel });
    };
    lay(&mut message, &overlay);
    let message = new_message(message).map_err(|_| Error::corrupt("properties of a message"))?;
    let message = NewMessage { ttl, scheduled_at, ..message };
    Ok(Arriving { message, travel })
}

#[cfg(test)]
mod tests {
    use domain::{HeldLock, LockToken, Overlay, SequenceNumber, Travel, Value};

    use super::*;

    fn message() -> v1::Message {
        v1::Message {
            body: Bytes::from_static(b"body"),
            message_id: Some("id".into()),
            ttl_ms: Some(9000),
            properties: [("kept", Value::Int(7)), ("old", Value::Null), ("gone", Value::Null)]
                .iter()
                .map(|(name, value)| (name.to_string(), value_to_v1(value)))
                .collect(),
            ..Default::default()
        }
    }

    fn delivery() -> Delivery {
        let token = LockToken { sequence: SequenceNumber(5), nonce: 6 };
        Delivery {
            sequence: SequenceNumber(5),
            body: SequenceNumber(5),
            topic: None,
            size_bytes: 0,
            state: MessageState::Active,
            delivery_count: 2,
            enqueued_at: Timestamp(100),
            enqueued_sequence: SequenceNumber(5),
            dead_letter_source: None,
            scheduled_at: None,
            ttl: Some(Span(50)),
            expires_at: Some(Timestamp(150)),
            lock: Some(HeldLock { token, until: Timestamp(130) }),
            overlay: Some(Box::new(Overlay {
                set: [("old".to_string(), Value::Bool(true))].into(),
                removed: vec!["gone".into()],
                texts: [(SystemProperty::Subject, Some("new".into()))].into(),
                scheduled_at: None,
            })),
        }
    }

    #[test]
    fn hist_1_what_a_message_is_known_by_is_read_without_the_rest() {
        let message = v1::Message {
            body: "body".into(),
            message_id: Some("m".into()),
            session_id: Some("s".into()),
            correlation_id: Some("c".into()),
            subject: Some("u".into()),
            reply_to: Some("r".into()),
            to: Some("elsewhere".into()),
            ..message()
        };
        let known = texts(&encode(&message));
        let MessageTexts { message_id, correlation_id, session_id, subject, reply_to } = &known;
        let told = [message_id, correlation_id, session_id, subject, reply_to];
        assert_eq!(told.map(Option::as_deref), ["m", "c", "s", "u", "r"].map(Some));
        assert_eq!(texts(&encode(&v1::Message::default())), MessageTexts::default());
        for unreadable in [&b"no content"[..], b"", &[FORMAT, 0xff]] {
            assert_eq!(texts(&Bytes::from_static(unreadable)), MessageTexts::default());
        }
    }

    #[test]
    fn msg_7_size_is_body_and_header() {
        let new = new_message(message()).unwrap();
        // id 2, ttl 8; kept 4 + 4, old 3 + 1, gone 4 + 1.
        assert_eq!((new.header_bytes, new.size_bytes), (27, 31));
        assert_eq!(decode(new.content).unwrap(), message());
    }

    #[test]
    fn lock_19_a_delivery_shows_one_more_and_a_peek_does_not() {
        let content = encode(&message());
        let show = |shown| received(&delivery(), content.clone(), shown).unwrap();
        assert_eq!(show(Shown::PeekLock).delivery_count, 3);
        assert_eq!(show(Shown::ReceiveAndDelete).delivery_count, 3);
        assert_eq!(show(Shown::Peek).delivery_count, 2);
    }

    #[test]
    fn peek_6_only_a_peek_lock_delivery_shows_its_lock() {
        let content = encode(&message());
        let token = |shown| received(&delivery(), content.clone(), shown).unwrap().lock_token;
        assert_eq!(token(Shown::PeekLock).unwrap()[..], delivery().lock.unwrap().token.to_bytes());
        assert_eq!((token(Shown::Peek), token(Shown::ReceiveAndDelete)), (None, None));
    }

    #[test]
    fn lock_10_an_overlay_overwrites_adds_and_removes() {
        let shown = received(&delivery(), encode(&message()), Shown::PeekLock).unwrap();
        assert_eq!(shown.sent_ttl_ms, Some(9000));
        let message = shown.message.unwrap();
        let names: Vec<_> = message.properties.keys().collect();
        assert_eq!(names, ["kept", "old"]);
        assert_eq!(message.properties["old"], value_to_v1(&Value::Bool(true)));
        assert_eq!(message.ttl_ms, Some(50), "effective, not the producer's");
        assert_eq!(message.subject.as_deref(), Some("new"), "as a rule's action set it (RULE-17)");
    }

    #[test]
    fn fwd_6_rule_18_a_forwarded_message_is_its_content_or_that_with_what_was_laid_over_it() {
        let content = encode(&message());
        let travel =
            Travel { enqueued_sequence: SequenceNumber(3), hops: 2, dead_letter_source: None };
        let ttl = Some(Span(9));
        let out = |overlay| Outgoing {
            delivery: Delivery { size_bytes: 31, overlay, ..delivery() },
            ttl,
            header_bytes: 27,
            travel: travel.clone(),
        };
        let plain = forwarded(out(None), content.clone()).unwrap();
        let sent = NewMessage { ttl, ..new_message(message()).unwrap() };
        assert_eq!(plain, Arriving { message: sent, travel: travel.clone() });
        let texts = [(SystemProperty::MessageId, Some("new".into()))].into();
        let scheduled_at = Some(Timestamp(7));
        let removed = vec!["gone".into()];
        let overlay = Overlay { texts, scheduled_at, removed, ..Overlay::default() };
        let changed = forwarded(out(Some(Box::new(overlay))), content).unwrap().message;
        assert_eq!(changed.message_id.as_deref(), Some("new"));
        assert_eq!((changed.ttl, changed.scheduled_at), (ttl, scheduled_at));
        let seen = header(&changed.content).unwrap();
        assert_eq!(seen.texts[&SystemProperty::MessageId], "new");
        assert!(!seen.properties.contains_key("gone") && seen.properties.contains_key("kept"));
    }

    #[test]
    fn rule_4_rules_see_all_of_a_message_but_its_body() {
        let seen = header(&encode(&message())).unwrap();
        assert_eq!(seen.texts, [(SystemProperty::MessageId, "id".to_owned())].into());
        assert_eq!((seen.ttl, seen.scheduled_at), (Some(Span(9000)), None));
        assert_eq!(seen.properties["kept"], Value::Int(7));
        for property in TEXTS {
            let mut message = v1::Message::default();
            *text(&mut message, property).unwrap() = Some("x".into());
            let seen = header(&encode(&message)).unwrap();
            assert_eq!(seen.texts, [(property, "x".to_owned())].into());
        }
        assert_eq!(header(&Bytes::from_static(b"no content")), None);
    }

    #[test]
    fn a_body_is_a_slice_of_its_content() {
        let content = encode(&message());
        let body = decode(content.clone()).unwrap().body;
        let range = content.as_ptr_range();
        assert!(range.contains(&body.as_ptr()));
    }
}
