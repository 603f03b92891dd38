//! The report as people read it.

use std::collections::BTreeMap;
use std::fmt;

use super::worker::{WorkerReport, latency_error_ms};
use super::{Judged, LoadReport, Unit};

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadReport { name, protocol, target, account, generator, .. } = self;
        writeln!(f, "{name}: {protocol} to {target}, {:.1} s measured", self.phases.measure)?;
        if self.interrupted {
            writeln!(f, "  interrupted  what follows is of what was done until then")?;
        }
        writeln!(
            f,
            "  rates        {:.0} sent/s, {:.0} delivered/s, {:.0} completed/s",
            self.sent_per_second, self.delivered_per_second, self.completed_per_second
        )?;
        for (name, latency) in &self.latency {
            writeln!(f, "  {:<12} {latency}", name.replace('_', " "))?;
        }
        let sends = [
            ("sent", account.sent),
            ("acknowledged", account.acknowledged),
            ("refused", account.refused),
            ("perhaps sent", account.unknown),
            ("cancelled", account.cancelled),
            ("rolled back", account.rolled_back),
            ("not sent in time", account.unsent),
        ];
        line(f, "sends", &sends, 2)?;
        let deliveries = [
            ("delivered", account.delivered),
            ("delivered again", account.redelivered),
            ("found dead-lettered", account.dead_lettered),
            ("expired", account.expired),
            ("left", account.left),
        ];
        line(f, "deliveries", &deliveries, 1)?;
        counted(f, "verdicts", &self.verdicts)?;
        let broken = [
            ("lost", account.lost),
            ("doubled", account.doubled),
            ("out of order", account.out_of_order),
            ("delivered after their deadline", account.late),
            ("refused and delivered", account.phantom),
            ("cancelled and delivered", account.cancelled_delivered),
            ("rolled back and delivered", account.rolled_back_delivered),
        ];
        match broken.iter().all(|(_, count)| *count == 0) {
            true => writeln!(f, "  checks       nothing lost, doubled, out of order or too late")?,
            false => line(f, "CHECKS", &broken, 0)?,
        }
        if !account.lost_examples.is_empty() {
            writeln!(f, "  lost         {}", account.lost_examples.join("; "))?;
        }
        counted(f, "errors", &self.errors)?;
        writeln!(f, "  backlog      {} at most", self.backlog_max)?;
        writeln!(
            f,
            "  generator    {:.1} µs of CPU a message, {:.2} of {} cores",
            generator.us_per_message, generator.cores_used, generator.cores
        )?;
        for worker in &self.workers {
            writeln!(f, "  worker       {worker}")?;
        }
        if self.workers.len() > 1 {
            let error = latency_error_ms(&self.workers);
            writeln!(f, "  clocks       latencies between workers are right to ±{error:.3} ms")?;
        }
        if self.workers.iter().any(|of| of.lost.is_some()) {
            writeln!(f, "  WARNING      a worker was lost: what it received is counted as left")?;
        }
        if generator.is_limit() || self.workers.iter().any(WorkerReport::is_limit) {
            writeln!(
                f,
                "  WARNING      the generator may be the limit: it used nearly all of its cores"
            )?;
        }
        self.thresholds.iter().try_for_each(|judged| writeln!(f, "  {judged}"))
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds { "held" } else { "NOT HELD" };
        let Some(found) = self.found else {
            return write!(f, "{verdict:<12} {} (nothing was recorded)", self.threshold);
        };
        let found = match self.unit {
            Unit::Seconds => format!("{:.1} ms", found * 1000.0),
            Unit::Messages => format!("{found}"),
            Unit::MessagesPerSecond => format!("{found:.1}/s"),
            Unit::Share => format!("{:.3} %", found * 100.0),
        };
        write!(f, "{verdict:<12} {} (it is {found})", self.threshold)
    }
}

/// What there is of these; the first few in any case.
fn line(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    counts: &[(&str, u64)],
    always: usize,
) -> fmt::Result {
    let told = counts.iter().enumerate().filter(|(at, (_, count))| *at < always || *count > 0);
    let told: Vec<String> = told.map(|(_, (name, count))| format!("{count} {name}")).collect();
    writeln!(f, "  {name:<12} {}", told.join(", "))
}

fn counted(f: &mut fmt::Formatter<'_>, name: &str, counts: &BTreeMap<String, u64>) -> fmt::Result {
    let told: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let told = if told.is_empty() { "none".to_owned() } else { told.join(", ") };
    writeln!(f, "  {name:<12} {told}")
}
