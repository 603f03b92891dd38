//! TIME: clocks, and the order of what happens at once.

use domain::{Command, DeadlineKind, Key, Row, SequenceNumber};

use crate::support::QUEUE;
use crate::table::*;

#[test]
fn time_1_every_instant_is_the_entrys_own() {
    let mut play = Table::new(queue());
    play.play(5, send(m().ttl(100)));
    play.play(7, Take(1));
    let row = play.message(MAIN, 1);
    assert_eq!(row.enqueued_at, at(5));
    assert_eq!(row.lifetime, domain::Lifetime::Fixed { ttl: ms(100), expires_at: at(105) });
    match play.group.rows.0.get(&Key::Lock(MAIN, SequenceNumber(1))) {
        Some(Row::Lock(lock)) => assert_eq!(lock.until, at(7 + MINUTE)),
        other => panic!("no lock: {other:?}"),
    }
    assert_eq!(play.info().created_at, at(0));
}

#[test]
fn time_2_numbers_and_not_times_define_order() {
    let mut play = Table::new(queue());
    // The second leader's clock is 40 ms behind.
    play.check([
        (50, send(m()), "sent 1", "1"),
        (10, send(m()), "sent 2", "1 2"),
        (60, Take(2), "got 1 2", "1L 2L"),
    ]);
    assert_eq!(play.message(MAIN, 1).enqueued_at, at(50));
    assert_eq!(play.message(MAIN, 2).enqueued_at, at(50));
}

#[test]
fn time_3_time_never_runs_back() {
    let mut play = check(
        queue(),
        [
            (0, send(m().ttl(100)), "sent 1", "1"),
            (50, send(m()), "sent 2", "1 2"),
            // Stamped 20, decided at 50: expires at 60, not at 30.
            (20, send(m().ttl(10)), "sent 3", "1 2 3"),
            (59, FireAll, "fired", "1 2 3"),
            (60, FireAll, "fired dropped 1", "1 2 || expired 1"),
            (100, FireAll, "fired dropped 1", "2 || expired 2"),
            // What was expired at 100 stays so for a clock that says 70.
            (70, send(m().ttl(10)), "sent 4", "2 4 || expired 2"),
            (109, FireAll, "fired", "2 4 || expired 2"),
            (110, FireAll, "fired dropped 1", "2 || expired 3"),
        ],
    );
    assert_eq!(domain::meta(&play.group.rows).last_at, at(110));
    play.play(3, Take(1));
    assert_eq!(domain::meta(&play.group.rows).last_at, at(110));
}

#[test]
fn time_4_a_change_carries_its_time_and_replays_to_the_same_rows() {
    // `Group` replays its log when it is dropped, long after and in other steps.
    let play = check(
        dead_lettering(),
        [
            (0, Send(vec![m().ttl(10), m().due(20)]), "sent 1 2", "1 2S"),
            (5, Take(1), "got 1", "1L 2S"),
            (30, FireAll, "fired activated 1", "1L 3"),
            (2 * MINUTE, FireAll, "fired dead-lettered 1 released 1", "3 | 1+1"),
            // Locks that are still held: their tokens are the entry's as well.
            (2 * MINUTE, Take(1), "got 3", "3L | 1+1"),
            (2 * MINUTE, dead(Take(1)), "got 1", "3L | 1L+1"),
        ],
    );
    assert_eq!(play.group.replayed(usize::MAX), play.group.rows);
}

#[test]
fn time_5_a_deadline_is_reached_when_it_equals_the_time() {
    // Expiry.
    check(
        queue(),
        [
            (0, send(m().ttl(10)), "sent 1", "1"),
            (9, Fire(DeadlineKind::Fixed), "fired", "1"),
            (10, Fire(DeadlineKind::Fixed), "fired dropped 1", "|| expired 1"),
        ],
    );
    // A lock, asked for by its holder and by its timer.
    check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (MINUTE - 1, FireLocks, "fired", "1L 2L"),
            (MINUTE - 1, Complete(&[1]), "settled", "2L || completed 1"),
            (MINUTE, Complete(&[2]), "settled not 0 MessageLockLost", "2L || completed 1"),
            (MINUTE, FireLocks, "fired released 1", "2+1 || completed 1"),
        ],
    );
    // A schedule.
    check(
        queue(),
        [
            (0, send(m().due(10)), "sent 1", "1S"),
            (9, Fire(DeadlineKind::Scheduled), "fired", "1S"),
            (10, Fire(DeadlineKind::Scheduled), "fired activated 1", "2"),
        ],
    );
}

