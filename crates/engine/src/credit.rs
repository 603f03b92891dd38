//! Who waits for messages, in order of arrival (LOCK-7), and what that justifies asking for.
//!
//! Credit asked for in an `Acquire` is reserved until its outcome is known; what it did not use goes
//! back to its place in the order. The count of available messages comes from effects alone, which
//! arrive in log order; outcomes may arrive after effects of later entries, so no count is derived
//! from them.
//!
//! What is waited for is a queue's messages, a held session's messages, or a session that is free:
//! `K` says which queue or session, and the order and the reckoning are the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use domain::{Outcome, ReceiverId};

use crate::EngineOptions;

/// Credit of one receiver, at one place in the order of its queue.
#[derive(Clone, Copy, Debug)]
struct Grant {
    order: u64,
    receiver: ReceiverId,
    count: u32,
}

/// Credit that an `Acquire` under way may use.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    order: u64,
    count: u32,
    /// Of `count`, how many messages were to become available in the same entry, before it.
    expected: u32,
    /// The queue's `told` when it was made.
    told: u64,
}

#[derive(Clone, Debug)]
struct Receiver<K> {
    queue: K,
    /// Outcomes come in the order the acquires were proposed in.
    reserved: VecDeque<Reservation>,
    /// Credit that comes back is withdrawn, not queued again.
    draining: bool,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    /// As last told.
    available: u64,
    /// How often it was told.
    told: u64,
    /// Nothing came although messages were believed available: ask again when told something new.
    quiet: bool,
    /// Sums over reservations.
    reserved: u64,
    expected: u64,
    /// Ascending by `order`.
    waiting: VecDeque<Grant>,
    receivers: u32,
}

impl Queue {
    /// Puts credit back where it was in the order.
    fn give_back(&mut self, grant: Grant) {
        match self.waiting.binary_search_by_key(&grant.order, |grant| grant.order) {
            Ok(at) => self.waiting[at].count += grant.count,
            Err(at) => self.waiting.insert(at, grant),
        }
    }
}

/// All waiting receivers of a group.
#[derive(Clone, Debug)]
pub(crate) struct Credit<K> {
    queues: BTreeMap<K, Queue>,
    receivers: BTreeMap<ReceiverId, Receiver<K>>,
    /// Queues about which something changed since they were last looked at.
    changed: BTreeSet<K>,
    next_order: u64,
}

impl<K> Default for Credit<K> {
    fn default() -> Credit<K> {
        Credit {
            queues: BTreeMap::new(),
            receivers: BTreeMap::new(),
            changed: BTreeSet::new(),
            next_order: 0,
        }
    }
}

impl<K: Clone + Ord> Credit<K> {
    /// Messages can be received: their count as it now stands.
    pub fn available(&mut self, id: K, count: u64) {
        let queue = self.queues.entry(id.clone()).or_default();
        queue.available = count;
        queue.told += 1;
        queue.quiet = false;
        if !queue.waiting.is_empty() {
            self.changed.insert(id);
        } else if count == 0 {
            self.forget_if_unused(&id);
        }
    }

