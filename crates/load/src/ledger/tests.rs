//! Stories of messages, and what the account says of them.

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

/// The ledgers of two workers, of which the first has the producer, laid together.
fn merged(one: impl FnOnce(&Ledger), other: impl FnOnce(&Ledger)) -> Account {
    let (first, second) = (ledger(false), ledger(false));
    one(&first);
    other(&second);
    let mut merged = Merged::new(ledger(false));
    for part in first.parts().chain(second.parts()) {
        merged.take(part).expect("it is of this file");
    }
    merged.into_ledger().account(true)
}

#[test]
fn what_one_worker_sends_another_receives() {
    let account = merged(|one| sent(one, 5), |other| (0..4).for_each(|number| live(other, number)));
    assert_eq!((account.acknowledged, account.delivered, account.finished), (5, 4, 4));
    assert_eq!((account.lost, account.redelivered, account.doubled), (1, 0, 0));
    assert_eq!(account.lost_examples, ["producer 1, number 4"]);
}

#[test]
fn a_message_that_came_to_two_workers_came_again_and_is_doubled_only_if_both_finished_it() {
    let all = |ledger: &Ledger| (0..5).for_each(|number| live(ledger, number));
    let abandoned = merged(
        |one| {
            sent(one, 5);
            one.arrived(0, &stamp(3, 0), false);
        },
        all,
    );
    assert_eq!((abandoned.redelivered, abandoned.doubled, abandoned.deliveries), (1, 0, 6));
    assert_eq!((abandoned.delivered, abandoned.lost), (5, 0));
    let doubled = merged(
        |one| {
            sent(one, 5);
            live(one, 3);
        },
        all,
    );
    assert_eq!((doubled.redelivered, doubled.doubled, doubled.finished), (0, 1, 5));
}

#[test]
fn parts_of_another_file_are_refused() {
    let other = Ledger::new(RUN, vec![false, false], Vec::new());
    other.sent(1).handed = 1;
    let mut merged = Merged::new(ledger(false));
    let parts: Vec<_> = other.parts().collect();
    assert_eq!(parts.len(), 1);
    assert!(merged.take(parts[0].clone()).is_err());
}
