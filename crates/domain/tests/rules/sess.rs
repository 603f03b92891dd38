//! SESS: who may have a session, and in what order its messages come.

use domain::{QueueProperties, Refusal};

use crate::table::InSession::*;
use crate::table::*;

#[test]
fn sess_1_whether_an_entity_requires_sessions_is_fixed_at_creation() {
    for properties in [queue(), sessions()] {
        let mut play = Table::new(properties.clone());
        let outcome = play.update(|p| p.requires_session = !p.requires_session);
        assert_eq!(words(&outcome), "InvalidOperationException");
        assert_eq!(play.info().properties, properties);
    }
}

#[test]
fn sess_2_every_message_carries_a_session_and_every_receive_happens_through_one() {
    check(
        sessions(),
        [
            (0, send(m()), "InvalidOperationException", ""),
            (0, send(m().session("a")), "sent 1", "1"),
            (0, Take(1), "InvalidOperationException", "1"),
            (0, Accept("a"), "accepted a until 60000", "1"),
            (0, Within("a", Get(9)), "got 1", "1L"),
            (0, Complete(&[1]), "settled", "|| completed 1"),
        ],
    );
}

/// One without fails the batch (SEND-3).
#[test]
fn send_4_a_message_without_a_session_is_refused() {
    check(
        sessions(),
        [
            (0, Send(vec![m().session("a"), m()]), "InvalidOperationException", ""),
            (0, send(m().due(5)), "InvalidOperationException", ""),
            (0, send(m().session("")), "sent 1", "1"),
        ],
    );
}

#[test]
fn sess_4_ids_are_told_apart_by_every_character_and_the_empty_one_is_one() {
    check(
        sessions(),
        [
            (
                0,
                Send(vec![m().session("a"), m().session("A"), m().session(""), m().session("a\0")]),
                "sent 1 2 3 4",
                "1 2 3 4",
            ),
            (0, Accept("a"), "accepted a until 60000", "1 2 3 4"),
            (0, Within("a", Get(9)), "got 1", "1L 2 3 4"),
            (0, Accept("A"), "accepted A until 60000", "1L 2 3 4"),
            (0, Within("A", Get(9)), "got 2", "1L 2L 3 4"),
            (0, Accept(""), "accepted  until 60000", "1L 2L 3 4"),
            (0, Within("", Get(9)), "got 3", "1L 2L 3L 4"),
            (0, Accept("a\0"), "accepted a\0 until 60000", "1L 2L 3L 4"),
            (0, Within("a\0", Get(9)), "got 4", "1L 2L 3L 4L"),
        ],
    );
    let mut play = Table::new(sessions());
    let long: &'static str = "x".repeat(129).leak();
    assert_eq!(words(&play.accept(MAIN, Some(long))), "ArgumentException");
}

#[test]
fn sess_5_a_session_is_there_while_it_has_a_message_or_a_state() {
    let mut play = check(
        sessions(),
        [
            (0, send(m().session("a")), "sent 1", "1"),
            (0, Accept("a"), "accepted a until 60000", "1"),
            (0, Within("a", Get(1)), "got 1", "1L"),
            (0, Complete(&[1]), "settled", "|| completed 1"),
            (0, Within("a", SetState(Some("x"))), "done", "|| completed 1"),
            (0, Within("a", Close), "done", "|| completed 1"),
        ],
    );
    assert!(play.session_row("a").is_some());
    play.check([
        (1, Accept("a"), "accepted a until 60001", "|| completed 1"),
        (1, Within("a", State), "state x", "|| completed 1"),
        (1, Within("a", SetState(None)), "done", "|| completed 1"),
        (1, Within("a", Close), "done", "|| completed 1"),
    ]);
    assert_eq!(play.session_row("a"), None);
}

#[test]
fn sess_6_accept_by_id_needs_no_message_and_waits_for_nobody() {
    check(
        sessions(),
        [
            (0, Accept("a"), "accepted a until 60000", ""),
            (59_999, Accept("a"), "SessionCannotBeLocked", ""),
            // Lapsed, though no timer came by.
            (60_000, Accept("a"), "accepted a until 120000", ""),
            (60_000, Within("a", Close), "done", ""),
            (60_000, Accept("a"), "accepted a until 120000", ""),
        ],
    );
}

