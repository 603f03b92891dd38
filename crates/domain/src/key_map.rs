//! An ordered map by [`Key`], for rows that are not stored yet. Most of those belong to messages:
//! theirs are found by queue and then by number ([`NumberMap`]), which compares numbers instead of keys.

mod number_map;

use std::borrow::Cow;
use std::collections::{BTreeMap, btree_map};
use std::ops::ControlFlow;

use self::number_map::NumberMap;
use crate::{EntityId, Key, QueueId, Row, SequenceNumber};

/// A value per key.
#[derive(Clone, Debug)]
pub struct KeyMap<T> {
    runs: BTreeMap<Run, NumberMap<T>>,
    /// Keys of no run.
    rest: BTreeMap<Key, T>,
    len: usize,
}

/// Keys of one table that differ in a message's number only. Ordered as their keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Run {
    Body(EntityId),
    Message(QueueId),
    Lock(QueueId),
}

impl Run {
    fn of(key: &Key) -> Option<(Run, SequenceNumber)> {
        match key {
            Key::Body(entity, number) => Some((Run::Body(*entity), *number)),
            Key::Message(queue, number) => Some((Run::Message(*queue), *number)),
            Key::Lock(queue, number) => Some((Run::Lock(*queue), *number)),
            _ => None,
        }
    }

    fn key(self, number: SequenceNumber) -> Key {
        match self {
            Run::Body(entity) => Key::Body(entity, number),
            Run::Message(queue) => Key::Message(queue, number),
            Run::Lock(queue) => Key::Lock(queue, number),
        }
    }
}

impl<T> Default for KeyMap<T> {
    fn default() -> KeyMap<T> {
        KeyMap { runs: BTreeMap::new(), rest: BTreeMap::new(), len: 0 }
    }
}

impl<T> KeyMap<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get(&self, key: &Key) -> Option<&T> {
        match Run::of(key) {
            Some((run, number)) => self.runs.get(&run)?.get(number),
            None => self.rest.get(key),
        }
    }

    pub fn insert(&mut self, key: Key, value: T) -> Option<T> {
        let old = match Run::of(&key) {
            Some((run, number)) => self.runs.entry(run).or_default().insert(number, value),
            None => self.rest.insert(key, value),
        };
        self.len += usize::from(old.is_none());
        old
    }

    pub fn remove(&mut self, key: &Key) -> Option<T> {
        let old = match Run::of(key) {
            Some((run, number)) => self.runs.get_mut(&run)?.remove(number),
            None => self.rest.remove(key),
        };
        self.len -= usize::from(old.is_some());
        old
    }

    /// Where a key's value stands, or would.
    pub fn entry(&mut self, key: Key) -> KeyEntry<'_, T> {
        let len = &mut self.len;
        match Run::of(&key) {
            Some((run, number)) => match self.runs.entry(run).or_default().entry(number) {
                number_map::NumberEntry::Vacant(slot) => {
                    KeyEntry::Vacant(Vacant(Slot::Run(slot), len))
                }
                number_map::NumberEntry::Occupied(slot) => {
                    KeyEntry::Occupied(Occupied(Slot::Run(slot), len))
                }
            },
            None => match self.rest.entry(key) {
                btree_map::Entry::Vacant(slot) => KeyEntry::Vacant(Vacant(Slot::Rest(slot), len)),
                btree_map::Entry::Occupied(slot) => {
                    KeyEntry::Occupied(Occupied(Slot::Rest(slot), len))
                }
            },
        }
    }

    /// What stands under `from <= key < to`, in ascending order. Both keys are of one table.
    pub fn range(&self, from: &Key, to: &Key) -> Range<'_, T> {
        debug_assert!(
            std::mem::discriminant(from) == std::mem::discriminant(to),
            "a range is of one table: {from:?}, {to:?}"
        );
        if from >= to {
            return Range(Kind::Empty);
        }
        match (Run::of(from), Run::of(to)) {
            (Some(from), Some(to)) => {
                let runs = self.runs.range(from.0..=to.0);
                Range(Kind::Runs(Runs { runs, current: None, from, to }))
            }
            _ => Range(Kind::Rest(self.rest.range::<Key, _>(from..to))),
        }
    }

    /// Visits the rows of a range in ascending order until the visitor breaks: those that `stored`
    /// brings, and this map over them. `row` is what a value leaves under its key, if anything. Both
    /// keys are of one table.
    pub fn scan_over<'a>(
        &'a self,
        (from, to): (&Key, &Key),
        row: impl Fn(&'a T) -> Option<&'a Row>,
        stored: impl FnOnce(&mut dyn FnMut(Key, Row) -> ControlFlow<()>),
        mut visit: impl FnMut(Cow<'_, Key>, Cow<'_, Row>) -> ControlFlow<()>,
    ) {
        let mut over = self.range(from, to).peekable();
        let mut ended = false;
        let mut show = |key: Cow<'_, Key>, row: Option<Cow<'_, Row>>| match row {
            Some(row) => visit(key, row),
            None => ControlFlow::Continue(()),
        };
        let row = |value| row(value).map(Cow::Borrowed);
        stored(&mut |key, stored| {
            while let Some((before, value)) = over.next_if(|(over, _)| **over < key) {
                if show(before, row(value)).is_break() {
                    ended = true;
                    return ControlFlow::Break(());
                }
            }
            let left = match over.next_if(|(over, _)| **over == key) {
                Some((_, value)) => row(value),
                None => Some(Cow::Owned(stored)),
            };
            let flow = show(Cow::Owned(key), left);
            ended = flow.is_break();
            flow
        });
        for (key, value) in over {
            if ended || show(key, row(value)).is_break() {
                return;
            }
        }
    }

    /// All of them; a run's are in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, Key>, &T)> {
        let runs = self.runs.iter().flat_map(|(run, values)| {
            values.iter().map(|(number, value)| (Cow::Owned(run.key(number)), value))
        });
        self.rest.iter().map(|(key, value)| (Cow::Borrowed(key), value)).chain(runs)
    }
}

