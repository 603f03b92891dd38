//! One shard's rows, as the machine reads them and as others do.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use domain::{EntityId, Key, Row, Rows, SequenceNumber, ShardId};
use parking_lot::RwLock;
use rocksdb::{DBRawIterator, ReadOptions};

use super::RowStore;
use super::young::Young;
use crate::damage;
use crate::keys::{decode_key, encode_key, put_key};

/// Reads what is applied so far. A scan sees the rows as they were when it began, and holds up no
/// entries: what is young in its range is written first. Rows that cannot be read stop the process,
/// because the machine must not go on without them.
#[derive(Clone)]
pub struct ShardRows {
    store: RowStore,
    shard: ShardId,
    young: Arc<RwLock<Young>>,
}

/// As [`ShardRows`], for the one who writes: a scan looks at young rows where they are.
#[derive(Clone)]
pub struct MachineRows(pub(super) ShardRows);

impl ShardRows {
    pub(super) fn new(store: RowStore, shard: ShardId, young: Arc<RwLock<Young>>) -> ShardRows {
        ShardRows { store, shard, young }
    }

    /// Contents of messages, in order; `None` where the message is gone.
    pub fn bodies(&self, of: &[(EntityId, SequenceNumber)]) -> Vec<Option<Bytes>> {
        let keys = of.iter().map(|(entity, sequence)| Key::Body(*entity, *sequence));
        let young: Vec<_> = {
            let young = self.young.read();
            keys.map(|key| (young.get(&key), key)).collect()
        };
        let mut bytes = Vec::with_capacity(32);
        let body = |(young, key): (Option<Option<Row>>, Key)| match young {
            Some(row) => row.and_then(|row| match row {
                Row::Body(content) => Some(content),
                _ => None,
            }),
            None => {
                put_key(self.shard, &key, &mut bytes);
                match self.store.inner.db.get_pinned(&bytes) {
                    Ok(value) => value.map(|value| Bytes::copy_from_slice(&value)),
                    Err(error) => self.unreadable(&key, &error),
                }
            }
        };
        young.into_iter().map(body).collect()
    }

    fn stored(&self, key: &Key) -> Option<Row> {
        let value = match self.store.inner.db.get_pinned(encode_key(self.shard, key)) {
            Ok(value) => value?,
            Err(error) => self.unreadable(key, &error),
        };
        match wire::decode_row(key, &value) {
            Ok(row) => Some(row),
            Err(error) => self.unreadable(key, &error),
        }
    }

    /// The stored rows of a range as they are now.
    fn iterator(&self, from: &Key, to: &Key) -> DBRawIterator<'_> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(encode_key(self.shard, to));
        let mut rows = self.store.inner.db.raw_iterator_opt(options);
        rows.seek(encode_key(self.shard, from));
        rows
    }

    fn visit(
        &self,
        mut rows: DBRawIterator<'_>,
        from: &Key,
        visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>,
    ) {
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

    pub(super) fn unreadable(&self, key: &Key, reason: &dyn std::fmt::Display) -> ! {
        let path = &self.store.inner.path;
        // Where the mark cannot be read either, the line does without.
        let applied = match self.store.stored_applied(self.shard) {
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
        let young = self.young.read().get(key);
        young.unwrap_or_else(|| self.stored(key))
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        if from >= to {
            return;
        }
        let rows = {
            let mut young = self.young.write();
            if young.touches(from, to)
                && self.store.inner.write_out(self.shard, &mut young).is_err()
            {
                // The machine hears of it with its next write; what is asked for is here.
                return young.scan(
                    (from, to),
                    |each| {
                        self.visit(self.iterator(from, to), from, each);
                    },
                    visit,
                );
            }
            self.iterator(from, to)
        };
        self.visit(rows, from, visit);
    }
}

impl Rows for MachineRows {
    fn get(&self, key: &Key) -> Option<Row> {
        self.0.get(key)
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        if from >= to {
            return;
        }
        // The lock first: what is written out in between would be in neither.
        let young = self.0.young.read();
        let stored = self.0.iterator(from, to);
        young.scan((from, to), |each| self.0.visit(stored, from, each), visit);
    }
}
