//! Reading rows that RocksDB has.

use std::ops::Deref;

use domain::{GroupId, Key, Row};
use rocksdb::{DBRawIterator, ReadOptions};

use super::RowDisk;
use super::rocks::RocksRows;
use crate::damage;
use wire::{decode_key, encode_key};

impl RocksRows {
    /// [`RowDisk::get`].
    pub fn read(&self, group: GroupId, key: &Key) -> Option<Row> {
        self.decode(group, key, self.inner.db.get_pinned(encode_key(group, key)))
    }

    /// [`RowDisk::get_many`]: RocksDB asks each file for all of them at once.
    pub fn read_many(&self, group: GroupId, keys: &[Key]) -> Vec<Option<Row>> {
        if let [key] = keys {
            return vec![self.read(group, key)];
        }
        let values = self.inner.db.multi_get(keys.iter().map(|key| encode_key(group, key)));
        keys.iter().zip(values).map(|(key, value)| self.decode(group, key, value)).collect()
    }

    fn decode(
        &self,
        group: GroupId,
        key: &Key,
        value: Result<Option<impl Deref<Target = [u8]>>, rocksdb::Error>,
    ) -> Option<Row> {
        let value = match value {
            Ok(value) => value?,
            Err(error) => self.unreadable(group, key, &error),
        };
        match wire::decode_row(key, &value) {
            Ok(row) => Some(row),
            Err(error) => self.unreadable(group, key, &error),
        }
    }

    /// [`RowDisk::scan`].
    pub fn read_range(&self, group: GroupId, from: &Key, to: &Key) -> Range<'_> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(encode_key(group, to));
        let mut rows = self.inner.db.raw_iterator_opt(options);
        rows.seek(encode_key(group, from));
        Range { of: self, group, from: from.clone(), rows, begun: false }
    }

    /// [`RowDisk::last`].
    pub fn read_last(&self, group: GroupId, from: &Key, to: &Key) -> Option<Key> {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(encode_key(group, from));
        options.set_iterate_upper_bound(encode_key(group, to));
        let mut rows = self.inner.db.raw_iterator_opt(options);
        rows.seek_to_last();
        if let Err(error) = rows.status() {
            self.unreadable(group, from, &error);
        }
        rows.key().map(|key| self.key(group, from, key))
    }

    fn key(&self, group: GroupId, from: &Key, stored: &[u8]) -> Key {
        let Some((_, key)) = decode_key(stored) else {
            let reason = format_args!("{} is no key", stored.escape_ascii());
            self.unreadable(group, from, &reason)
        };
        key
    }

    fn unreadable(&self, group: GroupId, key: &Key, reason: &dyn std::fmt::Display) -> ! {
        let path = &self.inner.path;
        // Where the mark cannot be read either, the line does without.
        let applied = match self.applied(group) {
            Ok(Some((index, _))) => format!(", applied to index {index}"),
            Ok(None) | Err(_) => String::new(),
        };
        let reason = reason.to_string().replace('\n', " ");
        let file = path.display();
        damage::stop(path, &format!("{file}: group {group}{applied}, row {key:?}: {reason}"))
    }
}

/// The rows of a range, as they were when it began.
pub(super) struct Range<'a> {
    of: &'a RocksRows,
    group: GroupId,
    from: Key,
    rows: DBRawIterator<'a>,
    begun: bool,
}

impl Iterator for Range<'_> {
    type Item = (Key, Row);

    fn next(&mut self) -> Option<(Key, Row)> {
        // Not before it is asked for: what follows may be a long way off.
        if std::mem::replace(&mut self.begun, true) {
            self.rows.next();
        }
        let Some((key, value)) = self.rows.item() else {
            if let Err(error) = self.rows.status() {
                self.of.unreadable(self.group, &self.from, &error);
            }
            return None;
        };
        let key = self.of.key(self.group, &self.from, key);
        match wire::decode_row(&key, value) {
            Ok(row) => Some((key, row)),
            Err(error) => self.of.unreadable(self.group, &key, &error),
        }
    }
}
