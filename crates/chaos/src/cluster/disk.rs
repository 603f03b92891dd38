//! Disks small enough to be filled.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::statvfs;

use crate::Error;

/// A file system in memory, gone when this is dropped.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts one over a directory; `None` where this process may not.
    pub fn mount(path: &Path, mebibytes: u64) -> Result<Option<SmallDisk>, Error> {
        let options = format!("size={mebibytes}m");
        match mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(&options[..])) {
            Ok(()) => Ok(Some(SmallDisk { path: path.to_owned() })),
            Err(Errno::EPERM | Errno::EACCES | Errno::ENODEV) => Ok(None),
            Err(errno) => Err(Error::io("mount")(errno.into())),
        }
    }

    /// Writes a file until no more than so much is free.
    pub fn fill(&self, leave_bytes: u64) -> Result<(), Error> {
        self.write(leave_bytes).map_err(Error::io(self.path.display().to_string()))
    }

    fn write(&self, leave_bytes: u64) -> std::io::Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.ballast())?;
        loop {
            let found = statvfs(&self.path)?;
            let free_bytes = found.blocks_available() * found.fragment_size();
            let excess = free_bytes.saturating_sub(leave_bytes);
            if excess == 0 {
                return Ok(());
            }
            match ballast.write_all(&vec![0; excess.min(1 << 20) as usize]) {
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                written => written?,
            }
        }
    }

    /// Removes what `fill` wrote.
    pub fn clear(&self) {
        // It is not there if filling failed at once.
        let _ = fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Whoever still has a file open keeps it, and nobody waits for that.
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}
