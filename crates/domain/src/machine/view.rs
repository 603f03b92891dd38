//! What the entries of a step left, laid over the rows as they were: commands see each other's
//! rows, and storage is written once per step.

mod typed;

use std::ops::ControlFlow;

use crate::key_map::{KeyEntry, KeyMap};
use crate::machine::level::GroupLevel;
use crate::machine::recorder::Recorder;
use crate::{Changes, Key, Row, Rows, Write, get_many_over};

/// More rows that lie together are erased as a range. Fewer are deleted one by one: an erased range is
/// kept, and asked, until storage has merged it away, which few rows are not worth.
pub(super) const SINGLY_MAX: usize = 64;

/// Rows under a step's own changes.
pub(super) struct View<R> {
    rows: R,
    writes: KeyMap<Write>,
    /// Ranges whose stored rows are all gone; what was written into them since is in the writes.
    erased: Vec<(Key, Key)>,
    /// What was in the way of each change since the savepoint, if one is set, in order.
    journal: Option<Vec<(Key, Option<Write>)>>,
    /// Rows read, visited and written so far: what a command is bounded by. It counts what commands
    /// ask for and not what that costs below, so that it does not depend on how entries are grouped.
    cost: u64,
    /// By whose rules rows are written.
    pub level: GroupLevel,
    /// Present where the steps of messages are noted.
    pub recorder: Option<Recorder>,
}

/// How far a command may go.
#[derive(Clone, Copy)]
pub(super) struct Budget(u64);

impl<R: Rows> View<R> {
    pub fn new(rows: R) -> View<R> {
        View {
            rows,
            writes: KeyMap::default(),
            erased: Vec::new(),
            journal: None,
            cost: 0,
            level: GroupLevel::default(),
            recorder: None,
        }
    }

