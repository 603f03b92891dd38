//! What an edge and a group's leader say to each other, wherever that leader is: in this process as values, to
//! another node as frames made of the same (`peer`).

mod call;
mod claim;
mod cut;
mod delivery;
mod entity_sample;
mod read;
mod report;
mod response;

pub(crate) use self::call::{Answer, CallResult, Failed, Reply, answered};
pub(crate) use self::claim::{LockClaim, TransactionId};
pub(crate) use self::cut::{CutAnswer, CutRequest};
pub use self::delivery::Received;
pub(crate) use self::delivery::{Attach, Detached, Event, Sink, Wanted, release, release_session};
pub use self::entity_sample::{EntityDepth, EntitySample, EntitySamples};
pub(crate) use self::read::{NotRead, Read, ReadAnswer, ReadReply, ReadResult};
pub(crate) use self::report::{BEHIND_ENTRIES, IdleReport};
pub use self::report::{GroupDepth, GroupHealth, NodeReport, ReplicaHealth};
pub(crate) use self::response::{OUTBOX_ITEMS_MAX, Outbox, Response};
