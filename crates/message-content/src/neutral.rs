//! The form a message has for every protocol: see the module's table.

use amqp_protocol::Limits;
use amqp_protocol::codec::{
    self, Composite, Decode, DecodeError, Encode, Map, Reader, Symbol, Value, descriptor,
};
use amqp_protocol::message::{BodyKind, Header, Message, Properties, UnixMs};
use bytes::{Bytes, BytesMut};
use domain::{Span, Timestamp};

use crate::annotation;
use crate::deliver::write_map;
use crate::lifetime::own_ttl;
use crate::message_id::id_text;
use crate::user_property::{from_domain, to_domain};

/// A message without the marks of a protocol (MSG-2).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neutral {
    pub body: Body,
    pub message_id: Option<String>,
    pub session_id: Option<String>,
    pub reply_to_session_id: Option<String>,
    pub partition_key: Option<String>,
    pub correlation_id: Option<String>,
    pub subject: Option<String>,
    pub to: Option<String>,
    pub reply_to: Option<String>,
    pub content_type: Option<String>,
    pub ttl: Option<Span>,
    pub scheduled_at: Option<Timestamp>,
    pub properties: domain::Properties,
}

/// What a message carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Bytes of the application.
    Binary(Bytes),
    /// The encoded sections of an AMQP value or sequence.
    Amqp(Bytes),
}

impl Default for Body {
    fn default() -> Body {
        Body::Binary(Bytes::new())
    }
}

impl Neutral {
    /// What an AMQP message says. Its body stays a slice, unless it is cut into several data sections.
    pub fn from_amqp(message: &Message, limits: &Limits) -> Result<Neutral, DecodeError> {
        let header = message.header(limits)?;
        let properties = message.properties(limits)?;
        let annotations = message.message_annotations(limits)?;
        let text = |name| annotations.get(name).and_then(Value::as_str).map(str::to_owned);
        let instant = |name| annotations.get(name).and_then(Value::as_i64);
        let scheduled_at = instant(annotation::SCHEDULED_ENQUEUE_TIME)
            .or_else(|| instant(annotation::DELIVERY_TIME));
        Ok(Neutral {
            body: body(message, limits)?,
            // One that was stored before a span of 0 was refused has none.
            ttl: own_ttl(&header, &properties).unwrap_or_default(),
            message_id: properties.message_id.as_ref().and_then(id_text),
            session_id: properties.group_id.map(String::from),
            reply_to_session_id: properties.reply_to_group_id.map(String::from),
            partition_key: text(annotation::PARTITION_KEY),
            correlation_id: properties.correlation_id.as_ref().and_then(id_text),
            subject: properties.subject.map(String::from),
            to: properties.to.as_ref().and_then(id_text),
            reply_to: properties.reply_to.as_ref().and_then(id_text),
            content_type: properties.content_type.map(|symbol| symbol.to_string()),
            scheduled_at: scheduled_at.map(|ms| Timestamp(ms.max(0).cast_unsigned())),
            properties: user_properties(&message.application_properties(limits)?),
        })
    }

    /// The AMQP encoding, sections in the standard order.
    pub fn to_amqp(&self, out: &mut BytesMut) -> Bytes {
        self.write_header(out);
        self.write_annotations(out);
        self.write_properties(out);
        let entries = self.properties.iter();
        let entries = entries.map(|(name, value)| (name.as_str().into(), from_domain(value)));
        write_map(descriptor::APPLICATION_PROPERTIES, &Map(entries.collect()), out);
        match &self.body {
            Body::Amqp(sections) => out.extend_from_slice(sections),
            Body::Binary(bytes) => {
                codec::write_descriptor(out, descriptor::DATA);
                bytes.encode(out);
            }
        }
        out.split().freeze()
    }

    fn write_header(&self, out: &mut BytesMut) {
        if let Some(ttl) = self.ttl.filter(|ttl| !ttl.is_max()) {
            let ttl = Some(u32::try_from(ttl.0).unwrap_or(u32::MAX));
            Header { ttl, ..Header::default() }.write(out);
        }
    }

    fn write_annotations(&self, out: &mut BytesMut) {
        let mut annotations = Map::default();
        if let Some(key) = &self.partition_key {
            annotations = annotations.symbol(annotation::PARTITION_KEY, key.as_str().into());
        }
        if let Some(at) = self.scheduled_at {
            let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
            annotations =
                annotations.symbol(annotation::SCHEDULED_ENQUEUE_TIME, Value::Timestamp(ms));
        }
        write_map(descriptor::MESSAGE_ANNOTATIONS, &annotations, out);
    }

    fn write_properties(&self, out: &mut BytesMut) {
        let value = |text: &Option<String>| text.as_deref().map(Value::from);
        let text = |text: &Option<String>| text.as_deref().map(Into::into);
        // TTL-27: what the header has no room for.
        let long_ttl = self.ttl.filter(|ttl| !ttl.is_max() && ttl.0 > u64::from(u32::MAX));
        let expiry = long_ttl.map(|ttl| UnixMs(i64::try_from(ttl.0).unwrap_or(i64::MAX)));
        let properties = Properties {
            message_id: value(&self.message_id),
            to: value(&self.to),
            subject: text(&self.subject),
            reply_to: value(&self.reply_to),
            correlation_id: value(&self.correlation_id),
            content_type: self.content_type.as_deref().map(Symbol::from),
            // Only the difference of the two counts, and nobody here knows the time.
            absolute_expiry_time: expiry,
            creation_time: expiry.map(|_| UnixMs(0)),
            group_id: text(&self.session_id),
            reply_to_group_id: text(&self.reply_to_session_id),
            ..Properties::default()
        };
        if properties != Properties::default() {
            properties.write(out);
        }
    }
}

fn user_properties(map: &Map) -> domain::Properties {
    let named = map.0.iter().filter_map(|(key, value)| key.as_str().zip(Some(value)));
    named.map(|(name, value)| (name.to_owned(), to_domain(value))).collect()
}

fn body(message: &Message, limits: &Limits) -> Result<Body, DecodeError> {
    match message.body_kind() {
        None => Ok(Body::default()),
        Some(BodyKind::Sequence | BodyKind::Value) => Ok(Body::Amqp(message.body())),
        Some(BodyKind::Data) => joined(&message.body(), limits).map(Body::Binary),
    }
}

/// The bytes of one or more data sections.
fn joined(sections: &Bytes, limits: &Limits) -> Result<Bytes, DecodeError> {
    let mut reader = Reader::new(sections, limits);
    let first = data(&mut reader)?;
    if reader.left() == 0 {
        return Ok(first);
    }
    let mut all = BytesMut::with_capacity(sections.len());
    all.extend_from_slice(&first);
    while reader.left() > 0 {
        all.extend_from_slice(&data(&mut reader)?);
    }
    Ok(all.freeze())
}

fn data(reader: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    reader.descriptor("data")?;
    let code = reader.u8()?;
    Bytes::decode(reader, code)
}
