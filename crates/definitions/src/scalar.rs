//! Values of conditions and parameters (MSG-4) in files: a text, a number or a truth as it stands, every
//! other type as `{ type = "…", value = … }`, so that what is written is read as it was.

use domain::Value;
use serde_json::Value as Json;

use crate::Node;

const TYPES: &str = "null, bool, byte, sbyte, short, ushort, int, uint, long, ulong, float, double, \
                     decimal, char, string, uri, uuid, time, date-time-offset, time-span or bytes";

/// As a file has it.
pub(crate) fn to_node(value: &Value) -> Node {
    let typed = |kind: &str, value: Node| {
        Node::Object(vec![("type".into(), Node::Text(kind.into())), ("value".into(), value)])
    };
    let integer = |kind: &str, value: i64| typed(kind, Node::Integer(value));
    let text = |kind: &str, value: String| typed(kind, Node::Text(value));
    match value {
        Value::Bool(value) => Node::Bool(*value),
        Value::Long(value) => Node::Integer(*value),
        Value::Double(value) if value.is_finite() => Node::Float(*value),
        Value::String(value) => Node::Text(value.clone()),
        Value::Null => Node::Object(vec![("type".into(), Node::Text("null".into()))]),
        Value::Byte(value) => integer("byte", (*value).into()),
        Value::SByte(value) => integer("sbyte", (*value).into()),
        Value::Short(value) => integer("short", (*value).into()),
        Value::UShort(value) => integer("ushort", (*value).into()),
        Value::Int(value) => integer("int", (*value).into()),
        Value::UInt(value) => integer("uint", (*value).into()),
        Value::ULong(value) => text("ulong", value.to_string()),
        Value::Float(value) => text("float", value.to_string()),
        Value::Double(value) => text("double", value.to_string()),
        Value::Decimal(bytes) => text("decimal", hex(bytes)),
        Value::Char(value) => text("char", value.to_string()),
        Value::Uri(value) => text("uri", value.clone()),
        Value::Uuid(bytes) => text("uuid", uuid::Uuid::from_bytes(*bytes).to_string()),
        Value::DateTime(ms) => match jiff::Timestamp::from_millisecond(*ms) {
            Ok(at) => text("time", at.to_string()),
            Err(_) => integer("time", *ms),
        },
        Value::DateTimeOffset(ticks) => integer("date-time-offset", *ticks),
        Value::TimeSpan(ticks) => integer("time-span", *ticks),
        Value::Bytes(bytes) => text("bytes", hex(bytes)),
    }
}

/// For people.
pub(crate) fn shown(value: &Value) -> String {
    match to_node(value) {
        Node::Text(text) => format!("'{text}'"),
        node => node.inline(),
    }
}

/// From a file; the error says what is wrong and what is allowed.
pub(crate) fn from_json(json: &Json) -> Result<Value, String> {
    match json {
        Json::Bool(value) => Ok(Value::Bool(*value)),
        Json::String(value) => Ok(Value::String(value.clone())),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Ok(Value::Long(value)),
            (None, Some(value)) => Ok(Value::Double(value)),
            (None, None) => Err(format!("{number} is no number of 64 bits")),
        },
        Json::Object(members) => {
            let kind = members.get("type").and_then(Json::as_str);
            let kind = kind.ok_or("an object is a value with `type` and `value`")?;
            let value = members.get("value").unwrap_or(&Json::Null);
            let text = match value {
                Json::String(text) => text.clone(),
                other => other.to_string(),
            };
            typed(kind, &text)
        }
        Json::Null | Json::Array(_) => {
            Err("it is a text, a number, true, false, or an object with `type` and `value`".into())
        }
    }
}

