//! Locks that an open transaction waits with (TX-9).

use domain::{LockToken, QueueId};

/// An open transaction, and the node that keeps it. Nodes come and go with their ids, transactions
/// never come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TransactionId {
    pub node: u64,
    pub id: u64,
}

/// An operation of a transaction wants these locks. Asked again it is the same question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockClaim {
    pub transaction: TransactionId,
    /// Its place in the transaction.
    pub operation: u32,
    pub queue: QueueId,
    pub tokens: Vec<LockToken>,
    /// Whether they are to be kept from others: not for a renewal.
    pub settles: bool,
}
