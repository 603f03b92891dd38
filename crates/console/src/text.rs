//! How numbers, instants, spans and bytes are written for people, and read of them.

use std::fmt::Write as _;

/// With thin groups of three, as in 12,345.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if number < 1024 {
        return format!("{number} bytes");
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// In UTC.
pub(crate) fn instant(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    match at {
        None => format!("{ms} ms"),
        Some(at) => at.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
    }
}

/// Units of spans, the largest first, in milliseconds.
const SPANS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

pub(crate) fn span(ms: u64) -> String {
    if ms == u64::MAX {
        return "never".to_owned();
    }
    let (mut left, mut text) = (ms, String::new());
    for (unit, size) in SPANS {
        if left >= size {
            let _ = write!(text, "{}{unit} ", left / size);
            left %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text.trim_end().to_owned() }
}

/// A span as [`span`] writes it, in milliseconds.
pub(crate) fn parse_span(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is no duration; write it as in 90s, 5m, 1h 30m or 7d, or never");
    let text = text.trim();
    if text == "never" {
        return Ok(u64::MAX);
    }
    let (mut sum, mut rest) = (0u64, text);
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|char: char| !char.is_ascii_lowercase()).unwrap_or(rest.len());
        let (_, size) =
            SPANS.into_iter().find(|(unit, _)| *unit == &rest[..letters]).ok_or_else(wrong)?;
        sum = number.checked_mul(size).and_then(|part| sum.checked_add(part)).ok_or_else(wrong)?;
        rest = rest[letters..].trim_start();
    }
    if text.is_empty() { Err(wrong()) } else { Ok(sum) }
}

/// Bytes with their places and what is printable of them, sixteen in a line.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, part) in bytes.chunks(16).enumerate() {
        let _ = write!(text, "{:08x} ", line * 16);
        for at in 0..16 {
            let _ = match part.get(at) {
                Some(byte) => write!(text, " {byte:02x}"),
                None => write!(text, "   "),
            };
        }
        text.push_str("  ");
        let shown = |byte: &u8| if (0x20..0x7f).contains(byte) { *byte as char } else { '.' };
        text.extend(part.iter().map(shown));
        text.push('\n');
    }
    text
}

/// JSON with a line for each value, and nothing else changed: neither the order of names nor how numbers are
/// written. `None`: it is no JSON.
pub(crate) fn json(text: &str) -> Option<String> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let (mut out, mut depth, mut in_string, mut escaped) = (String::new(), 0usize, false, false);
    let mut chars = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(char) = chars.next() {
        if in_string {
            out.push(char);
            in_string = escaped || char != '"';
            escaped = char == '\\' && !escaped;
            continue;
        }
        match char {
            '"' => {
                in_string = true;
                out.push(char);
            }
            '{' | '[' => {
                out.push(char);
                while chars.peek().is_some_and(char::is_ascii_whitespace) {
                    chars.next();
                }
                match chars.peek() {
                    Some('}' | ']') => out.extend(chars.next()),
                    _ => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(char);
            }
            ',' => {
                out.push(char);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            char if char.is_ascii_whitespace() => {}
            char => out.push(char),
        }
    }
    Some(out)
}

/// As much of a text as fits, at the end of a character.
pub(crate) fn head(text: &str, bytes_max: usize) -> &str {
    let fits = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=bytes_max.min(text.len())).rev().find(fits).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_they_are_written() {
        for (ms, text) in
            [(0, "0s"), (90_000, "1m 30s"), (86_400_000, "1d"), (1, "1ms"), (u64::MAX, "never")]
        {
            assert_eq!(span(ms), text);
            assert_eq!(parse_span(text), Ok(ms), "{text}");
        }
        assert_eq!(parse_span("1h30m"), Ok(5_400_000));
        for wrong in ["", "5", "m", "5 parsecs", "-1s", "99999999999999999999d", "é"] {
            assert!(parse_span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn json_keeps_order_and_numbers() {
        let shown = json(r#"{"b":1.10,"a":[{},[],"x:{\"\\"],"n":99999999999999999999}"#);
        let expected = "{\n  \"b\": 1.10,\n  \"a\": [\n    {},\n    [],\n    \"x:{\\\"\\\\\"\n  ],\n  \
                        \"n\": 99999999999999999999\n}";
        assert_eq!(shown.as_deref(), Some(expected));
        assert_eq!(json("{"), None);
    }

    #[test]
    fn bytes_and_counts_are_written_for_people() {
        assert_eq!((count(7), count(1_234_567)), ("7".to_owned(), "1,234,567".to_owned()));
        assert_eq!((bytes(1023), bytes(1536)), ("1023 bytes".to_owned(), "1.5 KiB".to_owned()));
        assert_eq!(hex(b"<a>\n"), format!("00000000  3c 61 3e 0a{}  <a>.\n", "   ".repeat(12)));
    }
}
