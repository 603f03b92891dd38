//! Whole clusters in one thread, one seed, time as a number: `domain` and `engine` as they are, over
//! a model of Raft with disks that lose what was not synced, and sometimes all; with clients and
//! edges that fall, wall clocks that show anything, and networks that lose, repeat and reorder. What
//! must hold is asked at every entry, vote, stamp and tick, and when faults have ended.
//!
//! That is level one: the agreement is a model of ours. Level two (`real`, with the feature `raft`) is
//! `replication` as it runs, over modelled disks and wires.
//!
//! There are three lives ([`Options`]): of queues; storms, in which nodes, disks and clocks fail more
//! than anything else; and of topics and sessions, with rules that change, subscriptions that come and
//! go, and holders of sessions that die.
//!
//! What is assumed of wall clocks is what `engine::agreement` assumes, and no more: within any span in
//! which a reading may count, a majority of them is right throughout, or the wrong are not near each
//! other.
//!
//! Reading order: what a run is made of ([`Options`]) and leaves ([`Report`], [`Violation`]); clocks,
//! the agreement, replicas, leaders; clients and their network; the oracle, and one file per
//! invariant; nodes, their faults, and the groups on them; then level two, and the command line of both.
//!
//! # What it was seen to catch
//!
//! A checker is trusted once it has caught a bug. Put back on purpose, in a copy, one at a time, over
//! 60 seeds:
//!
//! | bug | found by (seeds of 60) |
//! |---|---|
//! | an acquire delivers what has expired | `expired_delivery` 60 |
//! | a lock is settled by any nonce | `one_lock` 60 |
//! | a lock is settled after its end | `one_lock` 60 |
//! | expiry 20 ms early | `order` 41, `early_expiry` 18, `one_place` 1 |
//! | activation 20 ms early | `early_expiry` 53, `order` 5, others 2 |
//! | locks lapse 20 ms early | `one_lock` 7, `early_expiry` 1 |
//! | a release does not look at expiry | `settled` 30, `lost` 1 |
//! | a repeated request is done again | `repeats` 60 |
//! | time runs back with a slower leader | `one_lock` 26, `one_place` 11, others 2 |
//! | a snapshot leaves the machine's cache | `replicas` 30, `panic` 9 |
//! | a raised default is not searched for | `settled` 1 |
//! | nonces depend on how entries are grouped | `replicas` 60 |
//! | abandoning does not count | `one_place` 60 |
//! | deferring does not count | `one_place` 57 |
//! | the last deferral defers in the place of dead-lettering | `one_place` 45 |
//! | a dead-letter queue counts | `one_place` 59 |
//! | dead-lettering counts | `one_place` 55 |
//! | an abandoned deferred message comes back active | `conservation` 35, `one_place` 4 |
//! | returned messages come after fresh ones | `order` 60 |
//! | the clock of a scheduled message starts at acceptance | `one_place` 60 |
//! | a body stays behind | `one_place` 60 |
//! | some batch deletes are not counted | `conservation` 60 |
//! | a lost round of firing is forgotten | `settled` 12 |
//! | an engine is rebuilt without its locks | `wheel` 60 |
//! | the wheel is a millisecond late | `wheel` 60 |
//! | unused credit, or that of a lost acquire, is lost | `credit` 60 |
//!
//! | of topics and sessions, in lives of these ([`Options::topics`]) | |
//! | the last of several copies is not made | `copies` 57 |
//! | two rules that take a message make two copies | `copies` 28 |
//! | a rule that was removed still holds | `copies` 25 |
//! | a copy without a session id goes where sessions are required | `copies` 59 |
//! | a body goes with the last copy but one | `one_place` 56 |
//! | a topic's new default does not reach its subscriptions | `one_place` 7, others 4 |
//! | a session that is held is granted | `one_holder` 55, `one_place` 2 |
//! | a session is used after its end | `one_holder` 57 |
//! | within a session the newest comes first | `order` 58 |
//! | giving a session back counts its messages as delivered | `one_place` 31, `early_expiry` 5 |
//! | what did not arrive is not released when its receiver is back | `one_place` 52 |
//! | a session given back does not stand in line | `conservation` 42 |
//! | the leader arms no ends of holds | `wheel` 59 |
//! | the leader does not see the last message that is ready in a session | `settled` 36 |
//! | the leader does not see the last session that is free | `settled` 7 |
//!
//! The first part was made over an agreement without faults. Bugs of the agreement itself, of clocks, of
//! requests, of copies and of holds are planted by an option ([`Bug`]) and found by `tests/bugs.rs`.

mod bug;
mod options;
mod report;

mod random;

mod clock;
mod leader;
mod node;
mod raft;
mod replica;
mod rules;
mod tamper;

mod client;
mod network;
mod operator;

mod invariants;
mod oracle;

mod cluster;
mod faults;
mod forwarding;
mod group;

#[cfg(feature = "raft")]
pub mod real;

pub mod seeds;

pub use bug::Bug;
pub use options::Options;
pub use random::Random;
pub use report::{Broken, Report, Violation};

/// One cluster's life. Equal seeds and options, equal reports.
pub fn run(seed: u64, options: &Options) -> Result<Report, Violation> {
    cluster::Cluster::new(seed, options).run(seed)
}

/// Many clusters' lives, over all cores. Sums of those that held, and the violations, in order of
/// seed.
pub fn run_many(seeds: std::ops::Range<u64>, options: &Options) -> (Report, Vec<Violation>) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = |core: u64| seeds.clone().filter(move |seed| seed % cores == core);
    let mut results: Vec<(u64, Result<Report, Violation>)> = std::thread::scope(|scope| {
        let run_share = |core| {
            scope.spawn(move || {
                share(core).map(|seed| (seed, run(seed, options))).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..cores).map(run_share).collect();
        threads
            .into_iter()
            .flat_map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    results.sort_by_key(|(seed, _)| *seed);
    let (mut total, mut violations) = (Report::default(), Vec::new());
    for (_, result) in results {
        match result {
            Ok(report) => total += report,
            Err(violation) => violations.push(violation),
        }
    }
    (total, violations)
}
