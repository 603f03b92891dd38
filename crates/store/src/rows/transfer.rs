//! A shard's rows on their way to another node, and on their way in.
//!
//! Out: one thread holds a RocksDB snapshot and reads the shard's range into chunks. In: chunks
//! become a file beside the database; once all are there it is marked complete and synced, and only
//! then the old rows are deleted and the file is ingested. A crash in between is completed at the
//! next start, because every step after the mark can be repeated.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use bytes::Bytes;
use domain::ShardId;
use rocksdb::{IngestExternalFileOptions, ReadOptions, SstFileWriter, WriteBatch};

use super::{RowStore, applied_value};
use crate::Error;
use crate::keys::{applied_key, shard_range};

/// Bytes of one chunk, one row at the least.
const CHUNK_BYTES: usize = 512 << 10;
/// Chunks read ahead of whoever takes them.
const CHUNKS_AHEAD: usize = 4;
/// Bytes of one file to ingest.
const FILE_BYTES: u64 = 256 << 20;

/// A shard's rows as of one applied index, in chunks. Dropping it ends the reading.
pub struct Export {
    mark: Bytes,
    chunks: Receiver<Result<Bytes, Error>>,
}

impl Export {
    /// The mark of the entry these rows were left by; empty where nothing was applied.
    pub fn mark(&self) -> &[u8] {
        &self.mark
    }

    /// Waits for the next chunk; `None` at the end.
    pub fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.chunks.recv().ok().transpose()
    }
}

impl RowStore {
    /// Begins to read a shard's rows, pinned as they are now.
    pub fn export(&self, shard: ShardId) -> Result<Export, Error> {
        let (first, begun) = sync_channel(1);
        let (out, chunks) = sync_channel(CHUNKS_AHEAD);
        let store = self.clone();
        thread::Builder::new()
            .name(format!("export-{shard}"))
            .spawn(move || read(&store, shard, &first, &out))
            .map_err(|error| Error::io(&self.inner.path, &error))?;
        let stopped = |_| Error::Stopped { reason: "the export ended before it began".to_owned() };
        let mark = begun.recv().map_err(stopped)??;
        Ok(Export { mark, chunks })
    }

    /// Begins to take in a shard's rows as of an applied index and its mark. Nothing changes before
    /// `finish`.
    pub fn import(&self, shard: ShardId, index: u64, mark: &[u8]) -> Result<Import, Error> {
        let dir = staging(&self.inner.path, shard);
        // One that could not be installed may have taken the old rows away already: it comes first.
        resume_one(self, &dir)?;
        fs::create_dir_all(&dir).map_err(|error| Error::io(&dir, &error))?;
        let applied = applied_value(index, mark);
        let (store, last) = (self.clone(), Vec::new());
        Ok(Import { store, shard, applied, dir, files: 0, last, complete: false })
    }
}

fn read(
    store: &RowStore,
    shard: ShardId,
    begun: &SyncSender<Result<Bytes, Error>>,
    out: &SyncSender<Result<Bytes, Error>>,
) {
    let snapshot = store.inner.db.snapshot();
    let mark = match snapshot.get_pinned(applied_key(shard)) {
        Ok(None) => Ok(Bytes::new()),
        Ok(Some(value)) => store.applied_of(shard, &value).map(|(_, mark)| mark),
        Err(error) => Err(store.failed(&error)),
    };
    if begun.send(mark).is_err() {
        return;
    }
    let (from, to) = shard_range(shard);
    let mut options = ReadOptions::default();
    options.set_iterate_upper_bound(to);
    options.fill_cache(false);
    let mut rows = snapshot.raw_iterator_opt(options);
    rows.seek(from);
    let applied = applied_key(shard);
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    while let Some((key, value)) = rows.item() {
        if key != applied {
            put(key, &mut chunk);
            put(value, &mut chunk);
        }
        rows.next();
        if chunk.len() >= CHUNK_BYTES {
            let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_BYTES));
            if out.send(Ok(full.into())).is_err() {
                return; // Whoever wanted it has gone.
            }
        }
    }
    let last = rows.status().map(|()| chunk.into()).map_err(|error| store.failed(&error));
    if let Err(error) = &last {
        store.stop_if_damaged(&format!("an export of shard {shard}"), error);
    }
    let _ = out.send(last); // Likewise.
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    // Keys and values are far below 4 GiB: a log entry bounds them.
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (head, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *bytes = rest;
    Some(head)
}

/// A shard's rows coming in. Dropped before `finish`, it leaves the old rows as they were.
pub struct Import {
    store: RowStore,
    shard: ShardId,
    /// The value of its applied mark.
    applied: Vec<u8>,
    dir: PathBuf,
    files: usize,
    last: Vec<u8>,
    /// Marked as such: from here on the next start completes it if this process does not.
    complete: bool,
}

