//! TX: transactions of one entity: all operations or none, at the instant of the commit.

use domain::{
    CancelScheduled, Command, Commit, Disposition, EntityStatus, Key, NewMessage, NewRule,
    Operation, Origin, Outcome, Performed, QueueProperties, Refusal, Renew, Row, SequenceNumber,
    SetSessionState, Settle, Settlement, SubQueue, TRANSACTION_BYTES_MAX, TRANSACTION_COUNT_MAX,
    TRANSACTION_TIMEOUT, TransactionSize, check_held,
};

use crate::support::QUEUE;
use crate::table::*;
use crate::topic::{TOPIC, Topic};

fn sending(messages: Vec<NewMessage>) -> Operation {
    Operation::Send(domain::Send { origin: None, entity: QUEUE, messages })
}

fn settling(play: &Table, numbers: &[u64], disposition: Disposition) -> Operation {
    let settlement = |number: &u64| Settlement {
        token: play.token(MAIN, *number),
        disposition: disposition.clone(),
    };
    let settlements = numbers.iter().map(settlement).collect();
    Operation::Settle(Settle { origin: None, queue: MAIN, settlements, atomic: false })
}

fn renewing(play: &Table, number: u64) -> Operation {
    let tokens = vec![play.token(MAIN, number)];
    Operation::Renew(Renew { origin: None, queue: MAIN, tokens })
}

fn cancelling(numbers: &[u64]) -> Operation {
    let numbers = numbers_of(numbers);
    Operation::CancelScheduled(CancelScheduled { origin: None, entity: QUEUE, numbers })
}

fn commit_of(operations: Vec<Operation>) -> Command {
    Command::Commit(Commit { origin: None, entity: QUEUE, operations })
}

fn commit(play: &mut Table, ms: u64, operations: Vec<Operation>) -> String {
    play.group.now = at(ms);
    words(&play.group.apply(commit_of(operations)))
}

/// A queue with messages 1 to 4 under locks, and 5 scheduled.
fn begun() -> Table {
    let mut play = Table::new(queue());
    play.check([
        (0, Send(vec![m(), m(), m(), m(), m().due(HOUR)]), "sent 1 2 3 4 5", "1 2 3 4 5S"),
        (0, Take(4), "got 1 2 3 4", "1L 2L 3L 4L 5S"),
    ]);
    play
}

#[test]
fn tx_1_what_a_transaction_groups() {
    let mut play = begun();
    let operations = vec![
        settling(&play, &[1], Disposition::Complete),
        settling(&play, &[2], abandon()),
        settling(&play, &[3], defer()),
        settling(&play, &[4], dead_letter()),
        cancelling(&[5]),
        sending(vec![m(), m()]),
        sending(vec![m().due(HOUR)]),
    ];
    assert_eq!(commit(&mut play, 1, operations), "committed done done done done done 6 7 8");
    assert_eq!(play.look(), "2+1 3D+1 6 7 8S | 4 | completed 1 cancelled 1");
    play.check([(1, Take(1), "got 2", "2L+1 3D+1 6 7 8S | 4 | completed 1 cancelled 1")]);
    let renew = vec![renewing(&play, 2)];
    assert_eq!(commit(&mut play, SECOND, renew), "committed renewed");
    // In a dead-letter queue as in any (DLQ-3), its own restriction included (DLQ-4).
    play.play(SECOND, Dead(Box::new(Take(1))));
    let dead = |disposition| {
        let settlements = vec![Settlement { token: play.token(DEAD, 4), disposition }];
        Operation::Settle(Settle { origin: None, queue: DEAD, settlements, atomic: true })
    };
    let (again, complete) = (dead(dead_letter()), dead(Disposition::Complete));
    let refused = "rolled back by 0: InvalidOperationException";
    assert_eq!(commit(&mut play, SECOND, vec![again]), refused);
    assert_eq!(commit(&mut play, SECOND, vec![complete]), "committed done");
}

#[test]
fn tx_2_all_effects_or_none() {
    let mut play = begun();
    let before = play.group.rows.clone();
    let spoiled = vec![
        settling(&play, &[1, 2], Disposition::Complete),
        sending(vec![m(), m().due(HOUR)]),
        settling(&play, &[3], dead_letter()),
        cancelling(&[5]),
        cancelling(&[99]),
    ];
    assert_eq!(commit(&mut play, 0, spoiled.clone()), "rolled back by 4: MessageNotFound");
    assert_eq!(play.group.rows, before, "something is left of it");
    // No number is used up (SEQ-4), and what comes behind in the same entry sees nothing of it.
    let entry = play.group.entry(vec![commit_of(spoiled), commit_of(vec![sending(vec![m()])])]);
    let outcomes = play.group.step(vec![entry]).remove(0);
    assert_eq!(words(&outcomes[1]), "committed 6");
    assert_eq!(play.look(), "1L 2L 3L 4L 5S 6");
}

