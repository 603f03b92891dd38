//! Who waits at this edge, whether or not a leader serves it now: what the coordinator of idleness
//! asks every node (IDLE-4).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use domain::EntityId;
use parking_lot::Mutex;

/// The receivers of this edge.
#[derive(Default)]
pub(crate) struct WaitingReceivers {
    by_link: Mutex<HashMap<u64, Arc<Counts>>>,
}

#[derive(Default)]
struct Counts {
    entity: AtomicU64,
    credit: AtomicU32,
}

/// One receiver's entry; it ends with it.
pub(crate) struct WaitingReceiver {
    receivers: Arc<WaitingReceivers>,
    link: u64,
    counts: Arc<Counts>,
}

impl WaitingReceivers {
    pub fn add(self: &Arc<WaitingReceivers>, link: u64, entity: EntityId) -> WaitingReceiver {
        let counts = Arc::new(Counts::default());
        self.by_link.lock().insert(link, counts.clone());
        let receiver = WaitingReceiver { receivers: self.clone(), link, counts };
        receiver.moved(entity);
        receiver
    }

    /// Which of these entities somebody here has asked for messages of.
    pub fn awaited(&self, asked: &[EntityId]) -> Vec<EntityId> {
        if asked.is_empty() {
            return Vec::new();
        }
        let asked: BTreeSet<EntityId> = asked.iter().copied().collect();
        let by_link = self.by_link.lock();
        let waiting = by_link.values().filter(|counts| counts.credit.load(Ordering::Relaxed) > 0);
        let entities: BTreeSet<EntityId> =
            waiting.map(|counts| EntityId(counts.entity.load(Ordering::Relaxed))).collect();
        asked.intersection(&entities).copied().collect()
    }
}

impl WaitingReceiver {
    /// Its credit as it now stands.
    pub fn credit(&self, credit: u32) {
        self.counts.credit.store(credit, Ordering::Relaxed);
    }

    /// It receives from another entity of the same name.
    pub fn moved(&self, entity: EntityId) {
        self.counts.entity.store(entity.0, Ordering::Relaxed);
    }
}

impl Drop for WaitingReceiver {
    fn drop(&mut self) {
        self.receivers.by_link.lock().remove(&self.link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_4_a_receiver_waits_while_it_has_credit() {
        let receivers = Arc::new(WaitingReceivers::default());
        let (one, two) = (EntityId(1), EntityId(2));
        let first = receivers.add(10, one);
        let second = receivers.add(11, two);
        assert_eq!(receivers.awaited(&[one, two]), []);
        first.credit(5);
        second.credit(1);
        assert_eq!(receivers.awaited(&[one, two, EntityId(3)]), [one, two]);
        assert_eq!(receivers.awaited(&[two]), [two]);
        second.moved(EntityId(3));
        first.credit(0);
        assert_eq!(receivers.awaited(&[one, two, EntityId(3)]), [EntityId(3)]);
        drop(second);
        assert_eq!(receivers.awaited(&[one, two, EntityId(3)]), []);
    }
}
