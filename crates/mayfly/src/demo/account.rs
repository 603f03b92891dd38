//! The account of every alert.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use client::v1;
use workload::{Verdict, Violation};

use super::failure::Failure;
use super::ledger::{EXPIRED, Lateness, Ledger, POISONED};
use crate::terminal;

/// Violations printed one by one; of more, the number.
const SHOWN_MAX: usize = 10;
/// What falls due while there is no leader, or just after, is late by that, not by the timers.
const AFTERMATH_MS: u64 = 500;

/// Everything the table shows.
#[derive(Clone, Debug)]
pub struct Account {
    events: u64,
    verdict: Verdict,
    lateness: Vec<Lateness>,
    failure: Option<Failure>,
    stored_again: Option<Duration>,
    counters: v1::QueueCounters,
    problems: BTreeMap<String, u64>,
    took: Duration,
}

impl Account {
    pub fn draw(
        ledger: &Ledger,
        events: usize,
        failure: Option<Failure>,
        counters: v1::QueueCounters,
        took: Duration,
    ) -> Account {
        Account {
            events: events as u64,
            verdict: ledger.verdict(),
            lateness: ledger.lateness(),
            failure,
            stored_again: ledger.stored_again(),
            counters,
            problems: ledger.problems(),
            took,
        }
    }

    /// Completed for certain, or as far as one can tell: not found anywhere afterwards.
    fn handled(&self) -> u64 {
        self.verdict.settled + self.verdict.perhaps_settled
    }

    fn dead_lettered(&self, reason: &str) -> u64 {
        self.verdict.dead_lettered.get(reason).copied().unwrap_or(0)
    }

    fn count(&self, of: fn(&Violation) -> bool) -> u64 {
        self.verdict.violations.iter().filter(|violation| of(violation)).count() as u64
    }

    fn lost(&self) -> u64 {
        self.count(|violation| matches!(violation, Violation::Lost { .. }))
    }

    fn late_handled(&self) -> u64 {
        self.count(|violation| matches!(violation, Violation::DeliveredAfterExpiry { .. }))
    }

    /// Every event was accepted, and is exactly one of handled, expired and poison.
    pub fn balances(&self) -> bool {
        let (expired, poison) = (self.dead_lettered(EXPIRED), self.dead_lettered(POISONED));
        self.verdict.acknowledged == self.events
            && self.handled() + expired + poison == self.events
            && poison == 1
            && self.verdict.left == 0
            && self.verdict.holds()
    }

    /// Lateness of those that no lock shielded: all, and without those that fell due while there
    /// was no leader.
    fn prompt(&self) -> (Vec<u64>, Vec<u64>) {
        let free = self.lateness.iter().filter(|lateness| !lateness.was_locked);
        let outage = self.failure.as_ref().map(|failure| {
            let from = failure.killed_at_ms;
            from..from + failure.leaderless.as_millis() as u64 + AFTERMATH_MS
        });
        let in_outage = |at: &u64| outage.as_ref().is_some_and(|outage| outage.contains(at));
        let mut all: Vec<u64> = free.clone().map(|lateness| lateness.late_ms).collect();
        let mut led: Vec<u64> = free
            .filter(|lateness| !in_outage(&lateness.expires_at_ms))
            .map(|lateness| lateness.late_ms)
            .collect();
        all.sort_unstable();
        led.sort_unstable();
        (all, led)
    }
}

/// The least value that at least this share of the sorted ones does not exceed.
fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0)
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, name: &str, count: u64, note: &str| {
            writeln!(f, "{name:<34} {:>7}  {note}", terminal::count(count))
        };
        let (expired, poison) = (self.dead_lettered(EXPIRED), self.dead_lettered(POISONED));
        let perhaps = match self.verdict.perhaps_settled {
            0 => String::new(),
            count => format!("{count} of them by inference: the answer was lost with the node"),
        };
        writeln!(f)?;
        row(f, "alerts", self.events, "")?;
        row(f, "accepted (acknowledged)", self.verdict.acknowledged, "")?;
        writeln!(f, "{}", "─".repeat(42))?;
        row(f, "handled", self.handled(), &perhaps)?;
        row(f, &format!("expired ({EXPIRED})"), expired, "")?;
        row(f, &format!("poison ({POISONED})"), poison, "")?;
        for (reason, count) in &self.verdict.dead_lettered {
            if reason != EXPIRED && reason != POISONED {
                row(f, &format!("dead-lettered ({reason})"), *count, "unexpected")?;
            }
        }
        writeln!(f, "{}", "─".repeat(42))?;
        let sum = self.handled() + expired + poison;
        row(f, "together", sum, if sum == self.events { "= alerts" } else { "≠ alerts" })?;
        row(f, "lost", self.lost(), "")?;
        row(f, "handled after expiry", self.late_handled(), "")?;
        if self.verdict.left > 0 {
            row(f, "left in the queue", self.verdict.left, "")?;
        }
        if self.verdict.unknown > 0 {
            row(f, "sends of unknown outcome", self.verdict.unknown, "")?;
        }
        writeln!(f)?;
        self.show_lateness(f)?;
        self.show_failure(f)?;
        let counters = &self.counters;
        writeln!(
            f,
            "the broker's own counters           accepted {} = completed {} + stored {}",
            terminal::count(counters.accepted),
            terminal::count(counters.completed),
            terminal::count(counters.total)
        )?;
        writeln!(f, "took                                {:.1} s", self.took.as_secs_f64())?;
        for violation in self.verdict.violations.iter().take(SHOWN_MAX) {
            writeln!(f, "BROKEN: {violation}")?;
        }
        if self.verdict.violations.len() > SHOWN_MAX {
            let more = self.verdict.violations.len() - SHOWN_MAX;
            writeln!(f, "BROKEN: and {more} more")?;
        }
        for (problem, count) in &self.problems {
            writeln!(f, "on the way: {count} × {problem}")?;
        }
        write!(
            f,
            "{}",
            if self.balances() { "The account balances." } else { "THE ACCOUNT DOES NOT BALANCE." }
        )
    }
}