/// Nothing at all is a transaction too.
#[test]
fn tx_2_an_empty_transaction_is_committed() {
    let mut play = Table::new(queue());
    assert_eq!(commit(&mut play, 0, vec![]), "committed");
    assert_eq!(play.look(), "");
}

#[test]
fn tx_3_err_21_the_timeout_is_two_minutes() {
    assert_eq!(TRANSACTION_TIMEOUT, ms(2 * MINUTE));
    let timed_out = Refusal::TransactionTimedOut;
    assert_eq!((timed_out.name(), timed_out.rule()), ("TransactionException", "ERR-21"));
}

#[test]
fn tx_4_quota_24_err_20_a_transaction_holds_a_hundred_messages_and_a_hundred_settlements() {
    let mut play = Table::new(queue());
    play.play(0, Send(vec![m(); 101]));
    play.play(0, Take(101));
    let numbers: Vec<u64> = (1..=101).collect();
    let messages = |count: usize| sending(vec![m(); count]);
    for (operations, expected) in [
        (vec![messages(101)], "TransactionSizeExceededException"),
        (vec![messages(60), messages(41)], "TransactionSizeExceededException"),
        (vec![settling(&play, &numbers, abandon())], "TransactionSizeExceededException"),
        (vec![settling(&play, &numbers[..100], abandon()), messages(100)], "committed"),
    ] {
        let said = commit(&mut play, 0, operations);
        assert_eq!(said.split(' ').next(), Some(expected));
    }
    // What counts with the settlements, and an operation of nothing counts as well.
    let mut size = TransactionSize::default();
    for operation in [
        settling(&play, &numbers[..97], abandon()),
        renewing(&play, 1),
        cancelling(&[1]),
        settling(&play, &[], abandon()),
    ] {
        assert_eq!(size.add(&operation), Ok(()));
    }
    let full = Refusal::TransactionSizeExceeded {
        what: "settlements and other operations",
        held: TRANSACTION_COUNT_MAX as u64 + 1,
        max: TRANSACTION_COUNT_MAX as u64,
    };
    assert_eq!(size.add(&renewing(&play, 1)), Err(full.clone()));
    assert_eq!(size.add(&messages(100)), Ok(()));
    assert_eq!(full.rule(), "ERR-20");
}

/// One log entry holds it, so its bytes are limited as a batch's are (QUOTA-6).
#[test]
fn tx_4_the_bytes_of_a_transaction_are_limited() {
    let play = Table::new(queue());
    let quarter = TRANSACTION_BYTES_MAX as u32 / 4;
    let mut size = TransactionSize::default();
    for _ in 0..3 {
        assert_eq!(size.add(&sending(vec![m().size(quarter)])), Ok(()));
    }
    let long = text(&"x".repeat(quarter as usize));
    let modified = Disposition::Abandon { properties: properties([("k", long)]) };
    let state = SetSessionState {
        origin: None,
        entity: QUEUE,
        token: play.hold("s"),
        state: Some(vec![0; quarter as usize + 1].into()),
    };
    for operation in [
        settling(&play, &[1], modified),
        settling(&play, &[1], dead_letter_for(Some(&"x".repeat(quarter as usize + 1)), None)),
        Operation::SetState(state),
    ] {
        let refused = size.add(&operation);
        assert!(
            matches!(refused, Err(Refusal::TransactionSizeExceeded { what: "bytes", .. })),
            "{refused:?}"
        );
    }
    assert_eq!(size.bytes(), u64::from(quarter) * 3);
    assert_eq!(size.add(&sending(vec![m().size(quarter)])), Ok(()));
}

