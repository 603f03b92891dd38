//! A message as pages show it.

use bytes::Bytes;
use domain::{DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON};
use message_content::Plain;
use wire::v1;

use crate::text;

/// What the properties of a message's copy do not carry: the broker wrote them (MSG-6).
pub(crate) const OF_THE_BROKER: [&str; 2] = [DEAD_LETTER_REASON, DEAD_LETTER_ERROR_DESCRIPTION];

pub(crate) fn state(message: &v1::ReceivedMessage) -> &'static str {
    match v1::MessageState::try_from(message.state) {
        Ok(v1::MessageState::Deferred) => "deferred",
        Ok(v1::MessageState::Scheduled) => "scheduled",
        Ok(v1::MessageState::Active) | Err(_) => "active",
    }
}

pub(crate) fn content(message: &v1::ReceivedMessage) -> v1::Message {
    message.message.clone().unwrap_or_default()
}

pub(crate) fn reason(message: &v1::ReceivedMessage) -> Option<String> {
    property_text(message, DEAD_LETTER_REASON)
}

pub(crate) fn property_text(message: &v1::ReceivedMessage, name: &str) -> Option<String> {
    let value = message.message.as_ref()?.properties.get(name)?;
    Some(value_text(value).1)
}

/// Type and value of a user property.
pub(crate) fn value_text(value: &v1::Value) -> (&'static str, String) {
    use v1::value::Kind;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match &value.kind {
        None | Some(Kind::Null(_)) => ("null", String::new()),
        Some(Kind::BoolValue(value)) => ("bool", value.to_string()),
        Some(Kind::IntValue(value)) => ("int", value.to_string()),
        Some(Kind::LongValue(value)) => ("long", value.to_string()),
        Some(Kind::DoubleValue(value)) => ("double", value.to_string()),
        Some(Kind::StringValue(value)) => ("string", value.clone()),
        Some(Kind::BytesValue(value)) => ("bytes", hex(value)),
        Some(Kind::ByteValue(value)) => ("byte", value.to_string()),
        Some(Kind::SbyteValue(value)) => ("sbyte", value.to_string()),
        Some(Kind::ShortValue(value)) => ("short", value.to_string()),
        Some(Kind::UshortValue(value)) => ("ushort", value.to_string()),
        Some(Kind::UintValue(value)) => ("uint", value.to_string()),
        Some(Kind::UlongValue(value)) => ("ulong", value.to_string()),
        Some(Kind::FloatValue(value)) => ("float", value.to_string()),
        Some(Kind::DecimalValue(value)) => ("decimal", hex(value)),
        Some(Kind::CharValue(value)) => {
            ("char", char::from_u32(*value).map_or_else(|| value.to_string(), String::from))
        }
        Some(Kind::UriValue(value)) => ("uri", value.clone()),
        Some(Kind::UuidValue(value)) => ("uuid", hex(value)),
        Some(Kind::DateTimeMs(value)) => match u64::try_from(*value) {
            Ok(ms) => ("date-time", text::instant(ms)),
            Err(_) => ("date-time", format!("{value} ms")),
        },
        Some(Kind::DateTimeOffsetTicks(value)) => ("date-time-offset", format!("{value} ticks")),
        Some(Kind::TimeSpanTicks(value)) => ("time-span", format!("{value} ticks")),
    }
}

/// What an application put into the body, as far as it is text or bytes.
pub(crate) struct Body {
    pub bytes: Bytes,
    /// What it is besides, where it is not just bytes.
    pub kind: Option<&'static str>,
}

impl Body {
    pub fn of(message: &v1::Message) -> Body {
        let bytes = message.body.clone();
        if !message.amqp_sections {
            return Body { bytes, kind: None };
        }
        match message_content::plain(&bytes) {
            Some(Plain::Text(text)) => Body { bytes: text.into(), kind: Some("an AMQP string") },
            Some(Plain::Binary(bytes)) => Body { bytes, kind: Some("an AMQP binary") },
            None => Body { bytes, kind: Some("AMQP sections, as encoded") },
        }
    }

    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// A line of it.
    pub fn excerpt(&self) -> String {
        const BYTES: usize = 80;
        match self.text() {
            Some(text) => {
                let head = text::head(text, BYTES).replace(char::is_whitespace, " ");
                if head.len() < text.len() { head + "…" } else { head }
            }
            None => format!("{} of binary", text::bytes(self.bytes.len() as u64)),
        }
    }
}