impl Import {
    /// Takes in one chunk: rows of this shard, in ascending order over all chunks.
    pub fn push(&mut self, chunk: Bytes) -> Result<(), Error> {
        let disorder = || Error::NotInOrder { shard: self.shard };
        let mut rest = &chunk[..];
        if rest.is_empty() {
            return Ok(());
        }
        // A file for each chunk would be many small ones; a writer cannot be kept open beside its
        // options without borrowing them, so chunks gather in a plain file first.
        let mut checked = Vec::new();
        while !rest.is_empty() {
            let key = take(&mut rest).ok_or_else(disorder)?;
            take(&mut rest).ok_or_else(disorder)?;
            let ours = key.len() > 2 && key[..2] == self.shard.0.to_be_bytes();
            let previous = checked.last().copied().unwrap_or(&self.last[..]);
            if !ours || key <= previous || key == applied_key(self.shard) {
                return Err(disorder());
            }
            checked.push(key);
        }
        let last = checked.pop().map(<[u8]>::to_vec).unwrap_or_default();
        let path = self.dir.join("chunks");
        let mut options = fs::OpenOptions::new();
        let file = options.create(true).append(true).open(&path);
        let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, &chunk));
        written.map_err(|error| Error::io(&path, &error))?;
        self.last = last;
        Ok(())
    }

    /// Puts these rows in the place of all the shard had, and its mark with them.
    pub fn finish(mut self) -> Result<(), Error> {
        self.build()?;
        let complete = self.dir.join(COMPLETE);
        let write = || -> std::io::Result<()> {
            fs::write(&complete, &self.applied)?;
            fs::File::open(&complete)?.sync_all()?;
            fs::File::open(&self.dir)?.sync_all()
        };
        write().map_err(|error| Error::io(&complete, &error))?;
        self.complete = true;
        install(&self.store, self.shard, &self.dir, &self.applied)
    }

    /// Sorted files out of the chunks.
    fn build(&mut self) -> Result<(), Error> {
        let path = self.dir.join("chunks");
        if !path.exists() {
            return Ok(()); // A shard without rows.
        }
        let file = fs::File::open(&path).map_err(|error| Error::io(&path, &error))?;
        let mut input = std::io::BufReader::with_capacity(CHUNK_BYTES, file);
        let options = super::database(&crate::Options::default());
        let mut next = read_pair(&mut input).map_err(|error| Error::io(&path, &error))?;
        while next.is_some() {
            let name = self.dir.join(format!("{:06}.sst", self.files));
            let failed = |error: rocksdb::Error| Error::rocks(&name, &error);
            let mut writer = SstFileWriter::create(&options);
            writer.open(&name).map_err(failed)?;
            while let Some((key, value)) = next.take_if(|_| writer.file_size() < FILE_BYTES) {
                writer.put(key, value).map_err(failed)?;
                next = read_pair(&mut input).map_err(|error| Error::io(&path, &error))?;
            }
            writer.finish().map_err(failed)?;
            self.files += 1;
        }
        fs::remove_file(&path).map_err(|error| Error::io(&path, &error))
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // What stays for want of permission or the like is dropped at the next start.
        if !self.complete {
            let _ = remove(&self.dir);
        }
    }
}

type Pair = (Vec<u8>, Vec<u8>);

fn read_pair(input: &mut impl std::io::BufRead) -> std::io::Result<Option<Pair>> {
    if input.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut part = || -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        input.read_exact(&mut length)?;
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        input.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    Ok(Some((part()?, part()?)))
}

const STAGING: &str = "incoming";
const COMPLETE: &str = "complete";

fn staging(rows: &Path, shard: ShardId) -> PathBuf {
    rows.with_file_name(STAGING).join(shard.to_string())
}

fn remove(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(dir, &error)),
        _ => Ok(()),
    }
}

/// Old rows out, new ones in; may be repeated from any point.
fn install(store: &RowStore, shard: ShardId, dir: &Path, applied: &[u8]) -> Result<(), Error> {
    let (from, to) = shard_range(shard);
    let mut batch = WriteBatch::default();
    batch.delete_range(from, to);
    store.commit(batch)?;
    // The deletion must be in files before the new rows come beside it.
    store.flush()?;
    let entries = fs::read_dir(dir).map_err(|error| Error::io(dir, &error))?;
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_sst(path)).collect();
    files.sort();
    if !files.is_empty() {
        let options = IngestExternalFileOptions::default(); // Copies: the step can be repeated.
        let ingested = store.inner.db.ingest_external_file_opts(&options, files);
        ingested.map_err(|error| store.not_written(&error))?;
    }
    let mut batch = WriteBatch::default();
    batch.put(applied_key(shard), applied);
    store.commit(batch)?;
    store.flush()?;
    remove(dir)
}

fn is_sst(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

/// At start: completes what had come in whole, drops the rest.
pub(crate) fn resume(store: &RowStore) -> Result<(), Error> {
    let root = store.inner.path.with_file_name(STAGING);
    let Ok(entries) = fs::read_dir(&root) else { return Ok(()) };
    for entry in entries {
        resume_one(store, &entry.map_err(|error| Error::io(&root, &error))?.path())?;
    }
    Ok(())
}

fn resume_one(store: &RowStore, dir: &Path) -> Result<(), Error> {
    let shard = dir.file_name().and_then(|name| name.to_str()?.parse().ok()).map(ShardId);
    match (shard, fs::read(dir.join(COMPLETE))) {
        (Some(shard), Ok(applied)) => {
            tracing::info!(%shard, "completing the installation of a snapshot");
            install(store, shard, dir, &applied)
        }
        _ => remove(dir),
    }
}
