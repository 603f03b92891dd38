//! The process as the kernel sees it, and of which version it is.

use metrics::{Unit, describe_gauge, gauge};

/// Memory that is the process's own: what grows with a leak or a backlog.
const ANONYMOUS: &str = "process_resident_anonymous_bytes";
/// All resident memory, mapped files included.
const RESIDENT: &str = "process_resident_memory_bytes";
const THREADS: &str = "process_threads";
/// By `version`.
const BUILD: &str = "mayfly_build_info";
const OPEN_FILES: &str = "process_open_fds";

/// Describes what `/metrics` tells of the process to the installed recorder.
pub fn describe() {
    describe_gauge!(ANONYMOUS, Unit::Bytes, "Resident anonymous memory.");
    describe_gauge!(RESIDENT, Unit::Bytes, "Resident memory.");
    describe_gauge!(THREADS, Unit::Count, "Threads.");
    describe_gauge!(OPEN_FILES, Unit::Count, "Open file descriptors.");
    describe_gauge!(BUILD, Unit::Count, "Always 1, with the `version` of the binary.");
}

/// Sets the gauges. Where there is no procfs those of the kernel stay as they are.
pub(crate) fn sample(version: &'static str) {
    gauge!(BUILD, "version" => version).set(1.0);
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        for (field, name, unit) in [
            ("RssAnon:", ANONYMOUS, 1024.0),
            ("VmRSS:", RESIDENT, 1024.0),
            ("Threads:", THREADS, 1.0),
        ] {
            if let Some(value) = value(&status, field) {
                gauge!(name).set(value * unit);
            }
        }
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        gauge!(OPEN_FILES).set(files.count() as f64);
    }
}

/// The number in a line such as `RssAnon:     1234 kB`.
fn value(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_understood() {
        let status = "Name:\tmayfly\nVmRSS:\t  2048 kB\nRssAnon:\t    1024 kB\nThreads:\t12\n";
        assert_eq!(value(status, "RssAnon:"), Some(1024.0));
        assert_eq!(value(status, "Threads:"), Some(12.0));
        assert_eq!(value(status, "VmSwap:"), None);
    }
}
