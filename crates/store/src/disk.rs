//! How much space a disk has left.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use crate::Error;

/// A file system as it is at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// What may still be written; what is set aside for the superuser does not count.
    pub free_bytes: u64,
    pub total_bytes: u64,
}

/// The space on the disk that holds `path`, which exists.
pub fn disk_space(path: &Path) -> Result<DiskSpace, Error> {
    let found = statvfs(path).map_err(|error| Error::io(path, &error.into()))?;
    let block_bytes = found.fragment_size();
    Ok(DiskSpace {
        free_bytes: found.blocks_available().saturating_mul(block_bytes),
        total_bytes: found.blocks().saturating_mul(block_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_no_more_free_than_it_holds() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = disk_space(dir.path()).expect("told");
        assert!(0 < found.free_bytes && found.free_bytes <= found.total_bytes, "{found:?}");
        assert!(disk_space(&dir.path().join("nowhere")).is_err());
    }
}
