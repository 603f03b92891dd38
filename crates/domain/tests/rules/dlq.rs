//! DLQ: dead-letter queues.

use domain::{
    Disposition, EntityStatus, HEADER_BYTES_MAX, QueueProperties, REASON_CHARS_MAX, Value,
    properties_bytes,
};

use crate::table::*;

#[test]
fn dlq_1_every_queue_has_one_from_its_creation() {
    check(queue(), [(0, dead(Take(9)), "got", ""), (0, dead(Peek(0, 9)), "saw", "")]);
}

/// Messages 1 to 4 in the dead-letter queue.
fn four_dead() -> Table {
    check(
        queue(),
        [
            (0, Send(vec![m(), m(), m(), m()]), "sent 1 2 3 4", "1 2 3 4"),
            (0, Take(4), "got 1 2 3 4", "1L 2L 3L 4L"),
            (0, DeadLetter(&[1, 2, 3, 4]), "settled", "| 1 2 3 4"),
        ],
    )
}

#[test]
fn dlq_3_it_is_received_from_and_settled_like_a_queue() {
    let mut play = four_dead();
    play.check([
        (0, dead(Take(3)), "got 1 2 3", "| 1L 2L 3L 4"),
        (0, dead(Peek(2, 2)), "saw 2 3", "| 1L 2L 3L 4"),
        (5, dead(Renew(&[1])), "until 60005", "| 1L 2L 3L 4"),
        (5, dead(Complete(&[1])), "settled", "| 2L 3L 4 | completed 1"),
        (5, dead(Abandon(&[2])), "settled", "| 2 3L 4 | completed 1"),
        (5, dead(Defer(&[3])), "settled", "| 2 3D 4 | completed 1"),
        (5, dead(Take(1)), "got 2", "| 2L 3D 4 | completed 1"),
        (5, dead(Deferred(&[3])), "got 3", "| 2L 3DL 4 | completed 1"),
        (5, dead(Release(&[3])), "settled", "| 2L 3D 4 | completed 1"),
        (5, Update(|p| p.lock_duration = ms(5 * SECOND)), "done", "| 2L 3D 4 | completed 1"),
        // The lock duration is its parent's.
        (5, dead(Take(1)), "got 4", "| 2L 3D 4L | completed 1"),
        (5005, FireLocks, "fired released 1", "| 2L 3D 4 | completed 1"),
        (5006, dead(Delete(9)), "deleted 1", "| 2L 3D | completed 1 deleted 1"),
    ]);
    // Its tokens are no tokens of the main queue.
    play.check([(
        5006,
        Complete(&[2]),
        "settled not 0 MessageLockLost",
        "| 2L 3D | completed 1 deleted 1",
    )]);
}