impl<T: PartialEq> PartialEq for KeyMap<T> {
    fn eq(&self, other: &KeyMap<T>) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T> FromIterator<(Key, T)> for KeyMap<T> {
    fn from_iter<I: IntoIterator<Item = (Key, T)>>(items: I) -> KeyMap<T> {
        let mut map = KeyMap::default();
        map.extend(items);
        map
    }
}

impl<T> Extend<(Key, T)> for KeyMap<T> {
    fn extend<I: IntoIterator<Item = (Key, T)>>(&mut self, items: I) {
        for (key, value) in items {
            self.insert(key, value);
        }
    }
}

impl<T> IntoIterator for KeyMap<T> {
    type Item = (Key, T);
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        let (rest, runs) = (self.rest.into_iter(), self.runs.into_iter());
        IntoIter { rest, runs, current: None, left: self.len }
    }
}

/// As [`KeyMap::iter`].
pub struct IntoIter<T> {
    rest: btree_map::IntoIter<Key, T>,
    runs: btree_map::IntoIter<Run, NumberMap<T>>,
    current: Option<(Run, number_map::NumberIntoIter<T>)>,
    left: usize,
}

impl<T> Iterator for IntoIter<T> {
    type Item = (Key, T);

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    fn next(&mut self) -> Option<(Key, T)> {
        self.left = self.left.saturating_sub(1);
        if let Some(item) = self.rest.next() {
            return Some(item);
        }
        loop {
            if let Some((run, values)) = &mut self.current
                && let Some((number, value)) = values.next()
            {
                return Some((run.key(number), value));
            }
            let (run, values) = self.runs.next()?;
            self.current = Some((run, values.into_iter()));
        }
    }
}

pub enum KeyEntry<'a, T> {
    Vacant(Vacant<'a, T>),
    Occupied(Occupied<'a, T>),
}

enum Slot<A, B> {
    Run(A),
    Rest(B),
}

type VacantSlot<'a, T> = Slot<number_map::VacantNumber<'a, T>, btree_map::VacantEntry<'a, Key, T>>;
type OccupiedSlot<'a, T> =
    Slot<number_map::OccupiedNumber<'a, T>, btree_map::OccupiedEntry<'a, Key, T>>;

pub struct Vacant<'a, T>(VacantSlot<'a, T>, &'a mut usize);

impl<T> Vacant<'_, T> {
    pub fn insert(self, value: T) {
        *self.1 += 1;
        match self.0 {
            Slot::Run(slot) => slot.insert(value),
            Slot::Rest(slot) => drop(slot.insert(value)),
        }
    }
}

pub struct Occupied<'a, T>(OccupiedSlot<'a, T>, &'a mut usize);

impl<T> Occupied<'_, T> {
    pub fn get_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Slot::Run(slot) => slot.get_mut(),
            Slot::Rest(slot) => slot.get_mut(),
        }
    }

    pub fn remove(self) -> T {
        *self.1 -= 1;
        match self.0 {
            Slot::Run(slot) => slot.remove(),
            Slot::Rest(slot) => slot.remove(),
        }
    }
}

/// See [`KeyMap::range`].
pub struct Range<'a, T>(Kind<'a, T>);

