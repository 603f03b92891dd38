//! The last lines of the node's log, in memory: what is looked at first when somebody asks for help.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing_subscriber::fmt::MakeWriter;

/// Of all lines together.
const BYTES_MAX: usize = 2 << 20;
/// Of one; a longer one is cut.
const LINE_BYTES_MAX: usize = 8 << 10;

/// About what a line takes in memory beside its text: one without any takes room as well.
const LINE_OVERHEAD_BYTES: usize = 64;

/// The ring. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct RecentLog(Arc<Mutex<KeptLines>>);

#[derive(Debug, Default)]
struct KeptLines {
    lines: VecDeque<(u64, String)>,
    bytes: usize,
    lost: u64,
}

impl RecentLog {
    fn kept(&self) -> MutexGuard<'_, KeptLines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at_ms: u64, line: &str) {
        let mut end = line.len().min(LINE_BYTES_MAX);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        let line = line[..end].to_owned();
        let mut kept = self.kept();
        kept.bytes += LINE_OVERHEAD_BYTES + line.len();
        kept.lines.push_back((at_ms, line));
        while kept.bytes > BYTES_MAX
            && let Some((_, line)) = kept.lines.pop_front()
        {
            kept.bytes -= LINE_OVERHEAD_BYTES + line.len();
            kept.lost += 1;
        }
    }

    /// Lines that were written since then (ms since the Unix epoch), the oldest first; and how many of all are kept
    /// no more.
    pub fn since(&self, since_ms: u64) -> (Vec<String>, u64) {
        let kept = self.kept();
        let lines = kept.lines.iter().filter(|(at_ms, _)| *at_ms >= since_ms);
        (lines.map(|(_, line)| line.clone()).collect(), kept.lost)
    }
}

impl<'a> MakeWriter<'a> for RecentLog {
    type Writer = RecentLog;

    fn make_writer(&'a self) -> RecentLog {
        self.clone()
    }
}

/// Each record is written at once.
impl Write for RecentLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        for line in String::from_utf8_lossy(bytes).lines() {
            self.add(at_ms, line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_the_others_are_counted() {
        let log = RecentLog::default();
        log.add(10, "first");
        log.add(20, "second");
        assert_eq!(log.since(0), (vec!["first".to_owned(), "second".to_owned()], 0));
        assert_eq!(log.since(11).0, ["second"]);
        let long = "é".repeat(LINE_BYTES_MAX);
        for _ in 0..=BYTES_MAX / LINE_BYTES_MAX {
            log.add(30, &long);
        }
        let (lines, lost) = log.since(0);
        assert!(lines.iter().map(String::len).sum::<usize>() <= BYTES_MAX);
        assert!(lost >= 2 && lines.iter().all(|line| line.len() <= LINE_BYTES_MAX));
    }

    #[test]
    fn lines_without_a_text_are_bounded_too() {
        let log = RecentLog::default();
        let lines = BYTES_MAX / LINE_OVERHEAD_BYTES;
        log.make_writer().write_all(&vec![b'\n'; 2 * lines]).expect("it takes all");
        assert_eq!(log.since(0), (vec![String::new(); lines], lines as u64));
    }

    #[test]
    fn what_a_subscriber_writes_are_lines() {
        let log = RecentLog::default();
        log.make_writer().write_all(b"one\ntwo\n").expect("it takes all");
        assert_eq!(log.since(0).0, ["one", "two"]);
    }
}
