//! One shard's rows as the machine reads them.

use std::ops::ControlFlow;

use bytes::Bytes;
use domain::{EntityId, Key, Row, Rows, SequenceNumber, ShardId};
use rocksdb::ReadOptions;

use super::RowStore;
use crate::damage;
use crate::keys::{decode_key, encode_key};

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

    pub(super) fn unreadable(&self, key: &Key, reason: &dyn std::fmt::Display) -> ! {
        let path = &self.store.inner.path;
        // Where the mark cannot be read either, the line does without.
        let applied = match self.store.applied(self.shard) {
            Ok(Some((index, _))) => format!(", applied to index {index}"),
            Ok(None) | Err(_) => String::new(),
        };
        let reason = reason.to_string().replace('\n', " ");
        let (file, shard) = (path.display(), self.shard);
        damage::stop(path, &format!("{file}: shard {shard}{applied}, row {key:?}: {reason}"))
    }
}

impl Rows for ShardRows {
    fn get(&self, key: &Key) -> Option<Row> {
        let value = match self.store.inner.db.get_pinned(encode_key(self.shard, key)) {
            Ok(value) => value?,
            Err(error) => self.unreadable(key, &error),
        };
        match wire::decode_row(key, &value) {
            Ok(row) => Some(row),
            Err(error) => self.unreadable(key, &error),
        }
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        if from >= to {
            return;
        }
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(encode_key(self.shard, to));
        let mut rows = self.store.inner.db.raw_iterator_opt(options);
        rows.seek(encode_key(self.shard, from));
        while let Some((key, value)) = rows.item() {
            let Some((_, key)) = decode_key(key) else {
                self.unreadable(from, &format_args!("{} is no key", key.escape_ascii()))
            };
            match wire::decode_row(&key, value) {
                Ok(row) => {
                    if visit(key, row).is_break() {
                        return;
                    }
                    rows.next();
                }
                Err(error) => self.unreadable(&key, &error),
            }
        }
        if let Err(error) = rows.status() {
            self.unreadable(from, &error);
        }
    }
}
