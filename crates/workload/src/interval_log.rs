//! Logs of intervals in HdrHistogram's own format, which its tools draw and add up.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use crate::Recorder;

/// A log in the making: version 1.3 of the format, microseconds in the histograms, the longest of each interval in
/// milliseconds.
pub struct IntervalLog {
    text: String,
    serializer: V2DeflateSerializer,
}

impl IntervalLog {
    /// Of what began then.
    pub fn new(began: SystemTime) -> IntervalLog {
        let since = began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let text = format!(
            "#[Histogram log format version 1.3]\n#[StartTime: {since:.3} (seconds since epoch)]\n\
             #[Values are microseconds; Interval_Max is in milliseconds]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
        );
        IntervalLog { text, serializer: V2DeflateSerializer::new() }
    }

    /// One interval of what goes by that tag, which has neither spaces nor commas.
    pub fn add(&mut self, tag: &str, since: Duration, lasts: Duration, of: &Recorder) {
        let mut bytes = Vec::new();
        // Fails for counts that no run reaches; the interval is missing then.
        if self.serializer.serialize(of.histogram(), &mut bytes).is_err() {
            return;
        }
        let (since, lasts) = (since.as_secs_f64(), lasts.as_secs_f64());
        let encoded = STANDARD.encode(bytes);
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "Tag={tag},{since:.3},{lasts:.3},{:.3},{encoded}", of.max());
    }

    /// The log as text.
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn a_log_is_read_by_others_as_it_was_written() {
        let mut recorder = Recorder::default();
        (1..=100).for_each(|ms| recorder.record(Duration::from_millis(ms)));
        let mut log = IntervalLog::new(UNIX_EPOCH + Duration::from_secs(5));
        let of = Duration::from_millis;
        log.add("send", of(250), of(500), &recorder);
        log.add("settle", of(750), of(500), &Recorder::default());
        let text = log.into_text();
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            if let LogEntry::Interval(interval) = entry.expect("a line of the format") {
                let bytes = STANDARD.decode(interval.encoded_histogram()).expect("base64");
                let read: Histogram<u64> =
                    Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram");
                let tag = interval.tag().map(|tag| tag.as_str().to_owned());
                found.push((tag, interval.start_timestamp(), interval.duration(), read.len()));
            }
        }
        let expected = [
            (Some("send".to_owned()), of(250), of(500), 100),
            (Some("settle".to_owned()), of(750), of(500), 0),
        ];
        assert_eq!(found, expected);
    }
}
