//! A stored message on its way to a client: a new head, then what its producer sent, untouched.

use std::ops::Range;

use amqp_protocol::Limits;
use amqp_protocol::codec::{
    self, Composite, DecodeError, Encode, Map, Symbol, Value, code, descriptor,
};
use amqp_protocol::engine::Payload;
use amqp_protocol::message::{Header, Message, Properties, UnixMs};
use bytes::{Bytes, BytesMut};
use domain::{MessageState, SystemProperty, Timestamp};

use crate::{annotation, overlay};

/// Why a message is shown to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Delivered under a lock that the client settles. A state is told that is not Active (SCHED-17).
    PeekLock,
    /// Delivered under a lock that the edge completes (LOCK-2): the client sees none.
    ReceiveAndDelete,
    /// PEEK-6: no lock, but a state.
    Peek,
    /// Asked for by its number, under a lock: lock and state.
    Deferred,
}

impl Shown {
    /// Whether the client holds a lock.
    fn is_locked(self) -> bool {
        match self {
            Shown::PeekLock | Shown::Deferred => true,
            Shown::ReceiveAndDelete | Shown::Peek => false,
        }
    }
}

/// The message as a client sees it (FORM-2, FORM-5 to FORM-9). Header and annotations are
/// written anew, into `scratch`; application properties only under an overlay, properties only under
/// one that changes them (RULE-18) or where their expiry is not the broker's (TTL-3, TTL-27); the rest
/// is slices of what was stored. `source` is the entity a dead letter came from, if
/// it was forwarded (DLQ-12).
///
/// # Errors
/// [`DecodeError`] if a section that is written anew cannot be read: then it was never checked.
pub fn deliver(
    message: &Message,
    delivery: &domain::Delivery,
    shown: Shown,
    source: Option<&str>,
    limits: &Limits,
    scratch: &mut BytesMut,
) -> Result<Payload, DecodeError> {
    let sections = message.sections();
    header(message, delivery, limits)?.write(scratch);
    write_delivery_annotations(message, delivery, shown, limits, scratch)?;
    write_annotations(message, delivery, shown, source, limits, scratch)?;
    let mut tail = Tail { bytes: message.bytes(), ranges: Default::default(), count: 0 };
    if !write_properties(message, delivery, limits, scratch)? {
        tail.push(sections.properties.range(), scratch);
    }
    match &delivery.overlay {
        None => tail.push(sections.application_properties.range(), scratch),
        Some(overlay) => {
            tail.flush(scratch);
            overlay::write(message, overlay, limits, scratch)?;
        }
    }
    tail.push(sections.body.range(), scratch);
    tail.push(sections.footer.range(), scratch);
    Ok(tail.payload(scratch))
}

/// LOCK-19, TTL-24, TTL-27: the count of failed deliveries, as stored, and the lifetime that holds. The
/// rest is the producer's.
fn header(
    message: &Message,
    delivery: &domain::Delivery,
    limits: &Limits,
) -> Result<Header, DecodeError> {
    let ttl = delivery.ttl.filter(|ttl| !ttl.is_max());
    Ok(Header {
        ttl: ttl.map(|ttl| u32::try_from(ttl.0).unwrap_or(u32::MAX)),
        delivery_count: Some(delivery.delivery_count),
        ..message.header(limits)?
    })
}

/// SETTLE-2: the producer's, and the lock's token. Of a message that came in a reply there is no
/// delivery-tag to have it, and one SDK looks nowhere else.
fn write_delivery_annotations(
    message: &Message,
    delivery: &domain::Delivery,
    shown: Shown,
    limits: &Limits,
    out: &mut BytesMut,
) -> Result<(), DecodeError> {
    let section = message.sections().delivery_annotations;
    let lock = delivery.lock.filter(|_| shown.is_locked());
    if lock.is_none() && section.is_empty() {
        return Ok(());
    }
    codec::write_descriptor(out, descriptor::DELIVERY_ANNOTATIONS);
    let start = codec::begin(out, code::MAP8);
    let mut count = 0;
    message.entries(section, limits, |name, entry| {
        if name != annotation::LOCK_TOKEN {
            out.extend_from_slice(entry.bytes());
            count += 2;
        }
        Ok::<(), DecodeError>(())
    })?;
    if let Some(lock) = lock {
        Symbol::from_static(annotation::LOCK_TOKEN).encode(out);
        Value::Uuid(lock.token.to_bytes()).encode(out);
        count += 2;
    }
    codec::end(out, start, count);
    Ok(())
}

/// The producer's annotations, less those that are the broker's, and then the broker's.
fn write_annotations(
    message: &Message,
    delivery: &domain::Delivery,
    shown: Shown,
    source: Option<&str>,
    limits: &Limits,
    out: &mut BytesMut,
) -> Result<(), DecodeError> {
    codec::write_descriptor(out, descriptor::MESSAGE_ANNOTATIONS);
    let start = codec::begin(out, code::MAP8);
    let mut count = 0;
    let texts = delivery.overlay.as_deref().map(|overlay| &overlay.texts);
    let partition_key = texts.and_then(|texts| texts.get(&SystemProperty::PartitionKey));
    message.entries(message.sections().message_annotations, limits, |name, entry| {
        let is_replaced = partition_key.is_some() && name == annotation::PARTITION_KEY;
        if !annotation::OF_THE_BROKER.contains(&name) && !is_replaced {
            out.extend_from_slice(entry.bytes());
            count += 2;
        }
        Ok::<(), DecodeError>(())
    })?;
    let mut put = |name: &'static str, value: Value| {
        Symbol::from_static(name).encode(out);
        value.encode(out);
        count += 2;
    };
    put(annotation::ENQUEUED_TIME, instant(delivery.enqueued_at));
    put(annotation::SEQUENCE_NUMBER, Value::Long(delivery.sequence.0.cast_signed()));
    let original = delivery.enqueued_sequence.0.cast_signed();
    put(annotation::ENQUEUE_SEQUENCE_NUMBER, Value::Long(original));
    if let Some(Some(key)) = partition_key {
        put(annotation::PARTITION_KEY, Value::from(key.as_str()));
    }
    if let Some(lock) = delivery.lock.filter(|_| shown.is_locked()) {
        put(annotation::LOCKED_UNTIL, instant(lock.until));
    }
    let is_odd = delivery.state != MessageState::Active;
    if is_odd || matches!(shown, Shown::Peek | Shown::Deferred) {
        put(annotation::MESSAGE_STATE, Value::Int(state_number(delivery.state)));
    }
    if let Some(source) = source {
        put(annotation::DEAD_LETTER_SOURCE, Value::from(source));
    }
    codec::end(out, start, count);
    Ok(())
}

