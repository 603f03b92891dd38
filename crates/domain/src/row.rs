//! Rows: everything a group remembers. One table per variant; the order of [`Key`] is the order of
//! the bytes in storage (`wire::key` holds that as a property), so a table, an entity within a
//! table, or a queue is one range. In every table the entity comes first, so that each table of an
//! entity can be swept.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    ArrivalRow, Claim, Counts, DirectoryRow, DocumentRow, EndedCreationRow, EntityId, FaultRuleRow,
    Forwarding, GroupId, GroupRow, HeldRow, JoinTokenRow, Lifetime, NamespaceIdleRow, NamespaceRow,
    NodeRow, NodeState, Outcome, PerSubQueue, Properties, QueueId, QueueProperties, ReceiverId,
    RelocationRow, RuleRow, SequenceNumber, SessionId, SessionList, SessionRow, SessionTotals,
    ShipmentRow, Span, Specifics, SystemProperty, Timestamp, Travel, Unmatched, UnmatchedRow,
};

/// Where a row stands. Variants are tables; their order and numbers are for ever.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// One per group.
    Meta,
    /// What an entity is told to be; changes with its description only.
    Entity(EntityId),
    /// What changes with every entry: written once per batch.
    EntityState(EntityId),
    /// Content as the producer sent it, written once. Holds no subqueue: a move to the dead-letter
    /// queue rewrites only the small message row. Copies in subscriptions share their topic's.
    Body(EntityId, SequenceNumber),
    /// A stored message that is not scheduled.
    Message(QueueId, SequenceNumber),
    /// Available although below the fresh head.
    Returned(QueueId, SequenceNumber),
    Lock(QueueId, SequenceNumber),
    /// A message waiting for its time; `Deadline(.., Scheduled, ..)` orders them by it.
    Scheduled(EntityId, SequenceNumber),
    /// Fixed deadlines and schedules in order of time, of messages in the main queue. Derived ones
    /// need no rows: they follow enqueue order (TTL-24).
    Deadline(EntityId, DeadlineKind, Timestamp, SequenceNumber),
    /// Duplicate history by id, and in order of acceptance.
    DuplicateId(EntityId, String),
    DuplicateTime(EntityId, Timestamp, String),
    /// An entity deleted whose other rows are not all removed yet.
    Sweep(EntityId),
    /// SEND-8: producer, and producers in order of last use (to the minute).
    Producer(u64),
    ProducerSeen(Timestamp, u64),
    /// Outcome of (producer, serial).
    Outcome(u64, u64),
    /// Catalog: one row for the whole cluster.
    Cluster,
    /// Catalog: entity directory by lower-cased name (ENT-1).
    Directory(String),
    /// Catalog: a node of the cluster.
    Node(u64),
    /// Catalog: replicas of a group.
    Group(GroupId),
    /// A session with messages, a lock or a state.
    Session(EntityId, SessionId),
    /// A message of a session, by the list it stands in.
    SessionMessage(EntityId, SessionId, SessionList, SequenceNumber),
    /// A message of a session under delivery.
    SessionHeld(EntityId, SessionId, SequenceNumber),
    /// A free session with ready messages, in the order they are accepted (SESS-7).
    SessionFree(EntityId, Claim),
    /// A session that has a lock: what a new leader looks through instead of all sessions.
    SessionLocked(EntityId, SessionId),
    SessionState(EntityId, SessionId),
    /// A topic's subscription.
    Subscription(EntityId, EntityId),
    /// A subscription's rule by lower-cased name (ENT-1).
    Rule(EntityId, String),
    /// How many copies share a topic's body, where it is more than one.
    BodyCopies(EntityId, SequenceNumber),
    /// A shipment of a forwarded queue or of a transfer queue that is not settled, by its serial.
    Shipment(QueueId, u64),
    /// Dead letters set aside because the destination refused one, by their shipment's serial; true:
    /// those that are not forwarded again, by the first one's number.
    Parked(QueueId, bool, u64),
    /// What came of a source's shipments to a destination of this group. The source comes first: it
    /// outlives the destination here.
    Arrival(QueueId, EntityId),
    /// Catalog: of a node that is leaving or has left.
    NodeState(u64),
    /// Catalog: how often a data group's replicas were moved; absent where they never were.
    Moves(GroupId),
    /// Catalog: a join token, by its id.
    JoinToken(u64),
    /// A message that its topic has accepted, and not looked at with all its rules yet (RULE-41).
    Unmatched(EntityId, SequenceNumber),
    /// Catalog: who founds a data group that came later than the cluster.
    Founders(GroupId),
    /// A backup is being restored into this group, or was; in the catalog, into this cluster.
    Restoring,
    /// Of an entity that came from another group, or went or goes to one.
    Relocation(EntityId),
    /// Catalog: what faults clients are to meet.
    FaultRules,
    /// Catalog: a part of the creations whose entities are gone lately (ENT-2).
    EndedCreations(u16),
    /// Catalog: a namespace, by its name.
    Namespace(String),
    /// Catalog: of a namespace that is deleted once it is idle, by its name.
    NamespaceIdle(String),
    /// Catalog: a document of a management interface, by its name.
    Document(String),
}

