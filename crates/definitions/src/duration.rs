//! Durations, as "90s", "1h 30m" or ISO 8601 ("PT1M").

use std::time::Duration;

/// "Never", in milliseconds on the wire.
pub const NEVER_MS: u64 = u64::MAX;
/// What is longer is never: other clients write it as the largest signed 64-bit count of 100 ns, which
/// has a few hours more, or as a longest of their own.
const NEVER_FROM_MS: u64 = 10_675_198 * 24 * 3600 * 1000;

/// A duration in milliseconds; "never" is the largest value.
pub fn parse_ms(text: &str) -> Result<u64, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("never") {
        return Ok(NEVER_MS);
    }
    let duration = match text.chars().next() {
        Some('P' | 'p') => iso_8601(text),
        Some('0'..='9') => match text.parse::<f64>() {
            Ok(_) => return Err(format!("'{text}' has no unit; write {text}s or {text}ms")),
            Err(_) => humantime::parse_duration(text).ok(),
        },
        _ => None,
    };
    let duration = duration
        .ok_or_else(|| format!("'{text}' is no duration; write one like 90s, 1h 30m or PT1M"))?;
    // More than nothing stays so (ATOM-8).
    match u64::try_from(duration.as_millis().max(u128::from(!duration.is_zero()))) {
        Ok(ms) if ms < NEVER_FROM_MS => Ok(ms),
        _ => Ok(NEVER_MS),
    }
}

/// A duration that ends.
pub fn parse(text: &str) -> Result<Duration, String> {
    match parse_ms(text)? {
        NEVER_MS => Err(format!("'{text}' does not end; write a duration like 90s")),
        ms => Ok(Duration::from_millis(ms)),
    }
}

/// `from..to`, or one duration for both.
pub fn parse_range(text: &str) -> Result<(Duration, Duration), String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let (from, to) = (parse(from)?, parse(to)?);
    match from <= to {
        true => Ok((from, to)),
        false => Err(format!("'{text}' ends before it begins; write it like 5s..25s")),
    }
}

/// As people read it.
pub fn show_ms(ms: u64) -> String {
    match ms {
        NEVER_MS => "never".to_owned(),
        ms => humantime::format_duration(Duration::from_millis(ms)).to_string(),
    }
}

/// As .NET writes a span in XML: `PT1M30.5S`; never is its longest.
pub fn show_iso_8601_ms(ms: u64) -> String {
    if ms == NEVER_MS {
        return "P10675199DT2H48M5.4775807S".to_owned();
    }
    let (seconds, fraction) = (ms / 1000, ms % 1000);
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    let mut text = "P".to_owned();
    if days > 0 {
        text += &format!("{days}D");
    }
    if clock > 0 || fraction > 0 || days == 0 {
        text.push('T');
    }
    for (many, unit) in [(clock / 3600, 'H'), (clock / 60 % 60, 'M')] {
        if many > 0 {
            text += &format!("{many}{unit}");
        }
    }
    match (clock % 60, fraction) {
        (0, 0) if days == 0 && clock == 0 => text + "0S",
        (0, 0) => text,
        (seconds, 0) => format!("{text}{seconds}S"),
        (seconds, fraction) => {
            let fraction = format!("{fraction:03}");
            format!("{text}{seconds}.{}S", fraction.trim_end_matches('0'))
        }
    }
}

