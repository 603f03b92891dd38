//! What an entry did unasked: expiry, activation, the end of locks, too many deliveries, batch
//! deletes. Rows show it; here it must have had a reason.

use domain::{Delivery, LockRow, MemoryRows, SequenceNumber, SubQueue};

use super::message::{MessageId, Place, lifetime};
use super::seen::{Seen, seen};
use super::{Oracle, pair};
use crate::invariants::{early_expiry, lost, one_lock, one_place};
use crate::report::Holds;

impl Oracle {
    /// Compares what is known with what rows say, and accounts for every difference.
    pub(super) fn reconcile(&mut self, rows: &MemoryRows) -> Holds {
        let mut seen = seen(rows)?;
        let live: Vec<MessageId> = self.messages.keys().copied().collect();
        for id in live {
            match seen.remove(&id) {
                Some(seen) => {
                    self.moved(id, &seen)?;
                    one_place::same(&self.messages[&id], id, &seen)?;
                }
                None => self.left(id)?,
            }
        }
        one_place::nothing_else(&seen)?;
        self.reconcile_sessions(rows)?;
        let entities = self.entities.values();
        lost::all_deleted_found(entities.filter_map(|entity| entity.deletion.as_ref()))
    }

    /// It is there: as known, or moved for a reason.
    fn moved(&mut self, id: MessageId, seen: &Seen) -> Holds {
        let held = self.messages.get(&id).and_then(|message| message.lock);
        if held.is_some() && seen.lock.is_none() {
            self.lapsed(id, seen.delivery_count)?;
        }
        self.follow(id, seen.place, seen.sequence)?;
        match (self.failed.contains(&id), self.messages.get(&id), self.entities.get(&id.0)) {
            (true, Some(message), Some(entity)) => one_place::not_exhausted(message, id, entity),
            _ => Ok(()),
        }
    }

    /// Before a delivery: what the same entry had done to the message.
    pub(super) fn catch_up(&mut self, id: MessageId, sub: SubQueue, delivery: &Delivery) -> Holds {
        let at = self.at;
        let (message, _) = pair(&mut self.messages, &mut self.entities, id)?;
        if message.lock.is_some_and(|lock| lock.until <= at) {
            self.lapsed(id, delivery.delivery_count)?;
        }
        self.follow(id, Place::In(sub), delivery.sequence)
    }

    /// LOCK-12: its lock ended by itself, and that counts; STATE-4: unless nobody may receive.
    fn lapsed(&mut self, id: MessageId, delivery_count: u32) -> Holds {
        let at = self.at;
        let (message, entity) = pair(&mut self.messages, &mut self.entities, id)?;
        one_lock::lapsed(message, id, at)?;
        message.lock = None;
        if !(entity.uncounted() && delivery_count == message.delivery_count) {
            message.failed();
            self.failed.insert(id);
        }
        self.totals.locks_lapsed += 1;
        Ok(())
    }

    /// It is in another place than it was.
    fn follow(&mut self, id: MessageId, to: Place, sequence: SequenceNumber) -> Holds {
        let at = self.at;
        let (message, entity) = pair(&mut self.messages, &mut self.entities, id)?;
        match (message.place, to) {
            (from, to) if from == to => Ok(()),
            (Place::Scheduled { due }, Place::In(SubQueue::Main)) => {
                early_expiry::activated(id, due, at)?;
                // SEQ-6, SEQ-10, TTL-19: as if enqueued now.
                message.place = to;
                message.sequence = sequence;
                message.enqueued_at = at;
                message.lifetime = lifetime(message.ttl, at, &entity.properties);
                entity.issued += 1;
                self.totals.activations += 1;
                Ok(())
            }
            (Place::In(SubQueue::Main), Place::In(SubQueue::DeadLetter)) => {
                let too_often = entity.delivered_too_often(message.delivery_count);
                if !too_often {
                    early_expiry::expired(message, id, entity, at, true)?;
                    self.totals.expiries += 1;
                }
                message.place = to;
                message.session = None; // DLQ-11.
                message.deferred = false; // DLQ-10.
                self.totals.dead_lettered += 1;
                Ok(())
            }
            (from, to) => {
                Err(one_place::broken(format!("{id:?} went from {from:?} to {to:?} unasked")))
            }
        }
    }

    /// It is gone: expired, or deleted in a batch.
    fn left(&mut self, id: MessageId) -> Holds {
        let at = self.at;
        let (message, _) = pair(&mut self.messages, &mut self.entities, id)?;
        if let Some(LockRow { until, .. }) = message.lock {
            let count = message.delivery_count;
            early_expiry::shielded(id, until, at)?;
            self.lapsed(id, count)?;
        }
        let (message, entity) = pair(&mut self.messages, &mut self.entities, id)?;
        let dropped = message.is_in(SubQueue::Main) && entity.expired(message, at, false);
        if dropped {
            if let Some(deletion) = &mut entity.deletion {
                deletion.ambiguous += u32::from(deletion.may_take(message));
            }
            self.totals.expiries += 1;
        } else if !entity.take_deleted(message) {
            // Dead-lettered by this very entry, and deleted there?
            let dead_lettered = entity.expired(message, at, true)
                || entity.delivered_too_often(message.delivery_count);
            if !(message.is_in(SubQueue::Main) && dead_lettered) {
                return lost::gone(message, id, entity, at);
            }
            let sequence = message.sequence;
            self.follow(id, Place::In(SubQueue::DeadLetter), sequence)?;
            let (message, entity) = pair(&mut self.messages, &mut self.entities, id)?;
            if !entity.take_deleted(message) {
                return lost::gone(message, id, entity, at);
            }
        }
        self.end(id, |entity| entity.dropped += 1)
    }
}
