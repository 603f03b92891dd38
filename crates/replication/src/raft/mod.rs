//! openraft's types, filled in. openraft is met in this folder, in `group` and in `peer`, and
//! nowhere else in the project.

pub(crate) mod apply;
pub(crate) mod config;
pub(crate) mod cuts;
pub(crate) mod log;
pub(crate) mod record;
pub(crate) mod snapshot;
pub(crate) mod state;

#[cfg(test)]
mod conformance;

use std::fmt;

use bytes::Bytes;
use domain::Outcome;
use openraft::raft::responder::Responder;
use openraft::{EmptyNode, OptionalSend, RaftTypeConfig};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::metrics;

pub(crate) type LeaderId = openraft::impls::leader_id_adv::LeaderId<u64, u64>;
pub(crate) type LogId = openraft::LogId<LeaderId>;
pub(crate) type Vote = openraft::Vote<LeaderId>;
pub(crate) type Membership = openraft::Membership<u64, EmptyNode>;
pub(crate) type StoredMembership = openraft::StoredMembership<LeaderId, u64, EmptyNode>;
pub(crate) type Payload = openraft::EntryPayload<Proposal, u64, EmptyNode>;
pub(crate) type Entry = openraft::Entry<LeaderId, Payload>;
pub(crate) type Raft = openraft::Raft<TypeConfig, state::StateAdapter>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<LeaderId, u64, EmptyNode>;
pub(crate) type Snapshot = openraft::Snapshot<LeaderId, u64, EmptyNode, snapshot::SnapshotData>;
pub(crate) type WriteResult = openraft::raft::ClientWriteResult<TypeConfig>;

/// A node is a number; where it is reached is the peers' business and changes without an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeConfig;

impl RaftTypeConfig for TypeConfig {
    type D = Proposal;
    type R = Vec<Outcome>;
    type NodeId = u64;
    type Node = EmptyNode;
    type Term = u64;
    type LeaderId = LeaderId;
    type Vote = Vote;
    type Payload = Payload;
    type Entry = Entry;
    // openraft asks for its runtime to be named through a crate of its own; this is the same type.
    #[allow(deprecated)]
    type AsyncRuntime = openraft::impls::TokioRuntime;
    type Responder<T>
        = Reply<T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = Vec<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

/// What a proposer asked to append: an encoded `domain::Entry`. Shared, never copied per follower.
#[derive(Clone, PartialEq)]
pub(crate) struct Proposal {
    pub payload: Bytes,
    /// The log record the payload is a part of, once there is one: from then on the same bytes go
    /// to the log, over the wire and to a follower's log.
    pub record: Option<Bytes>,
}

impl Proposal {
    pub fn new(payload: Bytes) -> Proposal {
        Proposal { payload, record: None }
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.payload.len())
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Takes the result of one proposal to whoever waits. Dropped without a result (a node that stops)
/// it closes the waiter's channel, which reads as unknown.
pub(crate) struct Reply<T> {
    pub to: oneshot::Sender<T>,
    pub proposed_at: Instant,
    /// Frees the proposal's share of the bytes a group may have under way.
    pub _share: OwnedSemaphorePermit,
}

impl<T: OptionalSend + 'static> Responder<TypeConfig, T> for Reply<T> {
    fn on_commit(&mut self, _log_id: LogId) {
        metrics::committed(self.proposed_at.elapsed());
    }

    fn on_complete(self, result: T) {
        // Nobody waiting any more is no failure: the entry stands.
        let _ = self.to.send(result);
    }
}
