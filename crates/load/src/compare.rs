//! Two reports side by side: ratios, and which differences are more than the noise of the runs themselves.

use std::fmt;

use serde::Serialize;

use crate::report::{LoadReport, Percentiles, Point};
use crate::threshold::Span;

/// A difference counts beyond so many standard errors of the two runs' own slices: slices of one run depend on each
/// other, so it is more than the two that are usual.
const DEVIATIONS: f64 = 3.0;
/// Fewer slices tell of no noise.
const SLICES_MIN: usize = 5;

type OfPoint = fn(&Point) -> u64;
type OfPercentiles = fn(&Percentiles) -> f64;

/// Two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub one: String,
    pub other: String,
    pub rows: Vec<Compared>,
}

/// One figure of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    pub figure: String,
    pub one: f64,
    pub other: f64,
    /// Of the other to the one. None: the one is 0.
    pub ratio: Option<f64>,
    /// How far a ratio may be from 1 and say nothing. None: there is nothing to tell it from.
    pub noise: Option<f64>,
    pub exceeds_noise: bool,
}

impl Comparison {
    pub fn of(one: &LoadReport, other: &LoadReport) -> Comparison {
        let mut rows = Vec::new();
        let rates: [(&str, f64, f64, OfPoint); 3] = [
            ("sent/s", one.sent_per_second, other.sent_per_second, |of| of.sent),
            ("delivered/s", one.delivered_per_second, other.delivered_per_second, |of| {
                of.delivered
            }),
            ("completed/s", one.completed_per_second, other.completed_per_second, |of| {
                of.completed
            }),
        ];
        for (figure, a, b, of) in rates {
            let rate = |point: &Point| Some(of(point) as f64 / point.seconds.max(0.001));
            rows.push(compared(figure.to_owned(), (a, b), noise(one, other, rate)));
        }
        let statistics: [(&str, OfPercentiles); 4] = [
            ("mean", |of| of.mean),
            ("p50", |of| of.p50),
            ("p99", |of| of.p99),
            ("max", |of| of.max),
        ];
        for name in Span::ALL.map(Span::name) {
            let (Some(a), Some(b)) = (one.latency.get(name), other.latency.get(name)) else {
                continue;
            };
            for (statistic, of) in statistics {
                let in_slice = |point: &Point| point.latency.get(name).map(of);
                let figure = format!("{}.{statistic} ms", name);
                rows.push(compared(figure, (of(a), of(b)), noise(one, other, in_slice)));
            }
        }
        let cpu = (one.generator.us_per_message, other.generator.us_per_message);
        rows.push(compared("generator, µs a message".to_owned(), cpu, None));
        let counts: [(&str, u64, u64); 6] = [
            ("lost", one.account.lost, other.account.lost),
            ("doubled", one.account.doubled, other.account.doubled),
            ("out_of_order", one.account.out_of_order, other.account.out_of_order),
            ("late", one.account.late, other.account.late),
            ("unsent", one.account.unsent, other.account.unsent),
            ("errors", one.errors.values().sum(), other.errors.values().sum()),
        ];
        for (name, a, b) in counts {
            // What should not happen at all has no noise.
            let exceeds_noise = a != b;
            let row = compared(name.to_owned(), (a as f64, b as f64), None);
            rows.push(Compared { exceeds_noise, ..row });
        }
        let title = |of: &LoadReport| format!("{}, {} to {}", of.name, of.protocol, of.target);
        Comparison { one: title(one), other: title(other), rows }
    }
}

fn compared(figure: String, (one, other): (f64, f64), noise: Option<f64>) -> Compared {
    let ratio = (one > 0.0).then(|| other / one);
    let exceeds_noise = ratio.zip(noise).is_some_and(|(ratio, noise)| (ratio - 1.0).abs() > noise);
    Compared { figure, one, other, ratio, noise, exceeds_noise }
}

/// How far a ratio may be from 1 by the spread of the slices that were measured.
fn noise(one: &LoadReport, other: &LoadReport, of: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
    let (mean, error) = spread(one, &of)?;
    let (_, other_error) = spread(other, &of)?;
    (mean > 0.0).then(|| DEVIATIONS * error.hypot(other_error) / mean)
}

