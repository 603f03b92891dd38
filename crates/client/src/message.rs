//! What a producer sends (MSG-2), built field by field.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::v1;

/// A message to send. Fields not set are absent on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message(pub(crate) v1::Message);

impl Message {
    /// A message with this body, which the broker never interprets (MSG-1).
    pub fn new(body: impl Into<Bytes>) -> Message {
        Message(v1::Message { body: body.into(), ..v1::Message::default() })
    }

    /// Absent, the broker draws one.
    pub fn message_id(mut self, id: impl Into<String>) -> Message {
        self.0.message_id = Some(id.into());
        self
    }

    pub fn session_id(mut self, id: impl Into<String>) -> Message {
        self.0.session_id = Some(id.into());
        self
    }

    pub fn correlation_id(mut self, id: impl Into<String>) -> Message {
        self.0.correlation_id = Some(id.into());
        self
    }

    pub fn subject(mut self, subject: impl Into<String>) -> Message {
        self.0.subject = Some(subject.into());
        self
    }

    /// Where an answer shall go; the broker does not look at it.
    pub fn reply_to(mut self, path: impl Into<String>) -> Message {
        self.0.reply_to = Some(path.into());
        self
    }

    pub fn content_type(mut self, content_type: impl Into<String>) -> Message {
        self.0.content_type = Some(content_type.into());
        self
    }

    /// Own time to live (TTL-1); the queue's default is its ceiling (TTL-3).
    pub fn ttl(self, ttl: Duration) -> Message {
        self.ttl_ms(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn ttl_ms(mut self, ttl_ms: u64) -> Message {
        self.0.ttl_ms = Some(ttl_ms);
        self
    }

    /// Stays invisible until then (SCHED-2); a time already past is "at once" (SCHED-8).
    pub fn scheduled_at(self, at: SystemTime) -> Message {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.scheduled_at_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn scheduled_at_ms(mut self, at_ms: u64) -> Message {
        self.0.scheduled_at_ms = Some(at_ms);
        self
    }

    /// Adds a user property (MSG-4).
    pub fn property(mut self, name: impl Into<String>, value: v1::Value) -> Message {
        self.0.properties.insert(name.into(), value);
        self
    }

    /// As it goes over the wire.
    pub fn into_wire(self) -> v1::Message {
        self.0
    }

    /// Body and properties as the broker will count them, near enough to bound a batch.
    pub(crate) fn bytes_estimate(&self) -> usize {
        let text = |field: &Option<String>| field.as_ref().map_or(0, |text| text.len());
        let properties: usize = self.0.properties.keys().map(|name| name.len() + 32).sum();
        self.0.body.len() + text(&self.0.message_id) + text(&self.0.subject) + properties + 64
    }
}

impl From<v1::Message> for Message {
    fn from(message: v1::Message) -> Message {
        Message(message)
    }
}

/// User property values (MSG-4), for the kinds that programs use most; the others are variants of
/// [`v1::value::Kind`].
pub mod value {
    use crate::v1::{Value, value::Kind};

    pub fn string(text: impl Into<String>) -> Value {
        Value { kind: Some(Kind::StringValue(text.into())) }
    }

    pub fn long(number: i64) -> Value {
        Value { kind: Some(Kind::LongValue(number)) }
    }

    pub fn double(number: f64) -> Value {
        Value { kind: Some(Kind::DoubleValue(number)) }
    }

    pub fn boolean(truth: bool) -> Value {
        Value { kind: Some(Kind::BoolValue(truth)) }
    }
}