    /// The entity's description changed; it may let receivers in again.
    pub fn updated(&mut self, id: K) {
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.quiet = false;
            self.changed.insert(id);
        }
    }

    /// There is nothing to receive from any more: returns the receivers, which are detached (ENT-7).
    pub fn deleted(&mut self, id: &K) -> Vec<ReceiverId> {
        let mut detached = Vec::new();
        self.changed.remove(id);
        if self.queues.remove(id).is_some_and(|queue| queue.receivers > 0) {
            let of = self.receivers.iter().filter(|(_, receiver)| receiver.queue == *id);
            detached.extend(of.map(|(id, _)| *id));
        }
        detached.iter().for_each(|id| drop(self.receivers.remove(id)));
        detached
    }

    /// What is known of, within bounds.
    pub fn within(&self, from: &K, to: &K) -> Vec<K> {
        self.queues.range(from..to).map(|(id, _)| id.clone()).collect()
    }

    pub fn is_attached(&self, id: ReceiverId) -> bool {
        self.receivers.contains_key(&id)
    }

    /// A receiver is there, without credit yet. Attaching twice changes nothing.
    pub fn attach(&mut self, id: ReceiverId, queue: K) {
        let receiver =
            Receiver { queue: queue.clone(), reserved: VecDeque::new(), draining: false };
        if let std::collections::btree_map::Entry::Vacant(entry) = self.receivers.entry(id) {
            entry.insert(receiver);
            self.queues.entry(queue).or_default().receivers += 1;
        }
    }

    /// A receiver grants more credit: it queues up behind all credit that waits already.
    pub fn credit(&mut self, id: ReceiverId, count: u32) {
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let Some(queue) = self.queues.get_mut(&receiver.queue) else { return };
        if count == 0 {
            return;
        }
        receiver.draining = false;
        self.changed.insert(receiver.queue.clone());
        match queue.waiting.back_mut() {
            Some(last) if last.receiver == id => last.count = last.count.saturating_add(count),
            _ => {
                let order = self.next_order;
                self.next_order += 1;
                queue.waiting.push_back(Grant { order, receiver: id, count });
            }
        }
    }

    /// Withdraws a receiver's waiting credit and says how much it was. What is reserved is reported
    /// by [`Credit::acquired`] as it comes back.
    pub fn drain(&mut self, id: ReceiverId) -> u32 {
        let Some(receiver) = self.receivers.get_mut(&id) else { return 0 };
        receiver.draining = true;
        let Some(queue) = self.queues.get_mut(&receiver.queue) else { return 0 };
        withdraw(queue, id)
    }

    /// The receiver is gone. Deliveries of an acquire still under way are the caller's to release.
    pub fn detach(&mut self, id: ReceiverId) {
        let Some(receiver) = self.receivers.remove(&id) else { return };
        let Some(queue) = self.queues.get_mut(&receiver.queue) else { return };
        withdraw(queue, id);
        queue.receivers -= 1;
        for reservation in receiver.reserved {
            queue.reserved -= u64::from(reservation.count);
            queue.expected -= u64::from(reservation.expected);
        }
        self.changed.insert(receiver.queue.clone());
        self.forget_if_unused(&receiver.queue);
    }

    /// Credit granted and neither used nor reserved.
    pub fn waiting(&self, id: &K) -> u64 {
        let Some(queue) = self.queues.get(id) else { return 0 };
        queue.waiting.iter().map(|grant| u64::from(grant.count)).sum()
    }

    /// Whether a receiver has credit that is not used.
    pub fn is_awaited(&self, id: &K) -> bool {
        let queue = self.queues.get(id);
        queue.is_some_and(|queue| queue.reserved > 0 || !queue.waiting.is_empty())
    }

    /// A receiver's credit that is not used: waiting, or reserved for an acquire under way.
    pub fn left(&self, id: ReceiverId) -> u32 {
        let Some(receiver) = self.receivers.get(&id) else { return 0 };
        let Some(queue) = self.queues.get(&receiver.queue) else { return 0 };
        let waiting = queue.waiting.iter().filter(|grant| grant.receiver == id);
        let reserved = receiver.reserved.iter().map(|reservation| reservation.count);
        waiting.map(|grant| grant.count).chain(reserved).sum()
    }

    /// What the waiting credit of a queue justifies asking for now, if `incoming` messages become
    /// available in the same entry before it. Reserves the credit it names.
    pub fn wants(
        &mut self,
        id: &K,
        incoming: u32,
        options: &EngineOptions,
        ask: &mut dyn FnMut(&K, ReceiverId, u32),
    ) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        if queue.quiet {
            return;
        }
        let (told, mut incoming) = (queue.told, incoming);
        while let Some(grant) = queue.waiting.front_mut() {
            let (order, receiver) = (grant.order, grant.receiver);
            let room = u64::from(options.reserved_max).saturating_sub(queue.reserved);
            let free = (queue.available + queue.expected + u64::from(incoming))
                .saturating_sub(queue.reserved)
                .min(room)
                .min(u64::from(options.acquire_count_max)) as u32;
            let count = grant.count.min(free);
            if count == 0 {
                break;
            }
            grant.count -= count;
            if grant.count == 0 {
                queue.waiting.pop_front();
            }
            let expected = incoming.min(count);
            incoming -= expected;
            queue.reserved += u64::from(count);
            queue.expected += u64::from(expected);
            let reservation = Reservation { order, count, expected, told };
            if let Some(receiver) = self.receivers.get_mut(&receiver) {
                receiver.reserved.push_back(reservation);
            }
            ask(id, receiver, count);
        }
    }

    /// [`Credit::wants`] for every queue about which something changed.
    pub fn acquires(&mut self, options: &EngineOptions, ask: &mut dyn FnMut(&K, ReceiverId, u32)) {
        while let Some(id) = self.changed.pop_first() {
            self.wants(&id, 0, options, ask);
        }
    }

    /// Whether there is a queue to look at.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The receiver's oldest acquire was answered (`None`: it was not applied, or nobody knows).
    /// Credit it did not use goes back to its place; returns how much was withdrawn instead because
    /// the receiver is draining.
    pub fn acquired(&mut self, id: ReceiverId, outcome: Option<&Outcome>) -> u32 {
        let Some(receiver) = self.receivers.get_mut(&id) else { return 0 };
        let Some(queue) = self.queues.get_mut(&receiver.queue) else { return 0 };
        let Some(reservation) = receiver.reserved.pop_front() else { return 0 };
        queue.reserved -= u64::from(reservation.count);
        queue.expected -= u64::from(reservation.expected);
        let (taken, more) = match outcome {
            Some(Outcome::Acquired { deliveries, more }) => (deliveries.len() as u32, *more),
            Some(Outcome::Accepted { .. }) => (1, false),
            // Refused: the entity is suspended or gone, which its next update or end will tell.
            Some(_) => (0, false),
            None => (0, true),
        };
        let left = reservation.count.saturating_sub(taken);
        if left > 0 && !more && queue.told == reservation.told {
            queue.quiet = true;
        }
        self.changed.insert(receiver.queue.clone());
        if left == 0 || receiver.draining {
            return left;
        }
        queue.give_back(Grant { order: reservation.order, receiver: id, count: left });
        0
    }

    fn forget_if_unused(&mut self, id: &K) {
        if self.queues.get(id).is_some_and(|queue| queue.receivers == 0 && queue.available == 0) {
            self.queues.remove(id);
            self.changed.remove(id);
        }
    }
}

/// Takes a receiver's credit out of the order.
fn withdraw(queue: &mut Queue, id: ReceiverId) -> u32 {
    let mut withdrawn = 0;
    queue.waiting.retain(|grant| {
        withdrawn += if grant.receiver == id { grant.count } else { 0 };
        grant.receiver != id
    });
    withdrawn
}
