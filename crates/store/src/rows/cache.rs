//! What a group's last entries wrote, before the database has it: a write-back cache of rows. Under
//! load most messages live for milliseconds: sent, locked, completed. Their rows come and go here,
//! and storage never hears of them. The log has them, as it has everything since the last flush.
//!
//! Messages that were stored before they are received are met twice in short order: by the scan that
//! locks them, and by number when they are settled, which costs storage ten times as much. So what such
//! a scan has met stays here as well.
//!
//! Many deadlines that fall due together are gone as a range, which storage is told of once, and
//! not row by row.
//!
//! Invariant: cached rows over what stored rows the erased ranges leave are the rows as of the
//! cache's mark, and stored rows are those of the stored mark: both change together, in one write.
//! What is met is stored, and neither cached nor in such a range.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::key_map::{KeyEntry, KeyMap};
use domain::{Key, MessageRow, Row, Write};

use super::Change;
use super::ends::Ends;
use super::erased::Erased;

/// More rows than this are written: the write takes some tens of milliseconds, in which its group
/// applies nothing.
const ROWS_MAX: usize = 16 * 1024;
/// Rows that are met and not changed yet, at most: with one more, all are forgotten, and looked up
/// again by number. A few hundred bytes each, for which [`is_worth_meeting`] sees.
pub(super) const MET_MAX: usize = 4 * 1024;
/// Rows stay in the cache for so long. What lives longer costs what it would have cost without.
const AGE_MAX: Duration = Duration::from_secs(1);
/// What a row takes besides a body.
const ROW_BYTES: usize = 160;
/// Of the bytes all groups may hold, one may hold this share.
const SHARE: usize = 4;

/// Whether a row that a scan has met is kept: a message without what clients lay over it, which may be
/// 64 KiB and is counted nowhere here.
pub(super) fn is_worth_meeting(key: &Key, row: &Row) -> bool {
    let is_small = |message: &MessageRow| message.overlay.is_none() && message.travel.is_none();
    matches!((key, row), (Key::Message(..), Row::Message(message)) if is_small(message))
}

#[derive(Default)]
pub(super) struct RowCache {
    slots: KeyMap<Slot>,
    /// Ranges whose stored rows are gone; what came into them since is in the slots.
    erased: Erased,
    /// Messages that are stored, as the machine met them.
    met: KeyMap<Row>,
    /// Beside what is stored, as far as that is known.
    pub ends: Ends,
    /// Index and mark of the last entry.
    applied: Option<(u64, Bytes)>,
    bodies: Bodies,
    since: Option<Instant>,
}

struct Slot {
    /// `None`: deleted.
    row: Option<Row>,
    /// Storage may hold a row under this key.
    stored: bool,
    /// With which entry a body came.
    came: u32,
}

/// What bodies take. Each keeps all those in memory that came with the same entry.
#[derive(Default)]
struct Bodies {
    /// Of each entry, from that with the number `first` on: bodies that are left, and bytes of all.
    entries: VecDeque<(u32, usize)>,
    first: u32,
    bytes: usize,
}

impl Bodies {
    /// What comes from here on belongs to a new entry: its number.
    fn next_entry(&mut self) -> u32 {
        while self.entries.front().is_some_and(|(left, _)| *left == 0) {
            self.entries.pop_front();
            self.first += 1;
        }
        self.entries.push_back((0, 0));
        self.first + self.entries.len() as u32 - 1
    }

    /// One of the last entry.
    fn came(&mut self, bytes: usize) {
        if let Some((left, all)) = self.entries.back_mut() {
            *left += 1;
            *all += bytes;
            self.bytes += bytes;
        }
    }

    fn gone(&mut self, entry: u32) {
        let (left, all) = &mut self.entries[(entry - self.first) as usize];
        *left -= 1;
        if *left == 0 {
            self.bytes -= std::mem::take(all);
        }
    }
}

impl RowCache {
    /// Takes in what an entry erased, and then wrote.
    pub fn take(
        &mut self,
        erased: Vec<(Key, Key)>,
        writes: KeyMap<Write>,
        applied: (u64, Bytes),
        now: Instant,
    ) {
        erased.into_iter().for_each(|(from, to)| self.erase(from, to));
        let came = self.bodies.next_entry();
        for (key, write) in writes {
            let inserted = matches!(write, Write::Insert(_));
            if !inserted && !self.met.is_empty() {
                self.met.remove(&key);
            }
            let row = Option::from(write);
            if let Some(Row::Body(content)) = &row {
                self.bodies.came(content.len());
            }
            match self.slots.entry(key) {
                KeyEntry::Vacant(slot) => slot.insert(Slot { row, stored: !inserted, came }),
                KeyEntry::Occupied(mut slot) => {
                    let old = slot.get_mut();
                    if let Some(Row::Body(_)) = old.row {
                        self.bodies.gone(old.came);
                    }
                    match row {
                        None if !old.stored => drop(slot.remove()),
                        row => (old.row, old.came) = (row, came),
                    }
                }
            }
        }
        self.applied = Some(applied);
        self.since.get_or_insert(now);
    }

    fn erase(&mut self, from: Key, to: Key) {
        for key in keys(&self.slots, &from, &to) {
            if let Some(Slot { row: Some(Row::Body(_)), came, .. }) = self.slots.remove(&key) {
                self.bodies.gone(came);
            }
        }
        keys(&self.met, &from, &to).iter().for_each(|key| drop(self.met.remove(key)));
        self.erased.add(from, to);
    }

    /// What it all takes in memory, about.
    pub fn bytes(&self) -> usize {
        (self.slots.len() + self.erased.len()) * ROW_BYTES + self.bodies.bytes
    }

