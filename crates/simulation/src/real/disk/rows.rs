//! The rows: in memory, and as of their last flush on disk. What is cached lies above, as it does over
//! RocksDB.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use domain::{GroupId, Key, MemoryRows, Row, Rows};
use store::{Change, DiskSpace, Error, RowDisk, RowsIn, RowsOut};
use wire::{decode_key, encode_key};

use super::{disk_space, lock};
use crate::real::Planted;
use crate::real::watch::Watch;

/// Bytes of one chunk on its way, one row at the least: small, so that a connection may break between
/// two.
const CHUNK_BYTES: usize = 4 << 10;

/// A node's rows. Clones share them.
#[derive(Clone)]
pub struct ModelRows(Arc<Mutex<RowsState>>);

/// The same, as a process has them open. Once it has ended, what is left of it writes nothing.
#[derive(Clone)]
pub struct OpenRows {
    of: ModelRows,
    life: u64,
}

struct RowsState {
    node: u64,
    watch: Watch,
    bug: Option<Planted>,
    /// How many processes have ended.
    life: u64,
    memory: BTreeMap<GroupId, StoredGroup>,
    flushed: BTreeMap<GroupId, StoredGroup>,
}

#[derive(Clone, Default)]
struct StoredGroup {
    rows: MemoryRows,
    applied: Option<(u64, Bytes)>,
    /// Of all rows, whatever order they came in.
    sum: u64,
}

impl StoredGroup {
    fn put(&mut self, key: Key, row: Option<Row>) {
        if let Some(old) = self.rows.0.get(&key) {
            self.sum = self.sum.wrapping_sub(hash(&key, old));
        }
        if let Some(new) = &row {
            self.sum = self.sum.wrapping_add(hash(&key, new));
        }
        self.rows.write([(key, row)]);
    }
}

/// A row as it is written.
fn bytes_of(row: &Row) -> Vec<u8> {
    match row {
        Row::Body(content) => content.to_vec(),
        row => {
            let mut bytes = Vec::new();
            wire::put_row(row, &mut bytes);
            bytes
        }
    }
}

fn hash(key: &Key, row: &Row) -> u64 {
    crate::real::watch::hash(&[encode_key(GroupId(0), key), bytes_of(row)].concat())
}

impl ModelRows {
    pub fn new(node: u64, watch: Watch, bug: Option<Planted>) -> ModelRows {
        let (life, memory, flushed) = Default::default();
        ModelRows(Arc::new(Mutex::new(RowsState { node, watch, bug, life, memory, flushed })))
    }

    /// For the process that begins.
    pub fn open(&self) -> OpenRows {
        OpenRows { of: self.clone(), life: lock(&self.0).life }
    }

    /// The process ends.
    pub fn crash(&self) {
        let mut state = lock(&self.0);
        state.life += 1;
        state.memory = state.flushed.clone();
    }

    /// An empty disk.
    pub fn wipe(&self) {
        let mut state = lock(&self.0);
        (state.memory, state.flushed) = Default::default();
    }

    /// What was written is put on disk.
    pub fn flush(&self) {
        let mut state = lock(&self.0);
        match state.bug {
            Some(Planted::ForgetsUnflushed) => (),
            Some(Planted::FlushesRowsWithoutMark) => {
                let memory = state.memory.clone();
                for (group, of) in memory {
                    let kept = state.flushed.get(&group).and_then(|of| of.applied.clone());
                    let applied = kept.or(of.applied.clone());
                    state.flushed.insert(group, StoredGroup { applied, ..of });
                }
            }
            _ => state.flushed = state.memory.clone(),
        }
    }

    /// How far they are and what they are.
    pub fn sum(&self, group: GroupId) -> (u64, u64) {
        let state = lock(&self.0);
        let of = state.memory.get(&group);
        of.map_or((0, 0), |of| (of.applied.as_ref().map_or(0, |(index, _)| *index), of.sum))
    }
}

impl OpenRows {
    /// What there is, for a process that has not ended.
    fn alive(&self) -> Option<MutexGuard<'_, RowsState>> {
        Some(lock(&self.of.0)).filter(|state| state.life == self.life)
    }

    fn read<T>(&self, group: GroupId, with: impl FnOnce(&StoredGroup) -> T) -> Option<T> {
        lock(&self.of.0).memory.get(&group).map(with)
    }
}

impl RowDisk for OpenRows {
    fn write(
        &self,
        group: GroupId,
        erased: &[(Key, Key)],
        changes: &mut dyn Iterator<Item = Change<'_>>,
        applied: &(u64, Bytes),
    ) -> Result<(), Error> {
        let Some(mut state) = self.alive() else { return Ok(()) };
        let of = state.memory.entry(group).or_default();
        for (from, to) in erased {
            let gone: Vec<Key> = of.rows.0.range(from..to).map(|(key, _)| key.clone()).collect();
            gone.into_iter().for_each(|key| of.put(key, None));
        }
        for (key, row) in changes {
            of.put(key.into_owned(), row.cloned());
        }
        of.applied = Some(applied.clone());
        let sum = of.sum;
        state.watch.applied(state.node, applied.0, sum, &applied.1);
        Ok(())
    }

