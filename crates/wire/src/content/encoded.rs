//! Values of AMQP 1.0 (part 1 of the standard) where they stand: found, not decoded. Only who asks for
//! one has it decoded.

use domain::Value;

const DESCRIBED: u8 = 0x00;
const NULL: u8 = 0x40;
const LIST0: u8 = 0x45;

/// What is left to read. Every step takes at least a byte, or ends in `None`.
pub(super) struct Input<'a>(pub &'a [u8]);

/// A value: of its own, or described, or described more than once, of which nothing is known here.
pub(super) struct Encoded<'a> {
    /// All of it.
    bytes: &'a [u8],
    descriptor: Option<Plain<'a>>,
    plain: Option<Plain<'a>>,
}

/// A value without a descriptor: its format code, and what follows that and its size.
#[derive(Clone, Copy)]
pub(super) struct Plain<'a> {
    code: u8,
    content: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next value. A descriptor may be described in turn: so they are counted, and nothing here
    /// calls itself.
    pub fn value(&mut self) -> Option<Encoded<'a>> {
        let start = self.0;
        let (mut parts, mut count, mut wanted) = ([Plain { code: NULL, content: &[] }; 2], 0, 1);
        while count < wanted {
            match self.byte()? {
                DESCRIBED => wanted += 1,
                code => {
                    let plain = Plain { code, content: self.content(code)? };
                    if let Some(part) = parts.get_mut(count) {
                        *part = plain;
                    }
                    count += 1;
                }
            }
        }
        let bytes = &start[..start.len() - self.0.len()];
        let (descriptor, plain) = match wanted {
            1 => (None, Some(parts[0])),
            2 => (Some(parts[0]), Some(parts[1])),
            _ => (None, None),
        };
        Some(Encoded { bytes, descriptor, plain })
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn size(&mut self) -> Option<usize> {
        let bytes = self.take(size_of::<u32>())?;
        usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
    }

    /// The upper half of a format code says how long what follows is (AMQP 1.0, part 1, 1.2).
    fn content(&mut self, code: u8) -> Option<&'a [u8]> {
        let count = match code >> 4 {
            0x4 => 0,
            0x5 => 1,
            0x6 => 2,
            0x7 => 4,
            0x8 => 8,
            0x9 => 16,
            0xa | 0xc | 0xe => self.byte()?.into(),
            0xb | 0xd | 0xf => self.size()?,
            _ => return None,
        };
        self.take(count)
    }
}

impl<'a> Encoded<'a> {
    /// Descriptor and content of a described value.
    pub fn section(&self) -> Option<(Plain<'a>, Plain<'a>)> {
        self.descriptor.zip(self.plain)
    }

    /// A value that is not described.
    pub fn plain(&self) -> Option<Plain<'a>> {
        self.plain.filter(|_| self.descriptor.is_none())
    }

    /// As a user property (MSG-4). One of a type that MSG-4 does not name is the bytes of its
    /// encoding.
    pub fn property(&self) -> Value {
        let value = match (self.descriptor, self.plain) {
            (None, Some(plain)) => plain.value(),
            (Some(descriptor), Some(plain)) => described(descriptor, plain),
            (_, None) => None,
        };
        value.unwrap_or_else(|| Value::Bytes(self.bytes.to_vec()))
    }
}

/// AMQP has no date-time-offset, time-span and URI of its own: Service Bus describes them by a symbol.
fn described(descriptor: Plain<'_>, plain: Plain<'_>) -> Option<Value> {
    Some(match (descriptor.text()?, plain.value()?) {
        ("com.microsoft:timespan", Value::Long(ticks)) => Value::TimeSpan(ticks),
        ("com.microsoft:datetime-offset", Value::Long(ticks)) => Value::DateTimeOffset(ticks),
        ("com.microsoft:uri", Value::String(text)) => Value::Uri(text),
        _ => return None,
    })
}

impl<'a> Plain<'a> {
    /// What it is, if MSG-4 names its type (AMQP 1.0, part 1, 1.6).
    pub fn value(self) -> Option<Value> {
        let Plain { code, content } = self;
        Some(match code {
            NULL => Value::Null,
            0x41 => Value::Bool(true),
            0x42 => Value::Bool(false),
            0x56 => Value::Bool(*content.first()? != 0),
            0x50 => Value::Byte(*content.first()?),
            0x51 => Value::SByte(self.fixed().map(i8::from_be_bytes)?),
            0x60 => Value::UShort(self.fixed().map(u16::from_be_bytes)?),
            0x61 => Value::Short(self.fixed().map(i16::from_be_bytes)?),
            0x43 => Value::UInt(0),
            0x52 => Value::UInt((*content.first()?).into()),
            0x70 => Value::UInt(self.fixed().map(u32::from_be_bytes)?),
            0x54 => Value::Int(self.fixed().map(i8::from_be_bytes)?.into()),
            0x71 => Value::Int(self.fixed().map(i32::from_be_bytes)?),
            0x44 => Value::ULong(0),
            0x53 => Value::ULong((*content.first()?).into()),
            0x80 => Value::ULong(self.fixed().map(u64::from_be_bytes)?),
            0x55 => Value::Long(self.fixed().map(i8::from_be_bytes)?.into()),
            0x81 => Value::Long(self.fixed().map(i64::from_be_bytes)?),
            0x72 => Value::Float(self.fixed().map(f32::from_be_bytes)?),
            0x82 => Value::Double(self.fixed().map(f64::from_be_bytes)?),
            0x94 => Value::Decimal(self.fixed()?),
            0x73 => Value::Char(char::from_u32(self.fixed().map(u32::from_be_bytes)?)?),
            0x83 => Value::DateTime(self.fixed().map(i64::from_be_bytes)?),
            0x98 => Value::Uuid(self.fixed()?),
            0xa0 | 0xb0 => Value::Bytes(content.to_vec()),
            _ => Value::String(self.text()?.to_owned()),
        })
    }

    fn fixed<const N: usize>(self) -> Option<[u8; N]> {
        self.content.try_into().ok()
    }

    /// Of a string or a symbol.
    pub fn text(self) -> Option<&'a str> {
        match self.code {
            0xa1 | 0xb1 | 0xa3 | 0xb3 => std::str::from_utf8(self.content).ok(),
            _ => None,
        }
    }

    /// Of a string, a symbol or a binary, as they stand.
    pub fn characters(self) -> Option<&'a [u8]> {
        matches!(self.code, 0xa0 | 0xb0 | 0xa1 | 0xb1 | 0xa3 | 0xb3).then_some(self.content)
    }

    /// Any integer, and the milliseconds of a timestamp.
    pub fn integer(self) -> Option<i64> {
        Some(match self.value()? {
            Value::Byte(value) => value.into(),
            Value::SByte(value) => value.into(),
            Value::Short(value) => value.into(),
            Value::UShort(value) => value.into(),
            Value::Int(value) => value.into(),
            Value::UInt(value) => value.into(),
            Value::ULong(value) => i64::try_from(value).ok()?,
            Value::Long(value) | Value::DateTime(value) => value,
            _ => return None,
        })
    }

    /// The elements of a list; of a map, keys and values in turn.
    pub fn elements(self) -> Option<Input<'a>> {
        let mut content = Input(self.content);
        match self.code {
            NULL | LIST0 => {}
            0xc0 | 0xc1 => drop(content.byte()?),
            0xd0 | 0xd1 => drop(content.size()?),
            _ => return None,
        }
        Some(content)
    }
}
