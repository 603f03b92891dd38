//! Where the machine reads. Two implementations: RocksDB in `store`, a map for simulation and tests.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::{Key, Meta, Row};

/// A group's rows as of some entry. Cannot fail: a store that cannot read its own data stops the
/// node before the machine could draw a wrong conclusion from it.
pub trait Rows {
    fn get(&self, key: &Key) -> Option<Row>;

    /// Rows of many keys, in the keys' order: cheaper than one by one where they are looked up on
    /// disk.
    fn get_many(&self, keys: &[Key]) -> Vec<Option<Row>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Visits the rows with `from <= key < to` in ascending order until the visitor breaks. Both
    /// keys are of one table.
    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>);
}

impl<R: Rows> Rows for &R {
    fn get(&self, key: &Key) -> Option<Row> {
        (**self).get(key)
    }

    fn get_many(&self, keys: &[Key]) -> Vec<Option<Row>> {
        (**self).get_many(keys)
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        (**self).scan(from, to, visit);
    }
}

/// Rows of many keys, in the keys' order, where what lies over the rows knows some of them (`None`
/// within: there is none). The others are asked for together, once `known` is dropped.
pub fn get_many_over(
    keys: &[Key],
    known: impl FnMut(&Key) -> Option<Option<Row>>,
    ask: impl FnOnce(&[Key]) -> Vec<Option<Row>>,
) -> Vec<Option<Row>> {
    let known: Vec<Option<Option<Row>>> = keys.iter().map(known).collect();
    let asked = keys.iter().zip(&known).filter(|(_, known)| known.is_none());
    let asked: Vec<Key> = asked.map(|(key, _)| key.clone()).collect();
    let found = if asked.is_empty() { Vec::new() } else { ask(&asked) };
    let mut found = found.into_iter();
    known.into_iter().map(|known| known.unwrap_or_else(|| found.next().flatten())).collect()
}

/// Rows in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryRows(pub BTreeMap<Key, Row>);

impl MemoryRows {
    /// Of a group whose log has reached a feature level, and nothing else yet.
    pub fn at_level(level: u32) -> MemoryRows {
        let meta = Meta { level, ..Meta::default() };
        MemoryRows(BTreeMap::from([(Key::Meta, Row::Meta(meta))]))
    }

    /// Deletes what a [`crate::Step`] erased, before its writes.
    pub fn erase(&mut self, ranges: &[(Key, Key)]) {
        for (from, to) in ranges {
            let gone: Vec<Key> = self.0.range(from..to).map(|(key, _)| key.clone()).collect();
            gone.iter().for_each(|key| drop(self.0.remove(key)));
        }
    }

    /// Applies what a [`crate::Step`] wrote: `None` deletes.
    pub fn write(&mut self, writes: impl IntoIterator<Item = (Key, impl Into<Option<Row>>)>) {
        for (key, row) in writes {
            match row.into() {
                Some(row) => self.0.insert(key, row),
                None => self.0.remove(&key),
            };
        }
    }
}

impl Rows for MemoryRows {
    fn get(&self, key: &Key) -> Option<Row> {
        self.0.get(key).cloned()
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        if from >= to {
            return;
        }
        for (key, row) in self.0.range(from..to) {
            if visit(key.clone(), row.clone()).is_break() {
                return;
            }
        }
    }
}
