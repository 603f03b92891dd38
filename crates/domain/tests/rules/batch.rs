//! BATCH: deleting without receiving.

use domain::{BATCH_DELETE_MAX, Outcome, QueueProperties};

use crate::table::*;

fn five() -> Table {
    let mut play = Table::new(queue());
    for second in 0..5 {
        play.play(second * SECOND, send(m()));
    }
    play
}

#[test]
fn batch_1_it_deletes_the_oldest_first() {
    let mut play = five();
    play.check([
        (9 * SECOND, Delete(2), "deleted 2", "3 4 5 || deleted 2"),
        (9 * SECOND, Delete(1), "deleted 1", "4 5 || deleted 3"),
        (9 * SECOND, Take(9), "got 4 5", "4L 5L || deleted 3"),
    ]);
    assert_eq!(play.info().size_bytes, 20);
    // Returned ones are the oldest.
    five().check([
        (9 * SECOND, Take(2), "got 1 2", "1L 2L 3 4 5"),
        (9 * SECOND, Abandon(&[2]), "settled", "1L 2+1 3 4 5"),
        (9 * SECOND, Delete(2), "deleted 2", "1L 4 5 || deleted 2"),
        (9 * SECOND, Complete(&[1]), "settled", "4 5 || completed 1 deleted 2"),
    ]);
}

#[test]
fn batch_2_only_what_was_enqueued_strictly_before() {
    five().check([
        (9 * SECOND, DeleteBefore(9, 0), "deleted 0", "1 2 3 4 5"),
        (9 * SECOND, DeleteBefore(9, 2 * SECOND), "deleted 2", "3 4 5 || deleted 2"),
        (9 * SECOND, DeleteBefore(9, 2 * SECOND + 1), "deleted 1", "4 5 || deleted 3"),
        // Absent: now, and so not what came this very millisecond.
        (9 * SECOND, send(m()), "sent 6", "4 5 6 || deleted 3"),
        (9 * SECOND, Delete(9), "deleted 2", "6 || deleted 5"),
        (9 * SECOND + 1, Delete(9), "deleted 1", "|| deleted 6"),
    ]);
}

#[test]
fn batch_3_never_more_than_asked_for_and_none_is_a_success() {
    five().check([
        (9 * SECOND, Delete(3), "deleted 3", "4 5 || deleted 3"),
        (9 * SECOND, Delete(9), "deleted 2", "|| deleted 5"),
        (9 * SECOND, Delete(9), "deleted 0", "|| deleted 5"),
    ]);
}

#[test]
fn batch_4_locked_deferred_and_scheduled_messages_stay() {
    let mut play = five();
    play.check([
        (5 * SECOND, send(m().due(DAY)), "sent 6", "1 2 3 4 5 6S"),
        (5 * SECOND, Take(2), "got 1 2", "1L 2L 3 4 5 6S"),
        (5 * SECOND, Defer(&[1]), "settled", "1D+1 2L 3 4 5 6S"),
        (9 * SECOND, Delete(9), "deleted 3", "1D+1 2L 6S || deleted 3"),
        (9 * SECOND, Complete(&[2]), "settled", "1D+1 6S || completed 1 deleted 3"),
    ]);
}

#[test]
fn batch_5_at_most_4_000_for_each_call() {
    let mut play = five();
    play.check([
        (9 * SECOND, Delete(BATCH_DELETE_MAX + 1), "ArgumentOutOfRangeException", "1 2 3 4 5"),
        (9 * SECOND, Delete(0), "ArgumentOutOfRangeException", "1 2 3 4 5"),
        (9 * SECOND, Delete(BATCH_DELETE_MAX), "deleted 5", "|| deleted 5"),
    ]);
    // A purge is repeated calls until nothing is deleted.
    let mut play = Table::new(queue());
    for _ in 0..5 {
        assert!(matches!(play.send(vec![m(); 1000]), Outcome::Sent { .. }));
    }
    let (mut calls, mut deleted) = (0, 0);
    loop {
        let text = play.play(1, Delete(BATCH_DELETE_MAX));
        let count: u32 = text.split(' ').nth(1).expect("a count").parse().expect("a number");
        if count == 0 {
            break;
        }
        (calls, deleted) = (calls + 1, deleted + count);
    }
    assert_eq!(deleted, 5000);
    assert!(calls <= 10, "{calls} calls");
}

#[test]
fn batch_6_it_works_on_a_dead_letter_queue() {
    let mut play = five();
    play.check([
        (5 * SECOND, Take(3), "got 1 2 3", "1L 2L 3L 4 5"),
        (5 * SECOND, DeadLetter(&[3]), "settled", "1L 2L 4 5 | 3"),
        (5 * SECOND, DeadLetter(&[1, 2]), "settled", "4 5 | 1 2 3"),
        (5 * SECOND, dead(Take(1)), "got 1", "4 5 | 1L 2 3"),
        // By enqueue time, which dead-lettering keeps.
        (5 * SECOND, dead(DeleteBefore(9, 2 * SECOND)), "deleted 1", "4 5 | 1L 3 | deleted 1"),
        (5 * SECOND, dead(Delete(9)), "deleted 1", "4 5 | 1L | deleted 2"),
    ]);
    assert_eq!(play.info().available, 2);
}

#[test]
fn batch_8_deleted_means_deleted_expired_ones_as_well() {
    check(
        dead_lettering(),
        [
            (0, Send(vec![m().ttl(10), m()]), "sent 1 2", "1 2"),
            (20, Delete(9), "deleted 2", "|| deleted 2"),
        ],
    );
}

#[test]
fn batch_9_it_counts_as_use() {
    let mut play = five();
    play.play(2 * HOUR, Delete(1));
    assert_eq!(play.state().last_use, at(2 * HOUR));
}

#[test]
fn batch_6_it_does_not_work_on_a_partitioned_entity() {
    let partitioned = QueueProperties { enable_partitioning: true, ..queue() };
    let refused = "InvalidOperationException";
    check(
        partitioned,
        [
            (0, send(m()), "sent 1", "1"),
            (SECOND, Delete(9), refused, "1"),
            (SECOND, dead(Delete(9)), refused, "1"),
        ],
    );
}
