//! SESS: what ends a session's hold and what that does to its messages, whatever state they are in.

use domain::{EntityStatus, QueueProperties};

use crate::table::InSession::*;
use crate::table::*;

/// Session `a` accepted, messages 1 to 3 of it delivered, 4 not.
fn in_flight(properties: QueueProperties) -> Table {
    check(
        properties,
        [
            (0, Send(vec![m().session("a"); 4]), "sent 1 2 3 4", "1 2 3 4"),
            (0, Accept("a"), "accepted a until 60000", "1 2 3 4"),
            (0, Within("a", Get(3)), "got 1 2 3", "1L 2L 3L 4"),
        ],
    )
}

#[test]
fn sess_12_a_timeout_counts_what_was_delivered_and_a_close_does_not() {
    in_flight(sessions()).check([
        (1, Complete(&[2]), "settled", "1L 3L 4 || completed 1"),
        (60_000, FireSessions, "fired released 2", "1+1 3+1 4 || completed 1"),
        (60_000, AcceptNext, "accepted a until 120000", "1+1 3+1 4 || completed 1"),
        (60_000, Within("a", Get(9)), "got 1 3 4", "1L+1 3L+1 4L || completed 1"),
        (60_001, Within("a", Close), "done", "1+1 3+1 4 || completed 1"),
    ]);
}

/// Expiry comes before the maximum delivery count, as at the end of any lock (TIME-7).
#[test]
fn sess_12_a_timeout_dead_letters_what_was_delivered_too_often_or_expired() {
    let strict = QueueProperties { max_delivery_count: 1, ..sessions() };
    in_flight(strict).check([(
        60_000,
        FireSessions,
        "fired dead-lettered 3 released 3",
        "4 | 1+1 2+1 3+1",
    )]);
    let brief = QueueProperties { default_ttl: ms(30 * SECOND), ..sessions() };
    in_flight(brief).check([
        (60_000, FireSessions, "fired dropped 3 released 3", "4 || expired 3"),
        (60_000, FireAll, "fired dropped 1", "|| expired 4"),
    ]);
}

#[test]
fn sess_13_after_the_lock_is_lost_nothing_of_the_session_can_be_done() {
    let lost = "SessionLockLost";
    let not = "settled not 0 SessionLockLost";
    let mut play = in_flight(sessions());
    // Lapsed, though no timer came by; then released by it; then held by another.
    for (ms, queue) in
        [(60_000, "1L 2L 3L 4"), (60_001, "1+1 2+1 3+1 4"), (60_002, "1+1 2+1 3+1 4")]
    {
        play.check([
            (ms, Within("a", Get(1)), lost, queue),
            (ms, Complete(&[1]), not, queue),
            (ms, Abandon(&[1]), not, queue),
            (ms, Defer(&[1]), not, queue),
            (ms, DeadLetter(&[1]), not, queue),
            (ms, Release(&[1]), not, queue),
            (ms, Atomic(vec![(2, abandon()), (1, abandon())]), lost, queue),
            (ms, Within("a", Renewed), lost, queue),
            (ms, Within("a", Close), lost, queue),
            (ms, Within("a", SetState(Some("x"))), lost, queue),
            (ms, Within("a", State), lost, queue),
            (ms, Within("a", Deferral(&[1])), lost, queue),
            (ms, Within("a", Purge(1)), lost, queue),
            (ms, Within("a", Browse(0, 9)), lost, queue),
        ]);
        if ms == 60_000 {
            play.fire_sessions();
        } else {
            let old = play.sessions.clone();
            play.accept(MAIN, Some("a"));
            play.sessions = old;
        }
    }
    // A message that is not there any more: its session is not known, its lock no less lost.
    play.check([(60_003, Complete(&[9]), not, "1+1 2+1 3+1 4")]);
}

/// A token used twice is no lock either.
#[test]
fn sess_13_a_settled_message_of_a_held_session_is_not_settled_again() {
    in_flight(sessions()).check([
        (1, Abandon(&[1]), "settled", "1+1 2L 3L 4"),
        (1, Complete(&[1]), "settled not 0 SessionLockLost", "1+1 2L 3L 4"),
        (1, Atomic(vec![(2, abandon()), (2, abandon())]), "SessionLockLost", "1+1 2L 3L 4"),
    ]);
}

