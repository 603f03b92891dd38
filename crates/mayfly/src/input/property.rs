//! User properties (MSG-4) as typed: `name=value`, or `name:type=value`.

use client::v1::Value;
use client::v1::value::Kind;

const TYPES: &str = "string, bool, int, long, double, uuid, time or null";

/// Reads `name=value` (a string) or `name:type=value`.
pub fn parse(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is no property; write name=value or name:type=value"))?;
    let (name, kind) = name.rsplit_once(':').unwrap_or((name, "string"));
    if name.is_empty() {
        return Err(format!("'{text}' names no property; write name=value"));
    }
    let bad = || format!("'{value}' is no {kind}, as property '{name}' wants it");
    let kind = match kind {
        "string" => Kind::StringValue(value.to_owned()),
        "bool" => Kind::BoolValue(value.parse().map_err(|_| bad())?),
        "int" => Kind::IntValue(value.parse().map_err(|_| bad())?),
        "long" => Kind::LongValue(value.parse().map_err(|_| bad())?),
        "double" => Kind::DoubleValue(value.parse().map_err(|_| bad())?),
        "uuid" => {
            let uuid: uuid::Uuid = value.parse().map_err(|_| bad())?;
            Kind::UuidValue(uuid.as_bytes().to_vec().into())
        }
        "time" => {
            let at: jiff::Timestamp = value.parse().map_err(|_| bad())?;
            Kind::DateTimeMs(at.as_millisecond())
        }
        "null" => Kind::Null(true),
        other => return Err(format!("'{other}' is no property type; write {TYPES}")),
    };
    Ok((name.to_owned(), Value { kind: Some(kind) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_by_type() {
        for (text, name, kind) in [
            ("color=red", "color", Kind::StringValue("red".into())),
            ("note=a=b", "note", Kind::StringValue("a=b".into())),
            ("n:long=-5", "n", Kind::LongValue(-5)),
            ("ok:bool=true", "ok", Kind::BoolValue(true)),
            ("urn:x:double=0.5", "urn:x", Kind::DoubleValue(0.5)),
            ("at:time=1970-01-01T00:00:01Z", "at", Kind::DateTimeMs(1000)),
        ] {
            assert_eq!(parse(text), Ok((name.to_owned(), Value { kind: Some(kind) })), "{text}");
        }
    }

    #[test]
    fn what_is_no_property_is_told_so() {
        for (text, told) in [
            ("red", "'red' is no property; write name=value or name:type=value"),
            ("=red", "'=red' names no property; write name=value"),
            ("n:int=x", "'x' is no int, as property 'n' wants it"),
            (
                "n:colour=x",
                "'colour' is no property type; write string, bool, int, long, double, uuid, time or null",
            ),
        ] {
            assert_eq!(parse(text), Err(told.to_owned()), "{text}");
        }
    }
}
