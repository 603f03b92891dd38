//! What came of a run.

mod csv;
mod page;
mod percentiles;
mod text;
mod worker;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ledger::Account;
use crate::meter::{Counts, Recorders};
use crate::threshold::{Count, Figure, Span, Statistic, Threshold};
pub use percentiles::Percentiles;
pub use worker::WorkerReport;

/// A whole run, as JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    pub name: String,
    /// What was spoken, and with whom.
    pub protocol: String,
    pub target: String,
    pub seed: u64,
    pub run: String,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    pub interrupted: bool,
    pub phases: PhaseSeconds,
    /// A second, while it was measured.
    pub sent_per_second: f64,
    pub delivered_per_second: f64,
    pub completed_per_second: f64,
    /// By what it is of: what was due while it was measured.
    pub latency: BTreeMap<String, Percentiles>,
    /// Of the whole run, the drain included.
    pub account: Account,
    /// Verdicts that were confirmed, by name.
    pub verdicts: BTreeMap<String, u64>,
    pub errors: BTreeMap<String, u64>,
    pub backlog_max: u64,
    pub generator: GeneratorUse,
    /// Where others generated the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerReport>,
    pub thresholds: Vec<Judged>,
    pub series: Vec<Point>,
    /// Every threshold held.
    pub holds: bool,
}

/// How long each phase took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseSeconds {
    pub warm_up: f64,
    pub measure: f64,
    pub cool_down: f64,
    pub drain: f64,
}

/// What this side cost while it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorUse {
    pub cpu_seconds: f64,
    /// Of CPU, for a message sent or delivered whichever were more.
    pub us_per_message: f64,
    pub cores_used: f64,
    pub cores: u32,
}

/// Of a generator's cores, in use: with more it may be what limits a run.
const CORES_USED_MAX: f64 = 0.85;

impl GeneratorUse {
    /// What is measured may be the generator.
    pub fn is_limit(&self) -> bool {
        self.cores > 0 && self.cores_used > CORES_USED_MAX * f64::from(self.cores)
    }
}

/// A threshold and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    pub threshold: String,
    /// None: there is no such figure.
    pub found: Option<f64>,
    /// Of what was found.
    pub unit: Unit,
    pub holds: bool,
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Seconds,
    Messages,
    MessagesPerSecond,
    /// 1 is all.
    Share,
}

/// A slice of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its end, since the run's beginning.
    pub at_seconds: f64,
    pub seconds: f64,
    /// warm-up, measure, cool-down or drain.
    pub phase: String,
    pub sent: u64,
    pub delivered: u64,
    pub completed: u64,
    pub errors: u64,
    /// Acknowledged and not delivered, at its end.
    pub backlog: u64,
    /// Of what was recorded in it, by what it is of.
    pub latency: BTreeMap<String, Percentiles>,
}

/// What thresholds are held against.
pub struct Figures<'a> {
    pub latency: &'a Recorders,
    pub account: &'a Account,
    pub counts: &'a Counts,
    /// While it was measured.
    pub rates: [f64; 3],
    pub backlog_max: u64,
}

impl Figures<'_> {
    /// One figure, in its unit; none where nothing was recorded.
    pub fn find(&self, figure: Figure) -> Option<f64> {
        match figure {
            Figure::Latency(span, statistic) => {
                let of = self.latency.of(span);
                let ms = match statistic {
                    _ if of.count() == 0 => return None,
                    Statistic::Mean => of.mean(),
                    Statistic::Max => of.max(),
                    Statistic::Quantile(share) => of.at(share),
                };
                Some(ms / 1000.0)
            }
            Figure::Count(count) => Some(self.count(count) as f64),
            Figure::Share(count) => {
                let all = self.account.sent.max(self.account.delivered);
                (all > 0).then(|| self.count(count) as f64 / all as f64)
            }
            Figure::Rate(Count::Sent) => Some(self.rates[0]),
            Figure::Rate(Count::Delivered) => Some(self.rates[1]),
            Figure::Rate(_) => Some(self.rates[2]),
            Figure::BacklogMax => Some(self.backlog_max as f64),
        }
    }

    fn count(&self, count: Count) -> u64 {
        let account = self.account;
        match count {
            Count::Sent => account.acknowledged,
            Count::Delivered => account.delivered,
            Count::Completed => self.counts.completed,
            Count::Lost => account.lost,
            Count::Doubled => account.doubled,
            Count::OutOfOrder => account.out_of_order,
            Count::Late => account.late,
            Count::Left => account.left,
            Count::Expired => account.expired,
            Count::Redelivered => account.redelivered,
            Count::DeadLettered => account.dead_lettered,
            Count::Unsent => account.unsent,
            Count::Cancelled => account.cancelled,
            Count::RolledBack => account.rolled_back,
            Count::CancelledDelivered => account.cancelled_delivered,
            Count::RolledBackDelivered => account.rolled_back_delivered,
            Count::Errors => self.counts.errors,
        }
    }

    pub fn judge(&self, threshold: &Threshold) -> Judged {
        let found = self.find(threshold.figure);
        let unit = match threshold.figure {
            Figure::Latency(..) => Unit::Seconds,
            Figure::Count(_) | Figure::BacklogMax => Unit::Messages,
            Figure::Share(_) => Unit::Share,
            Figure::Rate(_) => Unit::MessagesPerSecond,
        };
        Judged { threshold: threshold.to_string(), found, unit, holds: threshold.holds(found) }
    }
}

/// Of everything that was recorded, by name.
pub fn latencies(recorders: &Recorders, with_curve: bool) -> BTreeMap<String, Percentiles> {
    let recorded = Span::ALL.into_iter().filter(|span| recorders.of(*span).count() > 0);
    recorded
        .map(|span| {
            let of = Percentiles::of(recorders.of(span), with_curve);
            (span.name().to_owned(), of)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::meter::Meter;

    #[test]
    fn thresholds_are_held_against_what_was_found() {
        let meter = Meter::default();
        for ms in 1..=100 {
            meter.books().record(Span::EndToEnd, Duration::from_millis(ms), true);
        }
        let account = Account { sent: 1000, acknowledged: 990, lost: 1, ..Account::default() };
        let counts = Counts { errors: 5, completed: 980, ..Counts::default() };
        let books = meter.books();
        let figures = Figures {
            latency: &books.measured(),
            account: &account,
            counts: &counts,
            rates: [100.0, 90.0, 80.0],
            backlog_max: 7,
        };
        for (text, holds) in [
            ("end_to_end.p50 < 51ms", true),
            ("end_to_end.p50 < 50ms", false),
            ("end_to_end.max >= 100ms", true),
            ("send.p99 < 1s", false),
            ("lost == 0", false),
            ("errors <= 0.5%", true),
            ("errors < 5", false),
            ("sent >= 990", true),
            ("sent.rate >= 100/s", true),
            ("delivered.rate > 90/s", false),
            ("completed.rate == 80", true),
            ("backlog.max == 7", true),
        ] {
            let judged = figures.judge(&text.parse().expect(text));
            assert_eq!(judged.holds, holds, "{text}: {:?}", judged.found);
        }
    }
}
