//! One shard's rows, wherever they are kept.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use domain::{EntityId, Key, Row, Rows, SequenceNumber};

/// What reads a shard's rows beside the machine.
pub trait ReadRows: Rows + Send + Sync {
    /// [`ShardRows::bodies`].
    fn bodies(&self, of: &[(EntityId, SequenceNumber)]) -> Vec<Option<Bytes>>;
}

/// Reads what is applied so far. A scan sees the rows as they were when it began, and holds up no
/// entries. Rows that cannot be read stop the process, because the machine must not go on without
/// them.
#[derive(Clone)]
pub struct ShardRows(Arc<dyn ReadRows>);

impl ShardRows {
    pub fn of(rows: impl ReadRows + 'static) -> ShardRows {
        ShardRows(Arc::new(rows))
    }

    /// Contents of messages, in order; `None` where the message is gone.
    pub fn bodies(&self, of: &[(EntityId, SequenceNumber)]) -> Vec<Option<Bytes>> {
        self.0.bodies(of)
    }
}

impl Rows for ShardRows {
    fn get(&self, key: &Key) -> Option<Row> {
        self.0.get(key)
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        self.0.scan(from, to, visit);
    }
}

/// As [`ShardRows`], for the one who writes.
#[derive(Clone)]
pub struct MachineRows(Arc<dyn Rows + Send + Sync>);

impl MachineRows {
    pub fn of(rows: impl Rows + Send + Sync + 'static) -> MachineRows {
        MachineRows(Arc::new(rows))
    }
}

impl Rows for MachineRows {
    fn get(&self, key: &Key) -> Option<Row> {
        self.0.get(key)
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        self.0.scan(from, to, visit);
    }
}
