//! What a node tells operators beside what the broker itself knows, wherever in the cluster they ask: which clients
//! are connected, for one.

use std::fmt::Debug;

use bytes::Bytes;

/// Answers questions about this node. Each is known by its name, and what is asked and told is the affair of whoever
/// knows it.
pub trait NodeFacts: Debug + Send + Sync + 'static {
    /// `None`: the question is not known here. At most 24 MiB. It may hold its thread up for moments.
    fn answer(&self, question: &str, asked: Bytes) -> Option<Bytes>;

    /// How many connections of clients there are now; `None`: it is not known here.
    fn connections(&self) -> Option<u64>;
}

/// Of a node that knows nothing beside what the broker knows.
#[derive(Clone, Copy, Debug)]
pub struct NoFacts;

impl NodeFacts for NoFacts {
    fn answer(&self, _: &str, _: Bytes) -> Option<Bytes> {
        None
    }

    fn connections(&self) -> Option<u64> {
        None
    }
}

/// Why a node has not answered a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untold {
    #[error("it does not answer")]
    Silent,
    #[error("its version does not tell")]
    Unknown,
}
