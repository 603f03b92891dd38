//! One queue, topic or subscription, as the oracle knows it.

use std::collections::{BTreeMap, VecDeque};

use domain::{
    Counts, EntityId, EntityStatus, QueueProperties, SequenceNumber, Specifics, SubQueue, Timestamp,
};

use super::message::{Message, Place};
use crate::rules::Rule;

/// A batch delete in the entry under way; leaders here put at most one into an entry, so that what it
/// took can be told from what it did not.
#[derive(Clone, Copy, Debug)]
pub struct Deletion {
    pub sub: SubQueue,
    pub before: Timestamp,
    /// Messages it has yet to account for.
    pub left: u32,
    /// Messages it may have taken that had expired as well: accounted as such.
    pub ambiguous: u32,
}

impl Deletion {
    /// BATCH-2, BATCH-4.
    pub fn may_take(&self, message: &Message) -> bool {
        message.place == Place::In(self.sub)
            && !message.deferred
            && message.enqueued_at < self.before
    }

    /// More were reported than went.
    pub fn exceeds(&self) -> bool {
        self.left > self.ambiguous
    }
}

/// DUP-4: an id in the duplicate history.
#[derive(Clone, Copy, Debug)]
pub struct First {
    pub accepted_at: Timestamp,
    pub sequence: SequenceNumber,
    /// It was outside the window once. Should the window grow again it may or may not be found: ends
    /// are taken off when somebody looks.
    pub ended: bool,
}

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Entity {
    pub alive: bool,
    pub properties: QueueProperties,
    pub specifics: Specifics,
    /// A subscription's, in the order of their creation.
    pub rules: Vec<Rule>,
    /// Every value of the properties in the entry under way, the present one last: what an entry
    /// did without being asked may have been done under any of them.
    pub during: Vec<QueueProperties>,
    pub deletion: Option<Deletion>,
    /// By message id, the first message accepted under it.
    pub history: BTreeMap<String, First>,
    /// Numbers issued: one per acceptance, one more per activation (SEQ-1, SEQ-6).
    pub issued: u64,
    pub accepted: u64,
    pub completed: u64,
    pub cancelled: u64,
    pub dropped: u64,
    /// Messages a topic handed on, or has to.
    pub published: u64,
    /// Of a topic: what is not matched with all its rules (RULE-41), in the order of acceptance.
    pub unmatched: VecDeque<PartlyMatched>,
}

/// A published message, of which subscriptions have their copies or not yet.
#[derive(Clone, Debug)]
pub struct PartlyMatched {
    /// The topic's number for it, and when that was given.
    pub number: SequenceNumber,
    pub at: Timestamp,
    pub message: Message,
    /// The first subscription that has not all its copies, and how many it has.
    pub next: EntityId,
    pub made: usize,
    /// Rules of that subscription were changed while it was under way: which of them were looked at before is
    /// the machine's business.
    pub changed: bool,
}

impl Entity {
    pub fn new(properties: QueueProperties, specifics: Specifics) -> Entity {
        Entity {
            alive: true,
            during: vec![properties.clone()],
            properties,
            specifics,
            rules: Vec::new(),
            deletion: None,
            history: BTreeMap::new(),
            issued: 0,
            accepted: 0,
            completed: 0,
            cancelled: 0,
            dropped: 0,
            published: 0,
            unmatched: VecDeque::new(),
        }
    }

    /// A new entry begins.
    pub fn begin(&mut self, at: Timestamp) {
        if self.during.len() > 1 {
            self.during = vec![self.properties.clone()];
        }
        self.deletion = None;
        self.end_history(at);
    }

    pub fn update(&mut self, properties: &QueueProperties, at: Timestamp) {
        self.properties = properties.clone();
        self.during.push(properties.clone());
        self.end_history(at);
    }

    fn end_history(&mut self, at: Timestamp) {
        let window = self.properties.duplicate_detection_window;
        for first in self.history.values_mut() {
            first.ended |= first.accepted_at.plus(window) <= at;
        }
    }

    /// DUP-2: the message this one must repeat, if it repeats one. `answered`: the number it got.
    pub fn first(&self, id: &str, answered: SequenceNumber, at: Timestamp) -> Option<First> {
        let first = self.history.get(id)?;
        let within = at < first.accepted_at.plus(self.properties.duplicate_detection_window);
        (within && (!first.ended || first.sequence == answered)).then_some(*first)
    }

    /// Whether a message was expired at `at` under any properties of this entry with this setting of
    /// the dead-letter flag (TTL-30: read at the moment it is processed).
    pub fn expired(&self, message: &Message, at: Timestamp, dead_letter: bool) -> bool {
        self.during.iter().any(|properties| {
            properties.dead_letter_on_expiration == dead_letter
                && properties.status != EntityStatus::Disabled
                && message.deadline(properties) <= at
        })
    }

    /// STATE-4: locks ran out without counting.
    pub fn uncounted(&self) -> bool {
        self.during.iter().any(|properties| {
            matches!(properties.status, EntityStatus::ReceiveDisabled | EntityStatus::Disabled)
        })
    }

    /// LOCK-21, LOCK-22.
    pub fn delivered_too_often(&self, count: u32) -> bool {
        self.during.iter().any(|properties| count >= properties.max_delivery_count)
    }

    /// As [`Entity::delivered_too_often`], whatever was set when in the entry; and nothing kept it there
    /// nevertheless (STATE-3).
    pub fn delivered_too_often_throughout(&self, count: u32) -> bool {
        self.during.iter().all(|properties| {
            count >= properties.max_delivery_count && !properties.status.is_suspended()
        })
    }

    /// Accounts the entry's batch delete for the message, if it can have taken it.
    pub fn take_deleted(&mut self, message: &Message) -> bool {
        match &mut self.deletion {
            Some(deletion) if deletion.left > 0 && deletion.may_take(message) => {
                deletion.left -= 1;
                true
            }
            _ => false,
        }
    }

    /// What the counters must be, given the messages still there.
    pub fn counts<'a>(&self, messages: impl Iterator<Item = &'a Message>) -> Counts {
        let mut counts = Counts {
            accepted: self.accepted,
            completed: self.completed,
            cancelled: self.cancelled,
            expired: self.dropped,
            published: self.published,
            ..Counts::default()
        };
        for message in messages {
            match message.place {
                Place::Scheduled { .. } => counts.scheduled += 1,
                Place::In(SubQueue::Main) if message.deferred => counts.deferred += 1,
                Place::In(SubQueue::Main) => counts.active += 1,
                Place::In(SubQueue::DeadLetter) => counts.dead_lettered += 1,
                Place::In(SubQueue::Transfer) => counts.transfer += 1,
                Place::In(SubQueue::TransferDeadLetter) => counts.transfer_dead_lettered += 1,
            }
        }
        counts
    }
}
