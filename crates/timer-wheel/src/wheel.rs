//! The wheel itself; the crate's head tells its shape.

use crate::dial::{Dials, Slot, digit};
use crate::slab::{Handle, Slab};

/// A list at the front this short is searched instead of unfolded.
const FRONT_MAX: usize = 16;
/// A list longer than this unfolds when it grows, so that no later call has to move more at once.
const LIST_MAX: u32 = 4096;

/// A timer that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired<K> {
    pub due: u64,
    pub key: K,
}

/// Timers by deadline. A key is whatever the caller wants back; it need not be unique.
#[derive(Clone, Debug)]
pub struct Wheel<K> {
    slab: Slab<K>,
    dials: Dials,
    /// The next deadline where it is known; a timer below it lowers it, its own end clears it.
    next: Option<u64>,
}

impl<K: Copy> Default for Wheel<K> {
    fn default() -> Wheel<K> {
        Wheel::new()
    }
}

impl<K: Copy> Wheel<K> {
    pub fn new() -> Wheel<K> {
        Wheel { slab: Slab::new(), dials: Dials::new(), next: None }
    }

    /// Timers armed.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Arms a timer. One that is due already fires with the next `advance`.
    pub fn arm(&mut self, key: K, due: u64) -> Handle {
        if self.is_empty() || self.next.is_some_and(|next| due < next) {
            self.next = Some(due);
        }
        let slot = self.dials.slot(due);
        let (index, handle) = self.slab.insert(key, due, slot.dial);
        let dial = self.dials.get_mut(slot.dial);
        let head = match dial.count(slot.digit) {
            0 => index,
            _ => self.slab.append(dial.head(slot.digit), index),
        };
        if dial.grown(slot.digit, head) > LIST_MAX && dial.level > 0 {
            self.unfold(slot);
        }
        handle
    }

    /// Takes a timer out before it fires. `None`: it fired or was cancelled before.
    pub fn cancel(&mut self, handle: Handle) -> Option<K> {
        let index = self.slab.find(handle)?;
        Some(self.take(index).key)
    }

    /// The deadline and key of an armed timer.
    pub fn get(&self, handle: Handle) -> Option<(u64, K)> {
        let timer = self.slab.get(self.slab.find(handle)?);
        Some((timer.due, timer.key))
    }

    /// The earliest deadline, exactly. Takes `&mut` because it may have to unfold what comes to
    /// the front; it changes nothing that can be seen.
    pub fn next_deadline(&mut self) -> Option<u64> {
        if self.next.is_none() {
            let slot = self.front()?;
            self.next = self.list(slot).map(|index| self.slab.get(index).due).min();
        }
        // `next` of an empty wheel is cleared by the end of its last timer.
        self.next
    }

    /// Appends to `fired` what is due at `now` (`due <= now`, TIME-5), at most `count_max`, in
    /// order of deadline and, where those are equal, in the order they were armed in. What is left
    /// keeps its order and comes first next time. Returns whether anything due was left.
    pub fn advance(&mut self, now: u64, count_max: usize, fired: &mut Vec<Fired<K>>) -> bool {
        let mut left = count_max;
        while self.next_deadline().is_some_and(|next| next <= now) {
            if left == 0 {
                return true;
            }
            let Some(slot) = self.front() else { break };
            left -= match self.dials.get(slot.dial).level {
                0 => self.fire_equal(slot, left, fired),
                _ => self.fire_sorted(slot, now, left, fired),
            };
        }
        false
    }

    /// Fires from a list of the finest level: all of it is due at one instant.
    fn fire_equal(&mut self, slot: Slot, count_max: usize, fired: &mut Vec<Fired<K>>) -> usize {
        let count = count_max.min(self.dials.get(slot.dial).count(slot.digit) as usize);
        for _ in 0..count {
            let head = self.dials.get(slot.dial).head(slot.digit);
            let timer = self.take(head);
            fired.push(Fired { due: timer.due, key: timer.key });
        }
        count
    }

    /// Fires what is due from a short list of mixed deadlines.
    fn fire_sorted(
        &mut self,
        slot: Slot,
        now: u64,
        count_max: usize,
        fired: &mut Vec<Fired<K>>,
    ) -> usize {
        let mut order = [(0, 0); FRONT_MAX];
        let mut len = 0;
        for index in self.list(slot) {
            order[len] = (self.slab.get(index).due, index);
            len += 1;
        }
        let order = &mut order[..len];
        order.sort_by_key(|(due, _)| *due); // Stable: equal ones stay in the order they were armed.
        let due = order.iter().take(count_max).take_while(|(due, _)| *due <= now);
        let mut count = 0;
        for (_, index) in due {
            let timer = self.take(*index);
            fired.push(Fired { due: timer.due, key: timer.key });
            count += 1;
        }
        count
    }

    /// Unlinks a timer and frees what became empty.
    fn take(&mut self, index: u32) -> crate::slab::Timer<K> {
        let timer = self.slab.get(index);
        let (dial_index, due) = (timer.dial, timer.due);
        if self.next == Some(due) {
            self.next = None;
        }
        let dial = self.dials.get_mut(dial_index);
        let digit = digit(due, dial.level);
        let head = self.slab.unlink(dial.head(digit), index);
        dial.shrunk(digit, head);
        if dial.is_empty() {
            self.dials.fold_empty(dial_index);
        }
        self.slab.remove(index)
    }

    /// The first list, unfolded until it is short or all of one instant.
    fn front(&mut self) -> Option<Slot> {
        let mut dial = crate::dial::ROOT;
        loop {
            let at = self.dials.get(dial);
            let digit = at.first()?;
            dial = match at.finer(digit) {
                Some(finer) => finer,
                None if at.level > 0 && at.count(digit) as usize > FRONT_MAX => {
                    self.unfold(Slot { dial, digit })
                }
                None => return Some(Slot { dial, digit }),
            };
        }
    }