#[test]
fn tx_5_a_transaction_is_about_one_entity() {
    let mut play = begun();
    let other = domain::EntityId(QUEUE.0 + 1);
    let name = "Other".to_owned();
    let properties = Box::new(queue());
    play.group.apply(Command::CreateQueue(domain::CreateQueue { entity: other, name, properties }));
    let elsewhere =
        Operation::Send(domain::Send { origin: None, entity: other, messages: vec![m()] });
    let said = commit(&mut play, 0, vec![sending(vec![m()]), elsewhere]);
    assert_eq!(said, "rolled back by 1: InvalidOperationException");
    assert_eq!(play.look(), "1L 2L 3L 4L 5S");
    // The entity is gone: the edge asks for another route.
    let gone = Commit { origin: None, entity: domain::EntityId(99), operations: vec![] };
    let outcome = play.group.apply(Command::Commit(gone));
    let stale = Refusal::StaleRoute { entity: domain::EntityId(99) };
    assert_eq!(outcome, Outcome::Refused(stale));
}

/// TX-6: the entity of a transaction that settles in a subscription and publishes is the topic.
#[test]
fn tx_6_a_topic_and_its_subscriptions_are_one_entity() {
    let mut play = Topic::with(["a", "b"]);
    play.send(m());
    let taken = play.take(play.main("a"), 1).remove(0);
    let (a, b) = (play.main("a"), play.main("b"));
    let settle = |token| {
        let settlements = vec![Settlement { token, disposition: Disposition::Complete }];
        Operation::Settle(Settle { origin: None, queue: a, settlements, atomic: true })
    };
    let publish =
        || Operation::Send(domain::Send { origin: None, entity: TOPIC, messages: vec![m()] });
    let commit = |entity, operations| Command::Commit(Commit { origin: None, entity, operations });
    let token = lock(&taken).token;
    // A subscription alone is not the scope: its topic is.
    let narrow = play.group.apply(commit(b.entity, vec![settle(token)]));
    assert_eq!(words(&narrow), "rolled back by 0: InvalidOperationException");
    // Copies that were made are taken back, and what the topic is charged for them (COUNT-3).
    let before = play.group.rows.clone();
    let lost = domain::LockToken { nonce: token.nonce ^ 1, ..token };
    let spoiled = vec![publish(), settle(token), settle(lost)];
    let refused = play.group.apply(commit(TOPIC, spoiled));
    assert_eq!(words(&refused), "rolled back by 2: MessageLockLost");
    assert_eq!(play.group.rows, before);
    let done = play.group.apply(commit(TOPIC, vec![publish(), settle(token)]));
    assert_eq!(words(&done), "committed 2 done");
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("2", "1 2"));
}

/// A subscription that was worked on before, in the same entry, keeps what that did.
#[test]
fn tx_6_what_the_entry_did_before_stays_charged() {
    let mut play = Topic::with(["a"]);
    play.send_all(vec![m(), m()]);
    let taken = play.take(play.main("a"), 1).remove(0);
    let (queue, token) = (play.main("a"), lock(&taken).token);
    let settlements = vec![Settlement { token, disposition: Disposition::Complete }];
    let settle = Settle { origin: None, queue, settlements, atomic: false };
    let send = domain::Send { origin: None, entity: TOPIC, messages: vec![m()] };
    let operations = vec![Operation::Send(send), Operation::Settle(settle.clone())];
    let spoiled = Commit { origin: None, entity: TOPIC, operations };
    let entry = play.group.entry(vec![Command::Settle(settle), Command::Commit(spoiled)]);
    let outcomes = play.group.step(vec![entry]).remove(0);
    assert_eq!(words(&outcomes[0]), "settled");
    assert_eq!(words(&outcomes[1]), "rolled back by 1: MessageLockLost");
    assert_eq!((play.look("a").as_str(), play.info(TOPIC).size_bytes), ("2", 10));
}

/// One log entry stays bounded, however many sends make its copies.
#[test]
fn tx_6_the_copies_of_a_transaction_are_bounded_together() {
    let mut play = Topic::with(["a"]);
    let rule = |n: u32| NewRule {
        name: format!("r{n}"),
        action: Some(crate::topic::sql("SET a = 1")),
        ..NewRule::default()
    };
    (0..1001).for_each(|n| assert_eq!(play.add("a", rule(n)), "done"));
    let send = || domain::Send { origin: None, entity: TOPIC, messages: vec![m(); 50] };
    let operations = vec![Operation::Send(send()), Operation::Send(send())];
    let before = play.group.rows.clone();
    let commit = Command::Commit(Commit { origin: None, entity: TOPIC, operations });
    let refused = play.group.apply(commit);
    assert_eq!(words(&refused), "rolled back by 1: ArgumentOutOfRangeException");
    assert_eq!(play.group.rows, before);
}

