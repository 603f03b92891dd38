//! One shard's rows as the machine reads them.

use std::ops::ControlFlow;

use bytes::Bytes;
use domain::{EntityId, Key, Row, Rows, SequenceNumber, ShardId};

use super::RowStore;

/// Reads what is written so far. A scan sees the rows as they were when it began. Rows that cannot
/// be read stop the process, because the machine must not go on without them.
#[derive(Clone)]
pub struct ShardRows {
    store: RowStore,
    shard: ShardId,
}

impl ShardRows {
    pub(crate) fn new(store: RowStore, shard: ShardId) -> ShardRows {
        ShardRows { store, shard }
    }

    /// Contents of messages, in order; `None` where the message is gone.
    pub fn bodies(&self, of: &[(EntityId, SequenceNumber)]) -> Vec<Option<Bytes>> {
        self.store.bodies(self.shard, of)
    }
}

impl Rows for ShardRows {
    fn get(&self, key: &Key) -> Option<Row> {
        self.store.get(self.shard, key)
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        self.store.scan(self.shard, from, to, visit);
    }
}
