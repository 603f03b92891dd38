//! Identities. Each is a type of its own, so that no function takes two bare integers side by side.

use std::fmt;
use std::num::NonZeroU32;

/// A Raft group and the slice of the key space it owns. 0 is the catalog, 1.. are data groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u16);

impl GroupId {
    pub const CATALOG: GroupId = GroupId(0);
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A queue, topic or subscription for ever: ids are issued by the catalog and never reused (ENT-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u64);

/// A message's place in its entity, gap-free from 1 (SEQ-1, SEQ-2). A dead-letter queue shares the
/// number space of its entity (SEQ-11). The top 16 bits name the partition (SEQ-3), always 0 today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    pub const MIN: SequenceNumber = SequenceNumber(0);
    pub const FIRST: SequenceNumber = SequenceNumber(1);
    pub const MAX: SequenceNumber = SequenceNumber(u64::MAX);

    /// The number after this one.
    pub fn next(self) -> SequenceNumber {
        SequenceNumber(self.0.saturating_add(1))
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A part of an entity that holds messages (DLQ-1, DLQ-16, FWD-14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SubQueue {
    #[default]
    Main = 0,
    DeadLetter = 1,
    /// Messages on their way to other entities. Nobody receives from it.
    Transfer = 2,
    /// Those of them that were not taken there.
    TransferDeadLetter = 3,
}

/// One value for each subqueue, indexed by `SubQueue as usize`.
pub type PerSubQueue<T> = [T; SubQueue::ALL.len()];

impl SubQueue {
    pub const ALL: [SubQueue; 4] =
        [SubQueue::Main, SubQueue::DeadLetter, SubQueue::Transfer, SubQueue::TransferDeadLetter];

    /// Whether it keeps what could not be delivered (DLQ-4, DLQ-16).
    pub fn is_dead_letter(self) -> bool {
        match self {
            SubQueue::DeadLetter | SubQueue::TransferDeadLetter => true,
            SubQueue::Main | SubQueue::Transfer => false,
        }
    }

    pub fn from_u8(value: u8) -> Option<SubQueue> {
        SubQueue::ALL.into_iter().find(|sub| *sub as u8 == value)
    }
}

/// An entity's subqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    pub entity: EntityId,
    pub sub: SubQueue,
}

impl QueueId {
    pub fn main(entity: EntityId) -> QueueId {
        QueueId { entity, sub: SubQueue::Main }
    }

    pub fn dead_letter(entity: EntityId) -> QueueId {
        QueueId { entity, sub: SubQueue::DeadLetter }
    }

    pub fn transfer(entity: EntityId) -> QueueId {
        QueueId { entity, sub: SubQueue::Transfer }
    }

    pub fn transfer_dead_letter(entity: EntityId) -> QueueId {
        QueueId { entity, sub: SubQueue::TransferDeadLetter }
    }
}

/// One delivery (LOCK-6): the number says where to look, so no token index exists; the nonce is
/// fresh per delivery, so an old token never becomes valid again. On the wire 16 bytes, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockToken {
    pub sequence: SequenceNumber,
    pub nonce: u64,
}

/// As clients write it, a uuid.
impl fmt::Display for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, nonce] = [self.sequence.0 >> 32, self.sequence.0 & 0xffff_ffff, self.nonce];
        let (b_high, b_low) = (b >> 16, b & 0xffff);
        let (c, rest) = (nonce >> 48, nonce & 0xffff_ffff_ffff);
        write!(f, "{a:08x}-{b_high:04x}-{b_low:04x}-{c:04x}-{rest:012x}")
    }
}

impl LockToken {
    pub fn to_bytes(self) -> [u8; 16] {
        ((self.sequence.0 as u128) << 64 | self.nonce as u128).to_be_bytes()
    }

    pub fn from_bytes(bytes: [u8; 16]) -> LockToken {
        let value = u128::from_be_bytes(bytes);
        LockToken { sequence: SequenceNumber((value >> 64) as u64), nonce: value as u64 }
    }
}

/// Who holds a lock: the edge node, one receiver on it, and that receiver's epoch (its n-th attach).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiverId {
    pub node: u64,
    /// No two of a node are the same. The upper half is the run of the node that the receiver's locks end
    /// with (LOCK-28), or 0.
    pub link: u64,
    pub epoch: u32,
}

/// The bit of a receiver's number that says [`ReceiverId::deletes`].
const DELETES: u64 = 1 << 31;

impl ReceiverId {
    /// `run`: of the node that its locks end with, if they do. `number`: no two of a node that still hold
    /// locks have the same, or the same of that run; its highest bit is left out.
    pub fn new(node: u64, run: Option<NonZeroU32>, number: u32, epoch: u32) -> ReceiverId {
        let run = run.map_or(0, NonZeroU32::get);
        let number = u64::from(number) & !DELETES;
        ReceiverId { node, link: u64::from(run) << 32 | number, epoch }
    }

    /// LOCK-2: what is delivered to it is completed by that. Told of it, and without effect on the lock.
    pub fn deleting(self) -> ReceiverId {
        ReceiverId { link: self.link | DELETES, ..self }
    }

    /// See [`ReceiverId::deleting`].
    pub fn deletes(self) -> bool {
        self.link & DELETES != 0
    }

    /// Which of its node's receivers it is.
    pub fn number(self) -> u64 {
        self.link & (DELETES - 1)
    }

    /// LOCK-28.
    pub fn run(self) -> Option<NonZeroU32> {
        NonZeroU32::new((self.link >> 32) as u32)
    }
}

/// Who asked, for recognising a repeat (SEND-8). Serials count from 1 per producer and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    pub producer: u64,
    pub serial: u64,
    /// Serials must arrive without a gap, so that order survives a change of leader (MSG-10). An
    /// unordered producer may have several requests under way that overtake each other.
    pub ordered: bool,
    /// This request was sent before: if its producer is unknown here, its outcome is unknown.
    pub retry: bool,
}
