//! SCHED: messages for later.

use domain::{DeadlineKind, EntityStatus, MessageState, QueueProperties, SequenceNumber};

use crate::table::*;

#[test]
fn sched_1_a_send_with_a_time_returns_a_number_for_each_message_in_order() {
    check(queue(), [(0, Send(vec![m().due(20), m(), m().due(10)]), "sent 1 2 3", "1S 2 3S")]);
}

#[test]
fn sched_2_it_is_invisible_to_receive_and_visible_to_peek() {
    let mut play = check(
        queue(),
        [
            (0, send(m().due(20).ttl(5)), "sent 1", "1S"),
            (19, Take(9), "got", "1S"),
            (19, Peek(0, 9), "saw 1S", "1S"),
        ],
    );
    let seen = play.peek(MAIN, 0, 9).remove(0);
    assert_eq!((seen.state, seen.scheduled_at), (MessageState::Scheduled, Some(at(20))));
    assert_eq!((seen.enqueued_at, seen.delivery_count, seen.lock), (at(0), 0, None));
    assert_eq!(play.info().available, 0);
    play.check([(20, Take(9), "got", "1S"), (20, FireAll, "fired activated 1", "2")]);
}

#[test]
fn sched_3_cancelling_deletes_what_is_still_scheduled() {
    let play = check(
        queue(),
        [
            (0, Send(vec![m().due(20), m().due(20), m().due(30)]), "sent 1 2 3", "1S 2S 3S"),
            (5, Cancel(&[1, 3]), "done", "2S || cancelled 2"),
            (50, FireAll, "fired activated 1", "4 || cancelled 2"),
        ],
    );
    assert_eq!(play.info().size_bytes, 10);
}

#[test]
fn sched_4_cancelling_what_is_not_scheduled_is_refused_for_the_whole_list() {
    check(
        queue(),
        [
            (0, Send(vec![m().due(20), m().due(30), m()]), "sent 1 2 3", "1S 2S 3"),
            // Unknown, never scheduled, cancelled already, twice in one list.
            (0, Cancel(&[1, 9]), "MessageNotFound", "1S 2S 3"),
            (0, Cancel(&[1, 3]), "MessageNotFound", "1S 2S 3"),
            (0, Cancel(&[1, 1]), "MessageNotFound", "1S 2S 3"),
            (0, Cancel(&[2]), "done", "1S 3 || cancelled 1"),
            (0, Cancel(&[2]), "MessageNotFound", "1S 3 || cancelled 1"),
            // Activated.
            (20, FireAll, "fired activated 1", "3 4 || cancelled 1"),
            (20, Cancel(&[1]), "MessageNotFound", "3 4 || cancelled 1"),
        ],
    );
}

#[test]
fn sched_5_activation_is_one_step_with_a_new_number_time_and_clock() {
    let mut play = check(
        queue(),
        [
            (0, send(m().due(10).ttl(30).content("later")), "sent 1", "1S"),
            (15, Fire(DeadlineKind::Scheduled), "fired activated 1", "2"),
        ],
    );
    let delivery = play.taken(MAIN, 1).remove(0);
    assert_eq!((delivery.sequence, delivery.body), (SequenceNumber(2), SequenceNumber(1)));
    assert_eq!((delivery.enqueued_at, delivery.expires_at), (at(15), Some(at(45))));
    assert_eq!((delivery.state, delivery.scheduled_at), (MessageState::Scheduled, None));
    let counts = play.counts();
    assert_eq!((counts.accepted, counts.scheduled, counts.active), (1, 0, 1));
}

#[test]
fn sched_6_the_due_time_makes_available_and_the_backlog_comes_first() {
    check(
        queue(),
        [
            (0, Send(vec![m().due(10), m(), m()]), "sent 1 2 3", "1S 2 3"),
            (10, FireAll, "fired activated 1", "2 3 4"),
            (10, Take(1), "got 2", "2L 3 4"),
            (10, Take(1), "got 3", "2L 3L 4"),
            (10, Take(1), "got 4", "2L 3L 4L"),
        ],
    );
}

