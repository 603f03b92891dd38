//! Files that are not as they were left: a torn end is cut off and told, anything else is refused.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use domain::Rows;
use store::{Error, LogStore, RowStore, Shortened};

use crate::support::*;

/// The files of a database with this ending, the newest last.
pub fn files(path: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).expect("listed").map(|entry| entry.expect("listed").path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
    files.sort();
    files
}

/// A log of 50 entries, synced one by one.
fn log(dir: &Path) -> PathBuf {
    let path = dir.join("log");
    let log = LogStore::open(&path, &small()).unwrap();
    for index in 1..=50 {
        append(&log, GROUP, vec![record(index, vec![index as u8; 200])]);
    }
    path
}

pub fn cut(file: &Path, bytes: u64) {
    let file = fs::OpenOptions::new().write(true).open(file).expect("opened");
    let length = file.metadata().expect("a length").len();
    file.set_len(length.saturating_sub(bytes)).expect("cut");
}

/// Flips one bit, at this part of the file.
pub fn flip(file: &Path, part: f64) {
    let mut bytes = fs::read(file).expect("read");
    let at = (bytes.len() as f64 * part) as usize;
    bytes[at] ^= 0x10;
    fs::write(file, bytes).expect("written");
}

#[test]
fn a_torn_end_is_cut_off_and_told() {
    for torn in [1, 100, 300, 2000] {
        let dir = tempfile::tempdir().unwrap();
        let path = log(dir.path());
        cut(files(&path, "log").last().expect("a write-ahead log"), torn);
        let log = LogStore::open(&path, &small()).expect("a torn end is no damage");
        let kept = read_all(&log, GROUP, 1, 100, usize::MAX);
        let last = kept.len() as u64;
        assert!((30..50).contains(&last), "{last} entries kept, {torn} bytes torn off");
        for (index, entry) in (1..).zip(&kept) {
            assert_eq!(*entry, record(index, vec![index as u8; 200]));
        }
        // They were synced, so the disk has lost them: this replica may have voted on them.
        assert_eq!(log.shortened(GROUP), Some(Shortened { last, marked: 50 }));
        assert_eq!(log.shortened(OTHER), None);
    }
}

#[test]
fn a_log_that_is_gone_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    fs::remove_dir_all(&path).unwrap();
    let log = LogStore::open(&path, &small()).unwrap();
    assert_eq!(log.shortened(GROUP), Some(Shortened { last: 0, marked: 50 }));
}

#[test]
fn damage_before_the_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    let file = files(&path, "log").pop().expect("a write-ahead log");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&file, bytes).unwrap();
    let error = LogStore::open(&path, &small()).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
}

/// Where the records of a file begin that RocksDB reads one by one; all in its first block.
fn records(file: &Path) -> Vec<usize> {
    let bytes = fs::read(file).expect("read");
    let (mut at, mut found) = (0, Vec::new());
    while let Some(&[_, _, _, _, low, high, _]) = bytes.get(at..at + 7) {
        found.push(at);
        at += 7 + usize::from(u16::from_le_bytes([low, high]));
    }
    found
}

/// One bit makes a record one of a recycled file: RocksDB would read it for ever.
#[test]
fn a_record_of_a_recycled_file_is_refused() {
    for ending in ["log", "manifest"] {
        let dir = tempfile::tempdir().unwrap();
        let path = log(dir.path());
        let file = match ending {
            "log" => files(&path, "log").pop().expect("a write-ahead log"),
            _ => path.join(fs::read_to_string(path.join("CURRENT")).unwrap().trim_end()),
        };
        let (whole, records) = (fs::read(&file).unwrap(), records(&file));
        assert!(records.len() > 3, "{records:?}");
        for at in records {
            let mut bytes = whole.clone();
            bytes[at + 6] ^= 4;
            fs::write(&file, bytes).unwrap();
            let error = LogStore::open(&path, &small()).map(|_| ()).unwrap_err();
            let (Error::Corrupt { path, reason }, true) = (&error, error.is_damage()) else {
                panic!("{error:?}")
            };
            assert_eq!(
                (path, reason.contains(&format!("at byte {at} "))),
                (&file, true),
                "{reason}"
            );
        }
        fs::write(&file, whole).unwrap();
        assert_eq!(
            LogStore::open(&path, &small()).unwrap().last(GROUP).unwrap().unwrap().index,
            50
        );
    }
}

