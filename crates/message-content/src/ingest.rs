//! From what a producer sent to what the machine takes.

use amqp_protocol::Limits;
use amqp_protocol::codec::{self, DecodeError, Encode, Reader, Value, descriptor};
use amqp_protocol::message::{Entry, Message, Properties};
use bytes::{Bytes, BytesMut};
use domain::{Excerpt, NewMessage, Refusal, Timestamp, validate};

use crate::lifetime::own_ttl;
use crate::message_id::{hex, id_text};
use crate::{BATCH_FORMAT, annotation, batch};

/// The messages of one transfer: one, or those of a batch.
///
/// `guid` draws 16 random bytes for a message that has no id (FORM-3); `scratch` is where such a
/// message is written anew, and keeps its memory from call to call.
///
/// # Errors
/// ERR-32 if it is not a message, ERR-14 if a property is too large. What else holds for messages is
/// the machine's to judge.
pub fn ingest(
    message_format: u32,
    payload: &Bytes,
    limits: &Limits,
    mut guid: impl FnMut() -> [u8; 16],
    scratch: &mut BytesMut,
) -> Result<Vec<NewMessage>, Refusal> {
    let mut taken = |message: &Message| new_message(message, limits, &mut guid, scratch);
    if message_format == BATCH_FORMAT {
        return batch(payload, limits).map_err(malformed)?.iter().map(taken).collect();
    }
    let message = Message::parse(payload.clone(), limits).map_err(malformed)?;
    Ok(vec![taken(&message)?])
}

/// See [`ingest`].
pub fn new_message(
    message: &Message,
    limits: &Limits,
    mut guid: impl FnMut() -> [u8; 16],
    scratch: &mut BytesMut,
) -> Result<NewMessage, Refusal> {
    let header = message.header(limits).map_err(malformed)?;
    let properties = message.properties(limits).map_err(malformed)?;
    check_properties(&properties)?;
    check_application_properties(message, limits)?;
    let annotated = annotated(message, limits)?;
    let ttl = own_ttl(&header, &properties)?;
    let (message_id, content) = match properties.message_id.as_ref().and_then(id_text) {
        Some(id) => (id, message.bytes().clone()),
        None => {
            let id = hex(&guid());
            let content = with_message_id(message, &id, limits, scratch).map_err(malformed)?;
            (id, content)
        }
    };
    let body_bytes = message.bytes().len() - message.header_bytes();
    Ok(NewMessage {
        size_bytes: bounded(content.len()),
        header_bytes: bounded(content.len() - body_bytes),
        content,
        message_id: Some(message_id),
        session_id: properties.group_id.as_ref().map(ToString::to_string),
        partition_key: annotated.partition_key,
        ttl,
        scheduled_at: annotated.scheduled_at,
    })
}

fn malformed(error: DecodeError) -> Refusal {
    Refusal::Undecodable { what: "the message", why: error.to_string() }
}

#[derive(Default)]
struct Annotated {
    partition_key: Option<String>,
    scheduled_at: Option<Timestamp>,
}

fn annotated(message: &Message, limits: &Limits) -> Result<Annotated, Refusal> {
    let (mut found, mut delivery_time) = (Annotated::default(), None);
    let section = message.sections().message_annotations;
    let walked = message.entries(section, limits, |name, entry| {
        let what = format_args!("annotation '{}'", Excerpt(name));
        validate::property_bytes(&what, entry.bytes().len())?;
        match name {
            annotation::PARTITION_KEY => {
                found.partition_key = key(annotation::PARTITION_KEY, &entry, limits)?;
            }
            // Of a message that a transaction sends via another entity (MSG-2).
            annotation::VIA_PARTITION_KEY => {
                let found = key(annotation::VIA_PARTITION_KEY, &entry, limits)?;
                validate::id("TransactionPartitionKey", found.as_deref())?;
            }
            annotation::SCHEDULED_ENQUEUE_TIME => {
                found.scheduled_at = instant(annotation::SCHEDULED_ENQUEUE_TIME, &entry, limits)?;
            }
            annotation::DELIVERY_TIME => {
                delivery_time = instant(annotation::DELIVERY_TIME, &entry, limits)?;
            }
            _ => {}
        }
        Ok(())
    });
    walked.map_err(Unfit::into_refusal)?;
    found.scheduled_at = found.scheduled_at.or(delivery_time);
    Ok(found)
}

fn key(what: &'static str, entry: &Entry<'_>, limits: &Limits) -> Result<Option<String>, Unfit> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    typed(what, "a string", &entry.value(limits)?, text)
}