#[test]
fn dlq_4_no_dead_lettering_from_it_no_expiry_no_delivery_count() {
    check(
        QueueProperties { max_delivery_count: 1, default_ttl: ms(SECOND), ..queue() },
        [
            (0, send(m().ttl(10)), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (0, DeadLetter(&[1]), "settled", "| 1"),
            (DAY, dead(Take(1)), "got 1", "| 1L"),
            (DAY, dead(DeadLetter(&[1])), "settled not 0 InvalidOperationException", "| 1L"),
            // Whatever ends a delivery there, it is not counted.
            (DAY, dead(Abandon(&[1])), "settled", "| 1"),
            (DAY, dead(Take(1)), "got 1", "| 1L"),
            (DAY + MINUTE, FireLocks, "fired released 1", "| 1"),
            (DAY + MINUTE, dead(Take(1)), "got 1", "| 1L"),
            (DAY + MINUTE, dead(Defer(&[1])), "settled", "| 1D"),
            (DAY + MINUTE, dead(Deferred(&[1])), "got 1", "| 1DL"),
            (DAY + MINUTE, dead(Abandon(&[1])), "settled", "| 1D"),
            (DAY + MINUTE, dead(Deferred(&[1])), "got 1", "| 1DL"),
            (DAY + 2 * MINUTE, FireLocks, "fired released 1", "| 1D"),
        ],
    );
    // What it came with stays.
    let mut play = check(
        QueueProperties { max_delivery_count: 2, ..queue() },
        [
            (0, send(m()), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (0, Abandon(&[1]), "settled", "1+1"),
            (0, Take(1), "got 1", "1L+1"),
            (0, Abandon(&[1]), "settled", "| 1+2"),
        ],
    );
    for _ in 0..3 {
        assert_eq!(play.taken(DEAD, 1)[0].delivery_count, 2);
        play.play(0, dead(Abandon(&[1])));
    }
}

#[test]
fn dlq_5_an_application_gives_reason_description_and_properties() {
    let mut play = Table::new(queue());
    play.play(0, Send(vec![m(), m(), m()]));
    play.play(0, Take(3));
    let with = |reason: &str, description: &str| Disposition::DeadLetter {
        reason: Some(reason.to_owned()),
        description: Some(description.to_owned()),
        properties: properties([("a", Value::Int(1))]),
    };
    let longest = "é".repeat(REASON_CHARS_MAX);
    let longer = "é".repeat(REASON_CHARS_MAX + 1);
    let out = "settled not 0 ArgumentOutOfRangeException";
    assert_eq!(words(&play.dispose(MAIN, vec![(1, with(&longer, "d"))], false)), out);
    assert_eq!(words(&play.dispose(MAIN, vec![(1, with("r", &longer))], false)), out);
    assert_eq!(play.look(), "1L 2L 3L");
    let pairs = vec![(1, with(&longest, &longest)), (2, dead_letter_for(Some("only"), None))];
    assert_eq!(words(&play.dispose(MAIN, pairs, false)), "settled");
    assert_eq!(play.reason(1), (Some(longest.clone()), Some(longest)));
    assert_eq!(play.reason(2), (Some("only".to_owned()), None));
    let set = play.message(DEAD, 1).overlay.expect("overlay").set;
    assert_eq!(set.get("a"), Some(&Value::Int(1)));
    // Both are optional.
    play.check([(0, DeadLetter(&[3]), "settled", "| 1 2 3")]);
    assert_eq!(play.reason(3), (None, None));
}

#[test]
fn dlq_6_messages_stay_and_count_against_the_size() {
    let mut play = four_dead();
    assert!(play.info().size_bytes >= 40);
    play.check([
        (400 * DAY, FireAll, "fired", "| 1 2 3 4"),
        (400 * DAY, dead(Take(1)), "got 1", "| 1L 2 3 4"),
        (400 * DAY, dead(Complete(&[1])), "settled", "| 2 3 4 | completed 1"),
        (400 * DAY, dead(Delete(9)), "deleted 3", "|| completed 1 deleted 3"),
    ]);
    assert_eq!(play.info().size_bytes, 0);
}

#[test]
fn dlq_7_the_brokers_reasons_are_literal() {
    let play = check(
        QueueProperties { max_delivery_count: 2, ..dead_lettering() },
        [
            (0, Send(vec![m().ttl(10), m()]), "sent 1 2", "1 2"),
            (10, FireAll, "fired dead-lettered 1", "2 | 1"),
            (10, Take(1), "got 2", "2L | 1"),
            (10, Abandon(&[2]), "settled", "2+1 | 1"),
            (10, Take(1), "got 2", "2L+1 | 1"),
            (10, Abandon(&[2]), "settled", "| 1 2+2"),
        ],
    );
    let owned =
        |reason: &str, description: &str| (Some(reason.to_owned()), Some(description.to_owned()));
    let expired = owned("TTLExpiredException", "The message expired and was dead lettered.");
    let exhausted = owned(
        "MaxDeliveryCountExceeded",
        "Message could not be consumed after 2 delivery attempts.",
    );
    assert_eq!((play.reason(1), play.reason(2)), (expired, exhausted));
}

#[test]
fn dlq_8_reason_and_description_are_user_properties() {
    let mut play = Table::new(queue());
    play.play(0, Send(vec![m(), m()]));
    play.play(0, Take(2));
    play.dispose(MAIN, vec![(1, dead_letter_for(Some("r"), Some("d")))], false);
    let overlay = play.taken(DEAD, 1).remove(0).overlay.expect("overlay");
    let expected =
        properties([("DeadLetterReason", text("r")), ("DeadLetterErrorDescription", text("d"))]);
    assert_eq!(overlay.set, expected);
    // A value that is no string, given as a property, is kept as such.
    let odd = properties([("DeadLetterReason", Value::Int(5))]);
    let how = Disposition::DeadLetter { reason: None, description: None, properties: odd.clone() };
    play.dispose(MAIN, vec![(2, how)], false);
    assert_eq!(play.message(DEAD, 2).overlay.expect("overlay").set, odd);
    assert_eq!(play.reason(2), (None, None));
}

#[test]
fn dlq_9_each_dead_lettering_overwrites_or_removes_what_was_there() {
    let mut play = Table::new(dead_lettering());
    play.play(0, Send(vec![m(), m(), m().ttl(10)]));
    play.play(0, Take(3));
    let stale = || Disposition::Abandon {
        properties: properties([
            ("DeadLetterReason", text("stale")),
            ("DeadLetterErrorDescription", text("stale")),
        ]),
    };
    play.dispose(MAIN, vec![(1, stale()), (2, stale()), (3, stale())], false);
    play.play(0, Take(3));
    // By the application, with new values, and without.
    let fresh = dead_letter_for(Some("new"), Some("newer"));
    play.dispose(MAIN, vec![(1, fresh), (2, dead_letter())], false);
    assert_eq!(play.reason(1), (Some("new".to_owned()), Some("newer".to_owned())));
    let overlay = play.message(DEAD, 2).overlay.expect("overlay");
    assert!(overlay.set.is_empty(), "{:?}", overlay.set);
    // Also what stands in the content under these names does not show any more.
    let mut removed = overlay.removed;
    removed.sort();
    assert_eq!(removed, ["DeadLetterErrorDescription", "DeadLetterReason"]);
    // By the broker.
    play.play(10, Abandon(&[3]));
    assert_eq!(play.reason(3).0.as_deref(), Some("TTLExpiredException"));
    let removed = play.message(DEAD, 3).overlay.expect("overlay").removed;
    assert!(removed.is_empty(), "set and removed at once: {removed:?}");
}

#[test]
fn dlq_10_order_is_by_number_and_counts_are_carried_over() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m(), m(), m()]), "sent 1 2 3 4", "1 2 3 4"),
            (0, Take(4), "got 1 2 3 4", "1L 2L 3L 4L"),
            (0, Abandon(&[3]), "settled", "1L 2L 3+1 4L"),
            (0, Take(1), "got 3", "1L 2L 3L+1 4L"),
            (1, DeadLetter(&[3]), "settled", "1L 2L 4L | 3+1"),
            (1, DeadLetter(&[4]), "settled", "1L 2L | 3+1 4"),
            // Received in part: what comes later with a lower number still comes before the rest.
            (1, dead(Take(1)), "got 3", "1L 2L | 3L+1 4"),
            (2, Defer(&[1]), "settled", "1D+1 2L | 3L+1 4"),
            (2, Deferred(&[1]), "got 1", "1DL+1 2L | 3L+1 4"),
            // A deferred message enters as an active one.
            (2, DeadLetter(&[1]), "settled", "2L | 1+1 3L+1 4"),
            (2, DeadLetter(&[2]), "settled", "| 1+1 2 3L+1 4"),
            (3, dead(Take(9)), "got 1 2 4", "| 1L+1 2L 3L+1 4L"),
        ],
    );
    assert_eq!(play.state().dead_letter_deferred, 0);
    play.check([(4, dead(Abandon(&[3])), "settled", "| 1L+1 2L 3+1 4L")]);
}

