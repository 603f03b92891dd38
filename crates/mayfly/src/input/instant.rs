//! Instants, as RFC 3339 ("2026-01-31T12:00:00Z") or so long from now, or ago ("10m").

use jiff::Timestamp;

use super::duration;

/// Its end is the greatest instant of .NET, and of no use but to say "never"; most calendars end
/// before, as some zone has another day.
const LAST_DAY: &str = "9999-12-31T";
const LAST_MS: u64 = 253_402_300_799_999;

/// An instant as typed. A duration is reckoned from the cluster's time, which an operator may have
/// moved; whether ahead or back is for the flag to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instant {
    /// Milliseconds since the Unix epoch.
    At(u64),
    /// Milliseconds away from now.
    Off(u64),
}

impl Instant {
    pub fn parse(text: &str) -> Result<Instant, String> {
        let text = text.trim();
        if let Ok(at) = text.parse::<Timestamp>() {
            let at_ms = u64::try_from(at.as_millisecond());
            return at_ms.map(Instant::At).map_err(|_| format!("'{text}' is before 1970"));
        }
        if text.starts_with(LAST_DAY) {
            return Ok(Instant::At(LAST_MS));
        }
        duration::parse_ms(text).map(Instant::Off).map_err(|_| {
            format!(
                "'{text}' is no time; write one like 2026-01-31T12:00:00Z, or a duration like 10m"
            )
        })
    }

    /// Milliseconds since the Unix epoch; a duration is so long from now.
    pub fn ahead(self, now_ms: u64) -> u64 {
        match self {
            Instant::At(at_ms) => at_ms,
            Instant::Off(by_ms) => now_ms.saturating_add(by_ms),
        }
    }

    /// Milliseconds since the Unix epoch; a duration is so long ago.
    pub fn ago(self, now_ms: u64) -> u64 {
        match self {
            Instant::At(at_ms) => at_ms,
            Instant::Off(by_ms) => now_ms.saturating_sub(by_ms),
        }
    }
}

/// RFC 3339 in UTC, to the millisecond; the end of time where it cannot be written.
pub fn show_ms(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    match at {
        Some(at) => format!("{at:.3}"),
        None => "9999-12-31T23:59:59.999Z".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_in_both_spellings() {
        for (text, instant) in [
            ("1970-01-01T00:00:01.5Z", Instant::At(1500)),
            ("1970-01-01T01:00:00+01:00", Instant::At(0)),
            ("9999-12-31T23:59:59.9999999Z", Instant::At(LAST_MS)),
            ("10m", Instant::Off(600_000)),
            ("PT10M", Instant::Off(600_000)),
        ] {
            assert_eq!(Instant::parse(text), Ok(instant), "{text}");
        }
        for text in ["tomorrow", "12:00", "1969-12-31T23:59:59Z", "90"] {
            assert!(Instant::parse(text).is_err(), "{text}");
        }
        let (at, off) = (Instant::At(70), Instant::Off(5));
        assert_eq!([at.ahead(100), at.ago(100)], [70, 70]);
        assert_eq!([off.ahead(100), off.ago(100), off.ago(3)], [105, 95, 0]);
    }

    #[test]
    fn instants_are_shown_in_utc() {
        assert_eq!(show_ms(1_517_363_399_650), "2018-01-31T01:49:59.650Z");
        assert_eq!(show_ms(u64::MAX), "9999-12-31T23:59:59.999Z");
    }
}