/// The mean of a figure over slices, and its standard error.
fn spread(report: &LoadReport, of: impl Fn(&Point) -> Option<f64>) -> Option<(f64, f64)> {
    let measured = report.series.iter().filter(|point| point.phase == "measure");
    let values: Vec<f64> = measured.filter_map(of).collect();
    if values.len() < SLICES_MIN {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some((mean, (variance / count).sqrt()))
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "one    {}", self.one)?;
        writeln!(f, "other  {}", self.other)?;
        writeln!(f, "{:<26}{:>14}{:>14}{:>9}{:>9}", "", "one", "other", "ratio", "noise")?;
        for row in &self.rows {
            let ratio = row.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            let noise = row.noise.map_or("-".to_owned(), |noise| format!("±{noise:.2}"));
            let mark = if row.exceeds_noise { "  differs" } else { "" };
            writeln!(
                f,
                "{:<26}{:>14}{:>14}{ratio:>9}{noise:>9}{mark}",
                row.figure,
                shown(row.one),
                shown(row.other)
            )?;
        }
        Ok(())
    }
}

fn shown(value: f64) -> String {
    match value {
        whole if whole.fract() == 0.0 => format!("{whole:.0}"),
        large if large >= 1000.0 => format!("{large:.0}"),
        small => format!("{small:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ledger::Account;
    use crate::report::{GeneratorUse, PhaseSeconds};

    fn report(sent: [u64; 6], p99: f64, lost: u64) -> LoadReport {
        let latency = |p99| {
            let of = Percentiles { count: 10, p99, mean: p99 / 3.0, ..Percentiles::default() };
            BTreeMap::from([("send".to_owned(), of)])
        };
        let slices = sent.into_iter().enumerate().map(|(at, sent)| Point {
            seconds: 1.0,
            phase: "measure".to_owned(),
            sent,
            latency: latency(p99 + at as f64 / 10.0),
            ..Point::default()
        });
        LoadReport {
            name: "n".to_owned(),
            protocol: "gRPC".to_owned(),
            target: "t".to_owned(),
            seed: 1,
            run: String::new(),
            started_at_ms: 0,
            interrupted: false,
            phases: PhaseSeconds::default(),
            sent_per_second: sent.iter().sum::<u64>() as f64 / 6.0,
            delivered_per_second: 0.0,
            completed_per_second: 0.0,
            latency: latency(p99),
            account: Account { lost, ..Account::default() },
            verdicts: BTreeMap::new(),
            errors: BTreeMap::new(),
            backlog_max: 0,
            generator: GeneratorUse::default(),
            workers: Vec::new(),
            thresholds: Vec::new(),
            series: slices.collect(),
            holds: true,
        }
    }

    fn row(comparison: &Comparison, figure: &str) -> Compared {
        let found = comparison.rows.iter().find(|row| row.figure == figure);
        found.cloned().expect(figure)
    }

    #[test]
    fn a_difference_counts_beyond_the_noise_of_the_runs() {
        let one = report([100, 110, 90, 105, 95, 100], 10.0, 0);
        let near = Comparison::of(&one, &report([104, 90, 106, 110, 100, 96], 10.1, 0));
        let sent = row(&near, "sent/s");
        assert!(!sent.exceeds_noise && sent.noise.is_some_and(|noise| noise > 0.05), "{near}");
        assert!(!row(&near, "send.p99 ms").exceeds_noise && !row(&near, "lost").exceeds_noise);
        let far = Comparison::of(&one, &report([204, 190, 206, 210, 200, 196], 30.0, 1));
        for figure in ["sent/s", "send.p99 ms", "lost"] {
            assert!(row(&far, figure).exceeds_noise, "{figure}: {far}");
        }
        assert!((row(&far, "sent/s").ratio.expect("a ratio") - 2.01).abs() < 0.01, "{far}");
        assert!(far.to_string().contains("±"), "{far}");
    }

    #[test]
    fn without_slices_there_is_no_noise_to_tell() {
        let mut short = report([1; 6], 10.0, 0);
        short.series.truncate(SLICES_MIN - 1);
        let comparison = Comparison::of(&short, &short);
        assert!(comparison.rows.iter().all(|row| row.noise.is_none() && !row.exceeds_noise));
        assert_eq!(row(&comparison, "delivered/s").ratio, None);
    }
}
