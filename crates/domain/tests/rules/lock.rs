//! LOCK: receive modes, locks, settlement.

use domain::{
    Command, Disposition, Key, LockToken, Outcome, QueueProperties, Refusal, Row, SequenceNumber,
    Settle, Settlement, Value,
};

use crate::table::*;

fn locked_until(play: &Table, number: u64) -> u64 {
    match play.group.rows.0.get(&Key::Lock(MAIN, SequenceNumber(number))) {
        Some(Row::Lock(lock)) => lock.until.since(at(0)).0,
        other => panic!("no lock: {other:?}"),
    }
}

#[test]
fn lock_1_peek_lock_keeps_the_message_until_it_is_settled() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            // Not settled: delivered again. At least once.
            (MINUTE, FireLocks, "fired released 1", "1+1 2"),
            (MINUTE, Take(1), "got 1", "1L+1 2"),
            // Receive-and-delete: settled before it is handed out. At most once.
            (MINUTE, Take(1), "got 2", "1L+1 2L"),
            (MINUTE, Complete(&[2]), "settled", "1L+1 || completed 1"),
            (2 * MINUTE, FireLocks, "fired released 1", "1+2 || completed 1"),
        ],
    );
}

#[test]
fn lock_3_other_receivers_skip_a_locked_message() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m(), m()]), "sent 1 2 3", "1 2 3"),
            (0, Take(1), "got 1", "1L 2 3"),
            (0, Take(1), "got 2", "1L 2L 3"),
            (0, Take(9), "got 3", "1L 2L 3L"),
            (0, Take(9), "got", "1L 2L 3L"),
        ],
    );
}

#[test]
fn lock_4_the_lock_clock_starts_when_the_message_is_taken() {
    let mut play = Table::new(queue());
    play.play(0, send(m()));
    play.group.now = at(500);
    let taken = play.taken(MAIN, 1).remove(0);
    assert_eq!(lock(&taken).until, at(500 + MINUTE));
    assert_eq!(queue().lock_duration, ms(MINUTE));
}

#[test]
fn lock_5_the_duration_is_the_one_configured_at_that_instant() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            (1, Update(|p| p.lock_duration = ms(5 * SECOND)), "done", "1L 2"),
            (2, Take(1), "got 2", "1L 2L"),
        ],
    );
    assert_eq!((locked_until(&play, 1), locked_until(&play, 2)), (MINUTE, 2 + 5 * SECOND));
    play.check([(2 + 5 * SECOND, FireLocks, "fired released 1", "1L 2+1")]);
}

#[test]
fn lock_6_a_token_is_fresh_per_delivery_and_never_valid_again() {
    let mut play = Table::new(queue());
    play.play(0, send(m()));
    let mut tokens = Vec::new();
    for round in 0..9 {
        let token = lock(&play.taken(MAIN, 1)[0]).token;
        assert_eq!(token.sequence, SequenceNumber(1));
        assert!(!tokens.contains(&token), "round {round}: {token:?} again");
        for old in &tokens {
            let outcome = play.group.apply(settle(*old, Disposition::Complete));
            assert_eq!(words(&outcome), "settled not 0 MessageLockLost");
        }
        tokens.push(token);
        play.group.apply(settle(token, abandon()));
    }
    // Two deliveries of one command and of one entry have different tokens as well.
    let mut play = Table::new(queue());
    play.play(0, Send(vec![m(), m()]));
    let taken = play.taken(MAIN, 2);
    assert_ne!(lock(&taken[0]).token.nonce, lock(&taken[1]).token.nonce);
}

fn settle(token: LockToken, disposition: Disposition) -> Command {
    let settlements = vec![Settlement { token, disposition }];
    Command::Settle(Settle { origin: None, queue: MAIN, settlements, atomic: false })
}

#[test]
fn lock_7_the_lowest_number_comes_first() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m(), m(), m(), m()]), "sent 1 2 3 4 5", "1 2 3 4 5"),
            (0, Take(4), "got 1 2 3 4", "1L 2L 3L 4L 5"),
            (1, Abandon(&[3]), "settled", "1L 2L 3+1 4L 5"),
            (1, Release(&[1]), "settled", "1 2L 3+1 4L 5"),
            (1, Take(2), "got 1 3", "1L 2L 3L+1 4L 5"),
            (1, Abandon(&[4]), "settled", "1L 2L 3L+1 4+1 5"),
            (1, Abandon(&[2]), "settled", "1L 2+1 3L+1 4+1 5"),
            (1, Take(9), "got 2 4 5", "1L 2L+1 3L+1 4L+1 5L"),
            (2, Abandon(&[5, 1]), "settled", "1+1 2L+1 3L+1 4L+1 5+1"),
            (2, send(m()), "sent 6", "1+1 2L+1 3L+1 4L+1 5+1 6"),
            (2, Take(9), "got 1 5 6", "1L+1 2L+1 3L+1 4L+1 5L+1 6L"),
        ],
    );
}