#[test]
fn sess_7_the_session_whose_oldest_message_waits_longest_is_next() {
    check(
        sessions(),
        [
            (0, AcceptNext, "ServiceTimeout", ""),
            (1, send(m().session("c")), "sent 1", "1"),
            (2, send(m().session("a")), "sent 2", "1 2"),
            (3, Send(vec![m().session("c"), m().session("b")]), "sent 3 4", "1 2 3 4"),
            (4, AcceptNext, "accepted c until 60004", "1 2 3 4"),
            (4, AcceptNext, "accepted a until 60004", "1 2 3 4"),
            (4, AcceptNext, "accepted b until 60004", "1 2 3 4"),
            (4, AcceptNext, "ServiceTimeout", "1 2 3 4"),
            // Released, it goes behind whoever has waited longer.
            (5, Within("c", Close), "done", "1 2 3 4"),
            (6, send(m().session("d")), "sent 5", "1 2 3 4 5"),
            (7, Within("a", Close), "done", "1 2 3 4 5"),
            (7, AcceptNext, "accepted c until 60007", "1 2 3 4 5"),
            (7, AcceptNext, "accepted d until 60007", "1 2 3 4 5"),
            (7, AcceptNext, "accepted a until 60007", "1 2 3 4 5"),
        ],
    );
}

#[test]
fn sess_7_among_equal_claims_whoever_was_released_last_goes_last() {
    check(
        sessions(),
        [
            (
                0,
                Send(vec![m().session("z"), m().session("y"), m().session("a")]),
                "sent 1 2 3",
                "1 2 3",
            ),
            (0, AcceptNext, "accepted z until 60000", "1 2 3"),
            (0, Within("z", Close), "done", "1 2 3"),
            (0, AcceptNext, "accepted y until 60000", "1 2 3"),
            (0, Within("y", Close), "done", "1 2 3"),
            (0, AcceptNext, "accepted a until 60000", "1 2 3"),
            (0, AcceptNext, "accepted z until 60000", "1 2 3"),
            (0, Within("z", Close), "done", "1 2 3"),
            (0, AcceptNext, "accepted y until 60000", "1 2 3"),
        ],
    );
}

/// What was available first may expire: its session's claim is then its next message's.
#[test]
fn sess_7_an_expired_message_gives_no_claim() {
    check(
        sessions(),
        [
            (1, Send(vec![m().session("a").ttl(10), m().session("b")]), "sent 1 2", "1 2"),
            (2, send(m().session("c")), "sent 3", "1 2 3"),
            (3, send(m().session("a")), "sent 4", "1 2 3 4"),
            (4, send(m().session("d").ttl(5)), "sent 5", "1 2 3 4 5"),
            (20, AcceptNext, "accepted b until 60020", "2 3 4 5 || expired 1"),
            (20, AcceptNext, "accepted c until 60020", "2 3 4 5 || expired 1"),
            (20, AcceptNext, "accepted a until 60020", "2 3 4 5 || expired 1"),
            // Its only message is past its time: a refusal, and it is gone.
            (20, AcceptNext, "ServiceTimeout", "2 3 4 || expired 2"),
        ],
    );
}

#[test]
fn sess_8_a_renewal_begins_the_lock_anew() {
    check(
        sessions(),
        [
            (0, send(m().session("a")), "sent 1", "1"),
            (0, Accept("a"), "accepted a until 60000", "1"),
            (0, Within("a", Get(1)), "got 1", "1L"),
            (30_000, Within("a", Renewed), "until 90000", "1L"),
            (30_000, Update(|p| p.lock_duration = ms(5 * SECOND)), "done", "1L"),
            (30_001, FireSessions, "fired", "1L"),
            (80_000, Within("a", Renewed), "until 85000", "1L"),
            (84_999, Complete(&[1]), "settled", "|| completed 1"),
            (85_000, Within("a", Renewed), "SessionLockLost", "|| completed 1"),
        ],
    );
}

