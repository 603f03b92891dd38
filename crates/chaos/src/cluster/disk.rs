//! Disks small enough to be filled.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

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

    /// Writes a file until nothing is free.
    pub fn fill(&self) -> Result<(), Error> {
        let path = self.ballast();
        let file = File::options().create(true).append(true).open(&path);
        let mut file = file.map_err(Error::io(path.display().to_string()))?;
        let zeros = vec![0; 1 << 20];
        loop {
            match file.write_all(&zeros) {
                Ok(()) => (),
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(Error::io(path.display().to_string())(error)),
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
