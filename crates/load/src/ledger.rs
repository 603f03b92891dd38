//! The account of every message: which were sent, which came, and what became of them, in bounded memory.
//!
//! A producer numbers its messages from 0. What is known of each is its place in a few [`NumberSet`]s, which fold away
//! where they are whole.

mod part;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::link::Fate;
use crate::number_set::NumberSet;
use crate::stamp::Stamp;
pub use part::Merged;

/// Sessions of one producer whose order is checked; of those beyond, it is not.
pub const SESSIONS_MAX: u32 = 1_000_000;

/// What a producer knows of its messages.
#[derive(Debug, Default)]
pub struct Sent {
    /// Handed over so far: numbers from 0.
    pub handed: u64,
    pub acknowledged: NumberSet,
    /// Certainly not stored.
    pub refused: NumberSet,
    /// Scheduled, and cancelled before they came out.
    pub cancelled: NumberSet,
    /// Sent in a transaction that was rolled back.
    pub rolled_back: NumberSet,
    /// Due, and not handed over before time was up.
    pub unsent: u64,
}

impl Sent {
    /// Where it is noted that messages of such a fate have met it.
    pub fn withdrawn(&mut self, fate: Fate) -> &mut NumberSet {
        match fate {
            Fate::RolledBack => &mut self.rolled_back,
            Fate::Cancelled | Fate::Kept => &mut self.cancelled,
        }
    }
}

/// What consumers of one place know of one producer's messages.
#[derive(Debug, Default)]
struct Arrivals {
    seen: NumberSet,
    /// Completed, dead-lettered, deferred, or taken for good.
    finished: NumberSet,
    /// Found among the dead letters.
    dead: NumberSet,
    deliveries: u64,
    redelivered: u64,
    doubled: u64,
    out_of_order: u64,
    late: u64,
    /// The highest number of each session that has come.
    last: HashMap<u32, u64>,
}

/// Whether a delivery is the first of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    First,
    /// It came before and was not finished: abandoned, lapsed, given back.
    Again,
    /// It was finished, and came nevertheless.
    Doubled,
}

/// A place that consumers take from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub path: String,
    /// The producers whose messages all come there.
    pub producers: Vec<usize>,
    /// Somebody takes from it, so that what is missing can be told.
    pub is_consumed: bool,
}

/// What is known of each producer's messages, and of what came of them at each place.
#[derive(Debug)]
pub struct Ledger {
    run: u32,
    sent: Vec<Mutex<Sent>>,
    places: Vec<(Place, Vec<Mutex<Arrivals>>)>,
    /// By producer: its messages may expire without a trace.
    mortal: Vec<bool>,
}

/// How all messages ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Account {
    /// Handed over.
    pub sent: u64,
    pub acknowledged: u64,
    pub refused: u64,
    /// Perhaps stored.
    pub unknown: u64,
    /// Scheduled, and cancelled before they came out.
    #[serde(default)]
    pub cancelled: u64,
    /// Sent in a transaction that was rolled back.
    #[serde(default)]
    pub rolled_back: u64,
    /// Due, and not handed over before time was up.
    pub unsent: u64,
    pub deliveries: u64,
    /// Messages that came at least once, at each place.
    pub delivered: u64,
    pub redelivered: u64,
    /// Completed, dead-lettered or deferred by a consumer, or received and deleted.
    pub finished: u64,
    /// Found among the dead letters.
    pub dead_lettered: u64,
    /// Acknowledged, and never came, though nothing more was on its way.
    pub lost: u64,
    /// Came or was finished again after it was finished.
    pub doubled: u64,
    /// Came first after a later one of its session.
    pub out_of_order: u64,
    /// Taken from its queue at or after the end of its life.
    pub late: u64,
    /// Refused, and came nevertheless.
    pub phantom: u64,
    /// Cancelled, and came nevertheless.
    #[serde(default)]
    pub cancelled_delivered: u64,
    /// Rolled back, and came nevertheless.
    #[serde(default)]
    pub rolled_back_delivered: u64,
    /// Acknowledged, and had not come when time was up.
    pub left: u64,
    /// Acknowledged, with a time to live, and never came.
    pub expired: u64,
    /// The first few that are lost: producer and number.
    pub lost_examples: Vec<String>,
}

const EXAMPLES_MAX: usize = 10;

