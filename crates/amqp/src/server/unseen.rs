//! Which numbers of a queue a selecting receiver has yet to look at (SEL-7).

use domain::SequenceNumber;

/// Spans that are kept apart. With one more, the two that are nearest to each other become one: what lies
/// between them is looked at again, and nothing is lost.
const SPANS_MAX: usize = 64;

/// Numbers from one to another, both of them among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NumberSpan {
    pub low: SequenceNumber,
    pub high: SequenceNumber,
}

impl NumberSpan {
    pub fn of(number: SequenceNumber) -> NumberSpan {
        NumberSpan { low: number, high: number }
    }
}

/// Spans in order, none of which meets the next.
#[derive(Debug, Default)]
pub(super) struct Unseen(Vec<NumberSpan>);

impl Unseen {
    /// The lowest span, which is none of them from here on.
    pub fn take(&mut self) -> Option<NumberSpan> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    pub fn add(&mut self, span: NumberSpan) {
        let NumberSpan { mut low, mut high } = span;
        // Those that it meets, or that it lies next to.
        let from = self.0.partition_point(|other| other.high.0.saturating_add(1) < low.0);
        let to = self.0.partition_point(|other| other.low.0 <= high.0.saturating_add(1));
        for other in self.0.drain(from..to.max(from)) {
            (low, high) = (low.min(other.low), high.max(other.high));
        }
        self.0.insert(from, NumberSpan { low, high });
        if self.0.len() > SPANS_MAX {
            let gap = |at: &usize| self.0[at + 1].low.0 - self.0[*at].high.0;
            let at = (0..self.0.len() - 1).min_by_key(gap).unwrap_or_default();
            self.0[at].high = self.0.remove(at + 1).high;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(low: u64, high: u64) -> NumberSpan {
        NumberSpan { low: SequenceNumber(low), high: SequenceNumber(high) }
    }

    #[test]
    fn sel_7_spans_that_meet_become_one() {
        let all = span(SequenceNumber::MIN.0, SequenceNumber::MAX.0);
        for (added, expected) in [
            (vec![span(5, 6), span(1, 2)], vec![span(1, 2), span(5, 6)]),
            (vec![span(1, 2), span(3, 4)], vec![span(1, 4)]),
            (vec![span(3, 4), span(1, 2)], vec![span(1, 4)]),
            (vec![span(1, 9), span(3, 4)], vec![span(1, 9)]),
            (vec![span(1, 2), span(5, 6), span(9, 9), span(2, 8)], vec![span(1, 9)]),
            (vec![span(1, 1), all, span(7, 7)], vec![all]),
        ] {
            let mut unseen = Unseen::default();
            added.into_iter().for_each(|span| unseen.add(span));
            assert_eq!(unseen.0, expected);
        }
    }

    proptest! {
        /// Nothing that was added is lost, the spans stay few and in order, and while they are few nothing
        /// is in them that was not added.
        #[test]
        fn sel_7_what_was_added_is_looked_at(
            added in prop::collection::vec((0..2_000u64, 0..20u64), 1..150),
        ) {
            let mut unseen = Unseen::default();
            let mut numbers = std::collections::BTreeSet::new();
            for (low, more) in &added {
                unseen.add(span(*low, low + more));
                numbers.extend(*low..=low + more);
            }
            prop_assert!(unseen.0.len() <= SPANS_MAX);
            prop_assert!(unseen.0.windows(2).all(|two| two[0].high.0 + 1 < two[1].low.0));
            let mut left = numbers.clone();
            while let Some(span) = unseen.take() {
                for number in span.low.0..=span.high.0 {
                    prop_assert!(left.remove(&number) || added.len() > SPANS_MAX);
                }
            }
            prop_assert!(left.is_empty(), "{left:?}");
        }
    }
}