    fn get(&self, group: GroupId, key: &Key) -> Option<Row> {
        self.read(group, |of| of.rows.get(key))?
    }

    fn scan(
        &self,
        group: GroupId,
        from: &Key,
        to: &Key,
    ) -> Box<dyn Iterator<Item = (Key, Row)> + '_> {
        let row = |(key, row): (&Key, &Row)| (key.clone(), row.clone());
        let rows: Option<Vec<_>> =
            self.read(group, |of| of.rows.0.range(from..to).map(row).collect());
        Box::new(rows.unwrap_or_default().into_iter())
    }

    fn applied(&self, group: GroupId) -> Result<Option<(u64, Bytes)>, Error> {
        Ok(self.read(group, |of| of.applied.clone()).flatten())
    }

    fn flushed_index(&self, group: GroupId) -> u64 {
        let state = lock(&self.of.0);
        let from = match state.bug {
            Some(Planted::ForgetsUnflushed) => &state.memory,
            _ => &state.flushed,
        };
        from.get(&group).and_then(|of| of.applied.as_ref()).map_or(0, |(index, _)| *index)
    }

    fn flush(&self) -> Result<(), Error> {
        if self.alive().is_some() {
            self.of.flush();
        }
        Ok(())
    }

    fn forget(&self, group: GroupId) -> Result<(), Error> {
        if let Some(mut state) = self.alive() {
            state.memory.remove(&group);
            state.flushed.remove(&group);
        }
        Ok(())
    }

    fn file_bytes(&self) -> u64 {
        0
    }

    fn disk_space(&self) -> Result<DiskSpace, Error> {
        disk_space()
    }

    fn failure(&self) -> Option<Error> {
        None
    }

    fn export(&self, group: GroupId) -> Result<Box<dyn RowsOut>, Error> {
        let of = self.read(group, StoredGroup::clone).unwrap_or_default();
        let mark = of.applied.map_or_else(Bytes::new, |(_, mark)| mark);
        let row = |(key, row): (&Key, &Row)| (encode_key(group, key), bytes_of(row));
        let rows = of.rows.0.iter().map(row).collect();
        Ok(Box::new(Out { mark, rows, next: 0 }))
    }

    fn import(&self, group: GroupId, index: u64, mark: &[u8]) -> Result<Box<dyn RowsIn>, Error> {
        let of = StoredGroup {
            applied: Some((index, Bytes::copy_from_slice(mark))),
            ..StoredGroup::default()
        };
        Ok(Box::new(In { to: self.clone(), group, of, last_key: Vec::new() }))
    }

    fn is_shared(&self) -> bool {
        false
    }
}

/// Rows on their way out.
struct Out {
    mark: Bytes,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    next: usize,
}

impl RowsOut for Out {
    fn mark(&self) -> &[u8] {
        &self.mark
    }

    fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_BYTES
            && let Some((key, row)) = self.rows.get(self.next)
        {
            for bytes in [key, row] {
                chunk.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                chunk.extend_from_slice(bytes);
            }
            self.next += 1;
        }
        Ok((!chunk.is_empty()).then(|| chunk.into()))
    }

    fn resume_after(&mut self, key: Bytes) -> Result<(), Error> {
        self.next = self.rows.partition_point(|(at, _)| at[..] <= key[..]);
        Ok(())
    }
}

/// Rows on their way in.
struct In {
    to: OpenRows,
    group: GroupId,
    of: StoredGroup,
    last_key: Vec<u8>,
}

impl In {
    /// One key and its row, and what follows.
    fn row<'a>(&self, bytes: &mut &'a [u8]) -> Option<(&'a [u8], Key, Row)> {
        let mut take = || {
            let (length, rest) = bytes.split_first_chunk()?;
            let (head, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            *bytes = rest;
            Some(head)
        };
        let (at, row) = (take()?, take()?);
        let (group, key) = decode_key(at)?;
        let row = wire::decode_row(&key, row).ok()?;
        (group == self.group && at > &self.last_key[..]).then_some((at, key, row))
    }
}

impl RowsIn for In {
    fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    fn take(&mut self, mut chunk: &[u8]) -> Result<(), Error> {
        while !chunk.is_empty() {
            let row = self.row(&mut chunk);
            let (at, key, row) = row.ok_or(Error::NotInOrder { group: self.group })?;
            self.last_key = at.to_vec();
            self.of.put(key, Some(row));
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn complete(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Rows that were installed are on disk.
    fn install(self: Box<Self>) -> Result<(), Error> {
        let In { to, group, of, .. } = *self;
        let Some(mut state) = to.alive() else { return Ok(()) };
        if let Some((index, mark)) = &of.applied {
            state.watch.applied(state.node, *index, of.sum, mark);
        }
        state.memory.insert(group, of.clone());
        state.flushed.insert(group, of);
        Ok(())
    }
}
