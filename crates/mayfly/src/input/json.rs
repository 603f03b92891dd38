//! Messages as JSON lines: what `receive` and `peek` print.

use client::Delivery;
use client::v1::{MessageState, Value as Property, value::Kind};
use serde::Serialize;
use serde_json::{Map, Value};

use super::instant;

/// One delivery as it is printed: what is absent is left out.
#[derive(Debug, Default, Serialize)]
struct Line {
    sequence_number: u64,
    message_id: Option<String>,
    /// A body that is text; any other is `body_hex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_hex: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    properties: Map<String, Value>,
    #[serde(flatten)]
    texts: Texts,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    delivery_count: u32,
    enqueued_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    enqueued_sequence_number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locked_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_token: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Texts {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to_session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter_source: Option<String>,
}

/// One delivery as a line of JSON.
pub fn delivery(delivery: &Delivery) -> String {
    // It holds nothing that JSON cannot: names are texts and numbers are finite or null.
    serde_json::to_string(&Line::of(delivery)).unwrap_or_default()
}

impl Line {
    fn of(delivery: &Delivery) -> Line {
        let received = delivery.wire();
        let message = received.message.clone().unwrap_or_default();
        let body = std::str::from_utf8(&message.body).ok().map(str::to_owned);
        let enqueued = received.enqueued_sequence_number;
        let properties = message.properties.iter();
        Line {
            sequence_number: received.sequence_number,
            message_id: message.message_id,
            body_hex: body.is_none().then(|| hex(&message.body)),
            body,
            properties: properties.map(|(name, value)| (name.clone(), property(value))).collect(),
            texts: Texts {
                session_id: message.session_id,
                correlation_id: message.correlation_id,
                subject: message.subject,
                to: message.to,
                reply_to: message.reply_to,
                reply_to_session_id: message.reply_to_session_id,
                partition_key: message.partition_key,
                content_type: message.content_type,
                dead_letter_source: received.dead_letter_source.clone(),
            },
            state: match received.state() {
                MessageState::Active => None,
                MessageState::Deferred => Some("deferred"),
                MessageState::Scheduled => Some("scheduled"),
            },
            delivery_count: received.delivery_count,
            enqueued_at: instant::show_ms(received.enqueued_at_ms),
            enqueued_sequence_number: Some(enqueued).filter(|n| *n != received.sequence_number),
            ttl_ms: message.ttl_ms,
            scheduled_at: message.scheduled_at_ms.map(instant::show_ms),
            expires_at: received.expires_at_ms.map(instant::show_ms),
            locked_until: received.locked_until_ms.map(instant::show_ms),
            lock_token: received.lock_token.as_ref().map(|token| hex(token)),
        }
    }
}

/// A property in its nearest JSON kind.
fn property(value: &Property) -> Value {
    match &value.kind {
        None | Some(Kind::Null(_)) => Value::Null,
        Some(Kind::BoolValue(truth)) => (*truth).into(),
        Some(Kind::StringValue(text) | Kind::UriValue(text)) => text.clone().into(),
        Some(Kind::IntValue(number) | Kind::SbyteValue(number) | Kind::ShortValue(number)) => {
            (*number).into()
        }
        Some(Kind::ByteValue(number) | Kind::UshortValue(number) | Kind::UintValue(number)) => {
            (*number).into()
        }
        Some(
            Kind::LongValue(number)
            | Kind::DateTimeOffsetTicks(number)
            | Kind::TimeSpanTicks(number),
        ) => (*number).into(),
        Some(Kind::UlongValue(number)) => (*number).into(),
        Some(Kind::DoubleValue(number)) => (*number).into(),
        Some(Kind::FloatValue(number)) => f64::from(*number).into(),
        Some(Kind::CharValue(code)) => {
            char::from_u32(*code).map_or(Value::Null, |c| c.to_string().into())
        }
        Some(Kind::DateTimeMs(at_ms)) => match u64::try_from(*at_ms) {
            Ok(at_ms) => instant::show_ms(at_ms).into(),
            Err(_) => (*at_ms).into(),
        },
        Some(Kind::UuidValue(bytes)) => match uuid::Uuid::from_slice(bytes) {
            Ok(uuid) => uuid.to_string().into(),
            Err(_) => hex(bytes).into(),
        },
        Some(Kind::BytesValue(bytes) | Kind::DecimalValue(bytes)) => hex(bytes).into(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use client::v1;

    use super::*;

    #[test]
    fn a_delivery_prints_what_is_there_and_nothing_else() {
        let long = Property { kind: Some(Kind::LongValue(7)) };
        let received = v1::ReceivedMessage {
            message: Some(v1::Message {
                body: "hello".into(),
                message_id: Some("m1".into()),
                properties: BTreeMap::from([("n".to_owned(), long)]),
                ..Default::default()
            }),
            sequence_number: 3,
            enqueued_sequence_number: 3,
            enqueued_at_ms: 1000,
            delivery_count: 1,
            lock_token: Some(vec![0xab, 0xcd].into()),
            ..Default::default()
        };
        assert_eq!(
            delivery(&Delivery::from(received)),
            "{\"sequence_number\":3,\"message_id\":\"m1\",\"body\":\"hello\",\"properties\":{\"n\":7},\
             \"delivery_count\":1,\"enqueued_at\":\"1970-01-01T00:00:01.000Z\",\"lock_token\":\"abcd\"}"
        );
    }

    #[test]
    fn a_body_that_is_no_text_is_printed_as_hex() {
        let message = v1::Message { body: vec![0xff, 0x00].into(), ..Default::default() };
        let received = v1::ReceivedMessage { message: Some(message), ..Default::default() };
        let line = Line::of(&Delivery::from(received));
        assert_eq!((line.body, line.body_hex.as_deref()), (None, Some("ff00")));
    }
}
