//! COUNT: counters and their law.

use domain::{Counts, QueueProperties};

use crate::table::*;

/// Messages of every kind, some gone in every way.
fn busy() -> Table {
    check(
        queue(),
        [
            (
                0,
                Send(vec![m(), m(), m(), m(), m().due(DAY), m().due(50)]),
                "sent 1 2 3 4 5 6",
                "1 2 3 4 5S 6S",
            ),
            (0, Send(vec![m().ttl(10), m(), m()]), "sent 7 8 9", "1 2 3 4 5S 6S 7 8 9"),
            (0, Take(4), "got 1 2 3 4", "1L 2L 3L 4L 5S 6S 7 8 9"),
            (1, Complete(&[1]), "settled", "2L 3L 4L 5S 6S 7 8 9 || completed 1"),
            (1, Defer(&[2]), "settled", "2D+1 3L 4L 5S 6S 7 8 9 || completed 1"),
            (1, DeadLetter(&[3]), "settled", "2D+1 4L 5S 6S 7 8 9 | 3 | completed 1"),
            (10, FireAll, "fired dropped 1", "2D+1 4L 5S 6S 8 9 | 3 | completed 1 expired 1"),
            (11, Cancel(&[5]), "done", "2D+1 4L 6S 8 9 | 3 | completed 1 cancelled 1 expired 1"),
            (
                50,
                FireAll,
                "fired activated 1",
                "2D+1 4L 8 9 10 | 3 | completed 1 cancelled 1 expired 1",
            ),
            (
                51,
                Delete(1),
                "deleted 1",
                "2D+1 4L 9 10 | 3 | completed 1 cancelled 1 expired 1 deleted 1",
            ),
        ],
    )
}

#[test]
fn count_1_a_queue_tells_its_counters_its_size_and_its_times() {
    let play = busy();
    let info = play.info();
    assert_eq!(
        info.counts,
        Counts {
            accepted: 9,
            active: 3,
            scheduled: 0,
            deferred: 1,
            dead_lettered: 1,
            completed: 1,
            cancelled: 1,
            expired: 1,
            deleted: 1,
            published: 0,
            transfer: 0,
            transfer_dead_lettered: 0,
            moved: 0,
        }
    );
    assert_eq!((info.available, info.available_dead_letter), (2, 1));
    assert_eq!((info.name.as_str(), info.next_sequence.0), ("Orders", 11));
    assert_eq!((info.created_at, info.updated_at, info.accessed_at), (at(0), at(0), at(51)));
    // Five messages of 10 bytes. No reason was given with the dead one.
    assert_eq!(info.size_bytes, 50);
}

#[test]
fn count_2_locked_messages_are_active_and_deferred_ones_are_not() {
    let play = check(
        queue(),
        [
            (0, Send(vec![m(), m(), m()]), "sent 1 2 3", "1 2 3"),
            (0, Take(2), "got 1 2", "1L 2L 3"),
            (0, Defer(&[2]), "settled", "1L 2D+1 3"),
        ],
    );
    let counts = play.counts();
    assert_eq!((counts.active, counts.deferred, counts.total()), (2, 1, 3));
    // 1 active, 1 dead-lettered, 1 scheduled.
    let play = check(
        queue(),
        [
            (0, Send(vec![m(), m(), m().due(9)]), "sent 1 2 3", "1 2 3S"),
            (0, Take(1), "got 1", "1L 2 3S"),
            (0, DeadLetter(&[1]), "settled", "2 3S | 1"),
        ],
    );
    assert_eq!(play.counts().total(), 3);
}

#[test]
fn count_5_what_was_accepted_is_stored_or_went_somewhere() {
    // The harness holds the law after every step; here it must be able to fail.
    let counts = busy().counts();
    assert!(counts.balanced());
    let mut wrong = counts;
    for change in [
        |c: &mut Counts| c.accepted += 1,
        |c: &mut Counts| c.active += 1,
        |c: &mut Counts| c.scheduled += 1,
        |c: &mut Counts| c.deferred += 1,
        |c: &mut Counts| c.dead_lettered += 1,
        |c: &mut Counts| c.completed += 1,
        |c: &mut Counts| c.cancelled += 1,
        |c: &mut Counts| c.expired += 1,
        |c: &mut Counts| c.deleted += 1,
    ] {
        change(&mut wrong);
        assert!(!wrong.balanced(), "{wrong:?}");
        wrong = counts;
    }
    // Dead-lettering and what follows moves within it.
    let mut play = busy();
    play.check([
        (
            60,
            dead(Take(1)),
            "got 3",
            "2D+1 4L 9 10 | 3L | completed 1 cancelled 1 expired 1 deleted 1",
        ),
        (
            60,
            dead(Complete(&[3])),
            "settled",
            "2D+1 4L 9 10 || completed 2 cancelled 1 expired 1 deleted 1",
        ),
    ]);
    assert_eq!(play.counts().accepted, 9);
}

#[test]
fn count_6_updates_and_accesses_have_their_times_and_reading_changes_neither() {
    let mut play = Table::new(queue());
    let times = |play: &Table| {
        let info = play.info();
        (info.updated_at.since(at(0)).0, info.accessed_at.since(at(0)).0)
    };
    play.play(5, send(m().ttl(100)));
    assert_eq!(times(&play), (0, 5));
    play.play(6, Take(1));
    assert_eq!(times(&play), (0, 6));
    play.play(7, Update(|p| p.max_delivery_count = 3));
    assert_eq!(times(&play), (7, 6));
    play.play(8, Peek(0, 1));
    play.play(9, Look);
    assert_eq!(times(&play), (7, 6));
    // Neither do timers, nor what was refused.
    play.play(10, FireAll);
    play.play(11, Update(|p| p.max_delivery_count = 0));
    play.play(11, Cancel(&[4]));
    assert_eq!(times(&play), (7, 6));
    play.play(12, send(m().due(50)));
    assert_eq!(times(&play), (7, 12));
}

#[test]
fn count_5_duplicates_count_nowhere() {
    let play = check(
        QueueProperties { requires_duplicate_detection: true, ..queue() },
        [(0, Send(vec![m().id("a"), m().id("a")]), "sent 1 1", "1")],
    );
    assert_eq!(play.counts(), Counts { accepted: 1, active: 1, ..Counts::default() });
}