    /// Takes in what storage holds, of which some may be cached by now.
    pub fn meet(&mut self, rows: Vec<(Key, Row)>) {
        if self.met.len() + rows.len() > MET_MAX {
            self.met = KeyMap::default();
        }
        for (key, row) in rows {
            if self.slots.get(&key).is_none() && !self.erased.contains(&key) {
                self.met.insert(key, row);
            }
        }
    }

    /// What is stored is no longer what it was.
    pub fn forget_stored(&mut self) {
        self.met = KeyMap::default();
        self.ends = Ends::default();
    }

    /// Whether it is time to write, where all groups together hold so many of so many bytes.
    pub fn is_full(&self, held: usize, bytes_max: usize, now: Instant) -> bool {
        bytes_max == 0
            || self.slots.len() >= ROWS_MAX
            || self.erased.is_full()
            || held > bytes_max
            || self.bytes() > bytes_max / SHARE
            || self.is_old(now)
    }

    pub fn is_old(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.duration_since(since) >= AGE_MAX)
    }

    /// Rows and ranges to write.
    pub fn len(&self) -> usize {
        self.slots.len() + self.erased.len()
    }

    /// Index and mark of the last entry taken in; `None` where storage has all.
    pub fn applied(&self) -> Option<&(u64, Bytes)> {
        self.applied.as_ref()
    }

    /// Has `write` store what is cached, if there is anything: ranges to erase, then changes, of which
    /// those of a run come in ascending order.
    pub fn store<E>(
        &mut self,
        write: impl FnOnce(
            &[(Key, Key)],
            &mut dyn Iterator<Item = Change<'_>>,
            &(u64, Bytes),
        ) -> Result<(), E>,
    ) -> Result<(), E> {
        let RowCache { slots, erased, ends, applied: Some(applied), .. } = self else {
            return Ok(());
        };
        let mut changes = slots.iter().map(|(key, slot)| {
            let row = slot.row.as_ref();
            // Where the write fails as well: an end may be too high.
            ends.stored(&key, row);
            (key, row)
        });
        write(&erased.ranges(), &mut changes, applied)
    }

    /// Forgets what is cached. What is known of storage stays true.
    pub fn clear(&mut self) {
        let (met, ends) = (std::mem::take(&mut self.met), std::mem::take(&mut self.ends));
        *self = RowCache { met, ends, ..RowCache::default() };
    }

    /// A cached row, or that it is deleted, or a row that was met; `None` where storage is to be asked.
    pub fn get(&self, key: &Key) -> Option<Option<Row>> {
        match self.slots.get(key) {
            Some(slot) => Some(slot.row.clone()),
            None if self.erased.contains(key) => Some(None),
            None => self.met.get(key).cloned().map(Some),
        }
    }

    /// Whether storage alone would not do for this range.
    pub fn touches(&self, from: &Key, to: &Key) -> bool {
        self.slots.range(from, to).next().is_some() || self.erased.touches(from, to)
    }

    /// Visits the rows of a range: these, over those that are `stored`.
    pub fn scan(
        &self,
        range: (&Key, &Key),
        stored: impl Iterator<Item = (Key, Row)>,
        visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>,
    ) {
        let mut stored = stored.filter(|(key, _)| !self.erased.contains(key));
        self.slots.scan_over(
            range,
            |slot| slot.row.as_ref(),
            |each| {
                let _ = stored.try_for_each(|(key, row)| each(key, row)); // Ended, or broken off.
            },
            |key, row| visit(key.into_owned(), row.into_owned()),
        );
    }
}

fn keys<T>(map: &KeyMap<T>, from: &Key, to: &Key) -> Vec<Key> {
    map.range(from, to).map(|(key, _)| key.into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use domain::{EntityId, Lifetime, Overlay, QueueId, SequenceNumber, Timestamp};

    use super::*;

    fn message(number: u64) -> (Key, Row) {
        let number = SequenceNumber(number);
        let row = MessageRow {
            body: number,
            size_bytes: 1,
            header_bytes: 1,
            deferred: false,
            was_scheduled: false,
            delivery_count: 0,
            enqueued_at: Timestamp::ZERO,
            lifetime: Lifetime::Derived,
            session: None,
            overlay: None,
            travel: None,
        };
        (Key::Message(QueueId::main(EntityId(9)), number), Row::Message(row))
    }

    #[test]
    fn what_is_erased_takes_no_memory_but_its_range() {
        let mut cache = RowCache::default();
        let key = |number| Key::Body(EntityId(9), SequenceNumber(number));
        let body = Row::Body(vec![0; 100].into());
        let bodies = (0..9).map(|number| (key(number), Write::Insert(body.clone()))).collect();
        let (now, mark) = (Instant::now(), Bytes::new());
        cache.take(Vec::new(), bodies, (1, mark.clone()), now);
        assert_eq!(cache.bytes(), 9 * (ROW_BYTES + 100));
        cache.take(vec![(key(0), key(9))], KeyMap::default(), (2, mark), now);
        assert_eq!(cache.bytes(), ROW_BYTES);
    }

    #[test]
    fn what_is_met_is_bounded_in_number_and_size() {
        let mut cache = RowCache::default();
        for number in 0..3 * MET_MAX as u64 {
            let (key, row) = message(number);
            assert!(is_worth_meeting(&key, &row));
            cache.meet(vec![(key, row)]);
            assert!(cache.met.len() <= MET_MAX);
        }
        let (key, Row::Message(mut row)) = message(1) else { panic!("a message") };
        row.overlay = Some(Box::new(Overlay::default()));
        assert!(!is_worth_meeting(&key, &Row::Message(row)));
    }
}
