//! Durations as ISO 8601 writes them, as far as Service Bus does: days to seconds.

use domain::Span;

/// What clients write for "never": 2⁶³−1 ticks of 100 ns.
const NEVER: &str = "P10675199DT2H48M5.4775807S";
/// "Never" comes back rounded by clients that count in floating point: so much is meant as it.
const NEVER_DAYS: u64 = 10_675_198;

const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Reads `P1DT2H3M4.5S`; parts of a millisecond are cut off. `None` for what is no such duration,
/// negative ones included.
pub(super) fn parse(text: &str) -> Option<Span> {
    let rest = text.trim().strip_prefix('P')?;
    let (days, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((days, time)) => (days, time),
        None if rest.is_empty() => return None,
        None => (rest, ""),
    };
    let mut ms = 0u64;
    if !days.is_empty() {
        let days: u64 = digits(days.strip_suffix('D')?)?;
        if days >= NEVER_DAYS {
            return Some(Span::MAX);
        }
        ms = days * DAY_MS;
    }
    let mut time = time;
    for (unit, unit_ms) in [('H', HOUR_MS), ('M', MINUTE_MS)] {
        if let Some((count, rest)) = time.split_once(unit) {
            ms = ms.checked_add(digits(count)?.checked_mul(unit_ms)?)?;
            time = rest;
        }
    }
    if !time.is_empty() {
        let seconds = time.strip_suffix('S')?;
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
        let fraction_ms = digits(&format!("{:0<3.3}", fraction)).filter(|_| is_digits(fraction))?;
        ms = ms.checked_add(digits(whole)?.checked_mul(SECOND_MS)?)?.checked_add(fraction_ms)?;
    }
    Some(Span(ms))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| is_digits(text))
}

/// Writes it the shortest way.
pub(super) fn format(span: Span) -> String {
    use std::fmt::Write;
    let (days, ms) = (span.0 / DAY_MS, span.0 % DAY_MS);
    if span.is_max() || days >= NEVER_DAYS {
        return NEVER.to_owned();
    }
    let mut text = String::from("P");
    if days > 0 {
        let _ = write!(text, "{days}D"); // A string takes everything.
    }
    let mut time = String::new();
    for (count, unit) in [(ms / HOUR_MS, 'H'), (ms % HOUR_MS / MINUTE_MS, 'M')] {
        if count > 0 {
            let _ = write!(time, "{count}{unit}");
        }
    }
    let (seconds, fraction) = (ms % MINUTE_MS / SECOND_MS, ms % SECOND_MS);
    if fraction > 0 {
        let fraction = format!("{fraction:03}");
        let _ = write!(time, "{seconds}.{}S", fraction.trim_end_matches('0'));
    } else if seconds > 0 || (days == 0 && time.is_empty()) {
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

    #[test]
    fn durations_are_read_and_written() {
        for (text, ms, written) in [
            ("PT1M", 60_000, "PT1M"),
            ("P14D", 14 * DAY_MS, "P14D"),
            ("P1DT2H", 26 * HOUR_MS, "P1DT2H"),
            ("PT0.5S", 500, "PT0.5S"),
            ("PT0.0005S", 0, "PT0S"),
            ("PT90S", 90_000, "PT1M30S"),
            ("PT5M1.25S", 301_250, "PT5M1.25S"),
            ("PT0S", 0, "PT0S"),
            ("P10675199DT2H48M5.4775807S", u64::MAX, NEVER),
            ("P10675199DT2H48M5.477539S", u64::MAX, NEVER),
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
            "P1M",
            "P1Y",
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

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_again(ms in 0..NEVER_DAYS * DAY_MS) {
            proptest::prop_assert_eq!(parse(&format(Span(ms))), Some(Span(ms)));
        }

        #[test]
        fn any_text_is_a_duration_or_none(text in "[PTDHMS0-9.+ -]{0,20}") {
            let _ = parse(&text);
        }
    }
}
