//! Removes write-ahead logs that are needed no more, bit by bit. One of a hundred megabytes that
//! goes at once holds up every sync on its file system for a tenth of a second and more: its blocks
//! are freed, and where the file system discards what is free, discarded, in the very commit that
//! syncs wait for. So RocksDB moves such files to its archive, and a thread shortens them there.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Error;

/// With the pause, 200 MB/s: several times what a log grows by.
const STEP_BYTES: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_AGAIN_AFTER_ERROR: Duration = Duration::from_secs(30);

/// The thread. Dropping it ends it; what is left is removed after the next start.
pub(super) struct LogTrimmer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LogTrimmer {
    /// Trims what RocksDB archives of the database in `database`.
    pub fn start(database: &Path) -> Result<LogTrimmer, Error> {
        let archive = database.join("archive");
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("log-trimmer".to_owned())
            .spawn(move || run(&archive, &stopped))
            .map_err(|error| Error::io(database, &error))?;
        Ok(LogTrimmer { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for LogTrimmer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // Its panic was printed where it happened.
        }
    }
}

fn run(archive: &Path, stopped: &Receiver<()>) {
    let goes_on = |wait| stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
    loop {
        let wait = match trim(archive, || goes_on(PAUSE)) {
            Ok(()) => LOOK_EVERY,
            Err((path, error)) => {
                tracing::warn!(path = %path.display(), %error, "cannot remove what the log left");
                LOOK_AGAIN_AFTER_ERROR
            }
        };
        if !goes_on(wait) {
            return;
        }
    }
}

/// Removes every file there is, as long as `goes_on`, which is asked after each step and pauses.
fn trim(archive: &Path, mut goes_on: impl FnMut() -> bool) -> Result<(), (PathBuf, io::Error)> {
    let entries = match fs::read_dir(archive) {
        Ok(entries) => entries,
        // RocksDB makes it with the first file that it archives.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err((archive.to_owned(), error)),
    };
    for entry in entries {
        let path = entry.map_err(|error| (archive.to_owned(), error))?.path();
        let failed = |error| (path.clone(), error);
        let file = OpenOptions::new().write(true).open(&path).map_err(failed)?;
        let mut bytes = file.metadata().map_err(failed)?.len();
        while bytes > STEP_BYTES {
            bytes -= STEP_BYTES;
            file.set_len(bytes).map_err(failed)?;
            if !goes_on() {
                return Ok(());
            }
        }
        drop(file);
        fs::remove_file(&path).map_err(failed)?;
        if !goes_on() {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_in_steps_and_what_is_left_goes_the_next_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let archive = dir.path().join("archive");
        assert!(trim(&archive, || true).is_ok(), "nothing was archived yet");

        fs::create_dir(&archive).expect("created");
        let path = archive.join("000007.log");
        fs::write(&path, vec![1; 11 << 20]).expect("written");
        let sizes = |archive: &Path| -> Vec<u64> {
            let entries = fs::read_dir(archive).expect("read").flatten();
            entries.map(|entry| entry.metadata().expect("there").len()).collect()
        };
        trim(&archive, || false).expect("swept");
        assert_eq!(sizes(&archive), [7 << 20], "told to stop after a step");

        let mut seen = Vec::new();
        let goes_on = || {
            seen.push(sizes(&archive));
            true
        };
        trim(&archive, goes_on).expect("swept");
        assert_eq!(seen, [vec![3 << 20], vec![]]);
    }
}
