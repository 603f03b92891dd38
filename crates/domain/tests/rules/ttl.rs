//! TTL: when messages expire, and what becomes of them.

use domain::{DeadlineKind, EntityStatus, Lifetime, QueueProperties, Span, Timestamp};

use crate::table::*;

fn with_default(ms: u64) -> QueueProperties {
    QueueProperties { default_ttl: Span(ms), ..queue() }
}

#[test]
fn ttl_1_the_deadline_is_enqueue_time_and_time_to_live() {
    let mut play = Table::new(queue());
    play.play(7, send(m().ttl(10)));
    assert_eq!(play.message(MAIN, 1).lifetime, fixed(10, 17));
    play.check([(16, FireAll, "fired", "1"), (17, FireAll, "fired dropped 1", "|| expired 1")]);
}

fn fixed(ttl: u64, expires_at: u64) -> Lifetime {
    Lifetime::Fixed { ttl: ms(ttl), expires_at: at(expires_at) }
}

#[test]
fn ttl_2_the_default_applies_to_messages_without_their_own() {
    check(
        with_default(SECOND),
        [
            (0, Send(vec![m(), m().ttl(10)]), "sent 1 2", "1 2"),
            (10, FireAll, "fired dropped 1", "1 || expired 1"),
            (999, FireAll, "fired", "1 || expired 1"),
            (1000, FireAll, "fired dropped 1", "|| expired 2"),
        ],
    );
}

#[test]
fn ttl_3_a_longer_time_to_live_is_lowered_to_the_default() {
    let mut play = check(
        with_default(SECOND),
        [(0, Send(vec![m().ttl(SECOND + 1), m().ttl(u64::MAX)]), "sent 1 2", "1 2")],
    );
    assert_eq!(play.message(MAIN, 1).lifetime, fixed(SECOND, SECOND));
    let taken = play.taken(MAIN, 2);
    assert_eq!(taken[0].ttl, Some(ms(SECOND)));
    assert_eq!(taken[1].expires_at, Some(at(SECOND)));
}

#[test]
fn ttl_4_a_shorter_time_to_live_is_kept() {
    let play = check(
        with_default(SECOND),
        [
            (0, Send(vec![m().ttl(SECOND - 1), m().ttl(SECOND)]), "sent 1 2", "1 2"),
            (SECOND - 1, FireAll, "fired dropped 1", "2 || expired 1"),
        ],
    );
    assert_eq!(play.message(MAIN, 2).lifetime, fixed(SECOND, SECOND));
}

#[test]
fn ttl_5_without_any_setting_a_message_never_expires() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m().ttl(u64::MAX)]), "sent 1 2", "1 2"),
            (400 * 365 * DAY, FireAll, "fired", "1 2"),
        ],
    );
    for delivery in play.taken(MAIN, 2) {
        assert_eq!((delivery.ttl, delivery.expires_at), (None, None));
    }
    assert_eq!(at(9).plus(Span::MAX), Timestamp::NEVER);
}

#[test]
fn ttl_8_very_small_ones_are_legal_and_none_is_out_of_range() {
    check(
        queue(),
        [
            (0, send(m().ttl(0)), "ArgumentOutOfRangeException", ""),
            (0, send(m().ttl(1)), "sent 1", "1"),
            (1, Take(1), "got", "|| expired 1"),
        ],
    );
    let mut properties = with_default(999);
    let refusal = domain::validate::queue_properties(&properties).expect_err("below 1 s");
    assert_eq!(refusal.name(), "ArgumentOutOfRangeException");
    properties.default_ttl = Span(1000);
    assert_eq!(domain::validate::queue_properties(&properties), Ok(()));
}