fn instant(at: Timestamp) -> Value {
    Value::Timestamp(unix_ms(at).0)
}

fn unix_ms(at: Timestamp) -> UnixMs {
    // Beyond the year 9999 some clients cannot follow (TTL-5).
    const YEAR_9999_END_MS: u64 = 253_402_300_799_999;
    UnixMs(at.0.min(YEAR_9999_END_MS).cast_signed())
}

/// MSG-3.
fn state_number(state: MessageState) -> i32 {
    match state {
        MessageState::Active => 0,
        MessageState::Deferred => 1,
        MessageState::Scheduled => 2,
    }
}

/// Writes the properties anew if a rule's action changed them (RULE-18), or if their expiry is not what
/// the broker says; whether it did.
fn write_properties(
    message: &Message,
    delivery: &domain::Delivery,
    limits: &Limits,
    out: &mut BytesMut,
) -> Result<bool, DecodeError> {
    let texts = delivery.overlay.as_deref().map(|overlay| &overlay.texts);
    let texts = texts.filter(|texts| !texts.is_empty());
    let sent = message.lifetime(limits)?;
    let (expiry, creation) = expiry_to_tell(sent, delivery);
    if texts.is_none() && (expiry, creation) == sent {
        return Ok(false);
    }
    let mut properties = message.properties(limits)?;
    (properties.absolute_expiry_time, properties.creation_time) = (expiry, creation);
    for (property, text) in texts.into_iter().flatten() {
        lay_over(&mut properties, *property, text.as_deref());
    }
    properties.write(out);
    Ok(true)
}

/// TTL-25, TTL-27: when the message expires and since when its time to live counts, by the broker. Where
/// the broker tells no deadline there is none, whatever was sent; the creation time is then the producer's.
fn expiry_to_tell(
    (_, created): (Option<UnixMs>, Option<UnixMs>),
    delivery: &domain::Delivery,
) -> (Option<UnixMs>, Option<UnixMs>) {
    let Some((ttl, expires_at)) = delivery.ttl.zip(delivery.expires_at) else {
        return (None, created);
    };
    let since = Timestamp(expires_at.0.saturating_sub(ttl.0));
    (Some(unix_ms(expires_at)), Some(unix_ms(since)))
}

/// What a rule's action made of a broker property. The partition key is an annotation; the others are
/// no texts of the producer's.
fn lay_over(properties: &mut Properties, property: SystemProperty, text: Option<&str>) {
    match property {
        SystemProperty::MessageId => properties.message_id = text.map(Value::from),
        SystemProperty::SessionId => properties.group_id = text.map(Into::into),
        SystemProperty::ReplyToSessionId => properties.reply_to_group_id = text.map(Into::into),
        SystemProperty::CorrelationId => properties.correlation_id = text.map(Value::from),
        SystemProperty::Subject => properties.subject = text.map(Into::into),
        SystemProperty::To => properties.to = text.map(Value::from),
        SystemProperty::ReplyTo => properties.reply_to = text.map(Value::from),
        SystemProperty::ContentType => properties.content_type = text.map(Into::into),
        _ => (),
    }
}

/// Ranges of the stored message that follow the new head. Neighbours are joined, so that a message in
/// the standard order has one.
struct Tail<'a> {
    bytes: &'a Bytes,
    ranges: [Range<usize>; Payload::PARTS - 1],
    count: usize,
}

impl Tail<'_> {
    fn push(&mut self, range: Range<usize>, head: &mut BytesMut) {
        if range.is_empty() {
            return;
        }
        if let Some(last) = self.count.checked_sub(1).map(|last| &mut self.ranges[last])
            && last.end == range.start
        {
            last.end = range.end;
            return;
        }
        if self.count == self.ranges.len() {
            self.flush(head);
        }
        self.ranges[self.count] = range;
        self.count += 1;
    }

    /// Copies what there is into the head, since something is written after it.
    fn flush(&mut self, head: &mut BytesMut) {
        for range in &self.ranges[..std::mem::take(&mut self.count)] {
            head.extend_from_slice(&self.bytes[range.clone()]);
        }
    }

    fn payload(self, head: &mut BytesMut) -> Payload {
        let mut parts = [const { Bytes::new() }; Payload::PARTS];
        parts[0] = head.split().freeze();
        for (part, range) in parts[1..].iter_mut().zip(&self.ranges[..self.count]) {
            *part = self.bytes.slice(range.clone());
        }
        Payload::new(parts)
    }
}

/// Annotations of a map, for messages built here.
pub(super) fn write_map(section: u64, map: &Map, out: &mut BytesMut) {
    if !map.0.is_empty() {
        codec::write_descriptor(out, section);
        map.encode(out);
    }
}
