//! What a node keeps is for its user alone: a data directory holds messages, and keys of entities.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::sys::stat::{Mode, umask};

/// Of a directory: read, write and enter, by its owner.
const OWNER: u32 = 0o700;
/// Everybody may make files in it, as in /tmp.
const SHARED: u32 = 0o002;

/// Whatever this process and its children make from now on, nobody else may read.
pub fn begin() {
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
}

/// A node's own directory, of before or made by someone for it, is closed to others too. Where that is
/// not the node's to do, as on some network volumes, the log says who can do it.
pub fn close(dir: &Path) {
    let Ok(mode) = fs::metadata(dir).map(|found| found.permissions().mode() & 0o777) else {
        return; // Whoever opens it says what is wrong with it.
    };
    if mode & !OWNER == 0 {
        return;
    }
    let shown = dir.display();
    if mode & SHARED != 0 {
        return tracing::warn!(
            "'{shown}' is everybody's (mode {mode:03o}); give the node a directory of its own"
        );
    }
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
    fn a_directory_of_the_node_s_own_is_closed_to_others() {
        let parent = tempfile::tempdir().expect("a directory");
        for (mode, then) in [
            (0o755, OWNER),
            (0o750, OWNER),
            (0o701, OWNER),
            (0o700, OWNER),
            (0o777, 0o777),
            (0o703, 0o703),
        ] {
            let dir = parent.path().join(format!("{mode:o}"));
            fs::create_dir(&dir).expect("made");
            fs::set_permissions(&dir, Permissions::from_mode(mode)).expect("changed");
            close(&dir);
            let seen = fs::metadata(&dir).expect("there").permissions().mode();
            assert_eq!(seen & 0o777, then, "{mode:o}");
        }
        close(&parent.path().join("gone"));
    }
}