#[test]
fn ttl_9_an_expired_message_is_never_received() {
    // No timer fired; the receive path checks, under own and default time-to-live.
    check(
        with_default(SECOND),
        [
            (0, Send(vec![m(), m().ttl(10), m()]), "sent 1 2 3", "1 2 3"),
            (500, send(m()), "sent 4", "1 2 3 4"),
            (999, Take(1), "got 1", "1L 2 3 4"),
            (1000, Take(9), "got 4", "1L 4L || expired 2"),
        ],
    );
    // Returned ones as well.
    check(
        queue(),
        [
            (0, Send(vec![m().ttl(10), m()]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            (1, Abandon(&[1]), "settled", "1+1 2"),
            (10, Take(1), "got 2", "2L || expired 1"),
        ],
    );
}

#[test]
fn ttl_10_the_check_is_made_when_the_message_is_taken() {
    check(
        queue(),
        [
            (0, send(m().ttl(10)), "sent 1", "1"),
            (9, Take(1), "got 1", "1L"),
            // Whatever the way to the client takes.
            (5 * SECOND, Complete(&[1]), "settled", "|| completed 1"),
        ],
    );
}

#[test]
fn ttl_11_a_lock_shields_its_message_from_expiry() {
    let sent = || Send(vec![m().ttl(10), m().ttl(10), m().ttl(10), m().ttl(10), m().ttl(10)]);
    check(
        dead_lettering(),
        [
            (0, sent(), "sent 1 2 3 4 5", "1 2 3 4 5"),
            (5, Take(5), "got 1 2 3 4 5", "1L 2L 3L 4L 5L"),
            (20, FireAll, "fired", "1L 2L 3L 4L 5L"),
            (21, Complete(&[1]), "settled", "2L 3L 4L 5L || completed 1"),
            (21, DeadLetter(&[2]), "settled", "3L 4L 5L | 2 | completed 1"),
            (21, Defer(&[3]), "settled", "3D+1 4L 5L | 2 | completed 1"),
            (21, Renew(&[4]), "until 60021", "3D+1 4L 5L | 2 | completed 1"),
            (21, Abandon(&[5]), "settled", "3D+1 4L | 2 5+1 | completed 1"),
        ],
    );
    // Derived deadlines too.
    check(
        with_default(SECOND),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            (2000, FireAll, "fired dropped 1", "1L || expired 1"),
            (2000, Complete(&[1]), "settled", "|| completed 1 expired 1"),
        ],
    );
}

#[test]
fn ttl_12_the_end_of_the_lock_makes_expiry_effective_at_once() {
    let sent = || Send(vec![m().ttl(10), m().ttl(10), m().ttl(10)]);
    check(
        dead_lettering(),
        [
            (0, sent(), "sent 1 2 3", "1 2 3"),
            (5, Take(3), "got 1 2 3", "1L 2L 3L"),
            (20, Abandon(&[1]), "settled", "2L 3L | 1+1"),
            (20, Release(&[2]), "settled", "3L | 1+1 2"),
            (5 + MINUTE, FireLocks, "fired dead-lettered 1 released 1", "| 1+1 2 3+1"),
        ],
    );
    check(
        with_default(SECOND),
        [
            (0, Send(vec![m(), m(), m()]), "sent 1 2 3", "1 2 3"),
            (5, Take(3), "got 1 2 3", "1L 2L 3L"),
            (1000, Abandon(&[1]), "settled", "2L 3L || expired 1"),
            (1000, Release(&[2]), "settled", "3L || expired 2"),
            (5 + MINUTE, FireLocks, "fired dropped 1 released 1", "|| expired 3"),
        ],
    );
}

#[test]
fn ttl_13_completing_an_expired_locked_message_succeeds() {
    check(
        dead_lettering(),
        [
            (0, send(m().ttl(10)), "sent 1", "1"),
            (5, Take(1), "got 1", "1L"),
            (20, FireAll, "fired", "1L"),
            (20, Complete(&[1]), "settled", "|| completed 1"),
        ],
    );
}

#[test]
fn ttl_14_dead_lettering_an_expired_locked_message_keeps_the_applications_reason() {
    let mut play = check(
        dead_lettering(),
        [(0, send(m().ttl(10)), "sent 1", "1"), (5, Take(1), "got 1", "1L")],
    );
    play.group.now = at(20);
    play.dispose(MAIN, vec![(1, dead_letter_for(Some("mine"), Some("why")))], false);
    assert_eq!(play.look(), "| 1");
    assert_eq!(play.reason(1), (Some("mine".to_owned()), Some("why".to_owned())));
}

#[test]
fn ttl_15_the_lock_of_an_expired_message_is_renewed_without_limit() {
    check(
        queue(),
        [
            (0, send(m().ttl(10)), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (50_000, Renew(&[1]), "until 110000", "1L"),
            (100_000, Renew(&[1]), "until 160000", "1L"),
            (100_000, FireAll, "fired", "1L"),
            (159_999, Renew(&[1]), "until 219999", "1L"),
            (219_998, Complete(&[1]), "settled", "|| completed 1"),
        ],
    );
}

#[test]
fn ttl_16_expiry_wins_over_maximum_delivery_count() {
    let once = |flag| QueueProperties {
        max_delivery_count: 1,
        dead_letter_on_expiration: flag,
        ..queue()
    };
    let play = check(
        once(true),
        [
            (0, send(m().ttl(10)), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (10, Abandon(&[1]), "settled", "| 1+1"),
        ],
    );
    assert_eq!(play.reason(1).0.as_deref(), Some("TTLExpiredException"));
    check(
        once(false),
        [
            (0, send(m().ttl(10)), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (10, Abandon(&[1]), "settled", "|| expired 1"),
        ],
    );
}

#[test]
fn ttl_17_expired_messages_are_dead_lettered_or_dropped_in_one_step() {
    let mut play = check(
        dead_lettering(),
        [
            (0, Send(vec![m().ttl(10), m(), m().ttl(10)]), "sent 1 2 3", "1 2 3"),
            (10, Fire(DeadlineKind::Fixed), "fired dead-lettered 2", "2 | 1 3"),
            (10, dead(Take(9)), "got 1 3", "2 | 1L 3L"),
        ],
    );
    for number in [1, 3] {
        let (reason, description) = play.reason(number);
        assert_eq!(reason.as_deref(), Some("TTLExpiredException"));
        assert_eq!(description.as_deref(), Some("The message expired and was dead lettered."));
    }
    // Off is the default.
    assert!(!queue().dead_letter_on_expiration);
    play = check(
        queue(),
        [
            (0, send(m().ttl(10)), "sent 1", "1"),
            (10, Fire(DeadlineKind::Fixed), "fired dropped 1", "|| expired 1"),
        ],
    );
    assert_eq!(play.info().size_bytes, 0);
}

#[test]
fn ttl_18_nothing_expires_in_the_dead_letter_queue() {
    let mut play = check(
        QueueProperties { default_ttl: ms(SECOND), ..dead_lettering() },
        [
            (0, Send(vec![m().ttl(10), m(), m().ttl(500)]), "sent 1 2 3", "1 2 3"),
            (0, Take(3), "got 1 2 3", "1L 2L 3L"),
            (1, DeadLetter(&[1, 2]), "settled", "3L | 1 2"),
            (DAY, FireAll, "fired dead-lettered 1 released 1", "| 1 2 3+1"),
            (DAY, FireAll, "fired", "| 1 2 3+1"),
            (DAY, Restart, "", "| 1 2 3+1"),
            (DAY, dead(Take(3)), "got 1 2 3", "| 1L 2L 3L+1"),
            (DAY, dead(Abandon(&[1])), "settled", "| 1 2L 3L+1"),
            (2 * DAY, FireAll, "fired released 2", "| 1 2 3+1"),
        ],
    );
    // What they would have been is kept as information.
    let taken = play.taken(DEAD, 3);
    let lifetimes: Vec<_> = taken.iter().map(|d| (d.ttl, d.expires_at)).collect();
    let expected = [
        (Some(ms(10)), Some(at(10))),
        (Some(ms(SECOND)), Some(at(SECOND))),
        (Some(ms(500)), Some(at(500))),
    ];
    assert_eq!(lifetimes, expected);
}

#[test]
fn ttl_19_the_clock_of_a_scheduled_message_starts_at_activation() {
    let play = check(
        queue(),
        [
            (0, send(m().due(5 * MINUTE).ttl(10 * MINUTE)), "sent 1", "1S"),
            // Shorter than the delay: it does not expire while it waits.
            (0, send(m().due(5 * MINUTE).ttl(10)), "sent 2", "1S 2S"),
            (5 * MINUTE - 1, FireAll, "fired", "1S 2S"),
            (5 * MINUTE, FireAll, "fired activated 2", "3 4"),
            (5 * MINUTE + 10, FireAll, "fired dropped 1", "3 || expired 1"),
            (15 * MINUTE - 1, FireAll, "fired", "3 || expired 1"),
        ],
    );
    assert_eq!(play.message(MAIN, 3).lifetime, fixed(10 * MINUTE, 15 * MINUTE));
}

#[test]
fn ttl_20_a_late_activation_starts_the_clock_late() {
    let play = check(
        with_default(SECOND),
        [
            (0, Send(vec![m().due(5).ttl(10), m().due(5)]), "sent 1 2", "1S 2S"),
            (40, FireAll, "fired activated 2", "3 4"),
            (49, FireAll, "fired", "3 4"),
            (50, FireAll, "fired dropped 1", "4 || expired 1"),
            (1039, FireAll, "fired", "4 || expired 1"),
        ],
    );
    assert_eq!(play.message(MAIN, 4).enqueued_at, at(40));
}

#[test]
fn ttl_21_until_the_sweep_counters_and_peek_may_show_what_no_receive_returns() {
    let play = check(
        queue(),
        [
            (0, Send(vec![m().ttl(10), m()]), "sent 1 2", "1 2"),
            (20, Peek(0, 9), "saw 1 2", "1 2"),
            (20, Restart, "", "1 2"),
        ],
    );
    assert_eq!((play.counts().active, play.info().available), (2, 2));
    let mut play = play;
    play.check([(20, Take(9), "got 2", "2L || expired 1")]);
}

#[test]
fn ttl_22_expiry_reaches_a_message_wherever_it_stands() {
    // In the middle, behind and before others, returned, and in order of deadlines.
    let sent = || Send(vec![m(), m().ttl(30), m(), m().ttl(10), m().ttl(20)]);
    check(
        queue(),
        [
            (0, sent(), "sent 1 2 3 4 5", "1 2 3 4 5"),
            (0, Take(2), "got 1 2", "1L 2L 3 4 5"),
            (0, Abandon(&[2]), "settled", "1L 2+1 3 4 5"),
            (10, Fire(DeadlineKind::Fixed), "fired dropped 1", "1L 2+1 3 5 || expired 1"),
            (20, Fire(DeadlineKind::Fixed), "fired dropped 1", "1L 2+1 3 || expired 2"),
            (30, Fire(DeadlineKind::Fixed), "fired dropped 1", "1L 3 || expired 3"),
        ],
    );
    // Derived ones behind those that do not expire yet.
    check(
        with_default(SECOND),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            (1, send(m()), "sent 3", "1L 2 3"),
            (1000, Fire(DeadlineKind::Derived), "fired dropped 1", "1L 3 || expired 1"),
            (1001, Fire(DeadlineKind::Derived), "fired dropped 1", "1L || expired 2"),
        ],
    );
}

#[test]
fn ttl_23_peek_and_receive_show_the_deadline_of_an_own_time_to_live() {
    let mut play = check(with_default(SECOND), [(5, send(m().ttl(10)), "sent 1", "1")]);
    let seen = play.peek(MAIN, 0, 9).remove(0);
    assert_eq!((seen.ttl, seen.expires_at), (Some(ms(10)), Some(at(15))));
    let taken = play.taken(MAIN, 1).remove(0);
    assert_eq!((taken.ttl, taken.expires_at), (Some(ms(10)), Some(at(15))));
}

#[test]
fn ttl_25_peek_of_a_derived_message_shows_no_deadline_and_receive_does() {
    let mut play = check(with_default(SECOND), [(5, send(m()), "sent 1", "1")]);
    let seen = play.peek(MAIN, 0, 9).remove(0);
    assert_eq!((seen.ttl, seen.expires_at), (None, None));
    let taken = play.taken(MAIN, 1).remove(0);
    assert_eq!((taken.ttl, taken.expires_at), (Some(ms(SECOND)), Some(at(5 + SECOND))));
}

#[test]
fn ttl_31_deferred_messages_stay_when_they_expire() {
    check(
        QueueProperties { default_ttl: ms(SECOND), ..dead_lettering() },
        [
            (0, Send(vec![m().ttl(10), m(), m()]), "sent 1 2 3", "1 2 3"),
            (0, Take(2), "got 1 2", "1L 2L 3"),
            (1, Defer(&[1, 2]), "settled", "1D+1 2D+1 3"),
            (DAY, FireAll, "fired dead-lettered 1", "1D+1 2D+1 | 3"),
            (DAY, Take(9), "got", "1D+1 2D+1 | 3"),
            (DAY, Peek(0, 9), "saw 1D 2D", "1D+1 2D+1 | 3"),
        ],
    );
}

#[test]
fn ttl_33_taking_checks_and_goes_on_to_the_next() {
    // Receive-and-delete takes like peek-lock, and has no window after that.
    check(
        dead_lettering(),
        [
            (0, Send(vec![m().ttl(10), m().ttl(10), m()]), "sent 1 2 3", "1 2 3"),
            (10, Take(1), "got 3", "3L | 1 2"),
            (10, Complete(&[3]), "settled", "| 1 2 | completed 1"),
        ],
    );
}

#[test]
fn ttl_34_a_disabled_queue_expires_when_it_is_active_again() {
    let play = check(
        QueueProperties { default_ttl: ms(SECOND), ..dead_lettering() },
        [
            (0, Send(vec![m().ttl(10), m(), m().ttl(5000)]), "sent 1 2 3", "1 2 3"),
            (5, Status(EntityStatus::Disabled), "done", "1 2 3"),
            (2000, FireAll, "fired", "1 2 3"),
            (2000, Status(EntityStatus::Active), "done", "1 2 3"),
            // The clock was not stopped.
            (2000, FireAll, "fired dead-lettered 3", "| 1 2 3"),
        ],
    );
    assert_eq!(play.message(DEAD, 3).enqueued_at, at(0));
}

#[test]
fn ttl_35_expiry_is_not_use() {
    let play = check(
        dead_lettering(),
        [(3, send(m().ttl(10)), "sent 1", "1"), (40, FireAll, "fired dead-lettered 1", "| 1")],
    );
    assert_eq!((play.state().last_use, play.info().accessed_at), (at(3), at(3)));
}

#[test]
fn ttl_37_a_lock_that_outlasts_the_deadline_ends_in_expiry_and_not_in_redelivery() {
    check(
        queue(),
        [
            (0, send(m().ttl(MINUTE - 1)), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (MINUTE, FireAll, "fired dropped 1 released 1", "|| expired 1"),
            (MINUTE, Take(1), "got", "|| expired 1"),
        ],
    );
}
