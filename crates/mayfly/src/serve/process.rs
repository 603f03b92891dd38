//! What this process writes, and what its files take, as metrics beside those of memory and processor time that
//! `http` tells: sampled where there is a procfs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

/// Bytes this process caused to be written to devices since its start.
const DEVICE_WRITTEN: &str = "process_device_written_bytes_total";

/// Bytes of the files of the two databases.
const LOG_BYTES: &str = "mayfly_log_disk_bytes";
const ROWS_BYTES: &str = "mayfly_rows_disk_bytes";

const SAMPLED_EVERY: Duration = Duration::from_secs(1);

/// Describes them all to the installed recorder.
pub fn describe() {
    describe_counter!(DEVICE_WRITTEN, Unit::Bytes, "Written to devices since the start.");
    describe_gauge!(LOG_BYTES, Unit::Bytes, "Files of the log.");
    describe_gauge!(ROWS_BYTES, Unit::Bytes, "Files of the rows.");
}

/// Samples for ever.
pub async fn sample(data_dir: PathBuf) {
    loop {
        for (folder, name) in [("log", LOG_BYTES), ("rows", ROWS_BYTES)] {
            gauge!(name).set(files_bytes(&data_dir.join(folder)) as f64);
        }
        if let Some(bytes) = fs::read_to_string("/proc/self/io").ok().and_then(|io| written(&io)) {
            counter!(DEVICE_WRITTEN).absolute(bytes);
        }
        tokio::time::sleep(SAMPLED_EVERY).await;
    }
}

/// Of the files in a folder; those that vanish meanwhile count nothing.
fn files_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// What reached the device, not what the page cache took in.
fn written(io: &str) -> Option<u64> {
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_folder_are_added_up() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(files_bytes(&folder.path().join("absent")), 0);
        for (name, bytes) in [("a", 10), ("b", 32)] {
            fs::write(folder.path().join(name), vec![0; bytes]).expect("a file");
        }
        assert_eq!(files_bytes(folder.path()), 42);
    }

    #[test]
    fn device_bytes_are_found_among_the_counters() {
        let io = "rchar: 5\nwchar: 9\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n";
        assert_eq!(written(io), Some(4096));
        assert_eq!(written("rchar: 5\n"), None);
    }
}