/// An instant before 1970 is past like any other.
fn instant(
    what: &'static str,
    entry: &Entry<'_>,
    limits: &Limits,
) -> Result<Option<Timestamp>, Unfit> {
    let at = typed(what, "a timestamp", &entry.value(limits)?, Value::as_i64)?;
    Ok(at.map(|ms| Timestamp(ms.max(0).cast_unsigned())))
}

/// The value of an annotation, of which null is none. Another type is not taken for "at once", nor for
/// anything else that was not said (FORM-12).
fn typed<T>(
    what: &'static str,
    expected: &str,
    value: &Value,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, Unfit> {
    if value.is_null() {
        return Ok(None);
    }
    let wrong = || Unfit::Refused(Refusal::Argument { what, why: format!("it is not {expected}") });
    read(value).map(Some).ok_or_else(wrong)
}

/// MSG-7, QUOTA-17, QUOTA-19: the properties that the machine does not see, the ids and keys that it
/// judges itself being others.
fn check_properties(properties: &Properties) -> Result<(), Refusal> {
    validate::id("ReplyToSessionId", properties.reply_to_group_id.as_deref())?;
    let of = |value: &Option<Value>| value.as_ref().map_or(0, bytes_of);
    for (name, bytes) in [
        ("CorrelationId", of(&properties.correlation_id)),
        ("Subject", properties.subject.as_ref().map_or(0, |text| text.len())),
        ("To", of(&properties.to)),
        ("ReplyTo", of(&properties.reply_to)),
        ("ContentType", properties.content_type.as_ref().map_or(0, |text| text.len())),
        ("content-encoding", properties.content_encoding.as_ref().map_or(0, |text| text.len())),
        ("user-id", properties.user_id.as_ref().map_or(0, |bytes| bytes.len())),
    ] {
        validate::property_bytes(&name, name.len() + bytes)?;
    }
    Ok(())
}

/// Of an id or an address; all but texts and binaries are small.
fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Binary(bytes) => bytes.len(),
        other => other.as_str().map_or(size_of::<u64>(), str::len),
    }
}

/// QUOTA-19, for each application property as encoded.
fn check_application_properties(message: &Message, limits: &Limits) -> Result<(), Refusal> {
    let section = message.sections().application_properties;
    let walked = message.entries(section, limits, |name, entry| {
        let what = format_args!("property '{}'", Excerpt(name));
        Ok::<(), Unfit>(validate::property_bytes(&what, entry.bytes().len())?)
    });
    walked.map_err(Unfit::into_refusal)
}

enum Unfit {
    Refused(Refusal),
    Malformed(DecodeError),
}

impl Unfit {
    fn into_refusal(self) -> Refusal {
        match self {
            Unfit::Refused(refusal) => refusal,
            Unfit::Malformed(error) => malformed(error),
        }
    }
}

impl From<Refusal> for Unfit {
    fn from(refusal: Refusal) -> Unfit {
        Unfit::Refused(refusal)
    }
}

impl From<DecodeError> for Unfit {
    fn from(error: DecodeError) -> Unfit {
        Unfit::Malformed(error)
    }
}

/// The message with its first property set, all else as it was (FORM-3).
fn with_message_id(
    message: &Message,
    id: &str,
    limits: &Limits,
    scratch: &mut BytesMut,
) -> Result<Bytes, DecodeError> {
    let sections = message.sections();
    let bytes = message.bytes();
    let following = [sections.application_properties, sections.body, sections.footer];
    let (before, after) = match sections.properties.is_empty() {
        false => (sections.properties.range().start, sections.properties.range().end),
        true => {
            let starts = following.iter().filter(|section| !section.is_empty());
            let at = starts.map(|section| section.range().start).min().unwrap_or(bytes.len());
            (at, at)
        }
    };
    scratch.reserve(bytes.len() + id.len() + 16);
    scratch.extend_from_slice(&bytes[..before]);
    codec::write_descriptor(scratch, descriptor::PROPERTIES);
    let start = codec::begin(scratch, codec::code::LIST8);
    Value::from(id).encode(scratch);
    let mut count = 1;
    if let Some(content) = message.content(sections.properties) {
        let mut reader = Reader::new(&content, limits);
        let code = reader.u8()?;
        let span = reader.span(code, "properties")?;
        if span.count > 0 {
            reader.skip()?; // The null in the id's place.
            count = span.count;
        }
        let rest_at = reader.at();
        scratch.extend_from_slice(&content[rest_at..span.end]);
    }
    codec::end(scratch, start, count);
    scratch.extend_from_slice(&bytes[after..]);
    Ok(scratch.split().freeze())
}

fn bounded(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
