//! What is counted of an entity while entries are applied: for metrics, and for nothing else. No row
//! holds it and nothing is decided by it; a replica that is told to forget it loses figures only.

use crate::Span;

/// What happens to a message, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// In a subscription, a copy.
    Accepted,
    /// DUP-2: a repeat, of which nothing is stored.
    Duplicate,
    /// Under a lock, or to a receiver that deletes. From a dead-letter queue too.
    Delivered,
    /// LOCK-8.
    Completed,
    /// LOCK-2: delivered to a receiver that deletes.
    CompletedOnDelivery,
    /// LOCK-10.
    Abandoned,
    /// LOCK-16, LOCK-20: given back, and not counted.
    Released,
    /// DEFER-1.
    Deferred,
    /// LOCK-12: its receiver neither settled nor renewed in time.
    LockLapsed,
    /// LOCK-13.
    LockRenewed,
    /// SCHED-5.
    Activated,
    /// SCHED-3.
    Cancelled,
    /// TTL-9: dropped.
    Expired,
    /// BATCH-1.
    Deleted,
    /// FWD-4.
    Forwarded,
    /// Of a topic: handed on to its rules.
    Published,
    /// TTL-17.
    DeadLetteredExpired,
    /// LOCK-21.
    DeadLetteredExhausted,
    /// DLQ-8: its receiver said so.
    DeadLetteredByReceiver,
    /// FWD-8, FWD-14: where it was to be forwarded to did not take it.
    DeadLetteredUnforwarded,
    /// A rule's action failed, or what came of it cannot be stored in the subscription.
    DeadLetteredByRule,
}

impl Deed {
    /// Of all of them, in order.
    const COUNT: usize = Deed::DeadLetteredByRule as usize + 1;
}

/// Upper bounds of how late a deadline was met, in milliseconds; what is later is counted behind them.
pub const LATE_MS: [u64; 7] = [10, 50, 100, 500, 1_000, 10_000, 60_000];

/// What has been counted of an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    deeds: [u64; Deed::COUNT],
    /// Of messages accepted.
    pub accepted_bytes: u64,
    /// Of messages delivered, each time.
    pub delivered_bytes: u64,
    /// Deadlines of expiry, schedules and locks, by how late they were met: at most as many milliseconds as
    /// [`LATE_MS`] says, and behind it the rest.
    pub late: [u64; LATE_MS.len() + 1],
    pub late_ms_sum: u64,
}

impl Tally {
    pub fn count(&mut self, deed: Deed) {
        self.deeds[deed as usize] += 1;
    }

    pub fn accepted(&mut self, bytes: u32) {
        self.count(Deed::Accepted);
        self.accepted_bytes += u64::from(bytes);
    }

    pub fn delivered(&mut self, bytes: u32) {
        self.count(Deed::Delivered);
        self.delivered_bytes += u64::from(bytes);
    }

    /// A deadline was met so long after its time.
    pub fn late(&mut self, late: Span) {
        self.late[LATE_MS.partition_point(|bound| *bound < late.0)] += 1;
        self.late_ms_sum = self.late_ms_sum.saturating_add(late.0);
    }

    pub fn of(&self, deed: Deed) -> u64 {
        self.deeds[deed as usize]
    }

    /// Deadlines met.
    pub fn late_count(&self) -> u64 {
        self.late.iter().sum()
    }

    pub fn is_empty(&self) -> bool {
        *self == Tally::default()
    }

    pub fn add(&mut self, other: &Tally) {
        let Tally { deeds, accepted_bytes, delivered_bytes, late, late_ms_sum } = self;
        for (sum, more) in deeds.iter_mut().zip(other.deeds) {
            *sum += more;
        }
        *accepted_bytes += other.accepted_bytes;
        *delivered_bytes += other.delivered_bytes;
        for (sum, more) in late.iter_mut().zip(other.late) {
            *sum += more;
        }
        *late_ms_sum = late_ms_sum.saturating_add(other.late_ms_sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_counted_below_the_bound_it_keeps() {
        let mut tally = Tally::default();
        for late_ms in [0, 10, 11, 60_000, 60_001] {
            tally.late(Span(late_ms));
        }
        assert_eq!(tally.late, [2, 1, 0, 0, 0, 0, 1, 1]);
        assert_eq!((tally.late_count(), tally.late_ms_sum), (5, 120_022));
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!((sum.late_count(), sum.late_ms_sum), (10, 240_044));
    }
}
