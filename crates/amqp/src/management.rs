//! `$management`: the operations that go as a request and a reply (REQ-5). A request decodes to an
//! [`Operation`], whatever integer widths, lists for arrays or symbols for strings it is written with;
//! a [`Reply`] encodes to exactly the types the SDKs read.

mod lock_token;
mod operation;
mod reply;
mod rule;

pub use lock_token::{from_tag, from_uuid, tag, uuid};
pub use operation::{DispositionStatus, ListedSessions, Operation, ReceiveMode, Scheduled, decode};
pub use reply::Reply;

/// The address of a node's management node: the node's, and this.
pub const SUFFIX: &str = "/$management";

#[cfg(test)]
mod tests;
