//! What the broker reads of a message.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;

use super::sections::{Message, Place};
use crate::Limits;
use crate::codec::{
    Composite, Decode, DecodeError, Encode, Map, Reader, Symbol, Value, code, composite,
    descriptor, field,
};

/// Milliseconds since the Unix epoch, before it where negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixMs(pub i64);

field!(UnixMs);

impl Decode for UnixMs {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<UnixMs, DecodeError> {
        match code {
            code::TIMESTAMP => Ok(UnixMs(i64::from_be_bytes(reader.fixed()?))),
            code => i64::decode(reader, code).map(UnixMs),
        }
    }
}

impl Encode for UnixMs {
    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(code::TIMESTAMP);
        out.put_i64(self.0);
    }
}

composite! {
    /// How to deliver a message (AMQP 1.0, part 3, 3.2.1).
    #[derive(Default)]
    trimmed Header = "header", descriptor::HEADER {
        durable: bool = false,
        priority: Option<u8>,
        /// Milliseconds.
        ttl: Option<u32>,
        first_acquirer: bool = false,
        /// Deliveries that failed. Python and JS show what is here, so a zero is written out.
        delivery_count: Option<u32>,
    }

    /// What a message is about (AMQP 1.0, part 3, 3.2.4). An id is a string, a ulong, a uuid or a
    /// binary, an address by custom a string.
    #[derive(Default)]
    trimmed Properties = "properties", descriptor::PROPERTIES {
        message_id: Option<Value>,
        user_id: Option<Bytes>,
        to: Option<Value>,
        subject: Option<ByteString>,
        reply_to: Option<Value>,
        correlation_id: Option<Value>,
        content_type: Option<Symbol>,
        content_encoding: Option<Symbol>,
        absolute_expiry_time: Option<UnixMs>,
        creation_time: Option<UnixMs>,
        group_id: Option<ByteString>,
        group_sequence: Option<u32>,
        reply_to_group_id: Option<ByteString>,
    }
}

impl Message {
    pub fn header(&self, limits: &Limits) -> Result<Header, DecodeError> {
        self.composite(self.places().header, limits).map(Option::unwrap_or_default)
    }

    pub fn properties(&self, limits: &Limits) -> Result<Properties, DecodeError> {
        self.composite(self.places().properties, limits).map(Option::unwrap_or_default)
    }

    pub fn message_annotations(&self, limits: &Limits) -> Result<Map, DecodeError> {
        self.map(self.places().message_annotations, limits)
    }

    pub fn application_properties(&self, limits: &Limits) -> Result<Map, DecodeError> {
        self.map(self.places().application_properties, limits)
    }

    /// What expiry and creation time say together. Only they are decoded: this is asked for every
    /// delivery.
    pub(super) fn lifetime_ms(&self, limits: &Limits) -> Result<Option<u64>, DecodeError> {
        /// Fields before the two instants.
        const BEFORE: u32 = 8;
        let Some(content) = self.content(self.places().properties) else { return Ok(None) };
        let mut reader = Reader::new(&content, limits);
        let code = reader.u8()?;
        let span = reader.span(code, "properties")?;
        if span.count < BEFORE + 2 {
            return Ok(None);
        }
        (0..BEFORE).try_for_each(|_| reader.skip())?;
        let mut instant = || match reader.u8()? {
            code::NULL => Ok(None),
            code => UnixMs::decode(&mut reader, code).map(Some),
        };
        Ok(lifetime_ms(instant()?, instant()?))
    }

    /// The value of a body that is one (AMQP 1.0, part 3, 3.2.8), null where it is something else.
    pub fn value(&self, limits: &Limits) -> Result<Value, DecodeError> {
        let is_value = self.body_kind() == Some(super::BodyKind::Value);
        match self.content(self.places().body).filter(|_| is_value) {
            Some(content) => Value::parse(&content, limits),
            None => Ok(Value::Null),
        }
    }

    fn composite<T: Composite>(
        &self,
        place: Place,
        limits: &Limits,
    ) -> Result<Option<T>, DecodeError> {
        let content = self.content(place);
        content.map(|content| Reader::new(&content, limits).fields()).transpose()
    }

    fn map(&self, place: Place, limits: &Limits) -> Result<Map, DecodeError> {
        match self.content(place) {
            Some(content) => Reader::new(&content, limits).map(),
            None => Ok(Map::default()),
        }
    }

