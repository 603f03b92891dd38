//! DEFER: messages set aside.

use domain::{Disposition, MessageState, QueueProperties, Value};

use crate::table::*;

/// Message 1 deferred, message 2 not.
fn one_deferred(properties: QueueProperties) -> Table {
    check(
        properties,
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            (0, Defer(&[1]), "settled", "1D+1 2"),
        ],
    )
}

#[test]
fn defer_1_only_the_holder_defers_and_receives_skip_it() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Defer(&[1]), "settled not 0 MessageLockLost", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            (0, Defer(&[1]), "settled", "1D+1 2"),
            (0, Take(9), "got 2", "1D+1 2L"),
            (0, Take(9), "got", "1D+1 2L"),
        ],
    );
    // The lock is released: its token settles nothing.
    play.check([(1, Complete(&[1]), "settled not 0 MessageLockLost", "1D+1 2L")]);
    let counts = play.counts();
    assert_eq!((counts.active, counts.deferred, counts.total()), (1, 1, 2));
}

#[test]
fn defer_2_it_is_retrieved_by_number_and_found_by_peek() {
    one_deferred(queue()).check([
        (1, Peek(0, 9), "saw 1D 2", "1D+1 2"),
        (1, Deferred(&[1]), "got 1", "1DL+1 2"),
        (1, Complete(&[1]), "settled", "2 || completed 1"),
    ]);
}

#[test]
fn defer_3_retrieval_takes_a_lock_and_the_state_is_still_deferred() {
    let mut play = one_deferred(queue());
    play.group.now = at(7);
    let outcome = play.receive_deferred(MAIN, &[1]);
    let domain::Outcome::Acquired { deliveries, more: false } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(deliveries[0].state, MessageState::Deferred);
    assert_eq!(lock(&deliveries[0]).until, at(7 + MINUTE));
    assert_eq!(lock(&deliveries[0]).token, play.token(MAIN, 1));
    play.check([(8, Renew(&[1]), "until 60008", "1DL+1 2")]);
}

#[test]
fn defer_4_one_bad_number_fails_the_list_and_leaves_no_lock() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m(), m(), m().due(DAY)]), "sent 1 2 3 4", "1 2 3 4S"),
            (0, Take(2), "got 1 2", "1L 2L 3 4S"),
            (0, Defer(&[1, 2]), "settled", "1D+1 2D+1 3 4S"),
            // Not there, active, scheduled, twice in one list.
            (1, Deferred(&[1, 9]), "MessageNotFound", "1D+1 2D+1 3 4S"),
            (1, Deferred(&[1, 3]), "MessageNotFound", "1D+1 2D+1 3 4S"),
            (1, Deferred(&[1, 4]), "MessageNotFound", "1D+1 2D+1 3 4S"),
            (1, Deferred(&[1, 1]), "MessageNotFound", "1D+1 2D+1 3 4S"),
            (1, Deferred(&[2]), "got 2", "1D+1 2DL+1 3 4S"),
            // Locked.
            (1, Deferred(&[1, 2]), "MessageNotFound", "1D+1 2DL+1 3 4S"),
            (1, Deferred(&[]), "got", "1D+1 2DL+1 3 4S"),
        ],
    );
    // In the order asked for.
    play.check([
        (2, Release(&[2]), "settled", "1D+1 2D+1 3 4S"),
        (2, Deferred(&[2, 1]), "got 2 1", "1DL+1 2DL+1 3 4S"),
    ]);
}

#[test]
fn defer_5_a_retrieved_message_is_settled_in_every_way() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m(), m(), m()]), "sent 1 2 3 4", "1 2 3 4"),
            (0, Take(4), "got 1 2 3 4", "1L 2L 3L 4L"),
            (0, Defer(&[1, 2, 3, 4]), "settled", "1D+1 2D+1 3D+1 4D+1"),
            (1, Deferred(&[1, 2, 3, 4]), "got 1 2 3 4", "1DL+1 2DL+1 3DL+1 4DL+1"),
            (1, Complete(&[1]), "settled", "2DL+1 3DL+1 4DL+1 || completed 1"),
            (1, Abandon(&[2]), "settled", "2D+2 3DL+1 4DL+1 || completed 1"),
            (1, DeadLetter(&[3]), "settled", "2D+2 4DL+1 | 3+1 | completed 1"),
            (1, Defer(&[4]), "settled", "2D+2 4D+2 | 3+1 | completed 1"),
        ],
    );
    assert_eq!(play.info().available, 0);
    play.check([(2, Deferred(&[2, 4]), "got 2 4", "2DL+2 4DL+2 | 3+1 | completed 1")]);
}

