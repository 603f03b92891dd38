//! Values as text: for people, and where `+` and SET make text of them.

use super::decimal::Decimal;
use crate::Value;

/// As a rule would write it where it can: texts in quotes, TRUE, NULL.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(value) => if *value { "TRUE" } else { "FALSE" }.to_owned(),
        Value::Double(value) => format!("{value:?}"),
        Value::Float(value) => format!("{value:?}"),
        Value::DateTime(ms) => instant(i128::from(*ms)),
        Value::DateTimeOffset(ticks) => instant(offset_ms(*ticks)),
        Value::TimeSpan(ticks) => format!("{} s", *ticks as f64 / 1e7),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Value::Char(_) | Value::String(_) | Value::Uri(_) => {
            format!("'{}'", to_text(value).unwrap_or_default().replace('\'', "''"))
        }
        _ => to_text(value).unwrap_or_default(),
    }
}

/// The same with its type, and cut where it is long: for error messages and explanations.
pub(super) fn describe(value: &Value) -> String {
    const CHARS_MAX: usize = 64;
    let shown = show(value);
    if *value == Value::Null {
        return shown;
    }
    match shown.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}… ({})", &shown[..end], type_name(value)),
        None => format!("{shown} ({})", type_name(value)),
    }
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "Null",
        Value::Bool(_) => "Bool",
        Value::Byte(_) => "Byte",
        Value::SByte(_) => "SByte",
        Value::Short(_) => "Short",
        Value::UShort(_) => "UShort",
        Value::Int(_) => "Int",
        Value::UInt(_) => "UInt",
        Value::Long(_) => "Long",
        Value::ULong(_) => "ULong",
        Value::Float(_) => "Float",
        Value::Double(_) => "Double",
        Value::Decimal(_) => "Decimal",
        Value::Char(_) => "Char",
        Value::String(_) => "String",
        Value::Uri(_) => "Uri",
        Value::Uuid(_) => "Uuid",
        Value::DateTime(_) => "DateTime",
        Value::DateTimeOffset(_) => "DateTimeOffset",
        Value::TimeSpan(_) => "TimeSpan",
        Value::Bytes(_) => "Bytes",
    }
}

/// The value as text, as .NET writes it. Nothing where that depends on more than the value: instants
/// and spans have as many spellings as cultures, bytes have none.
pub(super) fn to_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
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
        Value::Decimal(bytes) => match Decimal::from_bytes(bytes) {
            Some(decimal) => decimal.to_text(),
            None => "NaN".to_owned(),
        },
        Value::Char(value) => value.to_string(),
        Value::String(text) | Value::Uri(text) => text.clone(),
        Value::Uuid(bytes) => uuid(bytes),
        Value::Null
        | Value::DateTime(_)
        | Value::DateTimeOffset(_)
        | Value::TimeSpan(_)
        | Value::Bytes(_) => return None,
    })
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*bytes));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Ticks of 100 ns from the year 1, as .NET counts them, to the Unix epoch.
pub(super) const EPOCH_TICKS: i128 = 621_355_968_000_000_000;
pub(super) const TICKS_PER_MS: i128 = 10_000;

fn offset_ms(ticks: i64) -> i128 {
    (i128::from(ticks) - EPOCH_TICKS).div_euclid(TICKS_PER_MS)
}

/// ISO 8601, UTC, in the proleptic Gregorian calendar.
fn instant(ms: i128) -> String {
    const DAY_MS: i128 = 24 * 3600 * 1000;
    let (days, ms) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    // Years begin in March here, so that the leap day is their last: 146,097 days are 400 years.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + i128::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    let ms = ms % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_shown_as_people_read_them() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_709_210_096_789, "2024-02-29T12:34:56.789Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(show(&Value::DateTime(ms)), expected);
        }
        assert_eq!(show(&Value::DateTimeOffset(EPOCH_TICKS as i64)), "1970-01-01T00:00:00.000Z");
    }
}
