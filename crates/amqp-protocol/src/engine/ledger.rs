//! Deliveries that are not settled yet, by delivery-id.

use std::collections::VecDeque;

/// Entries in the order they came. Ids rise by one as a rule, so most are found at once; a settled
/// entry leaves a gap, and gaps are closed when they are the larger part. Nothing is allocated while
/// the number of entries stays the same.
#[derive(Debug)]
pub(crate) struct Ledger<T> {
    entries: VecDeque<(u32, Option<T>)>,
    live: usize,
    /// False once an id came that is not above its predecessor: clients number as they like (FLOW-5).
    sorted: bool,
}

impl<T> Default for Ledger<T> {
    fn default() -> Ledger<T> {
        Ledger { entries: VecDeque::new(), live: 0, sorted: true }
    }
}

/// Fewer gaps than these are not worth closing.
const GAPS_MIN: usize = 64;

impl<T> Ledger<T> {
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    pub(crate) fn push(&mut self, id: u32, value: T) {
        match self.entries.back() {
            None => self.sorted = true,
            Some((last, _)) => self.sorted &= is_after(id, *last),
        }
        self.entries.push_back((id, Some(value)));
        self.live += 1;
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.entries[self.position(id)?].1.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let position = self.position(id)?;
        self.entries[position].1.as_mut()
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let position = self.position(id)?;
        let value = self.entries[position].1.take()?;
        self.live -= 1;
        self.close_gaps();
        Some(value)
    }

    /// The first live id of `first..=last`, where ids lie on a circle. The range is the peer's; the
    /// walk is over what is really here.
    pub(crate) fn first_within(&self, first: u32, last: u32) -> Option<u32> {
        let width = last.wrapping_sub(first);
        let within = |id: u32| id.wrapping_sub(first) <= width;
        let found = |(id, value): &(u32, Option<T>)| value.is_some() && within(*id);
        // A range of half the circle or more begins both before and after everything.
        let start = match self.sorted && width < 1 << 31 {
            true => self.lower_bound(first),
            false => 0,
        };
        self.entries.range(start..).find(|entry| found(entry)).map(|(id, _)| *id)
    }

    /// Removes what `is_gone` names and hands it out.
    pub(crate) fn drain_where(
        &mut self,
        mut is_gone: impl FnMut(&T) -> bool,
        mut each: impl FnMut(T),
    ) {
        for (_, place) in &mut self.entries {
            if place.as_ref().is_some_and(&mut is_gone)
                && let Some(value) = place.take()
            {
                self.live -= 1;
                each(value);
            }
        }
        self.close_gaps();
    }

    fn position(&self, id: u32) -> Option<usize> {
        if self.sorted {
            let position = self.lower_bound(id);
            return self.entries.get(position).filter(|(found, _)| *found == id).map(|_| position);
        }
        // An id that is used twice means the oldest that is still open.
        let is_open = |(other, value): &(u32, Option<T>)| *other == id && value.is_some();
        self.guess(id).or_else(|| self.entries.iter().position(is_open))
    }

    /// Where an id stands if no id before it was left out, which is the rule.
    fn guess(&self, id: u32) -> Option<usize> {
        let (front, _) = self.entries.front()?;
        let position = id.wrapping_sub(*front) as usize;
        self.entries.get(position).filter(|(found, _)| *found == id).map(|_| position)
    }

    /// Where ids from this one on begin, if they are sorted.
    fn lower_bound(&self, id: u32) -> usize {
        let search = || self.entries.partition_point(|(other, _)| is_after(id, *other));
        self.guess(id).unwrap_or_else(search)
    }

    fn close_gaps(&mut self) {
        while self.entries.front().is_some_and(|(_, value)| value.is_none()) {
            self.entries.pop_front();
        }
        let gaps = self.entries.len() - self.live;
        if gaps > GAPS_MIN.max(self.live) {
            self.entries.retain(|(_, value)| value.is_some());
        }
    }
}

/// Whether `a` comes after `b` on the circle of serial numbers (RFC 1982).
fn is_after(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(ids: impl IntoIterator<Item = u32>) -> Ledger<u32> {
        let mut ledger = Ledger::default();
        ids.into_iter().for_each(|id| ledger.push(id, id));
        ledger
    }

    /// SETTLE-11: a range is clamped to what is outstanding.
    #[test]
    fn settle_11_a_range_over_everything_visits_what_is_there() {
        let mut ledger = ledger([u32::MAX - 1, u32::MAX, 0, 7]);
        let mut seen = Vec::new();
        while let Some(id) = ledger.first_within(u32::MAX - 5, u32::MAX - 6) {
            seen.push(ledger.remove(id).unwrap());
        }
        assert_eq!(seen, [u32::MAX - 1, u32::MAX, 0, 7]);
        assert_eq!(ledger.len(), 0);
    }

    #[test]
    fn flow_5_ids_in_any_order_are_found() {
        let mut ledger = ledger([5, 3, 9]);
        assert_eq!(ledger.remove(3), Some(3));
        assert_eq!(ledger.remove(9), Some(9));
        assert_eq!((ledger.remove(3), ledger.get(5)), (None, Some(&5)));
    }

    #[test]
    fn an_old_entry_does_not_keep_the_gaps_after_it() {
        let mut ledger = ledger(0..1);
        for id in 1..100_000 {
            ledger.push(id, id);
            assert_eq!(ledger.remove(id), Some(id));
        }
        assert!(ledger.entries.len() <= GAPS_MIN + 2, "{} entries", ledger.entries.len());
        assert_eq!(ledger.remove(0), Some(0));
        assert!(ledger.entries.is_empty());
    }
}