#[test]
fn lock_8_complete_removes_and_a_second_settlement_is_refused() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (1, Complete(&[1]), "settled", "2L || completed 1"),
            (1, Complete(&[1]), "settled not 0 MessageLockLost", "2L || completed 1"),
            (1, Abandon(&[1]), "settled not 0 MessageLockLost", "2L || completed 1"),
            // Within one request, too.
            (1, Complete(&[2, 2]), "settled not 1 MessageLockLost", "|| completed 2"),
        ],
    );
    assert!(play.group.rows.0.keys().all(|key| !matches!(key, Key::Body(..) | Key::Message(..))));
    assert_eq!(play.info().size_bytes, 0);
    // After an abandon the token is used up as well.
    play.check([
        (2, send(m()), "sent 3", "3 || completed 2"),
        (2, Take(1), "got 3", "3L || completed 2"),
        (2, Abandon(&[3]), "settled", "3+1 || completed 2"),
        (2, Complete(&[3]), "settled not 0 MessageLockLost", "3+1 || completed 2"),
    ]);
}

#[test]
fn lock_9_abandon_counts_and_returns_to_its_own_place() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m(), m()]), "sent 1 2 3", "1 2 3"),
            (0, Take(2), "got 1 2", "1L 2L 3"),
            (0, Abandon(&[2]), "settled", "1L 2+1 3"),
            (0, Take(1), "got 2", "1L 2L+1 3"),
        ],
    );
    assert_eq!(play.info().available, 1);
    play.check([(0, Abandon(&[1, 2]), "settled", "1+1 2+2 3")]);
    assert_eq!(play.info().available, 3);
}

#[test]
fn lock_10_abandon_defer_and_dead_letter_merge_properties() {
    let mut play = Table::new(queue());
    play.play(0, Send(vec![m(), m(), m()]));
    play.play(0, Take(3));
    let first = || properties([("a", text("1")), ("b", Value::Int(2))]);
    let pairs = vec![
        (1, Disposition::Abandon { properties: first() }),
        (2, Disposition::Defer { properties: first() }),
        (3, Disposition::DeadLetter { reason: None, description: None, properties: first() }),
    ];
    assert_eq!(words(&play.dispose(MAIN, pairs, false)), "settled");
    assert_eq!(play.look(), "1+1 2D+1 | 3");
    assert_eq!(play.message(MAIN, 1).overlay.expect("overlay").set, first());
    assert_eq!(play.message(MAIN, 2).overlay.expect("overlay").set, first());
    assert_eq!(play.message(DEAD, 3).overlay.expect("overlay").set, first());

    // Later ones overwrite, and both are handed out.
    play.play(1, Take(1));
    let second = properties([("b", text("new")), ("c", Value::Bool(true))]);
    play.dispose(MAIN, vec![(1, Disposition::Abandon { properties: second })], false);
    let merged = properties([("a", text("1")), ("b", text("new")), ("c", Value::Bool(true))]);
    let taken = play.taken(MAIN, 1).remove(0);
    assert_eq!(taken.overlay.expect("overlay").set, merged);
}

#[test]
fn lock_11_dead_letter_and_defer_end_the_lock() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (0, DeadLetter(&[1]), "settled", "2L | 1"),
            (0, Defer(&[2]), "settled", "2D+1 | 1"),
            (
                0,
                Complete(&[1, 2]),
                "settled not 0 MessageLockLost not 1 MessageLockLost",
                "2D+1 | 1",
            ),
            (MINUTE, FireLocks, "fired", "2D+1 | 1"),
        ],
    );
}

#[test]
fn lock_12_lock_expiry_counts_and_makes_available() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            (10, Take(1), "got 2", "1L 2L"),
            (MINUTE, FireLocks, "fired released 1", "1+1 2L"),
        ],
    );
    assert_eq!(play.info().available, 1);
    play.check([
        (MINUTE + 10, FireLocks, "fired released 1", "1+1 2+1"),
        (MINUTE + 10, Take(2), "got 1 2", "1L+1 2L+1"),
    ]);
}