#[test]
fn sess_14_a_close_releases_the_session_at_once_and_in_order() {
    in_flight(sessions()).check([
        (1, Within("a", Close), "done", "1 2 3 4"),
        (1, Within("a", Close), "SessionLockLost", "1 2 3 4"),
        (1, AcceptNext, "accepted a until 60001", "1 2 3 4"),
        (1, Within("a", Get(9)), "got 1 2 3 4", "1L 2L 3L 4L"),
    ]);
}

/// The holder could not have settled (STATE-4).
#[test]
fn state_4_while_receiving_is_refused_a_session_runs_out_uncounted() {
    let disabled = "MessagingEntityDisabled";
    in_flight(sessions()).check([
        (1, Status(EntityStatus::ReceiveDisabled), "done", "1L 2L 3L 4"),
        (1, AcceptNext, disabled, "1L 2L 3L 4"),
        (1, Accept("b"), disabled, "1L 2L 3L 4"),
        (1, Within("a", Get(1)), disabled, "1L 2L 3L 4"),
        (1, Within("a", Renewed), disabled, "1L 2L 3L 4"),
        (1, Within("a", SetState(None)), disabled, "1L 2L 3L 4"),
        (1, Within("a", State), disabled, "1L 2L 3L 4"),
        (1, Within("a", Close), disabled, "1L 2L 3L 4"),
        (60_000, FireSessions, "fired released 3", "1 2 3 4"),
        (60_001, Status(EntityStatus::Active), "done", "1 2 3 4"),
        (60_001, AcceptNext, "accepted a until 120001", "1 2 3 4"),
    ]);
}

#[test]
fn sess_19_the_rules_of_dead_letter_expiry_deferral_and_schedule_hold_in_sessions() {
    check(
        sessions(),
        [
            (
                0,
                Send(vec![
                    m().session("a"),
                    m().session("a").ttl(10),
                    m().session("a").due(20),
                    m().session("a"),
                ]),
                "sent 1 2 3 4",
                "1 2 3S 4",
            ),
            (0, Accept("a"), "accepted a until 60000", "1 2 3S 4"),
            (0, Within("a", Get(1)), "got 1", "1L 2 3S 4"),
            (1, Defer(&[1]), "settled", "1D+1 2 3S 4"),
            (10, FireAll, "fired dropped 1", "1D+1 3S 4 || expired 1"),
            (20, FireAll, "fired activated 1", "1D+1 4 5 || expired 1"),
            (20, Within("a", Get(9)), "got 4 5", "1D+1 4L 5L || expired 1"),
            (20, DeadLetter(&[4]), "settled", "1D+1 5L | 4 | expired 1"),
            (20, Within("a", Deferral(&[1])), "got 1", "1DL+1 5L | 4 | expired 1"),
            (21, Within("a", Close), "done", "1D+1 5 | 4 | expired 1"),
        ],
    );
}

#[test]
fn dlq_11_the_dead_letter_queue_has_no_sessions() {
    let mut play = check(
        sessions(),
        [
            (0, send(m().session("a")), "sent 1", "1"),
            (0, Accept("a"), "accepted a until 60000", "1"),
            (0, Within("a", Get(1)), "got 1", "1L"),
            (0, DeadLetter(&[1]), "settled", "| 1"),
            (0, dead(Accept("a")), "NotSupportedException", "| 1"),
            (0, dead(AcceptNext), "NotSupportedException", "| 1"),
            (0, dead(Take(1)), "got 1", "| 1L"),
        ],
    );
    // An ordinary lock, which outlives the session's.
    play.group.now = at(1);
    play.check([(1, Within("a", Close), "done", "| 1L")]);
    play.check([(2, dead(Renew(&[1])), "until 60002", "| 1L")]);
    play.check([(3, dead(Complete(&[1])), "settled", "|| completed 1")]);
}

