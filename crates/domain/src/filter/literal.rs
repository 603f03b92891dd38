//! Spans and instants that a rule writes as texts: a system property that is one takes them (RULE-19).

const TICKS_PER_SECOND: i128 = 10_000_000;
const DAY_SECONDS: i128 = 24 * 3600;

/// A span as .NET writes it, `d.hh:mm:ss.fffffff`, `hh:mm`, or as ISO 8601, `P1DT2H3M4.5S`; ticks of
/// 100 ns. One too long for them is the longest.
pub(super) fn span_ticks(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1, unsigned),
        None => (1, text),
    };
    let ticks = match unsigned.strip_prefix('P') {
        Some(iso) => iso_ticks(iso)?,
        None => clock_ticks(unsigned)?,
    };
    let longest = if sign < 0 { i64::MIN } else { i64::MAX };
    Some(i64::try_from(sign * ticks).unwrap_or(longest))
}

/// An instant as ISO 8601 writes it, `2030-01-02T03:04:05.678Z`; a day may stand alone, a blank may stand
/// for the T. Without a zone it is UTC. Milliseconds since the Unix epoch.
pub(super) fn instant_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    let (day, rest) = text.split_at_checked(10)?;
    let mut parts = day.split('-');
    let (year, month, day) =
        (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    if parts.next().is_some() || !text.is_ascii() {
        return None;
    }
    let days = days(year, month, day)?;
    let ticks = match rest.strip_prefix(['T', 't', ' ']) {
        None if rest.is_empty() => 0,
        None => return None,
        Some(time) => {
            let (time, zone) = zone(time)?;
            let ticks =
                clock_ticks(time).filter(|ticks| *ticks < DAY_SECONDS * TICKS_PER_SECOND)?;
            ticks - zone * TICKS_PER_SECOND
        }
    };
    let ticks = days * DAY_SECONDS * TICKS_PER_SECOND + ticks;
    i64::try_from(ticks.div_euclid(TICKS_PER_SECOND / 1000)).ok()
}

/// `[d.]hh:mm[:ss[.fffffff]]`, or days alone.
fn clock_ticks(text: &str) -> Option<i128> {
    let Some((head, rest)) = text.split_once(':') else {
        return Some(number(text)? * DAY_SECONDS * TICKS_PER_SECOND);
    };
    let (days, hours) = head.split_once('.').unwrap_or(("0", head));
    let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let second_ticks = fractional(seconds)?;
    let fits = hours < 24 && minutes < 60 && second_ticks < 60 * TICKS_PER_SECOND;
    let seconds = number(days)? * DAY_SECONDS + hours * 3600 + minutes * 60;
    fits.then_some(seconds * TICKS_PER_SECOND + second_ticks)
}

/// What follows the P. A month has 30 days and a year 365, as .NET reads them.
fn iso_ticks(text: &str) -> Option<i128> {
    let (date, time) = match text.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None if text.is_empty() => return None,
        None => (text, ""),
    };
    let mut ticks = 0;
    let mut left = date;
    for (unit, days) in [('Y', 365), ('M', 30), ('D', 1)] {
        if let Some((count, rest)) = left.split_once(unit) {
            ticks += number(count)? * days * DAY_SECONDS * TICKS_PER_SECOND;
            left = rest;
        }
    }
    if !left.is_empty() {
        return None;
    }
    left = time;
    for (unit, seconds) in [('H', 3600), ('M', 60)] {
        if let Some((count, rest)) = left.split_once(unit) {
            ticks += number(count)? * seconds * TICKS_PER_SECOND;
            left = rest;
        }
    }
    match left {
        "" => Some(ticks),
        seconds => Some(ticks + fractional(seconds.strip_suffix('S')?)?),
    }
}

/// What stands before the zone, and the zone in seconds.
fn zone(time: &str) -> Option<(&str, i128)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (time, zone) = time.split_at(at);
    let (hours, minutes) = zone[1..].split_once(':')?;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let seconds = (hours < 15 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
    Some((time, if zone.starts_with('-') { -seconds } else { seconds }))
}

/// Seconds with a fraction, in ticks; parts of a tick are cut off.
fn fractional(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    number(fraction)?;
    Some(number(whole)? * TICKS_PER_SECOND + number(&format!("{fraction:0<7.7}"))?)
}

/// Digits only, and so few that no product with a year overflows.
fn number(text: &str) -> Option<i128> {
    let is_number = (1..=18).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Days since the Unix epoch, in the proleptic Gregorian calendar, for a day that there is.
fn days(year: i128, month: i128, day: i128) -> Option<i128> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i128::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) || year == 0 {
        return None;
    }
    // Years begin in March here, so that the leap day is their last.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
            - 719_468,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_19_spans_are_read_as_dotnet_and_iso_8601_write_them() {
        const SECOND: i64 = 10_000_000;
        for (text, ticks) in [
            ("00:10:00", 600 * SECOND),
            ("0:10", 600 * SECOND),
            ("1.02:03:04.5", 93_784 * SECOND + SECOND / 2),
            ("00:00:00.0000001", 1),
            ("7", 7 * 86_400 * SECOND),
            ("-00:00:01", -SECOND),
            ("10675199.02:48:05.4775807", i64::MAX),
            ("99999999.00:00:00", i64::MAX),
            ("PT10M", 600 * SECOND),
            ("P1DT2H3M4.5S", 93_784 * SECOND + SECOND / 2),
            ("P1Y1M", 395 * 86_400 * SECOND),
            ("P10675199DT2H48M5.4775807S", i64::MAX),
        ] {
            assert_eq!(span_ticks(text), Some(ticks), "{text}");
        }
        for text in [
            "", "soon", "24:00:00", "00:60:00", "00:00:60", "1:2:3:4", "1.5", "PT", "P", "P1",
            "PT1D", "00:00:0x", "+5", "PT1.S", "1:", ":1", "--1",
        ] {
            assert_eq!(span_ticks(text), None, "{text}");
        }
    }

    #[test]
    fn rule_19_instants_are_read_as_iso_8601_writes_them() {
        for (text, ms) in [
            ("1970-01-01", 0),
            ("1970-01-01T00:00:01Z", 1000),
            ("1970-01-01 00:01", 60_000),
            ("1970-01-01T01:00:00.5+01:00", 500),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2024-02-29T12:34:56.7891234Z", 1_709_210_096_789),
            ("2000-03-01", 951_868_800_000),
            ("9999-12-31T23:59:59.9999999Z", 253_402_300_799_999),
            ("0001-01-01T00:00:00", -62_135_596_800_000),
        ] {
            assert_eq!(instant_ms(text), Some(ms), "{text}");
        }
        for text in [
            "",
            "tomorrow",
            "2030-02-29",
            "2030-13-01",
            "2030-00-01",
            "2030-01-32",
            "2030-1-1",
            "2030-01-01T24:00:00",
            "2030-01-01T00:00:00+99:00",
            "2030-01-01X00:00",
            "2030-01-01T7",
            "0000-01-01",
            "2030-01-0ü",
        ] {
            assert_eq!(instant_ms(text), None, "{text}");
        }
    }
}