#[test]
fn lock_13_renewal_starts_the_duration_anew() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            // Not cumulative.
            (10, Renew(&[1]), "until 60010", "1L 2L"),
            (10, Renew(&[1]), "until 60010", "1L 2L"),
            (20, Update(|p| p.lock_duration = ms(5 * SECOND)), "done", "1L 2L"),
            (30, Renew(&[1, 2]), "until 5030 5030", "1L 2L"),
        ],
    );
    assert_eq!(locked_until(&play, 1), 5030);
    play.check([
        (5029, FireLocks, "fired", "1L 2L"),
        // The token stays.
        (5029, Complete(&[1]), "settled", "2L || completed 1"),
        (5030, Renew(&[2]), "MessageLockLost", "2L || completed 1"),
        (5030, FireLocks, "fired released 1", "2+1 || completed 1"),
    ]);
    // All or nothing.
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (5, Complete(&[2]), "settled", "1L || completed 1"),
            (9, Renew(&[1, 2]), "MessageLockLost", "1L || completed 1"),
        ],
    );
    assert_eq!(locked_until(&play, 1), MINUTE);
    play.check([(9, Renew(&[1]), "until 60009", "1L || completed 1")]);
}

#[test]
fn lock_14_without_a_held_lock_nothing_is_settled_or_renewed() {
    let lost = "settled not 0 MessageLockLost";
    check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            // Unknown tokens: of a message never taken, of one that is not there.
            (0, Complete(&[1]), lost, "1 2"),
            (0, Complete(&[9]), lost, "1 2"),
            (0, Renew(&[1]), "MessageLockLost", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            // Expired, though nobody has taken the message since and no timer fired.
            (MINUTE, Complete(&[1]), lost, "1L 2"),
            (MINUTE, Abandon(&[1]), lost, "1L 2"),
            (MINUTE, Defer(&[1]), lost, "1L 2"),
            (MINUTE, DeadLetter(&[1]), lost, "1L 2"),
            (MINUTE, Release(&[1]), lost, "1L 2"),
            (MINUTE, Renew(&[1]), "MessageLockLost", "1L 2"),
            (MINUTE, FireLocks, "fired released 1", "1+1 2"),
            (MINUTE, Complete(&[1]), lost, "1+1 2"),
            (MINUTE, Take(1), "got 1", "1L+1 2"),
        ],
    );
    // The refusal names the token.
    let mut play = Table::new(queue());
    let token = LockToken { sequence: SequenceNumber(3), nonce: 5 };
    let outcome = play.group.apply(settle(token, Disposition::Complete));
    let refusal = Refusal::MessageLockLost { token };
    assert_eq!(outcome, Outcome::Settled { refused: vec![(0, refusal)] });
}

#[test]
fn lock_16_release_unlocks_without_counting() {
    check(
        QueueProperties { max_delivery_count: 2, ..queue() },
        [
            (0, send(m()), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (0, Release(&[1]), "settled", "1"),
            (0, Take(1), "got 1", "1L"),
            (0, Release(&[1]), "settled", "1"),
            (0, Take(1), "got 1", "1L"),
            // Defer and abandon count.
            (0, Defer(&[1]), "settled", "1D+1"),
            (0, Deferred(&[1]), "got 1", "1DL+1"),
            (0, Release(&[1]), "settled", "1D+1"),
            (0, Deferred(&[1]), "got 1", "1DL+1"),
            (0, Abandon(&[1]), "settled", "| 1+2"),
        ],
    );
}

#[test]
fn lock_17_a_list_of_tokens_can_be_one_atomic_step() {
    let pairs = || vec![(1, Disposition::Complete), (2, abandon()), (3, dead_letter())];
    check(
        queue(),
        [
            (0, Send(vec![m(), m(), m()]), "sent 1 2 3", "1 2 3"),
            (0, Take(2), "got 1 2", "1L 2L 3"),
            (0, Atomic(pairs()), "MessageLockLost", "1L 2L 3"),
            (0, Take(1), "got 3", "1L 2L 3L"),
            (1, Atomic(pairs()), "settled", "2+1 | 3 | completed 1"),
            // Not atomic: each for itself.
            (2, Take(1), "got 2", "2L+1 | 3 | completed 1"),
            (2, Complete(&[1, 2]), "settled not 0 MessageLockLost", "| 3 | completed 2"),
        ],
    );
    // The same token twice: the second is lost, so nothing is done.
    let twice = vec![(1, abandon()), (1, Disposition::Complete)];
    check(
        queue(),
        [
            (0, send(m()), "sent 1", "1"),
            (0, Take(1), "got 1", "1L"),
            (0, Atomic(twice), "MessageLockLost", "1L"),
        ],
    );
}

#[test]
fn lock_18_the_lock_of_a_lost_receiver_runs_out_and_counts() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            // The receiver is gone. Invisible until the lock ends …
            (50, Take(1), "got", "1L 2L"),
            // … settled by token by somebody else until then …
            (MINUTE - 1, Complete(&[2]), "settled", "1L || completed 1"),
            (MINUTE, FireLocks, "fired released 1", "1+1 || completed 1"),
        ],
    );
}
