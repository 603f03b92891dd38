//! User properties (MSG-4) as headers: each is one, save those that belong to HTTP itself. Texts are
//! in quotes, as JSON writes them; numbers, `true` and `false` stand as they are. HTTP does not tell
//! the case of a header's name, so names arrive in lower case.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::{Properties, Timestamp, Value};
use jiff::fmt::rfc2822::DateTimeParser;

use super::broker_properties::{ascii, instant};

/// Headers that are no properties.
const OF_HTTP: [&str; 38] = [
    "age",
    "allow",
    "authorization",
    "baggage",
    "brokerproperties",
    "cache-control",
    "connection",
    "cookie",
    "date",
    "dnt",
    "etag",
    "expect",
    "expires",
    "forwarded",
    "from",
    "host",
    "keep-alive",
    "last-modified",
    "link",
    "location",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "referer",
    "retry-after",
    "server",
    "servicebussupplementaryauthorization",
    "set-cookie",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
];
/// Whole families of them.
const FAMILIES: [&str; 9] = [
    "accept",
    "access-control-",
    "content-",
    "if-",
    "proxy-",
    "sec-",
    "www-",
    "x-forwarded-",
    "x-ms-",
];

fn is_property(name: &str) -> bool {
    OF_HTTP.binary_search(&name).is_err() && !FAMILIES.iter().any(|family| name.starts_with(family))
}

/// What is no text at all is passed over.
pub(super) fn read(headers: &HeaderMap) -> Properties {
    let properties = headers.iter().filter(|(name, _)| is_property(name.as_str()));
    let properties = properties.filter_map(|(name, value)| {
        let text = std::str::from_utf8(value.as_bytes()).ok()?;
        Some((name.as_str().to_owned(), value_of(text.trim())))
    });
    properties.collect()
}

fn value_of(text: &str) -> Value {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number_or_text => number(number_or_text),
        };
    };
    if let Ok(at) = DateTimeParser::new().parse_timestamp(inner) {
        return Value::DateTime(at.as_millisecond());
    }
    Value::String(serde_json::from_str(text).unwrap_or_else(|_| inner.to_owned()))
}

/// The narrowest of the types that hold it, or the text as it is.
pub(super) fn number(text: &str) -> Value {
    let finite = |text: &str| text.parse().ok().filter(|value: &f64| value.is_finite());
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    match (text.parse(), text.parse(), finite(text)) {
        _ if !is_number => Value::String(text.to_owned()),
        (Ok(value), _, _) => Value::Int(value),
        (_, Ok(value), _) => Value::Long(value),
        (_, _, Some(value)) => Value::Double(value),
        _ => Value::String(text.to_owned()),
    }
}

/// Properties whose names or values no header can hold are left out.
pub(super) fn write(properties: &Properties, headers: &mut HeaderMap) {
    for (name, value) in properties {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        if let Ok(value) = HeaderValue::from_str(&shown(value))
            && is_property(name.as_str())
        {
            headers.insert(name, value);
        }
    }
}

fn shown(value: &Value) -> String {
    let quoted = |text: &str| ascii(&serde_json::Value::from(text).to_string());
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Byte(value) => value.to_string(),
        Value::SByte(value) => value.to_string(),
        Value::Short(value) => value.to_string(),
        Value::UShort(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Long(value) => value.to_string(),
        Value::ULong(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::Char(value) => quoted(&value.to_string()),
        Value::String(value) | Value::Uri(value) => quoted(value),
        Value::Uuid(bytes) => quoted(&uuid::Uuid::from_bytes(*bytes).to_string()),
        Value::DateTime(ms) => quoted(&instant(Timestamp(u64::try_from(*ms).unwrap_or(0)))),
        // .NET's, as numbers of 100 ns: there is no text all clients read.
        Value::DateTimeOffset(ticks) | Value::TimeSpan(ticks) => ticks.to_string(),
        Value::Decimal(bytes) => quoted(&BASE64.encode(bytes)),
        Value::Bytes(bytes) => quoted(&BASE64.encode(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_4_rest_3_a_property_is_a_header() {
        for (text, value) in [
            ("\"High\"", Value::String("High".to_owned())),
            ("\"a \\\"b\\\" \\u00fc\"", Value::String("a \"b\" ü".to_owned())),
            ("\"a\\b\"", Value::String("a\u{8}".to_owned())),
            ("\"7\"", Value::String("7".to_owned())),
            ("High", Value::String("High".to_owned())),
            ("infinity", Value::String("infinity".to_owned())),
            ("7", Value::Int(7)),
            ("-5000000000", Value::Long(-5_000_000_000)),
            ("1.5", Value::Double(1.5)),
            ("1-2", Value::String("1-2".to_owned())),
            ("true", Value::Bool(true)),
            ("\"Sun, 06 Nov 1994 08:49:37 GMT\"", Value::DateTime(784_111_777_000)),
            ("\"", Value::String("\"".to_owned())),
        ] {
            assert_eq!(value_of(text), value, "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read_again() {
        for value in [
            Value::String("a\r\nb: \"c\" ü\u{1f41d}".to_owned()),
            Value::Int(-1),
            Value::Bool(false),
            Value::DateTime(784_111_777_000),
            Value::Double(1.5),
        ] {
            let mut headers = HeaderMap::new();
            write(&[("name".to_owned(), value.clone())].into(), &mut headers);
            assert_eq!(read(&headers)["name"], value);
        }
    }

    #[test]
    fn rest_3_headers_of_http_are_no_properties() {
        assert!(OF_HTTP.is_sorted());
        let mut headers = HeaderMap::new();
        for name in ["Content-Length", "host", "x-ms-retrypolicy", "Accept", "priority"] {
            let name: HeaderName = name.parse().unwrap();
            headers.insert(name, HeaderValue::from_static("1"));
        }
        assert_eq!(read(&headers).keys().collect::<Vec<_>>(), ["priority"]);
        let properties = ["content-length", "not a name", "Set-Cookie", "mine"]
            .map(|name| (name.to_owned(), Value::Int(1)));
        let mut headers = HeaderMap::new();
        write(&properties.into(), &mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["mine"]);
    }
}