#[test]
fn defer_6_abandon_and_lock_expiry_return_it_to_deferred_and_count() {
    let mut play = one_deferred(QueueProperties { max_delivery_count: 4, ..queue() });
    play.check([
        (0, Deferred(&[1]), "got 1", "1DL+1 2"),
        (0, Abandon(&[1]), "settled", "1D+2 2"),
        (0, Deferred(&[1]), "got 1", "1DL+2 2"),
        (MINUTE, FireLocks, "fired released 1", "1D+3 2"),
        (MINUTE, Take(9), "got 2", "1D+3 2L"),
        (MINUTE, Deferred(&[1]), "got 1", "1DL+3 2L"),
        (MINUTE, Abandon(&[1]), "settled", "2L | 1+4"),
        (MINUTE, dead(Take(1)), "got 1", "2L | 1L+4"),
    ]);
    assert_eq!(play.reason(1).0.as_deref(), Some("MaxDeliveryCountExceeded"));
    // By lock expiry as well.
    let mut play = one_deferred(QueueProperties { max_delivery_count: 2, ..queue() });
    play.check([
        (0, Deferred(&[1]), "got 1", "1DL+1 2"),
        (MINUTE, FireLocks, "fired dead-lettered 1 released 1", "2 | 1+2"),
    ]);
}

#[test]
fn defer_7_deferring_is_a_failed_delivery_and_may_be_the_last() {
    let mut play = one_deferred(QueueProperties { max_delivery_count: 3, ..queue() });
    play.check([
        (0, Deferred(&[1]), "got 1", "1DL+1 2"),
        (0, Defer(&[1]), "settled", "1D+2 2"),
        (0, Deferred(&[1]), "got 1", "1DL+2 2"),
        // AMQP's released counts nothing, nor does the application's dead-lettering.
        (0, Release(&[1]), "settled", "1D+2 2"),
        (0, Deferred(&[1]), "got 1", "1DL+2 2"),
        (0, Defer(&[1]), "settled", "2 | 1+3"),
        (0, Take(1), "got 2", "2L | 1+3"),
        (0, DeadLetter(&[2]), "settled", "| 1+3 2"),
    ]);
    assert_eq!(play.reason(1).0.as_deref(), Some("MaxDeliveryCountExceeded"));
    // The first one, atomically with others, and with properties to modify.
    let mut play = check(
        QueueProperties { max_delivery_count: 1, ..queue() },
        [(0, Send(vec![m(), m()]), "sent 1 2", "1 2"), (0, Take(2), "got 1 2", "1L 2L")],
    );
    let modified = properties([("a", Value::Int(1))]);
    let both =
        vec![(1, Disposition::Defer { properties: modified.clone() }), (2, Disposition::Complete)];
    play.check([(0, Atomic(both), "settled", "| 1+1 | completed 1")]);
    let set = play.message(DEAD, 1).overlay.expect("overlay").set;
    assert_eq!(set.get("a"), modified.get("a"));
    // LOCK-22: a limit that was lowered meanwhile holds.
    let mut play = one_deferred(queue());
    play.check([
        (0, Deferred(&[1]), "got 1", "1DL+1 2"),
        (0, Update(|p| p.max_delivery_count = 1), "done", "1DL+1 2"),
        (0, Defer(&[1]), "settled", "2 | 1+2"),
    ]);
}

/// TTL-16: expiry wins; and what is deferred in time to be delivered again expires when it is asked
/// for.
#[test]
fn defer_7_defer_8_the_last_delivery_of_an_expired_message_expires_it() {
    let last = || QueueProperties { max_delivery_count: 1, ..dead_lettering() };
    for (properties, left) in [(last(), "| 1+1"), (dead_lettering(), "1D+1")] {
        let mut play = check(
            properties,
            [
                (0, send(m().ttl(10)), "sent 1", "1"),
                (0, Take(1), "got 1", "1L"),
                (20, Defer(&[1]), "settled", left),
                (20, Deferred(&[1]), "MessageNotFound", "| 1+1"),
            ],
        );
        assert_eq!(play.reason(1).0.as_deref(), Some("TTLExpiredException"));
        play.check([(20, FireAll, "fired", "| 1+1")]);
    }
}

