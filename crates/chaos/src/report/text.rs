//! The summary a person reads.

use std::collections::BTreeMap;
use std::fmt;

use super::Report;
use super::figures::RestoreFigures;
use crate::check::Promise;

/// Violations of one promise that are told one by one; a report's files hold all.
const TOLD_MAX: usize = 5;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let it = &self.figures;
        writeln!(f, "seed {}, {} nodes, {}", self.seed, self.nodes, self.workloads.join(", "))?;
        if self.interrupted {
            writeln!(f, "  interrupted  what follows is of the time until then")?;
        }
        let perhaps = it.messages_perhaps;
        let not_sent = it.messages_not_sent;
        writeln!(
            f,
            "  load         {:.0} s: {} messages acknowledged, {perhaps} perhaps, {not_sent} not done",
            it.load_seconds, it.messages_sent
        )?;
        writeln!(
            f,
            "  received     {} deliveries, {} settled, {} refused",
            it.deliveries, it.settlements, it.settlements_refused
        )?;
        if it.transactions + it.transactions_perhaps + it.sessions_held + it.cancelled > 0 {
            writeln!(
                f,
                "  besides      {} transactions and {} perhaps, {} sessions held, {} cancelled",
                it.transactions, it.transactions_perhaps, it.sessions_held, it.cancelled
            )?;
        }
        if it.moved > 0 {
            writeln!(f, "  moved        {} times a queue or topic to another group", it.moved)?;
        }
        if !it.dead_lettered.is_empty() {
            let reasons: Vec<String> = it
                .dead_lettered
                .iter()
                .map(|(reason, count)| format!("{count} {reason}"))
                .collect();
            writeln!(f, "  dead letters {}", reasons.join(", "))?;
        }
        if let (Some(p50), Some(p99), Some(max)) = (it.late_p50_ms, it.late_p99_ms, it.late_max_ms)
        {
            writeln!(f, "  lateness     p50 {p50} ms, p99 {p99} ms, max {max} ms")?;
        }
        writeln!(f, "  whole again  {:.1} s after the last fault", it.heal_seconds)?;
        if let Some(RestoreFigures { backup_age_seconds, seconds }) = it.restore {
            writeln!(
                f,
                "  restored     all disks were lost, and {seconds:.1} s later a backup was back that \
                 began {backup_age_seconds:.1} s before"
            )?;
        }
        self.faults(f)?;
        self.verdict(f)
    }
}

impl Report {
    fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "faults: {}", self.faults.len())?;
        for fault in &self.faults {
            let at = fault.begun_ms as f64 / 1e3;
            match &fault.skipped {
                Some(why) => writeln!(f, "  {at:6.1} s  skipped: {}: {why}", fault.told)?,
                None => {
                    let outage = fault.outage_ms as f64 / 1e3;
                    writeln!(f, "  {at:6.1} s  {}; {outage:.1} s without service", fault.told)?;
                }
            }
        }
        let worst = self.figures.outages_max_ms.iter();
        let told: Vec<String> =
            worst.map(|(kind, ms)| format!("{kind} {:.1} s", *ms as f64 / 1e3)).collect();
        if !told.is_empty() {
            writeln!(f, "without service at the longest: {}", told.join(", "))?;
        }
        Ok(())
    }

    fn verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.holds {
            return write!(f, "every promise was kept");
        }
        let mut by_promise: BTreeMap<Promise, Vec<String>> = BTreeMap::new();
        for violation in &self.violations {
            by_promise.entry(violation.promise).or_default().push(violation.to_string());
        }
        writeln!(f, "{} VIOLATIONS", self.violations.len())?;
        for told in by_promise.values() {
            for line in told.iter().take(TOLD_MAX) {
                writeln!(f, "  {line}")?;
            }
            if told.len() > TOLD_MAX {
                writeln!(f, "  … and {} more of these", told.len() - TOLD_MAX)?;
            }
        }
        write!(f, "repeat it with: {}", self.command)
    }
}
