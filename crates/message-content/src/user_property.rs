//! User properties between AMQP and the domain (MSG-4). AMQP has no date-time-offset, time-span and
//! URI of its own: Service Bus describes them by a symbol (FORM-10).

use amqp_protocol::codec::{Encode, Symbol, Value};
use bytes::{Bytes, BytesMut};
use domain::Value as Property;

const TIME_SPAN: &str = "com.microsoft:timespan";
const URI: &str = "com.microsoft:uri";
const DATE_TIME_OFFSET: &str = "com.microsoft:datetime-offset";

/// As an application property.
pub fn from_domain(property: &Property) -> Value {
    match property {
        Property::Null => Value::Null,
        Property::Bool(value) => Value::Bool(*value),
        Property::Byte(value) => Value::Ubyte(*value),
        Property::SByte(value) => Value::Byte(*value),
        Property::Short(value) => Value::Short(*value),
        Property::UShort(value) => Value::Ushort(*value),
        Property::Int(value) => Value::Int(*value),
        Property::UInt(value) => Value::Uint(*value),
        Property::Long(value) => Value::Long(*value),
        Property::ULong(value) => Value::Ulong(*value),
        Property::Float(value) => Value::Float(*value),
        Property::Double(value) => Value::Double(*value),
        Property::Decimal(bytes) => Value::Decimal128(*bytes),
        Property::Char(value) => Value::Char(*value),
        Property::String(text) => Value::from(text.as_str()),
        Property::Uri(text) => described(URI, Value::from(text.as_str())),
        Property::Uuid(bytes) => Value::Uuid(*bytes),
        Property::DateTime(ms) => Value::Timestamp(*ms),
        Property::DateTimeOffset(ticks) => described(DATE_TIME_OFFSET, Value::Long(*ticks)),
        Property::TimeSpan(ticks) => described(TIME_SPAN, Value::Long(*ticks)),
        Property::Bytes(bytes) => Value::Binary(Bytes::copy_from_slice(bytes)),
    }
}

fn described(name: &'static str, value: Value) -> Value {
    Value::Described(Box::new((Value::Symbol(Symbol::from_static(name)), value)))
}

/// As the domain has it. A value of a type that MSG-4 does not name becomes the bytes of its encoding,
/// so that nothing is lost.
pub fn to_domain(value: &Value) -> Property {
    match value {
        Value::Null => Property::Null,
        Value::Bool(value) => Property::Bool(*value),
        Value::Ubyte(value) => Property::Byte(*value),
        Value::Ushort(value) => Property::UShort(*value),
        Value::Uint(value) => Property::UInt(*value),
        Value::Ulong(value) => Property::ULong(*value),
        Value::Byte(value) => Property::SByte(*value),
        Value::Short(value) => Property::Short(*value),
        Value::Int(value) => Property::Int(*value),
        Value::Long(value) => Property::Long(*value),
        Value::Float(value) => Property::Float(*value),
        Value::Double(value) => Property::Double(*value),
        Value::Decimal128(bytes) => Property::Decimal(*bytes),
        Value::Char(value) => Property::Char(*value),
        Value::Timestamp(ms) => Property::DateTime(*ms),
        Value::Uuid(bytes) => Property::Uuid(*bytes),
        Value::Binary(bytes) => Property::Bytes(bytes.to_vec()),
        Value::String(text) => Property::String(text.to_string()),
        Value::Symbol(text) => Property::String(text.to_string()),
        Value::Described(parts) => match (parts.0.as_str(), &parts.1) {
            (Some(TIME_SPAN), Value::Long(ticks)) => Property::TimeSpan(*ticks),
            (Some(DATE_TIME_OFFSET), Value::Long(ticks)) => Property::DateTimeOffset(*ticks),
            (Some(URI), Value::String(text)) => Property::Uri(text.to_string()),
            _ => encoding(value),
        },
        Value::Decimal32(_)
        | Value::Decimal64(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Array(_) => encoding(value),
    }
}

fn encoding(value: &Value) -> Property {
    let mut out = BytesMut::new();
    value.encode(&mut out);
    Property::Bytes(out.to_vec())
}
