//! A group's rows on their way to another node, and on their way in.
//!
//! Out: one thread holds a RocksDB snapshot and reads the group's range into chunks, also from the
//! middle, for a receiver that lost its connection. In: chunks become sorted files beside the
//! database; once all are there they are marked complete and synced, and only then the old rows are
//! deleted and the files become part of the database, without being copied. A crash in between is
//! completed at the next start, because every step after the mark can be repeated.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use bytes::Bytes;
use domain::GroupId;
use rocksdb::{DBRawIterator, IngestExternalFileOptions, ReadOptions, SstFileWriter, WriteBatch};

use super::rocks::{RocksRows, applied_value, database};
use super::{RowDisk, RowsIn, RowsOut};
use crate::{Error, Options};
use wire::{applied_key, group_range};

/// Bytes of one chunk, one row at the least.
const CHUNK_BYTES: usize = 512 << 10;
/// Chunks read ahead of whoever takes them.
const CHUNKS_AHEAD: usize = 4;
/// Bytes of one file to ingest.
const FILE_BYTES: u64 = 256 << 20;

/// Rows on their way out.
pub(super) struct RocksOut {
    mark: Bytes,
    starts: Sender<Start>,
    chunks: Receiver<Result<Option<Bytes>, Error>>,
}

/// Where to read from: behind a key, or from the beginning if it is empty.
struct Start {
    after: Bytes,
    out: SyncSender<Result<Option<Bytes>, Error>>,
}

impl RowsOut for RocksOut {
    fn mark(&self) -> &[u8] {
        &self.mark
    }

    fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.chunks.recv().unwrap_or_else(|_| Err(ended()))
    }

    fn resume_after(&mut self, key: Bytes) -> Result<(), Error> {
        let (out, chunks) = sync_channel(CHUNKS_AHEAD);
        self.chunks = chunks;
        self.starts.send(Start { after: key, out }).map_err(|_| ended())
    }
}

fn ended() -> Error {
    Error::Stopped { reason: "the export's thread has ended".to_owned() }
}

/// [`super::RowDisk::export`].
pub(super) fn export(store: &RocksRows, group: GroupId) -> Result<RocksOut, Error> {
    let (first, begun) = sync_channel(1);
    let (starts, starting) = channel();
    let (out, chunks) = sync_channel(CHUNKS_AHEAD);
    let reader = store.clone();
    thread::Builder::new()
        .name(format!("export-{group}"))
        .spawn(move || read(&reader, group, &first, &starting))
        .map_err(|error| Error::io(&store.inner.path, &error))?;
    let mark = begun.recv().map_err(|_| ended())??;
    starts.send(Start { after: Bytes::new(), out }).map_err(|_| ended())?;
    Ok(RocksOut { mark, starts, chunks })
}

/// [`super::RowDisk::import`].
pub(super) fn import(
    store: &RocksRows,
    group: GroupId,
    index: u64,
    mark: &[u8],
) -> Result<RocksIn, Error> {
    let dir = staging(&store.inner.path, group);
    // One that could not be installed may have taken the old rows away already: it comes first.
    resume_one(store, &dir)?;
    fs::create_dir_all(&dir).map_err(|error| Error::io(&dir, &error))?;
    let applied = applied_value(index, mark);
    let (store, last_key) = (store.clone(), Vec::new());
    Ok(RocksIn { store, group, applied, dir, files: 0, file: None, last_key, complete: false })
}

/// Reads as often as it is told to start, from one snapshot.
fn read(
    store: &RocksRows,
    group: GroupId,
    begun: &SyncSender<Result<Bytes, Error>>,
    starts: &Receiver<Start>,
) {
    let snapshot = store.inner.db.snapshot();
    let mark = match snapshot.get_pinned(applied_key(group)) {
        Ok(None) => Ok(Bytes::new()),
        Ok(Some(value)) => store.applied_of(group, &value).map(|(_, mark)| mark),
        Err(error) => Err(store.failed(&error)),
    };
    if begun.send(mark).is_err() {
        return;
    }
    let (first, to) = group_range(group);
    while let Ok(Start { after, out }) = starts.recv() {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(to);
        options.fill_cache(false);
        let mut rows = snapshot.raw_iterator_opt(options);
        rows.seek(first);
        if !after.is_empty() {
            rows.seek(&after);
            if rows.key() == Some(&after[..]) {
                rows.next();
            }
        }
        let last = feed(&mut rows, &applied_key(group), &out).map_err(|error| store.failed(&error));
        if let Err(error) = &last {
            store.inner.stop_if_damaged(&format!("an export of group {group}"), error);
        }
        let _ = out.send(last.map(|()| None)); // Whoever wanted it may have gone.
    }
}

