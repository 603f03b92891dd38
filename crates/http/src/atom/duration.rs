//! Durations as ISO 8601 writes them and .NET reads them: a month has 30 days, a year 365.

use domain::Span;

/// "Never" comes back rounded by clients that count in floating point, and some write their own
/// longest: so much is meant as it.
const NEVER_DAYS: i128 = 10_675_198;

/// Of 100 ns, as .NET counts.
const MILLISECOND: i128 = 10_000;
const SECOND: i128 = 1000 * MILLISECOND;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;
const DAY: i128 = 24 * HOUR;
/// Digits of a second's fraction that a tick can show.
const FRACTION_DIGITS: usize = 7;

/// Reads `P1DT2H3M4.5S`; parts of a millisecond are cut off, but more than nothing stays so. `None` for
/// what is no such duration, negative ones included.
pub(super) fn parse(text: &str) -> Option<Span> {
    match unsigned_ticks(text.trim())? {
        never if never >= NEVER_DAYS * DAY => Some(Span::MAX),
        1..MILLISECOND => Some(Span(1)),
        ticks => u64::try_from(ticks / MILLISECOND).ok().map(Span),
    }
}

/// Reads a duration of either sign in ticks of 100 ns; parts of a tick are cut off. One too long for
/// them is the longest.
pub(super) fn parse_ticks(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let ticks = sign * unsigned_ticks(rest)?;
    Some(i64::try_from(ticks).unwrap_or(if sign < 0 { i64::MIN } else { i64::MAX }))
}

fn unsigned_ticks(text: &str) -> Option<i128> {
    let rest = text.strip_prefix('P')?;
    let (days, mut time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((days, time)) => (days, time),
        None if rest.is_empty() => return None,
        None => (rest, ""),
    };
    let (mut ticks, mut date) = (0, days);
    for (unit, length) in [('Y', 365 * DAY), ('M', 30 * DAY), ('D', DAY)] {
        if let Some((count, rest)) = date.split_once(unit) {
            ticks += digits(count)? * length;
            date = rest;
        }
    }
    if !date.is_empty() {
        return None;
    }
    for (unit, length) in [('H', HOUR), ('M', MINUTE)] {
        if let Some((count, rest)) = time.split_once(unit) {
            ticks += digits(count)? * length;
            time = rest;
        }
    }
    if !time.is_empty() {
        let seconds = time.strip_suffix('S')?;
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
        let fraction = Some(fraction).filter(|fraction| is_digits(fraction))?;
        ticks += digits(whole)? * SECOND + digits(&format!("{fraction:0<7.7}"))?;
    }
    Some(ticks)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// At most 2⁶⁴: products with a day stay far below what an `i128` holds.
fn digits(text: &str) -> Option<i128> {
    text.parse::<u64>().ok().filter(|_| is_digits(text)).map(i128::from)
}

/// Writes it the shortest way. "Never" is 2⁶³−1 ticks.
pub(super) fn format(span: Span) -> String {
    match i128::from(span.0) * MILLISECOND {
        long if long >= NEVER_DAYS * DAY => format_ticks(i64::MAX),
        ticks => format_ticks(i64::try_from(ticks).unwrap_or(i64::MAX)),
    }
}

/// Writes ticks of 100 ns the shortest way.
pub(super) fn format_ticks(ticks: i64) -> String {
    use std::fmt::Write;
    let sign = if ticks < 0 { "-" } else { "" };
    let ticks = i128::from(ticks).abs();
    let mut text = format!("{sign}P");
    let mut time = String::new();
    // A string takes everything.
    if ticks >= DAY {
        let _ = write!(text, "{}D", ticks / DAY);
    }
    for (count, unit) in [(ticks % DAY / HOUR, 'H'), (ticks % HOUR / MINUTE, 'M')] {
        if count > 0 {
            let _ = write!(time, "{count}{unit}");
        }
    }
    let (seconds, fraction) = (ticks % MINUTE / SECOND, ticks % SECOND);
    if fraction > 0 {
        let fraction = format!("{fraction:0width$}", width = FRACTION_DIGITS);
        let _ = write!(time, "{seconds}.{}S", fraction.trim_end_matches('0'));
    } else if seconds > 0 || (ticks < DAY && time.is_empty()) {
        let _ = write!(time, "{seconds}S");
    }
    if !time.is_empty() {
        let _ = write!(text, "T{time}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: &str = "P10675199DT2H48M5.4775807S";
    const DAY_MS: u64 = 24 * 3600 * 1000;

    #[test]
    fn atom_8_durations_are_read_and_written() {
        for (text, ms, written) in [
            ("PT1M", 60_000, "PT1M"),
            ("P14D", 14 * DAY_MS, "P14D"),
            ("P1DT2H", 26 * 3_600_000, "P1DT2H"),
            ("PT0.5S", 500, "PT0.5S"),
            ("PT0.0005S", 1, "PT0.001S"),
            ("PT0.0000001S", 1, "PT0.001S"),
            ("PT1.0005S", 1000, "PT1S"),
            ("P1M", 30 * DAY_MS, "P30D"),
            ("P1Y", 365 * DAY_MS, "P365D"),
            ("P1Y2M3DT4H", 428 * DAY_MS + 4 * 3_600_000, "P428DT4H"),
            ("P29248Y", u64::MAX, NEVER),
            ("PT90S", 90_000, "PT1M30S"),
            ("PT5M1.25S", 301_250, "PT5M1.25S"),
            ("PT0S", 0, "PT0S"),
            (NEVER, u64::MAX, NEVER),
            // From Python, which counts in floating point; and its own longest.
            ("P10675199DT2H48M5.477539S", u64::MAX, NEVER),
            ("P999999999DT23H59M59.999999S", u64::MAX, NEVER),
            ("P10675198D", u64::MAX, NEVER),
        ] {
            assert_eq!(parse(text), Some(Span(ms)), "{text}");
            assert_eq!(format(Span(ms)), written, "{text}");
        }
        let wrong = [
            "",
            "P",
            "PT",
            "1M",
            "PT1",
            "P1M1Y",
            "P1D1M",
            "PT1Y",
            "P1W",
            "-PT1M",
            "PT-1M",
            "PT1.S",
            "PT.5S",
            "P1DT",
            "PT1S1M",
            "PT1e3S",
            "PT1M1M",
            "PT99999999999999999999S",
            "PT+5S",
            "P D",
        ];
        for text in wrong {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn rule_29_a_time_span_has_a_sign_and_ticks() {
        for (text, ticks) in [
            ("PT1H", 36_000_000_000),
            ("-PT0.0000001S", -1),
            ("PT1.2345678S", 12_345_678),
            ("-P1D", -864_000_000_000),
            (NEVER, i64::MAX),
        ] {
            assert_eq!(parse_ticks(text), Some(ticks), "{text}");
            assert_eq!(format_ticks(ticks), text);
        }
        assert_eq!(parse_ticks("-P999999999D"), Some(i64::MIN));
        assert_eq!(parse_ticks("--PT1S"), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_again(ms in 0..10_675_198 * DAY_MS, ticks: i64) {
            proptest::prop_assert_eq!(parse(&format(Span(ms))), Some(Span(ms)));
            proptest::prop_assert_eq!(parse_ticks(&format_ticks(ticks)), Some(ticks));
        }

        #[test]
        fn any_text_is_a_duration_or_none(text in "[PTDHMS0-9.+ -]{0,20}") {
            let _ = (parse(&text), parse_ticks(&text));
        }
    }
}