#[test]
fn ttl_32_what_was_not_delivered_expires_though_its_session_is_held() {
    let mut play = check(
        sessions(),
        [
            (0, Send(vec![m().session("a").ttl(10); 2]), "sent 1 2", "1 2"),
            (0, Accept("a"), "accepted a until 60000", "1 2"),
            (0, Within("a", Get(1)), "got 1", "1L 2"),
            (10, FireAll, "fired dropped 1", "1L || expired 1"),
            (11, Complete(&[1]), "settled", "|| completed 1 expired 1"),
        ],
    );
    assert!(play.session_row("a").is_some());
    play.check([(12, Within("a", Close), "done", "|| completed 1 expired 1")]);
    assert_eq!(play.session_row("a"), None);
}

#[test]
fn sched_13_a_session_comes_into_being_at_activation() {
    let mut play = check(
        sessions(),
        [
            (0, send(m().session("a").due(50)), "sent 1", "1S"),
            (1, AcceptNext, "ServiceTimeout", "1S"),
        ],
    );
    assert_eq!(play.session_row("a"), None);
    play.check([
        (50, FireAll, "fired activated 1", "2"),
        (50, AcceptNext, "accepted a until 60050", "2"),
        (51, send(m().session("b").due(90)), "sent 3", "2 3S"),
        (52, Cancel(&[3]), "done", "2 || cancelled 1"),
    ]);
}

#[test]
fn defer_10_deferred_messages_are_for_the_holder_of_their_session() {
    in_flight(sessions()).check([
        (1, Defer(&[1, 2]), "settled", "1D+1 2D+1 3L 4"),
        (1, Deferred(&[1]), "SessionLockLost", "1D+1 2D+1 3L 4"),
        (1, Accept("b"), "accepted b until 60001", "1D+1 2D+1 3L 4"),
        (1, Within("b", Deferral(&[1])), "SessionLockLost", "1D+1 2D+1 3L 4"),
        (1, Within("a", Deferral(&[1, 3])), "MessageNotFound", "1D+1 2D+1 3L 4"),
        (1, Within("a", Deferral(&[1])), "got 1", "1DL+1 2D+1 3L 4"),
        (1, Within("a", Deferral(&[1])), "MessageNotFound", "1DL+1 2D+1 3L 4"),
        (2, Abandon(&[1]), "settled", "1D+2 2D+1 3L 4"),
        (2, Within("a", Deferral(&[1, 2])), "got 1 2", "1DL+2 2DL+1 3L 4"),
        (3, Complete(&[2]), "settled", "1DL+2 3L 4 || completed 1"),
        (60_000, FireSessions, "fired released 2", "1D+3 3+1 4 || completed 1"),
        // Without deferred ones among them: those are asked for by number.
        (60_000, AcceptNext, "accepted a until 120000", "1D+3 3+1 4 || completed 1"),
        (60_000, Within("a", Get(9)), "got 3 4", "1D+3 3L+1 4L || completed 1"),
    ]);
}

/// A dead-letter queue is none of its session's (DEFER-11).
#[test]
fn defer_11_in_the_dead_letter_queue_no_session_is_needed() {
    check(
        sessions(),
        [
            (0, send(m().session("a")), "sent 1", "1"),
            (0, Accept("a"), "accepted a until 60000", "1"),
            (0, Within("a", Get(1)), "got 1", "1L"),
            (0, DeadLetter(&[1]), "settled", "| 1"),
            (0, dead(Take(1)), "got 1", "| 1L"),
            (0, dead(Defer(&[1])), "settled", "| 1D"),
            (0, dead(Deferred(&[1])), "got 1", "| 1DL"),
        ],
    );
}

/// DEFER-8: asked for too late, it expires.
#[test]
fn defer_8_a_deferred_message_of_a_session_expires_when_it_is_asked_for() {
    check(
        sessions(),
        [
            (0, send(m().session("a").ttl(10)), "sent 1", "1"),
            (0, Accept("a"), "accepted a until 60000", "1"),
            (0, Within("a", Get(1)), "got 1", "1L"),
            (1, Defer(&[1]), "settled", "1D+1"),
            (10, FireAll, "fired", "1D+1"),
            (11, Within("a", Deferral(&[1])), "MessageNotFound", "|| expired 1"),
        ],
    );
}
