//! The account of every message: which were sent, which came, and what became of them, in bounded memory.
//!
//! A producer numbers its messages from 0. What is known of each is its place in a few [`NumberSet`]s, which fold away
//! where they are whole.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::number_set::NumberSet;
use crate::stamp::Stamp;

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
    /// Due, and not handed over before time was up.
    pub unsent: u64,
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
            account.unknown += sent.handed - sent.acknowledged.len() - sent.refused.len();
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
            sent.refused.len() - sent.refused.count_missing(&found)
        });
        Account { lost, left, expired, lost_examples: examples, ..account }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poison| poison.into_inner())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RUN: u32 = 7;

    fn stamp(number: u64, session: u32) -> Stamp {
        let ready = Duration::ZERO;
        let (is_scheduled, is_measured) = (false, true);
        Stamp { run: RUN, producer: 0, number, ready, is_scheduled, is_measured, session }
    }

    fn ledger(mortal: bool) -> Ledger {
        let place = Place { path: "q".to_owned(), producers: vec![0], is_consumed: true };
        Ledger::new(RUN, vec![mortal], vec![place])
    }

    fn sent(ledger: &Ledger, count: u64) {
        let mut sent = ledger.sent(0);
        sent.handed = count;
        sent.acknowledged.insert_run(0, count);
    }

    /// What is told of a story, less what is always the same in it.
    fn told(is_mortal: bool, is_dry: bool, story: impl FnOnce(&Ledger)) -> Account {
        let ledger = ledger(is_mortal);
        sent(&ledger, 5);
        story(&ledger);
        ledger.account(is_dry)
    }

    fn live(ledger: &Ledger, number: u64) {
        let seen = ledger.arrived(0, &stamp(number, 0), false).expect("it is ours");
        ledger.finished(0, &stamp(number, 0), seen);
    }

    #[test]
    fn a_whole_life_is_counted_once() {
        let account = told(false, true, |ledger| (0..5).for_each(|number| live(ledger, number)));
        let expected = Account {
            sent: 5,
            acknowledged: 5,
            deliveries: 5,
            delivered: 5,
            finished: 5,
            ..Account::default()
        };
        assert_eq!(account, expected);
    }

    #[test]
    fn what_is_missing_is_lost_left_or_expired() {
        let but_two = |ledger: &Ledger| [0, 2, 3].into_iter().for_each(|of| live(ledger, of));
        let lost = told(false, true, but_two);
        assert_eq!((lost.lost, lost.left, lost.expired), (2, 0, 0));
        assert_eq!(lost.lost_examples, ["producer 1, number 1", "producer 1, number 4"]);
        let left = told(false, false, but_two);
        assert_eq!((left.lost, left.left, left.expired), (0, 2, 0));
        let expired = told(true, true, but_two);
        assert_eq!((expired.lost, expired.left, expired.expired), (0, 0, 2));
        let dead = told(true, true, |ledger| {
            but_two(ledger);
            ledger.dead(0, &stamp(1, 0));
        });
        assert_eq!((dead.lost, dead.expired, dead.dead_lettered), (0, 1, 1));
    }

    #[test]
    fn a_message_that_comes_again_is_doubled_only_if_it_was_finished() {
        let all = |ledger: &Ledger| (0..5).for_each(|number| live(ledger, number));
        let again = told(false, true, |ledger| {
            ledger.arrived(0, &stamp(0, 0), false);
            all(ledger);
        });
        assert_eq!((again.redelivered, again.doubled, again.deliveries), (1, 0, 6));
        let doubled = told(false, true, |ledger| {
            all(ledger);
            live(ledger, 3);
        });
        assert_eq!((doubled.redelivered, doubled.doubled, doubled.delivered), (0, 1, 5));
        // Two copies under way at once, and both completed.
        let copies = told(false, true, |ledger| {
            let seen = [0, 1].map(|_| ledger.arrived(0, &stamp(0, 0), false).expect("ours"));
            seen.into_iter().for_each(|seen| ledger.finished(0, &stamp(0, 0), seen));
        });
        assert_eq!((copies.redelivered, copies.doubled), (1, 1));
    }

    #[test]
    fn order_holds_within_a_session_and_for_first_deliveries() {
        let account = told(false, true, |ledger| {
            for (number, session) in [(0, 1), (3, 2), (1, 1), (2, 2), (1, 1), (4, 1), (0, 1)] {
                ledger.arrived(0, &stamp(number, session), false);
            }
        });
        assert_eq!((account.out_of_order, account.redelivered), (1, 2));
    }

    #[test]
    fn what_another_run_left_is_not_counted() {
        let ledger = ledger(false);
        let theirs = Stamp { run: 8, ..stamp(0, 0) };
        assert_eq!(ledger.arrived(0, &theirs, false), None);
        let unknown = Stamp { producer: 9, ..stamp(0, 0) };
        assert_eq!(ledger.arrived(0, &unknown, false), None);
        assert_eq!(ledger.account(true), Account::default());
    }

    #[test]
    fn what_is_refused_or_unknown_is_not_missing() {
        let ledger = ledger(false);
        ledger.sent(0).handed = 3;
        ledger.sent(0).refused.insert(0);
        ledger.arrived(0, &stamp(0, 0), true);
        let account = ledger.account(true);
        assert_eq!((account.lost, account.phantom, account.unknown, account.late), (0, 1, 2, 1));
        assert_eq!((ledger.missing(false), ledger.unfinished()), (0, 1));
    }
}
