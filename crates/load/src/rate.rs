//! How many messages are due when: steps, ramps and bursts one after the other, whatever becomes of those before.

use std::time::Duration;

use definitions::duration;
use serde::{Deserialize, Deserializer, de};

use crate::distribution::Scalar;

const ALLOWED: &str = "allowed is 500, or pieces one after the other as \"500 for 10s, 500..2000 over 20s, \
                       200 with 1000 every 5s\"";
const PER_SECOND_MAX: f64 = 10_000_000.0;

/// A profile, in messages a second of all producers together. The last piece goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    pieces: Vec<RatePiece>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct RatePiece {
    /// Seconds; the last one's may be infinite.
    lasts: f64,
    from: f64,
    to: f64,
    burst: Option<Burst>,
}

/// So many messages at one instant, at the end of each such span.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Burst {
    count: f64,
    every: f64,
}

impl Rate {
    /// The same number every second.
    pub fn constant(per_second: f64) -> Rate {
        let piece =
            RatePiece { lasts: f64::INFINITY, from: per_second, to: per_second, burst: None };
        Rate { pieces: vec![piece] }
    }

    /// How long it takes, if its last piece has an end.
    pub fn lasts(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.pieces.iter().map(|piece| piece.lasts).sum()).ok()
    }

    /// As long as its last piece says, then on at that piece's last rate; before all, so long at its first.
    pub fn begun_before(mut self, warm_up: Duration) -> Rate {
        let first = self.pieces[0].from;
        let before =
            RatePiece { lasts: warm_up.as_secs_f64(), from: first, to: first, burst: None };
        if let Some(last) = self.pieces.last().copied().filter(|last| last.lasts.is_finite()) {
            let (lasts, from, to) = (f64::INFINITY, last.to, last.to);
            self.pieces.push(RatePiece { lasts, from, to, burst: last.burst });
        }
        self.pieces.insert(0, before);
        self
    }

    /// All its times so many times as long: fewer messages, at the same rates.
    pub fn scaled(mut self, factor: f64) -> Rate {
        for piece in &mut self.pieces {
            piece.lasts *= factor;
            if let Some(burst) = &mut piece.burst {
                burst.every *= factor;
            }
        }
        self
    }

    /// The most that is due in one second, bursts apart.
    pub fn per_second_max(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.from.max(piece.to)).fold(0.0, f64::max)
    }

    /// When each message is due, in their order.
    pub fn due(self) -> Due {
        Due { pieces: self.pieces, index: 0, begun: 0.0, at: 0.0, before: 0.0, bursts: 0 }
    }
}

impl RatePiece {
    fn at(&self, since: f64) -> f64 {
        self.from + self.slope() * since
    }

    fn slope(&self) -> f64 {
        match self.lasts.is_finite() && self.lasts > 0.0 {
            true => (self.to - self.from) / self.lasts,
            false => 0.0,
        }
    }

    fn parse(text: &str) -> Result<RatePiece, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (words, burst) = match words[..] {
            [.., "with", count, "every", every] => {
                let burst = Burst { count: number(count)?, every: seconds(every)? };
                (&words[..words.len() - 4], Some(burst))
            }
            _ => (&words[..], None),
        };
        let (from, to, lasts) = match words {
            [rate] => (number(rate)?, number(rate)?, f64::INFINITY),
            [rate, "for", time] => (number(rate)?, number(rate)?, seconds(time)?),
            [ramp, "over", time] => {
                let ends = ramp.split_once("..").ok_or(format!("'{ramp}' is no ramp"))?;
                (number(ends.0)?, number(ends.1)?, seconds(time)?)
            }
            _ => return Err(format!("'{text}' is no rate")),
        };
        Ok(RatePiece { lasts, from, to, burst })
    }
}

fn number(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|number| (0.0..=PER_SECOND_MAX).contains(number))
        .ok_or_else(|| format!("'{text}' is no number from 0 to {PER_SECOND_MAX}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    match duration::parse(text)?.as_secs_f64() {
        0.0 => Err(format!("'{text}' is no time at all")),
        seconds => Ok(seconds),
    }
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let wrong = |told: String| format!("{told}; {ALLOWED}");
        let pieces: Result<Vec<_>, String> =
            text.split(',').map(|piece| RatePiece::parse(piece.trim())).collect();
        let pieces = pieces.map_err(wrong)?;
        let (last, before) = pieces.split_last().expect("a split has a piece");
        if before.iter().any(|piece| piece.lasts.is_infinite()) {
            return Err(wrong(format!("in '{text}' a piece before the last has no end")));
        }
        let is_nothing = |piece: &RatePiece| piece.from + piece.to == 0.0 && piece.burst.is_none();
        if is_nothing(last) && before.iter().all(is_nothing) {
            return Err(wrong(format!("'{text}' sends nothing")));
        }
        Ok(Rate { pieces })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
        let text = match Scalar::deserialize(from)? {
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text,
        };
        text.parse().map_err(de::Error::custom)
    }
}

/// Walks a profile: due times never shift, and go only forwards.
#[derive(Clone, Debug)]
pub struct Due {
    pieces: Vec<RatePiece>,
    index: usize,
    /// When the piece has begun.
    begun: f64,
    /// Up to where it is reckoned, and how many were due before.
    at: f64,
    before: f64,
    /// Of the piece, so far.
    bursts: u64,
}