    /// From here on changes can be taken back.
    pub fn savepoint(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// Changes since the savepoint stay.
    pub fn keep(&mut self) {
        self.journal = None;
    }

    /// Takes back what changed since the savepoint. What it cost was done nevertheless.
    pub fn roll_back(&mut self) {
        for (key, write) in self.journal.take().unwrap_or_default().into_iter().rev() {
            match write {
                Some(write) => drop(self.writes.insert(key, write)),
                None => drop(self.writes.remove(&key)),
            }
        }
    }

    fn note(&mut self, key: &Key) {
        if let Some(journal) = &mut self.journal {
            journal.push((key.clone(), self.writes.get(key).cloned()));
        }
    }

    /// A budget of so many rows from here on.
    pub fn budget(&self, rows_max: u32) -> Budget {
        Budget(self.cost + u64::from(rows_max))
    }

    /// Rows left in a budget.
    pub fn left(&self, budget: Budget) -> usize {
        budget.0.saturating_sub(self.cost) as usize
    }

    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Forgives what was read since [`View::cost`] said so.
    pub fn set_cost(&mut self, cost: u64) {
        self.cost = cost;
    }

    pub fn get(&mut self, key: &Key) -> Option<Row> {
        self.cost += 1;
        match self.writes.get(key) {
            Some(write) => write.row().cloned(),
            None if is_erased(&self.erased, key) => None,
            None => self.rows.get(key),
        }
    }

    /// As [`View::get`], of many keys, each of which counts.
    pub fn get_many(&mut self, keys: Vec<Key>) -> Vec<Option<Row>> {
        self.cost += keys.len() as u64;
        let known = |key: &Key| match self.writes.get(key) {
            Some(write) => Some(write.row().cloned()),
            None => is_erased(&self.erased, key).then_some(None),
        };
        get_many_over(&keys, known, |asked| self.rows.get_many(asked))
    }

    /// Whether there is such a row.
    pub fn contains(&mut self, key: &Key) -> bool {
        self.get(key).is_some()
    }

    /// Writes a row where none is visible.
    pub fn insert(&mut self, key: Key, row: Row) {
        self.cost += 1;
        self.note(&key);
        match self.writes.entry(key) {
            KeyEntry::Vacant(slot) => slot.insert(Write::Insert(row)),
            KeyEntry::Occupied(mut slot) => {
                debug_assert!(slot.get_mut().row().is_none(), "a row is inserted twice");
                *slot.get_mut() = Write::Replace(row);
            }
        }
    }

    /// Writes a row over one that is visible.
    pub fn replace(&mut self, key: Key, row: Row) {
        self.cost += 1;
        self.note(&key);
        match self.writes.entry(key) {
            KeyEntry::Vacant(slot) => slot.insert(Write::Replace(row)),
            KeyEntry::Occupied(mut slot) => match slot.get_mut() {
                Write::Insert(old) | Write::Replace(old) => *old = row,
                gone @ Write::Delete => *gone = Write::Replace(row),
            },
        }
    }

    /// Writes a row, whether or not one is visible.
    pub fn put(&mut self, key: Key, row: Row) {
        match self.contains(&key) {
            true => self.replace(key, row),
            false => self.insert(key, row),
        }
    }

    /// Deletes a row that is visible.
    pub fn delete(&mut self, key: Key) {
        self.cost += 1;
        self.note(&key);
        match self.writes.entry(key) {
            KeyEntry::Vacant(slot) => slot.insert(Write::Delete),
            KeyEntry::Occupied(mut slot) => match slot.get_mut() {
                // Storage does not hold it: nothing is left to write.
                Write::Insert(_) => drop(slot.remove()),
                write => *write = Write::Delete,
            },
        }
    }

    /// Deletes a row if it is visible.
    pub fn delete_if_there(&mut self, key: Key) -> bool {
        let there = self.contains(&key);
        if there {
            self.delete(key);
        }
        there
    }

    /// Deletes all rows with `from <= key < to`, however many, without a look at them. Both keys are
    /// of one table. It cannot be taken back, so no savepoint is set.
    pub fn erase(&mut self, from: Key, to: Key) {
        debug_assert!(self.journal.is_none(), "what is erased cannot be taken back");
        self.cost += 1;
        let written: Vec<Key> =
            self.writes.range(&from, &to).map(|(key, _)| key.into_owned()).collect();
        written.iter().for_each(|key| drop(self.writes.remove(key)));
        match self.erased.last_mut() {
            // What fell due was erased up to here, and now what fell due since.
            Some((start, end)) if *start <= from && from <= *end => *end = to.max(end.clone()),
            _ => self.erased.push((from, to)),
        }
    }

    /// Visits rows with `from <= key < to` in ascending order until the visitor breaks.
    pub fn scan(
        &mut self,
        from: &Key,
        to: &Key,
        visit: &mut dyn FnMut(&Key, &Row) -> ControlFlow<()>,
    ) {
        if from >= to {
            return;
        }
        let mut visited = 0;
        let (rows, erased) = (&self.rows, &self.erased);
        let stored = |each: &mut dyn FnMut(Key, Row) -> ControlFlow<()>| {
            rows.scan(from, to, &mut |key, row| match is_erased(erased, &key) {
                true => ControlFlow::Continue(()),
                false => each(key, row),
            });
        };
        self.writes.scan_over((from, to), Write::row, stored, |key, row| {
            visited += 1;
            visit(&key, &row)
        });
        self.cost += visited;
    }

    /// As [`View::scan`], where storage is known to hold none of these rows.
    pub fn scan_born(
        &mut self,
        from: &Key,
        to: &Key,
        visit: &mut dyn FnMut(&Key, &Row) -> ControlFlow<()>,
    ) {
        if from >= to {
            return;
        }
        for (key, write) in self.writes.range(from, to) {
            let Some(row) = write.row() else { continue };
            self.cost += 1;
            if visit(&key, row).is_break() {
                break;
            }
        }
    }

    /// The keys of at most `count_max` rows with `from <= key < to`, in order.
    pub fn keys(&mut self, from: &Key, to: &Key, count_max: usize) -> Vec<Key> {
        let mut keys = Vec::new();
        if count_max > 0 {
            self.scan(from, to, &mut |key, _| {
                keys.push(key.clone());
                if keys.len() < count_max {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        }
        keys
    }

    /// The first row with `from <= key < to`.
    pub fn first(&mut self, from: &Key, to: &Key) -> Option<(Key, Row)> {
        let mut first = None;
        self.scan(from, to, &mut |key, row| {
            first = Some((key.clone(), row.clone()));
            ControlFlow::Break(())
        });
        first
    }

    /// What there is to store.
    pub fn into_changes(self) -> Changes {
        Changes { erased: self.erased, writes: self.writes, ..Changes::default() }
    }
}

fn is_erased(ranges: &[(Key, Key)], key: &Key) -> bool {
    ranges.iter().any(|(from, to)| from <= key && key < to)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::{MemoryRows, ProducerRow};

    fn key(number: u64) -> Key {
        Key::Outcome(1, number)
    }

    fn row(value: u64) -> Row {
        Row::Producer(ProducerRow { first: 1, highest: value, seen: crate::Timestamp::ZERO })
    }

    fn listed<R: Rows>(view: &mut View<R>, from: u64, to: u64, max: usize) -> Vec<(Key, Row)> {
        let mut found = Vec::new();
        view.scan(&key(from), &key(to), &mut |key, row| {
            found.push((key.clone(), row.clone()));
            if found.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        found
    }

    #[test]
    fn a_row_born_and_deleted_is_never_written() {
        let mut rows = MemoryRows::default();
        rows.write([(key(1), Some(row(1)))]);
        let mut view = View::new(&rows);
        view.insert(key(2), row(2));
        view.delete(key(2));
        assert!(!view.contains(&key(2)));
        // What storage holds needs a tombstone, also when it was written again in between.
        view.delete(key(1));
        view.insert(key(1), row(5));
        view.delete(key(1));
        let writes: Vec<_> = view.into_changes().writes.into_iter().collect();
        assert_eq!(writes, [(key(1), Write::Delete)]);
    }

    /// A change of the property below.
    #[derive(Clone, Debug)]
    enum ViewAct {
        Put(u64),
        Delete(u64),
        Erase(u64, u64),
    }

    fn a_change() -> impl Strategy<Value = ViewAct> {
        prop_oneof![
            6 => (0..24u64).prop_map(ViewAct::Put),
            4 => (0..24u64).prop_map(ViewAct::Delete),
            1 => (0..24u64, 0..8u64).prop_map(|(from, count)| ViewAct::Erase(from, from + count)),
        ]
    }

    #[test]
    fn reads_and_writes_are_counted_by_what_was_asked_for() {
        let mut rows = MemoryRows::default();
        rows.write((0..10).map(|n| (key(n), Some(row(n)))));
        let mut view = View::new(&rows);
        let budget = view.budget(20);
        (0..5).for_each(|n| view.delete(key(n)));
        assert_eq!(view.left(budget), 15);
        // Rows that are gone are no visits.
        assert_eq!(view.keys(&key(0), &key(9), 3), [key(5), key(6), key(7)]);
        assert_eq!(view.left(budget), 12);
        assert_eq!(view.budget(7).0, view.cost + 7);
    }

    proptest! {
        /// What was changed since a savepoint leaves no trace, whatever it was laid over.
        #[test]
        fn a_view_rolled_back_is_as_it_was(
            base in vec(0..12u64, 0..6),
            before in vec((0..12u64, any::<bool>()), 0..12),
            since in vec((0..12u64, any::<bool>()), 0..12),
            kept in any::<bool>(),
        ) {
            let mut rows = MemoryRows::default();
            rows.write(base.into_iter().map(|n| (key(n), Some(row(n)))));
            let change = |view: &mut View<&MemoryRows>, changes: &[(u64, bool)], by: u64| {
                for (n, put) in changes {
                    match put {
                        true => view.put(key(*n), row(n + by)),
                        false => drop(view.delete_if_there(key(*n))),
                    }
                }
            };
            let (mut view, mut expected) = (View::new(&rows), View::new(&rows));
            change(&mut view, &before, 100);
            change(&mut expected, &before, 100);
            view.savepoint();
            change(&mut view, &since, 200);
            if kept {
                view.keep();
                change(&mut expected, &since, 200);
            } else {
                view.roll_back();
            }
            prop_assert_eq!(view.into_changes(), expected.into_changes());
        }
    }

    proptest! {
        /// A view reads like the map that took every change at once.
        #[test]
        fn a_view_reads_like_a_map(
            base in vec(0..24u64, 0..12),
            changes in vec(a_change(), 0..24),
            from in 0..24u64,
            to in 0..26u64,
            max in 1..6usize,
        ) {
            let mut rows = MemoryRows::default();
            rows.write(base.into_iter().map(|n| (key(n), Some(row(n)))));
            let mut model = rows.clone();
            let mut view = View::new(&rows);
            for change in changes {
                match change {
                    ViewAct::Put(n) => {
                        view.put(key(n), row(n + 100));
                        model.write([(key(n), Some(row(n + 100)))]);
                    }
                    ViewAct::Delete(n) => {
                        view.delete_if_there(key(n));
                        model.write([(key(n), None)]);
                    }
                    ViewAct::Erase(from, to) => {
                        view.erase(key(from), key(to));
                        model.erase(&[(key(from), key(to))]);
                    }
                }
            }
            for n in 0..24 {
                prop_assert_eq!(view.get(&key(n)), model.get(&key(n)));
            }
            let keys: Vec<Key> = (0..24).rev().map(key).collect();
            let expected: Vec<_> = keys.iter().map(|key| model.get(key)).collect();
            prop_assert_eq!(view.get_many(keys), expected);
            let expected: Vec<_> = if from < to {
                let range = model.0.range(key(from)..key(to));
                range.take(max).map(|(key, row)| (key.clone(), row.clone())).collect()
            } else {
                Vec::new()
            };
            prop_assert_eq!(listed(&mut view, from, to, max), expected.clone());
            prop_assert_eq!(view.first(&key(from), &key(to)), expected.first().cloned());
            let changes = view.into_changes();
            for (key, write) in changes.writes.iter() {
                prop_assert!(write.row().is_some() || rows.get(&key).is_some());
            }
            let mut left = rows.clone();
            left.erase(&changes.erased);
            left.write(changes.writes);
            prop_assert_eq!(left, model);
        }
    }
}