/// Hands out all rows that are left; ends early when nobody wants them.
fn feed(
    rows: &mut DBRawIterator<'_>,
    applied: &[u8],
    out: &SyncSender<Result<Option<Bytes>, Error>>,
) -> Result<(), rocksdb::Error> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    while let Some((key, value)) = rows.item() {
        if key != applied {
            put(key, &mut chunk);
            put(value, &mut chunk);
        }
        rows.next();
        if chunk.len() >= CHUNK_BYTES {
            let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_BYTES));
            if out.send(Ok(Some(full.into()))).is_err() {
                return Ok(());
            }
        }
    }
    rows.status()?;
    if !chunk.is_empty() {
        let _ = out.send(Ok(Some(chunk.into()))); // Likewise.
    }
    Ok(())
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    // Keys and values are far below 4 GiB: a log entry bounds them.
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The keys and values of a chunk of [`super::Export`], in order; `None` last, where it is cut short.
pub fn rows_in(mut chunk: &[u8]) -> impl Iterator<Item = Option<(&[u8], &[u8])>> {
    std::iter::from_fn(move || {
        if chunk.is_empty() {
            return None;
        }
        let row = take(&mut chunk).zip(take(&mut chunk));
        if row.is_none() {
            chunk = &[];
        }
        Some(row)
    })
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (head, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *bytes = rest;
    Some(head)
}

/// Rows on their way in.
pub(super) struct RocksIn {
    store: RocksRows,
    group: GroupId,
    /// The value of its applied mark.
    applied: Vec<u8>,
    dir: PathBuf,
    files: usize,
    /// The one that is being written.
    file: Option<SstFileWriter<'static>>,
    last_key: Vec<u8>,
    /// Marked as such: from here on the next start completes it if this process does not.
    complete: bool,
}

/// How incoming files are written.
static OPTIONS: LazyLock<rocksdb::Options> = LazyLock::new(|| database(&Options::default()));

impl RocksIn {
    fn path(&self) -> PathBuf {
        self.dir.join(format!("{:06}.sst", self.files))
    }

    fn open_file(&mut self) -> Result<SstFileWriter<'static>, Error> {
        self.files += 1;
        let (path, writer) = (self.path(), SstFileWriter::create(&OPTIONS));
        writer.open(&path).map_err(|error| Error::rocks(&path, &error))?;
        Ok(writer)
    }

    /// Notes that all have come in, for the next start.
    fn mark(&self) -> Result<(), Error> {
        let complete = self.dir.join(COMPLETE);
        // Under its name it is whole: one cut short would be installed with half a mark.
        let aside = self.dir.join(format!("{COMPLETE}.new"));
        let write = || -> std::io::Result<()> {
            fs::write(&aside, &self.applied)?;
            fs::File::open(&aside)?.sync_all()?;
            fs::rename(&aside, &complete)?;
            // The names above it too: the old rows are gone for good before it is read again.
            self.dir.ancestors().take(3).try_for_each(|dir| fs::File::open(dir)?.sync_all())
        };
        write().map_err(|error| Error::io(&complete, &error))
    }

    /// Writes the rows of one chunk, which has some; its last key.
    fn write(&self, mut chunk: &[u8], writer: &mut SstFileWriter<'_>) -> Result<Vec<u8>, Error> {
        let disorder = || Error::NotInOrder { group: self.group };
        let mut previous = &self.last_key[..];
        while !chunk.is_empty() {
            let key = take(&mut chunk).ok_or_else(disorder)?;
            let value = take(&mut chunk).ok_or_else(disorder)?;
            let ours = key.len() > 2 && key[..2] == self.group.0.to_be_bytes();
            if !ours || key <= previous || key == applied_key(self.group) {
                return Err(disorder());
            }
            writer.put(key, value).map_err(|error| Error::rocks(self.path(), &error))?;
            previous = key;
        }
        Ok(previous.to_vec())
    }
}

impl RowsIn for RocksIn {
    fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let mut writer = match self.file.take() {
            Some(writer) => writer,
            None => self.open_file()?,
        };
        self.last_key = self.write(chunk, &mut writer)?;
        let full = writer.file_size() >= FILE_BYTES;
        self.file = Some(writer);
        if full { self.close() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(mut writer) = self.file.take() else { return Ok(()) };
        writer.finish().map_err(|error| Error::rocks(self.path(), &error))
    }

