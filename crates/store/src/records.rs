//! What RocksDB reads record by record when it opens a database: its manifest and its write-ahead
//! log (`db/log_format.h`). It checks them itself, but for one flipped bit: a record that says it is
//! of a recycled file, in a file that is none, is neither taken nor passed over, and opening the
//! database never ends. None of ours is recycled, so such a record is damage, and found first.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::Error;

/// Records do not cross this; the rest of a block is filled up.
const BLOCK_BYTES: usize = 32 << 10;
/// A checksum of 4 bytes, a length of 2, a kind.
const HEADER_BYTES: usize = 7;

/// Refuses a database that RocksDB would not finish opening. What else is wrong, it says itself.
pub(crate) fn check(database: &Path) -> Result<(), Error> {
    let failed = |error| Error::io(database, &error);
    for entry in fs::read_dir(database).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("MANIFEST-") || name.ends_with(".log") {
            let recycled = recycled(&path).map_err(|error| Error::io(&path, &error))?;
            if let Some(at) = recycled {
                let reason = format!("the record at byte {at} is of a kind that is never written");
                return Err(Error::Corrupt { path, reason });
            }
        }
    }
    Ok(())
}

/// Where in a file the first record is that says it is of a recycled one.
fn recycled(path: &Path) -> io::Result<Option<usize>> {
    let mut file = File::open(path)?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let mut from = 0;
    loop {
        block.clear();
        let read = file.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        if let Some(at) = recycled_in(&block) {
            return Ok(Some(from + at));
        }
        if read < BLOCK_BYTES {
            return Ok(None);
        }
        from += read;
    }
}

/// The same in one block, as far as RocksDB would read it: it gives up the rest of one behind a wrong
/// checksum.
fn recycled_in(block: &[u8]) -> Option<usize> {
    let mut rest = block;
    while let Some(&[c0, c1, c2, c3, l0, l1, kind]) = rest.first_chunk::<HEADER_BYTES>() {
        if matches!(kind, 5..=8 | 11 | 131) {
            return Some(block.len() - rest.len());
        }
        let end = HEADER_BYTES + usize::from(u16::from_le_bytes([l0, l1]));
        // The checksum is over the kind and what follows it.
        let checked = rest.get(HEADER_BYTES - 1..end)?;
        if unmasked(u32::from_le_bytes([c0, c1, c2, c3])) != crc32c::crc32c(checked) {
            return None;
        }
        rest = &rest[end..];
    }
    None
}

/// A checksum as it was before it was made unlike one (`util/crc32c.h`).
fn unmasked(masked: u32) -> u32 {
    masked.wrapping_sub(0xa282_ead8).rotate_left(15)
}