enum Kind<'a, T> {
    Empty,
    Runs(Runs<'a, T>),
    Rest(btree_map::Range<'a, Key, T>),
}

struct Runs<'a, T> {
    runs: btree_map::Range<'a, Run, NumberMap<T>>,
    current: Option<(Run, number_map::NumberRange<'a, T>)>,
    from: (Run, SequenceNumber),
    to: (Run, SequenceNumber),
}

impl<'a, T> Iterator for Range<'a, T> {
    type Item = (Cow<'a, Key>, &'a T);

    fn next(&mut self) -> Option<(Cow<'a, Key>, &'a T)> {
        match &mut self.0 {
            Kind::Empty => None,
            Kind::Runs(runs) => runs.next().map(|(key, value)| (Cow::Owned(key), value)),
            Kind::Rest(rest) => rest.next().map(|(key, value)| (Cow::Borrowed(key), value)),
        }
    }
}

impl<'a, T> Iterator for Runs<'a, T> {
    type Item = (Key, &'a T);

    fn next(&mut self) -> Option<(Key, &'a T)> {
        loop {
            if let Some((run, values)) = &mut self.current
                && let Some((number, value)) = values.next()
            {
                return Some((run.key(number), value));
            }
            let (run, values) = self.runs.next()?;
            let from = if *run == self.from.0 { self.from.1 } else { SequenceNumber::MIN };
            let to = (*run == self.to.0).then_some(self.to.1);
            self.current = Some((*run, values.range(from, to)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn key() -> impl Strategy<Value = Key> {
        let entity = || (0..3u64).prop_map(EntityId);
        let number =
            || prop_oneof![0..6u64, 14..50u64, u64::MAX - 2..=u64::MAX].prop_map(SequenceNumber);
        let queue = || {
            (entity(), any::<bool>()).prop_map(|(entity, dead)| match dead {
                true => QueueId::dead_letter(entity),
                false => QueueId::main(entity),
            })
        };
        prop_oneof![
            (entity(), number()).prop_map(|(e, n)| Key::Body(e, n)),
            (queue(), number()).prop_map(|(q, n)| Key::Message(q, n)),
            (queue(), number()).prop_map(|(q, n)| Key::Returned(q, n)),
            (queue(), number()).prop_map(|(q, n)| Key::Lock(q, n)),
            (0..9u64).prop_map(Key::Producer),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn it_is_a_map_ordered_by_key(
            changes in vec((key(), any::<Option<u8>>(), any::<bool>()), 0..60),
            ranges in vec((key(), key()), 1..20),
        ) {
            let (mut map, mut model) = (KeyMap::default(), BTreeMap::new());
            for (key, value, by_entry) in changes {
                let old = model.get(&key).copied();
                prop_assert_eq!(map.get(&key).copied(), old);
                match (value, by_entry) {
                    (Some(value), false) => prop_assert_eq!(map.insert(key.clone(), value), old),
                    (None, false) => prop_assert_eq!(map.remove(&key), old),
                    (value, true) => match (map.entry(key.clone()), value) {
                        (KeyEntry::Vacant(slot), Some(value)) => slot.insert(value),
                        (KeyEntry::Vacant(_), None) => (),
                        (KeyEntry::Occupied(mut slot), Some(value)) => *slot.get_mut() = value,
                        (KeyEntry::Occupied(slot), None) => prop_assert_eq!(Some(slot.remove()), old),
                    },
                }
                match value {
                    Some(value) => drop(model.insert(key, value)),
                    None => drop(model.remove(&key)),
                }
                prop_assert_eq!(map.len(), model.len());
                prop_assert_eq!(map.is_empty(), model.is_empty());
            }
            for (from, to) in ranges {
                let one_table = std::mem::discriminant(&from) == std::mem::discriminant(&to);
                if one_table && from < to {
                    let found: Vec<_> = map.range(&from, &to).map(|(k, v)| (k.into_owned(), *v)).collect();
                    let expected: Vec<_> = model.range(&from..&to).map(|(k, v)| (k.clone(), *v)).collect();
                    prop_assert_eq!(found, expected);
                } else if one_table {
                    prop_assert!(map.range(&from, &to).next().is_none());
                }
            }
            let all: BTreeMap<_, _> = map.iter().map(|(k, v)| (k.into_owned(), *v)).collect();
            prop_assert_eq!(&all, &model);
            prop_assert_eq!(map.clone().into_iter().size_hint(), (model.len(), Some(model.len())));
            prop_assert_eq!(map.into_iter().collect::<BTreeMap<_, _>>(), model);
        }
    }
}
