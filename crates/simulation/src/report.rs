//! What came of a run: totals, or the violation that ended it.

use std::fmt;
use std::ops::AddAssign;

use crate::Options;

/// What happened in a run, so that one in which nothing went wrong because nothing happened is
/// noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of all rows and counts at the end: same seed, same digest.
    pub digest: u64,
    /// Of the clusters' time.
    pub seconds: u64,
    pub entries: u64,
    pub elections: u64,
    pub crashes: u64,
    pub snapshot_installs: u64,
    /// Nodes that lost what they held and took another id.
    pub returns: u64,
    /// Lives in which a majority lost it.
    pub standstills: u64,
    /// Unsynced writes that crashes took.
    pub writes_lost: u64,
    /// Calls for a former life.
    pub calls_refused: u64,
    /// Leaders asked to make room for another.
    pub transfers: u64,
    pub client_crashes: u64,
    /// Wall clocks that went wrong or were mended.
    pub clocks_set: u64,
    /// Ticks in which a leader might not stamp.
    pub unstamped: u64,
    /// Proposals that never reached the log.
    pub dropped: u64,
    /// Commands that reached the log again under the same origin (SEND-8).
    pub repeated: u64,
    pub accepted: u64,
    pub acknowledged: u64,
    pub delivered: u64,
    pub completed: u64,
    /// Messages that left their queue because their time was up, dropped or dead-lettered.
    pub expiries: u64,
    pub dead_lettered: u64,
    pub activations: u64,
    pub locks_lapsed: u64,
    pub deferred: u64,
    pub duplicates: u64,
    /// Settlements refused for want of a lock (LOCK-14, SESS-13).
    pub locks_refused: u64,
    /// Settlements refused because their lock waits in an open transaction (TX-9).
    pub withheld: u64,
    /// Messages accepted by what forwards them to another group.
    pub forwarded: u64,
    /// Cuts of the whole cluster that every group has had.
    pub cuts: u64,
    /// Transactions.
    pub committed: u64,
    pub rolled_back: u64,
    /// That publishes made, and of how many publishes not in the entry that accepted them.
    pub copies: u64,
    pub matched_later: u64,
    pub sessions_accepted: u64,
    pub sessions_lapsed: u64,
    pub sessions_released: u64,
}

impl AddAssign for Report {
    /// Sums; digests are folded.
    fn add_assign(&mut self, other: Report) {
        self.digest = self.digest.rotate_left(7) ^ other.digest;
        self.seconds += other.seconds;
        self.entries += other.entries;
        self.elections += other.elections;
        self.crashes += other.crashes;
        self.snapshot_installs += other.snapshot_installs;
        self.returns += other.returns;
        self.standstills += other.standstills;
        self.writes_lost += other.writes_lost;
        self.calls_refused += other.calls_refused;
        self.transfers += other.transfers;
        self.client_crashes += other.client_crashes;
        self.clocks_set += other.clocks_set;
        self.unstamped += other.unstamped;
        self.dropped += other.dropped;
        self.repeated += other.repeated;
        self.accepted += other.accepted;
        self.acknowledged += other.acknowledged;
        self.delivered += other.delivered;
        self.completed += other.completed;
        self.expiries += other.expiries;
        self.dead_lettered += other.dead_lettered;
        self.activations += other.activations;
        self.locks_lapsed += other.locks_lapsed;
        self.deferred += other.deferred;
        self.duplicates += other.duplicates;
        self.locks_refused += other.locks_refused;
        self.withheld += other.withheld;
        self.forwarded += other.forwarded;
        self.cuts += other.cuts;
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.copies += other.copies;
        self.matched_later += other.matched_later;
        self.sessions_accepted += other.sessions_accepted;
        self.sessions_lapsed += other.sessions_lapsed;
        self.sessions_released += other.sessions_released;
    }
}

impl Report {
    /// Faults of nodes, clocks and clients.
    pub fn faults(&self) -> u64 {
        let Report { crashes, transfers, client_crashes, clocks_set, dropped, .. } = self;
        crashes + transfers + client_crashes + clocks_set + dropped
    }

