//! One group's rows, as the machine reads them and as others do.

use std::iter;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use domain::{EntityId, GroupId, Key, QueueId, Row, Rows, SequenceNumber, get_many_over};
use parking_lot::{RwLock, RwLockUpgradableReadGuard};

use super::RowStore;
use super::cache::{MET_MAX, RowCache, is_worth_meeting};
use super::ends::queue_of;

/// Reads what is applied so far. A scan sees the rows as they were when it began, and holds up no
/// entries: what is cached in its range is written first. Rows that cannot be read stop the process,
/// because the machine must not go on without them.
#[derive(Clone)]
pub struct GroupRows {
    store: RowStore,
    group: GroupId,
    cache: Arc<RwLock<RowCache>>,
}

/// As [`GroupRows`], for the one who writes: a scan looks at cached rows where they are.
#[derive(Clone)]
pub struct MachineRows(pub(super) GroupRows);

type Scan<'a> = Box<dyn Iterator<Item = (Key, Row)> + 'a>;

impl GroupRows {
    pub(super) fn new(store: RowStore, group: GroupId, cache: Arc<RwLock<RowCache>>) -> GroupRows {
        GroupRows { store, group, cache }
    }

    /// Contents of messages, in order; `None` where the message is gone.
    pub fn bodies(&self, of: &[(EntityId, SequenceNumber)]) -> Vec<Option<Bytes>> {
        let keys = of.iter().map(|(entity, sequence)| Key::Body(*entity, *sequence));
        let body = |row: Option<Row>| match row? {
            Row::Body(content) => Some(content),
            _ => None,
        };
        self.get_many(&keys.collect::<Vec<_>>()).into_iter().map(body).collect()
    }

    fn stored(&self, key: &Key) -> Option<Row> {
        self.store.inner.disk.get(self.group, key)
    }

    /// The last message of a queue that is stored.
    fn last_stored(&self, queue: QueueId) -> Option<SequenceNumber> {
        let all = [SequenceNumber::MIN, SequenceNumber::MAX].map(|end| Key::Message(queue, end));
        match self.store.inner.disk.last(self.group, &all[0], &all[1])? {
            Key::Message(_, number) => Some(number),
            _ => None,
        }
    }

    /// The stored rows of a range as they are now.
    fn stored_range(&self, from: &Key, to: &Key) -> Scan<'_> {
        self.store.inner.disk.scan(self.group, from, to)
    }
}

impl Rows for GroupRows {
    fn get(&self, key: &Key) -> Option<Row> {
        let cache = self.cache.read().get(key);
        cache.unwrap_or_else(|| self.stored(key))
    }

    fn get_many(&self, keys: &[Key]) -> Vec<Option<Row>> {
        // Its lock goes with the closure, before storage is asked.
        let cache = self.cache.read();
        let known = move |key: &Key| cache.get(key);
        get_many_over(keys, known, |asked| self.store.inner.disk.get_many(self.group, asked))
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        if from >= to {
            return;
        }
        let rows = {
            let mut cache = self.cache.write();
            if cache.touches(from, to)
                && self.store.inner.write_out(self.group, &mut cache).is_err()
            {
                // The machine hears of it with its next write; what is asked for is here. Visited once
                // the lock is let go of: a visitor may read.
                let mut rows = Vec::new();
                cache.scan((from, to), self.stored_range(from, to), &mut |key, row| {
                    rows.push((key, row));
                    ControlFlow::Continue(())
                });
                drop(cache);
                let _ = rows.into_iter().try_for_each(|(key, row)| visit(key, row));
                return;
            }
            self.stored_range(from, to)
        };
        for (key, row) in rows {
            if visit(key, row).is_break() {
                return;
            }
        }
    }
}

impl Rows for MachineRows {
    fn get(&self, key: &Key) -> Option<Row> {
        self.0.get(key)
    }

    fn get_many(&self, keys: &[Key]) -> Vec<Option<Row>> {
        self.0.get_many(keys)
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        if from >= to {
            return;
        }
        // The lock first: what is written out in between would be in neither, or be met as it was.
        let mut cache = self.0.cache.upgradable_read();
        if self.is_beyond_stored(&mut cache, from, to) {
            return cache.scan((from, to), iter::empty(), visit);
        }
        let mut met = Vec::new();
        let stored = self.0.stored_range(from, to).inspect(|(key, row)| {
            if met.len() < MET_MAX && is_worth_meeting(key, row) {
                met.push((key.clone(), row.clone()));
            }
        });
        cache.scan((from, to), stored, visit);
        if !met.is_empty() {
            RwLockUpgradableReadGuard::upgrade(cache).meet(met);
        }
    }
}

impl MachineRows {
    /// Whether storage certainly holds none of a range. Of a queue's messages that is known once it was
    /// looked up.
    fn is_beyond_stored(
        &self,
        cache: &mut RwLockUpgradableReadGuard<'_, RowCache>,
        from: &Key,
        to: &Key,
    ) -> bool {
        let Some(queue) = queue_of(from, to) else { return false };
        let end = cache.ends.get(queue).unwrap_or_else(|| {
            let last = self.0.last_stored(queue);
            cache.with_upgraded(|cache| cache.ends.learn(queue, last))
        });
        *from >= Key::Message(queue, end)
    }
}