fn typed(kind: &str, text: &str) -> Result<Value, String> {
    let bad = || format!("'{text}' is no {kind}");
    macro_rules! parsed {
        ($variant:ident) => {
            text.parse().map(Value::$variant).map_err(|_| bad())
        };
    }
    match kind {
        "null" => Ok(Value::Null),
        "bool" => parsed!(Bool),
        "byte" => parsed!(Byte),
        "sbyte" => parsed!(SByte),
        "short" => parsed!(Short),
        "ushort" => parsed!(UShort),
        "int" => parsed!(Int),
        "uint" => parsed!(UInt),
        "long" => parsed!(Long),
        "ulong" => parsed!(ULong),
        "float" => parsed!(Float),
        "double" => parsed!(Double),
        "char" => parsed!(Char),
        "string" => Ok(Value::String(text.to_owned())),
        "uri" => Ok(Value::Uri(text.to_owned())),
        "uuid" => {
            text.parse::<uuid::Uuid>().map(|id| Value::Uuid(*id.as_bytes())).map_err(|_| bad())
        }
        "time" => match (text.parse::<i64>(), text.parse::<jiff::Timestamp>()) {
            (Ok(ms), _) => Ok(Value::DateTime(ms)),
            (_, Ok(at)) => Ok(Value::DateTime(at.as_millisecond())),
            (Err(_), Err(_)) => Err(bad()),
        },
        "date-time-offset" => parsed!(DateTimeOffset),
        "time-span" => parsed!(TimeSpan),
        "decimal" => {
            unhex(text).and_then(|bytes| bytes.try_into().ok()).map(Value::Decimal).ok_or_else(bad)
        }
        "bytes" => unhex(text).map(Value::Bytes).ok_or_else(bad),
        other => Err(format!("'{other}' is no type of a value; write {TYPES}")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// Whether two values mean the same to a rule: numbers are widened (RULE-12).
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (number(a), number(b)) {
        (Some(Number::Whole(a)), Some(Number::Whole(b))) => a == b,
        (Some(Number::Floating(a)), Some(Number::Floating(b))) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

enum Number {
    Whole(i128),
    Floating(f64),
}

fn number(value: &Value) -> Option<Number> {
    Some(match value {
        Value::Byte(n) => Number::Whole((*n).into()),
        Value::SByte(n) => Number::Whole((*n).into()),
        Value::Short(n) => Number::Whole((*n).into()),
        Value::UShort(n) => Number::Whole((*n).into()),
        Value::Int(n) => Number::Whole((*n).into()),
        Value::UInt(n) => Number::Whole((*n).into()),
        Value::Long(n) => Number::Whole((*n).into()),
        Value::ULong(n) => Number::Whole((*n).into()),
        Value::Float(n) => Number::Floating((*n).into()),
        Value::Double(n) => Number::Floating(*n),
        Value::Null
        | Value::Bool(_)
        | Value::Decimal(_)
        | Value::Char(_)
        | Value::String(_)
        | Value::Uri(_)
        | Value::Uuid(_)
        | Value::DateTime(_)
        | Value::DateTimeOffset(_)
        | Value::TimeSpan(_)
        | Value::Bytes(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each type of MSG-4, with what is easily lost of it.
    #[test]
    fn msg_4_every_value_is_read_as_it_was_written() {
        for value in [
            Value::Null,
            Value::Bool(true),
            Value::Byte(255),
            Value::SByte(-128),
            Value::Short(-5),
            Value::UShort(65535),
            Value::Int(-7),
            Value::UInt(u32::MAX),
            Value::Long(i64::MIN),
            Value::ULong(u64::MAX),
            Value::Float(0.1),
            Value::Double(3.0),
            Value::Double(f64::INFINITY),
            Value::Double(1e300),
            Value::Decimal([7; 16]),
            Value::Char('é'),
            Value::String("it's".into()),
            Value::Uri("urn:x".into()),
            Value::Uuid([3; 16]),
            Value::DateTime(1_517_363_399_650),
            Value::DateTime(i64::MAX),
            Value::DateTimeOffset(637_000_000_000_000_000),
            Value::TimeSpan(-1),
            Value::Bytes(vec![0, 255]),
        ] {
            let node = to_node(&value);
            let json = serde_json::to_string(&node).expect("JSON");
            let read: Json = serde_json::from_str(&json).expect("JSON");
            assert_eq!(from_json(&read), Ok(value.clone()), "{json}");
            let toml: toml::Table = format!("a = {}", node.inline()).parse().expect("TOML");
            let read = crate::document::toml_to_json(toml["a"].clone());
            assert_eq!(from_json(&read), Ok(value), "{}", node.inline());
        }
    }

    #[test]
    fn what_is_no_value_is_told_so() {
        for (text, told) in [
            ("[1]", "it is a text"),
            (r#"{"type": "int", "value": 99999999999}"#, "'99999999999' is no int"),
            (r#"{"type": "colour"}"#, "'colour' is no type of a value; write null, bool"),
            (r#"{"value": 1}"#, "an object is a value with `type`"),
            (r#"{"type": "bytes", "value": "0g"}"#, "'0g' is no bytes"),
        ] {
            let json = serde_json::from_str(text).expect("JSON");
            let error = from_json(&json).expect_err(text);
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn rule_12_numbers_mean_the_same_once_they_are_widened() {
        assert!(same(&Value::Int(3), &Value::Long(3)));
        assert!(same(&Value::Float(0.5), &Value::Double(0.5)));
        assert!(!same(&Value::Int(3), &Value::Double(3.0)));
        assert!(!same(&Value::String("3".into()), &Value::Int(3)));
    }
}