#[test]
fn tx_8_a_lock_outlives_a_refused_transaction() {
    let mut play = begun();
    let until = |play: &Table| match play.group.rows.0.get(&Key::Lock(MAIN, SequenceNumber(1))) {
        Some(Row::Lock(lock)) => lock.until,
        other => panic!("no lock: {other:?}"),
    };
    let before = until(&play);
    let spoiled = vec![
        renewing(&play, 1),
        settling(&play, &[1], Disposition::Complete),
        settling(&play, &[1], Disposition::Complete),
    ];
    assert_eq!(commit(&mut play, SECOND, spoiled), "rolled back by 2: MessageLockLost");
    assert_eq!(until(&play), before);
    // With the same token, in a transaction or without.
    let again = vec![settling(&play, &[1], abandon())];
    assert_eq!(commit(&mut play, SECOND, again), "committed done");
    play.check([(SECOND, Complete(&[2]), "settled", "1+1 3L 4L 5S || completed 1")]);
}

#[test]
fn tx_9_a_lock_that_was_lost_fails_the_commit() {
    let mut play = begun();
    // Checked when it is issued, and again at the commit.
    let token = play.token(MAIN, 1);
    assert_eq!(check_held(&play.group.rows, MAIN, token, at(MINUTE - 1)), Ok(()));
    let lost = Err(Refusal::MessageLockLost { token });
    assert_eq!(check_held(&play.group.rows, MAIN, token, at(MINUTE)), lost);
    let late = vec![sending(vec![m()]), settling(&play, &[1], Disposition::Complete)];
    let said = commit(&mut play, MINUTE, late);
    assert_eq!(said, "rolled back by 1: MessageLockLost");
    assert_eq!(play.look(), "1L 2L 3L 4L 5S");
}

#[test]
fn tx_9_what_is_pending_in_a_transaction_is_withheld_from_others() {
    let mut play = begun();
    let pairs = vec![(1, Disposition::Withheld), (2, Disposition::Complete)];
    let outcome = play.dispose(MAIN, pairs.clone(), false);
    assert_eq!(words(&outcome), "settled not 0 MessageLockLost");
    let outcome = play.dispose(MAIN, vec![(1, Disposition::Withheld), (3, abandon())], true);
    assert_eq!(words(&outcome), "MessageLockLost");
    assert_eq!(play.look(), "1L 3L 4L 5S | | completed 1");
}

#[test]
fn tx_9_a_settlement_is_checked_as_its_queue_has_it() {
    let mut play = Table::new(sessions());
    play.check([
        (0, Send(vec![m().session("s"), m().session("s")]), "sent 1 2", "1 2"),
        (0, Accept("s"), "accepted s until 60000", "1 2"),
        (0, Within("s", InSession::Get(1)), "got 1", "1L 2"),
    ]);
    let held = |play: &Table, number, ms| {
        check_held(&play.group.rows, MAIN, play.token(MAIN, number), at(ms))
    };
    let lost = Err(Refusal::SessionLockLost { session: Some("s".into()) });
    assert_eq!(held(&play, 1, 0), Ok(()));
    assert_eq!(held(&play, 1, MINUTE), lost);
    assert_eq!(held(&play, 2, 0), lost);
    play.play(0, Status(EntityStatus::ReceiveDisabled));
    assert!(matches!(held(&play, 1, 0), Err(Refusal::EntityDisabled { .. })));
    let gone = domain::QueueId { entity: domain::EntityId(99), sub: SubQueue::Main };
    let refused = check_held(&play.group.rows, gone, play.token(MAIN, 1), at(0));
    assert!(matches!(refused, Err(Refusal::StaleRoute { .. })));
}

/// TX-10: what counts is the instant of the commit.
#[test]
fn tx_10_numbers_times_and_checks_are_those_of_the_commit() {
    let mut play = Table::new(queue());
    play.play(0, send(m()));
    assert_eq!(commit(&mut play, 700, vec![sending(vec![m().ttl(SECOND)])]), "committed 2");
    let seen = play.peek(MAIN, 2, 1).remove(0);
    assert_eq!((seen.enqueued_at, seen.expires_at), (at(700), Some(at(1700))));
    // STATE-4, SEND-1: refused as any send is, and the rest with it.
    play.play(700, Take(1));
    let operations = vec![settling(&play, &[1], Disposition::Complete), sending(vec![m()])];
    play.play(700, Status(EntityStatus::SendDisabled));
    let said = commit(&mut play, 700, operations);
    assert_eq!(said, "rolled back by 1: MessagingEntityDisabled");
    assert_eq!(play.look(), "1L 2");
    play.play(700, Status(EntityStatus::Active));
    let large = sending(vec![m().size(300 * 1024)]);
    assert_eq!(commit(&mut play, 700, vec![large]), "rolled back by 0: MessageSizeExceeded");
}

