//! User properties (MSG-4).

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::{Properties, Refusal, Value};

use crate::v1;
use crate::v1::value::Kind;

pub fn properties_from_v1(properties: &BTreeMap<String, v1::Value>) -> Result<Properties, Refusal> {
    properties.iter().map(|(name, value)| Ok((name.clone(), value_from_v1(value)?))).collect()
}

pub fn properties_to_v1(properties: &Properties) -> BTreeMap<String, v1::Value> {
    properties.iter().map(|(name, value)| (name.clone(), value_to_v1(value))).collect()
}

pub fn value_from_v1(value: &v1::Value) -> Result<Value, Refusal> {
    Ok(match value.kind.as_ref() {
        None | Some(Kind::Null(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(*value),
        Some(Kind::IntValue(value)) => Value::Int(*value),
        Some(Kind::LongValue(value)) => Value::Long(*value),
        Some(Kind::DoubleValue(value)) => Value::Double(*value),
        Some(Kind::StringValue(value)) => Value::String(value.clone()),
        Some(Kind::BytesValue(value)) => Value::Bytes(value.to_vec()),
        Some(Kind::ByteValue(value)) => Value::Byte(narrow(*value, "byte")?),
        Some(Kind::SbyteValue(value)) => Value::SByte(narrow(*value, "sbyte")?),
        Some(Kind::ShortValue(value)) => Value::Short(narrow(*value, "short")?),
        Some(Kind::UshortValue(value)) => Value::UShort(narrow(*value, "ushort")?),
        Some(Kind::UintValue(value)) => Value::UInt(*value),
        Some(Kind::UlongValue(value)) => Value::ULong(*value),
        Some(Kind::FloatValue(value)) => Value::Float(*value),
        Some(Kind::DecimalValue(value)) => Value::Decimal(sixteen(value, "decimal")?),
        Some(Kind::CharValue(value)) => Value::Char(narrow(*value, "char")?),
        Some(Kind::UriValue(value)) => Value::Uri(value.clone()),
        Some(Kind::UuidValue(value)) => Value::Uuid(sixteen(value, "uuid")?),
        Some(Kind::DateTimeMs(value)) => Value::DateTime(*value),
        Some(Kind::DateTimeOffsetTicks(value)) => Value::DateTimeOffset(*value),
        Some(Kind::TimeSpanTicks(value)) => Value::TimeSpan(*value),
    })
}

pub fn value_to_v1(value: &Value) -> v1::Value {
    let kind = match value {
        Value::Null => Kind::Null(true),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Byte(value) => Kind::ByteValue((*value).into()),
        Value::SByte(value) => Kind::SbyteValue((*value).into()),
        Value::Short(value) => Kind::ShortValue((*value).into()),
        Value::UShort(value) => Kind::UshortValue((*value).into()),
        Value::Int(value) => Kind::IntValue(*value),
        Value::UInt(value) => Kind::UintValue(*value),
        Value::Long(value) => Kind::LongValue(*value),
        Value::ULong(value) => Kind::UlongValue(*value),
        Value::Float(value) => Kind::FloatValue(*value),
        Value::Double(value) => Kind::DoubleValue(*value),
        Value::Decimal(value) => Kind::DecimalValue(Bytes::copy_from_slice(value)),
        Value::Char(value) => Kind::CharValue((*value).into()),
        Value::String(value) => Kind::StringValue(value.clone()),
        Value::Uri(value) => Kind::UriValue(value.clone()),
        Value::Uuid(value) => Kind::UuidValue(Bytes::copy_from_slice(value)),
        Value::DateTime(value) => Kind::DateTimeMs(*value),
        Value::DateTimeOffset(value) => Kind::DateTimeOffsetTicks(*value),
        Value::TimeSpan(value) => Kind::TimeSpanTicks(*value),
        Value::Bytes(value) => Kind::BytesValue(Bytes::copy_from_slice(value)),
    };
    v1::Value { kind: Some(kind) }
}

fn narrow<W: Copy + ToString, N: TryFrom<W>>(value: W, kind: &'static str) -> Result<N, Refusal> {
    N::try_from(value).map_err(|_| {
        let why = format!("{} is no value of type {kind}", value.to_string());
        Refusal::Argument { what: "property", why }
    })
}

fn sixteen(value: &[u8], kind: &str) -> Result<[u8; 16], Refusal> {
    value.try_into().map_err(|_| {
        let why = format!("a {kind} takes 16 bytes, not {}", value.len());
        Refusal::Argument { what: "property", why }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    proptest! {
        #[test]
        fn msg_4_every_value_survives_the_native_api(value in arbitrary::value()) {
            prop_assert_eq!(value_from_v1(&value_to_v1(&value)).unwrap(), value);
        }
    }

    #[test]
    fn values_out_of_their_type_are_refused() {
        for kind in [
            Kind::ByteValue(256),
            Kind::SbyteValue(-129),
            Kind::ShortValue(32768),
            Kind::UshortValue(65536),
            Kind::CharValue(0xd800),
            Kind::UuidValue(Bytes::from_static(b"short")),
            Kind::DecimalValue(Bytes::new()),
        ] {
            let refusal = value_from_v1(&v1::Value { kind: Some(kind) }).unwrap_err();
            assert_eq!(refusal.rule(), "ERR-12");
        }
    }
}
