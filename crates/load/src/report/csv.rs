//! The time series for spreadsheets.

use std::fmt::Write;

use super::LoadReport;
use crate::threshold::Span;

impl LoadReport {
    /// A line for each slice of time; latencies in milliseconds, empty where nothing was recorded.
    pub fn to_csv(&self) -> String {
        let mut text =
            "at_seconds,seconds,phase,sent,delivered,completed,errors,backlog".to_owned();
        for span in Span::ALL {
            for of in ["p50", "p90", "p99", "p99_9", "max"] {
                // Writing to a string does not fail.
                let _ = write!(text, ",{}_{of}_ms", span.name());
            }
        }
        text.push('\n');
        for point in &self.series {
            let _ = write!(
                text,
                "{:.3},{:.3},{},{},{},{},{},{}",
                point.at_seconds,
                point.seconds,
                point.phase,
                point.sent,
                point.delivered,
                point.completed,
                point.errors,
                point.backlog
            );
            for span in Span::ALL {
                let _ = match point.latency.get(span.name()) {
                    None => write!(text, ",,,,,"),
                    Some(of) => {
                        write!(text, ",{},{},{},{},{}", of.p50, of.p90, of.p99, of.p99_9, of.max)
                    }
                };
            }
            text.push('\n');
        }
        text
    }
}
