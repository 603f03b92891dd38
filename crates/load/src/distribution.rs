//! Quantities that are drawn anew for every message: fixed, uniform, log-normal or exponential.

use std::f64::consts::TAU;
use std::time::Duration;

use definitions::duration;
use rand::{Rng, RngExt};
use serde::{Deserialize, Deserializer, de};

/// Standard deviations from the median to the 99th percentile of a normal distribution.
const P99_DEVIATIONS: f64 = 2.326_347_874;
/// A log-normal draw is at most so many times its p99, an exponential one so many times its mean: bodies and waits
/// have an end.
const TAIL: f64 = 10.0;

/// How a quantity is drawn, in its own unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    Fixed(f64),
    Uniform { from: f64, to: f64 },
    LogNormal { median: f64, p99: f64 },
    Exponential { mean: f64 },
}

/// What may be written, with examples of its unit.
fn allowed(one: &str, two: &str) -> String {
    format!(
        "allowed is \"{one}\", \"{one}..{two}\", \"log-normal {one} p99 {two}\" or \"exponential {one}\""
    )
}

impl Distribution {
    /// Reads one; `unit` reads a quantity.
    fn parse(text: &str, unit: impl Fn(&str) -> Result<f64, String>) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let drawn = match words[..] {
            ["log-normal", median, "p99", p99] => {
                let (median, p99) = (unit(median)?, unit(p99)?);
                if median <= 0.0 || p99 < median {
                    return Err(format!(
                        "'{text}' needs a median above 0 and a p99 that is no less"
                    ));
                }
                Distribution::LogNormal { median, p99 }
            }
            ["exponential", mean] => Distribution::Exponential { mean: unit(mean)? },
            _ => match text.split_once("..") {
                None => Distribution::Fixed(unit(text)?),
                Some((from, to)) => {
                    let (from, to) = (unit(from.trim())?, unit(to.trim())?);
                    if to < from {
                        return Err(format!("'{text}' ends before it begins"));
                    }
                    Distribution::Uniform { from, to }
                }
            },
        };
        Ok(drawn)
    }

    pub fn draw(&self, random: &mut impl Rng) -> f64 {
        match *self {
            Distribution::Fixed(value) => value,
            Distribution::Uniform { from, to } => from + (to - from) * random.random::<f64>(),
            Distribution::LogNormal { median, p99 } => {
                let deviation = (p99 / median).ln() / P99_DEVIATIONS;
                (median * (deviation * normal(random)).exp()).min(TAIL * p99)
            }
            Distribution::Exponential { mean } => {
                (-mean * (1.0 - random.random::<f64>()).ln()).min(TAIL * mean)
            }
        }
    }

    /// No draw is more.
    pub fn max(&self) -> f64 {
        match *self {
            Distribution::Fixed(value) => value,
            Distribution::Uniform { to, .. } => to,
            Distribution::LogNormal { p99, .. } => TAIL * p99,
            Distribution::Exponential { mean } => TAIL * mean,
        }
    }
}

/// By Box and Muller's transform.
fn normal(random: &mut impl Rng) -> f64 {
    let (radius, angle): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
}

/// Spans of time: `"5ms"`, `"5ms..25ms"`, `"log-normal 5ms p99 50ms"`, `"exponential 5ms"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times(Distribution);

impl Times {
    pub fn draw(&self, random: &mut impl Rng) -> Duration {
        Duration::from_secs_f64(self.0.draw(random))
    }

    /// No draw is longer.
    pub fn max(&self) -> Duration {
        Duration::from_secs_f64(self.0.max())
    }
}

impl std::str::FromStr for Times {
    type Err = String;

