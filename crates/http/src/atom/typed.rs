//! Values with a type of XML schema: parameters of SQL, and properties of correlation filters.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::{Excerpt, Properties, Value};
use jiff::civil;
use jiff::tz::TimeZone;

use super::description::{Element, element, elements};
use super::document::{Elements, write_text};
use super::duration;
use crate::failure::Failure;

const PAIR: &str = "KeyValueOfstringanyType";
const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";
const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;
const TICKS_PER_MS: i64 = 10_000;

/// Nothing where there is none: JS reads an empty element, and throws.
pub(super) fn write(out: &mut Elements<'_>, name: &str, properties: &Properties) -> io::Result<()> {
    if properties.is_empty() {
        return Ok(());
    }
    let element = out.0.create_element(name);
    element.write_inner_content(|xml| {
        for (key, value) in properties {
            xml.create_element(PAIR).write_inner_content(|xml| {
                let mut out = Elements(xml);
                out.text("Key", key)?;
                write_value(&mut out, value)
            })?;
        }
        Ok(())
    })?;
    Ok(())
}

/// JS compares the attribute's name, and cuts five characters off what it says.
fn write_value(out: &mut Elements<'_>, value: &Value) -> io::Result<()> {
    let element = out.0.create_element("Value");
    match shown(value) {
        None => element.with_attribute(("i:nil", "true")).write_empty().map(drop),
        Some((kind, text)) => {
            let kind = format!("d6p1:{kind}");
            let element = element.with_attribute(("i:type", kind.as_str()));
            write_text(element.with_attribute(("xmlns:d6p1", SCHEMA)), &text)
        }
    }
}

/// Type and text. JS knows `int`, `double`, `string`, `boolean` and `dateTime` only, so what fits one
/// of them is that.
fn shown(value: &Value) -> Option<(&'static str, String)> {
    let integer = |value: i128| match i32::try_from(value) {
        Ok(value) => ("int", value.to_string()),
        Err(_) if i64::try_from(value).is_ok() => ("long", value.to_string()),
        Err(_) => ("unsignedLong", value.to_string()),
    };
    let instant = |ms| {
        let at = jiff::Timestamp::from_millisecond(ms).ok();
        ("dateTime", at.unwrap_or_default().to_string())
    };
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => ("boolean", value.to_string()),
        Value::Byte(value) => integer((*value).into()),
        Value::SByte(value) => integer((*value).into()),
        Value::Short(value) => integer((*value).into()),
        Value::UShort(value) => integer((*value).into()),
        Value::Int(value) => integer((*value).into()),
        Value::UInt(value) => integer((*value).into()),
        Value::Long(value) => integer((*value).into()),
        Value::ULong(value) => integer((*value).into()),
        Value::Float(value) => ("double", number(f64::from(*value))),
        Value::Double(value) => ("double", number(*value)),
        Value::Char(value) => ("string", value.to_string()),
        Value::String(value) | Value::Uri(value) => ("string", value.clone()),
        Value::Uuid(bytes) => ("string", uuid::Uuid::from_bytes(*bytes).to_string()),
        Value::DateTime(ms) => instant(*ms),
        Value::DateTimeOffset(ticks) => {
            instant(ticks.saturating_sub(UNIX_EPOCH_TICKS).div_euclid(TICKS_PER_MS))
        }
        Value::TimeSpan(ticks) => ("duration", duration::format_ticks(*ticks)),
        Value::Decimal(bytes) => ("base64Binary", BASE64.encode(bytes)),
        Value::Bytes(bytes) => ("base64Binary", BASE64.encode(bytes)),
    })
}

/// As XML schema writes it.
fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        value if value.is_infinite() => if value > 0.0 { "INF" } else { "-INF" }.to_owned(),
        value => value.to_string(),
    }
}