/// SEND-2 at the commit: what an earlier operation frees or takes counts already.
#[test]
fn tx_10_the_quota_is_checked_operation_by_operation() {
    let mut properties = queue();
    properties.max_size_megabytes = 1024;
    let mut play = Table::new(properties);
    let huge = |bytes: u64| m().size(bytes as u32);
    let gigabyte = 1024 * 1024 * 1024u64;
    play.group.now = at(0);
    // 4095 messages of 256 KiB and one that fills it up to the last byte but one.
    for _ in 0..1024 {
        let four = vec![huge(256 * 1024); 4];
        let four = if play.info().size_bytes + 1024 * 1024 >= gigabyte {
            vec![huge(256 * 1024), huge(256 * 1024), huge(256 * 1024), huge(256 * 1024 - 1)]
        } else {
            four
        };
        play.send(four);
    }
    assert_eq!(play.info().size_bytes, gigabyte - 1);
    let two = vec![sending(vec![m()]), sending(vec![m()])];
    assert_eq!(commit(&mut play, 0, two), "rolled back by 1: QuotaExceeded");
    play.play(0, Take(1));
    let freed =
        vec![sending(vec![m()]), settling(&play, &[1], Disposition::Complete), sending(vec![m()])];
    assert_eq!(commit(&mut play, 0, freed), "committed 4097 done 4098");
}

#[test]
fn dup_11_a_transaction_is_checked_against_history_and_itself_at_commit() {
    let mut properties = queue();
    properties.requires_duplicate_detection = true;
    let mut play = Table::new(properties);
    play.play(0, send(m().id("a")));
    let operations = || vec![sending(vec![m().id("a"), m().id("b")]), sending(vec![m().id("b")])];
    let mut spoiled = operations();
    spoiled.push(cancelling(&[77]));
    assert_eq!(commit(&mut play, 0, spoiled), "rolled back by 2: MessageNotFound");
    // A rolled back send records nothing.
    assert_eq!(commit(&mut play, 0, operations()), "committed 1 2 2");
    assert_eq!(play.look(), "1 2");
    assert_eq!(play.play(0, send(m().id("b"))), "sent 2");
}

#[test]
fn sched_12_scheduling_and_cancelling_are_rolled_back() {
    let mut play = begun();
    let spoiled = vec![sending(vec![m().due(HOUR)]), cancelling(&[5]), cancelling(&[5])];
    assert_eq!(commit(&mut play, 0, spoiled), "rolled back by 2: MessageNotFound");
    assert_eq!(play.look(), "1L 2L 3L 4L 5S");
    // What the transaction scheduled it can cancel, its number being the next.
    let both = vec![sending(vec![m().due(HOUR)]), cancelling(&[6])];
    assert_eq!(commit(&mut play, 0, both), "committed 6 done");
    assert_eq!(play.look(), "1L 2L 3L 4L 5S | | cancelled 1");
}

#[test]
fn defer_12_deferral_is_rolled_back() {
    let mut play = begun();
    let spoiled = vec![settling(&play, &[1], defer()), settling(&play, &[1], defer())];
    assert_eq!(commit(&mut play, 0, spoiled), "rolled back by 1: MessageLockLost");
    let kept = vec![settling(&play, &[1], defer())];
    assert_eq!(commit(&mut play, 0, kept), "committed done");
    assert_eq!(play.look(), "1D+1 2L 3L 4L 5S");
}

#[test]
fn sess_16_the_state_is_part_of_a_transaction() {
    let mut play = Table::new(sessions());
    play.check([
        (0, send(m().session("s")), "sent 1", "1"),
        (0, Accept("s"), "accepted s until 60000", "1"),
        (0, Within("s", InSession::Get(1)), "got 1", "1L"),
    ]);
    let state = |play: &Table, state: &'static str| {
        Operation::SetState(SetSessionState {
            origin: None,
            entity: QUEUE,
            token: play.hold("s"),
            state: Some(state.into()),
        })
    };
    let done = vec![
        state(&play, "next"),
        settling(&play, &[1], Disposition::Complete),
        sending(vec![m().session("s"), m().session("t")]),
    ];
    let mut spoiled = done.clone();
    spoiled.push(settling(&play, &[1], Disposition::Complete));
    assert_eq!(commit(&mut play, 0, spoiled), "rolled back by 3: SessionLockLost");
    play.check([(0, Within("s", InSession::State), "no state", "1L")]);
    assert_eq!(commit(&mut play, 0, done), "committed done done 2 3");
    play.check([
        (0, Within("s", InSession::State), "state next", "2 3 || completed 1"),
        (0, Within("s", InSession::Get(9)), "got 2", "2L 3 || completed 1"),
    ]);
}