    fn complete(&mut self) -> Result<(), Error> {
        let marked = self.close().and_then(|()| self.mark());
        marked.map_err(|error| self.store.inner.note(error))?;
        self.complete = true;
        Ok(())
    }

    fn install(self: Box<Self>) -> Result<(), Error> {
        let installed = install(&self.store, self.group, &self.dir, &self.applied);
        installed.map_err(|error| self.store.inner.note(error))
    }
}

impl Drop for RocksIn {
    fn drop(&mut self) {
        // What stays for want of permission or the like is dropped at the next start.
        if !self.complete {
            let _ = remove(&self.dir);
        }
    }
}

const STAGING: &str = "incoming";
const COMPLETE: &str = "complete";
const LINKED: &str = "linked";

fn staging(rows: &Path, group: GroupId) -> PathBuf {
    rows.with_file_name(STAGING).join(group.to_string())
}

/// Removes what came in. The mark goes first and for good: one that outlived its files would have the
/// next start install nothing in the place of all rows.
fn remove(dir: &Path) -> Result<(), Error> {
    let unmark =
        || fs::remove_file(dir.join(COMPLETE)).and_then(|()| fs::File::open(dir)?.sync_all());
    gone(unmark(), dir)?;
    gone(fs::remove_dir_all(dir), dir)
}

/// That something was removed, or was not there.
fn gone(removed: std::io::Result<()>, path: &Path) -> Result<(), Error> {
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, &error)),
        _ => Ok(()),
    }
}

/// Old rows out, and nothing in their place; may be repeated.
pub(super) fn forget(store: &RocksRows, group: GroupId) -> Result<(), Error> {
    remove(&staging(&store.inner.path, group))?;
    let (from, to) = group_range(group);
    let mut batch = WriteBatch::default();
    batch.delete_range(from, to);
    store.inner.commit(batch)?;
    store.flush()
}

/// Old rows out, new ones in; may be repeated from any point.
fn install(store: &RocksRows, group: GroupId, dir: &Path, applied: &[u8]) -> Result<(), Error> {
    let (from, to) = group_range(group);
    let mut batch = WriteBatch::default();
    batch.delete_range(from, to);
    store.inner.commit(batch)?;
    // The deletion must be in files before the new rows come beside it.
    store.flush()?;
    let files = linked(dir)?;
    if !files.is_empty() {
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let ingested = store.inner.db.ingest_external_file_opts(&options, files);
        ingested.map_err(|error| store.inner.not_written(&error))?;
    }
    let mut batch = WriteBatch::default();
    batch.put(applied_key(group), applied);
    store.inner.commit(batch)?;
    store.flush()?;
    remove(dir)
}

/// Second names of the files to ingest, in order. RocksDB takes the names away, the files stay under
/// their first ones: so nothing is copied, and the step can be repeated.
fn linked(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let linked = dir.join(LINKED);
    gone(fs::remove_dir_all(&linked), &linked)?;
    let link = || -> std::io::Result<Vec<PathBuf>> {
        fs::create_dir(&linked)?;
        let mut links = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if is_sst(&entry.path()) {
                let link = linked.join(entry.file_name());
                fs::hard_link(entry.path(), &link)?;
                links.push(link);
            }
        }
        links.sort();
        Ok(links)
    };
    link().map_err(|error| Error::io(&linked, &error))
}

fn is_sst(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

/// At start: completes what had come in whole, drops the rest.
pub(crate) fn resume(store: &RocksRows) -> Result<(), Error> {
    let root = store.inner.path.with_file_name(STAGING);
    let entries = match fs::read_dir(&root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(&root, &error)),
    };
    for entry in entries {
        resume_one(store, &entry.map_err(|error| Error::io(&root, &error))?.path())?;
    }
    Ok(())
}

fn resume_one(store: &RocksRows, dir: &Path) -> Result<(), Error> {
    let group = dir.file_name().and_then(|name| name.to_str()?.parse().ok()).map(GroupId);
    let mark = dir.join(COMPLETE);
    match (group, fs::read(&mark)) {
        (Some(group), Ok(applied)) => {
            tracing::info!(%group, "completing the installation of a snapshot");
            install(store, group, dir, &applied)
        }
        // It may hold the only copy of the rows: not to be dropped because a read failed.
        (Some(_), Err(error)) if error.kind() != ErrorKind::NotFound => {
            Err(Error::io(&mark, &error))
        }
        _ => remove(dir),
    }
}