    /// Spreads a list over a finer dial, in order, so that equal deadlines stay in order.
    fn unfold(&mut self, slot: Slot) -> u32 {
        let (head, count) = {
            let dial = self.dials.get(slot.dial);
            (dial.head(slot.digit), dial.count(slot.digit))
        };
        let finer = self.dials.unfold(slot);
        let dial = self.dials.get_mut(finer);
        let mut index = head;
        for _ in 0..count {
            let next = self.slab.next(index);
            let digit = digit(self.slab.get(index).due, dial.level);
            let head = self.slab.append(dial.head(digit), index);
            self.slab.set_dial(index, finer);
            dial.grown(digit, head);
            index = next;
        }
        finer
    }

    /// The timers of a slot's list, in order.
    fn list(&self, slot: Slot) -> impl Iterator<Item = u32> + '_ {
        let dial = self.dials.get(slot.dial);
        let count = dial.count(slot.digit) as usize;
        let first = (count > 0).then(|| dial.head(slot.digit));
        std::iter::successors(first, |index| Some(self.slab.next(*index))).take(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fire(wheel: &mut Wheel<u32>, now: u64, count_max: usize) -> Vec<u32> {
        let mut fired = Vec::new();
        wheel.advance(now, count_max, &mut fired);
        fired.into_iter().map(|timer| timer.key).collect()
    }

    #[test]
    fn time_5_a_deadline_is_reached_when_equal_and_time_8_never_before() {
        let mut wheel = Wheel::new();
        for due in [0, 1, 63, 64, 65, 4095, 4096, 1_700_000_000_000, u64::MAX] {
            let handle = wheel.arm(7, due);
            assert_eq!(wheel.next_deadline(), Some(due));
            assert_eq!(wheel.get(handle), Some((due, 7)));
            if due > 0 {
                assert!(fire(&mut wheel, due - 1, 1).is_empty());
            }
            assert_eq!(fire(&mut wheel, due, 1), [7]);
            assert_eq!(wheel.next_deadline(), None);
            assert_eq!(wheel.get(handle), None);
        }
    }

    #[test]
    fn fires_in_order_of_deadline_then_of_arming() {
        let mut wheel = Wheel::new();
        for (key, due) in [(0, 300), (1, 5), (2, 300), (3, 5), (4, 70_000), (5, 5), (6, 299)] {
            wheel.arm(key, due);
        }
        assert_eq!(fire(&mut wheel, 100_000, 9), [1, 3, 5, 6, 0, 2, 4]);
    }

    #[test]
    fn what_a_bound_leaves_comes_first_next_time() {
        let mut wheel = Wheel::new();
        for key in 0..100 {
            wheel.arm(key, 1_000 + u64::from(key / 10));
        }
        let mut fired = Vec::new();
        assert!(wheel.advance(2_000, 15, &mut fired));
        assert_eq!(wheel.next_deadline(), Some(1_001));
        wheel.arm(100, 1_001); // Behind its equals, before what is due later.
        assert!(wheel.advance(2_000, 6, &mut fired));
        assert!(!wheel.advance(2_000, 80, &mut fired));
        let keys: Vec<u32> = fired.iter().map(|timer| timer.key).collect();
        assert_eq!(keys, (0..20).chain([100]).chain(20..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_timer_may_be_armed_before_what_is_already_at_the_front() {
        let mut wheel = Wheel::new();
        for key in 0..1_000 {
            wheel.arm(key, 600_000 + u64::from(key));
        }
        assert_eq!(wheel.next_deadline(), Some(600_000)); // Unfolds.
        wheel.arm(1_000, 5);
        assert_eq!(wheel.next_deadline(), Some(5));
        assert_eq!(fire(&mut wheel, 600_001, 9), [1_000, 0, 1]);
    }

    #[test]
    fn a_handle_is_good_once() {
        let mut wheel = Wheel::new();
        let old = wheel.arm(1, 10);
        assert_eq!(wheel.cancel(old), Some(1));
        assert_eq!(wheel.cancel(old), None);
        let new = wheel.arm(2, 10); // Takes the same place.
        assert_eq!(wheel.cancel(old), None);
        assert_eq!(wheel.get(new), Some((10, 2)));
        assert_eq!(fire(&mut wheel, 10, 1), [2]);
        assert_eq!(wheel.cancel(new), None);
    }

    #[test]
    fn places_and_dials_are_given_back() {
        let mut wheel = Wheel::new();
        let mut dials = 0;
        for round in 0..20u64 {
            let base = round * 1_000_000_007;
            let handles: Vec<_> = (0..10_000).map(|n| wheel.arm(n, base + n as u64 * 37)).collect();
            wheel.next_deadline();
            for handle in &handles[..5_000] {
                wheel.cancel(*handle);
            }
            assert_eq!(fire(&mut wheel, base + 1_000_000, usize::MAX).len(), 5_000);
            assert!(wheel.is_empty());
            if round == 0 {
                dials = wheel.dials.len();
            }
            assert!(wheel.dials.len() <= dials + 16, "round {round}: {}", wheel.dials.len());
        }
    }

    #[test]
    fn many_of_one_instant_stay_in_one_list() {
        let mut wheel = Wheel::new();
        for key in 0..20_000 {
            wheel.arm(key, 123_456_789);
        }
        assert_eq!(fire(&mut wheel, 123_456_789, usize::MAX), (0..20_000).collect::<Vec<_>>());
    }
}
