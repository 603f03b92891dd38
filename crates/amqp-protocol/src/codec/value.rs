//! Values whose type is only known from their encoding: filters, property maps, bodies of requests.
//! Messages and performatives of the steady path never become one of these.

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;

use super::primitive::{Decode, Encode, Symbol};
use super::{DecodeError, Reader, code, writer};
use crate::Limits;

/// Any AMQP value. Text and binaries are slices of what was decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Ubyte(u8),
    Ushort(u16),
    Uint(u32),
    Ulong(u64),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Decimal32([u8; 4]),
    Decimal64([u8; 8]),
    Decimal128([u8; 16]),
    Char(char),
    /// Milliseconds since the Unix epoch.
    Timestamp(i64),
    /// Network order.
    Uuid([u8; 16]),
    Binary(Bytes),
    String(ByteString),
    Symbol(Symbol),
    List(Vec<Value>),
    Map(Map),
    Array(Array),
    /// Descriptor and value.
    Described(Box<(Value, Value)>),
}

/// Keys and values in the order they were written. Small, so looked up by walking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map(pub Vec<(Value, Value)>);

/// Values of one type, each without its own constructor.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    descriptor: Option<Box<Value>>,
    /// Widest format code of the elements' type.
    code: u8,
    items: Vec<Value>,
}

impl Value {
    /// Decodes one value that fills `bytes`.
    pub fn parse(bytes: &Bytes, limits: &Limits) -> Result<Value, DecodeError> {
        let mut reader = Reader::new(bytes, limits);
        let value = reader.value()?;
        reader.finish()?;
        Ok(value)
    }

    /// The text of a string or a symbol.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            Value::Symbol(symbol) => Some(symbol),
            _ => None,
        }
    }

    /// Any integer, and a timestamp's milliseconds.
    pub fn as_i64(&self) -> Option<i64> {
        Some(match self {
            Value::Ubyte(value) => i64::from(*value),
            Value::Ushort(value) => i64::from(*value),
            Value::Uint(value) => i64::from(*value),
            Value::Ulong(value) => i64::try_from(*value).ok()?,
            Value::Byte(value) => i64::from(*value),
            Value::Short(value) => i64::from(*value),
            Value::Int(value) => i64::from(*value),
            Value::Long(value) | Value::Timestamp(value) => *value,
            _ => return None,
        })
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The elements of a list or an array.
    pub fn as_items(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            Value::Array(array) => Some(&array.items),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        *self == Value::Null
    }

    /// The widest format code of this value's type; in an array all elements have one.
    fn wide_code(&self) -> u8 {
        match self {
            Value::Null => code::NULL,
            Value::Bool(_) => code::BOOLEAN,
            Value::Ubyte(_) => code::UBYTE,
            Value::Ushort(_) => code::USHORT,
            Value::Uint(_) => code::UINT,
            Value::Ulong(_) => code::ULONG,
            Value::Byte(_) => code::BYTE,
            Value::Short(_) => code::SHORT,
            Value::Int(_) => code::INT,
            Value::Long(_) => code::LONG,
            Value::Float(_) => code::FLOAT,
            Value::Double(_) => code::DOUBLE,
            Value::Decimal32(_) => code::DECIMAL32,
            Value::Decimal64(_) => code::DECIMAL64,
            Value::Decimal128(_) => code::DECIMAL128,
            Value::Char(_) => code::CHAR,
            Value::Timestamp(_) => code::TIMESTAMP,
            Value::Uuid(_) => code::UUID,
            Value::Binary(_) => code::BINARY32,
            Value::String(_) => code::STRING32,
            Value::Symbol(_) => code::SYMBOL32,
            Value::List(_) => code::LIST32,
            Value::Map(_) => code::MAP32,
            Value::Array(_) => code::ARRAY32,
            Value::Described(_) => code::DESCRIBED,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.into())
    }
}

