//! The log against a model too plain to be wrong: a vector.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use store::{LogRecord, LogStore};

use crate::support::*;

#[derive(Clone, Debug)]
enum Action {
    Append(Vec<usize>),
    /// So many entries from the end.
    Truncate(usize),
    /// So many entries after the last forgotten one; beyond the end as well.
    Purge(u64),
    Reopen,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => vec(0..4000usize, 1..6).prop_map(Action::Append),
        2 => (0..6usize).prop_map(Action::Truncate),
        2 => (1..8u64).prop_map(Action::Purge),
        1 => Just(Action::Reopen),
    ]
}

#[derive(Default)]
struct Model {
    entries: Vec<LogRecord>,
    next: u64,
    first: u64,
}

impl Model {
    fn check(&self, log: &LogStore) {
        assert_eq!(log.last(GROUP).unwrap(), self.entries.last().cloned());
        assert_eq!(read_all(log, GROUP, 0, u64::MAX, 5000), self.entries);
        assert_eq!(log.shortened(GROUP), None);
        let purged = log.purged(GROUP).unwrap();
        assert_eq!(purged, (self.first > 0).then(|| mark(self.first - 1)));
    }
}

fn mark(last: u64) -> Bytes {
    Bytes::copy_from_slice(&last.to_be_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_log_agrees_with_a_vector(actions in vec(action(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        // So small a tail that most reads begin on disk.
        let options = store::Options { tail_bytes_max: 8000, ..small() };
        let mut log = LogStore::open(&path, &options).unwrap();
        let mut model = Model::default();
        let mut stamp = 0u8;
        for action in actions {
            match action {
                Action::Append(sizes) => {
                    stamp = stamp.wrapping_add(1);
                    let entries = sizes.iter().zip(model.next..);
                    let entries: Vec<_> =
                        entries.map(|(size, index)| record(index, vec![stamp; *size])).collect();
                    model.next += entries.len() as u64;
                    model.entries.extend(entries.iter().cloned());
                    append(&log, GROUP, entries);
                }
                Action::Truncate(count) => {
                    let keep = model.entries.len().saturating_sub(count);
                    model.entries.truncate(keep);
                    model.next = model.first + keep as u64;
                    truncate(&log, GROUP, model.next);
                }
                Action::Purge(count) => {
                    let last = model.first + count - 1;
                    model.first = last + 1;
                    model.next = model.next.max(model.first);
                    model.entries.retain(|entry| entry.index > last);
                    log.purge(GROUP, last, mark(last));
                }
                Action::Reopen => {
                    drop(log);
                    log = LogStore::open(&path, &options).unwrap();
                }
            }
            model.check(&log);
        }
        drop(log);
        model.check(&LogStore::open(&path, &options).unwrap());
    }
}
