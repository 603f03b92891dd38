//! Which of the events at a rule's place meet its fault.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::Span;

/// When a rule strikes. What is absent does not limit it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Occasion {
    /// Of the events, from 0 to 1.
    pub probability: Option<f64>,
    pub seed: u64,
    /// The n-th, the 2n-th and so on.
    pub every: Option<u64>,
    /// The first so many.
    pub first: Option<u64>,
    /// Not before, and not from then on: times since the rule was added.
    pub from: Option<Duration>,
    pub until: Option<Duration>,
    /// So often at most.
    pub hits: Option<u64>,
}

/// What came of a rule on this node.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub events: AtomicU64,
    pub hits: AtomicU64,
}

impl Occasion {
    /// Counts an event at the place; the number to draw from if it is struck.
    pub fn strikes(&self, counts: &Counts, since_added: Span) -> Option<u64> {
        let since = Duration::from_millis(since_added.0);
        if self.from.is_some_and(|from| since < from) || self.until.is_some_and(|end| since >= end)
        {
            return None;
        }
        let number = counts.events.fetch_add(1, Ordering::Relaxed);
        if self.first.is_some_and(|first| number >= first)
            || self.every.is_some_and(|every| !(number + 1).is_multiple_of(every))
        {
            return None;
        }
        let draw = mixed(self.seed, number);
        if let Some(probability) = self.probability
            && unit(draw) >= probability
        {
            return None;
        }
        let has_room = |hits| self.hits.is_none_or(|max| hits < max).then_some(hits + 1);
        let counted = counts.hits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room);
        // Another number than the one that decided: small ones would come together with short times.
        counted.is_ok().then(|| mixed(draw, number))
    }
}

/// The n-th number of a seed (SplitMix64): the same on every machine, in whatever order it is asked for.
fn mixed(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// From 0 to less than 1.
fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(occasion: &Occasion, events: u64) -> Vec<u64> {
        let counts = Counts::default();
        (0..events).filter(|_| occasion.strikes(&counts, Span(1_000)).is_some()).collect()
    }

    #[test]
    fn fault_3_an_occasion_takes_some_of_the_events() {
        let any = Occasion::default;
        for (occasion, expected) in [
            (any(), vec![0, 1, 2, 3, 4, 5]),
            (Occasion { every: Some(3), ..any() }, vec![2, 5]),
            (Occasion { first: Some(2), ..any() }, vec![0, 1]),
            (Occasion { hits: Some(1), every: Some(2), ..any() }, vec![1]),
            (Occasion { probability: Some(0.0), ..any() }, vec![]),
            (Occasion { probability: Some(1.0), ..any() }, vec![0, 1, 2, 3, 4, 5]),
            (Occasion { from: Some(Duration::from_millis(1_001)), ..any() }, vec![]),
            (Occasion { until: Some(Duration::from_millis(1_000)), ..any() }, vec![]),
            (Occasion { from: Some(Duration::from_secs(1)), first: Some(1), ..any() }, vec![0]),
        ] {
            assert_eq!(struck(&occasion, 6), expected, "{occasion:?}");
        }
    }

    #[test]
    fn fault_4_a_seed_decides_the_same_again_and_hits_its_share() {
        let occasion = |seed| Occasion { probability: Some(0.25), seed, ..Occasion::default() };
        let first = struck(&occasion(7), 4_000);
        assert_eq!(first, struck(&occasion(7), 4_000));
        assert_ne!(first, struck(&occasion(8), 4_000));
        assert!((900..1_100).contains(&first.len()), "{}", first.len());
    }
}