impl Key {
    /// The entity that the row goes with, wherever that is; none of what is the group's or the catalog's own.
    pub fn entity(&self) -> Option<EntityId> {
        match self {
            Key::Entity(entity)
            | Key::EntityState(entity)
            | Key::Body(entity, _)
            | Key::Scheduled(entity, _)
            | Key::Deadline(entity, ..)
            | Key::DuplicateId(entity, _)
            | Key::DuplicateTime(entity, ..)
            | Key::Sweep(entity)
            | Key::Session(entity, _)
            | Key::SessionMessage(entity, ..)
            | Key::SessionHeld(entity, ..)
            | Key::SessionFree(entity, _)
            | Key::SessionLocked(entity, _)
            | Key::SessionState(entity, _)
            | Key::Subscription(entity, _)
            | Key::Rule(entity, _)
            | Key::BodyCopies(entity, _)
            | Key::Unmatched(entity, _)
            | Key::Arrival(_, entity)
            | Key::Relocation(entity) => Some(*entity),
            Key::Message(queue, _)
            | Key::Returned(queue, _)
            | Key::Lock(queue, _)
            | Key::Shipment(queue, _)
            | Key::Parked(queue, ..) => Some(queue.entity),
            Key::Meta
            | Key::Producer(_)
            | Key::ProducerSeen(..)
            | Key::Outcome(..)
            | Key::Cluster
            | Key::Directory(_)
            | Key::Node(_)
            | Key::Group(_)
            | Key::NodeState(_)
            | Key::Moves(_)
            | Key::JoinToken(_)
            | Key::Founders(_)
            | Key::Restoring
            | Key::FaultRules
            | Key::EndedCreations(_)
            | Key::Namespace(_)
            | Key::NamespaceIdle(_)
            | Key::Document(_) => None,
        }
    }
}

/// Which deadlines of an entity; each has at most one timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DeadlineKind {
    Scheduled = 0,
    Fixed = 1,
    Derived = 2,
    /// End of the oldest entry of the duplicate history.
    Duplicate = 3,
    /// Of a topic: there are messages whose matching goes on (RULE-41). It has no rows.
    Matching = 4,
}

impl DeadlineKind {
    pub const ALL: [DeadlineKind; 5] = [
        DeadlineKind::Scheduled,
        DeadlineKind::Fixed,
        DeadlineKind::Derived,
        DeadlineKind::Duplicate,
        DeadlineKind::Matching,
    ];
}

