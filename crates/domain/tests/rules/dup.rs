//! DUP: duplicate detection.

use domain::{DeadlineKind, Key, QueueProperties};

use crate::table::*;

fn detecting() -> QueueProperties {
    QueueProperties { requires_duplicate_detection: true, ..queue() }
}

/// The window's end, for an id accepted at 0.
const WINDOW: u64 = 10 * MINUTE;

#[test]
fn dup_1_only_the_message_id_is_compared() {
    check(
        detecting(),
        [
            (0, send(m().id("a").content("one")), "sent 1", "1"),
            (0, send(m().id("a").content("two").size(77).ttl(5)), "sent 1", "1"),
            (0, send(m().id("b").content("one")), "sent 2", "1 2"),
            // In one batch as well.
            (0, Send(vec![m().id("c"), m().id("c"), m().id("d")]), "sent 3 3 4", "1 2 3 4"),
        ],
    );
    // Without the property nothing is detected, and no history kept.
    let play = check(
        queue(),
        [(0, send(m().id("a")), "sent 1", "1"), (0, send(m().id("a")), "sent 2", "1 2")],
    );
    assert!(!play.group.rows.0.keys().any(|key| matches!(key, Key::DuplicateId(..))));
}

/// Of a partitioned queue: the id with the key.
#[test]
fn dup_1_the_partition_key_is_compared_as_well_where_there_are_partitions() {
    let keyed = |id: &str, key: &str| m().id(id).key(key);
    for (enable_partitioning, numbers) in [(false, [1, 1, 1, 1, 1]), (true, [1, 1, 2, 3, 4])] {
        let mut play = Table::new(QueueProperties { enable_partitioning, ..detecting() });
        let messages = [
            keyed("a", "x"),
            keyed("a", "x"),
            keyed("a", "y"),
            m().id("a"),
            m().id("a").session("z"),
        ];
        for (message, number) in messages.into_iter().zip(numbers) {
            assert_eq!(
                play.play(0, send(message.clone())),
                format!("sent {number}"),
                "{message:?}"
            );
        }
    }
}

#[test]
fn dup_2_a_duplicate_is_accepted_and_dropped_at_once() {
    let play = check(
        detecting(),
        [(0, send(m().id("a")), "sent 1", "1"), (5, send(m().id("a")), "sent 1", "1")],
    );
    assert_eq!(play.counts().accepted, 1);
    assert_eq!(play.info().size_bytes, 10);
}

#[test]
fn dup_3_the_window_is_10_minutes_unless_set_and_can_be_changed() {
    assert_eq!(queue().duplicate_detection_window, ms(WINDOW));
    check(
        detecting(),
        [
            (0, send(m().id("a")), "sent 1", "1"),
            (WINDOW - 1, send(m().id("a")), "sent 1", "1"),
            (WINDOW, send(m().id("a")), "sent 2", "1 2"),
        ],
    );
    check(
        QueueProperties { duplicate_detection_window: ms(20 * SECOND), ..detecting() },
        [
            (0, send(m().id("a")), "sent 1", "1"),
            (20 * SECOND, send(m().id("a")), "sent 2", "1 2"),
            (20 * SECOND, Update(|p| p.duplicate_detection_window = ms(7 * DAY)), "done", "1 2"),
            (7 * DAY + 20 * SECOND - 1, send(m().id("a")), "sent 2", "1 2"),
            (7 * DAY + 20 * SECOND, send(m().id("a")), "sent 3", "1 2 3"),
        ],
    );
}

#[test]
fn dup_4_an_entry_is_not_prolonged_and_a_shorter_window_applies_to_it() {
    check(
        detecting(),
        [
            (0, send(m().id("a")), "sent 1", "1"),
            (WINDOW - 1, send(m().id("a")), "sent 1", "1"),
            (WINDOW + 1, send(m().id("a")), "sent 2", "1 2"),
        ],
    );
    check(
        detecting(),
        [
            (0, send(m().id("a")), "sent 1", "1"),
            (30_000, send(m().id("b")), "sent 2", "1 2"),
            (40_000, Update(|p| p.duplicate_detection_window = ms(20 * SECOND)), "done", "1 2"),
            (40_000, send(m().id("a")), "sent 3", "1 2 3"),
            (40_000, send(m().id("b")), "sent 2", "1 2 3"),
        ],
    );
}