/// As people read it at a glance: its largest unit, and the next.
pub fn show_about_ms(ms: u64) -> String {
    let whole = show_ms(ms / 1000 * 1000);
    whole.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// A duration with a sign, in milliseconds: "+1y" or "-500ms".
pub fn parse_offset_ms(text: &str) -> Result<i64, String> {
    let (sign, rest) = match text.split_at_checked(1) {
        Some(("-", rest)) => (-1, rest),
        Some(("+", rest)) => (1, rest),
        _ => (1, text),
    };
    let ms = i64::try_from(parse(rest)?.as_millis()).ok();
    ms.map(|ms| sign * ms).ok_or_else(|| format!("'{text}' is longer than can be reckoned"))
}

/// As people read it, with a sign; to the second where it is long.
pub fn show_offset_ms(ms: i64) -> String {
    let length = match ms.unsigned_abs() {
        long @ 10_000.. => long.saturating_add(500) / 1000 * 1000,
        short => short,
    };
    format!("{}{}", if ms < 0 { '-' } else { '+' }, show_ms(length))
}

/// `PnYnMnWnDTnHnMnS`, the last part with a fraction. As .NET has it, a month has 30 days and a year
/// 365.
fn iso_8601(text: &str) -> Option<Duration> {
    let text = text.to_ascii_uppercase();
    let rest = text.strip_prefix('P')?;
    let (days, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((days, time)) => (days, time),
        None => (rest, ""),
    };
    if days.is_empty() && time.is_empty() {
        return None;
    }
    let seconds =
        parts(days, &[('Y', 31_536_000.0), ('M', 2_592_000.0), ('W', 604_800.0), ('D', 86_400.0)])?
            + parts(time, &[('H', 3600.0), ('M', 60.0), ('S', 1.0)])?;
    // To the microsecond: fractions of it are an artefact of the sum.
    Duration::try_from_secs_f64((seconds * 1e6).round() / 1e6).ok()
}

/// Numbers each followed by a unit, every unit at most once and in this order.
fn parts(text: &str, units: &[(char, f64)]) -> Option<f64> {
    let mut rest = text;
    let mut seconds = 0.0;
    for (unit, worth) in units {
        let Some((number, after)) = rest.split_once(*unit) else { continue };
        let digits = number.chars().all(|c| c.is_ascii_digit() || c == '.');
        let number: f64 = number.parse().ok().filter(|_| digits)?;
        seconds += number * worth;
        rest = after;
    }
    rest.is_empty().then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_has_two_units() {
        const DAY_MS: u64 = 86_400_000;
        for (ms, shown) in [
            (0, "0s"),
            (999, "0s"),
            (61_500, "1m 1s"),
            (3 * DAY_MS + 7_384_000, "3days 2h"),
            (3 * DAY_MS, "3days"),
        ] {
            assert_eq!(show_about_ms(ms), shown, "{ms}");
        }
    }

    #[test]
    fn durations_are_read_in_both_spellings() {
        for (text, ms) in [
            ("90s", 90_000),
            ("1h 30m", 5_400_000),
            ("250ms", 250),
            ("14days", 1_209_600_000),
            ("PT1M", 60_000),
            ("pt1m", 60_000),
            ("P14D", 1_209_600_000),
            ("P1W", 604_800_000),
            ("P1DT2H3M4.5S", 93_784_500),
            ("PT0.001S", 1),
            ("PT0.0001S", 1),
            ("1us", 1),
            ("0s", 0),
            ("never", NEVER_MS),
            ("P10675199DT2H48M5.4775807S", NEVER_MS),
            ("P10675199DT2H48M5.477539S", NEVER_MS),
            ("P999999999DT23H59M59.999999S", NEVER_MS),
            ("P1M", 30 * 86_400_000),
            ("P1Y2M", 425 * 86_400_000),
        ] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_told_so() {
        for (text, told) in [
            ("90", "'90' has no unit; write 90s or 90ms"),
            ("soon", "'soon' is no duration; write one like 90s, 1h 30m or PT1M"),
            ("", "'' is no duration; write one like 90s, 1h 30m or PT1M"),
            ("-5s", "'-5s' is no duration; write one like 90s, 1h 30m or PT1M"),
            ("P", "'P' is no duration; write one like 90s, 1h 30m or PT1M"),
            ("PT", "'PT' is no duration; write one like 90s, 1h 30m or PT1M"),
            ("P1D1M", "'P1D1M' is no duration; write one like 90s, 1h 30m or PT1M"),
            ("PT1M1H", "'PT1M1H' is no duration; write one like 90s, 1h 30m or PT1M"),
        ] {
            assert_eq!(parse_ms(text), Err(told.to_owned()), "{text}");
        }
        assert!(parse("never").is_err());
    }

    #[test]
    fn ranges_are_read() {
        let seconds = Duration::from_secs;
        assert_eq!(parse_range("5s..25s"), Ok((seconds(5), seconds(25))));
        assert_eq!(parse_range("1m"), Ok((seconds(60), seconds(60))));
        assert!(parse_range("25s..5s").is_err());
    }

    #[test]
    fn durations_are_shown_as_they_are_typed() {
        assert_eq!(show_ms(90_000), "1m 30s");
        assert_eq!(show_ms(NEVER_MS), "never");
    }

    #[test]
    fn a_span_is_written_as_it_is_read() {
        for (ms, text) in [
            (0, "PT0S"),
            (1, "PT0.001S"),
            (60_000, "PT1M"),
            (90_500, "PT1M30.5S"),
            (86_400_000, "P1D"),
            (1_209_600_000, "P14D"),
            (93_784_000, "P1DT2H3M4S"),
            (NEVER_MS, "P10675199DT2H48M5.4775807S"),
        ] {
            assert_eq!(show_iso_8601_ms(ms), text);
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn an_offset_has_a_sign() {
        for (text, ms, shown) in [
            ("+1y", 31_557_600_000, "+1year"),
            ("-90s", -90_000, "-1m 30s"),
            ("2ms", 2, "+2ms"),
            ("0s", 0, "+0s"),
        ] {
            assert_eq!(parse_offset_ms(text), Ok(ms), "{text}");
            assert_eq!(show_offset_ms(ms), shown, "{text}");
        }
        assert_eq!(show_offset_ms(-31_557_599_999), "-1year");
        for text in ["", "-", "--1s", "+", "é1s", "never"] {
            assert!(parse_offset_ms(text).is_err(), "{text}");
        }
    }
}
