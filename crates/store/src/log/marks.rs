//! The mark file: the last index of every group that was synced, and the count of all writes that
//! were, votes among them. Written after each sync with one call, and synced only before a mark is
//! lowered: it is there to notice a log that lost its end, not to replace it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use domain::GroupId;

use crate::Error;

pub(super) struct Marks {
    file: File,
    path: PathBuf,
    marked: Marked,
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marked {
    /// Writes to the database, as RocksDB numbers them.
    pub writes: u64,
    pub synced: BTreeMap<GroupId, u64>,
}

impl Marks {
    /// The file and what it says. A torn or missing file says nothing.
    pub fn open(path: &Path) -> Result<(Marks, Marked), Error> {
        let failed = |error: std::io::Error| Error::io(path, &error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let marked = decode(&bytes).unwrap_or_else(|| {
            if !bytes.is_empty() {
                tracing::warn!(path = %path.display(), "the mark file is torn and counts for nothing");
            }
            Marked::default()
        });
        let marks = Marks { file, path: path.to_owned(), marked: marked.clone() };
        Ok((marks, marked))
    }

    /// What a file says that need not be there.
    pub fn read(path: &Path) -> Result<Option<Marked>, Error> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(decode(&bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(path, &error)),
        }
    }

    pub fn set(&mut self, group: GroupId, synced: u64) {
        self.marked.synced.insert(group, synced);
    }

    /// Lowers a group's mark to what is kept of its log.
    pub fn lower(&mut self, group: GroupId, kept: u64) {
        if let Some(synced) = self.marked.synced.get_mut(&group) {
            *synced = kept.min(*synced);
        }
    }

    pub fn set_writes(&mut self, writes: u64) {
        self.marked.writes = writes;
    }

    pub fn write(&self) -> Result<(), Error> {
        let written = self.file.write_all_at(&encode(&self.marked), 0);
        written.map_err(|error| Error::io(&self.path, &error))
    }

    pub fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| Error::io(&self.path, &error))
    }
}

/// | crc u32 | writes u64 | count u32 | group u16, index u64 | …, big-endian. Groups are never taken
/// out, so the file never needs to be cut.
fn encode(marked: &Marked) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&marked.writes.to_be_bytes());
    bytes.extend_from_slice(&(marked.synced.len() as u32).to_be_bytes());
    for (group, index) in &marked.synced {
        bytes.extend_from_slice(&group.0.to_be_bytes());
        bytes.extend_from_slice(&index.to_be_bytes());
    }
    let crc = crc32fast::hash(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Marked> {
    let (crc, covered) = bytes.split_first_chunk()?;
    let (writes, rest) = covered.split_first_chunk()?;
    let (count, pairs) = rest.split_first_chunk()?;
    let length = 10 * u32::from_be_bytes(*count) as usize;
    let pairs = pairs.get(..length)?;
    if crc32fast::hash(&covered[..12 + length]) != u32::from_be_bytes(*crc) {
        return None;
    }
    let pair = |pair: &[u8]| {
        let (group, index) = pair.split_first_chunk()?;
        Some((GroupId(u16::from_be_bytes(*group)), u64::from_be_bytes(index.try_into().ok()?)))
    };
    let synced = pairs.chunks_exact(10).map(pair).collect::<Option<_>>()?;
    Some(Marked { writes: u64::from_be_bytes(*writes), synced })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_back_and_a_torn_file_says_nothing() {
        let synced = [(GroupId(0), 7), (GroupId(3), u64::MAX)].into();
        let marks = Marked { writes: 1 << 40, synced };
        let bytes = encode(&marks);
        assert_eq!(decode(&bytes), Some(marks));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "cut at {cut}");
        }
        for position in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[position] ^= 1;
            assert_eq!(decode(&torn), None, "flipped at {position}");
        }
    }
}