/// A vote has no index, and is promised all the same.
#[test]
fn a_vote_that_is_gone_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    {
        let log = LogStore::open(&path, &small()).unwrap();
        log.check().expect("all is there");
        let (done, synced) = waiter();
        log.save_vote(GROUP, "a vote".into(), done);
        synced.recv().unwrap().unwrap();
    }
    cut(files(&path, "log").last().expect("a write-ahead log"), 1);
    let log = LogStore::open(&path, &small()).expect("a torn end is no damage");
    assert_eq!((log.vote(GROUP).unwrap(), log.shortened(GROUP)), (None, None));
    let error = log.check().unwrap_err().to_string();
    assert!(error.contains("votes may be among them"), "{error}");
}

/// It is only a hint: without it the log is taken as it is.
#[test]
fn a_mark_file_of_garbage_counts_for_nothing() {
    for garbage in [&b""[..], b"garbage", &[0xff; 4096]] {
        let dir = tempfile::tempdir().unwrap();
        let path = log(dir.path());
        fs::write(path.with_extension("marks"), garbage).unwrap();
        let log = LogStore::open(&path, &small()).unwrap();
        assert_eq!(read_all(&log, GROUP, 1, 100, usize::MAX).len(), 50);
        assert_eq!(log.shortened(GROUP), None);
    }
}

#[test]
fn a_database_of_garbage_is_refused() {
    for name in ["CURRENT", "MANIFEST"] {
        let dir = tempfile::tempdir().unwrap();
        let path = log(dir.path());
        for entry in fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with(name) {
                fs::write(entry.path(), b"garbage\n").unwrap();
            }
        }
        assert!(LogStore::open(&path, &small()).is_err(), "{name}");
    }
}

/// Rows cannot fail, so a row that cannot be read ends the process, and says which.
fn dies(test: &str, dir: &Path, says: &str) {
    let output = spawn(test, dir).wait_with_output().expect("ended");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(6), "aborted; it said: {errors}");
    assert!(errors.contains("cannot be read") && errors.contains(says), "it said: {errors}");
}

#[test]
fn child_reads_all_rows() {
    let Some(dir) = child_dir() else { return };
    let store = RowStore::open(&dir, &small()).unwrap();
    tell(&format!("{} rows", all_rows(&store.group(GROUP)).0.len()));
}

#[test]
fn child_gets_a_row() {
    let Some(dir) = child_dir() else { return };
    let store = RowStore::open(&dir, &small()).unwrap();
    tell(&format!("{:?}", store.group(GROUP).get(&message_key(7))));
}

#[test]
fn rows_in_a_damaged_file_stop_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows");
    {
        let store = RowStore::open(&path, &small()).unwrap();
        let rows = (1..500).map(|number| (message_key(number), Some(message(number))));
        store.write(GROUP, rows.collect(), 1, "1".into()).unwrap();
        store.flush().unwrap();
    }
    let file = files(&path, "sst").pop().expect("a file of rows");
    let mut bytes = fs::read(&file).unwrap();
    bytes[1000] ^= 0xff;
    fs::write(&file, bytes).unwrap();
    dies("damage::child_reads_all_rows", &path, "group 1");
    dies("damage::child_gets_a_row", &path, "Message");
}

/// Sound for RocksDB, without meaning for us.
#[test]
fn rows_of_garbage_stop_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows");
    {
        let store = RowStore::open(&path, &small()).unwrap();
        let mut chunk = Vec::new();
        for part in [&wire::encode_key(GROUP, &message_key(7))[..], b"\x01garbage"] {
            chunk.extend_from_slice(&(part.len() as u32).to_be_bytes());
            chunk.extend_from_slice(part);
        }
        let mut import = store.import(GROUP, 1, b"1").unwrap();
        import.take([chunk.into()]).unwrap();
        import.finish().unwrap();
    }
    dies("damage::child_reads_all_rows", &path, "Message");
    dies("damage::child_gets_a_row", &path, "Message");
}
