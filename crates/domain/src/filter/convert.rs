//! SET over an existing property: the new value takes the old one's type where it can (RULE-19).

use super::number::Number;
use super::operand::OperandView;
use super::text::to_text;
use crate::Value;

/// The value in the type of the existing one. Where nothing of that type equals it, the value stays
/// as it is, and the property changes its type [choice: a half is never made a nought]. Only a float
/// takes the nearest it has.
pub(super) fn to_type_of(existing: &Value, value: Value) -> Value {
    converted(existing, &value).unwrap_or(value)
}

fn converted(existing: &Value, value: &Value) -> Option<Value> {
    Some(match existing {
        Value::Byte(_) => Value::Byte(integer(value)?),
        Value::SByte(_) => Value::SByte(integer(value)?),
        Value::Short(_) => Value::Short(integer(value)?),
        Value::UShort(_) => Value::UShort(integer(value)?),
        Value::Int(_) => Value::Int(integer(value)?),
        Value::UInt(_) => Value::UInt(integer(value)?),
        Value::Long(_) => Value::Long(integer(value)?),
        Value::ULong(_) => Value::ULong(integer(value)?),
        Value::Float(_) => {
            let nearest = number(value)?.to_f64() as f32;
            Value::Float(Some(nearest).filter(|nearest| nearest.is_finite())?)
        }
        Value::Double(_) => Value::Double(number(value)?.to_f64()),
        Value::Decimal(_) => match number(value)? {
            Number::Integer(integer, _) => {
                Value::Decimal(super::decimal::Decimal::from_integer(integer).to_bytes())
            }
            Number::Decimal(decimal) => Value::Decimal(decimal.to_bytes()),
            Number::Double(_) => return None,
        },
        Value::Bool(_) => match text(value)? {
            text if text.eq_ignore_ascii_case("true") => Value::Bool(true),
            text if text.eq_ignore_ascii_case("false") => Value::Bool(false),
            _ => return None,
        },
        Value::Char(_) => {
            let mut chars = text(value)?.chars();
            let first = chars.next()?;
            Value::Char(Some(first).filter(|_| chars.next().is_none())?)
        }
        Value::String(_) => Value::String(to_text(value)?),
        Value::Uri(_) => Value::Uri(text(value)?.to_owned()),
        Value::DateTimeOffset(_) => {
            Value::DateTimeOffset(i64::try_from(OperandView::of(value)?.ticks()?).ok()?)
        }
        Value::Null
        | Value::Uuid(_)
        | Value::DateTime(_)
        | Value::TimeSpan(_)
        | Value::Bytes(_) => {
            return None;
        }
    })
}

fn integer<T: TryFrom<i128>>(value: &Value) -> Option<T> {
    T::try_from(number(value)?.to_integer()?).ok()
}

/// A number, or a text that is one.
fn number(value: &Value) -> Option<Number> {
    let Some(text) = text(value) else { return Number::of(value) };
    let value = match text.parse() {
        Ok(integer) => Value::Long(integer),
        Err(_) => Value::Double(text.parse().ok().filter(|double: &f64| double.is_finite())?),
    };
    Number::of(&value)
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) | Value::Uri(text) => Some(text),
        _ => None,
    }
}
