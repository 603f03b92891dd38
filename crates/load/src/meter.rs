//! What tasks measure: latencies and counts, of the whole run, of what is measured, and of each slice of time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use workload::Recorder;

use crate::link::Verdict;
use crate::threshold::Span;

/// Errors that are counted each by itself.
const ERRORS_MAX: usize = 64;
const OTHER_ERRORS: &str = "others";

/// Counts from the run's beginning on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub acknowledged: u64,
    pub deliveries: u64,
    /// Deliveries that were the first of their message.
    pub delivered: u64,
    /// Messages found among dead letters.
    pub dead: u64,
    pub completed: u64,
    pub errors: u64,
}

/// Latencies of each kind.
#[derive(Clone, Debug, Default)]
pub struct Recorders([Recorder; Span::ALL.len()]);

impl Recorders {
    pub fn of(&self, span: Span) -> &Recorder {
        &self.0[span as usize]
    }

    fn record_all(&mut self, span: Span, took: Duration, count: u64) {
        self.0[span as usize].record_all(took, count);
    }

    /// Adds what another recorded.
    pub fn merge(&mut self, other: &Recorders) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| own.merge(other));
    }

    /// Adds what another recorded of one kind.
    pub fn add(&mut self, span: Span, other: &Recorder) {
        self.0[span as usize].merge(other);
    }
}

/// Everything recorded. Tasks book once for all that came at a time.
#[derive(Debug, Default)]
pub struct Books {
    pub counts: Counts,
    pub errors: BTreeMap<String, u64>,
    verdicts: [u64; Verdict::ALL.len()],
    /// Of what was due while it was measured, up to the last slice.
    measured: Recorders,
    /// Since the last slice: each is recorded in one place only.
    measured_slice: Recorders,
    other_slice: Recorders,
}

impl Books {
    pub fn record(&mut self, span: Span, took: Duration, is_measured: bool) {
        self.record_all(span, took, 1, is_measured);
    }

    /// Records so many that took the same.
    pub fn record_all(&mut self, span: Span, took: Duration, count: u64, is_measured: bool) {
        let slice = if is_measured { &mut self.measured_slice } else { &mut self.other_slice };
        slice.record_all(span, took, count);
    }

    /// Of what was due while it was measured.
    pub fn measured(&self) -> Recorders {
        let mut measured = self.measured.clone();
        measured.merge(&self.measured_slice);
        measured
    }

    /// Adds what another generator has recorded of what was due while it was measured; its slices came by themselves.
    pub fn add_measured(&mut self, measured: &Recorders) {
        self.measured.merge(measured);
    }

    /// Counts a verdict that was confirmed.
    pub fn verdict(&mut self, verdict: Verdict) {
        self.verdicts[verdict as usize] += 1;
    }

    /// How many of each kind were confirmed, by name; none where there are none.
    pub fn verdicts(&self) -> BTreeMap<String, u64> {
        let all = Verdict::ALL.into_iter().zip(self.verdicts);
        let given = all.filter(|(_, count)| *count > 0);
        given.map(|(verdict, count)| (verdict.name().to_owned(), count)).collect()
    }

    /// Counts an error that befell so many messages.
    pub fn error(&mut self, name: &str, messages: u64) {
        self.counts.errors += messages;
        // What a broker says may differ every time.
        let is_room = self.errors.len() < ERRORS_MAX || self.errors.contains_key(name);
        let name = if is_room { name } else { OTHER_ERRORS };
        match self.errors.get_mut(name) {
            Some(count) => *count += messages,
            None => drop(self.errors.insert(name.to_owned(), messages)),
        }
    }

    /// In the order of the kinds.
    pub fn verdict_counts(&self) -> [u64; Verdict::ALL.len()] {
        self.verdicts
    }

    /// Books what another generator has counted since it told last.
    pub fn add(&mut self, counts: &Counts, verdicts: [u64; Verdict::ALL.len()], slice: &Recorders) {
        let own = &mut self.counts;
        own.acknowledged += counts.acknowledged;
        own.deliveries += counts.deliveries;
        own.delivered += counts.delivered;
        own.dead += counts.dead;
        own.completed += counts.completed;
        self.verdicts.iter_mut().zip(verdicts).for_each(|(own, count)| *own += count);
        self.other_slice.merge(slice);
    }

    /// What was recorded since it was asked for last.
    pub fn take_slice(&mut self) -> Recorders {
        let slice = std::mem::take(&mut self.measured_slice);
        self.measured.merge(&slice);
        let mut all = std::mem::take(&mut self.other_slice);
        all.merge(&slice);
        all
    }
}

/// Books that tasks share.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Books>);

impl Meter {
    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_what_came_since_the_last() {
        let meter = Meter::default();
        let ms = Duration::from_millis;
        meter.books().record(Span::Send, ms(5), true);
        meter.books().record(Span::Send, ms(7), false);
        meter.books().error("late", 2);
        meter.books().error("late", 1);
        assert_eq!(meter.books().take_slice().of(Span::Send).summary().count, 2);
        assert_eq!(meter.books().take_slice().of(Span::Send).summary().count, 0);
        assert_eq!(meter.books().measured().of(Span::Send).summary().count, 1);
        meter.books().record_all(Span::Send, ms(5), 4, true);
        assert_eq!(meter.books().measured().of(Span::Send).summary().count, 5);
        assert_eq!(meter.books().measured().of(Span::Settle).summary().count, 0);
        let books = meter.books();
        assert_eq!((books.counts.errors, books.errors["late"]), (3, 3));
    }

    #[test]
    fn errors_that_are_never_the_same_are_counted_together() {
        let mut books = Books::default();
        (0..1_000).for_each(|number| books.error(&format!("tracking id {number}"), 2));
        books.error("tracking id 0", 1);
        assert_eq!((books.counts.errors, books.errors.len()), (2_001, ERRORS_MAX + 1));
        assert_eq!((books.errors["tracking id 0"], books.errors[OTHER_ERRORS]), (3, 1_872));
    }
}