impl Ledger {
    /// `mortal`: by producer, whether its messages may expire.
    pub fn new(run: u32, mortal: Vec<bool>, places: Vec<Place>) -> Ledger {
        let of_each = |_: &Place| mortal.iter().map(|_| Mutex::default()).collect();
        Ledger {
            run,
            sent: mortal.iter().map(|_| Mutex::default()).collect(),
            places: places.into_iter().map(|place| (place.clone(), of_each(&place))).collect(),
            mortal,
        }
    }

    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().map(|(place, _)| place)
    }

    /// What a producer notes.
    pub fn sent(&self, producer: usize) -> MutexGuard<'_, Sent> {
        lock(&self.sent[producer])
    }

    fn arrivals(&self, place: usize, stamp: &Stamp) -> Option<MutexGuard<'_, Arrivals>> {
        let of_ours = self.places[place].1.get(usize::from(stamp.producer));
        of_ours.filter(|_| stamp.run == self.run).map(lock)
    }

    /// A delivery. None: of another run. `is_late`: taken at or after its deadline.
    pub fn arrived(&self, place: usize, stamp: &Stamp, is_late: bool) -> Option<Seen> {
        let mut of = self.arrivals(place, stamp)?;
        of.deliveries += 1;
        of.late += u64::from(is_late);
        if of.seen.insert(stamp.number) {
            let is_ordered = stamp.session != 0 && !stamp.is_scheduled;
            if is_ordered {
                let last = of.last.entry(stamp.session).or_insert(stamp.number);
                let is_behind = stamp.number < *last;
                *last = (*last).max(stamp.number);
                of.out_of_order += u64::from(is_behind);
            }
            return Some(Seen::First);
        }
        if of.finished.contains(stamp.number) {
            of.doubled += 1;
            return Some(Seen::Doubled);
        }
        of.redelivered += 1;
        Some(Seen::Again)
    }

    /// Finished for good, and confirmed; `seen` as its delivery was.
    pub fn finished(&self, place: usize, stamp: &Stamp, seen: Seen) {
        let Some(mut of) = self.arrivals(place, stamp) else { return };
        // A delivery of what was finished is counted already.
        if !of.finished.insert(stamp.number) && seen != Seen::Doubled {
            of.doubled += 1;
        }
    }

    /// Found among the dead letters of a place; whether for the first time.
    pub fn dead(&self, place: usize, stamp: &Stamp) -> bool {
        self.arrivals(place, stamp).is_some_and(|mut of| of.dead.insert(stamp.number))
    }

    /// Acknowledged messages that have not come where they are taken from, and are not among the dead letters: of
    /// those that may expire, or of the others.
    pub fn missing(&self, is_mortal: bool) -> u64 {
        self.each(|sent, arrivals, producer| match self.mortal[producer] == is_mortal {
            true => sent.acknowledged.count_missing(&[&arrivals.seen, &arrivals.dead]),
            false => 0,
        })
    }

    /// Those that came and are neither finished nor dead.
    pub fn unfinished(&self) -> u64 {
        self.each(|_, arrivals, _| {
            arrivals.seen.count_missing(&[&arrivals.finished, &arrivals.dead])
        })
    }

    /// The sum over everything that is fed.
    fn each(&self, mut of: impl FnMut(&Sent, &Arrivals, usize) -> u64) -> u64 {
        let mut sum = 0;
        for (place, arrivals) in self.places.iter().filter(|(place, _)| place.is_consumed) {
            for producer in &place.producers {
                sum += of(&lock(&self.sent[*producer]), &lock(&arrivals[*producer]), *producer);
            }
        }
        sum
    }

    /// `is_dry`: nothing more came for so long that nothing more is to be expected.
    pub fn account(&self, is_dry: bool) -> Account {
        let mut account = Account::default();
        for sent in &self.sent {
            let sent = lock(sent);
            account.sent += sent.handed;
            account.acknowledged += sent.acknowledged.len();
            account.refused += sent.refused.len();
            account.cancelled += sent.cancelled.len();
            account.rolled_back += sent.rolled_back.len();
            let known = sent.acknowledged.len() + sent.refused.len();
            let withdrawn = sent.cancelled.len() + sent.rolled_back.len();
            account.unknown += sent.handed.saturating_sub(known + withdrawn);
            account.unsent += sent.unsent;
        }
        for arrivals in self.places.iter().flat_map(|(_, arrivals)| arrivals) {
            let of = lock(arrivals);
            account.deliveries += of.deliveries;
            account.delivered += of.seen.len();
            account.redelivered += of.redelivered;
            account.finished += of.finished.len();
            account.dead_lettered += of.dead.len();
            account.doubled += of.doubled;
            account.out_of_order += of.out_of_order;
            account.late += of.late;
        }
        let mut examples = Vec::new();
        let (mut lost, mut left, mut expired) = (0, 0, 0);
        let (mut cancelled, mut rolled_back) = (0, 0);
        account.phantom = self.each(|sent, arrivals, producer| {
            let found = [&arrivals.seen, &arrivals.dead];
            let missing = sent.acknowledged.count_missing(&found);
            match (self.mortal[producer], is_dry) {
                (true, _) => expired += missing,
                (false, false) => left += missing,
                (false, true) => {
                    lost += missing;
                    let room = EXAMPLES_MAX.saturating_sub(examples.len());
                    let numbers = sent.acknowledged.missing(&found, room);
                    let told = |number| format!("producer {}, number {number}", producer + 1);
                    examples.extend(numbers.into_iter().map(told));
                }
            }
            cancelled += came(&sent.cancelled, &found);
            rolled_back += came(&sent.rolled_back, &found);
            came(&sent.refused, &found)
        });
        account.cancelled_delivered = cancelled;
        account.rolled_back_delivered = rolled_back;
        Account { lost, left, expired, lost_examples: examples, ..account }
    }
}

/// How many of what was not to come did.
fn came(of: &NumberSet, found: &[&NumberSet]) -> u64 {
    of.len() - of.count_missing(found)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poison| poison.into_inner())
}
