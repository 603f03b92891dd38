//! Rows over a database that takes no write any more: what is in memory can still be read.

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use domain::{GroupId, Key, Row, Rows};
use store::{Change, DiskSpace, Error, Options, RowDisk, RowStore, RowsIn, RowsOut};

use crate::support::*;

/// Holds nothing, and refuses what it is given.
struct Refusing;

fn refused<T>() -> Result<T, Error> {
    Err(Error::Stopped { reason: "nothing is written here".to_owned() })
}

impl RowDisk for Refusing {
    fn write(
        &self,
        _group: GroupId,
        _erased: &[(Key, Key)],
        _changes: &mut dyn Iterator<Item = Change<'_>>,
        _applied: &(u64, Bytes),
    ) -> Result<(), Error> {
        refused()
    }

    fn get(&self, _group: GroupId, _key: &Key) -> Option<Row> {
        None
    }

    fn scan(&self, _: GroupId, _: &Key, _: &Key) -> Box<dyn Iterator<Item = (Key, Row)> + '_> {
        Box::new(std::iter::empty())
    }

    fn applied(&self, _group: GroupId) -> Result<Option<(u64, Bytes)>, Error> {
        Ok(None)
    }

    fn flushed_index(&self, _group: GroupId) -> u64 {
        0
    }

    fn flush(&self) -> Result<(), Error> {
        refused()
    }

    fn forget(&self, _group: GroupId) -> Result<(), Error> {
        refused()
    }

    fn file_bytes(&self) -> u64 {
        0
    }

    fn disk_space(&self) -> Result<DiskSpace, Error> {
        refused()
    }

    fn failure(&self) -> Option<Error> {
        refused::<()>().err()
    }

    fn export(&self, _group: GroupId) -> Result<Box<dyn RowsOut>, Error> {
        refused()
    }

    fn import(&self, _: GroupId, _: u64, _: &[u8]) -> Result<Box<dyn RowsIn>, Error> {
        refused()
    }

    fn is_shared(&self) -> bool {
        false
    }
}

#[test]
fn a_scan_goes_on_where_its_rows_cannot_be_written_and_its_visitor_may_read() {
    let store = RowStore::on(Refusing, &Options::default());
    let rows = (1..=5).map(|number| (message_key(number), Some(message(number)))).collect();
    store.write(GROUP, rows, 1, "mark".into()).expect("it stays in memory");
    let (done, seen) = mpsc::channel();
    std::thread::spawn(move || {
        let (rows, mut seen) = (store.group(GROUP), Vec::new());
        rows.scan(&message_key(2), &message_key(100), &mut |key, row| {
            seen.push((rows.get(&key) == Some(row), key));
            if seen.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        done.send(seen)
    });
    let seen = seen.recv_timeout(Duration::from_secs(60)).expect("nobody waits for himself");
    assert_eq!(seen, [2, 3, 4].map(|number| (true, message_key(number))));
}
