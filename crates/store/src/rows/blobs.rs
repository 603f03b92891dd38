//! When bodies are moved so that the files they lie in can go.
//!
//! A blob file goes by itself once all its bodies are deleted, as those of a queue are sooner or later.
//! RocksDB's collection moves what is left in the oldest files at every compaction that meets it,
//! however full they still are: beside a backlog it would move a quarter of it each time. So it is
//! left off until garbage takes up half of the space.

use parking_lot::Mutex;
use rocksdb::DB;

const LIVE_BYTES: &str = "rocksdb.live-blob-file-size";
const GARBAGE_BYTES: &str = "rocksdb.live-blob-file-garbage-size";
const SWITCH: &str = "enable_blob_garbage_collection";
/// The part of the files, by age, that a merge moves bodies out of.
const CUTOFF: &str = "blob_garbage_collection_age_cutoff";
const CUTOFF_ALL: &str = "1.0";
/// RocksDB's own choice.
const CUTOFF_OLDEST: &str = "0.25";

pub(super) struct Blobs {
    /// What is written between two looks at the files. Garbage of fewer than four times as much is not
    /// worth a move.
    look_every_bytes: u64,
    state: Mutex<CollectionState>,
}

#[derive(Default)]
struct CollectionState {
    written_bytes: u64,
    collecting: bool,
    /// See [`Blobs::collect`].
    collecting_all: bool,
}

impl Blobs {
    /// Of a database that was opened with its collection off.
    pub fn new(look_every_bytes: usize) -> Blobs {
        Blobs { look_every_bytes: look_every_bytes as u64, state: Mutex::default() }
    }

    /// Counts what was written; begins or ends the collection where it is time to.
    pub fn wrote(&self, db: &DB, bytes: usize) {
        let mut state = self.state.lock();
        state.written_bytes += bytes as u64;
        if state.written_bytes < self.look_every_bytes || state.collecting_all {
            return;
        }
        state.written_bytes = 0;
        let read = |name| db.property_int_value(name).ok().flatten().unwrap_or(0);
        let collect = self.shall_collect(state.collecting, read(LIVE_BYTES), read(GARBAGE_BYTES));
        if collect == state.collecting {
            return;
        }
        match db.set_options(&[(SWITCH, if collect { "true" } else { "false" })]) {
            Ok(()) => state.collecting = collect,
            // It is tried again after the next look.
            Err(error) => tracing::warn!(%error, "collection of blob files is not switched"),
        }
    }

    /// Has `merge` move what is left in all files, if garbage is a quarter of them or more and what is
    /// left takes no more than `room` bytes a second time.
    pub fn collect(&self, db: &DB, room: u64, merge: impl FnOnce()) {
        let read = |name| db.property_int_value(name).ok().flatten().unwrap_or(0);
        let (files, garbage) = (read(LIVE_BYTES), read(GARBAGE_BYTES));
        if garbage == 0 || garbage < files / 4 || files.saturating_sub(garbage) > room {
            return;
        }
        // Whoever writes meanwhile leaves the switch alone, and waits for nothing.
        self.state.lock().collecting_all = true;
        let switched = db.set_options(&[(SWITCH, "true"), (CUTOFF, CUTOFF_ALL)]);
        if switched.is_ok() {
            merge();
        }
        let back = db.set_options(&[(SWITCH, "false"), (CUTOFF, CUTOFF_OLDEST)]);
        *self.state.lock() = CollectionState::default();
        if let Err(error) = switched.and(back) {
            tracing::warn!(%error, "collection of blob files is not switched");
        }
    }

    /// From half of the files' bytes on, until it is less than a quarter.
    fn shall_collect(&self, collecting: bool, file_bytes: u64, garbage_bytes: u64) -> bool {
        let share = if collecting { 4 } else { 2 };
        garbage_bytes >= 4 * self.look_every_bytes && garbage_bytes >= file_bytes / share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_collected_from_half_garbage_on_until_it_is_a_quarter() {
        let blobs = Blobs::new(10);
        let cases = [
            (false, 1000, 499, false),
            (false, 1000, 500, true),
            (true, 1000, 499, true),
            (true, 1000, 250, true),
            (true, 1000, 249, false),
            // Of a few files nothing is moved.
            (false, 50, 39, false),
            (true, 50, 39, false),
            (false, 50, 40, true),
            (false, 0, 0, false),
        ];
        for (collecting, file_bytes, garbage_bytes, expected) in cases {
            let found = blobs.shall_collect(collecting, file_bytes, garbage_bytes);
            assert_eq!(found, expected, "{collecting}, {garbage_bytes} of {file_bytes}");
        }
    }
}
