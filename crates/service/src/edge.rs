//! What front ends call: from a name to whoever decides about it, and back with the answer.

mod address;
mod attachment;
mod catch_up;
mod leaders;
mod router;
mod standings;

pub(crate) mod catalog;
mod intents;

mod admission;
mod receiver;
mod relocation;
mod sender;

mod authorization;
mod backup;
mod broker;
mod cluster;
mod credits;
mod data_groups;
mod documents;
mod entities;
mod fault_rules;
mod feature_level;
mod health;
mod heard;
mod history;
mod inquiry;
mod join_tokens;
mod key_watch;
mod members;
mod messages;
mod namespace_use;
mod namespaces;
mod profiles;
mod restore;
mod sampler;
mod sessions;
mod status;
mod transaction;

pub use self::address::Caller;
pub use self::authorization::draw_key;
pub use self::backup::{Backup, BackupHeader, BackupPart, Chunk, Stored};
pub use self::broker::{Broker, Faults, SEND_BYTES_MAX, draw_message_id, draw_uuid};
pub(crate) use self::catalog::Catalog;
pub use self::cluster::{Cluster, Readiness};
pub use self::documents::Documents;
pub use self::entities::{
    Entities, Listed, PAGE_MAX, Page, QueueInfo, Queues, Rules, Subscriptions, Topics,
};
pub use self::fault_rules::FaultRules;
pub(crate) use self::fault_rules::fault_rules_in_force;
pub(crate) use self::feature_level::told_by_all;
pub(crate) use self::health::peers;
pub(crate) use self::intents::Intents;
pub use self::join_tokens::Entrant;
pub use self::key_watch::{EntityKeys, KeyWatch};
pub use self::members::Joined;
pub use self::messages::Messages;
pub(crate) use self::namespace_use::idle_rows;
pub use self::namespaces::{NamespaceInfo, Namespaces};
pub(crate) use self::namespaces::{ask_for_users, delete_idle, finish_deletions};
pub(crate) use self::profiles::finish_profile_changes;
pub use self::receiver::{Next, ReceiveMode, Receiver, Refusals};
pub use self::restore::Restore;
pub(crate) use self::router::{Failure, PendingCall, Router};
pub use self::sender::Sender;
pub use self::sessions::{Accepted, Sessions};
pub use self::status::{ClusterStatus, GroupView, NodeStatus, ReplicaView, Role};
pub use self::transaction::{Reach, Transaction, Transactions};