#[test]
fn sched_7_due_messages_activate_in_order_of_time_then_number() {
    let play = check(
        queue(),
        [
            (
                0,
                Send(vec![m().due(30), m().due(10), m().due(20), m().due(10)]),
                "sent 1 2 3 4",
                "1S 2S 3S 4S",
            ),
            (50, FireAll, "fired activated 4", "5 6 7 8"),
        ],
    );
    let bodies: Vec<_> = (5..=8).map(|number| play.message(MAIN, number).body.0).collect();
    assert_eq!(bodies, [2, 4, 3, 1]);
    // Also where one hint takes few at a time.
    let mut play = check(
        queue(),
        [(0, Send(vec![m().due(30), m().due(10), m().due(20)]), "sent 1 2 3", "1S 2S 3S")],
    );
    play.group.now = at(25);
    let first = play.fire(DeadlineKind::Scheduled, 1);
    assert_eq!((first.activated, first.more), (1, true));
    assert_eq!(play.look(), "1S 3S 4");
    let second = play.fire(DeadlineKind::Scheduled, 1);
    assert_eq!((second.activated, second.more), (1, false));
    assert_eq!(play.look(), "1S 4 5");
    assert_eq!(play.message(MAIN, 4).body, SequenceNumber(2));
    assert_eq!(play.fire(DeadlineKind::Scheduled, 1).activated, 0);
}

#[test]
fn sched_8_a_time_not_in_the_future_enqueues_at_once() {
    let play = check(
        queue(),
        [
            (50, Send(vec![m().due(49), m().due(50), m().due(51)]), "sent 1 2 3", "1 2 3S"),
            (50, Take(9), "got 1 2", "1L 2L 3S"),
            // Any future instant is allowed.
            (50, send(m().due(1000 * 365 * DAY)), "sent 4", "1L 2L 3S 4S"),
        ],
    );
    assert_eq!(play.message(MAIN, 1).enqueued_at, at(50));
    assert_eq!(play.message(MAIN, 1).body, SequenceNumber(1));
}

#[test]
fn sched_10_to_move_a_schedule_is_to_cancel_and_send_again() {
    check(
        queue(),
        [
            (0, send(m().due(10)), "sent 1", "1S"),
            (1, Cancel(&[1]), "done", "|| cancelled 1"),
            (1, send(m().due(20)), "sent 2", "2S || cancelled 1"),
            (10, FireAll, "fired", "2S || cancelled 1"),
            (20, FireAll, "fired activated 1", "3 || cancelled 1"),
            // Once, and not again.
            (DAY, FireAll, "fired", "3 || cancelled 1"),
        ],
    );
}

#[test]
fn sched_11_scheduled_messages_count_and_are_deduplicated_at_acceptance() {
    let play = check(
        QueueProperties { requires_duplicate_detection: true, ..queue() },
        [
            (0, send(m().due(10).id("a").size(70)), "sent 1", "1S"),
            (1, send(m().due(20).id("a")), "sent 1", "1S"),
            (2, send(m().id("a")), "sent 1", "1S"),
        ],
    );
    assert_eq!((play.counts().scheduled, play.counts().total()), (1, 1));
    assert_eq!(play.info().size_bytes, 70);
}

#[test]
fn sched_16_activation_is_no_send() {
    check(
        queue(),
        [
            (0, Send(vec![m().due(10), m().due(20), m().due(30)]), "sent 1 2 3", "1S 2S 3S"),
            (5, Status(EntityStatus::SendDisabled), "done", "1S 2S 3S"),
            (10, FireAll, "fired activated 1", "2S 3S 4"),
            (15, Status(EntityStatus::ReceiveDisabled), "done", "2S 3S 4"),
            (20, FireAll, "fired activated 1", "3S 4 5"),
            // It waits while the queue is disabled.
            (25, Status(EntityStatus::Disabled), "done", "3S 4 5"),
            (40, FireAll, "fired", "3S 4 5"),
            (45, Status(EntityStatus::Active), "done", "3S 4 5"),
            (45, FireAll, "fired activated 1", "4 5 6"),
        ],
    );
}