impl Map {
    /// The value under a string or symbol key.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
    }

    /// Adds an entry with a symbol as key; that it is new is the caller's promise.
    pub fn symbol(mut self, name: &'static str, value: Value) -> Map {
        self.0.push((Value::Symbol(Symbol::from_static(name)), value));
        self
    }

    /// Adds an entry with a string as key; that it is new is the caller's promise.
    pub fn string(mut self, name: &'static str, value: Value) -> Map {
        self.0.push((Value::String(ByteString::from_static(name)), value));
        self
    }
}

impl Array {
    /// `None` if the values are not all of one type, or if a value is described.
    pub fn new(items: Vec<Value>) -> Option<Array> {
        let code = items.first().map_or(code::NULL, Value::wide_code);
        Array::of(code, items)
    }

    /// As [`Array::new`], of a type that also an empty array shows: the widest format code.
    pub fn of(code: u8, items: Vec<Value>) -> Option<Array> {
        let fits = |item: &Value| item.wide_code() == code && code != code::DESCRIBED;
        items.iter().all(fits).then_some(Array { descriptor: None, code, items })
    }

    pub fn longs(items: impl IntoIterator<Item = i64>) -> Array {
        let items = items.into_iter().map(Value::Long).collect();
        Array { descriptor: None, code: code::LONG, items }
    }

    pub fn timestamps(items: impl IntoIterator<Item = i64>) -> Array {
        let items = items.into_iter().map(Value::Timestamp).collect();
        Array { descriptor: None, code: code::TIMESTAMP, items }
    }

    pub fn strings<'t>(items: impl IntoIterator<Item = &'t str>) -> Array {
        let items = items.into_iter().map(Value::from).collect();
        Array { descriptor: None, code: code::STRING32, items }
    }

    pub fn items(&self) -> &[Value] {
        &self.items
    }
}

impl Reader<'_> {
    /// Any value.
    pub fn value(&mut self) -> Result<Value, DecodeError> {
        let code = self.u8()?;
        Value::decode(self, code)
    }

    /// A map, or null as an empty one.
    pub fn map(&mut self) -> Result<Map, DecodeError> {
        match self.u8()? {
            code::NULL => Ok(Map::default()),
            code => Map::decode(self, code),
        }
    }
}

impl Decode for Value {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<Value, DecodeError> {
        reader.count(1)?;
        Ok(match code {
            code::DESCRIBED => {
                let parts = reader.deeper(|reader| Ok((reader.value()?, reader.value()?)))?;
                Value::Described(Box::new(parts))
            }
            code::NULL => Value::Null,
            code::TRUE | code::FALSE | code::BOOLEAN => Value::Bool(bool::decode(reader, code)?),
            code::UINT0 | code::SMALL_UINT | code::UINT => Value::Uint(u32::decode(reader, code)?),
            code::ULONG0 | code::SMALL_ULONG | code::ULONG => {
                Value::Ulong(u64::decode(reader, code)?)
            }
            code::UBYTE => Value::Ubyte(reader.u8()?),
            code::USHORT => Value::Ushort(u16::decode(reader, code)?),
            code::BYTE => Value::Byte(reader.u8()? as i8),
            code::SHORT => Value::Short(i16::from_be_bytes(reader.fixed()?)),
            code::SMALL_INT | code::INT => Value::Int(i32::decode(reader, code)?),
            code::SMALL_LONG | code::LONG => Value::Long(i64::decode(reader, code)?),
            code::FLOAT => Value::Float(f32::from_be_bytes(reader.fixed()?)),
            code::DOUBLE => Value::Double(f64::from_be_bytes(reader.fixed()?)),
            code::DECIMAL32 => Value::Decimal32(reader.fixed()?),
            code::DECIMAL64 => Value::Decimal64(reader.fixed()?),
            code::DECIMAL128 => Value::Decimal128(reader.fixed()?),
            code::CHAR => {
                let expected = "char";
                let value = char::from_u32(reader.u32()?);
                Value::Char(value.ok_or(DecodeError::Range { expected })?)
            }
            code::TIMESTAMP => Value::Timestamp(i64::from_be_bytes(reader.fixed()?)),
            code::UUID => Value::Uuid(reader.fixed()?),
            code::BINARY8 | code::BINARY32 => Value::Binary(Bytes::decode(reader, code)?),
            code::STRING8 | code::STRING32 => Value::String(ByteString::decode(reader, code)?),
            code::SYMBOL8 | code::SYMBOL32 => Value::Symbol(Symbol::decode(reader, code)?),
            code::LIST0 | code::LIST8 | code::LIST32 => Value::List(list(reader, code)?),
            code::MAP8 | code::MAP32 => Value::Map(Map::decode(reader, code)?),
            code::ARRAY8 | code::ARRAY32 => Value::Array(Array::decode(reader, code)?),
            code => return Err(DecodeError::Code { code }),
        })
    }
}

