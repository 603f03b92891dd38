//! The process as the kernel sees it, and of which version it is.

use std::fmt::Write as _;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

/// Memory that is the process's own: what grows with a leak or a backlog.
const ANONYMOUS: &str = "process_resident_anonymous_bytes";
/// All resident memory, mapped files included.
const RESIDENT: &str = "process_resident_memory_bytes";
const THREADS: &str = "process_threads";
/// By `version`.
const BUILD: &str = "mayfly_build_info";
const OPEN_FILES: &str = "process_open_fds";
const MAX_FILES: &str = "process_max_fds";
const STARTED: &str = "process_start_time_seconds";
const RECEIVED: &str = "mayfly_client_received_bytes_total";
const SENT: &str = "mayfly_client_sent_bytes_total";
/// A counter with fractions, which the recorder has none of.
const CPU_SECONDS: &str = "process_cpu_seconds_total";
const CPU_HELP: &str = "Processor time since the start.";

/// Of procfs, per second: USER_HZ, which Linux keeps at this for programs whatever its own clock ticks at.
const TICKS: f64 = 100.0;

/// Describes what `/metrics` tells of the process to the installed recorder.
pub fn describe() {
    describe_gauge!(ANONYMOUS, Unit::Bytes, "Resident anonymous memory.");
    describe_gauge!(RESIDENT, Unit::Bytes, "Resident memory.");
    describe_gauge!(THREADS, Unit::Count, "Threads.");
    describe_gauge!(OPEN_FILES, Unit::Count, "Open file descriptors.");
    describe_gauge!(MAX_FILES, Unit::Count, "Most file descriptors that may be open.");
    describe_gauge!(STARTED, Unit::Seconds, "Unix time at which the process started.");
    describe_counter!(RECEIVED, Unit::Bytes, "Bytes that came from clients, within TLS.");
    describe_counter!(SENT, Unit::Bytes, "Bytes that went to clients, within TLS.");
    describe_counter!(CPU_SECONDS, Unit::Seconds, CPU_HELP);
    describe_gauge!(BUILD, Unit::Count, "Always 1, with the `version` of the binary.");
}

/// Sets the gauges. Where there is no procfs those of the kernel stay as they are.
pub(crate) fn sample(version: &'static str) {
    gauge!(BUILD, "version" => version).set(1.0);
    let (received, sent) = transport::stream_bytes();
    counter!(RECEIVED).absolute(received);
    counter!(SENT).absolute(sent);
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
    if let Ok(limits) = std::fs::read_to_string("/proc/self/limits")
        && let Some(most) = value(&limits, "Max open files")
    {
        gauge!(MAX_FILES).set(most);
    }
    if let Ok(machine) = std::fs::read_to_string("/proc/stat")
        && let (Some(booted), Some(times)) = (value(&machine, "btime "), Times::now())
    {
        gauge!(STARTED).set(booted + times.started);
    }
}

/// Behind what the recorder tells.
pub(crate) fn append(text: &mut String) {
    if let Some(Times { processor, .. }) = Times::now() {
        let _ = writeln!(
            text,
            "# HELP {CPU_SECONDS} {CPU_HELP}\n# TYPE {CPU_SECONDS} counter\n{CPU_SECONDS} {processor}"
        );
    }
}

/// In seconds.
#[derive(Debug, PartialEq)]
struct Times {
    processor: f64,
    /// Since the machine started.
    started: f64,
}

impl Times {
    fn now() -> Option<Times> {
        Times::read(&std::fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// The name of the program may hold blanks and brackets; behind it stand numbers.
    fn read(stat: &str) -> Option<Times> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |place: usize| fields.get(place)?.parse::<f64>().ok();
        let processor = (ticks(11)? + ticks(12)?) / TICKS;
        Some(Times { processor, started: ticks(19)? / TICKS })
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
        let limits =
            "Max open files            1024                 524288               files     \n";
        assert_eq!(value(limits, "Max open files"), Some(1024.0));
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 12 0 12345 1 2";
        assert_eq!(Times::read(stat), Some(Times { processor: 3.0, started: 123.45 }));
    }
}