    /// What many runs together must have seen, per run on average: a simulation that became tame
    /// proves nothing. Names what fell short.
    pub fn shortfalls(&self, seeds: u64) -> Vec<String> {
        let minimums = [
            ("elections", self.elections, 2),
            ("crashes", self.crashes, 1),
            ("unsynced writes lost", self.writes_lost, 1),
            ("nodes that lost their data and returned (twice)", self.returns * 2, 1),
            ("calls for a former life", self.calls_refused, 1),
            ("clocks set", self.clocks_set, 2),
            ("ticks without stamps", self.unstamped, 5),
            ("dropped proposals", self.dropped, 5),
            ("repeated commands", self.repeated, 10),
            ("snapshot installs", self.snapshot_installs, 1),
            ("expiries", self.expiries, 20),
            ("activations", self.activations, 10),
            ("lapsed locks", self.locks_lapsed, 10),
            ("dead-lettered messages", self.dead_lettered, 10),
            ("deferred messages", self.deferred, 5),
            ("duplicates", self.duplicates, 5),
            ("refused settlements", self.locks_refused, 5),
            ("withheld settlements", self.withheld, 1),
            ("completed messages", self.completed, 20),
            ("forwarded messages", self.forwarded, 50),
            ("cuts of the cluster", self.cuts, 3),
            ("committed transactions", self.committed, 5),
            ("transactions rolled back", self.rolled_back, 1),
        ];
        let short = minimums.iter().filter(|(_, total, per_seed)| *total < per_seed * seeds);
        short
            .map(|(what, total, per_seed)| {
                format!("{what}: {total}, at least {}", per_seed * seeds)
            })
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "entries {}, elections {}", self.entries, self.elections)?;
        writeln!(f, "crashes {}, snapshot installs {}", self.crashes, self.snapshot_installs)?;
        writeln!(
            f,
            "unsynced writes lost {}, nodes rebuilt {}, calls for former lives {}, stood still {}",
            self.writes_lost, self.returns, self.calls_refused, self.standstills
        )?;
        writeln!(
            f,
            "clocks set {}, ticks without stamps {}, leaders asked to go {}, clients crashed {}",
            self.clocks_set, self.unstamped, self.transfers, self.client_crashes
        )?;
        writeln!(f, "proposals dropped {}, commands repeated {}", self.dropped, self.repeated)?;
        writeln!(
            f,
            "messages accepted {}, acknowledged {}, delivered {}, completed {}",
            self.accepted, self.acknowledged, self.delivered, self.completed
        )?;
        writeln!(
            f,
            "expired {}, dead-lettered {}, activated {}, deferred {}, duplicates {}",
            self.expiries, self.dead_lettered, self.activations, self.deferred, self.duplicates
        )?;
        writeln!(
            f,
            "locks lapsed {}, refused {}, withheld {}",
            self.locks_lapsed, self.locks_refused, self.withheld
        )?;
        writeln!(f, "forwarded between groups {}, cuts {}", self.forwarded, self.cuts)?;
        writeln!(f, "transactions committed {}, rolled back {}", self.committed, self.rolled_back)?;
        writeln!(f, "copies {}, publishes matched later {}", self.copies, self.matched_later)?;
        write!(
            f,
            "sessions accepted {}, lapsed {}, given back {}",
            self.sessions_accepted, self.sessions_lapsed, self.sessions_released
        )
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub seed: u64,
    pub tick: u32,
    pub group: u16,
    pub broken: Broken,
    /// What life it was.
    pub options: Options,
}

/// Which promise, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The invariant's file.
    pub invariant: &'static str,
    /// Where it is promised.
    pub source: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { seed, tick, group, broken, options } = self;
        let Broken { invariant, source, what } = broken;
        writeln!(f, "seed {seed}, tick {tick}, group {group}: {invariant} ({source}): {what}")?;
        match options.flags() {
            Some(flags) => {
                write!(f, "replay: cargo run --release -p simulation -- {flags}--seed {seed}")
            }
            None => write!(f, "replay: seed {seed} of {options:?}"),
        }
    }
}

/// Shorthand for an invariant that holds.
pub type Holds = Result<(), Broken>;