/// A row's value. Its variant always matches its key's.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    Meta(Meta),
    Entity(Box<EntityRow>),
    EntityState(Box<EntityState>),
    Body(Bytes),
    Message(MessageRow),
    Returned,
    Lock(LockRow),
    Scheduled(ScheduledRow),
    /// Of a message that came with it and may be dropped by it: what that takes.
    Deadline(Option<DeadlineRow>),
    DuplicateId {
        accepted_at: Timestamp,
        sequence: SequenceNumber,
    },
    DuplicateTime,
    /// Of a subscription: its topic, whose bodies its messages share.
    Sweep {
        topic: Option<EntityId>,
    },
    Producer(ProducerRow),
    ProducerSeen,
    Outcome(Outcome),
    Cluster(ClusterRow),
    Directory(DirectoryRow),
    Node(NodeRow),
    Group(GroupRow),
    Session(Box<SessionRow>),
    SessionMessage,
    SessionHeld(HeldRow),
    SessionFree(SessionId),
    SessionLocked,
    SessionState(Bytes),
    Subscription,
    Rule(Box<RuleRow>),
    BodyCopies(u32),
    Shipment(ShipmentRow),
    Parked(Vec<SequenceNumber>),
    Arrival(ArrivalRow),
    NodeState(NodeState),
    Moves(u64),
    JoinToken(JoinTokenRow),
    Unmatched(Box<UnmatchedRow>),
    /// Nodes, each with the id of the data directory it had when the group was added: one that has another by
    /// now has lost what it may have promised, and founds nothing.
    Founders(Vec<(u64, u32)>),
    Restoring(RestoringRow),
    Relocation(Box<RelocationRow>),
    /// At most [`FAULT_RULES_MAX`](crate::FAULT_RULES_MAX), each of another name.
    FaultRules(Vec<FaultRuleRow>),
    /// In the order of their ends.
    EndedCreations(Vec<EndedCreationRow>),
    Namespace(Box<NamespaceRow>),
    NamespaceIdle(NamespaceIdleRow),
    Document(Box<DocumentRow>),
}

/// What the group as a whole remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The highest time stamp applied: time never runs back (TIME-3).
    pub last_at: Timestamp,
    /// How far an operator moved the development clock forward, ms.
    pub clock_offset: Span,
    /// Rows in `Producer`.
    pub producers: u64,
    /// Since when the log has had no silence of `SILENCE_MAX`: it had a leader all the time, and
    /// whoever wanted to use an entity could.
    pub unbroken_since: Timestamp,
    /// The last cut of the whole cluster that came by here; 0: none ever ([`Command::Cut`](crate::Command::Cut)).
    pub cut: u64,
    /// The feature level that the log has reached: by whose rules its entries are applied. 0: those of 0.1
    /// ([`Command::ReachLevel`](crate::Command::ReachLevel)).
    pub level: u32,
}

/// All that dropping a fresh message takes. Deadlines come in another order than messages: without it
/// each would cost a look-up at a place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineRow {
    /// As [`MessageRow::body`].
    pub body: SequenceNumber,
    /// As [`MessageRow::size_bytes`], while the message is fresh.
    pub size_bytes: u32,
}

/// Catalog: the cluster as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRow {
    /// Drawn when the cluster is created; a data directory of another cluster is refused.
    pub cluster_id: u128,
    /// Data groups that entities are put on: groups 1 to `data_groups`. Those that were added and are not open
    /// yet come after them.
    pub data_groups: u16,
    pub replication_factor: u8,
    /// Next entity id; ids are never reused (ENT-8).
    pub next_entity: u64,
    /// The command variants all nodes know.
    pub feature_level: u32,
}

