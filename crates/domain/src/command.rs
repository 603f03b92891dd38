//! One entry of a group's log: what was asked, never what came of it. The log outlives the binary:
//! a released variant keeps its meaning; new behaviour is a new variant.

mod address;
mod facts;
mod level;
#[cfg(test)]
mod tests;
mod weight;

pub use facts::{Facts, Repeat, Requester, Sends};
pub use weight::Weight;

use crate::{
    CatalogCommand, Commit, DeadlineKind, EntityId, ForwardCommand, Key, LockToken, NewMessage,
    NewRule, Origin, Properties, QueueId, QueueProperties, ReceiverId, Refusal, RelocationCommand,
    Row, SequenceNumber, SessionCommand, Span, SubscriptionProperties, Timestamp, TopicProperties,
};

/// One log entry: what a proposer gathered, under one time stamp (TIME-4).
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub at: Timestamp,
    /// Lock nonces derive from this and a command's position: all randomness comes from the log.
    pub seed: [u8; 16],
    pub commands: Vec<Command>,
}

/// What is asked of a group. Each variant has a file: its `apply` and its table of tests.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    CreateQueue(CreateQueue),
    UpdateQueue(UpdateQueue),
    /// ENT-7: the entity's row goes in this entry, and with a topic's those of its subscriptions;
    /// `Sweep` removes the rest.
    DeleteEntity {
        entity: EntityId,
    },
    Send(Send),
    Acquire(Acquire),
    Settle(Settle),
    Renew(Renew),
    CancelScheduled(CancelScheduled),
    ReceiveDeferred(ReceiveDeferred),
    DeleteBatch(DeleteBatch),
    Fire(Fire),
    FireLocks(FireLocks),
    /// A use that no other entry tells of, and any in the next `TOUCH_LASTS` (IDLE-14): a peek, or
    /// somebody who waits for messages.
    Touch {
        entity: EntityId,
    },
    Seal(Seal),
    /// Nothing but its time: while it has a leader, the log of a group with temporary entities is
    /// never silent for `SILENCE_MAX`.
    Beat,
    /// Removes rows of deleted entities, at most `APPLY_ROWS_MAX`.
    Sweep,
    /// Development mode: moves the group's time forward.
    AdvanceClock {
        by: Span,
    },
    /// Moves the group's time as far forward as the catalog's is. A repeat does nothing more.
    RaiseClock {
        to: Span,
    },
    /// To the catalog group only.
    Catalog(CatalogCommand),
    /// Of an entity that requires sessions (SESS).
    Session(SessionCommand),
    /// About topics, subscriptions and their rules.
    Topic(TopicCommand),
    Refuse(Refuse),
    /// Between the groups of a source and its destination (FWD).
    Forward(ForwardCommand),
    /// A transaction (TX).
    Commit(Commit),
    Select(Select),
    /// What the matching of the commands behind this one may take together, in units of
    /// [`MatchCost`](crate::MatchCost), up to the next of its kind; the rest of it goes on in later entries
    /// (RULE-41). Before the first one, and without, matching takes what it takes.
    LimitMatching {
        units_max: u64,
    },
    /// What is applied up to this entry, all of it, is before this cut of the whole cluster, and what comes
    /// later is behind it. Without effect for a group that has had it, or a later one.
    Cut {
        number: u64,
    },
    Restore(Restore),
    /// From here on the log is applied by the rules of this feature level, which all nodes know: nodes of several
    /// versions come to the same rows before it and behind it. One below that of before has no effect.
    ReachLevel {
        level: u32,
    },
    /// An entity goes from one group to another.
    Relocate(RelocationCommand),
}

/// Rows of a backup, as they were in a group of the cluster that it was made of. From the first to the last of a
/// restore the group's leader does nothing by itself, and nothing arrives there that is forwarded: it could find
/// a half. Without effect once it has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Restore {
    /// Drawn for all commands of it.
    pub restore: u128,
    pub rows: Vec<(Key, Row)>,
    /// All that this group gets is there with these.
    pub is_last: bool,
}

/// Creates a queue under an id the catalog issued. A repeat for the same id is `Done`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateQueue {
    pub entity: EntityId,
    pub name: String,
    pub properties: Box<QueueProperties>,
}

/// ENT-4, ENT-5: all properties, as they shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateQueue {
    pub origin: Option<Origin>,
    pub entity: EntityId,
    pub properties: Box<QueueProperties>,
}

/// A batch is one unit: accepted entirely or refused entirely (SEND-3). Scheduling is a send whose
/// messages have a schedule time (SCHED-1).
#[derive(Clone, Debug, PartialEq)]
pub struct Send {
    pub origin: Option<Origin>,
    pub entity: EntityId,
    pub messages: Vec<NewMessage>,
}

/// Takes up to `count_max` available messages under locks (LOCK-3, LOCK-7). Receive-and-delete is a
/// lock that the edge completes just before it hands the message out (LOCK-2).
#[derive(Clone, Debug, PartialEq)]
pub struct Acquire {
    pub queue: QueueId,
    pub receiver: ReceiverId,
    pub count_max: u32,
    /// Stops after the message that reaches this many bytes.
    pub bytes_max: u32,
}

