//! Primitive types as fields of composites. What is read is lenient, since clients bend the standard:
//! any integer encoding that fits, strings for symbols and the reverse. What is written is the
//! shortest form.

use std::fmt;
use std::ops::Deref;

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;

use super::reader::Fields;
use super::writer::{self, ListWriter};
use super::{DecodeError, Reader, code};

/// A value read from its format code on.
pub trait Decode: Sized {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<Self, DecodeError>;
}

/// A value written with its format code.
pub trait Encode {
    fn encode(&self, out: &mut BytesMut);
}

/// A field of a composite. An `Option` may be absent, anything else is required unless the composite
/// names a default.
pub(crate) trait Field: Sized {
    fn read(fields: &mut Fields<'_, '_>) -> Result<Option<Self>, DecodeError>;
    fn write(&self, list: &mut ListWriter<'_>);
}

impl<T: Decode + Encode> Field for Option<T> {
    fn read(fields: &mut Fields<'_, '_>) -> Result<Option<Self>, DecodeError> {
        fields.next().map(Some)
    }

    fn write(&self, list: &mut ListWriter<'_>) {
        match self {
            Some(value) => list.value(value),
            None => list.null(),
        }
    }
}

/// Makes types required fields.
macro_rules! field {
    ($($kind:ty),*) => {$(
        impl $crate::codec::primitive::Field for $kind {
            fn read(
                fields: &mut $crate::codec::reader::Fields<'_, '_>,
            ) -> Result<Option<Self>, $crate::codec::DecodeError> {
                fields.next()
            }

            fn write(&self, list: &mut $crate::codec::writer::ListWriter<'_>) {
                list.value(self);
            }
        }
    )*};
}
pub(crate) use field;

field!(bool, u8, u16, u32, u64, Bytes, ByteString, Symbol, Tag);

/// A symbol: ASCII text that names something the two sides agreed on.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub ByteString);

impl Symbol {
    pub const fn from_static(name: &'static str) -> Symbol {
        Symbol(ByteString::from_static(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Symbol {
    fn from(name: &str) -> Symbol {
        Symbol(name.into())
    }
}

impl Deref for Symbol {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ":{}", self.as_str())
    }
}

/// A field that holds any number of symbols: null, one, or an array (AMQP 1.0, part 1, 1.4:
/// "multiple").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols(pub Vec<Symbol>);

impl Symbols {
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|symbol| symbol.as_str() == name)
    }
}

impl FromIterator<Symbol> for Symbols {
    fn from_iter<I: IntoIterator<Item = Symbol>>(symbols: I) -> Symbols {
        Symbols(symbols.into_iter().collect())
    }
}

impl Field for Symbols {
    fn read(fields: &mut Fields<'_, '_>) -> Result<Option<Self>, DecodeError> {
        Ok(Some(fields.next()?.unwrap_or_default()))
    }

    fn write(&self, list: &mut ListWriter<'_>) {
        match self.0.is_empty() {
            true => list.null(),
            false => list.value(self),
        }
    }
}

impl Decode for Symbols {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<Symbols, DecodeError> {
        if !matches!(code, code::ARRAY8 | code::ARRAY32) {
            return Symbol::decode(reader, code).map(|symbol| Symbols(vec![symbol]));
        }
        let span = reader.span(code, "array of symbol")?;
        reader.count(span.count)?;
        reader.within(span.end, |reader| {
            let code = reader.u8()?;
            (0..span.count).map(|_| Symbol::decode(reader, code)).collect::<Result<_, _>>()
        })
    }
}

impl Encode for Symbols {
    /// Always an array: a single symbol is not understood by every client (CONN-6).
    fn encode(&self, out: &mut BytesMut) {
        let start = writer::begin(out, code::ARRAY8);
        let short = self.0.iter().all(|symbol| symbol.len() <= u8::MAX as usize);
        out.put_u8(if short { code::SYMBOL8 } else { code::SYMBOL32 });
        for symbol in &self.0 {
            match short {
                true => out.put_u8(symbol.len() as u8),
                false => out.put_u32(symbol.len() as u32),
            }
            out.put_slice(symbol.as_bytes());
        }
        writer::end(out, start, self.0.len() as u32);
    }
}

/// A delivery tag: at most 32 bytes (AMQP 1.0, part 2, 2.8.7), kept in place.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Tag {
    len: u8,
    bytes: [u8; Tag::BYTES_MAX],
}

impl Tag {
    pub const BYTES_MAX: usize = 32;

