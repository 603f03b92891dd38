//! A run in numbers.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::check::EXPIRED;
use crate::faults::Happened;
use crate::plan::FaultKind;
use crate::{Answer, Run, What};

/// When what began and ended, on the experiment's clock.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    pub begun_ms: u64,
    pub load_ended_ms: u64,
    pub healed_ms: u64,
}

/// The loss of all disks, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RestoreFigures {
    /// How long before it the backup began that was restored.
    pub backup_age_seconds: f64,
    /// Until the cluster was there again.
    pub seconds: f64,
}

/// Counts and times of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub load_seconds: f64,
    /// From the end of the load until every replica voted and had caught up.
    pub heal_seconds: f64,
    /// Calls of clients, whatever was answered, and messages handed to them.
    pub operations: u64,
    pub messages_sent: u64,
    /// Sends that were perhaps done, and those that were refused or certainly not done.
    pub messages_perhaps: u64,
    pub messages_not_sent: u64,
    pub deliveries: u64,
    pub settlements: u64,
    pub settlements_refused: u64,
    pub transactions: u64,
    pub transactions_perhaps: u64,
    /// Transactions whose rollback was answered.
    pub rolled_back: u64,
    pub received_deferred: u64,
    pub sessions_held: u64,
    pub cancelled: u64,
    /// Entities, from one group to another.
    pub moved: u64,
    /// Found at the end or received from a dead-letter queue, by reason.
    pub dead_lettered: BTreeMap<String, u64>,
    /// From a deadline until its message came out of the dead-letter queue; absent where none did.
    pub late_p50_ms: Option<u64>,
    pub late_p99_ms: Option<u64>,
    pub late_max_ms: Option<u64>,
    pub outage_max_ms: u64,
    /// The longest of each kind of fault.
    pub outages_max_ms: BTreeMap<FaultKind, u64>,
    /// Where all disks were lost in the end.
    pub restore: Option<RestoreFigures>,
}

/// What is counted of histories, which may be forgotten then.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    figures: Figures,
    /// From each deadline until its message came out of the dead-letter queue.
    late_ms: Vec<u64>,
}

impl Tally {
    pub fn of(run: &Run) -> Tally {
        let mut tally = Tally::default();
        let Tally { figures, late_ms } = &mut tally;
        figures.operations = (run.history.calls.len() + run.history.deliveries.len()) as u64;
        figures.deliveries = run.history.deliveries.len() as u64;
        figures.restore = run.restored.map(|it| RestoreFigures {
            backup_age_seconds: seconds(it.backup_begun_ms, it.lost_ms),
            seconds: seconds(it.lost_ms, it.restored_ms),
        });
        for call in &run.history.calls {
            figures.count(&call.what, &call.answer);
        }
        figures.count_dead(run, late_ms);
        tally
    }

    /// Counts another history's as well.
    pub fn absorb(&mut self, other: Tally) {
        self.late_ms.extend(other.late_ms);
        self.figures.absorb(other.figures);
    }

    pub fn finish(self, faults: &[Happened], settled: Settled) -> Figures {
        let Tally { figures, mut late_ms } = self;
        late_ms.sort_unstable();
        let mut outages_max_ms = BTreeMap::new();
        for fault in faults.iter().filter(|fault| fault.skipped.is_none()) {
            let longest: &mut u64 = outages_max_ms.entry(fault.kind).or_default();
            *longest = fault.outage_ms.max(*longest);
        }
        let rank = |share: f64| late_ms.get((late_ms.len() as f64 * share) as usize).copied();
        Figures {
            load_seconds: seconds(settled.begun_ms, settled.load_ended_ms),
            heal_seconds: seconds(settled.load_ended_ms, settled.healed_ms),
            late_p50_ms: rank(0.5),
            late_p99_ms: rank(0.99),
            late_max_ms: late_ms.last().copied(),
            outages_max_ms,
            outage_max_ms: faults.iter().map(|fault| fault.outage_ms).max().unwrap_or(0),
            ..figures
        }
    }
}

