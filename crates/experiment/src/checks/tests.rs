//! Each invariant, kept and broken, by small records.

use std::time::Duration;

use client::v1::message_event::Step;

use super::*;
use crate::file::ReplyKey;
use crate::lives::tests::*;
use crate::timeline::MomentKind;

const HEALED_MS: u64 = 10_000;
const NOW_MS: u64 = 30_000;
const NOTHING: &str = "no message was sent to q that this could be about";

type Row = (u64, &'static str, u64, Step);

fn moment(at_ms: u64, program: &str, kind: MomentKind) -> Moment {
    Moment { at_ms, program: program.to_owned(), kind, told: String::new() }
}

/// What is told of each failure, and until when it is open.
fn told(
    invariant: &Invariant,
    rows: Vec<Row>,
    moments: &[Moment],
    now_ms: u64,
) -> (Vec<String>, Option<u64>) {
    let lives = lives(rows);
    let evidence = Evidence { lives: &lives, moments, healed_ms: HEALED_MS, now_ms };
    let finding = check(invariant, evidence);
    (finding.failures.into_iter().map(|of| of.told).collect(), finding.open_until_ms)
}

/// Rows of: the record, what is told.
fn expect(invariant: &Invariant, table: Vec<(Vec<Row>, &[&str])>) {
    for (rows, expected) in table {
        let shown = format!("{rows:?}");
        assert_eq!(told(invariant, rows, &[], NOW_MS).0, expected, "{shown}");
    }
}

fn q() -> String {
    "q".to_owned()
}

const WITHIN: Duration = Duration::from_secs(5);

#[test]
fn settled_is_what_somebody_completed_or_dead_lettered_with_a_reason_in_time() {
    let invariant = Invariant::Settled { entity: q(), within: WITHIN, receive_and_delete: false };
    let gone = || Step::Expired(client::v1::MessageExpired { late_ms: 0 });
    expect(
        &invariant,
        vec![
            (vec![(0, "q", 1, accepted("a")), (5_000, "q", 1, completed())], &[]),
            (
                vec![(0, "q", 1, accepted("a")), (5_100, "q", 1, completed())],
                &["message 'a' (1) was completed 5.1 s after it came"],
            ),
            (
                vec![(0, "q", 1, accepted("a")), (1, "q", 1, deleted_on_delivery())],
                &[
                    "message 'a' (1) was deleted as it was delivered; nobody said that it was processed",
                ],
            ),
            (vec![(0, "q", 1, accepted("a")), (1, "q", 1, dead_lettered("Broken"))], &[]),
            (
                vec![(0, "q", 1, accepted("a")), (1, "q", 1, dead_lettered(""))],
                &["message 'a' (1) was dead-lettered without a reason"],
            ),
            (vec![(0, "q", 1, accepted("a"))], &["message 'a' (1) is still there to be received"]),
            (
                vec![(0, "q", 1, accepted("a")), (1, "q", 1, locked())],
                &["message 'a' (1) is still locked by a receiver"],
            ),
            (vec![(0, "q", 1, accepted("a")), (1, "q", 1, gone())], &["message 'a' (1) expired"]),
            // Of a topic each copy, and the topic's own until it is handed out.
            (
                vec![(0, "q/subscriptions/s", 1, accepted("a"))],
                &["message 'a' (1) is still there to be received"],
            ),
            (
                vec![
                    (0, "q", 1, accepted("a")),
                    (1, "q/subscriptions/s", 1, accepted("a")),
                    (1, "q", 1, published()),
                    (2, "q/subscriptions/s", 1, completed()),
                ],
                &[],
            ),
            (vec![(0, "q", 1, accepted("a")), (1, "q", 1, published())], &[NOTHING]),
            // Sent after the healing, and one that was there before.
            (
                vec![
                    (0, "q", 1, accepted("a")),
                    (1, "q", 1, completed()),
                    (11_000, "q", 2, accepted("b")),
                ],
                &[],
            ),
            (vec![(0, "other", 1, accepted("a"))], &[NOTHING]),
        ],
    );
    let (failures, open) = told(&invariant, vec![(9_000, "q", 1, accepted("a"))], &[], 12_000);
    assert_eq!((failures, open), (vec![], Some(14_000)), "it may still be completed");
    let lenient = Invariant::Settled { entity: q(), within: WITHIN, receive_and_delete: true };
    let rows = vec![(0, "q", 1, accepted("a")), (1, "q", 1, deleted_on_delivery())];
    expect(&lenient, vec![(rows, &[])]);
}

#[test]
fn completed_once_is_of_ids() {
    expect(
        &Invariant::CompletedOnce { entity: q() },
        vec![
            (
                vec![
                    (0, "q", 1, accepted("a")),
                    (0, "q", 2, accepted("b")),
                    (1, "q", 1, completed()),
                    (2, "q", 2, completed()),
                ],
                &[],
            ),
            (
                vec![
                    (0, "q", 1, accepted("a")),
                    (0, "q", 2, accepted("a")),
                    (1, "q", 1, completed()),
                    (2, "q", 2, completed()),
                ],
                &["message 'a' was completed 2 times"],
            ),
            // The same in two subscriptions is two messages.
            (
                vec![
                    (0, "q/subscriptions/s", 1, accepted("a")),
                    (0, "q/subscriptions/t", 1, accepted("a")),
                    (1, "q/subscriptions/s", 1, completed()),
                    (2, "q/subscriptions/t", 1, completed()),
                ],
                &[],
            ),
            (vec![(0, "q", 1, accepted("")), (1, "q", 1, completed())], &[]),
        ],
    );
}

#[test]
fn a_wait_is_from_when_a_message_is_there_until_it_is_received() {
    let invariant = Invariant::Waited { entity: q(), within: WITHIN };
    expect(
        &invariant,
        vec![
            (vec![(0, "q", 1, accepted("a")), (5_000, "q", 1, locked())], &[]),
            (
                vec![(0, "q", 1, accepted("a")), (6_000, "q", 1, locked())],
                &["message 'a' (1) waited 6.0 s"],
            ),
            (
                vec![(0, "q", 1, accepted("a")), (1, "q", 1, locked()), (2_000, "q", 1, lapsed())],
                &["message 'a' (1) waited 28.0 s, and waits still"],
            ),
        ],
    );
    let (failures, open) = told(&invariant, vec![(9_000, "q", 1, accepted("a"))], &[], 12_000);
    assert_eq!((failures, open), (vec![], Some(14_000)));
}

#[test]
fn a_session_is_in_order_by_its_completions() {
    let two = || vec![(0, "q", 1, in_session("a", "s")), (0, "q", 2, in_session("b", "s"))];
    let with = |more: Vec<Row>| two().into_iter().chain(more).collect::<Vec<Row>>();
    let deferred = || Step::Deferred(client::v1::MessageDeferred {});
    expect(
        &Invariant::SessionOrder { entity: q() },
        vec![
            (with(vec![(1, "q", 1, completed()), (2, "q", 2, completed())]), &[]),
            (
                with(vec![(1, "q", 2, completed()), (2, "q", 1, completed())]),
                &["message 'a' (1) of session 's' was completed after 'b' (2), which came later"],
            ),
            (
                with(vec![
                    (0, "q", 1, deferred()),
                    (1, "q", 2, completed()),
                    (2, "q", 1, completed()),
                ]),
                &[],
            ),
            // Another session has its own order.
            (
                vec![
                    (0, "q", 1, in_session("a", "s")),
                    (0, "q", 2, in_session("b", "t")),
                    (1, "q", 2, completed()),
                    (2, "q", 1, completed()),
                ],
                &[],
            ),
            (
                vec![(0, "q", 1, accepted("a"))],
                &["no message was sent to q that this could be about"],
            ),
        ],
    );
}

#[test]
fn a_request_has_one_reply_in_time() {
    let invariant = Invariant::Replied {
        requests: q(),
        replies: "r".to_owned(),
        by: ReplyKey::MessageId,
        within: WITHIN,
    };
    expect(
        &invariant,
        vec![
            (vec![(0, "q", 1, accepted("a")), (5, "r", 1, reply_to("a"))], &[]),
            (vec![(0, "q", 1, accepted("a"))], &["request 'a' has no reply"]),
            (
                vec![
                    (0, "q", 1, accepted("a")),
                    (5, "r", 1, reply_to("a")),
                    (6, "r", 2, reply_to("a")),
                ],
                &["request 'a' has 2 replies"],
            ),
            (
                vec![(0, "q", 1, accepted("a")), (7_000, "r", 1, reply_to("a"))],
                &["request 'a' has its reply 7.0 s after it"],
            ),
            // Stored twice because its sender was in doubt: one request.
            (
                vec![
                    (0, "q", 1, accepted("a")),
                    (1, "q", 2, accepted("a")),
                    (5, "r", 1, reply_to("a")),
                ],
                &[],
            ),
            (vec![(0, "q", 1, accepted("a")), (1, "q", 1, dead_lettered("Broken"))], &[]),
        ],
    );
    let (failures, open) = told(&invariant, vec![(9_000, "q", 1, accepted("a"))], &[], 12_000);
    assert_eq!((failures, open), (vec![], Some(14_000)));
}

#[test]
fn a_lock_may_lapse_only_where_a_program_ended_or_stood_still() {
    let rows =
        || vec![(0, "q", 1, accepted("a")), (1_000, "q", 1, locked()), (6_000, "q", 1, lapsed())];
    let lost = "the lock of message 'a' (1) was lost after 5.0 s";
    let all = Invariant::LocksKept { entity: q(), program: None };
    let one = Invariant::LocksKept { entity: q(), program: Some("worker".to_owned()) };
    use MomentKind::{Ended, Paused, Resumed, Started};
    for (invariant, moments, expected) in [
        (&all, vec![moment(0, "worker", Started)], vec![lost]),
        (&all, vec![moment(3_000, "worker", Ended)], vec![]),
        (&one, vec![moment(3_000, "worker-2", Ended)], vec![]),
        (&one, vec![moment(3_000, "other", Ended)], vec![lost]),
        // It ended long before, and another one holds it.
        (&all, vec![moment(0, "worker", Started), moment(9_000, "worker", Ended)], vec![lost]),
        (&all, vec![moment(900, "worker", Paused), moment(1_500, "worker", Resumed)], vec![]),
        (&all, vec![moment(100, "worker", Paused), moment(900, "worker", Resumed)], vec![lost]),
    ] {
        assert_eq!(told(invariant, rows(), &moments, NOW_MS).0, expected, "{moments:?}");
    }
}

#[test]
fn a_backlog_is_gone_when_nothing_waits_or_is_locked_for_a_moment() {
    let invariant = Invariant::BacklogCleared { entity: q(), within: WITHIN };
    expect(
        &invariant,
        vec![
            (vec![(0, "q", 1, accepted("a")), (14_000, "q", 1, completed())], &[]),
            (
                vec![(0, "q", 1, accepted("a")), (16_000, "q", 1, completed())],
                &["it was gone 6.0 s after the healing"],
            ),
            (
                vec![
                    (0, "q", 1, accepted("a")),
                    (0, "q", 2, accepted("b")),
                    (11_000, "q", 1, completed()),
                ],
                &["still there: 1 message"],
            ),
            // New ones may come once it was empty.
            (
                vec![
                    (0, "q", 1, accepted("a")),
                    (11_000, "q", 1, completed()),
                    (12_000, "q", 2, accepted("b")),
                ],
                &[],
            ),
            (vec![(0, "q", 1, accepted("a")), (1, "q", 1, dead_lettered("Broken"))], &[]),
        ],
    );
    let (failures, open) = told(&invariant, vec![(0, "q", 1, accepted("a"))], &[], 12_000);
    assert_eq!((failures, open), (vec![], Some(15_000)));
}

#[test]
fn none_dead_lettered_names_the_reason() {
    expect(
        &Invariant::NoneDeadLettered { entity: q() },
        vec![
            (vec![(0, "q", 1, accepted("a")), (1, "q", 1, completed())], &[]),
            (
                vec![(0, "q", 1, accepted("a")), (1, "q", 1, dead_lettered("Broken"))],
                &["message 'a' (1) was dead-lettered: Broken"],
            ),
        ],
    );
}
