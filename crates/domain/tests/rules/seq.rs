//! SEQ: sequence numbers and enqueue times.

use domain::{DeadlineKind, QueueProperties, SequenceNumber};

use crate::table::*;

#[test]
fn seq_1_numbers_are_issued_without_a_gap() {
    let play = check(
        queue(),
        [
            (0, Send(vec![m(), m(), m()]), "sent 1 2 3", "1 2 3"),
            (0, Take(3), "got 1 2 3", "1L 2L 3L"),
            (0, Complete(&[1, 2, 3]), "settled", "|| completed 3"),
            (0, Restart, "", "|| completed 3"),
            // An empty queue goes on where it was.
            (0, send(m()), "sent 4", "4 || completed 3"),
        ],
    );
    assert_eq!(play.state().next_sequence, SequenceNumber(5));
}

#[test]
fn seq_2_the_first_number_is_1_and_a_browse_from_0_or_1_sees_everything() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Peek(0, 10), "saw 1 2", "1 2"),
            (0, Peek(1, 10), "saw 1 2", "1 2"),
            (0, Peek(2, 10), "saw 2", "1 2"),
        ],
    );
}

#[test]
fn seq_4_a_dropped_duplicate_and_a_refused_send_consume_no_number() {
    check(
        QueueProperties { requires_duplicate_detection: true, ..queue() },
        [
            (0, Send(vec![m().id("a"), m().id("b")]), "sent 1 2", "1 2"),
            (0, Send(vec![m().id("a"), m().id("c")]), "sent 1 3", "1 2 3"),
            (0, send(m().size(256 * 1024 + 1)), "MessageSizeExceeded", "1 2 3"),
            (0, send(m().id("d")), "sent 4", "1 2 3 4"),
        ],
    );
}

#[test]
fn seq_5_abandon_lock_expiry_deferral_and_receipt_keep_the_number() {
    check(
        queue(),
        [
            (0, send(m()), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (0, Abandon(&[1]), "settled", "1+1"),
            (0, Take(1), "got 1", "1L+1"),
            (MINUTE, FireLocks, "fired released 1", "1+2"),
            (MINUTE, Take(1), "got 1", "1L+2"),
            (MINUTE, Defer(&[1]), "settled", "1D+3"),
            (MINUTE, Deferred(&[1]), "got 1", "1DL+3"),
            (MINUTE, send(m()), "sent 2", "1DL+3 2"),
        ],
    );
}

#[test]
fn seq_6_activation_gives_a_new_number_and_enqueue_time() {
    let mut play = check(
        queue(),
        [
            (0, send(m().due(10)), "sent 1", "1S"),
            (5, send(m()), "sent 2", "1S 2"),
            (12, Fire(DeadlineKind::Scheduled), "fired activated 1", "2 3"),
            // The number was valid only while the message was scheduled.
            (12, Cancel(&[1]), "MessageNotFound", "2 3"),
            (12, Cancel(&[3]), "MessageNotFound", "2 3"),
            (12, Deferred(&[1]), "MessageNotFound", "2 3"),
        ],
    );
    assert_eq!(play.message(MAIN, 3).enqueued_at, at(12));
    // The content stays where it was stored.
    assert_eq!(play.message(MAIN, 3).body, SequenceNumber(1));
    play.check([(13, Take(2), "got 2 3", "2L 3L"), (13, Complete(&[2, 3]), "settled", DONE)]);
}

const DONE: &str = "|| completed 2";

#[test]
fn seq_7_scheduled_and_active_numbers_come_from_one_counter() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m().due(10), m(), m().due(5)]), "sent 1 2 3 4", "1 2S 3 4S"),
            (0, Cancel(&[2]), "done", "1 3 4S || cancelled 1"),
            (5, FireAll, "fired activated 1", "1 3 5 || cancelled 1"),
            (5, send(m()), "sent 6", "1 3 5 6 || cancelled 1"),
        ],
    );
}

#[test]
fn seq_8_the_enqueued_number_of_what_was_never_forwarded_is_its_number() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m().due(5)]), "sent 1 2", "1 2S"),
            (5, FireAll, "fired activated 1", "1 3"),
        ],
    );
    for delivery in play.peek(MAIN, 0, 10).into_iter().chain(play.taken(MAIN, 2)) {
        assert_eq!(delivery.enqueued_sequence, delivery.sequence);
    }
}

#[test]
fn seq_10_the_enqueue_time_is_when_the_queue_accepted_or_activated() {
    let mut play = check(
        queue(),
        [
            (3, Send(vec![m(), m().due(10), m().due(2)]), "sent 1 2 3", "1 2S 3"),
            (25, FireAll, "fired activated 1", "1 3 4"),
            (26, Take(1), "got 1", "1L 3 4"),
            (27, Abandon(&[1]), "settled", "1+1 3 4"),
        ],
    );
    let times: Vec<_> = play.taken(MAIN, 9).iter().map(|d| d.enqueued_at).collect();
    assert_eq!(times, [at(3), at(3), at(25)]);
}

#[test]
fn seq_11_dead_lettering_keeps_number_and_enqueue_time() {
    let mut play = check(
        queue(),
        [
            (3, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (4, Take(2), "got 1 2", "1L 2L"),
            (5, DeadLetter(&[2]), "settled", "1L | 2"),
            // One number space: the next number was not taken by the move.
            (6, send(m()), "sent 3", "1L 3 | 2"),
        ],
    );
    let delivery = play.taken(DEAD, 1).remove(0);
    assert_eq!((delivery.sequence, delivery.enqueued_at), (SequenceNumber(2), at(3)));
}

#[test]
fn seq_12_first_retrieval_follows_numbers() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m().due(5), m(), m()]), "sent 1 2 3 4", "1 2S 3 4"),
            (0, Take(1), "got 1", "1L 2S 3 4"),
            (5, FireAll, "fired activated 1", "1L 3 4 5"),
            (5, send(m()), "sent 6", "1L 3 4 5 6"),
            (5, Take(2), "got 3 4", "1L 3L 4L 5 6"),
            (5, Take(9), "got 5 6", "1L 3L 4L 5L 6L"),
        ],
    );
}