#[test]
fn sess_9_the_lock_covers_what_comes_later_and_one_may_hold_many() {
    check(
        sessions(),
        [
            (0, Send(vec![m().session("a"), m().session("b")]), "sent 1 2", "1 2"),
            (0, AcceptNext, "accepted a until 60000", "1 2"),
            (0, AcceptNext, "accepted b until 60000", "1 2"),
            (1, Send(vec![m().session("b"), m().session("a")]), "sent 3 4", "1 2 3 4"),
            (1, AcceptNext, "ServiceTimeout", "1 2 3 4"),
            (1, Accept("a"), "SessionCannotBeLocked", "1 2 3 4"),
            (1, Within("a", Get(9)), "got 1 4", "1L 2 3 4L"),
            (1, Within("b", Get(9)), "got 2 3", "1L 2L 3L 4L"),
        ],
    );
}

#[test]
fn sess_10_messages_come_in_order_several_at_a_time() {
    let mut play = check(
        sessions(),
        [
            (
                0,
                Send(vec![
                    m().session("a"),
                    m().session("b"),
                    m().session("a"),
                    m().session("a"),
                    m().session("a"),
                ]),
                "sent 1 2 3 4 5",
                "1 2 3 4 5",
            ),
            (0, Accept("a"), "accepted a until 60000", "1 2 3 4 5"),
            (0, Within("a", Get(1)), "got 1", "1L 2 3 4 5"),
            (0, Within("a", Get(2)), "got 3 4", "1L 2 3L 4L 5"),
            (0, Complete(&[3]), "settled", "1L 2 4L 5 || completed 1"),
            // The umbrella lock is renewed, not a message's.
            (1, Renew(&[1]), "InvalidOperationException", "1L 2 4L 5 || completed 1"),
            (2, Within("a", Get(9)), "got 5", "1L 2 4L 5L || completed 1"),
        ],
    );
    let lock = play.session_row("a").and_then(|row| row.lock).expect("held");
    assert_eq!(lock.until, at(60_000));
    // They end with it.
    play.check([
        (60_000, FireSessions, "fired released 3", "1+1 2 4+1 5+1 || completed 1"),
        (60_000, Complete(&[1]), "settled not 0 SessionLockLost", "1+1 2 4+1 5+1 || completed 1"),
    ]);
}

#[test]
fn sess_11_an_abandoned_message_is_the_next_until_it_was_delivered_too_often() {
    check(
        QueueProperties { max_delivery_count: 2, ..sessions() },
        [
            (0, Send(vec![m().session("a"), m().session("a")]), "sent 1 2", "1 2"),
            (0, Accept("a"), "accepted a until 60000", "1 2"),
            (0, Within("a", Get(1)), "got 1", "1L 2"),
            (0, Abandon(&[1]), "settled", "1+1 2"),
            (0, Within("a", Get(1)), "got 1", "1L+1 2"),
            (0, Abandon(&[1]), "settled", "2 | 1+2"),
            (0, Within("a", Get(1)), "got 2", "2L | 1+2"),
        ],
    );
}

#[test]
fn lock_26_a_receive_without_a_session_and_one_with_where_there_are_none_are_refused() {
    let refused = "InvalidOperationException";
    check(sessions(), [(0, send(m().session("a")), "sent 1", "1"), (0, Take(1), refused, "1")]);
    check(
        queue(),
        [
            (0, send(m().session("a")), "sent 1", "1"),
            (0, Accept("a"), refused, "1"),
            (0, AcceptNext, refused, "1"),
            (0, Within("a", Get(1)), refused, "1"),
            (0, Within("a", Renewed), refused, "1"),
            (0, Within("a", Close), refused, "1"),
            (0, Within("a", SetState(None)), refused, "1"),
            (0, Within("a", State), refused, "1"),
            // Ignored, but carried.
            (0, Take(1), "got 1", "1L"),
        ],
    );
}

#[test]
fn err_5_a_session_that_is_not_held_is_lost() {
    let refusal = Refusal::SessionLockLost { session: Some("a".into()) };
    assert_eq!((refusal.rule(), refusal.name()), ("ERR-5", "SessionLockLost"));
    check(sessions(), [(0, Within("a", Get(1)), "SessionLockLost", "")]);
}

#[test]
fn err_6_a_session_held_by_another_cannot_be_locked() {
    let refusal = Refusal::SessionCannotBeLocked { session: "a".into() };
    assert_eq!((refusal.rule(), refusal.name()), ("ERR-6", "SessionCannotBeLocked"));
}

#[test]
fn err_7_no_session_in_time_is_a_timeout() {
    assert_eq!((Refusal::NoSession.rule(), Refusal::NoSession.name()), ("ERR-7", "ServiceTimeout"));
}
