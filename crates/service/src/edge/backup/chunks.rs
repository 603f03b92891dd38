//! Rows gathered into chunks whose ends depend on the rows alone, and on few of them: where nothing has changed
//! the chunks of the next backup are the same, whatever came or went before them, and need not be kept twice.

use bytes::{BufMut, Bytes, BytesMut};

/// What a chunk holds on average.
const TARGET_BYTES: u64 = 512 * 1024;
/// It ends here at the latest, one row at the least.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Rows of a group in the form that backups keep for ever, which [`replication::rows_in`] reads: for each the length
/// of its key without the group's number, that key, the length of its value and the value; lengths are 4 bytes,
/// big-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    pub rows: u64,
    pub bytes: Bytes,
}

#[derive(Default)]
pub(super) struct Chunker {
    rows: u64,
    bytes: BytesMut,
}

impl Chunker {
    /// Takes a row in; a chunk, if it ends with it.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Option<Chunk> {
        for part in [key, value] {
            self.bytes.put_u32(part.len() as u32); // A log entry bounds it.
            self.bytes.put_slice(part);
        }
        self.rows += 1;
        let row_bytes = (8 + key.len() + value.len()) as u64;
        let ends = ends_behind(key, row_bytes) || self.bytes.len() >= BYTES_MAX;
        ends.then(|| self.end()).flatten()
    }

    /// What is left, if anything is.
    pub fn end(&mut self) -> Option<Chunk> {
        let (rows, bytes) = (std::mem::take(&mut self.rows), self.bytes.split().freeze());
        (rows > 0).then_some(Chunk { rows, bytes })
    }
}

/// True for one row in as many as make [`TARGET_BYTES`] if all are of this size.
fn ends_behind(key: &[u8], row_bytes: u64) -> bool {
    let drawn = u64::from(crc32c::crc32c(key));
    drawn * TARGET_BYTES < row_bytes << 32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use replication::rows_in;

    use super::*;

    fn chunks(numbers: impl Iterator<Item = u64>, value_bytes: usize) -> Vec<Chunk> {
        let (mut chunker, value) = (Chunker::default(), vec![7; value_bytes]);
        let mut chunks: Vec<Chunk> =
            numbers.filter_map(|number| chunker.push(&number.to_be_bytes(), &value)).collect();
        chunks.extend(chunker.end());
        chunks
    }

    #[test]
    fn chunks_hold_all_rows_in_order_and_are_about_as_large_as_meant() {
        for (rows, value_bytes) in [(200_000, 40), (20_000, 1000), (100, 1_000_000), (1, 0)] {
            let chunks = chunks(0..rows, value_bytes);
            let found: Vec<u64> = chunks
                .iter()
                .flat_map(|chunk| rows_in(&chunk.bytes))
                .map(|row| row.expect("whole"))
                .map(|(key, _)| u64::from_be_bytes(key.try_into().expect("a number")))
                .collect();
            assert_eq!(found, (0..rows).collect::<Vec<_>>());
            assert_eq!(chunks.iter().map(|chunk| chunk.rows).sum::<u64>(), rows);
            let bytes: usize = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
            let average = (bytes / chunks.len()) as u64;
            assert!(
                rows < 1000 || (TARGET_BYTES / 3..TARGET_BYTES * 3).contains(&average),
                "{average}"
            );
            let largest = chunks.iter().map(|chunk| chunk.bytes.len()).max().expect("one");
            assert!(largest <= BYTES_MAX + value_bytes + 16, "{largest}");
        }
    }

    #[test]
    fn what_has_not_changed_makes_the_same_chunks() {
        let before = chunks(0..50_000, 1000);
        // The oldest are gone, new ones have come, and some in between were settled.
        let after = chunks((3_000..51_000).filter(|number| number % 10_000 != 0), 1000);
        let known: BTreeSet<&[u8]> = before.iter().map(|chunk| &chunk.bytes[..]).collect();
        let same = after.iter().filter(|chunk| known.contains(&chunk.bytes[..])).count();
        assert!(same * 10 >= before.len() * 8, "{same} of {} and {}", before.len(), after.len());
    }

    #[test]
    fn what_is_cut_short_is_told() {
        let chunk = chunks(0..3, 10).remove(0).bytes;
        for length in 1..chunk.len() {
            let rows: Vec<_> = rows_in(&chunk[..length]).collect();
            let whole = length % 26 == 0;
            assert_eq!(rows.last().expect("some").is_some(), whole, "{length}");
        }
    }
}
