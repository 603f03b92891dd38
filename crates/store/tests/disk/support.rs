//! What the tests share.

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use bytes::Bytes;
use domain::{
    EntityId, GroupId, Key, Lifetime, MemoryRows, MessageRow, QueueId, Row, Rows, SequenceNumber,
    Timestamp,
};
use store::{Done, Error, LogRecord, LogStore, Options};

pub const GROUP: GroupId = GroupId(1);
pub const OTHER: GroupId = GroupId(2);
pub const ENTITY: EntityId = EntityId(9);

/// Small enough that a test fills memtables.
pub fn small() -> Options {
    Options {
        cache_bytes: 8 << 20,
        log_memtable_bytes: 256 << 10,
        rows_memtable_bytes: 256 << 10,
        tail_bytes_max: 64 << 10,
        ..Options::default()
    }
}

pub fn record(index: u64, data: impl Into<Bytes>) -> LogRecord {
    LogRecord { index, data: data.into() }
}

pub fn records(from: u64, to: u64) -> Vec<LogRecord> {
    (from..to).map(|index| record(index, format!("entry {index}"))).collect()
}

/// A callback and where its result arrives.
pub fn waiter() -> (Done, mpsc::Receiver<Result<(), Error>>) {
    let (sender, receiver) = mpsc::channel();
    (Box::new(move |result| drop(sender.send(result))), receiver)
}

/// Appends, and waits until it is on disk.
pub fn append(log: &LogStore, group: GroupId, records: Vec<LogRecord>) {
    let (done, synced) = waiter();
    log.append(group, records, done);
    synced.recv().expect("the callback is called").expect("appended");
}

pub fn truncate(log: &LogStore, group: GroupId, from: u64) {
    let (done, synced) = waiter();
    log.truncate(group, from, done);
    synced.recv().expect("the callback is called").expect("truncated");
}

/// Reads all of a range, however many calls that takes.
pub fn read_all(log: &LogStore, group: GroupId, from: u64, to: u64, step: usize) -> Vec<LogRecord> {
    let mut all: Vec<LogRecord> = Vec::new();
    loop {
        let next = all.last().map_or(from, |last| last.index + 1);
        let read = log.read(group, next, to, step).expect("readable");
        if read.is_empty() {
            return all;
        }
        all.extend(read);
    }
}

pub fn message_key(number: u64) -> Key {
    Key::Message(QueueId::main(ENTITY), SequenceNumber(number))
}

pub fn body_key(number: u64) -> Key {
    Key::Body(ENTITY, SequenceNumber(number))
}

pub fn message(number: u64) -> Row {
    Row::Message(MessageRow {
        session: None,
        body: SequenceNumber(number),
        size_bytes: 1000,
        header_bytes: 10,
        deferred: false,
        was_scheduled: false,
        delivery_count: 0,
        enqueued_at: Timestamp(number),
        lifetime: Lifetime::Derived,
        overlay: None,
        travel: None,
    })
}

/// Large enough for a blob file.
pub fn body(number: u64) -> Bytes {
    number.to_be_bytes().repeat(128).into()
}

/// All rows, read table by table.
pub fn all_rows(rows: &impl Rows) -> MemoryRows {
    let mut all = MemoryRows::default();
    let tables = [
        (message_key(0), message_key(u64::MAX)),
        (body_key(0), body_key(u64::MAX)),
        (Key::Directory(String::new()), Key::Directory("\u{10ffff}".to_owned())),
    ];
    for (from, to) in tables {
        rows.scan(&from, &to, &mut |key, row| {
            all.0.insert(key, row);
            ControlFlow::Continue(())
        });
    }
    all
}

/// Copies a directory as a crash at this moment would leave it.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("listed");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

const ROLE: &str = "MAYFLY_STORE_CHILD";

/// Starts this test binary again with only one test, which finds the directory by [`child_dir`].
pub fn spawn(test: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().expect("a path"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started")
}

/// Where a child works; `None` in the parent, where such a test has nothing to do.
pub fn child_dir() -> Option<std::path::PathBuf> {
    std::env::var_os(ROLE).map(Into::into)
}

/// Tells the parent a line at once.
pub fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the parent listens");
}
