//! Work in `apply` is bounded: no command touches more than `APPLY_ROWS_MAX` rows, and what is left
//! is told and found again.

use std::cell::Cell;
use std::ops::ControlFlow;

use domain::{
    APPLY_ROWS_MAX, Acquire, Command, DeadlineKind, Entry, Fired, Key, Machine, MemoryRows,
    Outcome, QueueProperties, Row, Rows,
};

use crate::support::{QUEUE, content};
use crate::table::*;

/// More messages than a command may touch rows.
const MANY: usize = 10_000;

fn with_many(properties: QueueProperties, message: domain::NewMessage) -> Table {
    let mut play = Table::new(properties);
    let send = |_| {
        let messages = vec![message.clone(); 1000];
        Command::Send(domain::Send { origin: None, entity: QUEUE, messages })
    };
    let commands = (0..MANY / 1000).map(send).collect();
    let entry = Entry { at: at(0), seed: [0; 16], commands };
    play.group.step(vec![entry]);
    assert_eq!(play.counts().accepted, MANY as u64);
    play
}

/// Fires until nothing is left, and returns how often.
fn exhaust(play: &mut Table, kind: DeadlineKind, done: fn(&Fired) -> u32) -> usize {
    let (mut rounds, mut sum) = (0, 0);
    loop {
        let fired = play.fire(kind, u32::MAX);
        assert!(play.group.written <= APPLY_ROWS_MAX as usize, "{} rows", play.group.written);
        rounds += 1;
        sum += done(&fired);
        if !fired.more {
            break;
        }
        assert!(done(&fired) > 0, "more is left, but nothing was done");
    }
    assert_eq!(sum as usize, MANY);
    rounds
}

#[test]
fn expiry_of_many_is_done_in_bounded_steps() {
    let mut play = with_many(queue(), m().ttl(10));
    play.group.now = at(10);
    assert!(exhaust(&mut play, DeadlineKind::Fixed, |fired| fired.dropped) > 2);
    assert_eq!(play.look(), "| | expired 10000");
}

#[test]
fn expiry_by_default_of_many_is_done_in_bounded_steps() {
    let properties = QueueProperties { default_ttl: ms(SECOND), ..dead_lettering() };
    let mut play = with_many(properties, m());
    play.group.now = at(SECOND);
    assert!(exhaust(&mut play, DeadlineKind::Derived, |fired| fired.dead_lettered) > 2);
    assert_eq!(play.counts().dead_lettered, MANY as u64);
}

#[test]
fn activation_of_many_is_done_in_bounded_steps() {
    let mut play = with_many(queue(), m().due(10));
    play.group.now = at(10);
    assert!(exhaust(&mut play, DeadlineKind::Scheduled, |fired| fired.activated) > 2);
    assert_eq!(play.info().available, MANY as u64);
}

#[test]
fn a_receive_behind_many_expired_messages_comes_through_in_bounded_steps() {
    let mut play = with_many(queue(), m().ttl(10));
    play.play(5, send(m()));
    play.group.now = at(10);
    let mut rounds = 0;
    loop {
        rounds += 1;
        let before = play.counts().expired;
        let outcome = play.take(MAIN, 1);
        // Others wait for the entry: it clears few of them.
        assert!(play.counts().expired - before <= 256);
        assert!(play.group.written <= APPLY_ROWS_MAX as usize, "{} rows", play.group.written);
        match outcome {
            Outcome::Acquired { deliveries, more: true } => assert!(deliveries.is_empty()),
            Outcome::Acquired { deliveries, more: false } => {
                assert_eq!(deliveries[0].sequence.0, MANY as u64 + 1);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(rounds > 2);
    assert_eq!(play.counts().expired, MANY as u64);
}

/// Counts what is looked up by key, which costs storage far more than a row of a scan.
struct Counted<'a> {
    rows: &'a MemoryRows,
    gets: Cell<usize>,
}

impl Rows for Counted<'_> {
    fn get(&self, key: &Key) -> Option<Row> {
        self.gets.set(self.gets.get() + 1);
        self.rows.get(key)
    }

    fn scan(&self, from: &Key, to: &Key, visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>) {
        self.rows.scan(from, to, visit);
    }
}

#[test]
fn ttl_33_expired_messages_that_a_receive_passes_are_not_looked_up_one_by_one() {
    let play = with_many(queue(), m().ttl(10));
    let rows = Counted { rows: &play.group.rows, gets: Cell::new(0) };
    let acquire = Acquire { queue: MAIN, receiver: RECEIVER, count_max: 1, bytes_max: u32::MAX };
    let commands = vec![Command::Acquire(acquire)];
    let mut machine = Machine::reading(content::read);
    let mut step = machine.step(&rows);
    step.apply(Entry { at: at(10), seed: [1; 16], commands });
    let written = step.finish().writes.len();
    assert!(written > 256, "{written} rows of expired messages went");
    assert!(rows.gets.get() < 10, "{} rows were looked up", rows.gets.get());
}

#[test]
fn a_large_receive_and_delete_batch_are_bounded() {
    let mut play = with_many(queue(), m());
    play.group.now = at(10);
    let outcome = play.take(MAIN, u32::MAX);
    assert!(play.group.written <= APPLY_ROWS_MAX as usize, "{} rows", play.group.written);
    assert!(
        matches!(outcome, Outcome::Acquired { deliveries, more: true } if !deliveries.is_empty())
    );
    play.play(10, Delete(4000));
    assert!(play.group.written <= APPLY_ROWS_MAX as usize, "{} rows", play.group.written);
}

/// ENT-7: what is left is erased at once, or, where it is little, row by row.
#[test]
fn ent_7_deleting_a_queue_is_one_entry_and_one_sweep_however_large() {
    let mut small = Table::new(queue());
    small.play(0, Send(vec![m().ttl(DAY); 30]));
    for (mut play, rows_max) in [(with_many(queue(), m().ttl(DAY)), 20), (small, 100)] {
        play.check([(1, DeleteQueue, "done", "no queue")]);
        assert!(play.group.written < 10, "{} rows", play.group.written);
        assert!(!play.play(1, Sweep).ends_with("more"));
        assert!(play.group.written <= rows_max, "{} rows", play.group.written);
        // The group's own row is left.
        assert_eq!(play.group.rows.0.len(), 1);
    }
}

/// LOCK-24: a batch may be smaller than asked for. It stops after the message that reaches the bytes
/// asked for, and says that there are more.
#[test]
fn a_received_batch_is_bounded_by_bytes_and_an_empty_one_is_no_error() {
    let mut play = check(
        queue(),
        [(0, Take(9), "got", ""), (0, Send(vec![m(), m(), m(), m()]), "sent 1 2 3 4", "1 2 3 4")],
    );
    let mut take = |bytes_max| {
        let acquire = Acquire { queue: MAIN, receiver: RECEIVER, count_max: 9, bytes_max };
        words(&play.group.apply(Command::Acquire(acquire)))
    };
    assert_eq!(take(11), "got 1 2 more");
    assert_eq!(take(10), "got 3 more");
    assert_eq!(take(1), "got 4");
    assert_eq!(take(1), "got");
}