#[test]
fn time_6_a_millisecond_is_kept() {
    check(
        queue(),
        [
            (0, Send(vec![m().ttl(1), m().ttl(2)]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            (1, Release(&[1]), "settled", "2 || expired 1"),
            (1, Take(1), "got 2", "2L || expired 1"),
            (1, Release(&[2]), "settled", "2 || expired 1"),
            (2, Take(1), "got", "|| expired 2"),
        ],
    );
    // Odd or even, of a lock and of a schedule.
    for now in [0, 1] {
        check(
            queue(),
            [
                (now, send(m()), "sent 1", "1"),
                (now, Take(1), "got 1", "1L"),
                (now + MINUTE - 1, FireLocks, "fired", "1L"),
                (now + MINUTE, FireLocks, "fired released 1", "1+1"),
            ],
        );
        check(
            queue(),
            [
                (0, send(m().due(now + 10)), "sent 1", "1S"),
                (now + 9, Fire(DeadlineKind::Scheduled), "fired", "1S"),
                (now + 10, Fire(DeadlineKind::Scheduled), "fired activated 1", "2"),
            ],
        );
    }
}

#[test]
fn time_7_a_release_counts_then_expires_then_meets_the_limit_then_returns() {
    // Expired and at its last delivery: counted, then dead-lettered for expiry.
    let play = check(
        domain::QueueProperties { max_delivery_count: 1, ..dead_lettering() },
        [
            (0, Send(vec![m().ttl(10), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (MINUTE, FireLocks, "fired dead-lettered 2 released 2", "| 1+1 2+1"),
        ],
    );
    assert_eq!(play.reason(1).0.as_deref(), Some("TTLExpiredException"));
    assert_eq!(play.reason(2).0.as_deref(), Some("MaxDeliveryCountExceeded"));
    // The same order where a receiver meets both, the limit lowered meanwhile.
    let play = check(
        dead_lettering(),
        [
            (0, Send(vec![m().ttl(10), m().ttl(10)]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (0, Abandon(&[1, 2]), "settled", "1+1 2+1"),
            (0, Take(2), "got 1 2", "1L+1 2L+1"),
            (0, Defer(&[2]), "settled", "1L+1 2D+2"),
            (0, Abandon(&[1]), "settled", "1+2 2D+2"),
            (0, Update(|p| p.max_delivery_count = 1), "done", "1+2 2D+2"),
            (10, Take(1), "got", "2D+2 | 1+2"),
            (10, Deferred(&[2]), "MessageNotFound", "| 1+2 2+2"),
        ],
    );
    assert_eq!(play.reason(1).0.as_deref(), Some("TTLExpiredException"));
    assert_eq!(play.reason(2).0.as_deref(), Some("TTLExpiredException"));
    // Neither: counted and available.
    check(
        queue(),
        [
            (0, send(m()), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (MINUTE, FireLocks, "fired released 1", "1+1"),
        ],
    );
}

#[test]
fn time_8_a_timer_may_be_late_but_never_early() {
    let mut play = check(
        domain::QueueProperties { default_ttl: ms(10 * MINUTE), ..queue() },
        [
            (0, Send(vec![m(), m().ttl(50), m().due(60), m()]), "sent 1 2 3 4", "1 2 3S 4"),
            (10, Take(1), "got 1", "1L 2 3S 4"),
            // Hints that come too early: of locks, of each kind of deadline.
            (49, FireAll, "fired", "1L 2 3S 4"),
            (49, Restart, "", "1L 2 3S 4"),
            (49, FireAll, "fired", "1L 2 3S 4"),
        ],
    );
    // And late: the lateness is told.
    play.group.now = at(90);
    let expired = play.fire(DeadlineKind::Fixed, 10);
    assert_eq!((expired.dropped, expired.late_ms_max, expired.late_ms_sum), (1, 40, 40));
    let activated = play.fire(DeadlineKind::Scheduled, 10);
    assert_eq!((activated.activated, activated.late_ms_max, activated.late_ms_sum), (1, 30, 30));
    play.group.now = at(10 + MINUTE + 7);
    let released = play.fire_locks();
    assert_eq!((released.released, released.late_ms_max, released.late_ms_sum), (1, 7, 7));
    play.group.now = at(10 * MINUTE + 3);
    let derived = play.fire(DeadlineKind::Derived, 10);
    assert_eq!((derived.dropped, derived.late_ms_max, derived.late_ms_sum), (2, 3, 6));
    assert_eq!(play.look(), "5 | | expired 3");
}

#[test]
fn time_3_the_development_clock_only_moves_forward() {
    let mut play = Table::new(queue());
    let advance = |by| Command::AdvanceClock { by: ms(by) };
    assert_eq!(play.group.apply(advance(DAY)), domain::Outcome::Done);
    assert_eq!(play.group.apply(advance(HOUR)), domain::Outcome::Done);
    assert_eq!(domain::meta(&play.group.rows).clock_offset, ms(DAY + HOUR));
    assert!(domain::entity_info(&play.group.rows, QUEUE).is_some());
    // A group follows the catalog's: as far, once, and never back.
    let raise = |to| Command::RaiseClock { to: ms(to) };
    for (to, offset) in [(HOUR, DAY + HOUR), (2 * DAY, 2 * DAY), (2 * DAY, 2 * DAY)] {
        assert_eq!(play.group.apply(raise(to)), domain::Outcome::Done);
        let meta = domain::meta(&play.group.rows);
        assert_eq!((meta.clock_offset, meta.last_at), (ms(offset), at(offset)));
    }
}
