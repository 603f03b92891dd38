//! PEEK: browsing.

use domain::{MessageState, Outcome, QueueProperties};

use crate::table::*;

/// 1 locked, 2 deferred, 3 returned with a failed delivery, 4 scheduled, 5 and 6 fresh, 7 dead.
fn of_every_kind() -> Table {
    check(
        queue(),
        [
            (0, Send(vec![m(), m(), m(), m().due(DAY), m()]), "sent 1 2 3 4 5", "1 2 3 4S 5"),
            (0, Send(vec![m().ttl(10), m()]), "sent 6 7", "1 2 3 4S 5 6 7"),
            (0, Take(9), "got 1 2 3 5 6 7", "1L 2L 3L 4S 5L 6L 7L"),
            (0, DeadLetter(&[7]), "settled", "1L 2L 3L 4S 5L 6L | 7"),
            (0, Defer(&[2]), "settled", "1L 2D+1 3L 4S 5L 6L | 7"),
            (0, Abandon(&[3]), "settled", "1L 2D+1 3+1 4S 5L 6L | 7"),
            (0, Release(&[5, 6]), "settled", "1L 2D+1 3+1 4S 5 6 | 7"),
        ],
    )
}

#[test]
fn peek_1_it_changes_nothing() {
    let play = of_every_kind();
    let rows = play.group.rows.clone();
    let first = play.peek(MAIN, 0, 250);
    assert_eq!(play.peek(MAIN, 0, 250), first);
    assert_eq!(play.group.rows, rows);
    // And a fresh message is still fresh to a receiver.
    let mut play = check(queue(), [(0, send(m()), "sent 1", "1")]);
    play.peek(MAIN, 0, 1);
    play.check([(0, Take(1), "got 1", "1L")]);
}

#[test]
fn peek_2_it_returns_up_to_count_from_a_number_on_ascending() {
    let mut play = of_every_kind();
    let look = play.look();
    let look = &*Box::leak(look.into_boxed_str());
    play.check([
        (0, Peek(0, 9), "saw 1 2D 3 4S 5 6", look),
        (0, Peek(2, 3), "saw 2D 3 4S", look),
        (0, Peek(4, 1), "saw 4S", look),
        (0, Peek(6, 9), "saw 6", look),
        // Nothing left: empty, not an error.
        (0, Peek(7, 9), "saw", look),
        (0, Peek(u64::MAX, 9), "saw", look),
        // A count of at least 1.
        (0, Peek(0, 0), "ArgumentOutOfRangeException", look),
    ]);
}

#[test]
fn peek_3_passing_last_plus_one_sees_each_once() {
    let mut play = Table::new(queue());
    for index in 0..60 {
        play.play(0, send(if index % 3 == 0 { m().due(DAY) } else { m() }));
    }
    let (mut from, mut seen) = (0, Vec::new());
    loop {
        let page = play.peek(MAIN, from, 7);
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 7);
        from = last.sequence.0 + 1;
        seen.extend(page.iter().map(|delivery| delivery.sequence.0));
    }
    assert_eq!(seen, (1..=60).collect::<Vec<_>>());
}

#[test]
fn peek_4_at_most_250_and_fewer_is_no_end() {
    let mut play = Table::new(queue());
    assert!(matches!(play.send(vec![m(); 600]), Outcome::Sent { .. }));
    assert_eq!(play.peek(MAIN, 0, 250).len(), 250);
    assert_eq!(play.peek(MAIN, 0, 600).len(), 250);
    assert_eq!(play.peek(MAIN, 501, 600).len(), 100);
}

#[test]
fn peek_5_active_locked_deferred_scheduled_and_expired_are_seen() {
    let play = of_every_kind();
    let seen: Vec<_> = play.peek(MAIN, 0, 9).iter().map(|d| (d.sequence.0, d.state)).collect();
    let expected = [
        (1, MessageState::Active),
        (2, MessageState::Deferred),
        (3, MessageState::Active),
        (4, MessageState::Scheduled),
        (5, MessageState::Active),
        // Peek takes no time: the sixth may have expired and is seen until it is swept.
        (6, MessageState::Active),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn peek_6_no_lock_is_shown_and_the_stored_count_is() {
    let play = of_every_kind();
    let seen = play.peek(MAIN, 0, 9);
    assert!(seen.iter().all(|delivery| delivery.lock.is_none()));
    let counts: Vec<_> = seen.iter().map(|delivery| delivery.delivery_count).collect();
    assert_eq!(counts, [0, 1, 1, 0, 0, 0]);
    let states = [1, 2, 4].map(|number| play.peek(MAIN, number, 1).remove(0).state);
    assert_eq!(states, [MessageState::Active, MessageState::Deferred, MessageState::Scheduled]);
}

#[test]
fn peek_7_showing_an_expired_message_does_not_make_it_retrievable() {
    let mut play = check(
        QueueProperties { default_ttl: ms(SECOND), ..queue() },
        [
            (0, Send(vec![m().ttl(10), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (1, Release(&[1, 2]), "settled", "1 2"),
            (2000, Peek(0, 9), "saw 1 2", "1 2"),
        ],
    );
    let seen: Vec<_> = play.peek(MAIN, 0, 9).iter().map(|d| d.expires_at).collect();
    assert_eq!(seen, [Some(at(10)), None]);
    play.check([(2000, Take(9), "got", "|| expired 2")]);
}

#[test]
fn peek_8_it_works_on_a_dead_letter_queue() {
    let mut play = of_every_kind();
    let look = &*Box::leak(play.look().into_boxed_str());
    play.check([
        (0, dead(Peek(0, 9)), "saw 7", look),
        (0, dead(Peek(8, 9)), "saw", look),
        // The scheduled are the main queue's.
        (0, dead(Peek(4, 1)), "saw 7", look),
    ]);
}

#[test]
fn peek_11_its_order_is_enqueue_order_whatever_the_order_of_retrieval() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m(), m().due(5)]), "sent 1 2 3", "1 2 3S"),
            (0, Take(1), "got 1", "1L 2 3S"),
            (0, Defer(&[1]), "settled", "1D+1 2 3S"),
            (0, Take(1), "got 2", "1D+1 2L 3S"),
            (5, FireAll, "fired activated 1", "1D+1 2L 4"),
            (5, Deferred(&[1]), "got 1", "1DL+1 2L 4"),
            (5, Peek(0, 9), "saw 1D 2 4", "1DL+1 2L 4"),
        ],
    );
}
