//! ERR: which condition is which, and that an error changes nothing.

use domain::{EntityId, EntityStatus, LockToken, Outcome, Refusal, SequenceNumber};

use crate::table::*;

#[track_caller]
fn stands_for(refusal: Refusal, rule: &str, name: &str) {
    assert_eq!((refusal.rule(), refusal.name()), (rule, name));
    let text = refusal.to_string();
    assert!(!text.is_empty() && !text.contains('\n'), "'{text}' is not one line");
}

#[test]
fn err_1_an_entity_that_is_not_there_is_not_found() {
    stands_for(
        Refusal::EntityNotFound { name: "a".to_owned() },
        "ERR-1",
        "MessagingEntityNotFound",
    );
    stands_for(Refusal::StaleRoute { entity: EntityId(1) }, "ERR-1", "MessagingEntityNotFound");
    check(
        queue(),
        [
            (0, DeleteQueue, "done", "no queue"),
            (0, send(m()), "MessagingEntityNotFound", "no queue"),
        ],
    );
}

#[test]
fn err_2_a_taken_name_already_exists() {
    let refusal = Refusal::EntityAlreadyExists { name: "a".to_owned() };
    stands_for(refusal, "ERR-2", "MessagingEntityAlreadyExists");
}

#[test]
fn err_3_a_status_that_forbids_is_disabled() {
    let refusal = Refusal::EntityDisabled { status: "Disabled" };
    stands_for(refusal, "ERR-3", "MessagingEntityDisabled");
    check(
        queue(),
        [
            (0, Status(EntityStatus::Disabled), "done", ""),
            (0, send(m()), "MessagingEntityDisabled", ""),
            (0, Status(EntityStatus::Active), "done", ""),
            (0, send(m()), "sent 1", "1"),
        ],
    );
}

#[test]
fn err_4_a_lock_that_is_not_held_is_lost() {
    let token = LockToken { sequence: SequenceNumber(1), nonce: 1 };
    stands_for(Refusal::MessageLockLost { token }, "ERR-4", "MessageLockLost");
    check(queue(), [(0, Renew(&[1]), "MessageLockLost", "")]);
}

#[test]
fn err_8_a_number_in_no_fitting_state_is_not_found() {
    let refusal = Refusal::MessageNotFound { sequence: SequenceNumber(1), needs: "scheduled" };
    stands_for(refusal, "ERR-8", "MessageNotFound");
    check(
        queue(),
        [(0, Cancel(&[1]), "MessageNotFound", ""), (0, Deferred(&[1]), "MessageNotFound", "")],
    );
    // The refusal names the number.
    let mut play = Table::new(queue());
    match play.receive_deferred(MAIN, &[77]) {
        Outcome::Refused(Refusal::MessageNotFound { sequence, .. }) => {
            assert_eq!(sequence, SequenceNumber(77));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn err_9_too_large_is_size_exceeded() {
    let refusal = Refusal::MessageSizeExceeded { what: "message", bytes: 2, max: 1 };
    stands_for(refusal, "ERR-9", "MessageSizeExceeded");
    let mut play = Table::new(queue());
    match play.send(vec![m().size(300 * 1024)]) {
        Outcome::Refused(Refusal::MessageSizeExceeded { bytes, max, .. }) => {
            assert_eq!((bytes, max), (300 * 1024, 256 * 1024));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn err_10_full_is_quota_exceeded() {
    let refusal = Refusal::QuotaExceeded { what: "queue", used: 2, max: 1 };
    stands_for(refusal, "ERR-10", "QuotaExceeded");
}

#[test]
fn err_12_a_bad_argument_is_an_argument_error() {
    let refusal = Refusal::Argument { what: "name", why: "is empty".to_owned() };
    stands_for(refusal, "ERR-12", "ArgumentException");
}

#[test]
fn err_13_out_of_range_is_its_own_error() {
    let refusal =
        Refusal::ArgumentOutOfRange { what: "count", value: "0".to_owned(), allowed: "1 or more" };
    stands_for(refusal, "ERR-13", "ArgumentOutOfRangeException");
    check(queue(), [(0, Delete(0), "ArgumentOutOfRangeException", "")]);
}

#[test]
fn err_14_properties_too_large_are_a_serialization_error() {
    let refusal = Refusal::Serialization { what: "header".to_owned(), bytes: 2, max: 1 };
    stands_for(refusal, "ERR-14", "SerializationException");
}

#[test]
fn err_15_what_is_not_allowed_here_is_an_invalid_operation() {
    let refusal = Refusal::InvalidOperation { why: "not here" };
    stands_for(refusal, "ERR-15", "InvalidOperationException");
}

#[test]
fn err_16_what_is_not_offered_is_not_supported() {
    let refusal = Refusal::NotSupported { what: "partitioning" };
    stands_for(refusal, "ERR-16", "NotSupportedException");
}

#[test]
fn err_29_a_refused_request_changes_no_row() {
    // The harness holds this for every refusal of every table; here side by side with the rows.
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m().due(DAY), m()]), "sent 1 2 3", "1 2S 3"),
            (0, Take(1), "got 1", "1L 2S 3"),
            (1, Look, "", "1L 2S 3"),
        ],
    );
    let before = play.group.rows.clone();
    let refused = [
        (send(m().size(300 * 1024)), "MessageSizeExceeded"),
        (Send(vec![m(), m().ttl(0)]), "ArgumentOutOfRangeException"),
        (Atomic(vec![(1, abandon()), (3, abandon())]), "MessageLockLost"),
        (Complete(&[3]), "settled not 0 MessageLockLost"),
        (Renew(&[1, 3]), "MessageLockLost"),
        (Cancel(&[2, 3]), "MessageNotFound"),
        (Deferred(&[1]), "MessageNotFound"),
        (Delete(4001), "ArgumentOutOfRangeException"),
        (Update(|p| p.max_delivery_count = 0), "ArgumentOutOfRangeException"),
    ];
    for (action, answer) in refused {
        // At the instant of the last entry, so that not even the group's time moves on.
        assert_eq!(play.play(0, action), answer);
        assert_eq!(play.group.rows, before, "after {answer}");
    }
}
