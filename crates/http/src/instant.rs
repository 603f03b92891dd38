//! Instants as ISO 8601 writes them, over all years from 1 to 9999: .NET's least and its greatest are
//! among them, which time zones would move out of most calendars.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

/// The Unix epoch.
const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
/// What is shown of all that never comes (TTL-5).
const NEVER: &str = "9999-12-31T23:59:59.9999999Z";

/// Milliseconds since the Unix epoch; parts of one are cut off. Without a zone it is UTC.
pub(crate) fn parse_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    let (civil, zone_s) = split_zone(text)?;
    let civil: DateTime = civil.parse().ok()?;
    let since = civil.duration_since(EPOCH).checked_sub(SignedDuration::from_secs(zone_s))?;
    i64::try_from(since.as_nanos().div_euclid(1_000_000)).ok()
}

/// In UTC, as short as it can be.
pub(crate) fn show_ms(ms: i64) -> String {
    match EPOCH.checked_add(SignedDuration::from_millis(ms)) {
        Ok(civil) if civil.year() >= 1 => format!("{civil}Z"),
        Ok(_) | Err(_) if ms < 0 => "0001-01-01T00:00:00Z".to_owned(),
        Ok(_) | Err(_) => NEVER.to_owned(),
    }
}

/// What stands before the zone, and the zone in seconds.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    if let Some(civil) = text.strip_suffix(['Z', 'z']) {
        return Some((civil, 0));
    }
    let time = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let Some(at) = text[time..].rfind(['+', '-']).map(|at| time + at) else {
        return Some((text, 0));
    };
    let (civil, zone) = text.split_at(at);
    let (hours, minutes) = zone[1..].split_once(':')?;
    let is_number = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_zone = is_number(hours) && is_number(minutes);
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = (is_zone && hours < 15 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
    Some((civil, if zone.starts_with('-') { -seconds } else { seconds }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atom_9_instants_are_utc_unless_they_say_otherwise() {
        for (text, ms, shown) in [
            ("1970-01-01T00:00:01Z", 1000, "1970-01-01T00:00:01Z"),
            ("1970-01-01T01:00:00+01:00", 0, "1970-01-01T00:00:00Z"),
            ("1970-01-01T00:00:00.5", 500, "1970-01-01T00:00:00.5Z"),
            ("1969-12-31T23:59:59.9999999Z", -1, "1969-12-31T23:59:59.999Z"),
            ("2026-01-02T03:04:05.1234567Z", 1_767_323_045_123, "2026-01-02T03:04:05.123Z"),
            ("2030-01-01", 1_893_456_000_000, "2030-01-01T00:00:00Z"),
            // .NET's least and greatest, in whatever zone.
            ("0001-01-01T00:00:00", -62_135_596_800_000, "0001-01-01T00:00:00Z"),
            ("0001-01-01T00:00:00+01:00", -62_135_600_400_000, "0001-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59.9999999Z", 253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            ("9999-12-31T23:59:59.9999999-08:00", 253_402_329_599_999, NEVER),
        ] {
            assert_eq!(parse_ms(text), Some(ms), "{text}");
            assert_eq!(show_ms(ms), shown, "{text}");
        }
        assert_eq!(
            (show_ms(i64::MAX).as_str(), show_ms(i64::MIN).as_str()),
            (NEVER, "0001-01-01T00:00:00Z")
        );
        for text in [
            "",
            "yesterday",
            "2030-02-30",
            "2030-01-01T00:00:00+1",
            "2030-01-01T00:00:00+99:00",
            "Z",
        ] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }
}
