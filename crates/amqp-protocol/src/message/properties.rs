//! What is read of a message's sections, where it stands.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;

use super::sections::{BodyKind, Message, Section};
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
        durable: Option<bool>,
        priority: Option<u8>,
        /// Milliseconds.
        ttl: Option<u32>,
        first_acquirer: Option<bool>,
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

/// Message-id, correlation-id and reply-to.
pub type Addressing = (Option<Value>, Option<Value>, Option<Value>);

impl Message {
    pub fn header(&self, limits: &Limits) -> Result<Header, DecodeError> {
        self.composite(self.sections().header, limits).map(Option::unwrap_or_default)
    }

    pub fn properties(&self, limits: &Limits) -> Result<Properties, DecodeError> {
        self.composite(self.sections().properties, limits).map(Option::unwrap_or_default)
    }

    /// Message-id, correlation-id and reply-to, however wrong what stands between them and behind them
    /// is. `None`: there are no properties.
    pub fn addressing(&self, limits: &Limits) -> Option<Addressing> {
        const MESSAGE_ID: u32 = 0;
        const REPLY_TO: u32 = 4;
        const CORRELATION_ID: u32 = 5;
        let content = self.content(self.sections().properties)?;
        let mut reader = Reader::new(&content, limits);
        let code = reader.u8().ok()?;
        let count = reader.span(code, "properties").ok()?.count.min(CORRELATION_ID + 1);
        let (mut message_id, mut correlation_id, mut reply_to) = (None, None, None);
        for field in 0..count {
            let slot = match field {
                MESSAGE_ID => &mut message_id,
                REPLY_TO => &mut reply_to,
                CORRELATION_ID => &mut correlation_id,
                _ if reader.skip().is_ok() => continue,
                _ => break,
            };
            match reader.value() {
                Ok(value) => *slot = Some(value).filter(|value| !value.is_null()),
                Err(_) => break,
            }
        }
        Some((message_id, correlation_id, reply_to))
    }

    pub fn message_annotations(&self, limits: &Limits) -> Result<Map, DecodeError> {
        self.map(self.sections().message_annotations, limits)
    }

    pub fn application_properties(&self, limits: &Limits) -> Result<Map, DecodeError> {
        self.map(self.sections().application_properties, limits)
    }

    /// Expiry and creation time, without decoding the properties around them: some want these two of
    /// every message.
    pub fn lifetime(
        &self,
        limits: &Limits,
    ) -> Result<(Option<UnixMs>, Option<UnixMs>), DecodeError> {
        /// Fields before the two instants.
        const BEFORE: u32 = 8;
        let Some(content) = self.content(self.sections().properties) else {
            return Ok((None, None));
        };
        let mut reader = Reader::new(&content, limits);
        let code = reader.u8()?;
        let span = reader.span(code, "properties")?;
        // Trailing fields may be left out.
        let count = span.count.saturating_sub(BEFORE);
        (0..BEFORE.min(span.count)).try_for_each(|_| reader.skip())?;
        let mut instant = |index| match count > index {
            false => Ok(None),
            true => match reader.u8()? {
                code::NULL => Ok(None),
                code => UnixMs::decode(&mut reader, code).map(Some),
            },
        };
        Ok((instant(0)?, instant(1)?))
    }

    /// The value of a body that is one (AMQP 1.0, part 3, 3.2.8), null where it is something else.
    pub fn value(&self, limits: &Limits) -> Result<Value, DecodeError> {
        let is_value = self.body_kind() == Some(BodyKind::Value);
        match self.content(self.sections().body).filter(|_| is_value) {
            Some(content) => Value::parse(&content, limits),
            None => Ok(Value::Null),
        }
    }

    fn composite<T: Composite>(
        &self,
        section: Section,
        limits: &Limits,
    ) -> Result<Option<T>, DecodeError> {
        let content = self.content(section);
        content.map(|content| Reader::new(&content, limits).fields()).transpose()
    }

    fn map(&self, section: Section, limits: &Limits) -> Result<Map, DecodeError> {
        match self.content(section) {
            Some(content) => Reader::new(&content, limits).map(),
            None => Ok(Map::default()),
        }
    }

    /// Walks a map section without decoding its values: name, key and value as encoded, and both. An
    /// entry whose key is no text is handed out under an empty name.
    pub fn entries<E: From<DecodeError>>(
        &self,
        section: Section,
        limits: &Limits,
        mut each: impl FnMut(&str, Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(content) = self.content(section) else { return Ok(()) };
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
pub struct Entry<'a> {
    source: &'a Bytes,
    start: usize,
    value: usize,
    end: usize,
}

impl Entry<'_> {
    /// Key and value, as encoded.
    pub fn bytes(&self) -> &[u8] {
        &self.source[self.range()]
    }

    fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    pub fn value(&self, limits: &Limits) -> Result<Value, DecodeError> {
        Value::parse(&self.source.slice(self.value..self.end), limits)
    }
}