    /// Walks a map section without decoding its values: name, key and value as encoded, and both. An
    /// entry whose key is no text is handed out under an empty name.
    pub(super) fn entries<E: From<DecodeError>>(
        &self,
        place: Place,
        limits: &Limits,
        mut each: impl FnMut(&str, Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(content) = self.content(place) else { return Ok(()) };
        let mut reader = Reader::new(&content, limits);
        let code = reader.u8()?;
        if code == code::NULL {
            return Ok(());
        }
        let span = reader.span(code, "map")?;
        if !span.count.is_multiple_of(2) {
            return Err(DecodeError::Size.into());
        }
        for _ in 0..span.count / 2 {
            let start = reader.at();
            let name = key(&mut reader)?;
            let value = reader.at();
            reader.skip()?;
            if reader.at() > span.end {
                return Err(DecodeError::Size.into());
            }
            each(&name, Entry { source: &content, start, value, end: reader.at() })?;
        }
        Ok(())
    }
}

fn key(reader: &mut Reader<'_>) -> Result<ByteString, DecodeError> {
    let code = reader.u8()?;
    match code {
        code::STRING8 | code::STRING32 | code::SYMBOL8 | code::SYMBOL32 => {
            ByteString::decode(reader, code)
        }
        code => reader.skip_content(code).map(|()| ByteString::new()),
    }
}

/// One entry of a map that is being walked.
pub(super) struct Entry<'a> {
    source: &'a Bytes,
    start: usize,
    value: usize,
    end: usize,
}

impl Entry<'_> {
    /// Key and value, as encoded.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.source[self.range()]
    }

    fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    pub(super) fn value(&self, limits: &Limits) -> Result<Value, DecodeError> {
        Value::parse(&self.source.slice(self.value..self.end), limits)
    }
}

/// TTL-27: an expiry without a creation time says nothing, nor do two that are the wrong way round.
pub(super) fn lifetime_ms(expiry: Option<UnixMs>, creation: Option<UnixMs>) -> Option<u64> {
    let ms = expiry?.0.checked_sub(creation?.0).and_then(|ms| u64::try_from(ms).ok());
    ms.filter(|ms| *ms > 0)
}

/// Keys of message annotations (FORM-7).
pub mod annotation {
    pub const ENQUEUED_TIME: &str = "x-opt-enqueued-time";
    pub const SEQUENCE_NUMBER: &str = "x-opt-sequence-number";
    pub const ENQUEUE_SEQUENCE_NUMBER: &str = "x-opt-enqueue-sequence-number";
    pub const LOCKED_UNTIL: &str = "x-opt-locked-until";
    pub const MESSAGE_STATE: &str = "x-opt-message-state";
    pub const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
    pub const PARTITION_KEY: &str = "x-opt-partition-key";
    pub const VIA_PARTITION_KEY: &str = "x-opt-via-partition-key";
    pub const PARTITION_ID: &str = "x-opt-partition-id";
    pub const DEAD_LETTER_SOURCE: &str = "x-opt-deadletter-source";

    /// Those the broker sets (MSG-3): what a producer wrote under them is not delivered.
    pub const OF_THE_BROKER: [&str; 7] = [
        ENQUEUED_TIME,
        SEQUENCE_NUMBER,
        ENQUEUE_SEQUENCE_NUMBER,
        LOCKED_UNTIL,
        MESSAGE_STATE,
        PARTITION_ID,
        DEAD_LETTER_SOURCE,
    ];
}

/// A message-id as text: clients write ulongs, uuids and binaries as well, and duplicates are found
/// by what they say (FORM-4). A binary that is no text counts as its hexadecimal digits.
pub fn id_text(id: &Value) -> Option<String> {
    match id {
        Value::String(text) => Some(text.to_string()),
        Value::Symbol(text) => Some(text.to_string()),
        Value::Uuid(bytes) => Some(uuid_text(bytes)),
        Value::Binary(bytes) => Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => hex(bytes),
        }),
        Value::Ulong(number) => Some(number.to_string()),
        other => other.as_i64().map(|number| number.to_string()),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    text.extend(digits.map(|digit| char::from(DIGITS[usize::from(digit)])));
    text
}

/// 8-4-4-4-12 digits, network order.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let digits = hex(bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}