/// Takes those of these messages that are available under locks, lowest number first, and passes over
/// the others (SEL-6). What lay before a message that nobody had been given yet is from then on as if
/// it had come back.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    pub origin: Option<Origin>,
    pub queue: QueueId,
    pub receiver: ReceiverId,
    pub numbers: Vec<SequenceNumber>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settle {
    pub origin: Option<Origin>,
    pub queue: QueueId,
    pub settlements: Vec<Settlement>,
    /// One step: any lock not held refuses them all (LOCK-17). Otherwise each has its own outcome.
    pub atomic: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    pub token: LockToken,
    pub disposition: Disposition,
}

/// LOCK-8 to LOCK-11, LOCK-16.
#[derive(Clone, Debug, PartialEq)]
pub enum Disposition {
    Complete,
    Abandon {
        properties: Properties,
    },
    Defer {
        properties: Properties,
    },
    DeadLetter {
        reason: Option<String>,
        description: Option<String>,
        properties: Properties,
    },
    /// Unlocks without counting a delivery: AMQP's `released` (LOCK-16), or a grant that never
    /// arrived (LOCK-20).
    Release,
    /// Refused like a lock that is not held: it is part of an open transaction, which only the leader
    /// knows (TX-9), and which it writes here in the place of what was asked.
    Withheld,
}

/// LOCK-13. All or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Renew {
    pub origin: Option<Origin>,
    pub queue: QueueId,
    pub tokens: Vec<LockToken>,
}

/// SCHED-3, SCHED-4: all or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct CancelScheduled {
    pub origin: Option<Origin>,
    pub entity: EntityId,
    pub numbers: Vec<SequenceNumber>,
}

/// DEFER-2 to DEFER-4: all or nothing; takes locks.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiveDeferred {
    pub origin: Option<Origin>,
    pub queue: QueueId,
    pub receiver: ReceiverId,
    pub numbers: Vec<SequenceNumber>,
}

/// BATCH-1 to BATCH-8.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteBatch {
    pub origin: Option<Origin>,
    pub queue: QueueId,
    pub count_max: u32,
    /// Only messages enqueued strictly before; absent: the entry's time (BATCH-2).
    pub before: Option<Timestamp>,
}

/// What the leader believes is due. A hint: it names where to look and how far, each row decides,
/// and so a timer may fire late but never early (TIME-8), and a lost hint strands nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fire {
    pub entity: EntityId,
    pub kind: DeadlineKind,
    /// Most messages to take, itself bounded by `APPLY_ROWS_MAX`.
    pub count_max: u32,
}

/// Locks believed lapsed. A token whose lock was settled or renewed meanwhile is passed over.
#[derive(Clone, Debug, PartialEq)]
pub struct FireLocks {
    pub locks: Vec<(QueueId, LockToken)>,
}

/// Deletes an idle entity, unless it was used since: check and deed are one entry (IDLE-15). One that
/// is not known is deleted already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    pub entity: EntityId,
    /// As the coordinator knew it: whoever used it later was not asked.
    pub idle_since: Timestamp,
}

/// What the leader refused for a reason no row knows (QUOTA-37), in the place of what was asked: it
/// uses the serial up, so that the next one finds no gap, and a repeat is answered like the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Refuse {
    pub origin: Option<Origin>,
    pub refusal: Refusal,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TopicCommand {
    Create(CreateTopic),
    Update(UpdateTopic),
    CreateSubscription(CreateSubscription),
    UpdateSubscription(UpdateSubscription),
    PutRule(PutRule),
    RemoveRule(RemoveRule),
}

/// As [`CreateQueue`].
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTopic {
    pub entity: EntityId,
    pub name: String,
    pub properties: Box<TopicProperties>,
}

/// As [`UpdateQueue`]. A changed default re-times what derives from it in every subscription
/// (TTL-24).
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateTopic {
    pub origin: Option<Origin>,
    pub entity: EntityId,
    pub properties: Box<TopicProperties>,
}

/// As [`CreateQueue`], with its first rule (RULE-2).
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSubscription {
    pub entity: EntityId,
    pub topic: EntityId,
    /// Its path.
    pub name: String,
    pub properties: Box<SubscriptionProperties>,
    pub rule: Box<NewRule>,
}

/// As [`UpdateQueue`].
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateSubscription {
    pub origin: Option<Origin>,
    pub entity: EntityId,
    pub properties: Box<SubscriptionProperties>,
}

/// Adds a rule, or puts it in the place of the one of its name. Effective for what is accepted from
/// here on (RULE-13).
#[derive(Clone, Debug, PartialEq)]
pub struct PutRule {
    pub origin: Option<Origin>,
    /// The subscription.
    pub entity: EntityId,
    pub rule: Box<NewRule>,
    /// Whether there must be one of this name, or must not (RULE-1).
    pub replace: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RemoveRule {
    pub origin: Option<Origin>,
    /// The subscription.
    pub entity: EntityId,
    pub name: String,
}
