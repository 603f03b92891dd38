//! Entities: their status (STATE) and counters (COUNT).

use crate::{Idleness, QueueProperties, SequenceNumber, Specifics, Timestamp};

/// STATE-1. Settable by users; creation and deletion in progress are the catalog's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntityStatus {
    #[default]
    Active,
    Disabled,
    SendDisabled,
    ReceiveDisabled,
}

impl EntityStatus {
    pub const ALL: [EntityStatus; 4] = [
        EntityStatus::Active,
        EntityStatus::Disabled,
        EntityStatus::SendDisabled,
        EntityStatus::ReceiveDisabled,
    ];

    /// As clients write it.
    pub fn as_str(self) -> &'static str {
        match self {
            EntityStatus::Active => "Active",
            EntityStatus::Disabled => "Disabled",
            EntityStatus::SendDisabled => "SendDisabled",
            EntityStatus::ReceiveDisabled => "ReceiveDisabled",
        }
    }

    /// STATE-4: sending and scheduling are refused.
    pub fn refuses_send(self) -> bool {
        matches!(self, EntityStatus::Disabled | EntityStatus::SendDisabled)
    }

    /// STATE-4: receiving is refused, and all that goes with it.
    pub fn refuses_receive(self) -> bool {
        matches!(self, EntityStatus::Disabled | EntityStatus::ReceiveDisabled)
    }

    /// STATE-3: all messages are kept; nothing expires or activates.
    pub fn is_suspended(self) -> bool {
        self == EntityStatus::Disabled
    }
}

/// Where every accepted message is or went. The law (COUNT-5), checked after every step of the
/// property tests: `accepted` equals the sum of all others. A subscription accepts copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: u64,
    /// In the main queue, locked ones included (COUNT-2).
    pub active: u64,
    pub scheduled: u64,
    pub deferred: u64,
    /// In the dead-letter queue, in whatever state.
    pub dead_lettered: u64,
    /// Includes receive-and-delete.
    pub completed: u64,
    pub cancelled: u64,
    /// Dropped by expiry.
    pub expired: u64,
    /// Removed by batch delete.
    pub deleted: u64,
    /// Of a topic: handed on as copies to whichever subscriptions take them.
    pub published: u64,
    /// FWD-12, FWD-14: waiting to be moved. In rows those to be forwarded are part of `active`; a
    /// description tells them apart.
    pub transfer: u64,
    /// In the transfer dead-letter queue, in whatever state (DLQ-16).
    pub transfer_dead_lettered: u64,
    /// Forwarded, duplicates at the destination included (DUP-12).
    pub moved: u64,
}

impl Counts {
    /// COUNT-5.
    pub fn balanced(&self) -> bool {
        self.accepted
            == self.active
                + self.scheduled
                + self.deferred
                + self.dead_lettered
                + self.completed
                + self.cancelled
                + self.expired
                + self.deleted
                + self.published
                + self.transfer
                + self.transfer_dead_lettered
                + self.moved
    }

    /// COUNT-2: what is stored.
    pub fn total(&self) -> u64 {
        self.active
            + self.scheduled
            + self.deferred
            + self.dead_lettered
            + self.transfer
            + self.transfer_dead_lettered
    }
}

/// Entity description and counters at one point of its history (COUNT-1, COUNT-6).
#[derive(Clone, Debug, PartialEq)]
pub struct EntityInfo {
    pub name: String,
    pub properties: QueueProperties,
    pub specifics: Specifics,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Last send or receive request (COUNT-6).
    pub accessed_at: Timestamp,
    pub counts: Counts,
    /// Of `active`, how many can be received now; of `dead_lettered`; and of those in the transfer
    /// dead-letter queue.
    pub available: u64,
    pub available_dead_letter: u64,
    pub available_transfer_dead_letter: u64,
    /// Of a topic: of all copies in its subscriptions too (COUNT-3).
    pub size_bytes: u64,
    pub next_sequence: SequenceNumber,
    /// IDLE-2, IDLE-14: it may lie up to `TOUCH_LASTS` ahead.
    pub last_use: Timestamp,
    pub idleness: Idleness,
}