fn seconds(from_ms: u64, to_ms: u64) -> f64 {
    to_ms.saturating_sub(from_ms) as f64 / 1e3
}

impl Figures {
    /// Adds what is counted, and takes what only one of them knows; times are not added.
    fn absorb(&mut self, other: Figures) {
        let Figures {
            load_seconds: _,
            heal_seconds: _,
            operations,
            messages_sent,
            messages_perhaps,
            messages_not_sent,
            deliveries,
            settlements,
            settlements_refused,
            transactions,
            transactions_perhaps,
            rolled_back,
            received_deferred,
            sessions_held,
            cancelled,
            moved,
            dead_lettered,
            late_p50_ms: _,
            late_p99_ms: _,
            late_max_ms: _,
            outage_max_ms: _,
            outages_max_ms: _,
            restore,
        } = other;
        self.restore = self.restore.or(restore);
        self.operations += operations;
        self.messages_sent += messages_sent;
        self.messages_perhaps += messages_perhaps;
        self.messages_not_sent += messages_not_sent;
        self.deliveries += deliveries;
        self.settlements += settlements;
        self.settlements_refused += settlements_refused;
        self.transactions += transactions;
        self.transactions_perhaps += transactions_perhaps;
        self.rolled_back += rolled_back;
        self.received_deferred += received_deferred;
        self.sessions_held += sessions_held;
        self.cancelled += cancelled;
        self.moved += moved;
        for (reason, count) in dead_lettered {
            *self.dead_lettered.entry(reason).or_default() += count;
        }
    }

    fn count(&mut self, what: &What, answer: &Answer) {
        let done = u64::from(*answer == Answer::Done);
        match what {
            What::Send(sent) => {
                let count = sent.len() as u64;
                match answer {
                    Answer::Done => self.messages_sent += count,
                    Answer::Perhaps => self.messages_perhaps += count,
                    Answer::Refused(_) | Answer::NotDone => self.messages_not_sent += count,
                }
            }
            What::Settle(..) => {
                self.settlements += done;
                self.settlements_refused += u64::from(matches!(answer, Answer::Refused(_)));
            }
            What::Commit { sent, .. } => {
                self.transactions += done;
                self.messages_sent += done * sent.len() as u64;
                self.transactions_perhaps += u64::from(*answer == Answer::Perhaps);
            }
            What::Accept { .. } => self.sessions_held += done,
            What::Cancel { .. } => self.cancelled += done,
            What::Move { .. } => self.moved += done,
            What::ReceiveDeferred { .. } => self.received_deferred += done,
            What::RollBack(_) => self.rolled_back += done,
            What::SettledEarly(_)
            | What::Renew(..)
            | What::RenewSession { .. }
            | What::EndHold { .. }
            | What::Attach
            | What::Create
            | What::Delete => (),
        }
    }

    fn count_dead(&mut self, run: &Run, late_ms: &mut Vec<u64>) {
        let mut seen = std::collections::BTreeSet::new();
        for it in run.history.deliveries.iter().filter(|it| it.dead) {
            if !seen.insert((&it.entity, it.number)) {
                continue;
            }
            let reason = it.reason.clone().unwrap_or_default();
            // What was held beyond its deadline goes when its holder lets go (TTL-12).
            if reason == EXPIRED && it.count <= 1 {
                late_ms.extend(it.expires_ms.map(|at| it.at_ms.saturating_sub(at)));
            }
            *self.dead_lettered.entry(reason).or_default() += 1;
        }
        for (name, found) in &run.end.entities {
            for it in found.resting.iter().filter(|it| it.dead) {
                if seen.insert((name, it.number)) {
                    let reason = it.reason.clone().unwrap_or_default();
                    *self.dead_lettered.entry(reason).or_default() += 1;
                }
            }
        }
    }
}