fn list(reader: &mut Reader<'_>, code: u8) -> Result<Vec<Value>, DecodeError> {
    let span = reader.span(code, "list")?;
    reader.within(span.end, |reader| {
        let items = (0..span.count).map(|_| reader.value()).collect::<Result<_, _>>()?;
        reader.finish().map_err(|_| DecodeError::Size)?;
        Ok(items)
    })
}

impl Decode for Map {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<Map, DecodeError> {
        if !matches!(code, code::MAP8 | code::MAP32) {
            return Err(DecodeError::Type { expected: "map", code });
        }
        let span = reader.span(code, "map")?;
        if !span.count.is_multiple_of(2) {
            return Err(DecodeError::Size);
        }
        reader.within(span.end, |reader| {
            let entry = |reader: &mut Reader<'_>| Ok((reader.value()?, reader.value()?));
            let entries = (0..span.count / 2).map(|_| entry(reader)).collect::<Result<_, _>>()?;
            reader.finish().map_err(|_| DecodeError::Size)?;
            Ok(Map(entries))
        })
    }
}

impl Decode for Array {
    fn decode(reader: &mut Reader<'_>, code: u8) -> Result<Array, DecodeError> {
        let span = reader.span(code, "array")?;
        reader.within(span.end, |reader| {
            let mut code = reader.u8()?;
            let mut descriptor = None;
            if code == code::DESCRIBED {
                descriptor = Some(Box::new(reader.deeper(Reader::value)?));
                code = reader.u8()?;
                if code == code::DESCRIBED {
                    // Elements described twice over: allowed by the grammar, used by nobody.
                    return Err(DecodeError::Type { expected: "array element", code });
                }
            }
            // `decode` counts each element, so a huge count fails before it is stored.
            let items = (0..span.count)
                .map(|_| Value::decode(reader, code))
                .collect::<Result<Vec<_>, _>>()?;
            reader.finish().map_err(|_| DecodeError::Size)?;
            Ok(Array { descriptor, code: widest(code)?, items })
        })
    }
}

/// The widest format code of the type `code` belongs to.
fn widest(code: u8) -> Result<u8, DecodeError> {
    Ok(match code {
        code::TRUE | code::FALSE | code::BOOLEAN => code::BOOLEAN,
        code::UINT0 | code::SMALL_UINT | code::UINT => code::UINT,
        code::ULONG0 | code::SMALL_ULONG | code::ULONG => code::ULONG,
        code::SMALL_INT => code::INT,
        code::SMALL_LONG => code::LONG,
        code::LIST0 => code::LIST32,
        code::BINARY8 | code::STRING8 | code::SYMBOL8 | code::LIST8 | code::MAP8 | code::ARRAY8 => {
            code + (code::LIST32 - code::LIST8)
        }
        code::NULL | 0x50..=0x98 | 0xb0..=0xf0 => code,
        code => return Err(DecodeError::Code { code }),
    })
}

