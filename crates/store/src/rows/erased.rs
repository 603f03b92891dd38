//! Ranges of rows that are gone, before the database hears of it.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use domain::Key;

/// With more ranges it is time to write: each is asked by every look-up until storage has merged it away.
const RANGES_MAX: usize = 256;

/// From each key to before the other, both of one table. What touches is one range.
#[derive(Default)]
pub(super) struct Erased(BTreeMap<Key, Key>);

impl Erased {
    pub fn add(&mut self, mut from: Key, mut to: Key) {
        while let Some((first, end)) = self.0.range(..=&to).next_back()
            && *end >= from
        {
            let first = first.clone();
            from = from.min(first.clone());
            to = to.max(self.0.remove(&first).expect("it was found"));
        }
        self.0.insert(from, to);
    }

    pub fn contains(&self, key: &Key) -> bool {
        self.0.range(..=key).next_back().is_some_and(|(_, end)| key < end)
    }

    /// Whether any of these rows is in a range.
    pub fn touches(&self, from: &Key, to: &Key) -> bool {
        let mut before = self.0.range::<Key, _>((Unbounded, Excluded(to)));
        before.next_back().is_some_and(|(_, end)| from < end)
    }

    pub fn is_full(&self) -> bool {
        self.0.len() >= RANGES_MAX
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn ranges(&self) -> Vec<(Key, Key)> {
        self.0.iter().map(|(from, to)| (from.clone(), to.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn key(number: u64) -> Key {
        Key::Outcome(1, number)
    }

    proptest! {
        #[test]
        fn ranges_are_a_set_of_keys(added in vec((0..40u64, 1..9u64), 0..12)) {
            let (mut erased, mut model) = (Erased::default(), BTreeSet::new());
            for (from, count) in added {
                erased.add(key(from), key(from + count));
                model.extend(from..from + count);
            }
            for number in 0..50 {
                prop_assert_eq!(erased.contains(&key(number)), model.contains(&number));
                for to in number + 1..50 {
                    let touched = model.range(number..to).next().is_some();
                    prop_assert_eq!(erased.touches(&key(number), &key(to)), touched);
                }
            }
            // Between two of them something is left.
            let ranges = erased.ranges();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