    fn from_str(text: &str) -> Result<Times, String> {
        let unit = |text: &str| duration::parse(text).map(|time| time.as_secs_f64());
        let read = Distribution::parse(text, unit);
        read.map(Times).map_err(|told| format!("{told}; {}", allowed("5ms", "50ms")))
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Times, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// Sizes in bytes: `1024`, `"64..4096"`, `"log-normal 1024 p99 64KiB"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes(Distribution);

impl Sizes {
    pub const fn fixed(bytes: u32) -> Sizes {
        Sizes(Distribution::Fixed(bytes as f64))
    }

    pub fn draw(&self, random: &mut impl Rng) -> usize {
        self.0.draw(random).round() as usize
    }

    /// No draw is larger.
    pub fn max(&self) -> usize {
        self.0.max().round() as usize
    }
}

impl std::str::FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let read = Distribution::parse(text, bytes);
        read.map(Sizes).map_err(|told| format!("{told}; {}", allowed("1024", "64KiB")))
    }
}

fn bytes(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text {
        text if text.ends_with("KiB") => (&text[..text.len() - 3], 1024.0),
        text if text.ends_with("MiB") => (&text[..text.len() - 3], 1024.0 * 1024.0),
        text => (text, 1.0),
    };
    let number: Result<u32, _> = digits.trim().parse();
    number.map(|number| f64::from(number) * factor).map_err(|_| format!("'{text}' is no size"))
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Sizes, D::Error> {
        let text = match Scalar::deserialize(from)? {
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text,
        };
        text.parse().map_err(de::Error::custom)
    }
}

/// What may be written as a number or as a text.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it is neither a whole number nor a text")]
pub(crate) enum Scalar {
    Number(i64),
    Text(String),
}

/// A part of all, as `"2.5%"`: from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share(pub f64);

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        match percent {
            Some(percent) if (0.0..=100.0).contains(&percent) => Ok(Share(percent / 100.0)),
            _ => Err(format!("'{text}' is no share; allowed is \"0%\" to \"100%\"")),
        }
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Share, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn what_is_written_is_what_is_drawn() {
        let (mut random, count) = (ChaCha8Rng::seed_from_u64(1), 20_000);
        for (text, median, p99, max) in [
            ("1024", 1024.0, 1024.0, 1024.0),
            ("100..300", 200.0, 298.0, 300.0),
            ("log-normal 1000 p99 16KiB", 1000.0, 16384.0, 163_840.0),
            ("exponential 1000", 693.0, 4605.0, 10_000.0),
        ] {
            let sizes: Sizes = text.parse().expect(text);
            let mut drawn: Vec<usize> = (0..count).map(|_| sizes.draw(&mut random)).collect();
            drawn.sort_unstable();
            let near = |found: usize, told: f64| (found as f64 / told - 1.0).abs() < 0.12;
            assert!(near(drawn[count / 2], median), "{text}: {}", drawn[count / 2]);
            assert!(near(drawn[count * 99 / 100], p99), "{text}: {}", drawn[count * 99 / 100]);
            assert!(drawn[count - 1] <= sizes.max(), "{text}");
            assert_eq!(sizes.max() as f64, max, "{text}");
        }
        let times: Times = "5ms..25ms".parse().expect("a range");
        assert!((0..100).all(|_| times.draw(&mut random) <= times.max()));
        assert_eq!(times.max(), Duration::from_millis(25));
    }

    #[test]
    fn what_is_none_is_told_with_what_is_allowed() {
        for (text, told) in [
            ("5", "'5' has no unit; write 5s or 5ms; allowed is \"5ms\""),
            ("9s..1s", "'9s..1s' ends before it begins; allowed is "),
            ("log-normal 5ms", "'log-normal 5ms' is no duration"),
            ("log-normal 5ms p99 1ms", "needs a median above 0 and a p99 that is no less"),
        ] {
            let error = text.parse::<Times>().expect_err(text);
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!("x".parse::<Sizes>().expect_err("no size").starts_with("'x' is no size; allowed"));
        for text in ["5", "101%", "x%", "-1%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        assert_eq!("2.5%".parse(), Ok(Share(0.025)));
    }
}
