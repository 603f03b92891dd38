//! Values with a type of XML schema: parameters of SQL, and properties of correlation filters.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::{Excerpt, Properties, Value, WrittenValue, WrittenValues};

use super::description::{Element, element, elements};
use super::document::{Elements, write_text};
use super::duration;
use crate::failure::Failure;
use crate::instant;

const PAIR: &str = "KeyValueOfstringanyType";
const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";
const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;
const TICKS_PER_MS: i64 = 10_000;
/// Of a value that is no text: no client writes as much, and it is kept.
const WRITTEN_CHARS_MAX: usize = 128;

/// Nothing where there is none: JS reads an empty element, and throws.
pub(super) fn write(
    out: &mut Elements<'_>,
    name: &str,
    properties: &Properties,
    written: &WrittenValues,
) -> io::Result<()> {
    if properties.is_empty() {
        return Ok(());
    }
    let element = out.0.create_element(name);
    element.write_inner_content(|xml| {
        for (key, value) in properties {
            xml.create_element(PAIR).write_inner_content(|xml| {
                let mut out = Elements(xml);
                out.text("Key", key)?;
                write_value(&mut out, value, written.get(key))
            })?;
        }
        Ok(())
    })?;
    Ok(())
}

/// As it was written, if that is known (RULE-39). JS compares the attribute's name, and cuts five
/// characters off what it says.
fn write_value(
    out: &mut Elements<'_>,
    value: &Value,
    written: Option<&WrittenValue>,
) -> io::Result<()> {
    let element = out.0.create_element("Value");
    let written = written.map(|written| (written.kind.as_str(), written.text.clone()));
    match written.or_else(|| shown(value)) {
        None => element.with_attribute(("i:nil", "true")).write_empty().map(drop),
        Some((kind, text)) => {
            let kind = format!("d6p1:{kind}");
            let element = element.with_attribute(("i:type", kind.as_str()));
            write_text(element.with_attribute(("xmlns:d6p1", SCHEMA)), &text)
        }
    }
}

/// Type and text.
fn shown(value: &Value) -> Option<(&'static str, String)> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => ("boolean", value.to_string()),
        Value::Byte(value) => ("unsignedByte", value.to_string()),
        Value::SByte(value) => ("byte", value.to_string()),
        Value::Short(value) => ("short", value.to_string()),
        Value::UShort(value) => ("unsignedShort", value.to_string()),
        Value::Int(value) => ("int", value.to_string()),
        Value::UInt(value) => ("unsignedInt", value.to_string()),
        Value::Long(value) => ("long", value.to_string()),
        Value::ULong(value) => ("unsignedLong", value.to_string()),
        Value::Float(value) => ("float", number(f64::from(*value), value.to_string())),
        Value::Double(value) => ("double", number(*value, value.to_string())),
        Value::Char(value) => ("string", value.to_string()),
        Value::String(value) | Value::Uri(value) => ("string", value.clone()),
        Value::Uuid(bytes) => ("string", uuid::Uuid::from_bytes(*bytes).to_string()),
        Value::DateTime(ms) => ("dateTime", instant::show_ms(*ms)),
        Value::DateTimeOffset(ticks) => {
            let ms = ticks.saturating_sub(UNIX_EPOCH_TICKS).div_euclid(TICKS_PER_MS);
            ("dateTime", instant::show_ms(ms))
        }
        Value::TimeSpan(ticks) => ("duration", duration::format_ticks(*ticks)),
        Value::Decimal(bytes) => ("base64Binary", BASE64.encode(bytes)),
        Value::Bytes(bytes) => ("base64Binary", BASE64.encode(bytes)),
    })
}

/// As XML schema writes it.
fn number(value: f64, finite: String) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        value if value.is_infinite() => if value > 0.0 { "INF" } else { "-INF" }.to_owned(),
        _ => finite,
    }
}

pub(super) fn read(pairs: Option<Element<'_, '_>>) -> Result<(Properties, WrittenValues), Failure> {
    let (mut properties, mut written) = (Properties::new(), WrittenValues::new());
    let Some(pairs) = pairs else { return Ok((properties, written)) };
    for pair in elements(pairs.0).filter(|pair| pair.name() == PAIR) {
        let key = element(pair.0, "Key").and_then(Element::some_text);
        let key = key.ok_or_else(|| Failure::bad(format!("a {PAIR} has no Key")))?;
        let value = element(pair.0, "Value")
            .ok_or_else(|| Failure::bad(format!("the Value of '{}' is missing", Excerpt(&key))))?;
        let (value, as_written) = read_value(value)?;
        written.extend(as_written.map(|as_written| (key.clone(), as_written)));
        if properties.insert(key.clone(), value).is_some() {
            return Err(Failure::bad(format!(
                "'{}' is given twice in {}",
                Excerpt(&key),
                pairs.name()
            )));
        }
    }
    Ok((properties, written))
}