impl Due {
    /// Seconds until the message of this number, from 0, is due; none will ever be. Numbers must not go back.
    pub fn of(&mut self, number: u64) -> Option<f64> {
        let number = number as f64;
        loop {
            let piece = *self.pieces.get(self.index)?;
            let burst_at =
                piece.burst.map(|burst| self.begun + burst.every * (self.bursts + 1) as f64);
            let piece_ends = self.begun + piece.lasts;
            let ends = piece_ends.min(burst_at.unwrap_or(f64::INFINITY));
            let per_second = piece.at(self.at - self.begun);
            let span = ends - self.at;
            let more = match piece.slope() {
                // The last piece has no end.
                0.0 if per_second == 0.0 => 0.0,
                0.0 => per_second * span,
                slope => per_second * span + slope * span * span / 2.0,
            };
            let missing = number - self.before;
            if missing < more {
                let root = per_second.powi(2) + 2.0 * piece.slope() * missing;
                let root = per_second + root.max(0.0).sqrt();
                return Some(if missing <= 0.0 { self.at } else { self.at + 2.0 * missing / root });
            }
            if ends.is_infinite() {
                return None;
            }
            self.before += more;
            self.at = ends;
            match piece.burst.filter(|_| burst_at.is_some_and(|at| at <= piece_ends)) {
                Some(burst) if number < self.before + burst.count => return Some(self.at),
                Some(burst) => {
                    self.before += burst.count;
                    self.bursts += 1;
                }
                None => {
                    (self.begun, self.bursts) = (piece_ends, 0);
                    self.index += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn due(text: &str, count: u64) -> Vec<f64> {
        let mut due = text.parse::<Rate>().expect(text).due();
        let found = (0..count).map_while(|number| due.of(number));
        found.map(|at| (at * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn messages_are_due_as_the_profile_says() {
        assert_eq!(due("4", 4), [0.0, 0.25, 0.5, 0.75]);
        assert_eq!(due("2 for 1s, 4", 5), [0.0, 0.5, 1.0, 1.25, 1.5]);
        // 2t² = n
        assert_eq!(due("0..4 over 1s, 0", 9), [0.0, 0.707]);
        assert_eq!(due("0..4 over 1s, 2", 4), [0.0, 0.707, 1.0, 1.5]);
        assert_eq!(due("4..0 over 1s, 0", 9), [0.0, 0.293]);
        assert_eq!(due("1 with 2 every 2s", 7), [0.0, 1.0, 2.0, 2.0, 2.0, 3.0, 4.0]);
        assert_eq!(due("0 with 2 every 500ms", 4), [0.5, 0.5, 1.0, 1.0]);
        assert_eq!(due("0 for 3s, 1", 2), [3.0, 4.0]);
    }

    #[test]
    fn before_the_profile_its_first_rate_holds_and_after_it_its_last() {
        let rate: Rate = "2 for 1s, 4 for 1s".parse().expect("a profile");
        assert_eq!(rate.lasts(), Some(Duration::from_secs(2)));
        let mut due = rate.clone().begun_before(Duration::from_secs(1)).due();
        let found: Vec<f64> = [0, 2, 4, 8, 12].map(|number| due.of(number).expect("due")).into();
        assert_eq!(found, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(rate.scaled(0.5).lasts(), Some(Duration::from_secs(1)));
        assert_eq!(Rate::constant(5.0).lasts(), None);
    }

    #[test]
    fn what_is_no_rate_is_told_with_what_is_allowed() {
        for text in
            ["", "fast", "-1", "1..5", "5, 6", "0", "5 for", "5 for 0s", "5 with x every 1s"]
        {
            let told = text.parse::<Rate>().expect_err(text);
            assert!(told.contains("; allowed is 500, or pieces"), "{told}");
        }
    }

    fn piece() -> impl Strategy<Value = String> {
        let burst = prop_oneof![3 => Just(None), 1 => (1..30u32, 100..900u32).prop_map(Some)];
        (0..60u32, 0..60u32, 50..2000u32, any::<bool>(), burst).prop_map(
            |(from, to, ms, is_ramp, burst)| {
                let piece = match is_ramp {
                    true => format!("{from}..{to} over {ms}ms"),
                    false => format!("{from} for {ms}ms"),
                };
                match burst {
                    None => piece,
                    Some((count, every)) => format!("{piece} with {count} every {every}ms"),
                }
            },
        )
    }

    /// How many are due by then, in thin slices.
    fn model(rate: &Rate, until: f64) -> f64 {
        const SLICE: f64 = 0.0005;
        let (mut due, mut begun) = (0.0, 0.0);
        for piece in &rate.pieces {
            let lasts = piece.lasts.min(until - begun);
            let slices = (lasts / SLICE).max(0.0) as u64;
            due += (0..slices).map(|i| piece.at((i as f64 + 0.5) * SLICE) * SLICE).sum::<f64>();
            if let Some(burst) = piece.burst {
                due += burst.count * (lasts.max(0.0) / burst.every + 1e-9).floor();
            }
            begun += piece.lasts;
        }
        due
    }

    proptest! {
        #[test]
        fn as_many_are_due_as_the_profile_adds_up_to(
            pieces in prop::collection::vec(piece(), 1..5),
            until in 0.1..6.0f64,
        ) {
            let Ok(rate) = pieces.join(", ").parse::<Rate>() else { return Ok(()) };
            let expected = model(&rate, until);
            // Not where a burst stands at the very edge.
            prop_assume!((model(&rate, until + 0.01) - model(&rate, until - 0.01)).abs() < 3.0);
            let mut due = rate.due();
            let (mut number, mut last) = (0, 0.0);
            while let Some(at) = due.of(number).filter(|at| *at <= until) {
                prop_assert!(at >= last, "{at} after {last}");
                (number, last) = (number + 1, at);
            }
            prop_assert!((number as f64 - expected).abs() < 2.5, "{number}, expected {expected}");
        }
    }
}
