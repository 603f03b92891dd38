//! The checker: from what clients were told and what was found at the end to the promises that were
//! broken. Pure functions, one file for each family of promises, each in a few lines that can be
//! checked by eye. A check complains only where no correct broker could have caused what was seen:
//! whatever is perhaps done may have been done at any time since it was asked for, or not at all.

mod arrival;
mod counters;
mod counts;
mod dead_letters;
mod deferred;
mod expiry;
mod fate;
mod keys;
mod locks;
mod once;
mod order;
mod replicas;
mod scheduled;
mod sessions;
mod temporary;
mod tokens;
mod transactions;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Run;
pub use expiry::EXPIRED;
use fate::Fates;

/// What a broker promises, as people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// What was acknowledged is somewhere, or was settled, or expired.
    NothingLost,
    /// What was refused, or never sent, is nowhere.
    NothingPhantom,
    /// SEND-8, DUP-2, FWD-4: what was sent once is stored once in each place.
    StoredOnce,
    /// LOCK-8: settled is settled.
    SettledOnce,
    /// TTL-9.
    NotDeliveredAfterExpiry,
    /// TIME-8.
    NotExpiredEarly,
    /// TTL-22.
    ExpiredInTheEnd,
    /// TTL-1: instants follow from when it was sent.
    RightInstants,
    /// DLQ-14, TTL-17: one copy, with the right reason.
    DeadLetteredRight,
    /// LOCK-3.
    OneLock,
    /// LOCK-14, SESS-13.
    StaleTokenRefused,
    /// LOCK-6, LOCK-23, TX-8: what is held can be settled.
    LiveTokenGood,
    /// LOCK-19, LOCK-21, DEFER-7, DLQ-4, SESS-12.
    RightCount,
    /// DEFER-1, DEFER-2, DEFER-4, DEFER-6.
    DeferredRight,
    /// SEQ, MSG-10: later sends have higher numbers.
    NumbersInOrder,
    /// SESS-10.
    SessionInOrder,
    /// SESS-9.
    OneHolder,
    /// SCHED-2, SCHED-5.
    ScheduledRight,
    /// TX-2.
    AllOrNothing,
    /// COORD-6.
    SettledByCommit,
    /// SESS-14, LINK-18.
    SessionReleased,
    /// COUNT-5.
    CountersRight,
    /// Every replica holds the same rows.
    ReplicasEqual,
    /// IDLE-15: none goes while it is used, none that is left alone stays.
    TemporaryRight,
    /// ENT-12: who has a key that counts is not refused for it.
    GoodKeyTaken,
    /// The cluster serves again when all is healed, and no node ended by itself.
    Recovers,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Violation {
    pub promise: Promise,
    pub entity: String,
    /// Of the message, where it concerns one.
    pub id: String,
    pub told: String,
}

impl Violation {
    pub fn new(promise: Promise, entity: &str, id: &str, told: impl Into<String>) -> Violation {
        Violation { promise, entity: entity.to_owned(), id: id.to_owned(), told: told.into() }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::NothingLost => "nothing lost",
            Promise::NothingPhantom => "nothing phantom",
            Promise::StoredOnce => "stored once",
            Promise::SettledOnce => "settled once",
            Promise::NotDeliveredAfterExpiry => "not delivered after expiry",
            Promise::NotExpiredEarly => "not expired early",
            Promise::ExpiredInTheEnd => "expired in the end",
            Promise::RightInstants => "right instants",
            Promise::DeadLetteredRight => "dead-lettered right",
            Promise::OneLock => "one lock",
            Promise::StaleTokenRefused => "stale token refused",
            Promise::LiveTokenGood => "live token good",
            Promise::RightCount => "right delivery count",
            Promise::DeferredRight => "deferred right",
            Promise::NumbersInOrder => "numbers in order",
            Promise::SessionInOrder => "session in order",
            Promise::OneHolder => "one holder",
            Promise::ScheduledRight => "scheduled right",
            Promise::AllOrNothing => "all or nothing",
            Promise::SettledByCommit => "settled by the commit",
            Promise::SessionReleased => "session released",
            Promise::CountersRight => "counters right",
            Promise::ReplicasEqual => "replicas equal",
            Promise::TemporaryRight => "temporary entities right",
            Promise::GoodKeyTaken => "good key taken",
            Promise::Recovers => "recovers",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { promise, entity, id, told } = self;
        let message = if id.is_empty() { String::new() } else { format!(", message {id}") };
        match entity.is_empty() {
            true => write!(f, "{promise}: {told}"),
            false => write!(f, "{promise}: {entity}{message}: {told}"),
        }
    }
}

/// Judges a run. None: every promise was kept, as far as anyone could see.
pub fn check(run: &Run) -> Vec<Violation> {
    match run.restored {
        Some(restored) => {
            let mut run = run.clone();
            restored.known_of(&mut run);
            check_restored(&run)
        }
        None => check_whole(run),
    }
}

/// What a backup promises. Locks, sessions, counts of deliveries and numbers that were given since it was made are
/// not in it.
fn check_restored(run: &Run) -> Vec<Violation> {
    let fates = Fates::of(run);
    let of_fates: [fn(&Run, &Fates) -> Vec<Violation>; 6] = [
        arrival::check,
        once::check,
        expiry::check,
        scheduled::check,
        transactions::check,
        counters::check,
    ];
    let of_fates = of_fates.iter().flat_map(|check| check(run, &fates));
    in_order(of_fates.chain(replicas::check(run)).collect())
}

fn in_order(mut all: Vec<Violation>) -> Vec<Violation> {
    all.sort();
    all.dedup();
    all
}

fn check_whole(run: &Run) -> Vec<Violation> {
    let fates = Fates::of(run);
    let of_fates: [fn(&Run, &Fates) -> Vec<Violation>; 11] = [
        arrival::check,
        once::check,
        expiry::check,
        dead_letters::check,
        locks::check,
        tokens::check,
        counts::check,
        deferred::check,
        scheduled::check,
        transactions::check,
        counters::check,
    ];
    let of_run: [fn(&Run) -> Vec<Violation>; 5] =
        [order::check, sessions::check, replicas::check, temporary::check, keys::check];
    let mut all: Vec<Violation> = of_fates.iter().flat_map(|check| check(run, &fates)).collect();
    all.extend(of_run.iter().flat_map(|check| check(run)));
    in_order(all)
}