pub(super) fn read(pairs: Option<Element<'_, '_>>) -> Result<Properties, Failure> {
    let mut properties = Properties::new();
    let Some(pairs) = pairs else { return Ok(properties) };
    for pair in elements(pairs.0).filter(|pair| pair.name() == PAIR) {
        let key = element(pair.0, "Key").and_then(Element::some_text);
        let key = key.ok_or_else(|| Failure::bad(format!("a {PAIR} has no Key")))?;
        let value = element(pair.0, "Value")
            .ok_or_else(|| Failure::bad(format!("the Value of '{}' is missing", Excerpt(&key))))?;
        let value = read_value(value)?;
        if properties.insert(key.clone(), value).is_some() {
            return Err(Failure::bad(format!(
                "'{}' is given twice in {}",
                Excerpt(&key),
                pairs.name()
            )));
        }
    }
    Ok(properties)
}

fn read_value(value: Element<'_, '_>) -> Result<Value, Failure> {
    if value.is_nil() {
        return Ok(Value::Null);
    }
    let text = value.text();
    let word = text.trim();
    let kind = value.kind().unwrap_or("string");
    let read = match kind {
        "string" | "anyURI" => return Ok(Value::String(text.to_owned())),
        "char" => text.parse().ok().map(Value::Char),
        "boolean" => return Ok(Value::Bool(value.flag()?)),
        "byte" => word.parse().ok().map(Value::SByte),
        "unsignedByte" => word.parse().ok().map(Value::Byte),
        "short" => word.parse().ok().map(Value::Short),
        "unsignedShort" => word.parse().ok().map(Value::UShort),
        "int" => word.parse().ok().map(Value::Int),
        "unsignedInt" => word.parse().ok().map(Value::UInt),
        "long" | "integer" => word.parse().ok().map(Value::Long),
        "unsignedLong" => word.parse().ok().map(Value::ULong),
        "float" => word.parse().ok().map(Value::Float),
        "double" | "decimal" => word.parse().ok().map(Value::Double),
        "dateTime" => instant_ms(word).map(Value::DateTime),
        "duration" => duration::parse_ticks(word).map(Value::TimeSpan),
        "guid" => word.parse().ok().map(|id: uuid::Uuid| Value::Uuid(id.into_bytes())),
        "base64Binary" => BASE64.decode(word).ok().map(Value::Bytes),
        other => {
            return Err(Failure::bad(format!(
                "values of type {} are not supported",
                Excerpt(other)
            )));
        }
    };
    read.ok_or_else(|| value.wrong(&format!("of type {kind}")))
}

/// Without a zone it is UTC.
fn instant_ms(text: &str) -> Option<i64> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_millisecond());
    }
    let at = text.parse::<civil::DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(at.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_29_atom_21_values_have_the_types_the_clients_read() {
        let text = |text: &str| Value::String(text.to_owned());
        for (value, kind, written) in [
            (Value::Long(5), "int", "5"),
            (Value::Long(5_000_000_000), "long", "5000000000"),
            (Value::ULong(u64::MAX), "unsignedLong", "18446744073709551615"),
            (Value::Byte(7), "int", "7"),
            (Value::Double(1.5), "double", "1.5"),
            (Value::Double(f64::INFINITY), "double", "INF"),
            (text(" a "), "string", " a "),
            (Value::Bool(true), "boolean", "true"),
            (Value::DateTime(0), "dateTime", "1970-01-01T00:00:00Z"),
            (Value::DateTimeOffset(UNIX_EPOCH_TICKS), "dateTime", "1970-01-01T00:00:00Z"),
            (Value::TimeSpan(-1), "duration", "-PT0.0000001S"),
            (Value::Bytes(vec![1, 2]), "base64Binary", "AQI="),
        ] {
            assert_eq!(shown(&value), Some((kind, written.to_owned())), "{value:?}");
        }
        assert_eq!(shown(&Value::Null), None);
    }

    #[test]
    fn instants_are_utc_unless_they_say_otherwise() {
        for (text, ms) in [
            ("1970-01-01T00:00:01Z", Some(1000)),
            ("1970-01-01T01:00:00+01:00", Some(0)),
            ("1970-01-01T00:00:00.5", Some(500)),
            ("yesterday", None),
        ] {
            assert_eq!(instant_ms(text), ms, "{text}");
        }
    }
}
