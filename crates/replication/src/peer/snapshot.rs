//! A replica's rows on their way to a follower whose log ends before the leader's begins.
//!
//! A connection that breaks costs what was on it: the receiver keeps what has come in for a while, the
//! sender its pinned view, and the next stream goes on behind the last part that arrived.

mod receive;
mod send;

pub(crate) use receive::{Arrivals, head, progress, receive};
pub(crate) use send::send;

/// Parts read ahead of the wire, and received ahead of the disk.
const QUEUED_MAX: usize = 4;