#[test]
fn dlq_13_resubmission_is_a_new_message() {
    let mut play = four_dead();
    play.check([
        (9, dead(Take(1)), "got 1", "| 1L 2 3 4"),
        (9, send(m()), "sent 5", "5 | 1L 2 3 4"),
        (9, dead(Complete(&[1])), "settled", "5 | 2 3 4 | completed 1"),
    ]);
    let row = play.message(MAIN, 5);
    assert_eq!((row.enqueued_at, row.delivery_count, row.overlay), (at(9), 0, None));
}

#[test]
fn dlq_14_dead_lettering_is_one_step_whatever_its_cause() {
    // After each line the invariants hold: one body per message, in one place, counted once.
    let mut play = check(
        QueueProperties { max_delivery_count: 1, ..dead_lettering() },
        [
            (0, Send(vec![m(), m().ttl(10), m(), m(), m().ttl(10)]), "sent 1 2 3 4 5", "1 2 3 4 5"),
            (0, Take(4), "got 1 2 3 4", "1L 2L 3L 4L 5"),
            (1, DeadLetter(&[1]), "settled", "2L 3L 4L 5 | 1"),
            (10, Take(1), "got", "2L 3L 4L | 1 5"),
            (11, Abandon(&[2]), "settled", "3L 4L | 1 2+1 5"),
            (12, Abandon(&[3]), "settled", "4L | 1 2+1 3+1 5"),
            (MINUTE, FireLocks, "fired dead-lettered 1 released 1", "| 1 2+1 3+1 4+1 5"),
        ],
    );
    let counts = play.counts();
    assert_eq!((counts.accepted, counts.dead_lettered, counts.total()), (5, 5, 5));
    // And refused as one step: a disabled queue takes no settlement.
    play = check(
        queue(),
        [
            (0, send(m()), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (0, Status(EntityStatus::Disabled), "done", "1L"),
            (0, DeadLetter(&[1]), "MessagingEntityDisabled", "1L"),
        ],
    );
    assert_eq!(play.counts().dead_lettered, 0);
}

#[test]
fn dlq_15_a_long_explanation_is_cut_to_fit_description_first() {
    let names = "DeadLetterReason".len() + "DeadLetterErrorDescription".len();
    let dead_with = |room: usize, reason: &str, description: &str| {
        let mut play = Table::new(queue());
        play.play(0, send(m().header((HEADER_BYTES_MAX - room) as u32)));
        play.play(0, Take(1));
        let how = dead_letter_for(Some(reason), Some(description));
        assert_eq!(words(&play.dispose(MAIN, vec![(1, how)], false)), "settled");
        assert_eq!(play.look(), "| 1");
        let row = play.message(DEAD, 1);
        assert!(row.header_bytes as usize <= HEADER_BYTES_MAX, "{} bytes", row.header_bytes);
        let overlay = row.overlay.unwrap_or_default();
        let sent = HEADER_BYTES_MAX - room;
        assert_eq!(row.header_bytes as usize, sent + properties_bytes(&overlay.set));
        play.reason(1)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(dead_with(names + 12, "reason", "detail"), (some("reason"), some("detail")));
    assert_eq!(dead_with(names + 9, "reason", "detail"), (some("reason"), some("det")));
    assert_eq!(dead_with("DeadLetterReason".len() + 3, "reason", "detail"), (some("rea"), None));
    assert_eq!(dead_with(0, "reason", "detail"), (None, None));
    // Characters are not torn.
    assert_eq!(dead_with(names + 9, "reason", "ééé"), (some("reason"), some("é")));
    // The broker's own reasons likewise: expiry never fails for the header.
    let mut play = Table::new(dead_lettering());
    play.play(0, send(m().ttl(5).header(HEADER_BYTES_MAX as u32)));
    play.check([(5, FireAll, "fired dead-lettered 1", "| 1")]);
    assert_eq!(play.reason(1), (None, None));
}
