//! What a node keeps is for its user alone: a data directory holds messages, and keys of entities.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::sys::stat::{Mode, umask};

/// Of a directory: read, write and enter, by its owner.
const OWNER: u32 = 0o700;

/// Whatever this process and its children make from now on, nobody else may read.
pub fn begin() {
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
}

/// A directory of before, or one that someone made for the node, is closed to others too. Where that is
/// not the node's to do, as on some network volumes, the log says who can do it.
pub fn close(dir: &Path) {
    let Ok(mode) = fs::metadata(dir).map(|found| found.permissions().mode() & 0o777) else {
        return; // It will be made.
    };
    if mode & !OWNER == 0 {
        return;
    }
    let shown = dir.display();
    match fs::set_permissions(dir, Permissions::from_mode(OWNER)) {
        Ok(()) => {
            tracing::info!("'{shown}' was open to others (mode {mode:03o}); it is closed now")
        }
        Err(error) => tracing::warn!(
            "'{shown}' is open to others (mode {mode:03o}), and this node may not close it ({error}); \
             let its owner run chmod 700 '{shown}'"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_closed_to_others() {
        let parent = tempfile::tempdir().expect("a directory");
        for mode in [0o755, 0o777, 0o750, 0o701, 0o700] {
            let dir = parent.path().join(format!("{mode:o}"));
            fs::create_dir(&dir).expect("made");
            fs::set_permissions(&dir, Permissions::from_mode(mode)).expect("changed");
            close(&dir);
            let seen = fs::metadata(&dir).expect("there").permissions().mode();
            assert_eq!(seen & 0o777, OWNER, "{mode:o}");
        }
        close(&parent.path().join("gone"));
    }
}