impl Account {
    fn show_lateness(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, led) = self.prompt();
        let line = |sorted: &[u64]| {
            format!("p99 {} ms, worst {} ms", quantile(sorted, 0.99), quantile(sorted, 1.0))
        };
        writeln!(f, "lateness of expiry                  {}, of {} alerts", line(&all), all.len())?;
        if self.failure.is_some() {
            writeln!(
                f,
                "  while there was a leader          {}, of {} alerts",
                line(&led),
                led.len()
            )?;
        }
        let locked = self.lateness.len() - all.len();
        if locked > 0 {
            writeln!(
                f,
                "  not counted                       {locked} that a lock shielded until it lapsed"
            )?;
        }
        writeln!(f, "  (from the deadline to the arrival at a client of the dead-letter queue)")
    }

    fn show_failure(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(failure) = &self.failure else {
            return writeln!(f, "no leader was killed");
        };
        let stored = match self.stored_again {
            Some(took) => format!("; the next alert was stored after {} ms", took.as_millis()),
            None => String::new(),
        };
        writeln!(
            f,
            "time without a leader               {} ms (node {} killed, node {} took over){stored}",
            failure.leaderless.as_millis(),
            failure.node,
            failure.new_leader
        )?;
        let back = match failure.caught_up {
            Some(took) => format!("caught up {} ms after its restart", took.as_millis()),
            None => "had not caught up in time".to_owned(),
        };
        writeln!(f, "the killed node                     {back}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(settled: u64, expired: u64, poison: u64) -> Account {
        let reasons = [(EXPIRED.to_owned(), expired), (POISONED.to_owned(), poison)];
        Account {
            events: 1707,
            verdict: Verdict {
                acknowledged: 1707,
                settled,
                dead_lettered: BTreeMap::from(reasons),
                ..Verdict::default()
            },
            lateness: Vec::new(),
            failure: None,
            stored_again: None,
            counters: v1::QueueCounters::default(),
            problems: BTreeMap::new(),
            took: Duration::from_secs(35),
        }
    }

    #[test]
    fn it_balances_only_if_every_alert_is_one_of_three() {
        assert!(account(1500, 206, 1).balances());
        assert!(!account(1500, 205, 1).balances());
        assert!(!account(1501, 206, 0).balances());
        let mut late = account(1500, 206, 1);
        let id = "a".to_owned();
        late.verdict.violations.push(Violation::DeliveredAfterExpiry { id, late_ms: 3 });
        assert!(!late.balances());
        assert!(late.to_string().contains("THE ACCOUNT DOES NOT BALANCE."));
    }

    #[test]
    fn lateness_leaves_out_locks_and_tells_the_outage_apart() {
        let mut account = account(1500, 206, 1);
        account.failure = Some(Failure {
            node: 1,
            killed_at_ms: 1000,
            new_leader: 2,
            leaderless: Duration::from_millis(1500),
            caught_up: None,
        });
        account.lateness =
            [(5, 900, false), (1400, 1100, false), (4000, 1200, true), (9, 4000, false)]
                .map(|(late_ms, expires_at_ms, was_locked)| Lateness {
                    late_ms,
                    expires_at_ms,
                    was_locked,
                })
                .to_vec();
        assert_eq!(account.prompt(), (vec![5, 9, 1400], vec![5, 9]));
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!((quantile(&sorted, 0.99), quantile(&sorted, 1.0)), (99, 100));
        assert_eq!(quantile(&[], 0.99), 0);
    }
}