impl Encode for Value {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Value::Bool(value) => value.encode(out),
            Value::Uint(value) => value.encode(out),
            Value::Ulong(value) => value.encode(out),
            Value::Int(value) => value.encode(out),
            Value::Binary(value) => value.encode(out),
            Value::String(value) => value.encode(out),
            Value::Symbol(value) => value.encode(out),
            Value::List(items) if items.is_empty() => out.put_u8(code::LIST0),
            Value::List(items) => {
                let start = writer::begin(out, code::LIST8);
                items.iter().for_each(|item| item.encode(out));
                writer::end(out, start, items.len() as u32);
            }
            Value::Map(map) => map.encode(out),
            Value::Array(array) => array.encode(out),
            Value::Described(parts) => {
                out.put_u8(code::DESCRIBED);
                parts.0.encode(out);
                parts.1.encode(out);
            }
            fixed => {
                out.put_u8(fixed.wide_code());
                fixed.encode_wide(out);
            }
        }
    }
}

impl Value {
    /// The content alone, as [`Value::wide_code`] has it: an element of an array.
    fn encode_wide(&self, out: &mut BytesMut) {
        match self {
            Value::Null => {}
            Value::Bool(value) => out.put_u8(u8::from(*value)),
            Value::Ubyte(value) => out.put_u8(*value),
            Value::Ushort(value) => out.put_u16(*value),
            Value::Uint(value) => out.put_u32(*value),
            Value::Ulong(value) => out.put_u64(*value),
            Value::Byte(value) => out.put_i8(*value),
            Value::Short(value) => out.put_i16(*value),
            Value::Int(value) => out.put_i32(*value),
            Value::Long(value) | Value::Timestamp(value) => out.put_i64(*value),
            Value::Float(value) => out.put_f32(*value),
            Value::Double(value) => out.put_f64(*value),
            Value::Decimal32(bytes) => out.put_slice(bytes),
            Value::Decimal64(bytes) => out.put_slice(bytes),
            Value::Decimal128(bytes) | Value::Uuid(bytes) => out.put_slice(bytes),
            Value::Char(value) => out.put_u32(u32::from(*value)),
            Value::Binary(bytes) => sized(out, bytes),
            Value::String(text) => sized(out, text.as_bytes()),
            Value::Symbol(symbol) => sized(out, symbol.as_bytes()),
            Value::List(items) => {
                let start = begin_wide(out);
                items.iter().for_each(|item| item.encode(out));
                end_wide(out, start, items.len() as u32);
            }
            Value::Map(map) => {
                let start = begin_wide(out);
                map.encode_entries(out);
                end_wide(out, start, map.0.len() as u32 * 2);
            }
            Value::Array(array) => {
                let start = begin_wide(out);
                array.encode_items(out);
                end_wide(out, start, array.items.len() as u32);
            }
            // An array holds none: its descriptor stands once, before the elements.
            Value::Described(_) => {}
        }
    }
}

fn sized(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(bytes.len() as u32);
    out.put_slice(bytes);
}

fn begin_wide(out: &mut BytesMut) -> usize {
    let start = out.len();
    out.put_bytes(0, 8);
    start
}

fn end_wide(out: &mut BytesMut, start: usize, count: u32) {
    let size = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    out[start + 4..start + 8].copy_from_slice(&count.to_be_bytes());
}

impl Map {
    fn encode_entries(&self, out: &mut BytesMut) {
        for (key, value) in &self.0 {
            key.encode(out);
            value.encode(out);
        }
    }
}

impl Encode for Map {
    fn encode(&self, out: &mut BytesMut) {
        let start = writer::begin(out, code::MAP8);
        self.encode_entries(out);
        writer::end(out, start, self.0.len() as u32 * 2);
    }
}

impl Array {
    fn encode_items(&self, out: &mut BytesMut) {
        if let Some(descriptor) = &self.descriptor {
            out.put_u8(code::DESCRIBED);
            descriptor.encode(out);
        }
        out.put_u8(self.code);
        self.items.iter().for_each(|item| item.encode_wide(out));
    }
}

impl Encode for Array {
    fn encode(&self, out: &mut BytesMut) {
        let start = writer::begin(out, code::ARRAY8);
        self.encode_items(out);
        writer::end(out, start, self.items.len() as u32);
    }
}
