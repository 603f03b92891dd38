//! What this process costs the machine, as metrics beside the memory that `http` reports: sampled
//! from `/proc/self` and the kernel's accounting, where there are such.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metrics::{Unit, describe_gauge, gauge};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// Bytes this process caused to be written to devices since its start.
const DEVICE_WRITTEN: &str = "process_device_written_bytes";
/// Processor time since its start.
const CPU_SECONDS: &str = "process_cpu_seconds";

/// Bytes of the files of the two databases.
const LOG_BYTES: &str = "mayfly_log_disk_bytes";
const ROWS_BYTES: &str = "mayfly_rows_disk_bytes";

const SAMPLED_EVERY: Duration = Duration::from_millis(250);
/// Files are looked at once in so many samples.
const FILES_EVERY: u32 = 4;

/// Describes them all to the installed recorder.
pub fn describe() {
    describe_gauge!(DEVICE_WRITTEN, Unit::Bytes, "Written to devices since the start.");
    describe_gauge!(CPU_SECONDS, Unit::Seconds, "Processor time since the start.");
    describe_gauge!(LOG_BYTES, Unit::Bytes, "Files of the log.");
    describe_gauge!(ROWS_BYTES, Unit::Bytes, "Files of the rows.");
}

/// Samples for ever.
pub async fn sample(data_dir: PathBuf) {
    for count in (0..FILES_EVERY).cycle() {
        if count == 0 {
            for (folder, name) in [("log", LOG_BYTES), ("rows", ROWS_BYTES)] {
                gauge!(name).set(files_bytes(&data_dir.join(folder)) as f64);
            }
        }
        if let Some(bytes) = fs::read_to_string("/proc/self/io").ok().and_then(|io| written(&io)) {
            gauge!(DEVICE_WRITTEN).set(bytes as f64);
        }
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            gauge!(CPU_SECONDS).set(seconds(usage.user_time()) + seconds(usage.system_time()));
        }
        tokio::time::sleep(SAMPLED_EVERY).await;
    }
}

/// Of the files in a folder; those that vanish meanwhile count nothing.
fn files_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1_000_000.0
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