#[test]
fn defer_7_in_a_session_the_last_delivery_goes_and_the_next_message_comes() {
    use InSession::{Deferral, Get};

    check(
        QueueProperties { max_delivery_count: 2, ..sessions() },
        [
            (0, Send(vec![m().session("a"), m().session("a")]), "sent 1 2", "1 2"),
            (0, Accept("a"), "accepted a until 60000", "1 2"),
            (0, Within("a", Get(1)), "got 1", "1L 2"),
            (0, Defer(&[1]), "settled", "1D+1 2"),
            (0, Within("a", Deferral(&[1])), "got 1", "1DL+1 2"),
            (0, Defer(&[1]), "settled", "2 | 1+2"),
            (0, Within("a", Get(9)), "got 2", "2L | 1+2"),
        ],
    );
}

#[test]
fn defer_8_a_late_retrieval_finds_nothing_and_expires_it() {
    let sent = || Send(vec![m().ttl(10), m().ttl(20), m()]);
    for (properties, left) in
        [(queue(), "2D+1 3D+1 || expired 1"), (dead_lettering(), "2D+1 3D+1 | 1+1")]
    {
        check(
            properties,
            [
                (0, sent(), "sent 1 2 3", "1 2 3"),
                (0, Take(3), "got 1 2 3", "1L 2L 3L"),
                (0, Defer(&[1, 2, 3]), "settled", "1D+1 2D+1 3D+1"),
                (10, FireAll, "fired", "1D+1 2D+1 3D+1"),
                (10, Peek(0, 9), "saw 1D 2D 3D", "1D+1 2D+1 3D+1"),
                // The others of the list are neither locked nor expired.
                (10, Deferred(&[3, 1, 2]), "MessageNotFound", left),
                (10, Deferred(&[1]), "MessageNotFound", left),
            ],
        );
    }
    // A derived deadline is that of the moment.
    let mut play = one_deferred(QueueProperties { default_ttl: ms(SECOND), ..queue() });
    play.check([
        (1000, Update(|p| p.default_ttl = ms(2 * SECOND)), "done", "1D+1 2"),
        (1999, Deferred(&[1]), "got 1", "1DL+1 2"),
        (1999, Release(&[1]), "settled", "1D+1 2"),
        (2000, Deferred(&[1]), "MessageNotFound", "2 || expired 1"),
    ]);
}

#[test]
fn defer_9_a_lock_got_before_expiry_settles_and_abandon_after_it_expires() {
    let sent = || Send(vec![m().ttl(10), m().ttl(10), m().ttl(10), m().ttl(10)]);
    check(
        dead_lettering(),
        [
            (0, sent(), "sent 1 2 3 4", "1 2 3 4"),
            (0, Take(4), "got 1 2 3 4", "1L 2L 3L 4L"),
            (0, Defer(&[1, 2, 3, 4]), "settled", "1D+1 2D+1 3D+1 4D+1"),
            (9, Deferred(&[1, 2, 3, 4]), "got 1 2 3 4", "1DL+1 2DL+1 3DL+1 4DL+1"),
            (20, FireAll, "fired", "1DL+1 2DL+1 3DL+1 4DL+1"),
            (20, Complete(&[1]), "settled", "2DL+1 3DL+1 4DL+1 || completed 1"),
            (20, Defer(&[2]), "settled", "2D+2 3DL+1 4DL+1 || completed 1"),
            (20, Abandon(&[3]), "settled", "2D+2 4DL+1 | 3+2 | completed 1"),
            (20, DeadLetter(&[4]), "settled", "2D+2 | 3+2 4+1 | completed 1"),
        ],
    );
}

#[test]
fn defer_11_it_is_possible_in_a_dead_letter_queue() {
    let mut play = check(
        QueueProperties { max_delivery_count: 1, ..queue() },
        [
            (0, send(m().ttl(10)), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (0, DeadLetter(&[1]), "settled", "| 1"),
            (5, dead(Take(1)), "got 1", "| 1L"),
            (5, dead(Defer(&[1])), "settled", "| 1D"),
            (5, dead(Take(1)), "got", "| 1D"),
            // Another subqueue's message by that number.
            (5, Deferred(&[1]), "MessageNotFound", "| 1D"),
            // Nothing expires there.
            (50, dead(Deferred(&[1])), "got 1", "| 1DL"),
            (50, dead(Abandon(&[1])), "settled", "| 1D"),
        ],
    );
    assert_eq!(play.state().dead_letter_deferred, 1);
    assert_eq!(play.info().available_dead_letter, 0);
    play.check([
        (51, dead(Deferred(&[1])), "got 1", "| 1DL"),
        (51, dead(Complete(&[1])), "settled", "|| completed 1"),
    ]);
    assert_eq!(play.state().dead_letter_deferred, 0);
}
