//! A time that is drawn anew each time.

use std::fmt;
use std::time::Duration;

use definitions::duration;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Nobody waits for what comes later.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// `"100ms"`, or `"100ms..2s"`: each time between is as likely. At most a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanRange {
    from: Duration,
    to: Duration,
}

impl SpanRange {
    pub const ZERO: SpanRange = SpanRange { from: Duration::ZERO, to: Duration::ZERO };

    /// The one that `draw`, any number, stands for.
    pub fn draw(&self, draw: u64) -> Duration {
        let width = (self.to - self.from).as_micros() as u64;
        self.from + Duration::from_micros(draw % (width + 1))
    }

    fn parse(text: &str) -> Result<SpanRange, String> {
        let (from, to) = duration::parse_range(text)?;
        match to <= LONGEST {
            true => Ok(SpanRange { from, to }),
            false => Err(format!("'{text}' is more than a day; allowed is 0s to 24h")),
        }
    }
}

impl fmt::Display for SpanRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from == self.to {
            true => write!(f, "{:?}", self.from),
            false => write!(f, "{:?}..{:?}", self.from, self.to),
        }
    }
}

impl Serialize for SpanRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = |span: Duration| format!("{}ms", span.as_millis());
        serializer.serialize_str(&match self.from == self.to {
            true => ms(self.from),
            false => format!("{}..{}", ms(self.from), ms(self.to)),
        })
    }
}

impl<'de> Deserialize<'de> for SpanRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SpanRange, D::Error> {
        SpanRange::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_6_a_time_is_drawn_from_its_range() {
        let range = SpanRange::parse("100ms..102ms").expect("a range");
        let drawn: Vec<u128> =
            [0, 1_000, 2_000, 2_001].map(|draw| range.draw(draw).as_millis()).into();
        assert_eq!(drawn, [100, 101, 102, 100]);
        assert_eq!(SpanRange::parse("5s").expect("one").draw(u64::MAX), Duration::from_secs(5));
        for wrong in ["", "5", "2s..1s", "25h", "never"] {
            assert!(SpanRange::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_range_is_read_as_it_was_written() {
        for text in ["\"0ms\"", "\"100ms..2000ms\""] {
            let range: SpanRange = serde_json::from_str(text).expect("a range");
            assert_eq!(serde_json::to_string(&range).expect("text"), text);
        }
    }
}
