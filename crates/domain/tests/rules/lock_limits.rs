//! LOCK: delivery counts and limits.

use domain::{EntityStatus, Outcome, QueueProperties};

use crate::table::*;

fn most(count: u32) -> QueueProperties {
    QueueProperties { max_delivery_count: count, ..queue() }
}

#[test]
fn lock_19_the_stored_count_is_of_finished_unsuccessful_deliveries() {
    let mut play = check(queue(), [(0, send(m()), "sent 1", "1")]);
    assert_eq!(play.taken(MAIN, 1)[0].delivery_count, 0);
    // A delivery under way is not counted yet, on peek neither.
    assert_eq!(play.peek(MAIN, 0, 1)[0].delivery_count, 0);
    play.check([(1, Abandon(&[1]), "settled", "1+1")]);
    assert_eq!(play.peek(MAIN, 0, 1)[0].delivery_count, 1);
    assert_eq!(play.taken(MAIN, 1)[0].delivery_count, 1);
    play.check([(1 + MINUTE, FireLocks, "fired released 1", "1+2")]);
    assert_eq!(play.taken(MAIN, 1)[0].delivery_count, 2);
}

#[test]
fn lock_20_loss_by_the_broker_does_not_count() {
    check(
        most(2),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (1, Abandon(&[1, 2]), "settled", "1+1 2+1"),
            (2, Take(2), "got 1 2", "1L+1 2L+1"),
            // A grant that never arrived.
            (3, Release(&[1]), "settled", "1+1 2L+1"),
            // Locks that end while receiving is disabled.
            (4, Status(EntityStatus::ReceiveDisabled), "done", "1+1 2L+1"),
            (2 + MINUTE, FireLocks, "fired released 1", "1+1 2+1"),
        ],
    );
}

#[test]
fn lock_21_the_last_failed_delivery_dead_letters() {
    let mut play = check(
        most(3),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (0, Abandon(&[1]), "settled", "1+1 2L"),
            (MINUTE, FireLocks, "fired released 1", "1+1 2+1"),
            (MINUTE, Take(2), "got 1 2", "1L+1 2L+1"),
            (MINUTE, Abandon(&[1, 2]), "settled", "1+2 2+2"),
            (MINUTE, Take(2), "got 1 2", "1L+2 2L+2"),
            (MINUTE, Abandon(&[1]), "settled", "2L+2 | 1+3"),
            (2 * MINUTE, FireLocks, "fired dead-lettered 1 released 1", "| 1+3 2+3"),
        ],
    );
    let explained = |count| {
        let description = format!("Message could not be consumed after {count} delivery attempts.");
        (Some("MaxDeliveryCountExceeded".to_owned()), Some(description))
    };
    assert_eq!(play.reason(1), explained(3));
    assert_eq!(play.reason(2), explained(3));
    // 1: the first abandon.
    play = check(
        most(1),
        [
            (0, send(m()), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (0, Abandon(&[1]), "settled", "| 1+1"),
        ],
    );
    assert_eq!(play.reason(1), explained(1));
    assert_eq!(queue().max_delivery_count, 10);
}

#[test]
fn lock_22_a_lowered_limit_takes_effect_at_the_next_release_or_delivery() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m(), m()]), "sent 1 2 3", "1 2 3"),
            (0, Take(2), "got 1 2", "1L 2L 3"),
            (0, Abandon(&[1, 2]), "settled", "1+1 2+1 3"),
            (0, Take(2), "got 1 2", "1L+1 2L+1 3"),
            (0, Abandon(&[1, 2]), "settled", "1+2 2+2 3"),
            (0, Take(1), "got 1", "1L+2 2+2 3"),
            // The update itself moves nothing.
            (1, Update(|p| p.max_delivery_count = 2), "done", "1L+2 2+2 3"),
            (1, FireAll, "fired", "1L+2 2+2 3"),
            // At the next delivery attempt: dead-lettered instead.
            (2, Take(9), "got 3", "1L+2 3L | 2+2"),
            // At the next release.
            (2, Abandon(&[1]), "settled", "3L | 1+3 2+2"),
        ],
    );
    assert_eq!(play.reason(1).0.as_deref(), Some("MaxDeliveryCountExceeded"));
    assert_eq!(play.reason(2).0.as_deref(), Some("MaxDeliveryCountExceeded"));
    // A holder may complete, whatever the limit is by now.
    play = check(
        queue(),
        [
            (0, send(m()), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (0, Abandon(&[1]), "settled", "1+1"),
            (0, Take(1), "got 1", "1L+1"),
            (0, Update(|p| p.max_delivery_count = 1), "done", "1L+1"),
            (0, Complete(&[1]), "settled", "|| completed 1"),
        ],
    );
    assert_eq!(play.counts().dead_lettered, 0);
}

#[test]
fn lock_23_locks_outlast_a_restart_and_an_update() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (1, Restart, "", "1L 2L"),
            (1, Take(1), "got", "1L 2L"),
            (2, Update(|p| p.lock_duration = ms(5 * SECOND)), "done", "1L 2L"),
            // Held as long as it was granted for.
            (30 * SECOND, FireLocks, "fired", "1L 2L"),
            (30 * SECOND, Complete(&[1]), "settled", "2L || completed 1"),
            (30 * SECOND, Renew(&[2]), "until 35000", "2L || completed 1"),
            (35 * SECOND, FireLocks, "fired released 1", "2+1 || completed 1"),
        ],
    );
}

#[test]
fn lock_25_messages_that_lapse_in_a_clients_buffer_count_like_any_other() {
    check(
        most(2),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (MINUTE, FireLocks, "fired released 2", "1+1 2+1"),
            (MINUTE, Take(2), "got 1 2", "1L+1 2L+1"),
            (2 * MINUTE, FireLocks, "fired dead-lettered 2 released 2", "| 1+2 2+2"),
        ],
    );
}

#[test]
fn lock_27_6_000_unsettled_messages_of_one_receiver_are_no_limit() {
    let mut play = Table::new(queue());
    for _ in 0..7 {
        assert!(matches!(play.send(vec![m(); 1000]), Outcome::Sent { .. }));
    }
    let mut locked = 0;
    while locked < 6500 {
        let deliveries = play.taken(MAIN, 6500 - locked);
        assert!(!deliveries.is_empty(), "{locked} are locked and no more are given");
        locked += deliveries.len() as u32;
    }
    assert_eq!(play.info().available, 500);
    let held = play.group.rows.0.keys().filter(|key| matches!(key, domain::Key::Lock(..)));
    assert_eq!(held.count(), 6500);
}