/// TX-13, TX-14: a commit whose answer was lost is asked again, and answered as the first time.
#[test]
fn tx_14_a_repeated_commit_gets_its_recorded_outcome() {
    let mut play = begun();
    let numbered = |serial, operations| {
        let origin = Origin { producer: 3, serial, ordered: false, retry: false };
        Commit { origin: Some(origin), entity: QUEUE, operations }
    };
    let again = |commit: &Commit| {
        let origin = commit.origin.map(|origin| Origin { retry: true, ..origin });
        Command::Commit(Commit { origin, ..commit.clone() })
    };
    let first = numbered(1, vec![settling(&play, &[1], Disposition::Complete), sending(vec![m()])]);
    let outcome = play.group.apply(Command::Commit(first.clone()));
    let sequences = vec![SequenceNumber(6)];
    let performed = vec![Performed::Done, Performed::Sent { sequences }];
    assert_eq!(outcome, Outcome::Committed { performed });
    assert_eq!(play.group.apply(again(&first)), outcome);
    // One that was rolled back stays so, although it could be done now.
    let second = numbered(2, vec![cancelling(&[7])]);
    let refused = play.group.apply(Command::Commit(second.clone()));
    assert_eq!(words(&refused), "rolled back by 0: MessageNotFound");
    play.play(1, send(m().due(HOUR)));
    assert_eq!(play.group.apply(again(&second)), refused);
    assert_eq!(play.look(), "2L 3L 4L 5S 6 7S | | completed 1");
    // One that never arrived is done when it does.
    let third = numbered(3, vec![sending(vec![m()])]);
    assert_eq!(words(&play.group.apply(again(&third))), "committed 8");
}

/// Of an entity that is not partitioned.
#[test]
fn tx_11_a_transaction_holds_messages_of_different_sessions() {
    let mut play = Table::new(sessions());
    play.check([
        (0, send(m().session("s")), "sent 1", "1"),
        (0, Accept("s"), "accepted s until 60000", "1"),
        (0, Within("s", InSession::Get(1)), "got 1", "1L"),
    ]);
    let keyed = |session: &'static str| sending(vec![m().session(session)]);
    let both = vec![
        settling(&play, &[1], Disposition::Complete),
        keyed("t"),
        sending(vec![m().session("u"), m().session("s")]),
    ];
    assert_eq!(commit(&mut play, 0, both), "committed done 2 3 4");
    assert_eq!(play.look(), "2 3 4 | | completed 1");
}

#[test]
fn tx_11_what_is_sent_to_a_partitioned_entity_in_a_transaction_has_one_key() {
    let refused = "rolled back by 0: InvalidOperationException";
    let other = "rolled back by 1: InvalidOperationException";
    for (detects, messages, expected) in [
        (false, [m().key("a"), m().key("a")], "committed 1 2"),
        (false, [m().session("a"), m().key("a")], "committed 1 2"),
        (false, [m(), m().key("a")], refused),
        (false, [m().key("a"), m()], other),
        (false, [m().key("a"), m().key("b")], other),
        (false, [m().session("a"), m().session("b")], other),
        // A message id is a key where duplicates are detected only.
        (false, [m().id("a"), m().id("a")], refused),
        (true, [m().id("a"), m().key("a")], "committed 1 2"),
        (true, [m().id("a"), m().id("b")], other),
    ] {
        for enable_partitioning in [true, false] {
            let mut play = Table::new(QueueProperties {
                enable_partitioning,
                requires_duplicate_detection: detects,
                ..queue()
            });
            let operations = messages.iter().map(|message| sending(vec![message.clone()]));
            let answer = commit(&mut play, 0, operations.collect());
            let expected = if enable_partitioning { expected } else { "committed 1 2" };
            assert_eq!(answer, expected, "{messages:?}");
        }
    }
}