    /// `None` if there are more bytes than a tag may have.
    pub fn new(tag: &[u8]) -> Option<Tag> {
        let mut bytes = [0; Tag::BYTES_MAX];
        bytes.get_mut(..tag.len())?.copy_from_slice(tag);
        Some(Tag { len: tag.len() as u8, bytes })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl From<[u8; 16]> for Tag {
    fn from(token: [u8; 16]) -> Tag {
        let mut bytes = [0; Tag::BYTES_MAX];
        bytes[..16].copy_from_slice(&token);
        Tag { len: 16, bytes }
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Decode for Tag {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<Tag, DecodeError> {
        let expected = "delivery tag";
        if !matches!(code, code::BINARY8 | code::BINARY32) {
            return Err(DecodeError::Type { expected, code });
        }
        let bytes = match code {
            code::BINARY8 => reader.u8()? as usize,
            _ => reader.u32()? as usize,
        };
        Tag::new(reader.take(bytes)?).ok_or(DecodeError::Range { expected })
    }
}

impl Encode for Tag {
    fn encode(&self, out: &mut BytesMut) {
        writer::variable(out, code::BINARY8, self.as_bytes());
    }
}

impl Decode for bool {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<bool, DecodeError> {
        match code {
            code::TRUE => Ok(true),
            code::FALSE => Ok(false),
            code::BOOLEAN => match reader.u8()? {
                0 => Ok(false),
                1 => Ok(true),
                _ => Err(DecodeError::Range { expected: "boolean" }),
            },
            code => Err(DecodeError::Type { expected: "boolean", code }),
        }
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(if *self { code::TRUE } else { code::FALSE });
    }
}

/// Any integer, whatever its width.
fn integer(reader: &mut Reader<'_>, code: u8, expected: &'static str) -> Result<i128, DecodeError> {
    Ok(match code {
        code::UINT0 | code::ULONG0 => 0,
        code::UBYTE | code::SMALL_UINT | code::SMALL_ULONG => reader.u8()?.into(),
        code::BYTE | code::SMALL_INT | code::SMALL_LONG => (reader.u8()? as i8).into(),
        code::USHORT => u16::from_be_bytes(reader.fixed()?).into(),
        code::SHORT => i16::from_be_bytes(reader.fixed()?).into(),
        code::UINT => reader.u32()?.into(),
        code::INT => i32::from_be_bytes(reader.fixed()?).into(),
        code::ULONG => u64::from_be_bytes(reader.fixed()?).into(),
        code::LONG => i64::from_be_bytes(reader.fixed()?).into(),
        code => return Err(DecodeError::Type { expected, code }),
    })
}

macro_rules! integers {
    ($($kind:ty = $name:literal),*) => {$(
        impl Decode for $kind {
            fn decode(reader: &mut Reader<'_>, code: u8) -> Result<$kind, DecodeError> {
                let value = integer(reader, code, $name)?;
                <$kind>::try_from(value).map_err(|_| DecodeError::Range { expected: $name })
            }
        }
    )*};
}

integers!(u8 = "ubyte", u16 = "ushort", u32 = "uint", u64 = "ulong", i32 = "int", i64 = "long");

impl Encode for u8 {
    fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&[code::UBYTE, *self]);
    }
}

impl Encode for u16 {
    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(code::USHORT);
        out.put_u16(*self);
    }
}

impl Encode for u32 {
    fn encode(&self, out: &mut BytesMut) {
        match u8::try_from(*self) {
            Ok(0) => out.put_u8(code::UINT0),
            Ok(value) => out.put_slice(&[code::SMALL_UINT, value]),
            Err(_) => {
                out.put_u8(code::UINT);
                out.put_u32(*self);
            }
        }
    }
}

impl Encode for u64 {
    fn encode(&self, out: &mut BytesMut) {
        match u8::try_from(*self) {
            Ok(0) => out.put_u8(code::ULONG0),
            Ok(value) => out.put_slice(&[code::SMALL_ULONG, value]),
            Err(_) => {
                out.put_u8(code::ULONG);
                out.put_u64(*self);
            }
        }
    }
}

impl Encode for i32 {
    fn encode(&self, out: &mut BytesMut) {
        match i8::try_from(*self) {
            Ok(value) => out.put_slice(&[code::SMALL_INT, value as u8]),
            Err(_) => {
                out.put_u8(code::INT);
                out.put_i32(*self);
            }
        }
    }
}

impl Encode for i64 {
    /// Always 8 bytes of content: JS reads some of the broker's numbers as a buffer (LINK-12).
    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(code::LONG);
        out.put_i64(*self);
    }
}

impl Decode for Bytes {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<Bytes, DecodeError> {
        match code {
            code::BINARY8 | code::BINARY32 => reader.variable(code, "binary"),
            code => Err(DecodeError::Type { expected: "binary", code }),
        }
    }
}

impl Encode for Bytes {
    fn encode(&self, out: &mut BytesMut) {
        writer::variable(out, code::BINARY8, self);
    }
}

fn text(
    reader: &mut Reader<'_>,
    code: u8,
    expected: &'static str,
) -> Result<ByteString, DecodeError> {
    match code {
        code::STRING8 | code::STRING32 | code::SYMBOL8 | code::SYMBOL32 => {
            let bytes = reader.variable(code, expected)?;
            ByteString::try_from(bytes).map_err(|_| DecodeError::Text)
        }
        code => Err(DecodeError::Type { expected, code }),
    }
}

impl Decode for ByteString {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<ByteString, DecodeError> {
        text(reader, code, "string")
    }
}

impl Encode for ByteString {
    fn encode(&self, out: &mut BytesMut) {
        let text: &str = self;
        text.encode(out);
    }
}

impl Encode for str {
    fn encode(&self, out: &mut BytesMut) {
        writer::variable(out, code::STRING8, self.as_bytes());
    }
}

impl Decode for Symbol {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<Symbol, DecodeError> {
        text(reader, code, "symbol").map(Symbol)
    }
}

impl Encode for Symbol {
    fn encode(&self, out: &mut BytesMut) {
        writer::variable(out, code::SYMBOL8, self.as_bytes());
    }
}