/// What is being restored, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoringRow {
    /// Drawn by who restores: nobody else goes on with it.
    pub restore: u128,
    pub begun_at: Timestamp,
    /// All of it is there.
    pub has_ended: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct EntityRow {
    /// As given at creation: case-preserving (ENT-1). Of a subscription, its path.
    pub name: String,
    /// What holds for its messages.
    pub properties: QueueProperties,
    pub specifics: Specifics,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Cached decoded per group, written once per batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityState {
    /// The number the next accepted or activated message gets.
    pub next_sequence: SequenceNumber,
    /// Numbers at or above are *fresh*: receivable with nothing stored but their message row. Per
    /// subqueue, indexed by `SubQueue as usize`, as are the next three.
    pub fresh_head: PerSubQueue<SequenceNumber>,
    /// Rows in `Returned`, and a number none of them is below: where to look for the first, so that
    /// no range of tombstones is scanned twice.
    pub returned: PerSubQueue<u64>,
    pub returned_low: PerSubQueue<SequenceNumber>,
    /// Messages that can be received now: fresh and returned; of an entity that requires sessions,
    /// whose main queue has neither, the ready ones of all sessions.
    pub available: PerSubQueue<u64>,
    /// Deferred messages in the dead-letter queues (those in the main queue are `counts.deferred`).
    pub dead_letter_deferred: u64,
    pub transfer_dead_letter_deferred: u64,
    pub counts: Counts,
    /// Body and property bytes of all stored messages (QUOTA-32).
    pub size_bytes: u64,
    /// First row of `Deadline` of kinds Scheduled and Fixed.
    pub scheduled_next: Option<(Timestamp, SequenceNumber)>,
    pub fixed_next: Option<(Timestamp, SequenceNumber)>,
    /// Where the search for derived deadlines stands: every derived message below it was due when
    /// it was passed. `derived_next` is when the first one at or above it was enqueued, or an
    /// earlier instant where so many others come before it that the search has not met it yet.
    pub derived_cursor: SequenceNumber,
    pub derived_next: Option<Timestamp>,
    /// When the oldest entry of the duplicate history was accepted.
    pub duplicate_next: Option<Timestamp>,
    /// COUNT-6: last send or receive request. Written free by entries already in the log.
    pub accessed_at: Timestamp,
    /// IDLE-2, IDLE-5: last activity, to the precision of IDLE-14. It may lie ahead, by
    /// `TOUCH_LASTS` at most: what the log does not see is written before it comes.
    pub last_use: Timestamp,
    pub sessions: SessionTotals,
    pub forwarding: PerSubQueue<Forwarding>,
    /// Of a topic.
    pub unmatched: Unmatched,
}

/// The small row of a message: all that may change about it, less its lock.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRow {
    /// The number the body is stored under; differs from the key's after an activation. Of a copy,
    /// the number its topic gave it (SEQ-9).
    pub body: SequenceNumber,
    pub size_bytes: u32,
    pub header_bytes: u32,
    pub deferred: bool,
    /// It waited here for its time, or at the topic of which it is a copy (SCHED-17).
    pub was_scheduled: bool,
    pub delivery_count: u32,
    pub enqueued_at: Timestamp,
    pub lifetime: Lifetime,
    /// Present exactly in the main queue of an entity that requires sessions (SESS-2, DLQ-11).
    pub session: Option<SessionId>,
    /// What was laid over the content: a dead-letter reason, properties to modify (LOCK-10).
    pub overlay: Option<Box<Overlay>>,
    /// Of a message that came by forwarding.
    pub travel: Option<Box<Travel>>,
}

/// Properties that overwrite or remove those of the content (LOCK-10, DLQ-9, RULE-17).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    pub set: Properties,
    pub removed: Vec<String>,
    /// Broker properties that are texts, as a rule's action set them or took them off.
    pub texts: BTreeMap<SystemProperty, Option<String>>,
    /// As a rule's action set it: without effect until the copy is forwarded (SCHED-14).
    pub scheduled_at: Option<Timestamp>,
}

/// A lock on a message (LOCK-3). Held iff `now < until` (TIME-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRow {
    pub nonce: u64,
    pub until: Timestamp,
    pub receiver: ReceiverId,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledRow {
    pub due: Timestamp,
    pub accepted_at: Timestamp,
    pub size_bytes: u32,
    pub header_bytes: u32,
    /// Own TTL; its clock starts at activation (TTL-19).
    pub ttl: Option<Span>,
    /// As in [`MessageRow`] (SCHED-13).
    pub session: Option<SessionId>,
    /// As in [`MessageRow`].
    pub travel: Option<Box<Travel>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerRow {
    /// The serial it was first known by. What became of lower ones is not known here: they may
    /// belong to the time before it was forgotten.
    pub first: u64,
    pub highest: u64,
    /// The row in `ProducerSeen`.
    pub seen: Timestamp,
}
