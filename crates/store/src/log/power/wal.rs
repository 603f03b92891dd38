//! RocksDB's write-ahead log, as far as telling which of its writes end where takes.
//!
//! Blocks of 32 KiB; in each, fragments of | crc u32 | length u16 | kind u8 | bytes |, little-endian,
//! with four more bytes in the head of a recyclable kind. One write is one fragment or several, and
//! begins with | sequence u64 | count u32 |: the number of its first change, and how many it makes.

const BLOCK_BYTES: usize = 32 << 10;
const HEAD_BYTES: usize = 7;
const RECYCLABLE_HEAD_BYTES: usize = 11;
/// Sequence and count.
const WRITE_HEAD_BYTES: usize = 12;

const FULL: u8 = 1;
const FIRST: u8 = 2;
const LAST: u8 = 4;
/// The kinds 1 to 4 again, in files that are used a second time.
const RECYCLABLE: std::ops::RangeInclusive<u8> = 5..=8;

/// Bytes up to the end of the last write whose changes all have numbers up to `synced`. What cannot
/// be read ends it: RocksDB reads no further either.
pub(super) fn synced_bytes(wal: &[u8], synced: u64) -> usize {
    let (mut safe, mut at) = (0, 0);
    let mut head = Vec::with_capacity(WRITE_HEAD_BYTES);
    while let Some(fragment) = Fragment::read(wal, at) {
        at = fragment.end;
        match fragment.kind {
            FULL | FIRST => head.clear(),
            _ => (),
        }
        let wanted = (WRITE_HEAD_BYTES - head.len()).min(fragment.bytes.len());
        head.extend_from_slice(&fragment.bytes[..wanted]);
        if matches!(fragment.kind, FULL | LAST) {
            match last_change(&head) {
                Some(last) if last <= synced => safe = at,
                Some(_) | None => break,
            }
        }
    }
    safe
}

fn last_change(head: &[u8]) -> Option<u64> {
    let (sequence, rest) = head.split_first_chunk()?;
    let (count, _) = rest.split_first_chunk()?;
    let count = u64::from(u32::from_le_bytes(*count));
    Some(u64::from_le_bytes(*sequence).saturating_add(count).saturating_sub(1))
}

struct Fragment<'a> {
    kind: u8,
    bytes: &'a [u8],
    end: usize,
}

impl<'a> Fragment<'a> {
    /// The fragment at a place, or behind the filling that ends its block.
    fn read(wal: &'a [u8], mut at: usize) -> Option<Fragment<'a>> {
        let left = BLOCK_BYTES - at % BLOCK_BYTES;
        if left < HEAD_BYTES {
            at += left;
        }
        let head = wal.get(at..at + HEAD_BYTES)?;
        let length = usize::from(u16::from_le_bytes([head[4], head[5]]));
        let (kind, head_bytes) = match head[6] {
            kind if RECYCLABLE.contains(&kind) => (kind - 4, RECYCLABLE_HEAD_BYTES),
            kind => (kind, HEAD_BYTES),
        };
        let from = at + head_bytes;
        // Kind 0 is space that was set aside and never written; kinds above 8 this log does not use.
        let bytes = wal.get(from..from + length).filter(|_| (FULL..=LAST).contains(&kind))?;
        Some(Fragment { kind, bytes, end: from + length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of one write after the other, each of so many changes and bytes, and where each ends.
    fn log(writes: &[(u32, usize)]) -> (Vec<u8>, Vec<usize>) {
        let (mut wal, mut ends, mut sequence) = (Vec::new(), Vec::new(), 1_u64);
        for (count, bytes) in writes {
            let mut write = [&sequence.to_le_bytes()[..], &count.to_le_bytes()].concat();
            write.resize(WRITE_HEAD_BYTES + bytes, 7);
            sequence += u64::from(*count);
            put(&mut wal, &write);
            ends.push(wal.len());
        }
        (wal, ends)
    }

    fn put(wal: &mut Vec<u8>, mut write: &[u8]) {
        let mut begun = false;
        loop {
            let left = BLOCK_BYTES - wal.len() % BLOCK_BYTES;
            if left < HEAD_BYTES {
                wal.resize(wal.len() + left, 0);
                continue;
            }
            let (part, rest) = write.split_at(write.len().min(left - HEAD_BYTES));
            let kind = match (begun, rest.is_empty()) {
                (false, true) => FULL,
                (false, false) => FIRST,
                (true, false) => 3,
                (true, true) => LAST,
            };
            wal.extend_from_slice(&[0; 4]);
            wal.extend_from_slice(&(part.len() as u16).to_le_bytes());
            wal.push(kind);
            wal.extend_from_slice(part);
            (begun, write) = (true, rest);
            if write.is_empty() {
                return;
            }
        }
    }

    #[test]
    fn whole_writes_up_to_a_number_are_found_wherever_blocks_end() {
        // The second ends so close to its block's end that the third's number lies in both.
        for gap in 0..40 {
            let second = BLOCK_BYTES - 100 - 2 * (HEAD_BYTES + WRITE_HEAD_BYTES) - gap;
            let (wal, ends) = log(&[(2, 100), (1, second), (3, 80_000), (1, 5)]);
            for (synced, safe) in
                [(0, 0), (1, 0), (2, ends[0]), (3, ends[1]), (5, ends[1]), (6, ends[2])]
            {
                assert_eq!(synced_bytes(&wal, synced), safe, "gap {gap}, synced {synced}");
            }
            assert_eq!(synced_bytes(&wal, u64::MAX), wal.len());
        }
    }

    #[test]
    fn any_bytes_have_an_end() {
        let (wal, ends) = log(&[(1, 10), (1, 40_000)]);
        for cut in ends[0]..ends[1] {
            assert_eq!(synced_bytes(&wal[..cut], u64::MAX), ends[0]);
        }
        for byte in 0..=u8::MAX {
            synced_bytes(&[byte; 70_000], u64::MAX);
        }
    }
}