#[test]
fn dup_4_the_history_is_removed_when_it_ends() {
    let mut play = check(
        detecting(),
        [
            (0, Send(vec![m().id("a"), m().id("b")]), "sent 1 2", "1 2"),
            (5, send(m().id("c")), "sent 3", "1 2 3"),
            (WINDOW - 1, Fire(DeadlineKind::Duplicate), "fired", "1 2 3"),
        ],
    );
    let kept = |play: &Table| {
        play.group.rows.0.keys().filter(|key| matches!(key, Key::DuplicateId(..))).count()
    };
    assert_eq!(kept(&play), 3);
    play.play(WINDOW, Fire(DeadlineKind::Duplicate));
    assert_eq!(kept(&play), 1);
    play.play(WINDOW + 5, Fire(DeadlineKind::Duplicate));
    assert_eq!(kept(&play), 0);
    // Sends clear up behind themselves: two old ones each.
    let mut play = check(
        detecting(),
        [(0, Send(vec![m().id("a"), m().id("b"), m().id("c")]), "sent 1 2 3", "1 2 3")],
    );
    play.play(WINDOW, send(m().id("d")));
    assert_eq!(kept(&play), 2);
    play.play(WINDOW, send(m().id("e")));
    assert_eq!(kept(&play), 2);
}

#[test]
fn dup_5_an_entry_outlives_its_message() {
    check(
        QueueProperties { ..detecting() },
        [
            (
                0,
                Send(vec![m().id("a"), m().id("b").ttl(5), m().id("c"), m().id("d").due(DAY)]),
                "sent 1 2 3 4",
                "1 2 3 4S",
            ),
            (0, Take(1), "got 1", "1L 2 3 4S"),
            (1, Complete(&[1]), "settled", "2 3 4S || completed 1"),
            (5, FireAll, "fired dropped 1", "3 4S || completed 1 expired 1"),
            (6, Take(1), "got 3", "3L 4S || completed 1 expired 1"),
            (6, DeadLetter(&[3]), "settled", "4S | 3 | completed 1 expired 1"),
            (6, Cancel(&[4]), "done", "| 3 | completed 1 cancelled 1 expired 1"),
            (
                7,
                Send(vec![m().id("a"), m().id("b"), m().id("c"), m().id("d")]),
                "sent 1 2 3 4",
                "| 3 | completed 1 cancelled 1 expired 1",
            ),
        ],
    );
}

#[test]
fn dup_6_scheduled_and_plain_messages_share_the_history() {
    check(
        detecting(),
        [
            (0, send(m().id("a").due(50)), "sent 1", "1S"),
            (1, send(m().id("a")), "sent 1", "1S"),
            (1, send(m().id("b")), "sent 2", "1S 2"),
            (1, send(m().id("b").due(50)), "sent 2", "1S 2"),
            // Checked at send, not at activation.
            (50, FireAll, "fired activated 1", "2 3"),
            (51, send(m().id("a")), "sent 1", "2 3"),
        ],
    );
}

#[test]
fn dup_8_cancel_and_send_again_with_the_same_id_is_dropped() {
    check(
        detecting(),
        [
            (0, send(m().id("a").due(50)), "sent 1", "1S"),
            (1, Cancel(&[1]), "done", "|| cancelled 1"),
            (2, send(m().id("a").due(60)), "sent 1", "|| cancelled 1"),
            (60, FireAll, "fired", "|| cancelled 1"),
        ],
    );
}

#[test]
fn dup_9_a_duplicate_schedule_returns_the_first_number_and_cancel_works() {
    check(
        detecting(),
        [
            (0, Send(vec![m(), m().id("a").due(50)]), "sent 1 2", "1 2S"),
            (1, send(m().id("a").due(50)), "sent 2", "1 2S"),
            (2, Cancel(&[2]), "done", "1 || cancelled 1"),
        ],
    );
}

#[test]
fn dup_10_no_id_is_no_duplicate_and_ids_are_compared_by_their_characters() {
    check(
        detecting(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Send(vec![m().id("a"), m().id("A"), m().id("a ")]), "sent 3 4 5", "1 2 3 4 5"),
            // The same letter, composed and decomposed.
            (0, Send(vec![m().id("é"), m().id("e\u{301}")]), "sent 6 7", "1 2 3 4 5 6 7"),
        ],
    );
}