/// The value, and how it was written, where that is not how it would be shown.
fn read_value(value: Element<'_, '_>) -> Result<(Value, Option<WrittenValue>), Failure> {
    if value.is_nil() {
        return Ok((Value::Null, None));
    }
    let kind = value.kind().unwrap_or("string");
    let read = parse(value, kind)?;
    let is_text = matches!(read, Value::String(_) | Value::Char(_));
    let text = if is_text { value.text() } else { value.text().trim() };
    let is_shown = shown(&read).is_some_and(|shown| (shown.0, shown.1.as_str()) == (kind, text));
    if !is_shown && !is_text && text.chars().count() > WRITTEN_CHARS_MAX {
        return Err(value.wrong(&format!("at most {WRITTEN_CHARS_MAX} characters of type {kind}")));
    }
    let written = || WrittenValue { kind: kind.to_owned(), text: text.to_owned() };
    Ok((read, (!is_shown).then(written)))
}

fn parse(value: Element<'_, '_>, kind: &str) -> Result<Value, Failure> {
    let text = value.text();
    let word = text.trim();
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
        "dateTime" => instant::parse_ms(word).map(Value::DateTime),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// RULE-39: every type, in every spelling, comes back as it was sent.
    #[test]
    fn rule_39_atom_21_values_come_back_as_they_were_sent() {
        use super::super::{description, document, parse as parse_document};
        for (kind, text) in [
            ("int", "5"),
            ("int", "+05"),
            ("long", "5"),
            ("long", "5000000000"),
            ("short", "-5"),
            ("byte", "-5"),
            ("unsignedByte", "255"),
            ("unsignedShort", "5"),
            ("unsignedInt", "5"),
            ("unsignedLong", "18446744073709551615"),
            ("integer", "5"),
            ("float", "1.5"),
            ("double", "5"),
            ("double", "1E+20"),
            ("double", "INF"),
            ("decimal", "1.50"),
            ("boolean", "true"),
            ("boolean", "1"),
            ("string", " a "),
            ("anyURI", "http://x/"),
            ("char", "x"),
            ("guid", "7618AD3C-5484-4BE4-A12F-F8B1EE52B570"),
            ("base64Binary", "AQI="),
            ("dateTime", "2026-01-02T03:04:05"),
            ("dateTime", "2026-01-02T03:04:05Z"),
            ("dateTime", "2026-01-02T03:04:05.1234567Z"),
            ("dateTime", "2026-01-02T03:04:05+00:00"),
            ("dateTime", "2026-01-02T03:04:05.10+01:00"),
            ("dateTime", "0001-01-01T00:00:00"),
            ("dateTime", "9999-12-31T23:59:59.9999999Z"),
            ("duration", "PT1H"),
            ("duration", "PT26H"),
            ("duration", "P1DT2H"),
            ("duration", "-PT0.0000001S"),
            ("duration", "P10675199DT2H48M5.4775807S"),
        ] {
            let value =
                format!(r#"<Value i:type="d6p1:{kind}" xmlns:d6p1="{SCHEMA}">{text}</Value>"#);
            let body = format!(
                r#"<RuleDescription xmlns="{}" xmlns:i="{}"><Parameters><{PAIR}><Key>k</Key>{value}</{PAIR}></Parameters></RuleDescription>"#,
                document::SERVICE_BUS,
                document::INSTANCE
            );
            let parsed = parse_document(&body).expect("XML");
            let node = description::description(&parsed).expect("a description");
            let (values, written) = read(element(node, "Parameters")).expect(text);
            let document =
                document::alone(|xml| write(&mut Elements(xml), "Parameters", &values, &written));
            let document = String::from_utf8(document.expect("memory")).expect("UTF-8");
            assert!(document.contains(&value), "{value} is not in {document}");
        }
    }

    #[test]
    fn rule_29_atom_21_values_of_other_clients_have_the_types_they_have() {
        let text = |text: &str| Value::String(text.to_owned());
        for (value, kind, written) in [
            (Value::Long(5), "long", "5"),
            (Value::ULong(u64::MAX), "unsignedLong", "18446744073709551615"),
            (Value::Byte(7), "unsignedByte", "7"),
            (Value::SByte(-7), "byte", "-7"),
            (Value::Short(-7), "short", "-7"),
            (Value::Float(1.1), "float", "1.1"),
            (Value::Double(1.5), "double", "1.5"),
            (Value::Double(f64::INFINITY), "double", "INF"),
            (text(" a "), "string", " a "),
            (Value::Bool(true), "boolean", "true"),
            (Value::DateTime(0), "dateTime", "1970-01-01T00:00:00Z"),
            (Value::DateTime(i64::MAX), "dateTime", "9999-12-31T23:59:59.9999999Z"),
            (Value::DateTimeOffset(UNIX_EPOCH_TICKS), "dateTime", "1970-01-01T00:00:00Z"),
            (Value::TimeSpan(-1), "duration", "-PT0.0000001S"),
            (Value::Bytes(vec![1, 2]), "base64Binary", "AQI="),
        ] {
            assert_eq!(shown(&value), Some((kind, written.to_owned())), "{value:?}");
        }
        assert_eq!(shown(&Value::Null), None);
    }
}
