//! User properties and what is laid over them.

use domain::{Overlay, Value};

use crate::codec::{put_slice, record};
use crate::{Codec, Error, Reader};

record!(Overlay { set, removed, texts, scheduled_at });

impl Codec for Value {
    fn put(&self, out: &mut Vec<u8>) {
        fn tagged(tag: u8, value: &impl Codec, out: &mut Vec<u8>) {
            out.push(tag);
            value.put(out);
        }
        match self {
            Value::Null => out.push(0),
            Value::Bool(value) => tagged(1, value, out),
            Value::Byte(value) => tagged(2, value, out),
            Value::SByte(value) => tagged(3, value, out),
            Value::Short(value) => tagged(4, value, out),
            Value::UShort(value) => tagged(5, value, out),
            Value::Int(value) => tagged(6, value, out),
            Value::UInt(value) => tagged(7, value, out),
            Value::Long(value) => tagged(8, value, out),
            Value::ULong(value) => tagged(9, value, out),
            Value::Float(value) => tagged(10, value, out),
            Value::Double(value) => tagged(11, value, out),
            Value::Decimal(value) => tagged(12, value, out),
            Value::Char(value) => tagged(13, value, out),
            Value::String(value) => tagged(14, value, out),
            Value::Uri(value) => tagged(15, value, out),
            Value::Uuid(value) => tagged(16, value, out),
            Value::DateTime(value) => tagged(17, value, out),
            Value::DateTimeOffset(value) => tagged(18, value, out),
            Value::TimeSpan(value) => tagged(19, value, out),
            Value::Bytes(value) => {
                out.push(20);
                put_slice(value, out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Value, Error> {
        Ok(match input.byte()? {
            0 => Value::Null,
            1 => Value::Bool(Codec::take(input)?),
            2 => Value::Byte(Codec::take(input)?),
            3 => Value::SByte(Codec::take(input)?),
            4 => Value::Short(Codec::take(input)?),
            5 => Value::UShort(Codec::take(input)?),
            6 => Value::Int(Codec::take(input)?),
            7 => Value::UInt(Codec::take(input)?),
            8 => Value::Long(Codec::take(input)?),
            9 => Value::ULong(Codec::take(input)?),
            10 => Value::Float(Codec::take(input)?),
            11 => Value::Double(Codec::take(input)?),
            12 => Value::Decimal(Codec::take(input)?),
            13 => Value::Char(Codec::take(input)?),
            14 => Value::String(Codec::take(input)?),
            15 => Value::Uri(Codec::take(input)?),
            16 => Value::Uuid(Codec::take(input)?),
            17 => Value::DateTime(Codec::take(input)?),
            18 => Value::DateTimeOffset(Codec::take(input)?),
            19 => Value::TimeSpan(Codec::take(input)?),
            20 => Value::Bytes(input.slice()?.to_vec()),
            _ => return Err(Error::corrupt("unknown tag of Value")),
        })
    }
}
